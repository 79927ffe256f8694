"""Bad lines through a real socket: what each is answered, and that the connection lives on.

A row is bytes as an agent might send them and every line that answers them, as (id, code); the code of a
result is None. A ping at the end shows that nothing else was answered and that the connection still serves.
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from reconciler.router import mcp
from reconciler.router.connection import NO_SESSION
from reconciler.wire.framing import MAX_LINE
from tests.router import stage
from tests.router.stage import FakeLane
from tests.router.test_server import Agent, run, stage_set
from tests.wire import test_jsonrpc

PARSE, INVALID, METHOD, PARAMS = -32700, -32600, -32601, -32602
RESULT = None
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {VERSION: mcp.MODERN, CAPABILITIES: {}}
TASKS = {VERSION: mcp.MODERN, CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": {}}}}

Answers = tuple[tuple[Any, int | None], ...]


@dataclass(frozen=True)
class Row:
    what: str
    sent: bytes
    answered: Answers


def ask(method: Any = "ping", ident: Any = 1, /, **more: Any) -> bytes:
    """One request; ``...`` leaves a member out."""
    message = {"jsonrpc": "2.0", "id": ident, "method": method} | more
    return json.dumps({key: value for key, value in message.items() if value is not ...}).encode() + b"\n"


def call(arguments: Any = ..., /, name: Any = "echo_say", meta: Any = ..., **more: Any) -> bytes:
    params = {"name": name, "arguments": arguments, "_meta": meta} | more
    return ask("tools/call", params={key: value for key, value in params.items() if value is not ...})


def called(ident: Any) -> bytes:
    return ask("tools/call", ident, params={"name": "echo_say", "arguments": SAID})


def note(method: str, /, **params: Any) -> bytes:
    return ask(method, ..., params=params)


def row(what: str, sent: bytes, *answered: tuple[Any, int | None]) -> Row:
    return Row(what, sent, answered)


PING = ask()
ONE = b'{"jsonrpc":"2.0","method":"ping","id":'
SAID = {"text": "x"}
LONGEST_ID = "i" * 256

IDS: tuple[Any, ...] = (0, -1, 7, 2**53 + 1, 2**63, 2**64 - 1, -(2**63))
IDS += ("", "1", "007", " 7 ", "1_0", "a\nb", "\u2028", "\u0000", "é" * 128, LONGEST_ID, "null", "true")

ROWS: tuple[Row, ...] = (
    # lines
    row("nothing", b""),
    row("an empty line", b"\n"),
    row("blank lines of every kind", b"\n\r\n \t\r\n\n"),
    row("CRLF", PING[:-1] + b"\r\n", (1, RESULT)),
    row("white space around", b" \t " + PING[:-1] + b" \t\r\n", (1, RESULT)),
    row("a lone CR is no end", PING[:-1] + b"\r" + PING, (None, PARSE)),
    row("a CR inside a string", ask("a\rb"), (1, METHOD)),
    row("two on one line", PING[:-1] + PING, (None, PARSE)),
    row("two lines", PING + ask("ping", 2), (1, RESULT), (2, RESULT)),
    row("half a line and the rest as another", PING[:9] + b"\n" + PING[9:], (None, PARSE), (None, PARSE)),
    row("a NUL between lines", b"\x00\n" + PING, (None, PARSE), (1, RESULT)),
    row("a NUL at the end", PING[:-1] + b"\x00\n", (None, PARSE)),
    row("a NUL in an escape", ask(params={"a": "\x00"}), (1, RESULT)),
    row("a BOM at the start", b"\xef\xbb\xbf" + PING, (None, PARSE)),
    row("a BOM inside a string", ask(params={"a": "\ufeff"}), (1, RESULT)),
    row("U+2028 and its like", ask(params={"a": "\u2028\u2029\u0085\x0b\x0c\x1c"}), (1, RESULT)),
    row("those raw", ('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\u2028\u0085"}}\n').encode(),
        (1, RESULT)),
    row("UTF-16", PING.decode().encode("utf-16-le") + b"\n", (None, PARSE), (None, PARSE)),
    row("bytes of no encoding", bytes(range(128, 256)) + b"\n", (None, PARSE)),
    row("HTTP", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", (None, PARSE), (None, PARSE)),
    row("a Content-Length header", b"Content-Length: 40\r\n\r\n" + PING, (None, PARSE), (1, RESULT)),
    row("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n", (None, PARSE)),
    row("one byte above the bound", b'"' + b"x" * MAX_LINE + b"\n", (None, PARSE)),
    row("far above the bound", b"[" * (3 * MAX_LINE) + b"\n" + PING, (None, PARSE), (1, RESULT)),
    row("as long as may be", PING[:-1] + b" " * (MAX_LINE - len(PING)) + b"\n", (1, RESULT)),
    # numbers and keys
    row("an exponent as an id", b'{"jsonrpc":"2.0","id":1e0,"method":"ping"}\n', (None, INVALID)),
    row("an id too large for a double", ONE + b"1" * 400 + b"}\n", (None, PARSE)),
    row("a million digits", ONE + b"1" * 10**6 + b"}\n", (None, PARSE)),
    row("an unknown member", ask(more={"a": [1]}), (1, RESULT)),
    row("a member named like ours", ask(JSONRPC="1.0", Id=5, METHOD="x"), (1, RESULT)),
    row("__proto__", ask(params={"__proto__": {"a": 1}, "constructor": 1}), (1, RESULT)),
    row("64 levels", ask(params={"a": json.loads("[" * 61 + "]" * 61)}), (1, RESULT)),
    row("65 levels", ask(params={"a": json.loads("[" * 63 + "]" * 63)}), (None, PARSE)),
    row("a method of 128 characters", ask("m" * 128), (1, METHOD)),
    row("a method of 1 MB", ask("m" * 2**20), (1, METHOD)),
    row("an empty method", ask(""), (1, METHOD)),
    row("a method in capitals", ask("PING"), (1, METHOD)),
    row("a method with a space", ask("ping "), (1, METHOD)),
    row("a method of another script", ask("p\u0456ng"), (1, METHOD)),
    row("rpc.discover", ask("rpc.discover"), (1, METHOD)),
    # batches, notifications, answers
    row("a batch of calls", b"[" + call(SAID)[:-1] + b"," + call(SAID)[:-1] + b"]\n", (None, INVALID)),
    row("a batch of one note", b"[" + note("notifications/initialized")[:-1] + b"]\n", (None, INVALID)),
    row("a note with an id is a request", ask("notifications/initialized"), (1, METHOD)),
    row("a cancel with an id is a request", ask("notifications/cancelled", params={"requestId": 1}),
        (1, METHOD)),
    row("a request without an id is a note", note("tools/call", name="echo_say", arguments=SAID)),
    row("ping as a note", note("ping")),
    row("initialize as a note", note("initialize")),
    row("notes nobody knows", note("notifications/x") + note("") + note("notifications/cancelled ")),
    row("our own notes", note("notifications/tools/list_changed") + note("notifications/message", data="x")),
    row("progress from an agent", note("notifications/progress", progressToken=1, progress=1)),
    row("a note with params of an array", ask("notifications/initialized", ..., params=[1])),
    row("a cancel with params of an array", ask("notifications/cancelled", ..., params=[1])),
    row("a note with a method of 4 KB", note("m" * 4096)),
    row("a note without jsonrpc", ask("notifications/initialized", ..., jsonrpc=...), (None, INVALID)),
    row("a note with a method that is a number", ask(5, ...), (None, INVALID)),
    row("an answer nobody asked for", ask(..., result={}) + ask(..., "s", result=None)),
    row("a failure nobody asked for", ask(..., error={"code": 1, "message": "x"}) + ask(..., error=5)),
    row("a failure of nothing", ask(..., None, error={"code": 1, "message": "x"})),
    row("an answer to a bad id", ask(..., 1.5, result={}), (None, INVALID)),
    row("an answer without an id", ask(..., ..., result={}), (None, INVALID)),
    row("an answer that is a request too", ask(result={}), (None, INVALID)),
    row("an answer of both kinds", ask(..., result={}, error={}), (None, INVALID)),
    row("an answer of version 1", ask(..., jsonrpc="1.0", result={}), (None, INVALID)),
    row("our own refusal sent back", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}\n'),
    # the legacy era
    row("initialize without params", ask("initialize"), (1, RESULT)),
    row("initialize twice", ask("initialize") + ask("initialize", 2), (1, RESULT), (2, RESULT)),
    row("initialize with nonsense", ask("initialize", params={"protocolVersion": [], "capabilities": 5}),
        (1, RESULT)),
    row("initialize with an array", ask("initialize", params=[]), (1, PARAMS)),
    row("initialized before initialize", note("notifications/initialized") + PING, (1, RESULT)),
    row("a list before initialize", ask("tools/list"), (1, RESULT)),
    row("a list with an old cursor", ask("tools/list", params={"cursor": "100"}), (1, PARAMS)),
    row("a list with a cursor of a number", ask("tools/list", params={"cursor": 0}), (1, PARAMS)),
    row("a list with a cursor of null", ask("tools/list", params={"cursor": None}), (1, RESULT)),
    row("discover without _meta", ask("server/discover"), (1, PARAMS)),
    row("listen without _meta", ask("subscriptions/listen"), (1, METHOD)),
    row("tasks of 2025-11-25", ask("tasks/list") + ask("tasks/result", 2), (1, METHOD), (2, METHOD)),
    row("what we do not offer", ask("resources/list") + ask("prompts/list", 2) + ask("logging/setLevel", 3)
        + ask("completion/complete", 4) + ask("resources/subscribe", 5) + ask("sampling/createMessage", 6)
        + ask("roots/list", 7) + ask("elicitation/create", 8),
        *((n, METHOD) for n in range(1, 9))),
    row("_meta of null", ask(params={"_meta": None}), (1, PARAMS)),
    row("_meta of an array", ask(params={"_meta": []}), (1, PARAMS)),
    row("_meta of strangers", ask(params={"_meta": {"evil.example/token": "x", "": 1}}), (1, RESULT)),
    # the modern era
    row("discover", ask("server/discover", params={"_meta": MODERN}), (1, RESULT)),
    row("a list", ask("tools/list", params={"_meta": MODERN}), (1, RESULT)),
    row("ping is gone", ask(params={"_meta": MODERN}), (1, METHOD)),
    row("initialize is gone", ask("initialize", params={"_meta": MODERN}), (1, METHOD)),
    row("a version of a number", ask("tools/list", params={"_meta": MODERN | {VERSION: 2026}}), (1, PARAMS)),
    row("a version of tomorrow", ask("tools/list", params={"_meta": MODERN | {VERSION: "2027-07-28"}}),
        (1, -32022)),
    row("a legacy version", ask("tools/list", params={"_meta": MODERN | {VERSION: "2025-06-18"}}),
        (1, -32022)),
    row("an empty version", ask("tools/list", params={"_meta": MODERN | {VERSION: ""}}), (1, -32022)),
    row("no capabilities", ask("tools/list", params={"_meta": {VERSION: mcp.MODERN}}), (1, PARAMS)),
    row("capabilities of an array", ask("tools/list", params={"_meta": MODERN | {CAPABILITIES: []}}),
        (1, PARAMS)),
    row("capabilities alone are the legacy era", ask(params={"_meta": {CAPABILITIES: {}}}), (1, RESULT)),
    row("both eras on one connection", PING + ask("tools/list", 2, params={"_meta": MODERN}),
        (1, RESULT), (2, RESULT)),
    row("listen to an array", ask("subscriptions/listen", params={"_meta": MODERN, "notifications": []}),
        (1, PARAMS)),
    row("tasks without the extension", ask("tasks/get", params={"_meta": MODERN, "taskId": "x"}),
        (1, -32021)),
    row("tasks that are not offered", ask("tasks/get", params={"_meta": TASKS, "taskId": "x"}), (1, METHOD)),
    row("a call that asks for a task, undeclared", call(SAID, meta=MODERN, task={}), (1, RESULT)),
    row("a call that asks for a task", call(SAID, meta=TASKS, task={"ttl": 1}), (1, RESULT)),
    row("a legacy call with a task", call(SAID, task={"ttl": 1}), (1, RESULT)),
    # calls
    row("a call", call(SAID), (1, RESULT)),
    row("a modern call", call(SAID, meta=MODERN), (1, RESULT)),
    row("a call without params", ask("tools/call"), (1, PARAMS)),
    row("a call of nothing", call(SAID, name=...), (1, PARAMS)),
    row("a call of null", call(SAID, name=None), (1, PARAMS)),
    row("a call of a list", call(SAID, name=["echo_say"]), (1, PARAMS)),
    row("a call in capitals", call(SAID, name="ECHO_SAY"), (1, PARAMS)),
    row("a call with a space", call(SAID, name="echo_say "), (1, PARAMS)),
    row("a call with a NUL", call(SAID, name="echo_say\x00"), (1, PARAMS)),
    row("a call by a path", call(SAID, name="../echo_say"), (1, PARAMS)),
    row("a call by a harness's name", call(SAID, name="mcp__echo__echo_say"), (1, PARAMS)),
    row("a call of __class__", call(SAID, name="__class__"), (1, PARAMS)),
    row("a call with a name of 1 MB", call(SAID, name="n" * 2**20), (1, PARAMS)),
    row("arguments of an array", call([]), (1, PARAMS)),
    row("arguments of a string", call("{}"), (1, PARAMS)),
    row("arguments of null are none", call(None), (1, RESULT)),
    row("no arguments", call(), (1, RESULT)),
    row("arguments of the wrong type", call({"text": 5}), (1, RESULT)),
    row("arguments nobody knows", call(SAID | {"__proto__": 1}), (1, RESULT)),
    row("arguments of 3 MB", call({"text": "x" * 3_000_000}), (1, RESULT)),
    row("a member nobody knows", call(SAID, more=1, signal={}), (1, RESULT)),
    row("a token of true", call(SAID, meta={"progressToken": True}), (1, PARAMS)),
    row("a token of 1.5", call(SAID, meta={"progressToken": 1.5}), (1, PARAMS)),
    row("a token of an object", call(SAID, meta={"progressToken": {}}), (1, PARAMS)),
    row("a token of 1 MB", call(SAID, meta={"progressToken": "t" * 2**20}), (1, PARAMS)),
    row("a token of null is none", call(SAID, meta={"progressToken": None}), (1, RESULT)),
    row("a cancel of nothing", note("notifications/cancelled")),
    row("a cancel of what is no id", b"".join(note("notifications/cancelled", requestId=ident)
        for ident in (None, True, 1.0, [1], {}, "x" * 300))),
    row("a cancel of strangers", note("notifications/cancelled", requestId=99) * 3),
    row("a cancel before its request", note("notifications/cancelled", requestId=1) + call(SAID),
        (1, RESULT)),
    row("a cancel after its answer", call(SAID) + note("notifications/cancelled", requestId=1), (1, RESULT)),
    *(row(f"the id {ident!r:.20}", ask("ping", ident), (ident, RESULT)) for ident in IDS),
    *(row(f"a call by the id {ident!r:.20}", called(ident), (ident, RESULT)) for ident in IDS),
    *(row(f"no message: {what}", line + b"\n", (ident, code))
      for what, line, code, ident in test_jsonrpc.ABUSE),
)  # fmt: skip


def heard(line: bytes) -> tuple[Any, int | None]:
    message = orjson.loads(line)
    assert message["jsonrpc"] == "2.0"
    assert ("result" in message) != ("error" in message)
    return message["id"], message["error"]["code"] if "error" in message else RESULT


async def answers_until(agent: Agent, ident: str) -> list[tuple[Any, int | None]]:
    """What is answered before the answer to the last ping."""
    found = []
    while (one := heard(await agent.line())) != (ident, RESULT):
        found.append(one)
    return found


def same(found: Iterable[Any], wanted: Iterable[Any]) -> bool:
    """In type as well as in value: 1 is not "1", and not True."""
    return sorted(map(repr, found)) == sorted(map(repr, wanted))


@pytest.mark.parametrize("one", ROWS, ids=lambda one: one.what)
def test_a_bad_line_is_answered_as_it_should_and_nothing_else_is(one: Row) -> None:
    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as agent:
            agent.send(one.sent, ask("ping", "the end"))
            found = await answers_until(agent, "the end")
            assert same(found, one.answered), found

    run(test)


@pytest.mark.slow
def test_a_line_that_comes_alone_is_answered_as_among_others() -> None:
    """What arrives in one piece and is one line takes a way of its own; an agent waits before it goes on."""

    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as agent:
            for number, one in enumerate(ROWS):
                async with asyncio.timeout(30):
                    for line in one.sent.splitlines(keepends=True):
                        agent.send(line)
                        await agent.writer.drain()
                    found = [heard(await agent.line()) for _ in one.answered]
                assert same(found, one.answered), (one.what, found)
                agent.send(ask("ping", f"end {number}"))
                assert await answers_until(agent, f"end {number}") == [], one.what

    run(test)


CUTS: tuple[Callable[[random.Random], int], ...] = (
    lambda _: 2**30,
    lambda chance: chance.randint(1, 200),
    lambda chance: 2 ** chance.randint(0, 20),
)


@pytest.mark.parametrize("cut", CUTS, ids=["in one piece", "in small pieces", "in pieces of every size"])
def test_a_conversation_of_bad_lines_is_answered_the_same_however_it_is_cut(
    cut: Callable[[random.Random], int],
) -> None:
    """Each row between two pings, all on one connection."""
    chance = random.Random(7)
    rows = [one for one in ROWS if len(one.sent) < 100_000]
    chance.shuffle(rows)
    stream = b"".join(one.sent + ask("ping", f"end {number}") for number, one in enumerate(rows))

    async def test() -> None:
        async with stage_set(FakeLane(stage.echoing)) as play, play.agent() as agent:
            start = 0
            while start < len(stream):
                size = cut(chance)
                agent.send(stream[start : start + size])
                await agent.writer.drain()
                start += size
            for number, one in enumerate(rows):
                found = await answers_until(agent, f"end {number}")
                assert same(found, one.answered), (one.what, found)

    run(test)


def test_the_table_is_long_enough_to_trust() -> None:
    assert len(ROWS) > 200
    assert len({one.what for one in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"{", (None, PARSE)),
        (PING[:-1], (None, PARSE)),  # whole, but for all we know the half of something else
        (call(SAID)[:-1], (None, PARSE)),
        (b"\xef", (None, PARSE)),
        (PING + b"x", (1, RESULT)),
        (PING, (1, RESULT)),
    ],
)
def test_half_a_line_at_the_end_is_not_done(sent: bytes, answered: tuple[Any, int | None]) -> None:
    async def test() -> None:
        lane = FakeLane(stage.echoing)
        async with stage_set(lane) as play, play.agent() as agent:
            agent.send(sent)
            agent.writer.write_eof()
            lines = (await agent.reader.read()).splitlines()
            assert heard(lines[0]) == answered
            assert len(lines) == 1 + (sent == PING + b"x")
            assert not lane.sent

    run(test)


BUSY: tuple[tuple[str, bytes], ...] = (
    ("a call", call(SAID)),
    ("a modern call", call(SAID, meta=MODERN)),
    ("a call of no tool", call(SAID, name="nope")),
    ("a ping", PING),
    ("a list", ask("tools/list")),
    ("initialize", ask("initialize")),
    ("discover", ask("server/discover", params={"_meta": MODERN})),
    ("listen", ask("subscriptions/listen", params={"_meta": MODERN})),
    ("no method", ask("nope")),
    ("a bad envelope", ask(jsonrpc="1.0")),
    ("bad params", ask(params=[])),
    ("a bad token", call(SAID, meta={"progressToken": 1.5})),
)


@pytest.mark.parametrize("sent", [line for _, line in BUSY], ids=[what for what, _ in BUSY])
@pytest.mark.parametrize("holder", ["call", "listen"])
def test_an_id_that_is_in_use_is_never_answered_for_another_request(holder: str, sent: bytes) -> None:
    async def test() -> None:
        lane = FakeLane()
        async with stage_set(lane) as play, play.agent() as agent:
            if holder == "call":
                agent.send(call({"text": "first"}))
            else:
                agent.send(ask("subscriptions/listen", params={"_meta": MODERN}))
                await agent.message()
            agent.send(sent, ask("ping", "the end"))
            (found,) = await answers_until(agent, "the end")
            assert found[0] is None
            assert found[1] in (INVALID, PARAMS)
            if holder == "call":
                (first,) = lane.sent
                first.answer(text="first")
                assert (await agent.message())["result"]["structuredContent"] == {"text": "first"}

    run(test)


def test_one_without_a_session_is_told_so_for_every_request_and_nothing_for_what_is_none() -> None:
    async def test() -> None:
        async with stage_set(None) as play:
            play.refusal = "agent 'clerk' cannot start"
            async with play.agent() as agent:
                agent.send(
                    PING, call(SAID), b"hello\n", b"[]\n", note("x"), ask(..., result={}), ask("ping", "e")
                )
                found = [heard(await agent.line()) for _ in range(5)]
                assert found == [
                    (1, NO_SESSION), (1, NO_SESSION), (None, PARSE), (None, INVALID), ("e", NO_SESSION),
                ]  # fmt: skip

    run(test)
