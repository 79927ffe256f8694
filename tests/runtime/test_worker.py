"""The process in which a called agent's command works, as its parent sees it."""

import os

from reconciler.runtime import worker


def test_an_order_that_nobody_reads_any_more_is_no_fault_of_ours() -> None:
    told, tell = os.pipe()
    os.close(told)
    worker._write(tell, b"{}")


def test_a_process_that_has_ended_is_seen_in_no_namespace() -> None:
    assert worker._depth(os.getpid()) > 0
    assert worker._depth(2**22 + 1) == 0  # no kernel gives a process that number
