"""The last admitted revisions: at most five, one a content, each with the files that were in force."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.control import admitted as module
from reconciler.control import batches, history
from reconciler.control.admitted import Admitted
from reconciler.control.batches import Batch, Kept, Note
from reconciler.model.inventory import Layer
from tests.plan.build import SMALL, binding
from tests.plan.build import admitted as judged


def speed(number: int) -> dict[str, str]:
    return SMALL | binding("fast", "ocr-fast", f"settings.speed = {number}\n")


def store_of(folder: Path, *numbers: int) -> tuple[Admitted, list[dict[str, bytes]]]:
    """A store after configurations with these speeds were admitted one after the other, and their files."""
    store, admission = Admitted(folder, lambda: 1e9), None
    trees = []
    for number in numbers:
        admission = judged(speed(number), admission)
        object.__setattr__(admission.inventory, "revision", f"r{len(trees)}")
        store.save(admission, 0.25)
        trees.append(dict(admission.inventory.trees[Layer.CONFIG].files))
    return store, trees


def test_nothing_was_admitted_without_a_journal(tmp_path: Path) -> None:
    assert history.read(tmp_path / "journal") == ()


def test_the_last_five_are_kept_the_newest_first_and_survive_a_restart(tmp_path: Path) -> None:
    store, trees = store_of(tmp_path, 1, 2, 3, 4, 5, 6, 7)
    names = [entry.revision for entry in store.history]
    assert names == ["r6", "r5", "r4", "r3", "r2"]
    again = Admitted(tmp_path)
    again.load()
    assert again.history == store.history
    found = history.read(tmp_path / "journal")
    assert [dict(past.tree().files) for past in found] == trees[:1:-1]
    assert [history.tree_digest(past.tree()) for past in found] == [e.digest for e in store.history]


def test_the_same_content_again_comes_to_the_front_and_is_counted(tmp_path: Path) -> None:
    store, trees = store_of(tmp_path, 1, 2, 1)
    first, second = store.history
    assert (first.revision, first.note.count, first.note.also) == ("r2", 2, ("r0",))
    assert (second.revision, second.note.count) == ("r1", 1)
    past = Admitted(tmp_path).past(second.digest)
    assert past is not None
    assert dict(past.tree().files) == trees[1]


def test_another_name_of_what_is_in_force_is_no_other_entry(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path, 1, 1)
    (one,) = store.history
    assert one.names == ("r1", "r0")


@pytest.mark.slow
def test_writing_the_journal_anew_loses_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLACK_BYTES", 0)
    store, trees = store_of(tmp_path, *range(60), 58, 59)
    assert (tmp_path / "journal").stat().st_size < 40_000
    assert [entry.revision for entry in store.history] == ["r61", "r60", "r57", "r56", "r55"]
    found = history.read(tmp_path / "journal")
    assert tuple(past.entry for past in found) == store.history
    assert [dict(past.tree().files) for past in found] == [trees[n] for n in (61, 60, 57, 56, 55)]


def test_revisions_that_differ_by_too_much_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOST_BYTES", 100)
    found = [Batch({"a": Kept(bytes([n]) * 60, executable=False)}, Note(str(n)), 0) for n in range(4)]
    data = history.compacted(history.pasts(found))
    assert [past.entry.revision for past in history.pasts(list(batches.decoded(data)))] == ["3", "2"]


_FILES = st.dictionaries(st.sampled_from("abc"), st.none() | st.sampled_from([b"1", b"2"]), max_size=3)


@pytest.mark.slow
@given(st.lists(_FILES, min_size=1, max_size=12))
def test_a_journal_written_anew_reads_as_the_one_before(changes: list[dict[str, bytes | None]]) -> None:
    data = b"".join(
        batches.encoded(
            {path: None if one is None else Kept(one, executable=one == b"2") for path, one in some.items()},
            Note(f"r{number}", 1e9 + number, 0.5, number % 2),
        )
        for number, some in enumerate(changes)
    )
    before = history.pasts(list(batches.decoded(data)))
    assert history.pasts(list(batches.decoded(history.compacted(before)))) == before
    assert len({past.entry.digest for past in before}) == len(before) <= history.KEPT
    replay = history.replayed(batches.decoded(data))
    assert tuple(past.entry for past in before) == replay.entries
    assert before[0].files == replay.files
    assert replay.whole_bytes == len(data)


def test_a_journal_of_an_earlier_release_is_read() -> None:
    body = b'{"path":"a","size":1,"sha256":"","executable":false}\nx\n'
    import hashlib

    seal = hashlib.sha256(body + b"main@1").hexdigest()
    (batch,) = batches.decoded(body + f'{{"end":"{seal}","revision":"main@1"}}\n'.encode())
    assert batch.note == Note("main@1")


def test_an_entry_is_told_with_what_became_of_it() -> None:
    entry = history.Entry("ab", Note("main@1", 1e9, 0.2, 3, 2, ("dirty",)))
    assert history.as_json([entry]) == (
        {
            "revision": "main@1",
            "digest": "sha256:ab",
            "status": "AppliedInPart",
            "refused": 3,
            "at": "2001-09-09T01:46:40.000Z",
            "count": 2,
            "seconds": 0.2,
            "also": ["dirty"],
        },
    )
