"""The bridge: bytes through, whole messages or none, and one sentence when nobody answers."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.doors import bridge

_ENV = {key: value for key, value in os.environ.items() if not key.startswith(("HANDLER_", "XDG_", "PYTHON"))}
_DEADLINE_S = 20

Start = Callable[..., subprocess.Popen[bytes]]
Listen = Callable[..., "Router"]


class Router:
    """A listener that a test answers by hand; it can leave and come back at the same path."""

    def __init__(self, path: Path, backlog: int = 8) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(backlog)
        self.listener.settimeout(_DEADLINE_S)
        self.accepted: list[socket.socket] = []

    def accept(self) -> socket.socket:
        sock, _ = self.listener.accept()
        sock.settimeout(_DEADLINE_S)
        self.accepted.append(sock)
        return sock

    def leave(self) -> None:
        self.listener.close()
        self.path.unlink()

    def close(self) -> None:
        for sock in (self.listener, *self.accepted):
            sock.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ocr.sock"


@pytest.fixture
def listen() -> Iterator[Listen]:
    routers: list[Router] = []

    def run(path: Path, backlog: int = 8) -> Router:
        routers.append(Router(path, backlog))
        return routers[-1]

    yield run
    for router in routers:
        router.close()


@pytest.fixture
def start() -> Iterator[Start]:
    started = []

    def run(*arguments: str, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "reconciler.doors.bridge", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_ENV | env,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def ask(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def heard(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        more = sock.recv(1 << 16)
        assert more, data
        data += more
    return data


def answer_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def ends(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, err = process.communicate(timeout=_DEADLINE_S)
    return process.returncode, out, err.decode()


def test_it_imports_nothing_but_the_standard_library_and_little_of_that(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "reconciler.doors.bridge", "--help"],
        capture_output=True,
        text=True,
        env=_ENV,
        check=True,
    )
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"],
        capture_output=True,
        text=True,
        env=_ENV,
        check=True,
    )
    imported = names(done.stderr) - names(bare.stderr)
    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    own = {"reconciler", "reconciler.doors", "reconciler.doors.bridge", "reconciler.doors.owed"}
    own |= {"reconciler.doors.streams"}
    assert foreign <= own
    assert not imported & {
        "socket",
        "threading",
        "json",
        "argparse",
        "asyncio",
        "pathlib",
        "typing",
        "dataclasses",
    }


def names(importtime: str) -> set[str]:
    lines = [line for line in importtime.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip() for line in lines}


def test_bytes_pass_both_ways_whatever_they_are(path: Path, start: Start, listen: Listen) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    request, reply = b'{"\xff":1}\r' + b"q" * 300_000 + b"\n", b"\x00" + b"r" * 3_000_000 + b"\n"
    sender = threading.Thread(target=ask, args=(process, request))
    sender.start()
    assert heard(sock, b"\n") == request
    sender.join()
    sender = threading.Thread(target=sock.sendall, args=(reply,))
    sender.start()
    assert answer_line(process) == reply
    sender.join()
    sock.close()


def test_when_stdin_ends_the_answers_that_are_due_still_arrive(
    path: Path, start: Start, listen: Listen
) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    ask(process, b"first\n")
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert heard(sock, b"\n") == b"first\n"
    assert sock.recv(1) == b""
    sock.sendall(b"late\n")
    sock.close()
    assert ends(process) == (0, b"late\n", "")


def test_when_nothing_was_asked_it_ends_with_stdin(path: Path, start: Start, listen: Listen) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    router.accept()
    assert ends(process) == (0, b"", "")
    process = start("ocr", "--socket", str(path))
    first = router.accept()
    ask(process, b"lost\n")
    assert heard(first, b"\n") == b"lost\n"
    first.close()
    router.accept()
    assert ends(process) == (0, b"", "")


def test_it_waits_for_a_socket_that_comes_a_moment_later(path: Path, start: Start, listen: Listen) -> None:
    process = start("ocr", "--socket", str(path))
    ask(process, b"early\n")
    router = listen(path)
    sock = router.accept()
    assert heard(sock, b"\n") == b"early\n"
    sock.close()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["missing", "dead", "full", "shut"])
def test_when_nobody_answers_for_two_seconds_one_sentence_says_so(
    path: Path, start: Start, listen: Listen, what: str
) -> None:
    kept = []
    if what == "dead":
        listen(path).listener.close()
    if what == "full":
        listen(path, backlog=0)
        filler = socket.socket(socket.AF_UNIX)
        filler.connect(str(path))
        kept = [filler]
    over = threading.Event()
    thread = threading.Thread(target=lambda: None)
    if what == "shut":
        thread = threading.Thread(target=shut_everyone, args=(listen(path).listener, over))
    thread.start()
    process = start("ocr", "--socket", str(path))
    process.wait(_DEADLINE_S)
    over.set()
    thread.join()
    code, out, err = ends(process)
    assert (code, out) == (1, b"")
    assert err.startswith("handler-service: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for sock in kept:
        sock.close()


def shut_everyone(listener: socket.socket, over: threading.Event) -> None:
    listener.settimeout(0.05)
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            listener.accept()[0].close()


def test_after_a_restart_it_goes_on_and_replays_nothing(path: Path, start: Start, listen: Listen) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    ask(process, b"one\n")
    assert heard(sock, b"\n") == b"one\n"
    router.leave()
    sock.close()
    router = listen(path)
    sock = router.accept()
    ask(process, b"two\n")
    assert heard(sock, b"\n") == b"two\n"
    sock.sendall(b"answer\n")
    assert answer_line(process) == b"answer\n"
    sock.close()


@pytest.mark.slow
def test_a_bridge_that_was_served_waits_for_a_restart_however_young_it_is(
    path: Path, start: Start, listen: Listen
) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    sock.sendall(b"answer\n")
    assert answer_line(process) == b"answer\n"
    router.leave()
    sock.close()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.6)  # longer than the patience for a first connection
    sock = listen(path).accept()
    ask(process, b"two\n")
    assert heard(sock, b"\n") == b"two\n"
    sock.close()


def test_half_a_message_at_a_restart_is_dropped_on_both_ways(
    path: Path, start: Start, listen: Listen
) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    ask(process, b"whole\nhalf ")
    assert heard(sock, b"half ") == b"whole\nhalf "
    sock.sendall(b"good\ntorn ")
    assert answer_line(process) == b"good\n"
    sock.close()
    again = router.accept()
    ask(process, b"of it\nnext\n")
    assert heard(again, b"\n") == b"next\n"
    again.sendall(b"fresh\n")
    assert answer_line(process) == b"fresh\n"
    again.close()


def call(ident: int, more: bytes = b"") -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"a":"%b"}}}\n'
        % (ident, more)
    )


def test_what_was_under_way_when_a_router_is_killed_is_answered_and_the_next_is_asked(
    path: Path, start: Start, listen: Listen
) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    ask(process, call(1) + call(2) + b'{"jsonrpc":"2.0","id":3,"method":"tools/list"}\n')
    heard(sock, b'"tools/list"}\n')
    done = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    sock.sendall(done)
    assert answer_line(process) == done
    half = call(4, b"x" * 100_000)
    ask(process, half[:70_000])
    heard(sock, b"x" * 9_000)
    router.leave()
    sock.close()
    ended = [json.loads(answer_line(process)) for _ in range(2)]
    assert ended[0]["id"] == 2
    assert ended[0]["result"]["_meta"]["ai.handler/error"]["error"] == "unavailable"
    assert (ended[1]["id"], ended[1]["error"]["code"]) == (3, -32603)
    ask(process, half[70_000:] + call(5))
    router = listen(path)
    sock = router.accept()
    assert json.loads(answer_line(process))["id"] == 4
    assert heard(sock, b"\n") == call(5)
    sock.sendall(done.replace(b"1", b"5"))
    assert json.loads(answer_line(process))["id"] == 5
    sock.close()


def test_what_is_under_way_when_stdin_has_ended_is_answered_too(
    path: Path, start: Start, listen: Listen
) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    ask(process, call(1))
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert heard(sock, b"\n") == call(1)
    assert sock.recv(1) == b""
    sock.close()
    code, out, err = ends(process)
    assert (code, err) == (0, "")
    assert json.loads(out)["result"]["isError"] is True


def test_a_message_asked_while_nobody_listens_goes_to_the_next_router(
    path: Path, start: Start, listen: Listen
) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    router.leave()
    sock.close()
    ask(process, b"patient\n")
    router = listen(path)
    sock = router.accept()
    assert heard(sock, b"\n") == b"patient\n"
    sock.close()


def test_python_variables_change_nothing_that_the_agent_reads(
    path: Path, tmp_path: Path, start: Start, listen: Listen
) -> None:
    startup = tmp_path / "startup.py"
    startup.write_text("print('noise')\n")
    router = listen(path)
    process = start(
        "ocr",
        "--socket",
        str(path),
        PYTHONSTARTUP=str(startup),
        PYTHONINSPECT="1",
        PYTHONWARNINGS="always",
        PYTHONVERBOSE="1",
        PYTHONDEVMODE="1",
        PYTHONIOENCODING="utf-16",
        PYTHONPROFILEIMPORTTIME="1",
    )
    sock = router.accept()
    ask(process, b"question\n")
    assert heard(sock, b"\n") == b"question\n"
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert sock.recv(1) == b""
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    sock.close()
    code, out, _ = ends(process)
    assert (code, out) == (0, b'{"jsonrpc":"2.0","id":1,"result":{}}\n')


def test_an_agent_that_leaves_or_interrupts_sees_no_traceback(
    path: Path, start: Start, listen: Listen
) -> None:
    router = listen(path)
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    process.send_signal(signal.SIGINT)
    assert ends(process) == (130, b"", "")
    process = start("ocr", "--socket", str(path))
    sock = router.accept()
    assert process.stdout is not None
    process.stdout.close()
    sock.sendall(b"to nobody\n")
    assert process.wait(_DEADLINE_S) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    sock.close()


def test_a_long_path_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    fd = os.open(folder, os.O_PATH)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"/proc/self/fd/{fd}/ocr.sock")
    listener.listen()
    os.close(fd)
    bridge.connect(str(folder / "ocr.sock")).close()
    listener.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HANDLER_SERVICES", "HANDLER_SESSION", "HANDLER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HANDLER_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("HANDLER_STATE", str(tmp_path / "state"))
    return tmp_path


def door(world: Path, *arguments: str) -> str:
    return bridge.Ask(["ocr", *arguments]).door().removeprefix(f"{world}/")


def test_which_socket_is_relayed(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (world / "run/a/reviewer").mkdir(parents=True)
    assert door(world) == "run/a/reviewer/ocr.sock"
    (world / "run/a/clerk").mkdir()
    with pytest.raises(bridge.Usage, match="clerk, reviewer"):
        door(world)
    assert door(world, "--agent", "clerk") == "run/a/clerk/ocr.sock"
    monkeypatch.setenv("HANDLER_SESSION", "abc")
    assert door(world, "--agent=clerk") == "run/s/abc/ocr.sock"
    monkeypatch.setenv("HANDLER_SERVICES", "/mounted/services.sock")
    assert door(world) == "/mounted/ocr.sock"
    assert door(world, "--socket", "/x.sock") == "/x.sock"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["ocr", "tts"],
        ["ocr", "--agent"],
        ["ocr", "--port=1"],
        ["../up"],
        ["ocr", "--agent", "a/b"],
        [".ocr"],
    ],
)
def test_a_command_line_that_cannot_be_followed_exits_2(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reconciler.doors.bridge", *arguments],
        capture_output=True,
        text=True,
        env=_ENV,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("handler-service: ")


def test_the_sentence_names_what_is_missing(world: Path, listen: Listen) -> None:
    run = world / "run"
    door_of = str(run / "a/clerk/ocr.sock")
    assert "name one with -c DIR or HANDLER_CONFIG" in bridge.why_not(door_of, str(world / "nowhere"))
    assert "no controller runs" in bridge.why_not(door_of, str(world))
    run.mkdir()
    listen(run / "control.sock")
    assert "no such agent; served are: none" in bridge.why_not(door_of, None)
    status = world / "state/status/agent/clerk.json"
    status.parent.mkdir(parents=True)
    status.write_text(
        '{"source": {"file": "agents/clerk.toml"}, "conditions": [{"type": "Ready",'
        ' "reason": "MissingRequirement", "message": "needs ocr/v1, nothing is bound"}]}'
    )
    assert "MissingRequirement: needs ocr/v1, nothing is bound (agents/clerk.toml)" in bridge.why_not(
        door_of, None
    )
    (run / "a/clerk").mkdir(parents=True)
    (run / "a/clerk/tts.sock").touch()
    assert "no service 'ocr'; it has tts" in bridge.why_not(door_of, None)
    (run / "a/clerk/ocr.sock").touch()
    assert "does not answer" in bridge.why_not(door_of, None)
    every = run / "a/clerk/services.sock"
    assert f"{every} was removed: it is made anew" in bridge.why_not(str(every), None)
    assert "session 'abc' is over" in bridge.why_not(str(run / "s/abc/ocr.sock"), None)


def test_a_stdin_that_ends_while_it_reconnects_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Lock()
    never.acquire()
    monkeypatch.setattr(bridge, "_read", never.acquire)
    with socket.socket(socket.AF_UNIX) as router:
        router.bind(str(tmp_path / "r.sock"))
        router.listen()

        class Ask:
            dialled = 0

            def door(self) -> str:
                self.dialled += 1
                relay._ended = self.dialled == 2  # as the other thread does, in the middle of a dial
                return str(tmp_path / "r.sock")

        relay = bridge.Relay(Ask())  # type: ignore[arg-type]
        running = threading.Thread(target=relay.run, daemon=True)
        running.start()
        router.accept()[0].close()
        with router.accept()[0]:
            running.join(_DEADLINE_S)
        assert not running.is_alive()


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_a_bridge_without_an_agent_at_its_input_ends_and_takes_no_socket_for_one(
    path: Path, listen: Listen, closed: str
) -> None:
    router = listen(path)
    command = f'exec "$0" -m reconciler.doors.bridge ocr --socket "$1" {closed}'
    with subprocess.Popen(["sh", "-c", command, sys.executable, str(path)], env=_ENV) as child:
        sock = router.accept()
        assert sock.recv(1) == b""
        sock.close()
        assert child.wait(_DEADLINE_S) == 0
