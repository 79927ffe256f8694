"""Hostile connectors and hostile agents against a real controller, a real sandbox and real sockets.

One house for all: whatever a connector does, its own call ends within its time, in the interface's own words,
and the other agents are served meanwhile.
"""

import contextlib
import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.kit import hostile_ends
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(120)]

CANARY = "canary-7f3a"
TEXT = {"type": "string"}
IN = {"type": "string", "format": "handler-file", "description": "the path of a file in the work folder"}
OUT = {"type": "string", "format": "handler-output-file", "description": "a path in the work folder"}
GOOD = {"text": "good"}
UNAVAILABLE = "probe_do ended with the error unavailable: it cannot answer now"
REFUSED = "probe_file ended with the error refused: this is not among what you may use, or it does not exist"
INTERFACE = """apiVersion = "handler.interface/v1"
name = "probe"
version = 1
description = "Whatever a test asks for"
[limits]
timeoutSeconds = 3
maxFileBytes = 1_000_000
concurrentCalls = 8
[errors]
broken = "it is broken"
unavailable = "it cannot answer now"
"""
SKILL = """---
name: probe
description: Probe things with probe_do and probe_file.
---

`broken`, `refused`, `limit`, `invalid_input`: stop. `unavailable`: wait.
"""
CASE = '[[case]]\nname = "{0}"\ntool = "{0}"\ninput = {{ mode = "good" }}\nexpect.contains = ["good"]\n'
CONNECTOR = """apiVersion = "handler.connector/v1"
name = "acme-probe"
description = "Means harm"
implements = ["probe/v1"]
runtime = "python"
"""
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "acme-probe"\n[instance]\nmaxConcurrentCalls = 32\n'
AGENT = """apiVersion = "handler.agent/v1"
services = {{ probe = "acme-{name}" }}
scope = [{{ path = "{inbox}", access = "write" }}]
"""


# Modes that have the connector started anew; each has its own instance: five such ends are a crash loop.
BREAKING = ("flood-notes", "flood-asks", "flood-late", "endless-line", "much-garbage", "exit")
SPOILT = ("bomb", "drip", "ends")  # what these leave behind disturbs later calls of their instance


def tool(name: str, **more: Any) -> dict[str, Any]:
    def closed(required: str, properties: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": False,
            "required": [required],
            "properties": properties,
        }

    inputs = closed("mode", {"mode": TEXT, "text": TEXT, **more})
    outputs = closed("text", {"text": TEXT, "n": {"type": "number"}})
    return {"name": name, "description": f"{name}.", "inputSchema": inputs, "outputSchema": outputs}


class Agent:
    """A client on the bare socket of an agent's standing door."""

    def __init__(self, place: House, name: str, interface: str = "probe") -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(place.run / "a" / name / f"{interface}.sock"))
        self.lines = self.socket.makefile("rb")
        self.number = 0

    def send(self, **message: Any) -> None:
        self.socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lines.readline())
        return found

    def ask(self, name: str = "probe_do", /, **arguments: Any) -> Any:
        """The structured answer of a call, or the first line of its error."""
        self.number += 1
        params = {"name": name, "arguments": arguments}
        self.send(id=self.number, method="tools/call", params=params)
        answer = self.hear()
        assert answer["id"] == self.number, answer
        text = json.dumps(answer)
        assert CANARY not in text
        assert "acme" not in text
        result = answer["result"]
        return (
            result["content"][0]["text"].split("\n")[0]
            if "isError" in result
            else result["structuredContent"]
        )

    def ping(self, router: int) -> float:
        """Seconds until the router, of that process id, answers; without those in which it or we were ready
        to run and the machine ran others: a slow machine is no fault.
        """
        began, unserved = time.monotonic(), queued_s(router) + queued_s(None)
        self.send(id="p", method="ping")
        assert self.hear()["id"] == "p"
        took = time.monotonic() - began
        return took - (queued_s(router) + queued_s(None) - unserved)

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("hostile")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("interfaces/probe/v1/interface.toml", INTERFACE)
        tools = [tool("probe_do"), tool("probe_file", path=IN, output=OUT)]
        made.write("interfaces/probe/v1/tools.json", json.dumps(tools))
        made.write("interfaces/probe/v1/skills/probe/SKILL.md", SKILL)
        cases = CASE.format("probe_do") + CASE.format("probe_file")
        made.write("interfaces/probe/v1/conformance/cases.toml", cases)
        made.write("connectors/acme-probe/connector.toml", CONNECTOR)
        made.write("connectors/acme-probe/PROVISIONING.md", "nothing\n")
        source = Path(__file__).parents[1] / "kit" / "hostile_connector.py"
        made.write("connectors/acme-probe/main.py", source.read_text())
        for name in ("clerk", "other", *SPOILT, *BREAKING):
            made.write(f"bindings/acme-{name}.toml", BINDING)
            made.write(f"agents/{name}.toml", AGENT.format(name=name, inbox=made.inbox))
        made.write("bindings/acme-hog.toml", f"{BINDING}memoryBytes = 100_000_000\n")
        made.write("agents/hog.toml", AGENT.format(name="hog", inbox=made.inbox))
        made.handler("lock", "add", "probe/v1", "--despite-warnings")
        made.start()
        made.handler("apply", "--wait")
        yield made
        assert made.stop() == 0
        assert made.processes() == []
        record = b"".join(path.read_bytes() for path in (made.state / "calls").iterdir())
        assert b"said-by-an-agent" not in record
        assert str(made.inbox).encode() not in record


@pytest.fixture
def clerk(place: House) -> Iterator[Agent]:
    with contextlib.closing(Agent(place, "clerk")) as found:
        assert found.ask(mode="good") == GOOD
        yield found


@pytest.fixture
def other(place: House) -> Iterator[Agent]:
    with contextlib.closing(Agent(place, "other")) as found:
        assert found.ask(mode="good") == GOOD
        yield found


@pytest.mark.parametrize("mode", ["garbage", "ids", "asks"])
def test_nonsense_beside_an_answer_changes_nothing(clerk: Agent, mode: str) -> None:
    assert clerk.ask(mode=mode) == GOOD


@pytest.mark.parametrize("mode", ["vendor-field", "wrong-type", "raise", "tool-error"])
def test_an_answer_outside_the_contract_is_unavailable(clerk: Agent, mode: str) -> None:
    assert clerk.ask(mode=mode) == UNAVAILABLE


def test_only_listed_codes_reach_the_agent(clerk: Agent) -> None:
    assert clerk.ask(mode="code", text="broken") == "probe_do ended with the error broken: it is broken"
    for code in ("acme_quota", "refused", "limit", "invalid_input", "ok"):
        assert clerk.ask(mode="code", text=code) == UNAVAILABLE


@pytest.mark.parametrize("mode", ["many-lines", "huge", *BREAKING])
def test_whatever_a_connector_does_holds_nobody_up(place: House, other: Agent, mode: str) -> None:
    assert place.daemon is not None
    caller = Agent(place, mode if mode in BREAKING else "clerk")
    assert caller.ask(mode="good") == GOOD
    before = resident_mib(place.daemon.pid)
    answers: list[Any] = []
    call = threading.Thread(target=lambda: answers.append(caller.ask(mode=mode)))
    call.start()
    waits: list[float] = []
    while call.is_alive() or not waits:
        waits.append(other.ping(place.daemon.pid))
        time.sleep(0.01)
    assert answers[0] in (UNAVAILABLE, GOOD)
    assert sum(waits) / len(waits) < 0.25
    assert max(waits) < 2
    assert resident_mib(place.daemon.pid) - before < 150
    wait_for(lambda: caller.ask(mode="good") == GOOD, "the connector serves again, or still")
    caller.close()


@pytest.mark.parametrize(("name", "mode"), [("drip", "drip"), ("clerk", "hang")])
def test_what_hangs_or_drips_ends_with_its_time(place: House, name: str, mode: str) -> None:
    with contextlib.closing(Agent(place, name)) as caller:
        began = time.monotonic()
        assert caller.ask(mode=mode) == UNAVAILABLE  # the drip alone would last for 24 s, a hang for ever
        assert time.monotonic() - began > 2.9


BARE = (
    '{"jsonrpc":"2.0","id":ID}',
    '{"jsonrpc":"2.0","id":ID,"result":{"structuredContent":{"text":"x"}},"error":{"code":1,"message":"m"}}',
    '{"jsonrpc":"2.0","id":ID,"result":{"structuredContent":{"text":"x","text":"y"}}}',
    '{"jsonrpc":"2.0","id":ID,"result":[]}',
    '{"jsonrpc":"2.0","id":ID,"result":' + "[" * 5000 + "]" * 5000 + "}",
)
AT_ONCE = (  # None: within its time, either way
    *(("nan", "", UNAVAILABLE), ("separator", "", {"text": "a\u2028b\u2029c\x85d"})),
    *(("bare", text, UNAVAILABLE) for text in BARE),
    *(("flood-progress", "", None), ("stdout", "", None)),
)
IN_TURN = (("close", UNAVAILABLE), ("last-words", GOOD))


def test_each_of_the_others_ends_as_it_must(place: House) -> None:
    """On an instance of their own."""

    def asked(mode: str, text: str) -> Any:
        with contextlib.closing(Agent(place, "ends")) as one:
            return one.ask(mode=mode, text=text)

    with ThreadPoolExecutor(len(AT_ONCE)) as pool:
        said = list(pool.map(lambda one: asked(*one[:2]), AT_ONCE))
    for (mode, text, end), found in zip(AT_ONCE, said, strict=True):
        assert found == end if end else found in (GOOD, UNAVAILABLE), (mode, text)
    with contextlib.closing(Agent(place, "ends")) as caller:
        for mode, end in IN_TURN:
            assert caller.ask(mode=mode) == end, mode
            wait_for(lambda: caller.ask(mode="good") == GOOD, f"it serves again, or still, after {mode}")
        full = [words.split(":") for words in caller.ask(mode="fill")["text"].split()]
        assert [(folder, errno) for folder, _, errno in full] == [
            ("/tmp", "28"), ("/run/connector/out", "28"), ("/dev/shm", "28"),
        ]  # fmt: skip
        assert caller.ask(mode="freeze") == UNAVAILABLE
    logs = [path.read_bytes() for path in (place.state / "logs").glob("acme-ends*")]
    assert 0 < sum(map(len, logs)) <= 2**20 + 65536
    assert not any(b"\x1b" in one for one in logs)


def test_what_takes_memory_is_ended_at_its_bound(place: House) -> None:
    with contextlib.closing(Agent(place, "hog")) as caller:
        assert caller.ask(mode="hog") == UNAVAILABLE
        wait_for(lambda: caller.ask(mode="good") == GOOD, "it serves again")


def test_every_mode_of_the_kit_has_its_end() -> None:
    source = (Path(__file__).parents[1] / "kit" / "hostile_connector.py").read_text()
    modes = {name.replace("_", "-") for name in re.findall(r"def do_(\w+)", source)}
    assert modes == hostile_ends.ENDS.keys()


def test_processes_stay_inside_and_few(place: House) -> None:
    with contextlib.closing(Agent(place, "bomb")) as caller:
        assert caller.ask(mode="grandchildren") == GOOD
        assert int(caller.ask(mode="bomb")["text"]) < 200
    assert len([line for line in place.processes() if "acme-bomb@" in line]) <= 2


def test_nothing_outside_is_reached(clerk: Agent) -> None:
    found = json.loads(clerk.ask(mode="reach")["text"])
    harmless = {"home", "kill-out"}  # the interpreter's own prefix; a signal to its own group
    reached = {name: said for name, said in found.items() if said.startswith("OPEN") and name not in harmless}
    assert reached == {}


PATHS = (
    *("sub/../ok.txt", "../secret.txt", "..", ".", "/", "", "/etc/passwd", "sub//ok.txt", "ok.txt/"),
    *("ok.txt\0x", "ok\nx", "a" * 5000, "~", "~/x", "/proc/self/root/etc/passwd", "/dev/fd/0"),
    *("root/etc/passwd", "link", "inner", "dangling", "fifo", "sparse", "sock", "sub", "missing"),
)


def test_no_path_leads_out_and_all_refusals_read_the_same(place: House, clerk: Agent) -> None:
    inbox = place.inbox
    (inbox.parent / "secret.txt").write_text(CANARY)
    (inbox / "ok.txt").write_text("hello")
    (inbox / "sub").mkdir()
    (inbox / "link").symlink_to(inbox.parent / "secret.txt")
    (inbox / "inner").symlink_to("ok.txt")
    (inbox / "dangling").symlink_to("nowhere")
    (inbox / "root").symlink_to("/")
    os.mkfifo(inbox / "fifo")
    with (inbox / "sparse").open("wb") as file:
        file.truncate(2**40)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(inbox / "sock"))
    assert clerk.ask("probe_file", mode="size", path="ok.txt") == {"text": "5"}
    assert clerk.ask("probe_file", mode="size", path=str(inbox / "ok.txt")) == {"text": "5"}
    for path in PATHS:
        assert clerk.ask("probe_file", mode="size", path=path) == REFUSED, path


WRITE = "p = OUT + '/' + given['output']['blob']\n"
TRICKS = (
    "os.symlink('/etc/passwd', p)",
    "os.symlink('/run/connector/in', p)",
    "open(OUT + '/a', 'w').write('x'); os.link(OUT + '/a', p)",
    "os.mkfifo(p)",
    "os.mkdir(p)",
    "open(p, 'wb').truncate(2**40)",
    "s = socket.socket(socket.AF_UNIX); s.bind(p)",
    "out['blob'] = '../in/x'",
    "open(OUT + '/b', 'w').write('x'); out['blob'] = 'b'",
    "pass",
)


def test_only_a_plain_file_comes_out_and_only_to_a_plain_new_place(place: House, clerk: Agent) -> None:
    for number, trick in enumerate(TRICKS):
        said = clerk.ask("probe_file", mode="run", output=f"trick{number}", text=WRITE + trick)
        assert isinstance(said, str), trick
        assert not (place.inbox / f"trick{number}").exists()
    good = WRITE + "open(p, 'wb').write(b'good'); os.chmod(p, 0o4777)"
    for name in ("../out", ".git/hooks/x", ".x", "CLAUDE.md", "Skill.MD", "nodir/x", "/tmp/x", "x/", "n\0"):
        assert clerk.ask("probe_file", mode="run", output=name, text=good) == REFUSED, name
    assert "text" in clerk.ask("probe_file", mode="run", output="out.txt", text=good)
    made = place.inbox / "out.txt"
    assert made.read_bytes() == b"good"
    assert stat.S_IMODE(made.stat().st_mode) & 0o7111 == 0
    assert [path.name for path in place.inbox.iterdir() if path.name.startswith(".")] == []


def test_a_storm_of_calls_and_cancels_is_bounded(place: House, clerk: Agent, other: Agent) -> None:
    for number in range(600):
        arguments = {"mode": "good", "text": "said-by-an-agent"}
        clerk.send(id=number, method="tools/call", params={"name": "probe_do", "arguments": arguments})
        if number % 3 == 0:
            clerk.send(method="notifications/cancelled", params={"requestId": number})
    assert place.daemon is not None
    assert other.ping(place.daemon.pid) < 2
    heard = [clerk.hear() for _ in range(400)]
    assert {one["id"] for one in heard} <= set(range(600))
    clerk.send(id="d", method="tools/call", params={"name": "probe_do", "arguments": {"mode": "hang"}})
    clerk.send(id="d", method="ping")
    assert {one["id"] for one in (clerk.hear(),)} <= {None, "d", *range(600)}


def test_a_standing_session_that_is_closed_ends_for_its_connections_alone(place: House) -> None:
    first = Agent(place, "clerk")
    assert first.ask(mode="good") == GOOD
    listed = json.loads(place.handler("session", "list", "-o", "json").stdout)
    (old,) = (one["session"] for one in listed if one["agent"] == "clerk")
    place.handler("session", "close", old)
    assert first.lines.readline() == b""
    first.close()
    second = Agent(place, "clerk")
    assert second.ask(mode="good") == GOOD
    listed = json.loads(place.handler("session", "list", "-o", "json").stdout)
    assert [one["session"] for one in listed if one["agent"] == "clerk"] not in ([], [old])
    second.close()


def queued_s(pid: int | None) -> float:
    """Seconds that the main thread of a process, or this thread, has been ready to run and did not."""
    who = "thread-self" if pid is None else f"{pid}/task/{pid}"
    return int(Path(f"/proc/{who}/schedstat").read_text().split()[1]) / 1e9


def resident_mib(pid: int) -> int:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) // 1024
