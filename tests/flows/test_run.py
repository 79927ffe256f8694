"""``handler run``: a command with services, and a session that ends with it, whatever ends it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.house import BIN, FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("run")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("bindings/fine.toml", 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n')
        made.write(
            "agents/clerk.toml",
            'apiVersion = "handler.agent/v1"\nservices = { ocr = "fine" }\n'
            f'requires = ["ocr/v1"]\nscope = ["{made.inbox}"]\n',
        )
        made.write("agents/auditor.toml", 'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\n')
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        made.start()
        made.handler("apply", "--wait", check=False)
        yield made


def sessions(place: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(place.handler("session", "list", "-o", "json").stdout)
    return found


def started(place: House, *command: str) -> "subprocess.Popen[bytes]":
    """A command that runs in a session, once the controller has opened it."""
    child = subprocess.Popen(
        [BIN / "handler", "run", "clerk", "--", *command], env=place.env, cwd=place.inbox
    )
    wait_for(lambda: any(one["opener"] == {"pid": child.pid} for one in sessions(place)), "its session")
    return child


def test_the_command_reads_the_invoice_and_its_exit_code_is_the_runs(place: House) -> None:
    done = place.handler("run", "clerk", "--", "handler", "call", "ocr_extract", "path=invoice.png")
    assert "INV-2024-0042" in done.stdout
    assert done.stderr == ""
    assert place.handler("run", "clerk", "--", "sh", "-c", "exit 7", check=False).returncode == 7
    wait_for(lambda: sessions(place) == [], "their sessions end with them")
    assert list((place.run / "s").iterdir()) == []
    assert list((place.state / "sessions").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_whatever_ends_the_command_ends_its_session_and_its_folder(place: House, number: int) -> None:
    child = started(place, sys.executable, "-c", "import signal; signal.pause()")
    (folder,) = (place.run / "s").iterdir()
    (folder / "left-by-the-command").mkdir()
    (folder / "left-by-the-command" / "file").write_text("x")
    child.send_signal(number)
    assert child.wait(30) != 0
    wait_for(lambda: sessions(place) == [] and not folder.exists(), "the session ends with it")


def test_a_command_that_handles_its_signals_goes_on_as_without_us(place: House) -> None:
    code = (
        "import signal, sys, os\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(23))\n"
        "os.close(int(sys.argv[1]))\nsignal.pause()"
    )
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [BIN / "handler", "run", "clerk", "--", sys.executable, "-c", code, str(writing)],
        env=place.env, cwd=place.inbox, pass_fds=[writing],
    )  # fmt: skip
    os.close(writing)
    assert os.read(reading, 1) == b""  # it has closed its end: its handler stands
    os.close(reading)
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 23


def test_an_unmet_requirement_starts_nothing_and_says_the_mend(place: House) -> None:
    done = place.handler("run", "auditor", "--", "touch", "started", check=False)
    assert done.returncode == 1
    assert "agents/auditor.toml:2:" in done.stderr
    assert "mend" in done.stderr
    assert not (place.inbox / "started").exists()


def test_a_command_that_does_not_come_to_be_leaves_no_session(place: House) -> None:
    """The agent's file names no harness, so without a command there is nothing to start."""
    assert place.handler("run", "clerk", check=False).returncode == 2
    (place.inbox / "notes.txt").write_text("no program")
    assert place.handler("run", "clerk", "--", "./notes.txt", check=False).returncode == 126
    wait_for(lambda: sessions(place) == [], "none is left")


def test_two_runs_of_one_agent_are_two_sessions(place: House) -> None:
    one, two = (started(place, "sleep", "60") for _ in range(2))
    assert len({found["session"] for found in sessions(place)}) == 2
    one.kill()
    one.wait()
    wait_for(lambda: [found["opener"]["pid"] for found in sessions(place)] == [two.pid], "only one ends")
    two.kill()
    two.wait()
    wait_for(lambda: sessions(place) == [], "the other ends, too")


def test_a_session_outlives_its_controller_and_ends_with_its_command(place: House) -> None:
    """Closed while no controller ran: the next one opens no door for it and leaves none of its files."""
    ends, stays = started(place, "sleep", "60"), started(place, "sleep", "60")
    opened = {one["opener"]["pid"]: Path(one["folder"]) for one in sessions(place)}
    place.kill()
    ends.kill()
    ends.wait()
    place.start()
    assert [one["opener"]["pid"] for one in sessions(place)] == [stays.pid]
    assert (opened[stays.pid] / "ocr.sock").is_socket()
    assert not opened[ends.pid].exists()
    stays.kill()
    stays.wait()
    wait_for(lambda: sessions(place) == [] and not opened[stays.pid].exists(), "it ends at the new one")
