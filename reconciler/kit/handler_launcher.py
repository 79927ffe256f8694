"""Runs a program that listens on a socket of its own, and carries bytes between that and Handler's socket.

Handler listens before anything runs and hands that socket over, which many programs cannot take: they bind
the path in ``HANDLER_CONNECTOR_SOCKET``. So this is the first process of such a sandbox: it starts the
program, waits until the path is there, and joins each connection of Handler's with one of the program's. It
ends with the program, with its exit code. Standard library only; it runs inside the sandbox.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

FOLDER = "/tmp/.handler"  # noqa: S108 - in the sandbox, whose /tmp is its own
PATH = f"{FOLDER}/connector.sock"
_FIRST_LOOK_S, _LATER_LOOK_S = 0.002, 0.05  # a program that starts; Handler ends one that never answers
_CHUNK = 65536


def main(words: list[str]) -> int:
    """Run the program ``words`` until it ends; its exit code (128 + N after signal N, 127: it cannot run)."""
    os.mkdir(FOLDER, 0o700)  # noqa: PTH102 - pathlib costs 3 ms at start
    listener = socket.socket(fileno=int(os.environ.pop("HANDLER_CONNECTOR_FD")))
    listener.set_inheritable(False)
    os.environ["HANDLER_CONNECTOR_SOCKET"] = PATH
    try:
        child = os.posix_spawnp(words[0], words, os.environ)
    except OSError as fault:
        print(f"handler: cannot run {words[0]}: {fault.strerror}", file=sys.stderr)  # noqa: T201 - the connector's log
        return 127
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    threading.Thread(target=_carry, args=(listener,), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _carry(listener: socket.socket) -> None:
    """Join every connection to ``listener`` with one to the program."""
    wait_s = _FIRST_LOOK_S
    while not os.path.exists(PATH):  # noqa: PTH110 - as above
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.5, _LATER_LOOK_S)
    while True:
        ours, _ = listener.accept()
        theirs = _connected()
        for source, target in ((ours, theirs), (theirs, ours)):
            threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _connected() -> socket.socket:
    """A connection to the program; it may have bound its socket and not listen yet."""
    while True:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(PATH)
        except OSError:
            made.close()
            time.sleep(_LATER_LOOK_S)
        else:
            return made


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes until ``source`` ends, and say so to ``target``."""
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):  # one is gone: the other is of no use
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
