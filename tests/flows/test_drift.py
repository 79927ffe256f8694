"""Drift, the whole way: what is changed behind the controller's back is found, told and put right."""

import contextlib
import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.house import FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "says"
description = "for tests"
implements = ["ocr/v1"]
runtime = "python"
"""
CODE = """from handler_connector import serve
import word
serve({"ocr_extract": lambda args, call: {"pages": [{"text": word.WORD}]}})
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.env["PYTHONHASHSEED"] = "0"  # installed commands: an edit right after a start is no drift
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n[reconcile]\nresyncSeconds = 1\n')
        made.write("connectors/says/main.py", CODE)
        made.write("connectors/says/word.py", 'WORD = "good"\n')
        made.write("connectors/says/PROVISIONING.md", "Nothing.\n")
        made.write("connectors/says/connector.toml", CONNECTOR)
        wish(made)
        made.write(
            "agents/clerk.toml",
            f'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\nservices = {{ ocr = "reader" }}\n'
            f'scope = ["{made.inbox}"]\n',
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        made.start()
        made.handler("apply", "--wait")
        assert word(made) == "good"
        yield made


def wish(made: House, drift: str = "correct") -> None:
    text = f'apiVersion = "handler.binding/v1"\nconnector = "says"\ndrift = "{drift}"\n'
    made.write("bindings/reader.toml", text)


def word(made: House) -> str:
    """What the agent reads now."""
    done = made.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk", check=False)
    found = json.loads(done.stdout or '{"error": "none"}')
    return str(found["pages"][0]["text"] if "pages" in found else found["error"])


def pid(made: House) -> int | None:
    """The connector's process, of the only instance."""
    found = made.status("binding", "reader")["inventory"][0]["pid"]
    return int(found) if found is not None else None


def events(made: House, reason: str) -> list[dict[str, Any]]:
    lines = (made.state / "events.jsonl").read_text().splitlines()
    return [one for line in lines if (one := json.loads(line))["reason"] == reason]


def drifted(made: House, kind: str, name: str) -> str:
    """The reason for which the object is drifted, or ""."""
    return str(made.condition(kind, name, "Drifted").get("reason", ""))


def test_a_killed_process_is_started_again_without_a_call(place: House) -> None:
    first = pid(place)
    assert first
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: pid(place) not in (None, first), "another process runs")
    wait_for(lambda: bool(events(place, "DriftCorrected")), "it is told")
    assert events(place, "ProcessVanished")[0]["object"] == "binding/reader"
    wait_for(lambda: not drifted(place, "binding", "reader"), "the condition is gone")
    assert word(place) == "good"


def test_changed_pinned_code_is_laid_down_again_and_what_ran_it_replaced(place: House) -> None:
    first = pid(place)
    (code,) = (path for path in (place.state / "objects").iterdir() if (path / "word.py").exists())
    (code / "word.py").chmod(0o644)
    (code / "word.py").write_text('WORD = "evil"\n')
    wait_for(lambda: bool(events(place, "DriftCorrected")), "it is put right")
    assert (code / "word.py").read_text() == 'WORD = "good"\n'
    wait_for(lambda: pid(place) not in (None, first), "another process runs")
    assert word(place) == "good"
    assert drifted(place, "binding", "reader") == ""


def test_changed_pinned_code_is_only_told_where_that_is_wished(place: House) -> None:
    wish(place, "report")
    place.handler("apply", "--wait")
    first = pid(place)
    (code,) = (path for path in (place.state / "objects").iterdir() if (path / "word.py").exists())
    (code / "word.py").chmod(0o644)
    (code / "word.py").write_text('WORD = "evil"\n')
    wait_for(lambda: drifted(place, "binding", "reader") == "CodeChanged", "it is told")
    assert code.name in place.condition("binding", "reader", "Drifted")["message"]
    assert (pid(place), events(place, "DriftCorrected")) == (first, [])
    assert (code / "word.py").read_text() == 'WORD = "evil"\n'
    wish(place, "off")
    wait_for(lambda: drifted(place, "binding", "reader") == "", "it is told no more")
    wish(place, "correct")
    wait_for(lambda: bool(events(place, "DriftCorrected")), "it is put right")
    assert (code / "word.py").read_text() == 'WORD = "good"\n'


def test_sockets_that_are_gone_are_there_again_and_open_connections_stay(place: House) -> None:
    door = place.run / "a" / "clerk"
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(door / "ocr.sock"))
    connection.settimeout(30)
    shutil.rmtree(place.run / "a")
    (place.run / "control.sock").unlink()
    wait_for(lambda: (door / "ocr.sock").exists() and (place.run / "control.sock").exists(), "they are back")
    wait_for((door / "capabilities.json").exists, "so is what the agent is told")
    ask = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    connection.sendall(json.dumps(ask).encode() + b"\n")
    assert b'"id":1' in connection.recv(65536)
    connection.close()
    assert word(place) == "good"
    told = {one["object"] for one in events(place, "SocketMissing")}
    assert told == {"agent/clerk", "configuration"}
    assert (place.run.stat().st_mode & 0o777, door.stat().st_mode & 0o777) == (0o700, 0o700)


def test_what_an_agent_is_told_is_there_again_at_doors_and_in_sessions(place: House) -> None:
    opened = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)
    sheet = Path(opened["capabilities"])
    before = sheet.read_bytes()
    for remove in (sheet.unlink, lambda: shutil.rmtree(sheet.parent)):
        remove()
        wait_for(sheet.exists, "it is written again")
        assert sheet.read_bytes() == before
    place.handler("session", "close", opened["session"])


def test_what_is_no_socket_is_not_removed_and_is_named(place: House) -> None:
    path = place.run / "a" / "clerk" / "ocr.sock"
    path.unlink()
    path.write_text("mine")
    wait_for(lambda: "is not a socket" in str(place.condition("agent", "clerk", "Drifted")), "it is named")
    assert path.read_text() == "mine"
    path.unlink()
    wait_for(lambda: drifted(place, "agent", "clerk") == "", "it is over")
    assert word(place) == "good"


def test_the_run_folder_itself_may_go(place: House) -> None:
    first = pid(place)
    away = place.run.rename(place.run.with_name(f"{place.run.name}-away"))
    wait_for(lambda: pid(place) not in (None, first), "its process is replaced")
    wait_for((place.run / "control.sock").exists, "the control socket is back")
    wait_for(lambda: word(place) == "good", "it serves")
    assert place.run.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(away)


def test_edited_and_removed_records_are_written_again(place: House) -> None:
    session = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)["session"]
    place.handler("apply", "--wait")  # what tells of the session is written: what follows is drift
    status, summary = place.state / "status/agent/clerk.json", place.state / "status/summary.json"
    kept, journal = place.state / f"sessions/{session}.json", place.state / "admitted/journal"
    before = {path: path.read_bytes() for path in (kept, journal)}
    status.write_text("{}")
    summary.unlink()
    kept.unlink()
    journal.write_bytes(b"broken")
    wait_for(lambda: len(events(place, "DriftCorrected")) >= 4, "all is written again")
    assert place.status("agent", "clerk")["name"] == "clerk"
    wait_for(lambda: drifted(place, "agent", "clerk") == "", "nothing is drifted")
    wait_for(lambda: summary.exists() and "Drifted" not in summary.read_text(), "nor the configuration")
    assert kept.read_bytes() == before[kept]
    about = {(one["object"], one["reason"]) for one in events(place, "StateEdited")}
    assert about == {("agent/clerk", "StateEdited"), ("configuration", "StateEdited")}
    place.kill()
    place.start()
    assert word(place) == "good", "what was admitted is known to the next controller"


def test_the_whole_state_folder_may_go(place: House) -> None:
    place.state.rename(place.state.with_name("away"))
    second = place.handler("daemon", "run", check=False)
    assert second.returncode == 2, "the lock is gone, or taken again, but the first still answers"
    assert "another controller answers" in second.stderr or "is held by process" in second.stderr
    kept = ("status/summary.json", "status/agent/clerk.json", "admitted/journal", "events.jsonl", "lock")
    wait_for(lambda: all((place.state / path).exists() for path in kept), "the records are back")
    wait_for(lambda: word(place) == "good", "it serves")


def test_checks_that_find_nothing_write_start_and_stop_nothing(place: House) -> None:
    canary = place.state / "status/connector/says.json"
    moving = {canary, canary.parent, place.state / "status", place.state / "status/summary.json"}
    moving.add(place.state / "events.jsonl")

    def marks() -> dict[str, tuple[int, int, int]]:
        found = {}
        for path in (*place.state.rglob("*"), *place.run.rglob("*")):
            if path not in moving and "calls" not in path.parts and not path.name.endswith("~handler"):
                with contextlib.suppress(FileNotFoundError):  # on its way to be one of those that move
                    seen = path.lstat()
                    found[str(path)] = (seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns)
        return found

    def check() -> None:
        """Let one check go by: the canary is back when it has."""
        canary.unlink()
        wait_for(canary.exists, "a check")
        wait_for(lambda: drifted(place, "connector", "says") == "", "the check is over")

    check()
    before, first = marks(), pid(place)
    for _ in range(3):
        check()
    assert marks() == before
    assert pid(place) == first
