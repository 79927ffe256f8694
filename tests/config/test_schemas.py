"""The schemas are closed, explained, offline, and agree with the models."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from reconciler.config import schemas
from reconciler.model.resources import KINDS, Agent, Binding

RENDERED = {name: json.loads(text) for name, text in schemas.render().items()}
WRITTEN_BY_PEOPLE = {f"{row.kind.value}.schema.json" for row in KINDS}


def objects(schema: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, item in schema.items():
            yield from objects(item, f"{path}/{key}")
    if isinstance(schema, list):
        for number, item in enumerate(schema):
            yield from objects(item, f"{path}/{number}")


def test_the_text_of_a_key_is_one_line_however_its_source_is_broken() -> None:
    texts = [
        node["description"] for _, one in objects(RENDERED) for node in one.get("properties", {}).values()
    ]
    assert len(texts) > 100
    assert [text for text in texts if text != " ".join(text.split())] == []


def test_every_kind_and_every_document_has_a_schema() -> None:
    names = ("lock", "status", "summary", "event", "diff", "capabilities", "evidence", "jobs")
    others = {f"{name}.schema.json" for name in names}
    assert set(RENDERED) == WRITTEN_BY_PEOPLE | others


@pytest.mark.parametrize("name", sorted(RENDERED))
def test_a_schema_is_valid_closed_and_names_no_host(name: str) -> None:
    schema = RENDERED[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"]
    for path, node in objects(schema):
        assert "additionalProperties" in node, path
        assert node["additionalProperties"] is not True, path
        for key, prop in node.get("properties", {}).items():
            assert prop.get("description"), f"{path}/{key}"
    references = [
        line for line in json.dumps(schema, indent=0).splitlines() if '"$ref"' in line or '"$id"' in line
    ]
    assert all('"#/$defs/' in line for line in references)
    assert "prefixItems" not in json.dumps(schema)


@pytest.mark.parametrize("name", sorted(WRITTEN_BY_PEOPLE))
def test_toml_has_no_null_and_neither_has_its_schema(name: str) -> None:
    assert "null" not in json.dumps(RENDERED[name])


AGENT = {
    "apiVersion": "handler.agent/v1",
    "requires": ["ocr/v1"],
    "services": {"ocr": "ocr-a", "llm": ["a", "b"], "tts": {"binding": "c", "tools": ["tts_speak"]}},
    "scope": ["~/x", {"path": "/y", "access": "read"}],
}


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"servces": {}}, False),
        ({"services": {"Ocr": "a"}}, False),
        ({"services": {"ocr": "A"}}, False),
        ({"services": {"ocr": {"bindng": "a"}}}, False),
        ({"services": {"ocr": []}}, False),
        ({"scope": ["x"]}, False),
        ({"suspend": "yes"}, False),
        ({"requires": ["ocr"]}, False),
        ({"apiVersion": "handler.agent/v2"}, False),
    ],
)
def test_a_schema_and_its_model_agree(change: dict[str, Any], right: bool) -> None:
    values = AGENT | change
    validator = jsonschema.Draft202012Validator(RENDERED["agent.schema.json"])
    assert validator.is_valid(values) is right
    try:
        Agent.model_validate(values)
        taken = True
    except ValueError:
        taken = False
    assert taken is right


def test_a_setting_named_like_a_keyword_keeps_its_place() -> None:
    (setting,) = [
        node for path, node in objects(RENDERED["connector.schema.json"]) if path == "/$defs/Setting"
    ]
    assert {"default", "description", "enum", "pattern"} <= setting["properties"].keys()
    assert setting["properties"]["default"]["anyOf"]


def test_the_schema_at_a_path_is_found_through_tables_lists_and_choices() -> None:
    (idle,) = schemas.nodes(Binding, ("instance", "idleStopSeconds"))
    assert idle["exclusiveMinimum"] == 0
    assert {node["type"] for node in schemas.nodes(Agent, ("services", "ocr"))} == {
        "string",
        "object",
        "array",
    }
    assert [node["pattern"] for node in schemas.nodes(Agent, ("services", "ocr", "binding"))]
    assert [node["type"] for node in schemas.nodes(Agent, ("requires", 0))] == ["string"]
    assert schemas.nodes(Agent, ("nothing", "here", 0)) == ()


def test_the_text_under_a_key_is_its_description() -> None:
    idle = RENDERED["binding.schema.json"]["$defs"]["InstanceBounds"]["properties"]["idleStopSeconds"]
    assert idle["description"] == "How long it stays without a call before it is stopped."
    assert idle["default"] == 300
