"""Standing doors: one harness is one session, whatever it wraps its bridges in; what is open goes on."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from reconciler.config.capabilities import Capabilities
from tests.kit.house import BIN, FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

AGENT = """apiVersion = "handler.agent/v1"
requires = ["ocr/v1"]
services = {{ ocr = "fine" }}
scope = ["{inbox}"]
{more}
"""
OTHER = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n[settings]\ndpi = 150\n'
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'
# A harness: starts bridges as it is told on stdin, passes on their first answers, ends with its stdin.
HARNESS = """
import json, subprocess, sys
hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}}
bridges = []
for line in sys.stdin:
    bridge = subprocess.Popen(json.loads(line), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              start_new_session=True)
    bridges.append(bridge)
    bridge.stdin.write(json.dumps(hello) + "\\n")
    bridge.stdin.flush()
    print(bridge.stdout.readline(), end="", flush=True)
for bridge in bridges:
    bridge.stdin.close()
    bridge.stdout.close()
    bridge.wait()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("standing")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("bindings/fine.toml", BINDING)
        made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox, more=""))
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        made.start()
        made.handler("apply", "--wait")
        yield made


class Harness:
    """A program with bridges, in a process of its own."""

    def __init__(self, place: House) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HARNESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=place.env,
            text=True,
        )

    def bridge(self, *wrapper: str) -> dict[str, Any]:
        """Start one more; the answer to its first message."""
        to: IO[str] | None = self.process.stdin
        of: IO[str] | None = self.process.stdout
        assert to is not None
        assert of is not None
        to.write(json.dumps([*wrapper, str(BIN / "handler-service"), "ocr", "--agent", "clerk"]) + "\n")
        to.flush()
        answer: dict[str, Any] = json.loads(of.readline())
        return answer

    def end(self) -> None:
        self.process.communicate()

    def __enter__(self) -> "Harness":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.end()


def sessions(place: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(place.handler("session", "list", "-o", "json").stdout)
    return found


def interface(path: Path) -> tuple[str, str]:
    """State and meaning of the one interface of a sheet; ("", "") while there is none."""
    if not path.exists():
        return "", ""
    (one,) = Capabilities.model_validate(json.loads(path.read_text())).interfaces
    return one.state, one.means


def test_all_bridges_of_one_harness_are_one_session_and_another_harness_is_another(place: House) -> None:
    with Harness(place) as one, Harness(place) as two:
        for wrapper in ([], ["sh", "-c", '"$0" "$@"; true'], ["timeout", "60"]):
            assert "ocr/v1 (bound)" in one.bridge(*wrapper)["result"]["instructions"]
        two.bridge()
        found = {found["opener"]["pid"] for found in sessions(place)}
        assert found == {one.process.pid, two.process.pid}
        one.end()
        left = [two.process.pid]
        wait_for(lambda: [one["opener"]["pid"] for one in sessions(place)] == left, "the first is over")
    wait_for(lambda: sessions(place) == [], "so is the second")


def test_a_suspended_agent_takes_in_no_new_harness_and_lets_the_open_one_finish(place: House) -> None:
    """The open one may even start more bridges: its session is what it was opened with."""
    with Harness(place) as opened, Harness(place) as new:
        opened.bridge()
        place.write("agents/clerk.toml", AGENT.format(inbox=place.inbox, more="suspend = true"))
        place.handler("apply")
        assert "result" in opened.bridge()
        refused = new.bridge()["error"]["message"]
        assert refused == "agent 'clerk' cannot start a session now: `handler describe agent/clerk` says why"
        assert (place.run / "a" / "clerk" / "ocr.sock").is_socket()
    wait_for(lambda: not (place.run / "a" / "clerk").exists(), "the door goes with its last session")
    place.write("agents/clerk.toml", AGENT.format(inbox=place.inbox, more=""))
    place.handler("apply", "--wait")
    assert (place.run / "a" / "clerk" / "ocr.sock").is_socket()


def test_the_sheet_and_the_instructions_say_what_is_missing_and_since_when(place: House) -> None:
    opened = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)
    sheet, door = Path(opened["capabilities"]), place.run / "a" / "clerk" / "capabilities.json"
    with Harness(place) as harness:
        harness.bridge()
        wait_for(lambda: interface(door) == ("bound", ""), "a session at the door has one, too")
        assert interface(sheet) == ("bound", "")
        place.write("bindings/fine.toml", BINDING + 'suspend = true\nsuspendReason = "vendor unpaid"\n')
        place.handler("apply", "-y")
        missing = ("missing", "calls answer unavailable")
        wait_for(lambda: interface(sheet) == missing and interface(door) == missing, "both say so")
        assert "vendor" not in sheet.read_text() + door.read_text()
        told = harness.bridge()["result"]["instructions"]
        assert "ocr/v1 (missing since 20" in told
        assert "vendor" not in told
        place.write("bindings/fine.toml", BINDING)
        place.handler("apply", "--wait")
        wait_for(lambda: interface(sheet) == ("bound", ""), "it is back")
    wait_for(lambda: not door.exists(), "the door's goes with its last session")
    place.handler("session", "close", opened["session"])
    assert not sheet.parent.exists()


def test_an_open_session_drains_where_the_next_one_gets_other_routes(place: House) -> None:
    opened = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)["session"]
    inside = {**place.env, "HANDLER_SESSION": opened}
    called = [BIN / "handler", "call", "ocr_extract", "path=invoice.png"]
    place.write("bindings/other.toml", OTHER)
    place.write("agents/clerk.toml", AGENT.format(inbox=place.inbox, more="").replace("fine", "other"))
    place.handler("apply", "--wait")
    subprocess.run(called, env=inside, cwd=place.inbox, check=True, capture_output=True, timeout=120)
    (one,) = sessions(place)
    assert (one["session"], one["draining"]) == (opened, True)
    assert one["routes"]["ocr"].startswith("fine@")
    assert "draining" in place.handler("sessions").stdout

    def calls() -> list[dict[str, Any]]:
        shown = place.handler("session", "show", opened, "-o", "json").stdout
        found: list[dict[str, Any]] = json.loads(shown)["calls"]
        return found

    wait_for(lambda: len(calls()) == 1, "its call is on record")
    assert (calls()[0]["tool"], calls()[0]["code"], calls()[0]["binding"]) == ("ocr_extract", "ok", "fine")

    # The binding goes altogether: what is open answers that nothing is there, and says so.
    (place.config / "bindings" / "fine.toml").unlink()
    place.handler("apply", "-y", "--prune=all")
    ended = subprocess.run(called, env=inside, cwd=place.inbox, capture_output=True, text=True, check=False)
    assert json.loads(ended.stdout)["error"] == "unavailable"
    wait_for(
        lambda: interface(place.run / "s" / opened / "capabilities.json")[0] == "missing", "its sheet says so"
    )
    place.handler("session", "close", opened)
    wait_for(lambda: len(calls()) == 2, "its records outlive it")
    assert "over" in place.handler("session", "show", opened).stdout
    place.write("bindings/fine.toml", BINDING)
    place.write("agents/clerk.toml", AGENT.format(inbox=place.inbox, more=""))
    place.handler("apply", "--wait")


def test_a_standing_session_that_is_closed_by_hand_ends_its_connections_and_its_sheet(place: House) -> None:
    """Whoever speaks to the socket without a bridge does not come back by itself."""
    door = place.run / "a" / "clerk"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(door / "ocr.sock"))
        wait_for((door / "capabilities.json").exists, "it has a sheet")
        (one,) = sessions(place)
        assert (one["folder"], one["standing"]) == (str(door), True)
        place.handler("session", "close", one["session"])
        client.settimeout(30)
        assert client.recv(1) == b""
        wait_for(lambda: not (door / "capabilities.json").exists(), "the sheet goes with the last session")
    assert (door / "ocr.sock").is_socket()
