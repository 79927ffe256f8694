"""``handler run --sandbox``: services in a sandbox, and a terminal, signals and an end like any program's."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.house import BIN, FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

PYTHON = os.path.realpath(sys.executable)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("boxed")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("bindings/fine.toml", 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n')
        made.write(
            "agents/clerk.toml",
            'apiVersion = "handler.agent/v1"\nservices = { ocr = "fine" }\n'
            f'requires = ["ocr/v1"]\nscope = ["{made.inbox}"]\nsandbox.egress = ["api.example.com:443"]\n'
            "sandbox.pids = 100\n",
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        made.start()
        made.handler("apply", "--wait", check=False)
        yield made


def started(place: House, code: str, **more: object) -> "subprocess.Popen[bytes]":
    """A program in a sandbox, once it has made the file ``up``."""
    up = place.inbox / "up"
    up.unlink(missing_ok=True)
    words = [BIN / "handler", "run", "clerk", "--sandbox", "--", PYTHON, "-c", code]
    child = subprocess.Popen(words, env=place.env, cwd=place.inbox, **more)  # type: ignore[call-overload]
    wait_for(up.exists, "it runs")
    return child


def sessions(place: House) -> list[str]:
    return [one["session"] for one in json.loads(place.handler("session", "list", "-o", "json").stdout)]


def test_the_service_answers_inside_and_the_rest_of_the_machine_does_not(place: House) -> None:
    script = (
        "handler call ocr_extract path=invoice.png; "
        f"ls {place.config} {place.state} {place.run}/control.sock /root/.ssh 2>&1 | grep -c 'No such'; "
        'find "$HOME" -maxdepth 1 -type f | wc -l; handler status 2>&1'
    )
    done = place.handler("run", "clerk", "--sandbox", "--", "sh", "-c", script, check=False)
    assert "INV-2024-0042" in done.stdout
    assert done.stdout.splitlines()[1:3] == ["4", "0"], done.stdout[-500:]
    assert done.returncode != 0  # no controller is in reach of a person's commands
    wait_for(lambda: sessions(place) == [], "its session ends with it")
    assert list((place.run / "s").iterdir()) == []


def test_no_more_threads_run_than_the_agents_file_says(place: House) -> None:
    code = (
        "import threading, time\n"
        "try:\n"
        "    for _ in range(200): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "except RuntimeError as fault: print(fault, threading.active_count() < 100)\n"
    )
    done = place.handler("run", "clerk", "--sandbox", "--", PYTHON, "-c", code)
    assert done.stdout == "can't start new thread True\n"


def test_what_is_not_listed_is_refused_in_words(place: House) -> None:
    code = (
        "import urllib.request\n"
        "try: urllib.request.urlopen('https://evil.example/', timeout=20)\n"
        "except OSError as fault: print(fault)\n"
    )
    done = place.handler("run", "clerk", "--sandbox", "--", PYTHON, "-c", code)
    assert "403 Forbidden" in done.stdout
    why = "evil.example:443 is not on the list of what may be reached"
    assert why in done.stderr
    (line,) = [json.loads(one) for one in (place.state / "egress.jsonl").read_text().splitlines()]
    assert (line["object"], line["verdict"], line["why"]) == ("agent/clerk", "refused", why)


def test_the_service_answers_after_its_controller_was_restarted(place: House) -> None:
    code = (
        "import os, subprocess, time\n"
        "call = ['handler', 'call', 'ocr_extract', 'path=invoice.png']\n"
        "open('up', 'w').close()\n"
        "while not os.path.exists('again'): time.sleep(0.05)\n"
        "done = subprocess.run(call, capture_output=True, text=True)\n"
        "open('answer', 'w').write(done.stdout + done.stderr)\n"
    )
    child = started(place, code)
    place.stop()
    place.start()
    (place.inbox / "again").touch()
    assert child.wait(60) == 0
    assert "INV-2024-0042" in (place.inbox / "answer").read_text()


def test_a_signal_to_the_run_is_the_programs_to_handle(place: House) -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(23))\n"
        "open('up', 'w').close()\nsignal.pause()\n"
    )
    child = started(place, code)
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 23


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_the_sandbox_is_built_is_not_lost(place: House, number: int) -> None:
    words = [BIN / "handler", "run", "clerk", "--sandbox", "--", "sleep", "600"]
    child = subprocess.Popen(words, env=place.env, cwd=place.inbox, stdin=subprocess.DEVNULL)

    def builds() -> bool:
        pids = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        return any(b"--block-fd" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)

    with contextlib.suppress(OSError):  # a child that looked at the machine had just ended
        wait_for(builds, "bubblewrap is at work")
    child.send_signal(number)
    assert child.wait(30) in (128 + number, -number)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_the_run_ends_all_that_is_inside(place: House, number: int) -> None:
    code = (
        "import os, time\n"
        "if not os.fork():\n"
        "    os.setsid(); time.sleep(600)\n"
        f"open('up', 'w').close(); time.sleep(600)  # {place.inbox}\n"
    )
    child = started(place, code)
    child.send_signal(number)
    assert child.wait(30) != 0

    def inside() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if f"# {place.inbox}".encode() in line:
                    found.append(entry.name)
        return found

    wait_for(lambda: inside() == [], "nothing of it is left")
    wait_for(lambda: sessions(place) == [], "its session is over")


def test_it_keeps_its_terminal_and_ctrl_c_is_the_programs(place: House) -> None:
    code = (
        "import os, signal, sys\n"
        "def said(*_):\n"
        "    print('interrupted', os.isatty(0), os.isatty(1), flush=True); sys.exit(9)\n"
        "signal.signal(signal.SIGINT, said)\n"
        "open('up', 'w').close()\n"
        "signal.pause()\n"
    )
    driver = (
        "import fcntl, os, sys, termios\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    up = place.inbox / "up"
    up.unlink(missing_ok=True)
    master, slave = os.openpty()
    run = [BIN / "handler", "run", "clerk", "--sandbox", "--", PYTHON, "-c", code]
    child = subprocess.Popen(
        [PYTHON, "-I", "-S", "-c", driver, *run], env=place.env, cwd=place.inbox, start_new_session=True,
        stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    try:
        wait_for(up.exists, "it runs")
        os.write(master, b"\x03")
        assert child.wait(30) == 9
        assert b"interrupted True True" in os.read(master, 65536)
    finally:
        child.kill()
        child.wait()
        os.close(master)


def test_a_wrong_word_is_a_wrong_command_line(place: House) -> None:
    for words in (("--ro", "/usr"), ("--sandbox", "--ro"), ("--sandboxed",), ("--sandbox", "--env", "=x")):
        assert place.handler("run", "clerk", *words, "--", "true", check=False).returncode == 2
    done = place.handler("run", "clerk", "--sandbox", "--ro", str(place.config), "--", "true", check=False)
    assert done.returncode == 0  # a configuration holds no secret
    done = place.handler("run", "clerk", "--sandbox", "--ro", str(place.state), "--", "true", check=False)
    assert done.returncode == 1
    assert "cannot run it in a sandbox: --ro" in done.stderr
    wait_for(lambda: sessions(place) == [], "neither leaves a session")
