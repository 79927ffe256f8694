"""Wishes of several users for the same files: whole or not at all, and gone with the last of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.harness import ledger as book
from reconciler.harness import merging, wishes
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.ledger import Ledger, User
from reconciler.harness.wishes import Wish

ROW = HARNESSES["cursor"]
FILE, SKILL = "/p/.cursor/mcp.json", "/p/.agents/skills/ocr/SKILL.md"
A, B = User("a", "cursor", "/p"), User("b", "cursor", "/p")
THEIRS = b'{\n  // mine\n  "mcpServers": {"mine": {"command": "x"}}\n}\n'


def _wish(user: User, *names: str, limit: float = 1, skill: bytes = b"text") -> Wish:
    entries = {name: ROW.entry(Service(name, ("/b", name, str(limit)), limit)) for name in names}
    return Wish(user, FILE, entries, {SKILL: skill})


class _Disk:
    """Files and what is remembered of them; ``wish`` does what it comes to, where nothing is refused."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.ledger = dict(files), Ledger()

    def wish(self, wish: Wish, way: wishes.Way = "refuse") -> list[str]:
        found = {path: self.files.get(path) for path in wishes.touched(self.ledger, wish)}
        plan = wishes.plan(self.ledger, wish, found, way)
        if not plan.refusals:
            for change in plan.changes:
                assert change.before == self.files.get(change.path)
                if change.after is None:
                    del self.files[change.path]
                else:
                    self.files[change.path] = change.after
            self.ledger = book.from_json(book.as_json(plan.ledger))
            assert self.ledger == plan.ledger
            now = {path: self.files.get(path) for path in (*self.ledger.shared, *self.ledger.whole)}
            assert list(wishes.drifted(self.ledger, now)) == []
        return [refusal.why for refusal in plan.refusals]


def test_what_two_want_goes_with_the_last() -> None:
    disk = _Disk({FILE: THEIRS})
    assert not disk.wish(_wish(A, "ocr"))
    assert not disk.wish(_wish(B, "ocr", "llm"))
    assert not disk.wish(Wish(A))
    assert b"ocr" in disk.files[FILE]
    assert SKILL in disk.files
    assert not disk.wish(Wish(B))
    assert disk.files == {FILE: THEIRS}
    assert disk.ledger == Ledger()


def test_two_that_want_different_things_of_one_name_are_told_apart() -> None:
    disk = _Disk({})
    assert not disk.wish(_wish(A, "ocr"))
    assert disk.wish(_wish(B, "ocr", limit=2)) == ["the server 'ocr' in it is of agent 'a'"]
    assert disk.wish(_wish(B, "llm", skill=b"other")) == ["agent 'a' has another version of it"]
    assert not disk.wish(_wish(A, "ocr", limit=2, skill=b"newer"))
    assert disk.files[SKILL] == b"newer"


def test_a_skill_of_a_person_is_left_and_one_that_says_the_same_stays_theirs() -> None:
    disk = _Disk({SKILL: b"mine"})
    assert disk.wish(_wish(A, "ocr")) == ["it is not ours"]
    assert disk.files == {SKILL: b"mine"}
    same = _Disk({SKILL: b"text"})
    assert not same.wish(_wish(A, "ocr"))
    assert not same.wish(Wish(A))
    assert same.files == {SKILL: b"text"}


def test_a_skill_that_was_edited_is_neither_written_over_nor_removed() -> None:
    disk = _Disk({})
    disk.wish(_wish(A, "ocr"))
    disk.files[SKILL] = b"edited"
    assert disk.wish(_wish(A, "ocr", skill=b"new")) == ["it was changed since it was written"]
    assert disk.wish(Wish(A)) == ["it was changed since it was written"]
    assert not disk.wish(Wish(A), "force")
    assert disk.files == {}


def test_what_is_kept_is_a_persons_from_then_on_and_no_drift() -> None:
    disk = _Disk({})
    disk.wish(_wish(A, "ocr", "llm"))
    disk.wish(_wish(B, "ocr"))
    edited = disk.files[FILE].replace(b'"/b"', b'"/mine"', 1)
    disk.files[FILE], disk.files[SKILL] = edited, b"edited"
    assert disk.wish(_wish(A, "ocr", "llm")) != []
    assert not disk.wish(_wish(A, "ocr", "llm"), "keep")  # what drifts is looked at by the disk itself
    assert (disk.files[FILE], disk.files[SKILL]) == (edited, b"edited")
    assert not disk.wish(Wish(A))
    assert not disk.wish(Wish(B))
    assert disk.files[SKILL] == b"edited"
    left = merging.standing(ROW, disk.files[FILE])
    assert [entry["command"] for entry in left.values()] == ["/mine"]
    assert disk.ledger == Ledger()


def test_what_is_kept_once_is_kept_until_it_is_gone_or_written_over() -> None:
    disk = _Disk({FILE: b'{"mcpServers": {"OCR": {"command": "/mine"}}}', SKILL: b"mine"})
    before = dict(disk.files)
    assert disk.wish(_wish(A, "ocr", "llm")) != []
    assert not disk.wish(_wish(A, "ocr", "llm"), "keep")
    assert not disk.wish(_wish(A, "ocr", "llm", limit=2))
    assert not disk.wish(_wish(B, "web"))
    assert (disk.files[SKILL], b'"/mine"' in (disk.files[FILE] or b"")) == (b"mine", True)
    assert set(merging.standing(ROW, disk.files[FILE] or b"")) == {"OCR", "llm", "web"}
    disk.files[FILE] = (disk.files[FILE] or b"").replace(b'"web"', b'"Web"')
    assert disk.wish(_wish(B, "web")) == ["the server 'Web' in it is not ours"]  # nobody said so of this one
    disk.files[FILE] = (disk.files[FILE] or b"").replace(b'"Web"', b'"web"')
    del disk.files[SKILL]
    assert not disk.wish(_wish(A, "ocr", "llm"))
    assert (disk.files[SKILL], list(disk.ledger.kept)) == (b"text", [FILE])
    for user in (A, B):
        assert not disk.wish(Wish(user))
    assert disk.ledger == Ledger()
    assert merging.standing(ROW, disk.files[FILE]) == merging.standing(ROW, before[FILE])


def test_a_removal_for_several_is_whole_or_not_at_all_and_told_once() -> None:
    disk = _Disk({})
    disk.wish(_wish(A, "ocr"))
    disk.wish(_wish(B, "ocr"))
    disk.files[SKILL] = b"edited"
    plan = wishes.together(disk.ledger, [Wish(A), Wish(B)], dict(disk.files), "refuse")
    assert [(one.path, one.why) for one in plan.refusals] == [(SKILL, "it was changed since it was written")]
    plan = wishes.together(disk.ledger, [Wish(A), Wish(B)], dict(disk.files), "keep")
    assert [(one.path, one.after) for one in plan.changes] == [(FILE, None)]
    assert not plan.refusals


_STEP = st.tuples(st.sampled_from([A, B]), st.sets(st.sampled_from(["ocr", "llm", "web"])))


@given(st.lists(_STEP, max_size=8), st.sampled_from([{}, {FILE: THEIRS}, {FILE: b"{}"}]))
def test_whatever_was_wished_goes_without_a_trace(
    steps: list[tuple[User, set[str]]], before: dict[str, Any]
) -> None:
    disk = _Disk(before)
    for user, names in steps:
        assert not disk.wish(_wish(user, *sorted(names)))
    for user in (A, B):
        assert not disk.wish(Wish(user))
    assert disk.files == before
    assert disk.ledger == Ledger()
