"""How deep a schema lets its instances be: never less than what the validator lets through."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.nesting import depth, nesting
from tests.kit.effort import times

CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "levels"),
    [
        (False, 0),
        (True, None),
        ({}, None),
        (5, None),
        (TEXT, 0),
        ({"type": ["string", "null"]}, 0),
        ({"type": []}, None),
        (CLOSED, 1),
        ({"type": "object"}, None),
        ({**CLOSED, "properties": {"a": TEXT}}, 1),
        ({**CLOSED, "properties": {"a": {}}}, None),
        ({**CLOSED, "patternProperties": {"^x": CLOSED}}, 2),
        ({"type": "object", "additionalProperties": TEXT}, 1),
        ({"type": "array"}, None),
        ({"type": "array", "items": TEXT}, 1),
        ({"type": "array", "items": {**CLOSED, "properties": {"a": {"type": "array", "items": TEXT}}}}, 3),
        ({"type": "array", "prefixItems": [CLOSED], "items": False}, 2),
        ({"type": "array", "prefixItems": [CLOSED]}, None),
        ({"type": ["array", "string"], "items": TEXT}, 1),
        ({"enum": ["a", [1, [2]]]}, 2),
        ({"const": {"a": 1}}, 1),
        ({"anyOf": [TEXT, CLOSED]}, 1),
        ({"oneOf": [TEXT, {}]}, None),
        ({"allOf": [{}, CLOSED]}, 1),
        ({"type": "object", "anyOf": [CLOSED, TEXT]}, 1),
        ({"$ref": "#/$defs/t", "$defs": {"t": TEXT}}, 0),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": CLOSED}}, 1),
        ({"$ref": "#/$defs/none"}, None),
        ({"$ref": "http://elsewhere/"}, None),
        ({"$ref": "#/$defs/l", "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}}, None),
        ({"$ref": "#"}, None),
    ],
)
def test_a_schema_says_how_deep_its_instances_are(schema: Any, levels: int | None) -> None:
    assert nesting(schema) == levels


def test_references_that_multiply_are_given_up() -> None:
    doubled = {
        f"d{n}": {**CLOSED, "properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}}
        for n in range(60)
    }
    assert nesting({"$ref": "#/$defs/d0", "$defs": {**doubled, "d60": TEXT}}) is None


NAMES = st.sampled_from(["a", "b"])
SCHEMAS = st.recursive(
    st.sampled_from(
        [True, False, {}, TEXT, {"type": "integer"}, {"type": ["null", "array"]}, {"const": [[]]}]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=2)},
            optional={"additionalProperties": inner, "patternProperties": st.dictionaries(NAMES, inner)},
        ),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["array", ["array", "string"]])},
            optional={"items": inner, "prefixItems": st.lists(inner, min_size=1, max_size=2)},
        ),
        st.fixed_dictionaries(
            {},
            optional={part: st.lists(inner, min_size=1, max_size=2) for part in ("allOf", "anyOf", "oneOf")},
        ),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.just("x"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=times(120))
@given(SCHEMAS, VALUES)
def test_no_valid_instance_is_deeper_than_its_schema_says(schema: Any, value: Any) -> None:
    levels = nesting(schema)
    if levels is not None and jsonschema_rs.Draft202012Validator(schema).is_valid(value):
        assert depth(value) <= levels
