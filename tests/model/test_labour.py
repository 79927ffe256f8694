"""A schema of somebody else's takes no longer than it may, whatever its references and branches repeat."""

import json
import tracemalloc
from typing import Any

import pytest

from reconciler.model import labour
from reconciler.model.contract import checker


def doubling(levels: int, keyword: str) -> dict[str, Any]:
    """A schema whose every level leads to the next one twice."""
    found: dict[str, Any] = {f"l{levels}": {"type": "integer"}}
    for level in range(levels):
        below = {"$ref": f"#/$defs/l{level + 1}"}
        if keyword == "properties":
            inner = {"type": "object", keyword: {"a": below}}
            found[f"l{level}"] = {"anyOf": [inner, dict(inner)]}
        elif keyword == "unevaluatedProperties":
            found[f"l{level}"] = {"allOf": [below], keyword: False}
        elif keyword == "dependencies":
            found[f"l{level}"] = {keyword: {"a": below, "b": dict(below)}}
        else:
            found[f"l{level}"] = {keyword: [below, dict(below)]}
    return {"$ref": "#/$defs/l0", "$defs": found}


def nested(levels: int, leaf: object) -> object:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


TWICE = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"}}]}
HOSTILE: dict[str, dict[str, Any]] = {
    **{
        key: doubling(60, key) for key in ("allOf", "anyOf", "oneOf", "unevaluatedProperties", "dependencies")
    },
    "itself": {"$ref": "#"},
    "anchor": {"anyOf": [{"$ref": "#a"}, {"$ref": "#a"}], "$defs": {"a": {"$anchor": "a"}}},
    "dynamic": {"$dynamicRef": "#"},
    "resource": {"properties": {}, "allOf": [{"$id": "https://x.test/", "$ref": "#/$defs/b"}]},
    "nowhere": {"$ref": "#/$defs/none"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_that_would_take_for_ever_is_refused_before_a_model_is_asked(name: str) -> None:
    with pytest.raises(ValueError, match="too often"):
        checker(HOSTILE[name])


@pytest.mark.parametrize(
    ("schema", "value"),
    [(doubling(40, "properties"), nested(40, "x")), (TWICE, json.loads("[" * 40 + "]" * 40))],
)
def test_a_value_that_would_take_for_ever_fits_no_schema(schema: dict[str, Any], value: object) -> None:
    assert "too long" in checker(schema)(value)


def test_where_words_would_take_long_there_are_few() -> None:
    check = checker(doubling(13, "properties"))
    assert check(nested(13, "x")) == "it does not fit the schema"
    assert check(nested(13, 3)) == ""
    assert "is not valid" in checker(doubling(3, "properties"))(nested(3, "x"))


JSON = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}},
    ]
}
ROW = {"type": "object", "properties": {key: {"type": "string"} for key in "abcde"}, "required": ["a"]}
TREE = {"$defs": {"node": {"type": "object", "properties": {
    "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
    "$ref": "#/$defs/node"}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (JSON, nested(30, [1, "a", None])),
        ({"type": "array", "items": ROW}, [dict.fromkeys("abcde", "x")] * 5_000),
        (TREE, {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}] * 100}] * 50}),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1, 2]),
        ({"patternProperties": {"^x": {"type": "integer"}}, "propertyNames": {"maxLength": 3}}, {"xy": 1}),
    ],
)
def test_what_people_write_is_judged_in_words(schema: dict[str, Any], value: object) -> None:
    assert checker(schema)(value) == ""


def test_steps_are_those_of_every_keyword_that_applies_a_schema() -> None:
    schema = {
        "if": {},
        "then": {},
        "not": False,
        "dependentSchemas": {"a": {}},
        "properties": {"a": {"items": {}}},
    }
    assert labour.steps(schema, {"a": [1, 2]}, 100) == 1 + 4 + 1 + 2
    assert labour.steps(schema, {}, 100) == 1 + 4
    assert labour.steps(schema, {}, 3) == 4


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"allOf": [{"$ref": "#"}] * 3_000}, None),
        ({"patternProperties": {f"^{n}": {} for n in range(3_000)}}, {str(n): 1 for n in range(3_000)}),
    ],
)
def test_counting_takes_little_room_itself(schema: dict[str, Any], value: object) -> None:
    tracemalloc.start()
    try:
        assert labour.steps(schema, value, 50_000) > 50_000
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
