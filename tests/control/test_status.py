"""The status folder: whole files, written when what they say changes, since when it holds."""

import errno
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.control import atomic
from reconciler.control.status import Board, iso
from reconciler.model.status import Condition, ObjectStatus, Summary

ROOT = Path(__file__).resolve().parents[2]


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def status(name: str = "a", ready: str = "True", kind: str = "binding", **more: Any) -> ObjectStatus:
    conditions = (
        Condition("Admitted", "True", "Admitted"),
        Condition("Ready", ready, "Running" if ready == "True" else "CrashLoop", "words"),  # type: ignore[arg-type]
    )
    fields = {"file": f"{kind}s/{name}.toml", "digest": "sha256:1", "observed_digest": "sha256:1"}
    return ObjectStatus(kind, name, suspended=False, conditions=conditions, **{**fields, **more})


def read(folder: Path, name: str) -> dict[str, Any]:
    found = json.loads((folder / name).read_text())
    assert isinstance(found, dict)
    return found


def since(folder: Path, name: str, kind: str) -> str:
    (one,) = [one for one in read(folder, name)["conditions"] if one["type"] == kind]
    return str(one["lastTransitionTime"])


def ages(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_file_says_everything_of_an_object(tmp_path: Path) -> None:
    clock = Clock()
    board = Board(tmp_path / "status", clock)
    problem = {"code": "B104", "file": "bindings/a.toml", "line": 2, "column": 13}
    count = board.publish([status(problems=(problem,), inventory=({"id": "a@1"},), used_by=("agent/clerk",))])
    assert count == 1
    found = read(tmp_path / "status", "binding/a.json")
    assert found["apiVersion"] == "handler.status/v1"
    assert (found["kind"], found["name"], found["suspended"]) == ("binding", "a", False)
    assert found["source"] == {"file": "bindings/a.toml", "digest": "sha256:1"}
    assert (found["generation"], found["observedGeneration"]) == ("sha256:1", "sha256:1")
    assert found["problems"] == [problem]
    assert found["inventory"] == [{"id": "a@1"}]
    assert found["usedBy"] == ["agent/clerk"]
    assert found["conditions"][1] == {
        "type": "Ready",
        "status": "True",
        "reason": "Running",
        "message": "words",
        "observedGeneration": "sha256:1",
        "lastTransitionTime": iso(clock.now),
        "expiresAt": "",
    }
    assert iso(clock.now) == "2026-09-21T14:13:20.000Z"


def test_the_folder_is_its_owners_alone(tmp_path: Path) -> None:
    Board(tmp_path / "status", Clock()).publish([status()])
    for path in (tmp_path / "status", tmp_path / "status/binding"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "status/binding/a.json").stat().st_mode & 0o777 == 0o600


def test_an_instant_moves_only_when_the_truth_does(tmp_path: Path) -> None:
    clock = Clock()
    board = Board(tmp_path, clock)
    board.publish([status()])
    first = iso(clock.now)
    clock.now += 60
    changed = replace(
        status(), conditions=(*status().conditions[:1], Condition("Ready", "True", "Idle", "other"))
    )
    assert board.publish([changed]) == 1
    assert since(tmp_path, "binding/a.json", "Ready") == first
    clock.now += 60
    board.publish([status(ready="False")])
    assert since(tmp_path, "binding/a.json", "Ready") == iso(clock.now)
    assert since(tmp_path, "binding/a.json", "Admitted") == first


def test_a_condition_that_is_not_said_any_more_is_not_there(tmp_path: Path) -> None:
    board = Board(tmp_path, Clock())
    board.publish(
        [replace(status(), conditions=(*status().conditions, Condition("Reconciling", "True", "Draining")))]
    )
    board.publish([status()])
    assert [one["type"] for one in read(tmp_path, "binding/a.json")["conditions"]] == ["Admitted", "Ready"]


def test_saying_the_same_again_writes_nothing_also_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    first = Board(tmp_path, clock)
    first.publish([status("a"), status("b", "False")])
    first.summary(Summary("/c"))
    before = ages(tmp_path)
    clock.now += 100
    assert first.publish([status("a"), status("b", "False")]) == 0
    assert not first.summary(Summary("/c"))
    second = Board(tmp_path, clock)
    assert second.publish([status("a"), status("b", "False")]) == 0
    assert ages(tmp_path) == before
    clock.now += 100
    second.publish([status("a", "False"), status("b", "False")])
    assert since(tmp_path, "binding/b.json", "Ready") == iso(clock.now - 200)
    assert since(tmp_path, "binding/a.json", "Ready") == iso(clock.now)


def test_files_of_objects_that_are_gone_go_also_those_of_an_earlier_controller(tmp_path: Path) -> None:
    board = Board(tmp_path, Clock())
    board.publish(
        [status("a"), status("b"), status("ocr/v1", kind="interface"), status("ocr/v2", kind="interface")]
    )
    assert (tmp_path / "interface/ocr/v1.json").is_file()
    board.publish([status("a"), status("ocr/v2", kind="interface")])
    assert not (tmp_path / "binding/b.json").exists()
    assert not (tmp_path / "interface/ocr/v1.json").exists()
    (tmp_path / "binding/.a.json.4711.~handler").write_bytes(b"half")
    (tmp_path / "binding/torn.json").write_bytes(b'{"kind": "bind')
    Board(tmp_path, Clock()).publish([])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert not (tmp_path / "interface/ocr").exists()


@pytest.mark.parametrize("name", ["../../escape", "..", ".hidden", "Über", "x" * 300, "a b", ""])
def test_a_name_that_is_no_file_name_leads_nowhere_and_stops_nobody(tmp_path: Path, name: str) -> None:
    board = Board(tmp_path / "status", Clock())
    assert board.publish([status(name), status("b")]) == 2
    inside = sorted(path.relative_to(tmp_path / "status").as_posix() for path in tmp_path.rglob("*.json"))
    assert len(inside) == 2
    assert all(path.startswith("binding/") for path in inside)
    assert Board(tmp_path / "status", Clock()).publish([status(name), status("b")]) == 0


def test_what_is_not_ready_is_written_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = atomic.write
    monkeypatch.setattr(
        atomic, "write", lambda path, data, **more: order.append(path.stem) or real(path, data, **more)
    )
    Board(tmp_path, Clock()).publish([status("a"), status("z", "False"), status("m", "Unknown")])
    assert list(dict.fromkeys(order)) == ["z", "m", "a"]


def test_the_summary_has_a_row_for_each_object_and_an_instant_that_moves_when_something_did(
    tmp_path: Path,
) -> None:
    clock = Clock()
    board = Board(tmp_path, clock)
    problem = {"code": "B104", "file": "bindings/b.toml", "line": 2, "column": 13}
    board.publish([status("b", "False", problems=(problem,), used_by=("agent/x",)), status("a")])
    said = Summary(
        configuration="/c",
        controller={"pid": 1},
        last_attempted="main@sha1:2",
        last_applied="main@sha1:1",
        serving="main@sha1:1",
        dirty=True,
        generation=4,
        conditions=(Condition("Synced", "False", "SourceBusy", "a merge"),),
        instances=({"name": "a@1"},),
        problems=({"code": "S201"},),
    )
    assert board.summary(said)
    found = read(tmp_path, "summary.json")
    assert [(row["name"], row["ready"], row["line"], row["column"]) for row in found["objects"]] == [
        ("a", "True", 0, 0),
        ("b", "False", 2, 13),
    ]
    assert (
        found["objects"][1] | {"usedBy": ["agent/x"], "synced": "Unknown", "reason": "CrashLoop"}
        == found["objects"][1]
    )
    assert found["counts"] == {"binding": 2}
    assert (found["lastAttemptedRevision"], found["lastAppliedRevision"]) == ("main@sha1:2", "main@sha1:1")
    assert (found["servingRevision"], found["dirty"], found["generation"]) == ("main@sha1:1", True, 4)
    assert found["conditions"][0]["lastTransitionTime"] == found["at"] == iso(clock.now)
    clock.now += 10
    assert not board.summary(said)
    assert board.summary(replace(said, generation=5))
    found = read(tmp_path, "summary.json")
    assert found["at"] == iso(clock.now)
    assert found["conditions"][0]["lastTransitionTime"] == iso(clock.now - 10)


@pytest.mark.parametrize(
    ("admitted", "synced", "late"),
    [
        (("True", ""), ("True", ""), ""),
        (("True", ""), ("Unknown", "written without a controller"), ""),
        (
            ("False", "'descripton' is no key"),
            ("False", "its newest text is refused"),
            "'descripton' is no key",
        ),
        (
            ("True", ""),
            ("False", "its file is gone, but agent/x uses it"),
            "its file is gone, but agent/x uses it",
        ),
    ],
)
def test_the_summary_says_why_a_newest_form_is_not_in_force(
    tmp_path: Path, admitted: tuple[Any, str], synced: tuple[Any, str], late: str
) -> None:
    board = Board(tmp_path, Clock())
    conditions = (
        Condition("Admitted", admitted[0], "UnknownField", admitted[1]),
        Condition("Ready", "True", "Running", "its process runs"),
        Condition("Synced", synced[0], "LastGoodRetained", synced[1]),
    )
    board.publish([replace(status("a"), conditions=conditions)])
    board.summary(Summary(configuration="/c"))
    assert read(tmp_path, "summary.json")["objects"][0]["late"] == late


def test_a_full_disk_is_one_line_in_the_log_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    board = Board(tmp_path, Clock())
    board.publish([status("a")])

    def full(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    caplog.set_level(logging.WARNING, "handler.status")
    monkeypatch.setattr(atomic, "write", full)
    for _ in range(5):
        assert board.publish([status("a", "False")]) == 0
        assert not board.summary(Summary("/c"))
    assert "No space left" in board.fault
    assert len(caplog.records) == 1
    assert read(tmp_path, "binding/a.json")["conditions"][1]["status"] == "True"
    monkeypatch.undo()
    assert board.publish([status("a", "False")]) == 1
    assert board.fault == ""
    assert read(tmp_path, "binding/a.json")["conditions"][1]["status"] == "False"


def test_two_threads_may_publish(tmp_path: Path) -> None:
    board = Board(tmp_path, Clock())

    def publish(ready: str) -> None:
        for _ in range(20):
            board.publish([status(str(number), ready) for number in range(5)])

    threads = [threading.Thread(target=publish, args=(ready,)) for ready in ("True", "False")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    board.publish([status(str(number)) for number in range(5)])
    assert {read(tmp_path, f"binding/{n}.json")["conditions"][1]["status"] for n in range(5)} == {"True"}


_CYCLE = """
import os, sys
from pathlib import Path
from reconciler.control.status import Board
from reconciler.model.status import Condition, ObjectStatus, Summary
os.getpid = lambda: 1
board = Board(Path(sys.argv[1]), lambda: 1.0)
for ready in ("True", "False", "True"):
    conditions = (Condition("Ready", ready, "Running"),)
    board.publish([ObjectStatus("binding", "a", "f", "d", "d", False, conditions)])
    board.summary(Summary("/c", conditions=conditions))
board.publish([])
sys.exit(3 if board.fault else 0)
"""


def _go_on(folder: Path) -> None:
    """What the next controller does."""
    board = Board(folder, Clock())
    board.publish([status("a", "False")])
    assert read(folder, "binding/a.json")["conditions"][1]["status"] == "False"
    board.summary(Summary("/c"))
    assert read(folder, "summary.json")["counts"] == {"binding": 1}
    board.publish([])
    assert board.fault == ""


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no system call can be broken"
)
@pytest.mark.parametrize("call", ["openat", "write", "fsync", "rename", "unlink", "mkdir"])
def test_killed_at_any_call_no_file_is_half_written_and_the_next_one_ends_the_same(
    tmp_path: Path, call: str
) -> None:
    folder = tmp_path / "status"
    files = (folder / "binding/a.json", folder / "summary.json")
    touched = [folder, folder / "binding", *files, *(f.with_name(f".{f.name}.1.~handler") for f in files)]
    paths = [word for path in touched for word in ("-P", str(path))]
    killed = 0
    for number in range(1, 60):
        shutil.rmtree(folder, ignore_errors=True)
        inject = ["-e", f"inject={call}:signal=KILL:when={number}"]
        command = [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            *inject,
            *paths,
            sys.executable,
            "-c",
            _CYCLE,
            str(folder),
        ]
        ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode
        for path in files:
            if path.exists():
                json.loads(path.read_bytes())
        _go_on(folder)
        left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert left == {"summary.json", "summary.md"}
        if ended == 0:
            break
        killed += 1
    assert killed, "nothing was killed"


def test_an_update_writes_what_it_names_removes_what_is_gone_and_leaves_the_rest(tmp_path: Path) -> None:
    board = Board(tmp_path, Clock())
    board.publish([status("a"), status("b"), status("c")])
    before = ages(tmp_path)
    assert board.update([status("a"), status("b", "False"), status("d")], [("binding", "c")]) == 3
    after = ages(tmp_path)
    assert {Path(path).stem for path in after} == {"a", "b", "d"}
    assert after[str(tmp_path / "binding/a.json")] == before[str(tmp_path / "binding/a.json")]
    board.summary(Summary("/c"))
    assert [row["name"] for row in read(tmp_path, "summary.json")["objects"]] == ["a", "b", "d"]
    assert board.update([status("d")], [("binding", "never told")]) == 0


def test_an_update_that_could_not_be_written_is_made_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(tmp_path, Clock())
    board.publish([status("a"), status("b")])

    def full(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "write", full)
    assert board.update([status("a", "False")], [("binding", "b")]) == 0
    monkeypatch.undo()
    assert board.update([], []) > 0
    assert read(tmp_path, "binding/a.json")["conditions"][1]["status"] == "False"
    assert not (tmp_path / "binding/b.json").exists()


def test_objects_wait_for_no_disk_and_the_summary_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: waited.append(fd) or real(fd))
    board = Board(tmp_path, Clock())
    board.publish([status(f"b-{number}") for number in range(50)])
    assert not waited
    board.summary(Summary("/c"))
    assert len(waited) == 2  # the file, and its folder's names


@pytest.mark.parametrize("left", [b"", b'{"kind": "binding", "na', b"\0" * 512])
def test_what_a_power_cut_left_of_an_object_is_written_anew(tmp_path: Path, left: bytes) -> None:
    Board(tmp_path, Clock()).publish([status("a"), status("z")])
    path = tmp_path / "binding/a.json"
    whole = path.read_bytes()
    path.write_bytes(left)
    (tmp_path / "binding/z.json").unlink()
    Board(tmp_path, Clock()).publish([status("a"), status("z")])
    assert path.read_bytes() == whole
    assert sorted(one.name for one in path.parent.iterdir()) == ["a.json", "z.json"]


def test_no_object_waits_for_the_disk_that_a_summary_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(tmp_path / "status", Clock())
    board.publish([status("a"), status("b")])
    begun, reached, write = threading.Event(), threading.Event(), atomic.write

    def slow(path: Path, data: bytes, *, durable: bool = True) -> bool:
        if path.name == "summary.json":
            begun.set()
            assert reached.wait(60)
        return write(path, data, durable=durable)

    monkeypatch.setattr(atomic, "write", slow)
    summing = threading.Thread(target=board.summary, args=(Summary("here"),))
    summing.start()
    try:
        assert begun.wait(60)
        assert board.update([status("a", "False")], []) == 1
        assert read(tmp_path / "status/binding", "a.json")["conditions"][1]["status"] == "False"
    finally:
        reached.set()
        summing.join()
    assert {row["name"]: row["ready"] for row in read(tmp_path / "status", "summary.json")["objects"]}[
        "a"
    ] == "True"
    board.summary(Summary("here"))
    assert {row["name"]: row["ready"] for row in read(tmp_path / "status", "summary.json")["objects"]}[
        "a"
    ] == "False"
    assert board.altered() == ()
