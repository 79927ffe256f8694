"""MCP servers that are elsewhere, from a file to an agent's answer: TLS, a key, sessions, faults."""

import contextlib
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control.test_exposition import read
from tests.egress.authority import Authority
from tests.flows.test_hostile import CASE, IN, SKILL, Agent, tool
from tests.flows.test_runtimes import AGENT, CONNECTOR, INTERFACE
from tests.kit import remote_servers
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

BINDING = """apiVersion = "handler.binding/v1"
connector = "acme-{name}"
secrets = {{ key = {{ env = "REMOTE_KEY" }} }}
"""
REMOTE = """url = "https://localhost:{port}/mcp"
egress = ["127.0.0.1:{port}", "[::1]:{port}"]
[secretSlots.key]
header = "x-api-key"
required = true
[tool.probe_do]
from = "say"
input = "{{words: mode}}"
output = "{{text: structured.said}}"
errors = {{ "401" = "broken", "executing" = "broken", "redirect" = "broken" }}
[tool.probe_file]
from = "measure"
input = "{{content: file(path)}}"
output = "{{text: to_string(structured.bytes)}}"
"""
_COUNTERS = ("handler_egress_total", "handler_egress_bytes_total")
NO = "probe_do ended with the error unavailable: it cannot answer now"
BROKEN = "probe_do ended with the error broken: it is broken"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.server("localhost", "127.0.0.1")
    certificate = next(authority.bundle.parent.glob("server-*.pem"))
    words = [sys.executable, remote_servers.__file__, str(certificate)]
    servers = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        with house(tmp_path_factory.mktemp("remote")) as made:
            made.env |= {"SSL_CERT_FILE": str(authority.bundle), "REMOTE_KEY": remote_servers.KEY}
            made.write("handler.toml", 'apiVersion = "handler.config/v1"\n[http]\nlisten = "unix"\n')
            limits = INTERFACE.replace("timeoutSeconds = 6", "timeoutSeconds = 10")
            made.write("interfaces/probe/v1/interface.toml", limits)
            made.write(
                "interfaces/probe/v1/tools.json", json.dumps([tool("probe_do"), tool("probe_file", path=IN)])
            )
            made.write("interfaces/probe/v1/skills/probe/SKILL.md", SKILL)
            cases = CASE.format("probe_do") + CASE.format("probe_file")
            made.write("interfaces/probe/v1/conformance/cases.toml", cases)
            made.handler("lock", "add", "probe/v1", "--despite-warnings")
            assert servers.stdout is not None
            for name, port in zip(("sdk", "odd", "new"), servers.stdout.readline().split(), strict=True):
                folder = f"connectors/acme-{name}"
                made.write(f"{folder}/PROVISIONING.md", "nothing\n")
                more = REMOTE.format(port=port)
                made.write(
                    f"{folder}/connector.toml", CONNECTOR.format(name=name, runtime="remote", more=more)
                )
                made.write(f"bindings/acme-{name}.toml", BINDING.format(name=name))
                made.write(f"agents/{name}.toml", AGENT.format(name=name, inbox=made.inbox))
            made.start()
            wait_for(
                lambda: all(_is_ready(made, name) for name in ("sdk", "odd", "new")), "agents have doors"
            )
            yield made
            assert made.stop() == 0
            assert made.processes() == []
            hits = [one for one in made.state.parent.rglob("*") if one.is_file() and _told(one)]
            assert hits == []
    finally:
        servers.kill()
        servers.communicate()


def _is_ready(place: House, name: str) -> bool:
    return place.condition("agent", name, "Ready").get("status") == "True"


def _told(path: Path) -> bool:
    return remote_servers.KEY.encode() in path.read_bytes()


def test_the_official_server_answers_through_an_owned_interface(place: House) -> None:
    (place.inbox / "page.txt").write_bytes(b"x" * 70_001)
    with contextlib.closing(Agent(place, "sdk")) as agent:
        assert agent.ask(mode="world") == {"text": "hello world"}
        assert agent.ask(mode="fault") == BROKEN
        assert agent.ask("probe_file", mode="read", path="page.txt") == {"text": "70001"}
    calls = {"", "1", "2", "3"}
    wait_for(
        lambda: calls <= {one["call"] for one in _passages(place, "acme-sdk")}, "requests are written down"
    )
    told = {(one["way"], one["verdict"], one["why"]) for one in _passages(place, "acme-sdk")}
    assert {(way, verdict) for way, verdict, _ in told} == {("gate", "allowed")}, told
    shown = place.handler("secret", "check", "acme-sdk").stdout
    assert "gate" in shown
    assert "yes" in shown


def test_the_newest_era_is_spoken_where_the_handshake_is_refused(place: House) -> None:
    with contextlib.closing(Agent(place, "new")) as agent:
        assert agent.ask(mode="world") == {"text": "world 0"}
        heard = agent.ask(mode="heard")["text"].split(" | ")
    assert heard[:4] == ["initialize", "server/discover", "tools/list", "tools/call world"]
    assert "notifications/initialized" not in heard


def test_whatever_a_server_does_the_agent_meets_the_interface_alone(place: House) -> None:
    with contextlib.closing(Agent(place, "odd")) as agent:
        assert agent.ask(mode="world") == {"text": "world 1"}
        assert agent.ask(mode="events") == {"text": "events 1"}
        assert agent.ask(mode="cut") == {"text": "cut 1"}
        for mode in ("403", "404", "429", "500", "503", "garbage", "html", "huge", "half", "echo"):
            assert agent.ask(mode=mode) == NO, mode
        assert agent.ask(mode="401") == agent.ask(mode="307") == BROKEN
        assert agent.ask(mode="after") == {"text": "after 2"}  # the 404 began another session
        heard = agent.ask(mode="heard")["text"].split(" | ")
        assert "an answer -32601" in heard
        assert heard.count("initialize") == 2
        agent.send(id="q", method="tools/call", params={"name": "probe_do", "arguments": {"mode": "silent"}})
        wait_for(lambda: "tools/call silent" in agent.ask(mode="heard")["text"], "the call waits")
        agent.send(method="notifications/cancelled", params={"requestId": "q"})
        told = "notifications/cancelled"
        wait_for(lambda: told in agent.ask(mode="heard")["text"], "the server is told that nobody waits")
    assert place.handler("logs", "acme-odd").stdout.count("Traceback") == 0
    wait_for(lambda: "echo" in {one["cause"] for one in _passages(place, "acme-odd")}, "the echo is written")
    wait_for(
        lambda: place.condition("binding", "acme-odd", "Ready").get("reason") == "SecretEcho", "it is told"
    )


def test_what_is_counted_agrees_with_what_is_written_down(place: House) -> None:
    with contextlib.closing(Agent(place, "sdk")) as agent:
        assert agent.ask(mode="world") == {"text": "hello world"}
    wait_for(lambda: _let_go(_counted(place), "acme-sdk") > 1, "requests are counted")
    wait_for(lambda: _counted(place) == _written(place), "the page agrees with the journal")


def _let_go(counts: dict[str, Counter[tuple[str, ...]]], name: str) -> int:
    """Requests that were let go, whatever their end: who has its answer out of a stream may leave before the
    stream ends, and which of the two comes first differs from call to call.
    """
    of = (f"binding/{name}", "gate", "allowed")
    return sum(count for labels, count in counts["handler_egress_total"].items() if labels[:3] == of)


def _counted(place: House) -> dict[str, Counter[tuple[str, ...]]]:
    """The egress counters of the page of metrics, by their labels."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as line:
        line.settimeout(60)
        line.connect(str(place.run / "http.sock"))
        line.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        head, _, body = b"".join(iter(lambda: line.recv(65536), b"")).partition(b"\r\n\r\n")
    assert b" 200 " in head
    assert remote_servers.KEY.encode() not in body
    assert b"localhost" not in body
    found: dict[str, Counter[tuple[str, ...]]] = {"handler_egress_total": Counter()}
    for name, labels, value in read(body):
        if name.startswith("handler_egress_"):
            found.setdefault(name, Counter())[tuple(labels.values())] += int(value)
    return found


def _written(place: House) -> dict[str, Counter[tuple[str, ...]]]:
    found: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in _COUNTERS}
    for line in (place.state / "egress.jsonl").read_text().splitlines():
        one = json.loads(line)
        of = (one["object"], one["way"])
        found["handler_egress_total"][*of, one["verdict"], one["cause"]] += 1
        for direction, size in (("out", one["upBytes"]), ("in", one["downBytes"])):
            if size:
                found["handler_egress_bytes_total"][*of, direction] += size
    return found


def _passages(place: House, name: str) -> list[dict[str, Any]]:
    lines = (place.state / "egress.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["object"] == f"binding/{name}"]
