"""Who a bridge serves: the harness, however many wrappers it put in between."""

import os
import subprocess
import sys

import pytest

from reconciler.control import processes

_SAYS = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


def _me() -> processes.Process:
    return processes.Process(os.getpid(), processes.start_time(os.getpid()) or 0)


@pytest.mark.parametrize(
    "wrappers",
    [
        [],
        ["sh", "-c", '"$0" "$@"; true'],
        ["timeout", "60"],
        ["sh", "-c", '"$0" "$@"; true', "timeout", "60", "sh", "-c", '"$0" "$@"; true'],
    ],
    ids=["none", "a shell", "timeout", "three"],
)
@pytest.mark.parametrize("own_session", [True, False])
def test_wrappers_that_hand_their_input_on_are_climbed_over(wrappers: list[str], own_session: bool) -> None:
    command = [*wrappers, sys.executable, "-c", _SAYS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=own_session
    ) as child:
        assert child.stdout is not None
        assert processes.harness(int(child.stdout.readline())) == _me()
        child.communicate()


def test_without_a_pipe_the_parent_counts() -> None:
    """The inner shell must not become ``cat``, whose input is the pipe, nor lend it its own."""
    reading, writing = os.pipe()
    with (
        subprocess.Popen(
            ["sh", "-c", 'exec 3<&0; "$0" "$@" </dev/null & wait', "sh", "-c", "echo $$; (cat <&3); true"],
            stdin=reading, stdout=subprocess.PIPE, text=True,
        ) as child,
        os.fdopen(writing, "wb"),  # closed first: the child ends with it, also where this test fails
    ):  # fmt: skip
        os.close(reading)
        assert child.stdout is not None
        assert processes.harness(int(child.stdout.readline())) == processes.Process(
            child.pid, processes.start_time(child.pid) or 0
        )


def test_a_process_that_is_gone_has_no_harness() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert processes.harness(child.pid) is None
