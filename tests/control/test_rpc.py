"""The control socket: lines in, lines out, and nothing that ends the controller."""

import asyncio
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.control import rpc


async def _echo(params: Mapping[str, Any], caller: rpc.Caller) -> Any:
    return {"params": dict(params), "pid": caller.process.pid}


async def _deny(params: Mapping[str, Any], caller: rpc.Caller) -> Any:
    raise rpc.Refused("not today\n  mend  ask tomorrow")


async def _break(params: Mapping[str, Any], caller: rpc.Caller) -> Any:
    raise ZeroDivisionError("secret")


async def _ask(path: Path, *lines: bytes) -> list[dict[str, Any]]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    answers = []
    for line in lines:
        writer.write(line + b"\n")
        answers.append(json.loads(await asyncio.wait_for(reader.readline(), 5)))
    writer.close()
    return answers


def _with_server(path: Path, *lines: bytes) -> list[dict[str, Any]]:
    async def go() -> list[dict[str, Any]]:
        server = await rpc.listen(path, {"echo": _echo, "deny": _deny, "break": _break})
        try:
            return await _ask(path, *lines)
        finally:
            server.close()

    return asyncio.run(go())


def test_an_answer_a_refusal_and_a_fault_on_one_connection(tmp_path: Path) -> None:
    answers = _with_server(
        tmp_path / "c.sock",
        b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1}}',
        b'{"jsonrpc":"2.0","id":2,"method":"deny"}',
        b'{"jsonrpc":"2.0","id":3,"method":"break"}',
        b'{"jsonrpc":"2.0","id":4,"method":"nothing"}',
        b"garbage",
        b"[1]",
        b'{"id":5,"method":["echo"]}',
        b'{"id":5,"method":"echo","params":[1]}',
        b'{"jsonrpc":"2.0","id":5,"method":"echo"}',
    )
    assert answers[0]["result"]["params"] == {"a": 1}
    assert answers[1]["error"]["message"].startswith("not today")
    assert "secret" not in json.dumps(answers[2])
    assert [one.get("error", {}).get("code") for one in answers[3:8]] == [
        -32601, -32600, -32600, -32601, -32602,
    ]  # fmt: skip
    assert answers[8]["result"]["params"] == {}


def test_a_dead_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    assert _with_server(path, b'{"id":1,"method":"echo"}')[0]["id"] == 1


def test_a_method_tells_how_it_goes_before_it_answers(tmp_path: Path) -> None:
    async def counting(params: Mapping[str, Any], caller: rpc.Caller) -> Any:
        for number in range(3):
            await caller.tell({"piece": number})
        return {"told": 3}

    async def go() -> list[dict[str, Any]]:
        server = await rpc.listen(tmp_path / "c.sock", {"count": rpc.Attended(counting), "echo": _echo})
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "c.sock"))
        try:
            writer.write(
                b'{"jsonrpc":"2.0","id":7,"method":"count"}\n{"jsonrpc":"2.0","id":8,"method":"echo"}\n'
            )
            lines = [json.loads(await asyncio.wait_for(reader.readline(), 30)) for _ in range(5)]
            writer.write(b'{"jsonrpc":"2.0","id":9,"method":"count"}\n')
            return lines + [json.loads(await asyncio.wait_for(reader.readline(), 30)) for _ in range(4)]
        finally:
            writer.close()
            server.close()

    lines = asyncio.run(go())
    assert [one.get("method") for one in lines[:3]] == ["notifications/progress"] * 3
    assert [one["params"] for one in lines[:3]] == [{"id": 7, "piece": number} for number in range(3)]
    assert [one.get("id") for one in lines[3:]] == [7, 8, None, None, None, 9]
    assert lines[3]["result"] == {"told": 3}


def test_what_nobody_waits_for_any_more_ends_where_it_is_attended(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def lasting(params: Mapping[str, Any], caller: rpc.Caller) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def go() -> None:
        server = await rpc.listen(tmp_path / "c.sock", {"last": rpc.Attended(lasting)})
        _, writer = await asyncio.open_unix_connection(str(tmp_path / "c.sock"))
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"last"}\n')
        await asyncio.wait_for(begun.wait(), 30)
        writer.close()
        await asyncio.wait_for(ended.wait(), 30)
        server.close()

    asyncio.run(go())
