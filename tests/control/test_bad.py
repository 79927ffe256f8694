"""What failed is remembered: how often, since when, across restarts, within bounds; a person may pardon."""

import itertools
from pathlib import Path

import orjson
import pytest

from reconciler.control.bad import TRIES, Bad, Claim
from reconciler.model.names import InstanceName

CLAIM = Claim(InstanceName("ocr", "a" * 64))
OTHER = Claim(InstanceName("ocr", "b" * 64), "asked")


def book(folder: Path) -> Bad:
    ticks = itertools.count(1)
    return Bad(folder / "bad.json", lambda: f"2026-11-30T00:00:{next(ticks):02}Z")


def test_it_is_known_to_be_bad_after_as_many_tries_as_make_a_crash_loop(tmp_path: Path) -> None:
    bad = book(tmp_path)
    marks = [bad.failed(CLAIM, f"why {number}") for number in range(TRIES)]
    assert [mark.known for mark in marks] == [False] * (TRIES - 1) + [True]
    assert [mark.retry_s for mark in marks[:-1]] == [0.5, 1, 2, 4]
    assert (marks[-1].tries, marks[-1].since, marks[-1].last) == (
        TRIES,
        "2026-11-30T00:00:01Z",
        f"2026-11-30T00:00:{TRIES:02}Z",
    )
    assert marks[-1].why == f"why {TRIES - 1}"


def test_a_restart_knows_all_of_it(tmp_path: Path) -> None:
    bad = book(tmp_path)
    for _ in range(TRIES):
        bad.failed(CLAIM, "exit 3")
    bad.failed(OTHER, "exit 4")
    again = book(tmp_path)
    assert [again.mark(one) for one in (CLAIM, OTHER)] == [bad.mark(one) for one in (CLAIM, OTHER)]


def test_another_digest_and_another_demand_are_other_claims(tmp_path: Path) -> None:
    bad = book(tmp_path)
    bad.failed(CLAIM, "exit 3")
    assert bad.mark(OTHER) is None
    assert bad.mark(Claim(CLAIM.name, "smoke")) is None


def test_a_pardon_is_one_more_try_of_what_is_known_and_keeps_the_count(tmp_path: Path) -> None:
    bad = book(tmp_path)
    bad.failed(OTHER, "once")
    bad.pardon([OTHER])
    assert (mark := bad.mark(OTHER)) and mark.left == TRIES - 1
    for _ in range(TRIES):
        bad.failed(CLAIM, "exit 3")
    bad.pardon([CLAIM])
    assert (mark := book(tmp_path).mark(CLAIM)) and (mark.left, mark.known) == (1, False)
    after = bad.failed(CLAIM, "exit 3")
    assert (after.tries, after.known) == (TRIES + 1, True)


def test_a_proof_ends_it_and_the_last_one_takes_the_file_along(tmp_path: Path) -> None:
    bad = book(tmp_path)
    bad.failed(CLAIM, "x")
    bad.failed(OTHER, "y")
    bad.forget([CLAIM])
    assert bad.mark(CLAIM) is None
    assert (tmp_path / "bad.json").exists()
    bad.forget([OTHER])
    assert not (tmp_path / "bad.json").exists()


@pytest.mark.slow
def test_the_book_is_bounded_and_forgets_what_failed_longest_ago(tmp_path: Path) -> None:
    bad = Bad(tmp_path / "bad.json", lambda: "2026-11-30T00:00:00Z")
    claims = [Claim(InstanceName("ocr", f"{number:064}")) for number in range(300)]
    for claim in claims[:256]:
        bad.failed(claim, "x")
    bad.failed(claims[0], "again")
    for claim in claims[256:]:
        bad.failed(claim, "x")
    assert sum(bad.mark(claim) is not None for claim in claims) == 256
    assert bad.mark(claims[0]) is not None
    assert bad.mark(claims[1]) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"bad": [{}]}', '{"bad": [{"binding": "a"}]}', '{"bad": 3}']
)
def test_a_torn_file_knows_nothing_and_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    bad = book(tmp_path)
    assert bad.mark(CLAIM) is None
    bad.failed(CLAIM, "x")
    assert book(tmp_path).mark(CLAIM) is not None


def test_a_folder_that_cannot_be_written_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    bad = Bad(folder / "bad.json", lambda: "now")
    folder.rmdir()
    assert bad.failed(CLAIM, "x").tries == 1
    assert bad.failed(CLAIM, "x").tries == 2
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize(
    "junk",
    [
        {"tries": "x"},
        {"left": None},
        {"left": True},
        {"since": 5},
        {"why": None},
        {"why": ["no text"]},
        {"binding": 7},
        {"asked": None},
        {"digest": {}},
    ],
)
def test_a_file_that_a_hand_wrote_wrongly_knows_nothing(tmp_path: Path, junk: dict[str, object]) -> None:
    book(tmp_path).failed(CLAIM, "exit 3")
    file = tmp_path / "bad.json"
    document = orjson.loads(file.read_bytes())
    document["bad"][0].update(junk)
    file.write_bytes(orjson.dumps(document))
    again = book(tmp_path)
    assert again.mark(CLAIM) is None
    assert again.failed(CLAIM, "exit 3").tries == 1


def test_nobody_can_write_down_more_tries_than_there_are(tmp_path: Path) -> None:
    book(tmp_path).failed(CLAIM, "exit 3")
    file = tmp_path / "bad.json"
    file.write_bytes(file.read_bytes().replace(b'"left": 4', b'"left": 1000000'))
    mark = book(tmp_path).mark(CLAIM)
    assert mark is not None
    assert (mark.left, mark.retry_s) == (TRIES, 0.25)
