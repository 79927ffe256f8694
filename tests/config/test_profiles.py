"""Profiles as texts: names, keys, values that every program reads alike, and the digest of the facts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.config import load, profiles, toml
from reconciler.model.inventory import Inventory, Layer, Tree
from reconciler.model.names import Kind, ObjectRef
from tests.admission.test_profiles import GOOD, REGISTER, P
from tests.kit.effort import times

D = "dialects/openai.images@1/dialect.toml"


def loaded(*files: tuple[str, str]) -> Inventory:
    return load.inventory({Layer.CONFIG: Tree("test", {path: text.encode() for path, text in files})})


def table(text: str) -> dict[str, object]:
    found = toml.read(text.encode())
    assert isinstance(found, dict)
    return found


FIELD = "operation[0].field.prompt"
TOLD = [
    (
        P,
        GOOD + "[retention]\nrequestDay = 1\n",
        "D101 28:1",
        "'requestDay' is not a key of retention",
        "write 'requestDays'",
    ),
    (P, GOOD + "extra_body = true\n", "D101 27:1", f"'extra_body' is not a key of {FIELD}", "remove it"),
    (P, GOOD.replace('provider = "acme"\n', ""), "D102 2:1", "'provider' is missing", "add provider"),
    (P, GOOD.replace('"bearer"', '"barer"'), "D103 11:10", "auth.scheme is 'barer'", 'scheme = "bearer"'),
    (P, GOOD.replace("revision = 1", "revision = 2"), "D104 4:12", "is '2', and the path says '1'", "= 1"),
    ("profiles/Acme/1/profile.toml", GOOD, "D104 0:0", "'Acme@1' does not fit as the name", "rename it"),
    ("profiles/acme/one/profile.toml", GOOD, "D104 0:0", "'acme@one' does not fit", "rename it"),
    (P, GOOD + f"default = {2**53 + 1}\n", "D106 27:11", f"{FIELD}.default has no canonical form", "as text"),
    (P, GOOD + "default = inf\n", "D103 27:11", "is no finite number", "finite"),
    (P, GOOD + "default = 2026-11-30\n", "D103 27:11", "is a date or time", "text"),
    (D, REGISTER + "kinds = 1\n", "D111 10:1", "'kinds' is not a key", "write 'kind'"),
    (D, REGISTER.replace('driver = "openai-images@1"\n', ""), "D112", "'driver' is missing", "add driver"),
    (D, REGISTER.replace("version = 1", "version = 0"), "D113 3:11", "version is 0", "write"),
    (D, REGISTER.replace("version = 1", "version = 2"), "D114 3:11", "is '2', and the path says '1'", "= 1"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "at", "what", "mend"), TOLD, ids=lambda one: str(one)[-30:])
def test_what_is_wrong_in_a_profile_is_told_at_its_place(
    path: str, text: str, at: str, what: str, mend: str
) -> None:
    inventory = loaded((path, text))
    said = [f"{one.code} {one.at.line}:{one.at.column} {one.what} | {one.mend}" for one in inventory.problems]
    assert any(one.startswith(at) and what in one and mend in one for one in said), said


def test_names_that_differ_in_case_refuse_each_other() -> None:
    other = P.replace("acme.pictures", "Acme.pictures")
    codes = {one.code for one in loaded((P, GOOD), (other, GOOD)).problems}
    assert codes == {"D104", "D105"}
    other = D.replace("openai", "Openai")
    assert {one.code for one in loaded((D, REGISTER), (other, REGISTER)).problems} == {"D114", "D115"}


def test_a_profile_is_its_facts_and_evidence_beside_it_is_no_part_of_them() -> None:
    ref = ObjectRef(Kind.PROFILE, "acme.pictures@1")
    plain = loaded((P, GOOD)).resources[ref]
    commented = GOOD.replace("revision = 1", "revision   =   1   # the first\n\n")
    evidence = (P.replace("profile.toml", "evidence/20261130-offline.json"), "{}")
    again = loaded((P, commented), evidence).resources[ref]
    assert (plain.digest, sorted(plain.files)) == (again.digest, sorted(again.files))
    changed = GOOD.replace('effect = "none"', 'effect = "paid"')
    assert loaded((P, changed)).resources[ref].digest != plain.digest


_NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.booleans() | st.text(max_size=5) | _NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=4), inner),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=times(60))
@given(st.dictionaries(st.text(min_size=1, max_size=4), _VALUES, max_size=4))
def test_what_is_canonical_has_a_digest_whatever_its_order(values: dict[str, object]) -> None:
    assert not list(profiles.odd_values(values))
    backwards = dict(reversed(list(values.items())))
    assert profiles.digest(values) == profiles.digest(backwards)
