"""What the machine does to a controller: a full disk, a read-only folder, files that cannot be read, another
folder. It serves on, says so where it still can, and recovers by itself.

Folders that fill up or turn read-only are mounts in a namespace of the controller's own: the machine keeps
its own. The tests see them through ``/proc/PID/root``. Where the machine gives no such namespace, they are
skipped and say so.
"""

import contextlib
import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.house import FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.timeout(300)]

BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "own"\ndescription = "{}"\n'
_NAMESPACE = ("unshare", "--mount", "--propagation", "private")
_MOUNTED = 'mkdir -p "$0" && mount -t tmpfs -o size="$1" none "$0" && shift && exec "$@"'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.write(
            "handler.toml",
            'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.2\n',
        )
        made.write(
            "connectors/own/main.py",
            "from handler_connector import serve\n"
            'serve({"ocr_extract": lambda args, call: {"pages": [{"text": "one"}]}})\n',
        )
        made.write("connectors/own/PROVISIONING.md", "Nothing.\n")
        made.write(
            "connectors/own/connector.toml",
            'apiVersion = "handler.connector/v1"\nname = "own"\ndescription = "for tests"\n'
            'implements = ["ocr/v1"]\nruntime = "python"\n',
        )
        made.write("bindings/a.toml", BINDING.format("first"))
        made.write(
            "agents/clerk.toml",
            f'apiVersion = "handler.agent/v1"\nservices = {{ ocr = "a" }}\nscope = ["{made.inbox}"]\n',
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


def mounted(made: House, folder: Path, size: str) -> Path:
    """Start the controller with a small file system of its own at ``folder``; where the test sees that."""
    tried = subprocess.run([*_NAMESPACE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no mount namespace here, so no folder can be made full or read-only: {tried.stderr}")
    daemon = made.launch(*_NAMESPACE, "sh", "-c", _MOUNTED, str(folder), size)
    seen = Path(f"/proc/{daemon.pid}/root{folder}")
    wait_for(lambda: made.handler("daemon", "status", check=False).returncode == 0, "the controller answers")
    return seen


def fill(folder: Path) -> Path:
    """Take every byte that is left below a folder; the file that holds them."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x")
    return filler


def word(made: House) -> str:
    said = made.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk", check=False)
    found = json.loads(said.stdout)
    return str(found["pages"][0]["text"] if "pages" in found else found)


def described(status: Path) -> str:
    path = status / "binding" / "a.json"
    return str(json.loads(path.read_bytes())["declared"]["description"]) if path.exists() else ""


def log(made: House) -> str:
    return (made.state.parent / "handlerd.log").read_text()


def faults(made: House) -> str:
    return made.handler("daemon", "status", check=False).stdout


def test_a_full_disk_ends_no_service_is_said_and_is_over_when_there_is_room(place: House) -> None:
    state = mounted(place, place.state, "4m")
    place.handler("apply", "--wait", "--timeout", "100")
    assert word(place) == "one"
    filler = fill(state)
    place.write("bindings/a.toml", BINDING.format("second"))
    wait_for(lambda: "No space left on device" in faults(place), "it is said by the controller")
    assert word(place) == "one"
    assert described(state / "status") == "first"
    filler.unlink()
    wait_for(lambda: described(state / "status").startswith("second"), "it is written once there is room")
    wait_for(lambda: "No space left on device" not in faults(place), "and that is over")
    assert word(place) == "one"
    assert place.stop() == 0


def test_a_read_only_status_folder_is_one_line_in_the_log_and_ends_nothing(place: House) -> None:
    folder = place.state / "status"
    status = mounted(place, folder, "4m")
    place.handler("apply", "--wait", "--timeout", "100")
    assert place.daemon is not None

    def remount(how: str) -> None:
        enter = ["nsenter", "--mount", f"--target={place.daemon.pid if place.daemon else 0}"]
        subprocess.run([*enter, "mount", "-o", f"remount,{how}", str(folder)], check=True)

    remount("ro")
    for number in range(5):
        place.write("bindings/a.toml", BINDING.format(f"edit {number}"))
        place.handler("apply")
    wait_for(lambda: "Read-only file system" in faults(place), "it is said by the controller")
    assert word(place) == "one"
    assert sum("Read-only file system" in line for line in log(place).splitlines()) == 1
    remount("rw")
    wait_for(lambda: described(status) == "edit 4", "the newest is written by itself")
    assert "Read-only" not in faults(place)
    assert place.stop() == 0


@pytest.mark.parametrize("error", ["EACCES", "EIO"])
def test_a_file_that_cannot_be_read_keeps_its_object_in_force_until_it_can(place: House, error: str) -> None:
    """Mode bits do not bind root, and no bad sector is at hand: the kernel's answer is made so by strace."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: no system call can be made to fail")
    place.start()
    place.handler("apply", "--wait", "--timeout", "100")
    place.stop()
    inject = (
        "-e",
        "trace=openat",
        "-e",
        f"inject=openat:error={error}",
        "-P",
        "a.toml",
    )  # by its folder's descriptor
    tracer = place.launch("strace", "-f", "-qq", "-o", "/dev/null", *inject)
    try:
        _kept_in_force(place, os.strerror(getattr(errno, error)))
    finally:
        place.handler("daemon", "stop", check=False)
        tracer.wait(60)
    place.start()
    wait_for(lambda: place.condition("binding", "a", "Admitted").get("status") == "True", "it is read again")
    assert place.condition("binding", "a", "Synced")["reason"] == "ReconcileSuccess"


def _kept_in_force(place: House, why: str) -> None:
    wait_for(lambda: place.handler("daemon", "status", check=False).returncode == 0, "the controller answers")
    wait_for(lambda: place.condition("binding", "a", "Admitted").get("status") == "False", "it is refused")
    assert place.condition("binding", "a", "Synced")["reason"] == "LastGoodRetained"
    assert word(place) == "one"
    assert why in str(place.status("binding", "a")["problems"])


def test_a_folder_that_is_gone_or_another_one_concludes_nothing_and_is_read_once_it_is_back(
    place: House,
) -> None:
    place.start()
    place.handler("apply", "--wait", "--timeout", "100")
    away = place.config.with_name("away")

    def source() -> str:
        return str(json.loads((place.state / "status/summary.json").read_bytes())["conditions"][0]["reason"])

    place.config.rename(away)
    wait_for(lambda: source() == "SourceUnavailable", "it is gone")
    place.config.mkdir()
    wait_for(
        lambda: "replaced by an empty folder" in log(place) + (place.state / "events.jsonl").read_text(),
        "another one lies there",
    )
    assert word(place) == "one"
    place.config.rmdir()
    away.rename(place.config)
    place.write("bindings/a.toml", BINDING.format("back"))
    wait_for(lambda: described(place.state / "status") == "back", "it is read again, and watched")
    wait_for(lambda: source() == "ReconcileSuccess", "nothing is wrong any more")
