"""Names are parsed once and printed one way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import (
    InstanceName,
    InterfaceRef,
    Kind,
    ObjectRef,
    name_fault,
    tool_prefix,
)


@pytest.mark.parametrize("name", ["a", "ocr", "ocr-tesseract", "a1-2b", "a" * 40])
def test_a_legal_name_has_no_fault(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "cannot be empty"),
        ("A", "lower-case"),
        ("a_b", "single dashes"),
        ("a--b", "single dashes"),
        ("-a", "start with a letter"),
        ("1a", "start with a letter"),
        ("a-", "single dashes"),
        ("a\n", "single dashes"),
        ("a.b", "single dashes"),
        ("\u043ecr", "U+043E"),
        ("a" * 41, "41 characters, more than 40"),
    ],
)
def test_each_fault_of_a_name_is_one_clause(name: str, words: str) -> None:
    fault = name_fault(name)
    assert fault is not None
    assert words in fault
    assert not fault.endswith(".")


@given(st.text(max_size=20))
def test_what_has_no_fault_is_safe_in_paths_and_sockets(name: str) -> None:
    if name_fault(name) is None:
        assert name == name.casefold()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@given(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), st.integers(1, 999_999))
def test_an_interface_version_prints_as_it_is_read(name: str, version: int) -> None:
    ref = InterfaceRef.parse(f"{name}/v{version}")
    assert (ref.name, ref.version) == (name, version)
    assert InterfaceRef.parse(str(ref)) == ref


@pytest.mark.parametrize(
    "text", ["ocr", "ocr/1", "ocr/v0", "ocr/v01", "OCR/v1", "ocr/v1 ", "ocr/v1000000", "/v1"]
)
def test_what_is_no_interface_version_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="write NAME/vN"):
        InterfaceRef.parse(text)


def test_versions_sort_by_number() -> None:
    versions = [InterfaceRef("ocr", 10), InterfaceRef("ocr", 2)]
    assert sorted(versions) == versions[::-1]


def test_an_object_is_named_by_its_kind_in_full_or_short() -> None:
    assert ObjectRef.parse("b/ocr-a") == ObjectRef.parse("binding/ocr-a") == ObjectRef(Kind.BINDING, "ocr-a")
    assert ObjectRef.parse("if/ocr/v1") == ObjectRef(Kind.INTERFACE, "ocr/v1")
    assert str(ObjectRef(Kind.INTERFACE, "ocr/v1")) == "interface/ocr/v1"
    assert sorted(
        [ObjectRef(Kind.BINDING, "b"), ObjectRef(Kind.AGENT, "c"), ObjectRef(Kind.BINDING, "a")]
    ) == [
        ObjectRef(Kind.AGENT, "c"),
        ObjectRef(Kind.BINDING, "a"),
        ObjectRef(Kind.BINDING, "b"),
    ]


@pytest.mark.parametrize("text", ["ocr-a", "thing/x", "binding/", ""])
def test_what_is_no_object_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="write KIND/NAME"):
        ObjectRef.parse(text)


def test_an_instance_shows_twelve_digits() -> None:
    assert str(InstanceName("ocr-a", "0123456789abcdef" * 4)) == "ocr-a@0123456789ab"


def test_a_tool_starts_with_its_interface() -> None:
    assert tool_prefix("web-search") == "web_search_"


def test_kinds_hash_alike_for_one_object_and_are_few() -> None:
    assert len({kind: kind.value for kind in Kind}) == 11
    assert hash(Kind("binding")) == hash(Kind.BINDING)
