"""Differences key by key: as TOML, whole, and never the words behind a secret."""

from dataclasses import replace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.inventory import Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.recipes import SecretUse
from reconciler.model.resources import Record
from reconciler.plan import keys
from reconciler.plan.keys import Field
from tests.plan.build import admitted, binding, connector, interface

CANARY = "CANARY-hunter2"
_SLOT = '[secretSlots.key]\nenv = "KEY"\n'
_ONE = {**interface("ocr"), **connector("c", "ocr/v1", more=_SLOT)}


def form(more: str, of: str = "b") -> Resource[Record]:
    found = admitted({**_ONE, **binding("b", "c", more)}, clean=False).inventory.resources
    return found[ObjectRef(Kind.BINDING, of)]


def test_values_are_toml_and_a_key_that_is_not_set_has_none() -> None:
    was = form('description = "a"\nmodels = ["x"]\n')
    now = form('models = ["x", "y"]\nsuspend = true\n')
    assert list(keys.fields(was, now)) == [
        Field("description", '"a"', None),
        Field("models", '["x"]', '["x", "y"]'),
        Field("suspend", None, "true"),
    ]
    assert list(keys.fields(was, was)) == list(keys.fields(None, now)) == []


def test_a_secret_reference_is_a_fingerprint_that_moves_with_it() -> None:
    was = form(f'secrets.key = {{ command = ["echo", "{CANARY}"] }}\n')
    now = form('secrets.key = { command = ["echo", "other"] }\n')
    (found,) = keys.fields(was, now)
    assert found.key == "secrets.key.command"
    assert found.before != found.after
    assert CANARY not in repr(found)
    use = SecretUse("key", "command", ("echo", CANARY), "KEY", "env")
    assert CANARY not in keys.fingerprint(use)
    assert keys.fingerprint(use) == keys.fingerprint(replace(use, env="OTHER"))
    assert keys.fingerprint(use) != keys.fingerprint(replace(use, reference=("echo", "x")))


@given(st.text(), st.text())
def test_two_references_that_differ_never_look_the_same(one: str, other: str) -> None:
    use = SecretUse("key", "file", (one,), None, "env")
    same = keys.fingerprint(use) == keys.fingerprint(replace(use, reference=(other,)))
    assert same is (one == other)


def test_files_that_changed_or_got_another_mode_are_named() -> None:
    resources = admitted({**_ONE, **binding("b", "c")}).inventory.resources
    was = cast("Resource[Record]", resources[ObjectRef(Kind.CONNECTOR, "c")])
    more = {**was.files, "new.py": b""}
    assert keys.files(was, replace(was, files=more)) == ("new.py",)
    marked = replace(was, executable=frozenset({"connectors/c/main.py"}))
    assert keys.files(was, marked) == ("main.py",)
    assert keys.files(was, was) == ()
