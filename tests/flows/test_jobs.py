"""Jobs, the whole way: submitted, looked after, collected later, stopped, and lost by nobody's death."""

import json
import os
import shutil
import signal
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


def programs(made: House) -> list[int]:
    """The ffmpegs that run in a sandbox of this house's, by what they write."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                words = (one / "cmdline").read_bytes()
            except OSError:
                continue
            if words.startswith(b"ffmpeg\0") and b"/run/connector/out/" in words:
                found.append(int(one.name))
    return found


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
    assert call(place, "result", job=done)["width"] == 160  # a later session has the one that was done
    assert (place.inbox / "before.png").exists()


def test_a_connector_that_dies_fails_its_job_and_nothing_happened(place: House) -> None:
    job = long_film(place)
    wait_for(lambda: bool(programs(place)), "it runs")
    for pid in programs(place):
        parent = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
    wait_for(lambda: state(place, job) == "failed", "it is told")
    assert not programs(place)
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
