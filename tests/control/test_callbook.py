"""Records of calls: by session, whole lines, bounded, and never a payload."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from reconciler.control import callbook as module
from reconciler.control.callbook import CallBook
from reconciler.model.calls import CallRecord

AT = 1_790_000_000.0


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def record(call: str = "1", *, at: float = AT, **more: Any) -> CallRecord:
    fields: dict[str, Any] = {
        "session": "s", "agent": "clerk", "interface": "ocr/v1", "tool": "ocr_extract", "binding": "b",
        "instance": "b@1", "code": "ok", "ms": 12.3456789, "in_bytes": 10, "out_bytes": 20,
    }  # fmt: skip
    return CallRecord(at=at, call=call, **{**fields, **more})


def test_each_session_has_its_file_and_a_batch_is_one_write_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
    book = CallBook(tmp_path / "calls")
    for number in range(200):
        assert not book.take(record(str(number), session="ab"[number % 2]))
    assert not (tmp_path / "calls").exists()
    assert book.write()
    assert len(writes) == 2
    assert [one["call"] for one in lines(tmp_path / "calls/a.jsonl")] == [str(n) for n in range(0, 200, 2)]
    assert [one["call"] for one in lines(tmp_path / "calls/b.jsonl")] == [str(n) for n in range(1, 200, 2)]
    assert not book.write()
    assert len(writes) == 2


def test_it_is_time_to_write_after_a_batch_and_after_a_second_of_calls(tmp_path: Path) -> None:
    book = CallBook(tmp_path)
    due = [book.take(record(str(number))) for number in range(module._BATCH)]
    assert due == [False] * (module._BATCH - 1) + [True]
    book.write()
    assert not book.take(record())
    assert book.take(record(at=AT + 1.1))


def test_a_record_has_these_keys_and_no_payload(tmp_path: Path) -> None:
    book = CallBook(tmp_path)
    book.take(record(files=(("path", 5, "ab"),), diagnostic="exit 1"))
    book.write()
    (found,) = lines(tmp_path / "s.jsonl")
    expected = {"at": "2026-09-21T14:13:20.000Z", "call": "1", "session": "s", "agent": "clerk"}
    expected |= {"interface": "ocr/v1", "tool": "ocr_extract", "binding": "b", "instance": "b@1"}
    files = [{"property": "path", "sizeBytes": 5, "sha256": "ab"}]
    counted = {"code": "ok", "ms": 12.346, "inBytes": 10, "outBytes": 20, "files": files}
    assert found == {**expected, **counted, "diagnostic": "exit 1"}
    assert (tmp_path / "s.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_session_that_never_ends_keeps_its_newest_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SESSION_BYTES", 4000)
    book = CallBook(tmp_path)
    for number in range(100):
        book.take(record(str(number)))
        book.write()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"s.jsonl", "s.1.jsonl"}
    assert max(sizes.values()) <= 4000
    kept = [int(one["call"]) for name in ("s.1.jsonl", "s.jsonl") for one in lines(tmp_path / name)]
    assert kept == list(range(kept[0], 100))


@pytest.mark.parametrize(("limit", "value"), [("_KEPT_FILES", 10), ("_KEPT_BYTES", 2700)])
def test_the_sessions_that_were_used_longest_ago_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(module, limit, value)
    monkeypatch.setattr(module, "_PRUNE_FILES", 4)
    book = CallBook(tmp_path)
    for number in range(50):
        book.take(record(session=f"x{number:02}"))
        book.write()
        os.utime(tmp_path / f"x{number:02}.jsonl", ns=(0, number * 10**9))
    names = sorted(path.stem for path in tmp_path.iterdir())
    assert names == [f"x{number:02}" for number in range(50 - len(names), 50)]
    assert len(names) <= 10 + 4


def test_what_an_earlier_controller_left_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEPT_FILES", 3)
    for day in range(10):
        (tmp_path / f"2026-01-0{day}.jsonl").write_text("{}\n")
    book = CallBook(tmp_path)
    book.take(record())
    book.write()
    assert len(list(tmp_path.iterdir())) == 3
    assert (tmp_path / "s.jsonl").exists()


def test_a_full_disk_drops_what_does_not_fit_in_memory_and_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAITING", 300)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    book = CallBook(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for number in range(400):
            book.take(record(str(number), session="ab"[number % 2]))
        with pytest.raises(OSError, match="No space"):
            book.write()
        with pytest.raises(OSError, match="No space"):
            book.write()
    assert book.write()
    for name in "ab":
        found = lines(tmp_path / f"{name}.jsonl")
        assert len(found) == 151
        assert found[-1] == {"dropped": 50}
    assert not book.write()


def test_a_name_that_could_be_a_path_is_none(tmp_path: Path) -> None:
    book = CallBook(tmp_path / "calls")
    for name in ("../x", "", "a/b", ".", "x" * 65, "a.b"):
        book.take(record(session=name))
    book.write()
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["others.jsonl"]
    assert len(lines(tmp_path / "calls/others.jsonl")) == 6
