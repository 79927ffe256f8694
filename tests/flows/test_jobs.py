"""Jobs, the whole way: submitted, looked after, collected later, stopped, and lost by nobody's death."""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.papers import SHELVES, Papers
from reconciler.attempts.records import Attempt, State
from reconciler.attempts.store import SqliteStore
from tests.kit.house import ROOT, House, house, wait_for
from tests.kit.processes import descendants

FILMS = ROOT / "catalog" / "interfaces" / "media" / "v1" / "conformance"
pytestmark = [
    pytest.mark.flow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed"),
]
AGENT = """apiVersion = "handler.agent/v1"
scope = [{{ path = "{scope}", access = "{access}" }}]
[services]
media = "films"
"""
FILMS_TOML = 'apiVersion = "handler.binding/v1"\nconnector = "media-ffmpeg"\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("house")) as made:
        made.write("bindings/films.toml", FILMS_TOML)
        made.write("agents/clerk.toml", AGENT.format(scope=made.inbox, access="write"))
        made.write("agents/maid.toml", AGENT.format(scope=made.inbox, access="create"))
        shutil.copy(FILMS / "clip.mp4", made.inbox)
        hour = ("-f", "lavfi", "-i", "color=s=320x180:r=1:d=3600", "-c:v", "libx264", "-preset", "ultrafast")
        subprocess.run(["ffmpeg", "-v", "error", *hour, str(made.inbox / "hour.mp4")], check=True)
        made.start()
        made.handler("apply", "--wait")
        yield made


def call(made: House, tool: str, agent: str = "clerk", **arguments: Any) -> dict[str, Any]:
    words = ("call", f"media_convert_{tool}", "--json", json.dumps(arguments), "--agent", agent, "-o", "json")
    done = made.handler(*words, check=False)
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def state(made: House, job: str, agent: str = "clerk") -> str:
    return str(call(made, "status", agent, job=job).get("state"))


def tasked(made: House, method: str, agent: str = "clerk", **params: Any) -> dict[str, Any]:
    """What an agent on its bare socket, which knows of tasks, is answered; a connection for each request."""
    params["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    }
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(60)
        door.connect(str(made.run / "a" / agent / "services.sock"))
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        door.sendall(json.dumps(request).encode() + b"\n")
        told: dict[str, Any] = json.loads(door.makefile("rb").readline())
    found: dict[str, Any] = told.get("result") or told["error"]
    return found


def over(made: House, task: str, agent: str = "clerk") -> dict[str, Any]:
    """A task once it is over."""
    looks: list[dict[str, Any]] = []

    def is_over() -> bool:
        looks.append(tasked(made, "tasks/get", agent, taskId=task))
        return bool(looks[-1]["status"] != "working")

    wait_for(is_over, "the task is over")
    return looks[-1]


def attempts(made: House) -> list[Attempt]:
    store = SqliteStore(made.state / "ledger.db", only_read=True)
    try:
        return Ledger(store, Papers(made.state / "attempts")).listing()
    finally:
        store.close()


def long_film(made: House) -> str:
    """A job that takes minutes: an hour of nothing, sixty times a second."""
    wish = {"path": "hour.mp4", "output": "long.webm", "format": "webm", "framesPerSecond": 60}
    job: str = call(made, "submit", **wish)["job"]
    return job


_STARTED: set[int] = set()


def programs(made: House) -> list[int]:
    """The ffmpegs that run in a sandbox of this house's; once seen, also after their controller's end."""
    assert made.daemon is not None
    _STARTED.update(descendants(made.daemon.pid))
    return [pid for pid in _STARTED if _words(pid).startswith(b"ffmpeg\0")]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_job_is_done_and_its_file_is_put_in_place_once(place: House) -> None:
    told = call(place, "submit", path="clip.mp4", output="sound.mp3", format="mp3")
    assert told["state"] == "working"
    job = told["job"]
    early = call(place, "result", job=job)
    assert early.get("error") in ("not_ready", None)
    wait_for(lambda: state(place, job) == "succeeded", "the job is done")
    assert call(place, "status", "maid", job=job)["error"] == "refused"
    made = call(place, "result", job=job)
    assert made["hasSound"]
    assert (place.inbox / "sound.mp3").stat().st_size == made["bytes"]
    (place.inbox / "sound.mp3").unlink()
    assert call(place, "result", job=job) == made  # told again, and not put there again
    assert not (place.inbox / "sound.mp3").exists()
    kept = json.dumps([str(one) for one in attempts(place)])
    assert "clip.mp4" not in kept
    assert not [one for one in (place.state / "staging").rglob("*") if one.is_file()]


def test_a_task_is_a_job_whose_file_is_put_in_place_when_it_is_asked_for(place: House) -> None:
    wish = {"path": "clip.mp4", "output": "task.png", "format": "png"}
    made = tasked(place, "tools/call", "maid", name="media_convert_submit", arguments=wish)
    task = made["taskId"]
    assert (made["resultType"], made["status"], made["ttlMs"]) == ("task", "working", None)
    for method in ("tasks/get", "tasks/cancel"):
        assert tasked(place, method, "clerk", taskId=task)["code"] == -32602
    wait_for(lambda: state(place, task, "maid") == "succeeded", "the job is done")
    assert not (place.inbox / "task.png").exists()
    (place.inbox / "task.png").write_text("mine")
    taken = over(place, task, "maid")["result"]
    assert taken["isError"]
    assert f"ask media_convert_result with the job {task}" in taken["content"][0]["text"]
    (place.inbox / "task.png").unlink()
    told = over(place, task, "maid")
    assert (told["status"], told["result"]["structuredContent"]["width"]) == ("completed", 160)
    assert told["ttlMs"] > 80_000_000
    assert (place.inbox / "task.png").exists()
    assert over(place, task, "maid")["result"] == told["result"]
    assert call(place, "result", "maid", job=task) == told["result"]["structuredContent"]


def test_a_task_that_is_cancelled_leaves_no_process(place: House) -> None:
    wish = {"path": "hour.mp4", "output": "never.webm", "format": "webm", "framesPerSecond": 60}
    task = tasked(place, "tools/call", name="media_convert_submit", arguments=wish)["taskId"]
    wait_for(lambda: bool(programs(place)), "it runs")
    assert tasked(place, "tasks/cancel", taskId=task) == {"resultType": "complete"}
    assert over(place, task)["status"] == "cancelled"
    assert not programs(place)


def test_a_file_that_is_there_by_then_is_not_written_over(place: House) -> None:
    job = call(place, "submit", "maid", path="clip.mp4", output="maid.wav", format="wav")["job"]
    wait_for(lambda: state(place, job, "maid") == "succeeded", "the job is done")
    (place.inbox / "maid.wav").write_text("mine")
    assert call(place, "result", "maid", job=job)["error"] == "refused"
    (place.inbox / "maid.wav").unlink()
    assert call(place, "result", "maid", job=job)["seconds"] > 1
    refused = call(place, "submit", "maid", path="clip.mp4", output="maid.wav", format="wav")
    assert refused["error"] == "refused"


def test_a_job_that_is_stopped_leaves_no_process_and_no_file(place: House) -> None:
    job = long_film(place)
    wait_for(lambda: bool(programs(place)), "it runs")
    call(place, "cancel", job=job)
    wait_for(lambda: state(place, job) == "cancelled", "it is stopped")
    assert not programs(place)
    assert call(place, "result", job=job)["error"] == "cancelled"
    (newest, *_) = attempts(place)
    assert newest.state is State.CANCELLED


def test_a_killed_controller_loses_no_job_and_leaves_none_running(place: House) -> None:
    done = call(place, "submit", path="clip.mp4", output="before.png", format="png")["job"]
    wait_for(lambda: state(place, done) == "succeeded", "one is done")
    job = long_film(place)
    wait_for(lambda: bool(programs(place)), "another one runs")
    assert place.daemon is not None
    os.kill(place.daemon.pid, signal.SIGKILL)
    place.daemon.wait()
    wait_for(lambda: not programs(place), "what ran ended with it")
    place.start()
    place.handler("apply", "--wait")
    wait_for(lambda: state(place, job) == "failed", "it is told that it was lost")
    assert call(place, "result", job=job)["error"] == "unavailable"
    assert attempts(place)[0].ended.effect == "none"
    lost = over(place, job)
    assert (lost["status"], lost["result"]["isError"]) == ("completed", True)
    told = over(place, done)["result"]  # a later session has the one that was done
    assert told["structuredContent"]["width"] == 160
    assert (place.inbox / "before.png").exists()


def test_a_connector_that_dies_fails_its_job_and_nothing_happened(place: House) -> None:
    job = long_film(place)
    wait_for(lambda: bool(programs(place)), "it runs")
    for pid in programs(place):
        parent = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
    wait_for(lambda: state(place, job) == "failed", "it is told")
    wait_for(lambda: not programs(place), "it ended with its connector")
    assert call(place, "result", job=job)["error"] == "unavailable"
    assert (attempts(place)[0].ended.code, attempts(place)[0].ended.effect) == ("unavailable", "none")


def test_more_jobs_than_a_binding_takes_are_refused(place: House) -> None:
    place.write("bindings/films.toml", FILMS_TOML + "[instance]\nmaxConcurrentCalls = 1\n")
    place.handler("apply", "--wait")
    job = long_film(place)
    more = call(place, "submit", path="clip.mp4", output="more.png", format="png")
    assert more["error"] == "limit"
    call(place, "cancel", job=job)
    wait_for(lambda: state(place, job) == "cancelled", "it is stopped")
    left = [
        f"{shelf}/{name}"
        for shelf in ("sealed",)
        for name, _ in Papers(place.state / "attempts").listing(shelf)
    ]
    assert not left, SHELVES
