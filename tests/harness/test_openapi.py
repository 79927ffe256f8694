"""OpenAPI documents as tools: what of them is asked and how, what is left out, what no schema can say."""

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
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

ROOT = Path(__file__).resolve().parents[2]
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
        ({"parameters": [param("id", "path"), {"in": "query"}]}, "has no name"),
        ({"parameters": [param("id", "path", schema={"type": "array", "items": {}})]}, "no plain value"),
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


@pytest.mark.slow
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
        ({"type": "apiKey", "in": "header", "name": "Content-Length"}, None),
        ({"type": "apiKey", "in": "header", "name": "X-Handler-Call"}, None),
        (None, None),
        ({"type": "mutualTLS"}, None),
    ],
)
def test_a_secret_goes_into_a_header_or_is_said_not_to(scheme: dict[str, Any], header: str | None) -> None:
    found = read({"/a": {"get": {}}}, components={"securitySchemes": {"one": scheme}})
    assert [one.header for one in found.slots] == ([header] if header else [])
    assert bool(found.left) is (header is None)


@pytest.mark.parametrize(
    "path", ["/../x", "/a/%2e%2E/x", "/a?b=1", "/a#b", "/a\r\nx: y", "/a b", "/é", "/a\\b"]
)
def test_a_path_that_is_no_plain_one_is_left_out(path: str) -> None:
    found = read({path: {"get": {}}, "/b": {"get": {}}})
    assert [one.sent["path"] for one in found.operations] == ["/b"]
    assert "no plain one" in found.left[0][1]


def test_two_secrets_have_two_names_and_one_header_bears_one() -> None:
    long = "A" * 40
    schemes = {
        name: {"type": "apiKey", "in": "header", "name": f"X-{number}"}
        for number, name in enumerate(("a b", "a-b", long, long + "b", "a" * 27 + "_b"))
    }
    schemes |= {"one": {"type": "http", "scheme": "bearer"}, "two": {"type": "http", "scheme": "basic"}}
    found = read({"/a": {"get": {}}}, components={"securitySchemes": schemes})
    assert len({one.name for one in found.slots}) == len(schemes) - 1
    assert [why for _, why in found.left] == ["another secret is sent as authorization"]
    assert admitted(found) == []


def test_what_is_too_much_for_one_interface_is_left_out() -> None:
    big = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(60)}}
    found = read({f"/{n}": {"post": body(big)} for n in range(64)})
    tools = openapi_files.files(found, "crm", "x", "")["interfaces/crm/v1/tools.json"]
    assert 200_000 < len(tools.encode()) <= 262_144  # what admission allows
    assert 0 < len(found.operations) < 64
    assert len(found.operations) + len(found.left) == 64


@pytest.mark.parametrize(
    ("more", "value", "query"),
    [
        ({"schema": {"type": "array", "items": {"type": "string"}}}, ["a", "b&c"], "q=a&q=b%26c"),
        ({"schema": {"type": "array", "items": {"type": "integer"}}, "explode": False}, [1, 2], "q=1%2C2"),
        ({"schema": LINE, "style": "deepObject"}, {"sku": "x", "count": 2}, "q%5Bsku%5D=x&q%5Bcount%5D=2"),
        ({"schema": LINE}, {"sku": "x"}, "sku=x"),
        ({"schema": LINE, "explode": False}, {"sku": "x", "count": 2}, "q=sku%2Cx%2Ccount%2C2"),
        (
            {"schema": None, "content": {"application/json": {"schema": LINE}}},
            {"count": 1},
            "q=%7B%22count%22%3A%201%7D",
        ),
        ({"schema": {"oneOf": [{"type": "string"}, {"type": "array"}]}}, '["a", "b"]', "q=a&q=b"),
        ({"schema": {"oneOf": [{"type": "string"}, {"type": "array"}]}}, '"a"', "q=a"),
    ],
)
def test_a_value_stands_in_the_query_as_the_document_says(
    more: dict[str, Any], value: Any, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAPI_SERVER", "https://crm.example.com/api/")
    found = read({"/a": {"get": {"parameters": [param("q", "query", **more)]}}})
    assert admitted(found) == []
    address = connector().address(found.operations[0].sent, {"q": value})
    assert address == f"https://crm.example.com/api/a?{query}"


def connector() -> Any:
    """The program that every import writes, as a connector has it: beside its kit."""
    kit = str(ROOT / "reconciler" / "kit")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(kit)
        return module(ROOT / "reconciler" / "doors" / "openapi_connector.py")


def module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("openapi_connector", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_half_a_letter_is_told() -> None:
    with pytest.raises(ValueError, match="half a letter"):
        admitted(read({"/a": {"get": {"parameters": [param("\ud800", "query")]}}}))


def admitted(found: Read) -> list[str]:
    """What admission says against what is made."""
    files = openapi_files.files(found, "crm", "crm.yaml", "import handler_connector\n")
    tree = Tree("none@test", {path: text.encode() for path, text in files.items()})
    judged = admit(load.inventory({Layer.CONFIG: tree}), {})
    return [str(one) for one in judged.problems if one.severity is Severity.ERROR]


def replaced(value: Any, at: int, other: Any) -> tuple[Any, int]:
    """A value with another in the place of its part number ``at``, and how many parts it has."""
    if at == 0:
        return other, 1
    count = 1
    if not isinstance(value, dict | list):
        return value, count
    made = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    for key, one in made.items():
        made[key], parts = replaced(one, at - count, other)
        count += parts
    return made if isinstance(value, dict) else list(made.values()), count


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(
        ["object", "string", "array", "#/components/schemas/a", "true", "", "\u202e", "\ud800", 10**400,
         -1.5, "é"]
    ),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "allOf", "oneOf", "$ref", "enum", "required",
                         "maxLength", "additionalProperties", "a", "b\n"]), below, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.slow
@given(ANY, ANY)
@settings(max_examples=times(150))
def test_whatever_a_document_says_is_read_or_refused_in_words(schema: Any, parameter: Any) -> None:
    paths = {
        "/a": {"get": {"parameters": [param("p", "query", schema=parameter)]}},
        "/b": {"put": body(schema)},
    }
    try:
        found = openapi.read(document(paths, components={"schemas": {"a": schema}}), "crm")
        json.dumps(openapi_files.files(found, "crm", "x", ""))
    except ValueError:
        return


PARTS = replaced(WHOLE, -1, None)[1]


@given(st.integers(1, PARTS - 1), ANY)
@settings(max_examples=times(10), deadline=None)
def test_a_document_with_anything_in_any_place_is_admitted_or_refused_in_words(at: int, other: Any) -> None:
    try:
        found = openapi.read(replaced(WHOLE, at, other)[0], "crm")
        assert admitted(found) == []
    except ValueError:
        return
