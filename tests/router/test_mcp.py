"""MCP, both eras, without I/O: every row of the table of methods, and every byte an agent reads."""

from typing import Any

import orjson
import pytest

from reconciler.model.contract import Contract
from reconciler.model.routes import Route
from reconciler.model.stands import Stand
from reconciler.router import answers, mcp
from reconciler.router.mcp import Call, Cancel, Face, Listen
from reconciler.wire import jsonrpc
from tests.router import stage

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: mcp.MODERN, CAPABILITIES: {}}


def face(*made: Contract, **changes: Any) -> Face:
    contracts = made or (stage.ocr(),)
    return Face(contracts[0].spec.name, "1", [stage.route(one, **changes) for one in contracts])


def ask(method: str, meta: Any = ..., at: Face | None = None, **params: Any) -> mcp.Action:
    if meta is not ...:
        params["_meta"] = meta
    return mcp.answer(at or face(), jsonrpc.Request(7, method, params))


def answered(method: str, meta: Any = ..., at: Face | None = None, **params: Any) -> dict[str, Any]:
    line = ask(method, meta, at, **params)
    assert isinstance(line, bytes)
    assert line.endswith(b"\n")
    message: dict[str, Any] = orjson.loads(line)
    assert message["id"] == 7
    return message


def code(method: str, meta: Any = ..., **params: Any) -> int:
    found: int = answered(method, meta, **params)["error"]["code"]
    return found


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
        (["2025-06-18"], "2025-11-25"),
    ],
)
def test_initialize_echoes_a_version_it_knows_and_offers_the_newest_else(asked: Any, version: str) -> None:
    result = answered("initialize", protocolVersion=asked)["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"] == {"name": "ocr", "version": "1"}
    assert "resultType" not in result


def test_legacy_methods() -> None:
    assert answered("ping")["result"] == {}
    assert set(answered("tools/list")["result"]) == {"tools"}
    assert code("server/discover") == -32602
    assert code("subscriptions/listen") == -32601
    for method in (
        "resources/list",
        "prompts/list",
        "logging/setLevel",
        "completion/complete",
        "nonsense",
        "",
    ):
        assert code(method) == -32601


def test_modern_methods() -> None:
    found = answered("server/discover", MODERN)["result"]
    assert found["resultType"] == "complete"
    assert found["supportedVersions"][0] == "2026-07-28"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "ocr", "version": "1"}
    listed = answered("tools/list", MODERN)["result"]
    assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")
    for method in ("initialize", "ping", "resources/list", "nonsense"):
        error = answered(method, MODERN)["error"]
        assert error["code"] == -32601
        assert "2026-07-28" in error["message"]
        assert "2025-11-25" in error["message"]


@pytest.mark.parametrize(
    ("meta", "wanted"),
    [
        ({VERSION: mcp.MODERN}, -32602),
        ({VERSION: 5, CAPABILITIES: {}}, -32602),
        ({VERSION: None, CAPABILITIES: {}}, -32602),
        ({VERSION: mcp.MODERN, CAPABILITIES: []}, -32602),
        ({VERSION: "2027-01-01", CAPABILITIES: {}}, -32022),
        ({VERSION: "2025-11-25", CAPABILITIES: {}}, -32022),
        ([], -32602),
        ("x", -32602),
        (None, -32602),
    ],
)
def test_a_modern_request_carries_its_version_and_capabilities(meta: Any, wanted: int) -> None:
    assert code("tools/list", meta) == wanted


def test_an_unsupported_version_is_told_what_is_supported() -> None:
    data = answered("tools/list", {VERSION: "2027-01-01", CAPABILITIES: {}})["error"]["data"]
    assert data == {"supported": list(mcp.SUPPORTED), "requested": "2027-01-01"}


def test_a_task_needs_the_extension_declared_in_that_request() -> None:
    error = answered("tasks/get", MODERN, taskId="x")["error"]
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def test_a_task_that_a_call_asks_for_as_older_clients_did_is_ignored() -> None:
    made = ask("tools/call", MODERN, name="ocr_extract", arguments={}, task={"ttl": 1})
    assert isinstance(made, Call)
    assert made.task == ""


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_where_no_tool_is_a_job_tasks_are_not_offered_and_who_declared_them_is_told(method: str) -> None:
    assert code(method, MODERN, taskId="x") == -32021
    declared = {VERSION: mcp.MODERN, CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    assert code(method, declared, taskId="x") == -32601
    assert code(method, taskId="x") == -32601
    assert "extensions" not in answered("server/discover", declared)["result"]["capabilities"]


def test_tools_are_served_as_their_contract_has_them_in_its_order() -> None:
    assert answered("tools/list")["result"]["tools"] == stage.OCR_TOOLS
    line = ask("tools/list")
    assert isinstance(line, bytes)
    assert orjson.dumps(stage.OCR_TOOLS) in line


def test_tools_are_the_same_bytes_for_every_session_whoever_stands_behind_them() -> None:
    lines = {
        ask("tools/list", at=Face("ocr", "1", [stage.route(stage.ocr(), suspended=why)]))
        for why in (None, "x")
    }
    assert len(lines) == 1


def test_only_granted_tools_are_listed_and_called() -> None:
    granted = face(tools=("ocr_merge",))
    tools = answered("tools/list", at=granted)["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["ocr_merge"]
    assert answered("tools/call", at=granted, name="ocr_extract", arguments={})["error"]["code"] == -32602
    assert isinstance(ask("tools/call", at=granted, name="ocr_merge", arguments={}), Call)


def test_one_socket_may_serve_every_interface() -> None:
    tools = answered("tools/list", at=face(stage.echo(), stage.ocr()))["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["echo_say", "echo_add", "ocr_extract", "ocr_merge"]


def test_long_lists_come_in_pages() -> None:
    many = [stage.tool(f"echo_{n}", stage.closed(), stage.closed()) for n in range(250)]
    served = face(stage.contract("echo", many))
    names, cursor = [], ...
    for _ in range(3):
        more = {} if cursor is ... else {"cursor": cursor}
        page = answered("tools/list", at=served, **more)["result"]
        names += [tool["name"] for tool in page["tools"]]
        cursor = page.get("nextCursor")
    assert cursor is None
    assert names == [tool["name"] for tool in many]


@pytest.mark.parametrize(
    "cursor", ["", "0", "1", "99", "200000000000", "300", "x", "-100", "\u0661\u0660\u0660", 100, True, []]
)
def test_a_cursor_that_was_never_given_is_refused(cursor: Any) -> None:
    assert code("tools/list", cursor=cursor) == -32602


@pytest.mark.parametrize("name", ["nope", "", None, 5, ["ocr_extract"], "ocr_extract "])
def test_an_unknown_tool_is_refused(name: Any) -> None:
    assert code("tools/call", name=name, arguments={}) == -32602


@pytest.mark.parametrize("arguments", [[], "x", 5, True])
def test_arguments_are_an_object(arguments: Any) -> None:
    assert code("tools/call", name="ocr_extract", arguments=arguments) == -32602


def test_a_call_may_leave_its_arguments_out() -> None:
    call = ask("tools/call", name="ocr_extract")
    assert isinstance(call, Call)
    assert call.arguments == {}


@pytest.mark.parametrize("token", ["t", 0, 7])
def test_progress_is_reported_where_it_was_asked_for(token: Any) -> None:
    call = ask("tools/call", {"progressToken": token}, name="ocr_extract", arguments={})
    assert isinstance(call, Call)
    assert (call.token, call.modern) == (token, False)
    assert orjson.loads(answers.progress(token, 1, 3))["params"] == {
        "progressToken": token,
        "progress": 1,
        "total": 3,
    }
    assert orjson.loads(answers.progress(token, 0.5, None))["params"] == {
        "progressToken": token,
        "progress": 0.5,
    }


@pytest.mark.parametrize("token", [True, 1.5, {}, [1]])
def test_a_progress_token_is_a_string_or_an_integer(token: Any) -> None:
    assert code("tools/call", {"progressToken": token}, name="ocr_extract", arguments={}) == -32602


@pytest.mark.parametrize("ident", [7, "7", "007", " 7 ", 0, ""])
def test_a_cancel_names_exactly_one_id(ident: Any) -> None:
    note = jsonrpc.Notification("notifications/cancelled", {"requestId": ident})
    assert mcp.answer(face(), note) == Cancel(ident)


@pytest.mark.parametrize("ident", [True, 1.0, None, [7], {}])
def test_a_cancel_of_what_is_no_id_is_not_heard(ident: Any) -> None:
    assert mcp.answer(face(), jsonrpc.Notification("notifications/cancelled", {"requestId": ident})) is None


def test_other_notifications_and_answers_are_not_heard() -> None:
    for method in ("notifications/initialized", "notifications/roots/list_changed", "x"):
        assert mcp.answer(face(), jsonrpc.Notification(method, {})) is None
    assert mcp.answer(face(), jsonrpc.Response(1, {})) is None


def test_a_line_that_is_no_message_is_answered() -> None:
    line = mcp.answer(face(), jsonrpc.Fault(-32700, "no", None))
    assert line == b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}\n'


def test_a_subscription_is_acknowledged_and_answered_at_the_end() -> None:
    listen = ask("subscriptions/listen", MODERN, notifications={"toolsListChanged": True})
    assert listen == Listen(7)
    tag = {"io.modelcontextprotocol/subscriptionId": 7}
    assert orjson.loads(answers.acknowledged(listen)) == {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": {}, "_meta": tag},
    }
    assert orjson.loads(answers.listened(listen))["result"] == {"resultType": "complete", "_meta": tag}
    assert code("subscriptions/listen", MODERN, notifications=[]) == -32602


def test_instructions_speak_of_interfaces_and_their_state_never_of_who_provides_them() -> None:
    text = mcp.instructions(
        [stage.route(stage.ocr()), stage.route(stage.echo(), suspended="vendor-x is off")]
    )
    assert "ocr/v1 (bound): What ocr is for." in text
    assert "unsupported_format: the file is not a PDF or an image" in text
    assert "echo/v1 (missing: calls answer unavailable): What echo is for." in text
    assert "vendor" not in text
    for word in mcp.ROUTER_TEXTS:
        assert f"error {word}:" in text


def test_instructions_say_since_when_something_is_amiss_and_no_date_of_what_is_well() -> None:
    def stands(route: Route) -> Stand:
        return Stand("degraded" if route.interface.name == "ocr" else "bound", 1_767_225_600.0)

    text = mcp.instructions([stage.route(stage.ocr()), stage.route(stage.echo())], stands)
    assert "ocr/v1 (degraded since 2026-01-01T00:00:00Z: calls may answer unavailable): What" in text
    assert "echo/v1 (bound): What" in text
