"""The connector kit on a real socket: both eras, calls at once, files, failures, cancellation, progress."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.kit import handler_connector as kit

WAIT_S = 10


class Client:
    """One connection; answers come by id."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self._lines = self.socket.makefile("rb")

    def send(self, method: str, params: object = None, **rest: object) -> None:
        self.raw(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **rest}).encode() + b"\n"
        )

    def raw(self, line: bytes) -> None:
        self.socket.sendall(line)

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._lines.readline())
        return found

    def ask(self, method: str, params: object = None, number: object = 1) -> dict[str, Any]:
        self.send(method, params, id=number)
        return self.read()

    def call(self, tool: str, number: object = 1, **arguments: object) -> dict[str, Any]:
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments}, number)
        assert answer["id"] == number
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


class Wordless(Exception):  # noqa: N818 - as a connector may name its own
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError


class Stage:
    """A served connector in a thread, its folders, and what its tools signal to the test."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "c.sock")
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.cancelled = threading.Event()
        self.clients: list[Client] = []

    def connect(self) -> Client:
        self.clients.append(Client(self.path))
        return self.clients[-1]

    def tools(self) -> "dict[str, kit.Tool]":
        return {
            "echo": lambda args, call: args,
            "read": lambda args, call: {"text": args["file"].read().decode(), "name": args["file"].name},
            "many": lambda args, call: {"sizes": [file.size for file in args["files"]]},
            "write": self.write,
            "wait": self.wait,
            "fail": self.fail,
            "count": self.count,
            "odd": lambda args, call: {"value": float("nan")},
            "half": lambda args, call: {"value": "\ud800"},
            "none": lambda args, call: None,  # type: ignore[dict-item,return-value]
            "exit": lambda args, call: sys.exit(3),
            "long": lambda args, call: int("a\n  b" * 2000),  # type: ignore[dict-item,return-value]
            "wordless": self.wordless,
            "asks": self.asks,
            "adds": self.adds,
        }

    def write(self, args: dict[str, Any], call: kit.Call) -> dict[str, Any]:
        if args.get("how") == "open":
            with args["out"].open() as file:
                file.write(b"streamed")
        elif args.get("how") == "whole":
            args["out"].write(b"whole")
        return {"name": args["out"].name}

    def adds(self, args: dict[str, Any], call: kit.Call) -> dict[str, Any]:
        call.add("maildir", "new/1", b"hello")
        call.add("maildir", "new/2", b"")
        return {}

    def wait(self, args: dict[str, Any], call: kit.Call) -> dict[str, Any]:
        self.entered.release()
        if call.cancelled.wait(WAIT_S) if args.get("listens") else not self.go_on.wait(WAIT_S):
            self.cancelled.set()
        return {"cancelled": call.cancelled.is_set()}

    def fail(self, args: dict[str, Any], call: kit.Call) -> dict[str, Any]:
        if args.get("listed"):
            raise kit.Failure("unsupported_format", "no text layer")
        raise RuntimeError("secret words of a vendor")

    def wordless(self, args: dict[str, Any], call: kit.Call) -> dict[str, Any]:
        raise Wordless

    def asks(self, args: dict[str, Any], call: kit.Call) -> dict[str, Any]:
        wanted = not call.cancelled
        self.entered.release()
        if wanted and call.cancelled.wait(WAIT_S) and call.cancelled:
            self.cancelled.set()
        return {}

    def count(self, args: dict[str, Any], call: kit.Call) -> dict[str, Any]:
        for done in (1, 2, 2, 1, 3):
            call.progress(done, 3)
        return {}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(kit, f"{name.upper()}BOX", str(tmp_path / name))
    made = Stage(tmp_path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(made.path)
    listener.listen()
    monkeypatch.setenv("HANDLER_CONNECTOR_FD", str(os.dup(listener.fileno())))

    def served() -> None:
        with suppress(OSError):  # the listener is shut down when the test is over
            kit.serve(made.tools())

    thread = threading.Thread(target=served)
    thread.start()
    yield made
    made.go_on.set()
    for client in made.clients:
        client.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize(("asked", "answered"), [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")])
def test_it_greets_with_a_version_that_it_speaks(stage: Stage, asked: str, answered: str) -> None:
    result = stage.connect().ask("initialize", {"protocolVersion": asked})["result"]
    assert result["protocolVersion"] == answered
    assert result["capabilities"] == {"tools": {}}


def test_it_can_be_discovered_pinged_and_listed(stage: Stage) -> None:
    client = stage.connect()
    found = client.ask("server/discover")["result"]
    assert found["resultType"] == "complete"
    assert "2025-11-25" in found["supportedVersions"]
    assert client.ask("ping")["result"] == {}
    assert "echo" in [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
    assert client.ask("sampling/createMessage")["error"]["code"] == -32601


def test_an_answer_is_structured_and_says_nothing_twice(stage: Stage) -> None:
    arguments = {"text": "é\u2028", "n": 2**53, "list": [{"a": None}], "object": {"name": "x"}}
    assert stage.connect().call("echo", **arguments) == {"structuredContent": arguments, "content": []}


@pytest.mark.parametrize("number", [1, "one", 0, -5, "1"])
def test_an_id_comes_back_as_it_was(stage: Stage, number: object) -> None:
    assert stage.connect().ask("ping", number=number)["id"] == number


def test_input_files_are_read_from_the_inbox(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "in" / "b1").write_bytes(b"content")
    handed = {"name": "invoice.pdf", "mediaType": "application/pdf", "size": 7, "blob": "b1"}
    client = stage.connect()
    assert client.call("read", file=handed)["structuredContent"] == {"text": "content", "name": "invoice.pdf"}
    assert client.call("many", files=[handed, handed])["structuredContent"] == {"sizes": [7, 7]}


@pytest.mark.parametrize("blob", ["../secret", "/etc/hostname", "a/b", 3, None])
@pytest.mark.parametrize("more", [{}, {"mediaType": "x", "size": 1}])
def test_a_map_of_an_agent_that_looks_like_a_file_stays_a_map(
    stage: Stage, blob: object, more: dict[str, object]
) -> None:
    given = {"map": {"name": "x", "blob": blob, **more}}
    assert stage.connect().call("echo", **given)["structuredContent"] == given


@pytest.mark.parametrize(("how", "content"), [("open", b"streamed"), ("whole", b"whole")])
def test_output_files_are_written_to_the_outbox_and_named(
    stage: Stage, tmp_path: Path, how: str, content: bytes
) -> None:
    result = stage.connect().call("write", how=how, out={"name": "a.wav", "blob": "b2"})
    assert result["structuredContent"] == {"name": "a.wav"}
    assert result["_meta"] == {"ai.handler/files": {"out": {"blob": "b2", "size": len(content)}}}
    assert (tmp_path / "out" / "b2").read_bytes() == content


def test_files_for_a_folder_of_a_setting_are_handed_over_beside_the_answer(
    stage: Stage, tmp_path: Path
) -> None:
    added = stage.connect().call("adds")["_meta"]["ai.handler/added"]
    assert [(one["setting"], one["name"], one["size"]) for one in added] == [
        ("maildir", "new/1", 5), ("maildir", "new/2", 0),
    ]  # fmt: skip
    assert [(tmp_path / "out" / one["blob"]).read_bytes() for one in added] == [b"hello", b""]


def test_an_output_file_that_was_not_written_is_not_named(stage: Stage) -> None:
    assert "_meta" not in stage.connect().call("write", out={"name": "a.wav", "blob": "b3"})


def test_a_failure_is_the_interfaces_code_with_words_for_operators(stage: Stage) -> None:
    result = stage.connect().call("fail", listed=True)
    assert result["isError"]
    assert result["_meta"] == {
        "ai.handler/error": {"code": "unsupported_format", "diagnostic": "no text layer"}
    }
    assert json.loads(result["content"][0]["text"])["error"] == "unsupported_format"


@pytest.mark.parametrize(
    ("tool", "diagnostic"),
    [
        ("fail", "RuntimeError at "),
        ("odd", "ValueError at "),
        ("half", "UnicodeEncodeError at "),
        ("none", "TypeError at "),
        ("exit", "SystemExit at "),
        ("long", "ValueError at "),
        ("wordless", "Wordless"),
    ],
)
def test_any_other_fault_is_unavailable_and_its_words_are_for_the_operator_alone(
    stage: Stage, capfd: pytest.CaptureFixture[str], tool: str, diagnostic: str
) -> None:
    client = stage.connect()
    result = client.call(tool)
    error = result["_meta"]["ai.handler/error"]
    assert error["code"] == "unavailable"
    assert error["diagnostic"].startswith(diagnostic)
    assert len(error["diagnostic"].splitlines()) == 1
    assert len(error["diagnostic"]) < 450
    assert "secret words" not in json.dumps(result)  # its text is in the log alone
    assert "Traceback" in capfd.readouterr().err
    assert client.call("echo", a=1)["structuredContent"] == {"a": 1}  # and it serves on


def test_calls_run_at_once_and_answer_as_they_end(stage: Stage) -> None:
    client = stage.connect()
    for number in range(8):
        client.send("tools/call", {"name": "wait", "arguments": {}}, id=number)
    for _ in range(8):
        assert stage.entered.acquire(timeout=WAIT_S)
    assert client.ask("ping", number="meanwhile")["id"] == "meanwhile"
    stage.go_on.set()
    assert {client.read()["id"] for _ in range(8)} == set(range(8))


def test_a_cancelled_call_hears_of_it_and_is_not_answered(stage: Stage) -> None:
    client = stage.connect()
    client.send("tools/call", {"name": "wait", "arguments": {"listens": True}}, id=7)
    assert stage.entered.acquire(timeout=WAIT_S)
    client.send("notifications/cancelled", {"requestId": 7})
    assert stage.cancelled.wait(WAIT_S)
    client.send("notifications/cancelled", {"requestId": "unknown"})
    assert client.ask("ping", number=8)["id"] == 8


def test_a_call_can_ask_whether_it_is_cancelled(stage: Stage) -> None:
    client = stage.connect()
    client.send("tools/call", {"name": "asks", "arguments": {}}, id=7)
    assert stage.entered.acquire(timeout=WAIT_S)
    client.send("notifications/cancelled", {"requestId": 7})
    assert stage.cancelled.wait(WAIT_S)


def test_a_client_that_leaves_cancels_its_calls_and_no_others(stage: Stage) -> None:
    stays, leaves = stage.connect(), stage.connect()
    leaves.send("tools/call", {"name": "wait", "arguments": {"listens": True}}, id=1)
    assert stage.entered.acquire(timeout=WAIT_S)
    leaves.close()
    assert stage.cancelled.wait(WAIT_S)
    assert stays.call("echo", a=1)["structuredContent"] == {"a": 1}


def test_progress_grows_and_is_told_only_to_who_asked(stage: Stage) -> None:
    client = stage.connect()
    params = {"name": "count", "arguments": {}, "_meta": {"progressToken": "p"}}
    client.send("tools/call", params, id=1)
    told = [client.read() for _ in range(4)]
    assert [one["params"]["progress"] for one in told[:3]] == [1, 2, 3]
    assert {one["params"]["progressToken"] for one in told[:3]} == {"p"}
    assert told[3]["id"] == 1
    assert client.call("count")["structuredContent"] == {}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{nonsense\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"unknown"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}\n', -32602),
    ],
)
def test_what_cannot_be_read_is_answered_and_the_line_stays_open(
    stage: Stage, line: bytes, code: int
) -> None:
    client = stage.connect()
    client.raw(line)
    assert client.read()["error"]["code"] == code
    client.raw(b'{"jsonrpc":"2.0","id":5,"result":{}}\n"text"\n')  # answers to nothing
    assert client.ask("ping", number=6)["id"] == 6


def test_an_id_is_not_used_twice_at_once(stage: Stage) -> None:
    client = stage.connect()
    client.send("tools/call", {"name": "wait", "arguments": {}}, id=1)
    assert stage.entered.acquire(timeout=WAIT_S)
    assert client.ask("tools/call", {"name": "wait", "arguments": {}})["error"]["code"] == -32600
    stage.go_on.set()
    assert client.read()["id"] == 1


def test_a_line_without_end_costs_the_connection_and_a_bounded_buffer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "MAX_LINE_BYTES", 1000)
    client = stage.connect()
    client.raw(b"x" * 1001)
    with pytest.raises((json.JSONDecodeError, ConnectionResetError)):
        client.read()
    assert stage.connect().call("echo", a=1)["structuredContent"] == {"a": 1}


def tried(path: str) -> Client | None:
    try:
        return Client(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return None


def interpreters() -> list[str]:
    """This python and whatever other supported one is installed beside it."""
    home = Path(sys.base_prefix).parent
    others = [
        str(path) for version in ("3.11", "3.12", "3.13") for path in home.glob(f"{version}.*/bin/python")
    ]
    return others or [sys.executable]


@pytest.mark.parametrize("python", interpreters())
def test_it_serves_on_its_own_socket_with_the_standard_library_alone(python: str, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.append({str(Path(kit.__file__).parent)!r})\n"
        "from handler_connector import serve\n"
        "costly = {'asyncio', 'dataclasses', 'inspect', 'typing', 'pathlib', 'traceback'}\n"
        "heavy = sorted(costly & set(sys.modules))\n"
        "serve({'echo': lambda args, call: {'heavy': heavy, 'version': list(sys.version_info[:2])}})\n"
    )
    path = str(tmp_path / "own.sock")
    environment = {"HANDLER_CONNECTOR_SOCKET": path, "PATH": os.environ["PATH"]}
    with subprocess.Popen([python, "-I", "-S", "-c", program], env=environment) as running:
        try:
            deadline = time.monotonic() + WAIT_S
            while (client := tried(path)) is None and running.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)  # it binds when it is ready, and tells nobody
            assert client is not None
            answer = client.call("echo")["structuredContent"]
            client.close()
        finally:
            running.kill()
    assert answer["heavy"] == []
    assert answer["version"] >= [3, 11]
