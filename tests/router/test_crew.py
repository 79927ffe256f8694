"""Work on files in threads: what hangs holds up its own agent alone."""

import threading

import pytest

from reconciler.router.crew import Crew


def test_work_that_hangs_holds_up_nobody_else_and_what_waits_is_done_in_order() -> None:
    crew, free, order = Crew("crew-test"), threading.Event(), []
    stuck = [crew.submit("clerk", free.wait, 60) for _ in range(4)]
    waiting = [crew.submit("clerk", order.append, number) for number in range(20)]
    assert crew.submit("maid", lambda: "well").result(30) == "well"
    assert not any(one.done() for one in (*stuck, *waiting))
    assert waiting.pop(3).cancel()
    free.set()
    for one in (*stuck, *waiting):
        one.result(30)
    assert sorted(order) == [number for number in range(20) if number != 3]
    with pytest.raises(ZeroDivisionError):
        crew.submit("clerk", lambda: 1 // 0).result(30)
    crew._pool.shutdown()
    assert not crew._waiting
    assert not crew._busy
