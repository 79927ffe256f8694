"""Two engines, one meaning: what checks calls here says what the official validator of JSON Schema says.

The official test suite (json-schema-org, MIT, beside this file) for every keyword of the portable subset;
then the catalogue's own schemas and instances, bent in every way that Hypothesis finds.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.contract import Tool
from tests.kit.effort import times

ROOT = Path(__file__).resolve().parents[2]
SUITE = Path(__file__).parent / "json_schema_test_suite"
SHARED = ROOT.parent / "shared" / "cases" / "JSON-Schema-Test-Suite" / "tests" / "draft2020-12"
# Moves what references mean, or leads out of the schema: admission refuses it, and so may the engine.
OUTSIDE = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$schema", "https://", "http://", "urn:")
Json = Any


def ours(schema: Json) -> Tool:
    return Tool({"name": "t", "inputSchema": schema, "outputSchema": schema}, kind="call", effect="none")


def official(schema: Json) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema, registry=referencing.Registry())


def groups(folder: Path) -> Iterator[tuple[str, Json, Json]]:
    for path in sorted(folder.glob("*.json")):
        for group in json.loads(path.read_text()):
            yield f"{path.stem}: {group['description']}", group["schema"], group["tests"]


INSIDE = [
    group
    for group in groups(SUITE)
    if isinstance(group[1], dict)
    and not any(word in json.dumps({**group[1], "$schema": ""}).replace('"$schema"', "") for word in OUTSIDE)
]


def without_dialect(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key != "$schema"}


@pytest.mark.parametrize(("name", "schema", "tests"), INSIDE, ids=[one[0] for one in INSIDE])
def test_both_engines_say_what_the_official_suite_says(name: str, schema: Json, tests: Json) -> None:
    schema = without_dialect(schema)
    tool, second = ours(schema), official(schema)
    for one in tests:
        said = tool.output_fault(one["data"]) is None
        assert (said, second.is_valid(one["data"])) == (one["valid"], one["valid"]), one["description"]


def test_the_suite_is_large_enough_to_trust() -> None:
    assert len(INSIDE) > 150
    assert sum(len(tests) for _, _, tests in INSIDE) > 600


def test_the_whole_suite_where_it_lies_beside_the_project() -> None:
    """Every file of the suite, keywords outside of the subset too, when somebody put it there."""
    if not SHARED.is_dir():
        pytest.skip("put json-schema-org/JSON-Schema-Test-Suite into ../shared/cases for all of its keywords")
    for name, schema, tests in groups(SHARED):
        if not isinstance(schema, dict) or any(word in json.dumps(schema) for word in OUTSIDE):
            continue
        tool = ours(schema)
        for one in tests:
            assert (tool.output_fault(one["data"]) is None) == one["valid"], f"{name}: {one['description']}"


# the catalogue, bent

TOOLS = [
    tool
    for path in sorted((ROOT / "catalog" / "interfaces").glob("*/*/tools.json"))
    for tool in json.loads(path.read_text())
]
SCHEMAS = [tool[side] for tool in TOOLS for side in ("inputSchema", "outputSchema")]
_TEXT = st.text(st.sampled_from("abzAZ09-_. é😀/"), max_size=8)
_NUMBER = st.integers(-(2**40), 2**40) | st.sampled_from([0, 1, 1.0, 0.5, -0.0, 1e3, 2**53 - 1])
_ANY = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


def instances(schema: Json, root: Json) -> st.SearchStrategy[Any]:
    """Mostly right instances of a schema of the portable subset."""
    if "$ref" in schema:
        return instances(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return st.one_of(
            [instances({**schema, **branch, "anyOf": (), "oneOf": ()}, root) for branch in branches]
        )
    kinds = schema.get("type", "object")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return st.one_of([_of_kind(kind, schema, root) for kind in kinds])


def _of_kind(kind: str, schema: Json, root: Json) -> st.SearchStrategy[Any]:
    least, most = schema.get("minimum", -9), schema.get("maximum", 99)
    if kind == "string":
        return st.sampled_from(["fr", "de", "eng", "a.pdf", ""]) | _TEXT
    if kind == "integer":
        return st.integers(min(int(least), int(most)) - 1, int(most) + 1)
    if kind == "number":
        return st.integers(int(least) - 1, int(most) + 1) | st.floats(0, 1)
    if kind == "array":
        return st.lists(instances(schema.get("items", {"type": "string"}), root), max_size=4)
    if kind == "boolean":
        return st.booleans()
    if kind == "null":
        return st.none()
    known = {name: instances(inner, root) for name, inner in schema.get("properties", {}).items()}
    required = {name: known.pop(name) for name in schema.get("required", ()) if name in known}
    return st.fixed_dictionaries(required, optional=known)


def places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def bent(draw: st.DrawFn, value: Json, other: st.SearchStrategy[Any]) -> Json:
    """A copy of a value, changed at up to two places: another value, one thing less, one thing more."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(sorted(places(value), key=repr)))
        if not path:
            continue
        owner = value
        for part in path[:-1]:
            owner = owner[part]
        match draw(st.sampled_from(["replace", "delete", "add"])):
            case "replace":
                owner[path[-1]] = draw(other)
            case "delete":
                del owner[path[-1]]
            case _ if isinstance(owner, dict):
                owner[draw(_TEXT)] = draw(other)
            case _:
                owner.append(draw(other))
    return value


@pytest.mark.slow
@settings(max_examples=times(100))
@given(st.data())
def test_both_engines_judge_bent_answers_of_the_catalogue_alike(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(SCHEMAS))
    instance = data.draw(bent(data.draw(instances(schema, schema)), _ANY))
    fault = ours(schema).output_fault(instance)
    assert (fault is None) == official(schema).is_valid(instance), fault


_KEYWORD = st.sampled_from(
    [{"type": "string"}, {"type": ["string", "null"]}, {"maxLength": 2}, {"minimum": 1}, {"const": 1},
     {"enum": ["a", 1, None]}, {"uniqueItems": True}, {"multipleOf": 2}, {"pattern": "^[a-z]{2}$"},
     {"minProperties": 1}, {"additionalProperties": False}, {"anyOf": [{"type": "string"}, {"minItems": 1}]},
     {"oneOf": [{}, {"type": "null"}]},
     {"exclusiveMaximum": 3}, {"required": ["text"]}, {"items": {"type": "integer"}}, {}]
)  # fmt: skip


@st.composite
def bent_schemas(draw: st.DrawFn) -> Json:
    """A schema of the catalogue with rules added to, or taken from, some of its schemas."""
    schema = copy.deepcopy(draw(st.sampled_from(SCHEMAS)))
    for _ in range(draw(st.integers(1, 3))):
        nodes = [path for path in places(schema) if path and path[-2:-1] in (("properties",), ("anyOf",))]
        nodes += [path for path in places(schema) if path[-1:] == ("items",)]
        if not nodes:
            return schema
        node = schema
        for part in draw(st.sampled_from(sorted(nodes, key=repr))):
            node = node[part]
        if isinstance(node, dict):
            node.update(copy.deepcopy(draw(_KEYWORD)))
            if draw(st.booleans()) and node:
                del node[draw(st.sampled_from(sorted(node)))]
    return schema


@pytest.mark.slow
@settings(max_examples=times(80))
@given(st.data())
def test_both_engines_judge_by_bent_schemas_alike(data: st.DataObject) -> None:
    original = data.draw(st.sampled_from(SCHEMAS))
    schema = data.draw(bent_schemas())
    instance = data.draw(bent(data.draw(instances(original, original)), _ANY))
    fault = ours(schema).output_fault(instance)
    assert (fault is None) == official(schema).is_valid(instance), (schema, fault)
