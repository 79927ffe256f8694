"""What is told of drift, what is put right, and what is left alone."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.control import drift
from reconciler.control.drift import Drift, Found, Voice, Wish
from reconciler.model.names import Kind, ObjectRef

A, B = ObjectRef(Kind.BINDING, "a"), ObjectRef(Kind.BINDING, "b")


@dataclass
class Ground:
    """A world in which things are not as they were left, by name."""

    wishes: dict[ObjectRef, Wish] = field(default_factory=dict)
    odd: dict[str, Found] = field(default_factory=dict)
    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    said: int = 0
    mended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        voice = Voice(lambda *words: self.events.append(words), self._say)
        self.drift = Drift(self._find, lambda ref: self.wishes.get(ref, "correct"), voice)

    async def _find(self) -> list[Found]:
        return list(self.odd.values())

    async def _say(self) -> None:
        self.said += 1

    def change(self, name: str, *about: ObjectRef, own: bool = False, why: str = "") -> None:
        """Something is not as it was left; ``why`` it cannot be put right, or ""."""

        async def mend() -> str:
            if why == "OSError":
                raise OSError(28, "No space left on device")
            if not why:
                self.mended.append(name)
                del self.odd[name]
            return why

        self.odd[name] = Found("CodeChanged", name, about, mend, own)

    def check(self) -> None:
        asyncio.run(self.drift.check())

    def words(self, ref: ObjectRef) -> str:
        found = self.drift.objects.get(ref)
        return found.message if found else ""


def test_a_check_that_finds_nothing_says_nothing() -> None:
    ground = Ground()
    ground.check()
    assert (ground.events, ground.said, ground.drift.objects) == ([], 0, {})


def test_what_is_found_is_told_then_put_right_and_told_again() -> None:
    ground = Ground()
    ground.change("code", A)
    ground.check()
    assert ground.mended == ["code"]
    assert [(about, severity, reason) for about, severity, reason, _ in ground.events] == [
        ("binding/a", "Warning", "CodeChanged"),
        ("binding/a", "Normal", "DriftCorrected"),
    ]
    assert ground.said == 2
    assert ground.drift.objects == {}
    ground.check()
    assert ground.said == 2


@pytest.mark.parametrize(
    ("wishes", "told", "mended"),
    [
        ({A: "correct", B: "correct"}, [A, B], True),
        ({A: "report", B: "report"}, [A, B], False),
        ({A: "off", B: "off"}, [], False),
        ({A: "off", B: "report"}, [B], False),
        ({A: "report", B: "correct"}, [A, B], True),
        ({A: "off", B: "correct"}, [B], True),
    ],
)
def test_what_two_share_is_told_to_whom_wishes_it_and_put_right_for_one(
    wishes: dict[ObjectRef, Wish], told: list[ObjectRef], *, mended: bool
) -> None:
    ground = Ground(wishes)
    ground.change("code", A, B)
    ground.check()
    warned = [about for about, severity, _, _ in ground.events if severity == "Warning"]
    assert warned == [str(ref) for ref in told]
    assert bool(ground.mended) is mended
    assert list(ground.drift.objects) == ([] if mended else told)


def test_a_record_of_the_controller_is_put_right_whatever_its_object_wishes() -> None:
    ground = Ground({A: "off"})
    ground.change("status", A, own=True)
    ground.change("journal", own=True)
    ground.check()
    assert ground.mended == ["status", "journal"]
    assert [about for about, severity, _, _ in ground.events if severity == "Warning"] == [
        "binding/a",
        "configuration",
    ]


@pytest.mark.parametrize(
    ("why", "words"), [("it waits", "it waits"), ("OSError", "it cannot be put right: No space left")]
)
def test_what_cannot_be_put_right_stays_told_with_why_and_is_said_once(why: str, words: str) -> None:
    ground = Ground()
    ground.change("code", A, why=why)
    for _ in range(3):
        ground.check()
    assert words in ground.words(A)
    assert len(ground.events) == 1
    assert ground.said == 2, "first that it is so, then why it stays so"
    ground.odd.clear()
    ground.check()
    assert ground.words(A) == ""
    assert ground.events[-1][2:] == ("DriftCorrected", "code: that is over")


def test_what_is_no_longer_to_be_told_is_not_said_to_be_over() -> None:
    ground = Ground({A: "report"})
    ground.change("code", A)
    ground.check()
    assert ground.words(A) == "code"
    ground.wishes[A] = "off"
    ground.check()
    assert ground.words(A) == ""
    assert len(ground.events) == 1


def test_one_cause_for_many_objects_is_one_event() -> None:
    ground = Ground()
    many = [ObjectRef(Kind.BINDING, f"b{number}") for number in range(100)]
    ground.change("code", *many, why="no")
    ground.check()
    assert ground.events == [("configuration", "Warning", "CodeChanged", "code (100 objects)")]
    assert len(ground.drift.objects) == 100


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "no"]), st.booleans()), max_size=12))
def test_what_is_told_is_what_is_left_after_any_changes(changes: list[tuple[str, str, bool]]) -> None:
    ground = Ground({A: "report"})
    for name, why, own in changes:
        ground.change(name, A, own=own, why=why)
        ground.check()
        assert set(ground.words(A).replace(" · no", "").split(" · ")) - {""} == set(ground.odd)
    counts = {"Warning": 0, "Normal": 0}
    for _, severity, _, _ in ground.events:
        counts[severity] += 1
    assert counts["Warning"] - counts["Normal"] == len(ground.odd)


def test_a_reason_of_drift_is_told_of_what_is_not_off() -> None:
    async def nothing() -> str:
        return ""

    one = Found("CodeChanged", "code", (A, B), nothing)
    assert drift.told(one, {A: "off", B: "report"}.__getitem__) == (B,)  # type: ignore[arg-type]
    assert not drift.is_corrected(one, {A: "off", B: "report"}.__getitem__)  # type: ignore[arg-type]
