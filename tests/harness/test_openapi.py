"""OpenAPI documents as tools: what of them is asked and how, what is left out, what no schema can say."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.admission.admit import admit
from reconciler.config import load
from reconciler.harness import openapi, openapi_files
from reconciler.harness.openapi import Read
from reconciler.model.inventory import Layer, Tree
from reconciler.model.problems import Severity
from tests.kit.effort import times

ORDER = {
    "type": "object",
    "required": ["total"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "total": {"type": "number", "minimum": 0},
        "currency": {"type": "string", "enum": ["EUR", "USD"]},
        "lines": {"type": "array", "items": {"$ref": "#/components/schemas/Line"}},
        "note": {"oneOf": [{"type": "string"}, {"type": "object"}]},
        "parent": {"$ref": "#/components/schemas/Order"},
    },
}
LINE = {
    "type": "object",
    "properties": {"sku": {"type": "string", "maxLength": 40}, "count": {"type": "integer"}},
}
KEY = {"type": "apiKey", "in": "header", "name": "X-Api-Key"}


def document(paths: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "The CRM of Acme"},
        "servers": [{"url": "https://crm.example.com/api/"}],
        "components": {"schemas": {"Order": ORDER, "Line": LINE}, "securitySchemes": {"key": KEY}},
        "security": [{"key": []}],
        "paths": paths,
        **more,
    }


def body(schema: Mapping[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


def param(name: str, into: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": into, "schema": {"type": "string"}, "required": into == "path", **more}


WHOLE = document(
    {
        "/health": {"get": {"operationId": "health"}},
        "/orders/{orderId}": {
            "parameters": [param("orderId", "path")],
            "get": {
                "operationId": "getOrder",
                "summary": "Read one\u200b order\n",
                "parameters": [
                    param("fields[]", "query", schema={"type": "array", "items": {"type": "string"}})
                ],
            },
            "delete": {},
        },
        "/orders": {"post": {"operationId": "createOrder", **body({"$ref": "#/components/schemas/Order"})}},
        "/upload": {"post": body({"type": "object"}, "multipart/form-data")},
        "/tenant": {"get": {"parameters": [param("X-Tenant", "header", required=True)]}},
    }
)


def read(paths: Mapping[str, Any], **more: Any) -> Read:
    return openapi.read(document(paths, **more), "crm")


def test_operations_become_tools_and_the_rest_is_said() -> None:
    found = openapi.read(WHOLE, "crm")
    assert [(one.tool, one.effect) for one in found.operations] == [
        ("crm_get_order", "none"), ("crm_orders_delete", "external"), ("crm_create_order", "external")
    ]  # fmt: skip
    assert [what for what, _ in found.left] == ["POST /upload", "GET /tenant"]
    assert (found.server, found.slots[0].header, found.slots[0].required) == (
        "https://crm.example.com/api", "X-Api-Key", True
    )  # fmt: skip
    one, _, create = found.operations
    assert one.title == "Read one order"
    assert one.sent["in_query"] == {"fields": "fields[]"}
    properties = create.schema["properties"]
    assert properties["currency"]["enum"] == ["EUR", "USD"]
    assert properties["lines"]["items"]["additionalProperties"] is False
    assert create.sent["json"] == ["note", "parent"]
    assert properties["note"]["type"] == properties["parent"]["type"] == "string"
    assert "id" not in properties
    assert create.schema["required"] == ["total"]


def test_what_is_made_is_admitted_and_says_nothing_unseen() -> None:
    files = openapi_files.files(openapi.read(WHOLE, "crm"), "crm", "crm.yaml", "import handler_connector\n")
    tree = Tree("none@test", {path: text.encode() for path, text in files.items()})
    judged = admit(load.inventory({Layer.CONFIG: tree}), {})
    assert [one for one in judged.problems if one.severity is Severity.ERROR] == []
    assert "crm/v1" in {ref.name for ref in judged.in_force}
    assert "\u200b" not in "".join(files.values())


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (
            {"parameters": [param("id", "path", schema={"type": "object", "properties": {"a": {}}})]},
            "no plain value",
        ),
        ({"parameters": []}, "described nowhere"),
        ({"parameters": [{"$ref": "https://elsewhere/x"}]}, "leads out of the document"),
        ({"parameters": [{"$ref": "#/components/nothing"}]}, "leads to nothing"),
        ({"parameters": [param("id", "path"), param("s", "cookie", required=True)]}, "no tool gives"),
    ],
)
def test_what_cannot_be_asked_is_left_out_with_its_reason(item: dict[str, Any], why: str) -> None:
    found = read({"/a/{id}": {"get": item}, "/b": {"get": {}}})
    assert [one.tool for one in found.operations] == ["crm_b_get"]
    assert why in found.left[0][1]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"swagger": "2.0"}, "no OpenAPI 3"),
        (document({}), "no operation"),
        (document({"/a": {"get": {}}}, servers=[{"url": "/api"}]), "--server"),
        (document({"/a": {"get": {}}}, servers=[{"url": "http://crm.example.com"}]), "--server"),
        (document({"/a": {"get": {}}}, servers=[{"url": "https://localhost"}]), "--server"),
    ],
)
def test_what_is_no_such_document_is_told(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        openapi.read(values, "crm")


def test_names_are_short_and_each_is_there_once() -> None:
    long = "listAllTheOrdersOfACustomerWithTheirLines"
    found = read({f"/{n}": {"get": {"operationId": long}} for n in range(12)})
    names = [one.tool for one in found.operations]
    assert len(set(names)) == 12
    assert max(map(len, names)) <= 32
    both = {"parameters": [param("x", "query")], **body({"properties": {"x": {"type": "string"}}})}
    twice = read({"/a": {"post": both}})
    assert twice.operations[0].sent["in_body"] == {"x_2": "x"}


def test_a_document_that_unfolds_without_end_is_given_up() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"$ref": "#/components/schemas/a"} for n in range(90)}}
    with pytest.raises(ValueError, match="no operation"):
        read({"/a": {"post": body(wide)}}, components={"schemas": {"a": wide}})


@pytest.mark.parametrize(
    ("scheme", "header"),
    [
        ({"type": "http", "scheme": "bearer"}, "Authorization: Bearer {}"),
        ({"type": "http", "scheme": "Basic"}, "Authorization: Basic {}"),
        ({"type": "oauth2", "flows": {}}, "Authorization: Bearer {}"),
        ({"type": "apiKey", "in": "query", "name": "key"}, None),
        ({"type": "apiKey", "in": "header", "name": "a\r\nb"}, None),
        ({"type": "mutualTLS"}, None),
    ],
)
def test_a_secret_goes_into_a_header_or_is_said_not_to(scheme: dict[str, Any], header: str | None) -> None:
    found = read({"/a": {"get": {}}}, components={"securitySchemes": {"one": scheme}})
    assert [one.header for one in found.slots] == ([header] if header else [])
    assert bool(found.left) is (header is None)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(
        ["object", "string", "array", "#/components/schemas/a", "true", "", "\u202e"]
    ),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "allOf", "oneOf", "$ref", "enum", "required",
                         "maxLength", "additionalProperties", "a", "b\n"]), below, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(ANY, ANY)
@settings(max_examples=times(150))
def test_whatever_a_document_says_is_read_or_refused_in_words(schema: Any, parameter: Any) -> None:
    paths = {
        "/a": {"get": {"parameters": [param("p", "query", schema=parameter)]}},
        "/b": {"put": body(schema)},
    }
    try:
        found = openapi.read(document(paths, components={"schemas": {"a": schema}}), "crm")
    except ValueError:
        return
    json.dumps(openapi_files.files(found, "crm", "x", ""))
