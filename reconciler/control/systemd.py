"""What a supervisor is told, by systemd's protocol: one datagram of ``NAME=VALUE`` lines (``sd_notify(3)``).

Without ``NOTIFY_SOCKET`` nothing is sent; a socket that does not take a message is nobody's trouble.
"""

import os
import socket
import time
from collections.abc import Mapping

_PATIENCE_S = 0.1  # with a supervisor that does not read


class Notifier:
    """Sends to the socket that the environment names; ``interval_s`` is how often it wants to hear of us."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._to = f"\0{name[1:]}" if name.startswith("@") else name if name.startswith("/") else ""
        self.heard = bool(self._to)  # whether there is somebody who listens
        mine = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        usec = environ.get("WATCHDOG_USEC", "")
        self.interval_s = int(usec) / 2e6 if self._to and mine and usec.isdigit() and int(usec) else None

    def send(self, **facts: object) -> None:
        """Tell these facts, as ``READY=1``."""
        if not self._to:
            return
        text = "\n".join(f"{name}={value}" for name, value in facts.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(_PATIENCE_S)
                sock.sendto(text.encode(), self._to)
        except OSError:
            return

    def reloading(self) -> None:
        """Say that the configuration is looked at anew; ``READY=1`` ends that."""
        self.send(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
