"""A listening socket inside a sandbox's empty network, opened from outside; for root and for others alike."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.runtime import host, netns, wayout

pytestmark = pytest.mark.slow

ASKS = (
    "import socket\n"
    "with socket.create_connection(('127.0.0.1', 3128), 20) as one:\n"
    "    one.sendall(b'from inside')\n"
    "    assert one.recv(100) == b'from outside'\n"
)
NO_USER = ("--unshare-net", "--unshare-pid")
WITH_USER = ("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534")
FORMS = [NO_USER, WITH_USER] if os.geteuid() == 0 else [WITH_USER]


@contextmanager
def blocked(form: tuple[str, ...], code: str) -> Iterator[tuple[int, int, "subprocess.Popen[bytes]"]]:
    """A sandbox that stands and waits: its inner process, what lets it go on, and bubblewrap."""
    told, tell = os.pipe()
    waits, unblock = os.pipe()
    plain = (
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    )
    numbers = ("--info-fd", str(tell), "--block-fd", str(waits))
    words = (host.survey().bwrap, *form, *plain, *numbers, sys.executable, "-I", "-S", "-c", code)
    child = subprocess.Popen(words, pass_fds=(tell, waits))
    os.close(tell)
    os.close(waits)
    try:
        info = b""
        while b"}" not in info:
            more = os.read(told, 4096)
            assert more, "bubblewrap ended"
            info += more
        yield json.loads(info)["child-pid"], unblock, child
    finally:
        os.close(told)
        os.close(unblock)
        child.kill()
        child.wait()


def answered(listener: socket.socket) -> bytes:
    with listener:
        listener.settimeout(30)
        one, _ = listener.accept()
        with one:
            data = one.recv(100)
            one.sendall(b"from outside")
            return data


@pytest.mark.parametrize("form", FORMS)
def test_what_is_inside_reaches_the_socket_and_what_is_outside_does_not(form: tuple[str, ...]) -> None:
    with blocked(form, ASKS) as (pid, unblock, child):
        listener = asyncio.run(netns.listener(pid))
        assert listener.getsockname() == (wayout.HOST, wayout.PORT)
        with pytest.raises(OSError):
            socket.create_connection((wayout.HOST, wayout.PORT), 1)
        os.write(unblock, b"1")
        assert answered(listener) == b"from inside"
        assert child.wait(30) == 0


def test_what_has_no_network_of_its_own_and_what_is_gone_get_none() -> None:
    with pytest.raises(netns.NoListenerError, match="it has no network of its own"):
        asyncio.run(netns.listener(os.getpid()))
    child = subprocess.Popen(("true",))
    child.wait()
    with pytest.raises(netns.NoListenerError, match="cannot be entered"):
        asyncio.run(netns.listener(child.pid))


def test_an_address_that_is_taken_says_so() -> None:
    with (
        blocked(FORMS[-1], "pass") as (pid, _, _),
        asyncio.run(netns.listener(pid)),
        pytest.raises(netns.NoListenerError, match="in use"),
    ):
        asyncio.run(netns.listener(pid))
