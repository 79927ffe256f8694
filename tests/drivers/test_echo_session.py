"""Sessions: a fence that older owners do not pass, queues that are never more than they may be."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.drivers.echo_session import Batch, Closed, Drop, Echo, Frame, Queue, SessionLaw

WIDE = Queue(8, 1000, "block")
LAW = SessionLaw(60.0, 10.0, WIDE, WIDE)


def _echo(law: SessionLaw = LAW) -> Echo:
    return Echo(law, epoch=1, now_s=0.0)


def _said(echo: Echo, after: int = 0) -> list[bytes]:
    echo.turn()
    return [data for _, data in echo.receive(after, 100).frames]


def test_what_is_sent_comes_back_in_order_with_numbers_that_rise() -> None:
    echo = _echo()
    for data in (b"a", b"b"):
        assert echo.send(Frame(1, data), now_s=1.0) == "taken"
    echo.turn()
    assert echo.receive(0, 1) == Batch(((1, b"a"),))
    assert echo.receive(0, 9) == Batch(((1, b"a"), (2, b"b")))  # not yet read: it comes again
    assert echo.receive(1, 9) == Batch(((2, b"b"),))
    assert echo.receive(2, 9) == Batch(())


def test_an_owner_that_was_overtaken_changes_nothing() -> None:
    echo = _echo()
    assert echo.open(2, now_s=1.0)
    assert not echo.open(2, now_s=1.0)
    assert not echo.open(1, now_s=1.0)
    assert echo.send(Frame(1, b"old"), now_s=2.0) == "fenced"
    assert echo.send(Frame(2, b"new"), now_s=2.0) == "taken"
    assert echo.fenced == 1
    assert _said(echo) == [b"new"]


@pytest.mark.parametrize(
    ("drop", "answer", "heard", "lost"),
    [
        ("block", "full", [b"1", b"2"], 0),
        ("newest", "taken", [b"1", b"2"], 1),
        ("oldest", "taken", [b"2", b"3"], 1),
        ("close", "closed", [], 0),
    ],
)
def test_a_full_queue_does_what_its_law_says(drop: Drop, answer: str, heard: list[bytes], lost: int) -> None:
    echo = _echo(replace(LAW, inward=Queue(2, 1000, drop)))
    for data in (b"1", b"2"):
        echo.send(Frame(1, data), now_s=0.0)
    assert echo.send(Frame(1, b"3"), now_s=0.0) == answer
    echo.turn()
    batch = echo.receive(0, 9)
    assert [data for _, data in batch.frames] == heard
    assert batch.lost == lost
    assert (echo.closed == Closed("overflow")) is (drop == "close")


def test_a_session_ends_by_silence_by_age_or_when_asked_and_ends_once() -> None:
    silent = _echo()
    assert silent.send(Frame(1, b"x"), now_s=10.1) == "closed"
    assert silent.closed == Closed("idle")
    old = _echo()
    for now_s in range(0, 61, 5):
        old.send(Frame(1, b"x"), now_s=float(now_s))
        old.receive(100, 1)
        old.turn()
    assert old.send(Frame(1, b"x"), now_s=60.5) == "closed"
    assert old.closed == Closed("too-long")
    asked = _echo()
    assert asked.close() == Closed("asked")
    assert asked.close("taken-over") == Closed("asked")
    assert not asked.open(9, now_s=0.0)


@given(
    st.sampled_from(["block", "oldest", "newest", "close"]),
    st.sampled_from(["block", "oldest", "newest", "close"]),
    st.lists(st.binary(max_size=12) | st.none(), max_size=30),
)
def test_nothing_is_made_up_and_no_queue_is_more_than_it_may_be(
    inward: Drop, outward: Drop, steps: list[bytes | None]
) -> None:
    echo = _echo(replace(LAW, inward=Queue(3, 20, inward), outward=Queue(2, 15, outward)))
    sent: list[bytes] = []
    for step in steps:
        if step is None:
            echo.turn()
        elif echo.send(Frame(1, step), now_s=0.0) == "taken":
            sent.append(step)
    echo.turn()
    frames = [data for _, data in echo.receive(0, 100).frames]
    assert len(frames) <= 2
    assert sum(map(len, frames)) <= 15
    rest = iter(sent)
    assert all(any(one == data for one in rest) for data in frames)
