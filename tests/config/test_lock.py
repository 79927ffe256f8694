"""The lock is read whole or not at all, and what is written reads back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.config import lock
from reconciler.config.text import TextFault
from reconciler.model.inventory import Lock, LockEntry
from tests.kit.effort import times

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
TEXT = f"""\
# Written by `handler lock add`. Each entry publishes one version of an interface, which then never changes.
# Keep it in git; do not edit it by hand.
apiVersion = "handler.lock/v1"

[interfaces."ocr/v2"]
digest = "{A}"
modelDigest = "{B}"
reviewedBy = "A. Person"
published = "2026-11-30"

[interfaces."ocr/v10"]
digest = "{B}"
modelDigest = "{A}"
reviewedBy = "B. Person"
published = "2026-12-01"
"""
ENTRIES = {
    "ocr/v10": LockEntry("ocr/v10", B, A, "B. Person", "2026-12-01", 11),
    "ocr/v2": LockEntry("ocr/v2", A, B, "A. Person", "2026-11-30", 5),
}


def test_entries_are_written_sorted_by_name_and_number() -> None:
    assert lock.render(Lock(ENTRIES)) == TEXT


def test_entries_are_read_with_the_line_they_start_on() -> None:
    assert lock.read(TEXT.encode()) == Lock(ENTRIES)


def test_a_lock_without_entries_reads_back() -> None:
    assert lock.read(lock.render(Lock()).encode()) == Lock()


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.slow
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}/v[1-9][0-9]{0,2}", fullmatch=True), NAMES, max_size=4))
@settings(max_examples=times(25))
def test_whatever_is_written_reads_back(reviewers: dict[str, str]) -> None:
    entries = {ref: LockEntry(ref, A, B, name, "2026-11-30") for ref, name in reviewers.items()}
    try:
        text = lock.render(Lock(entries))
    except ValueError as error:
        assert "cannot write this lock" in str(error)
        return
    again = lock.read(text.encode())
    assert isinstance(again, Lock)
    assert {ref: one.reviewed_by for ref, one in again.entries.items()} == reviewers


@pytest.mark.parametrize("name", ["", " leading", "a\nb"])
def test_a_reviewer_without_a_name_is_not_written(name: str) -> None:
    with pytest.raises(ValueError, match="cannot write this lock: line 8"):
        lock.render(Lock({"ocr/v2": LockEntry("ocr/v2", A, B, name, "2026-11-30")}))


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("handler.lock/v1", "handler.lock/v2", (3, 14), "not handler.lock/v1"),
        ('apiVersion = "handler.lock/v1"', "", (1, 1), "not handler.lock/v1"),
        ("ocr/v2", "ocr", (5, 1), "'ocr' is not an interface version"),
        (f'digest = "{A}"', 'digest = "x"', (6, 10), "digest of ocr/v2"),
        (f'digest = "{A}"\n', "", (5, 1), "digest of ocr/v2 is missing"),
        ("2026-11-30", "yesterday", (9, 13), "published of ocr/v2"),
        ("reviewedBy", "reviewer", (8, 12), "'reviewer' is not a key"),
        ("apiVersion", "other = 1\napiVersion", (3, 9), "'other' is not a key"),
    ],
)
def test_a_lock_that_is_not_whole_is_a_fault(old: str, new: str, place: tuple[int, int], words: str) -> None:
    fault = lock.read(TEXT.replace(old, new, 1).encode())
    assert isinstance(fault, TextFault)
    assert (fault.code, fault.line, fault.column) == ("S220", *place)
    assert words in fault.what


NO_LOCKS = [b"a = ", b"interfaces = 1", b"\xff", b'apiVersion = "handler.lock/v1"\ninterfaces = 1']


@pytest.mark.parametrize("data", NO_LOCKS)
def test_what_is_no_lock_at_all_is_a_fault(data: bytes) -> None:
    assert isinstance(lock.read(data), TextFault)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_lock_or_a_fault(data: bytes) -> None:
    assert isinstance(lock.read(data), Lock | TextFault)
