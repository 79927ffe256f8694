"""A supervisor hears of us by its own protocol, and nobody else does."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.control.systemd import Notifier


@pytest.fixture(params=["file", "abstract"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        abstract = f"\0handler-test-{os.getpid()}"
        sock.bind(str(tmp_path / "notify") if request.param == "file" else abstract)
        sock.settimeout(30)
        yield sock


def test_facts_come_as_one_datagram(listener: socket.socket) -> None:
    name = listener.getsockname()
    told = name if isinstance(name, str) else "@" + name[1:].decode()
    notifier = Notifier({"NOTIFY_SOCKET": told, "WATCHDOG_USEC": "3000000"})
    notifier.send(READY=1, STATUS="generation 4 serves")
    assert listener.recv(4096) == b"READY=1\nSTATUS=generation 4 serves"
    notifier.reloading()
    first, second = listener.recv(4096).split(b"\n")
    assert first == b"RELOADING=1"
    assert second.startswith(b"MONOTONIC_USEC=")
    assert (notifier.heard, notifier.interval_s) == (True, 1.5)


@pytest.mark.parametrize(
    ("environ", "interval_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, None),
        ({"NOTIFY_SOCKET": "relative", "WATCHDOG_USEC": "3000000"}, None),
        ({"NOTIFY_SOCKET": "/no/such/socket"}, None),
        ({"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "0"}, None),
        ({"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "x"}, None),
        ({"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}, None),
        ({"NOTIFY_SOCKET": "/no", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}, 1.0),
    ],
)
def test_without_a_supervisor_nothing_is_sent_and_nothing_breaks(
    environ: dict[str, str], interval_s: float | None
) -> None:
    notifier = Notifier(environ)
    notifier.send(READY=1)
    notifier.reloading()
    assert notifier.interval_s == interval_s
