"""Chains as people write them: JSON or TOML, other engines' keys, misspelt keys, and where each stands."""
# ruff: noqa: E501 - tables: a row is read as one line

import json

import pytest

from reconciler.config import jsontext, load
from reconciler.config.text import TextFault
from reconciler.model.chain import Chain
from reconciler.model.inventory import Inventory, Layer, Tree
from reconciler.model.names import Kind, ObjectRef

REF = ObjectRef(Kind.CHAIN, "a")


def read(text: str, file: str = "chains/a.json", **more: str) -> Inventory:
    files = {file: text.encode(), **{name: one.encode() for name, one in more.items()}}
    return load.inventory({Layer.CONFIG: Tree("none", files)})


def said(inventory: Inventory) -> list[tuple[str, str, str]]:
    return [(one.code, str(one.at), one.what) for one in inventory.problems]


def test_json_and_toml_give_the_same_chain() -> None:
    as_json = read('{"id": "a", "tasks": [{"id": "t", "handler": "noop", "timeout": "3s"}]}')
    as_toml = read('id = "a"\n[[tasks]]\nid = "t"\nhandler = "noop"\ntimeout = "3s"\n', "chains/a.toml")
    assert not as_json.problems
    assert not as_toml.problems
    assert as_json.resources[REF].spec == as_toml.resources[REF].spec


def test_null_and_comments_are_left_out() -> None:
    text = '{"$schema": "x", "//": "mine", "id": "a", "token_limit": null, "tasks": [{"id": "t", "handler": "noop", "tools": null}]}'
    inventory = read(text)
    assert not inventory.problems
    spec = inventory.resources[REF].spec
    assert isinstance(spec, Chain)
    assert (spec.token_limit, spec.tasks[0].tools) == (0, None)


def test_a_misspelt_key_is_refused_and_a_foreign_one_is_told() -> None:
    text = '{"id": "a", "tasks": [\n {"id": "t", "handler": "noop", "retries_on_failure": 3,\n  "compact_policy": {}}]}'
    inventory = read(text)
    assert said(inventory) == [
        ("H101", "chains/a.json:2:33", "'retries_on_failure' is not a key of tasks[0]"),
        ("H237", "chains/a.json:3:3", "'compact_policy' says nothing here"),
    ]
    assert REF not in inventory.resources


@pytest.mark.parametrize(
    ("task", "code", "place", "what"),
    [
        ('{"id": "t", "timeout": "3 s"}', "H103", "1:46", "tasks[0].timeout '3 s' is not written as it has to be"),
        ('{"id": "t", "retry_on_failure": "3"}', "H103", "1:55", "tasks[0].retry_on_failure is text, not a whole number"),
        ('{"id": "t", "execute_config": {"max_tokens": "abc"}}', "H103", "1:68", "tasks[0].execute_config.max_tokens 'abc' is not written as it has to be"),
        ('{"id": "t", "execute_config": {"max_tokens": -1}}', "H103", "1:68", "tasks[0].execute_config.max_tokens is -1, not a number from 0 to 2,147,483,648"),
    ],
)  # fmt: skip
def test_a_value_of_another_shape_is_told_with_its_place(task: str, code: str, place: str, what: str) -> None:
    assert said(read('{"id": "a", "tasks": [' + task + "]}")) == [(code, f"chains/a.json:{place}", what)]


def test_the_path_gives_the_id() -> None:
    assert said(read('{"id": "b", "tasks": []}')) == [
        ("H104", "chains/a.json:1:8", "id is 'b', and the path says 'a'")
    ]
    assert [code for code, *_ in said(read("{}", "chains/A_b.json"))] == ["H104"]


def test_one_name_has_one_file() -> None:
    both = {"chains/a.toml": 'id = "a"\ntasks = []\n'}
    inventory = read('{"id": "a", "tasks": []}', **both)
    assert [(code, what) for code, _, what in said(inventory)] == [
        ("H105", "'chains/a.toml' and 'chains/a.json' claim one name")
    ]
    assert REF not in inventory.resources


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ('{"a": 1,}', (1, 9), "this is not JSON: expecting property name enclosed in double quotes"),
        ('{\n// c\n"a": 1}', (2, 1), "this is not JSON: expecting property name enclosed in double quotes"),
        ('{"a": 1, "a": 2}', (1, 10), "the key 'a' is given twice"),
        ('{"a":\n "x\\uD800y"}', (2, 4), "\\ud800 is half a character"),
        ('{"\\udc00": 1}', (1, 3), "\\udc00 is half a character"),
        ('{"a": NaN}', (1, 1), "NaN is no number of JSON"),
        ("[]", (1, 1), "this is no object"),
        ("", (1, 1), "this is not JSON: expecting value"),
        ('{"a": ' + "[" * 3000 + "]" * 3000 + "}", (1, 1), "brackets are nested too deep"),
    ],
)
def test_text_that_is_not_strict_json_is_told_with_its_place(
    text: str, place: tuple[int, int], what: str
) -> None:
    fault = jsontext.read(text.encode())
    assert isinstance(fault, TextFault)
    assert ((fault.line, fault.column), fault.what, fault.code) == (place, what, "S224") or (
        "nested" in fault.what and "nested" in what
    )


def test_what_can_be_read_is_what_json_says() -> None:
    value = {"a": [1, 2.5, None, True, "ä"], "b": {"c": {}}}
    assert jsontext.read(json.dumps(value).encode()) == value
