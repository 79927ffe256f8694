"""The chain of receipts: whatever is changed, left out, put in or cut off shows, with its file and line."""

import json
import os
from pathlib import Path

import pytest

from reconciler.control.receipts import Receipts, verified

DAY_S = 86_400.0


def book(state: Path, days: int = 2, lines: int = 3) -> list[Path]:
    now = [1_800_000_000.0]
    made = Receipts(state, lambda: now[0])
    for _ in range(days):
        for number in range(lines):
            made.add({"verdict": "allow", "rule": f"r{number}"})
        now[0] += DAY_S
    return sorted((state / "receipts").glob("*.jsonl"))


def test_a_chain_goes_on_over_days_restarts_and_a_clock_that_was_set_back(tmp_path: Path) -> None:
    files = book(tmp_path)
    assert len(files) == 2
    Receipts(tmp_path, lambda: 0.0).add({"verdict": "deny"})
    assert sorted((tmp_path / "receipts").glob("*.jsonl")) == files
    chain = verified(tmp_path)
    assert (chain.lines, chain.broken, chain.begins) == (7, None, 1)


def test_any_flipped_byte_names_its_line_or_the_next(tmp_path: Path) -> None:
    files = book(tmp_path, days=2, lines=2)
    for path in files:
        text = path.read_bytes()
        for at in range(0, len(text), 7):
            path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
            broken = verified(tmp_path).broken
            assert broken is not None, at
            line = text[:at].count(b"\n") + 1
            assert broken.file in (path.name, files[-1].name)
            assert broken.line in (line, line + 1, 1)
        path.write_bytes(text)
    assert verified(tmp_path).broken is None


@pytest.mark.parametrize(
    ("change", "file", "line", "why"),
    [
        (lambda lines: lines[:1] + lines[2:], 0, 2, "not the one that it was written after"),
        (lambda lines: [lines[1], lines[0], lines[2]], 0, 2, "not the one that it was written after"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], 0, 2, "not the one that it was written after"),
        (lambda lines: lines[:-1], 1, 1, "not the one that it was written after"),
        (lambda lines: [lines[0], b"{}\n", *lines[1:]], 0, 2, "no receipt"),
    ],
)
def test_a_line_that_is_missing_moved_or_put_in_shows(
    tmp_path: Path, change: object, file: int, line: int, why: str
) -> None:
    files = book(tmp_path)
    lines = files[0].read_bytes().splitlines(keepends=True)
    files[0].write_bytes(b"".join(change(lines)))  # type: ignore[operator]
    broken = verified(tmp_path).broken
    assert broken is not None
    assert (broken.file, broken.line) == (files[file].name, line)
    assert why in broken.why


def test_an_end_that_was_cut_off_shows_also_after_the_chain_went_on(tmp_path: Path) -> None:
    files = book(tmp_path)
    lines = files[1].read_bytes().splitlines(keepends=True)
    files[1].write_bytes(b"".join(lines[:-1]))
    broken = verified(tmp_path).broken
    assert broken is not None
    assert (broken.file, broken.line, "its end is missing" in broken.why) == (files[1].name, 3, True)
    Receipts(tmp_path, lambda: 1_800_000_000.0 + DAY_S).add({"verdict": "allow"})
    again = verified(tmp_path).broken
    assert again is not None
    assert (again.file, again.line) == (files[1].name, 3)
    files[1].unlink()
    assert verified(tmp_path).broken is not None


def test_days_that_were_put_away_are_said_and_a_head_is_missed(tmp_path: Path) -> None:
    files = book(tmp_path)
    files[0].unlink()
    chain = verified(tmp_path)
    assert (chain.broken, chain.begins) == (None, 4)
    (tmp_path / "receipts" / "head").unlink()
    broken = verified(tmp_path).broken
    assert broken is not None
    assert "head is missing" in broken.why


def test_a_head_of_another_installation_counts_for_nothing(tmp_path: Path) -> None:
    book(tmp_path)
    head = tmp_path / "receipts" / "head"
    told = json.loads(head.read_bytes())
    head.write_text(json.dumps({**told, "n": told["n"] - 1}))
    broken = verified(tmp_path).broken
    assert broken is not None
    assert "not what this installation wrote" in broken.why


def test_half_a_line_of_a_crash_is_cut_off_and_the_chain_goes_on(tmp_path: Path) -> None:
    files = book(tmp_path, days=1)
    with files[0].open("ab") as file:
        file.write(b'{"n":4,"prev":"ab')
    assert verified(tmp_path).broken is not None
    Receipts(tmp_path, lambda: 1_800_000_000.0).add({"verdict": "allow"})
    chain = verified(tmp_path)
    assert (chain.lines, chain.broken) == (4, None)


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    files = book(tmp_path)
    modes = {path.stat().st_mode & 0o777 for path in (*files, tmp_path / "install.key")}
    assert modes == {0o600}


@pytest.mark.parametrize("head", ["gone", "damaged", "of another installation"])
def test_a_cut_end_shows_after_the_chain_went_on_without_its_head(tmp_path: Path, head: str) -> None:
    (path,) = book(tmp_path, days=1, lines=4)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    match head:
        case "gone":
            (tmp_path / "receipts" / "head").unlink()
        case "damaged":
            (tmp_path / "receipts" / "head").write_bytes(b"")
        case _:
            (tmp_path / "install.key").write_bytes(b"k" * 32)
    Receipts(tmp_path, lambda: 1_800_000_000.0).add({"verdict": "allow"})
    broken = verified(tmp_path).broken
    assert broken is not None
    assert (broken.line, "number 4 where 3 belongs" in broken.why) == (3, True)


def test_a_first_line_that_a_crash_left_without_a_head_is_gone_on_from(tmp_path: Path) -> None:
    book(tmp_path, days=1, lines=1)
    (tmp_path / "receipts" / "head").unlink()
    Receipts(tmp_path, lambda: 1_800_000_000.0).add({"verdict": "allow"})
    assert verified(tmp_path).broken is None


def test_verifying_writes_nothing_and_what_is_no_file_is_no_day(tmp_path: Path) -> None:
    book(tmp_path)
    (tmp_path / "install.key").unlink()
    (tmp_path / "receipts" / "2031-01-01.jsonl").mkdir()
    os.mkfifo(tmp_path / "receipts" / "2031-01-02.jsonl")
    (tmp_path / "receipts" / "2031-01-03.jsonl").symlink_to("/dev/zero")
    broken = verified(tmp_path).broken
    assert broken is not None
    assert "the key of this installation is missing" in broken.why
    assert not (tmp_path / "install.key").exists()
