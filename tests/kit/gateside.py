"""The gate beside a connector whose functions run in this process: the real one, in a thread of its own.

It lets through to servers on loopback, plainly, and adds the headers that the connector's own
``connector.toml`` names for its slots.
"""

import asyncio
import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.egress.gate import Ask, Gate, Passage, Slots, Verdicted
from reconciler.model.hosts import Allow
from reconciler.model.recipes import SecretUse
from reconciler.model.secrets import Filled, Resolved
from reconciler.runtime import gating
from tests.kit.engines import spec

VARIABLE = "HANDLER_GATE_SOCKET"
_KEY = b"k" * 32


@contextmanager
def gated(connector: str, key: str, *origins: str) -> Iterator[list[Passage]]:
    """Name the gate to this process; ``key`` fills every slot, none where it is "". What passed, in order."""
    uses = [
        SecretUse(name, "file", (), None, "gate", slot.header)
        for name, slot in spec(connector).secret_slots.items()
    ]
    assert all(use.header for use in uses), "a slot of this connector goes into it"
    filled = [Filled(use, Resolved(key.encode(), key=_KEY)) for use in uses if key]
    listed = [origin.removeprefix("http://") for origin in origins]
    passed: list[Passage] = []
    before = os.environ.get(VARIABLE)

    async def may(ask: Ask) -> Verdicted:
        return Verdicted(go=True)

    async def serve() -> None:
        gate = Gate(
            Allow(listed), Slots.of(filled), may, passed.append, _KEY, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        folder_fd = os.open(folder, os.O_RDONLY)
        listener = gating.listen(folder_fd, os.geteuid())
        os.close(folder_fd)
        await gate.start(listener)
        ready.set()
        await over.wait()
        await gate.close()

    with tempfile.TemporaryDirectory() as folder:
        loop, over, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
        thread.start()
        assert ready.wait(30)
        os.environ[VARIABLE] = str(Path(folder) / gating.NAME)
        try:
            yield passed
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
            loop.call_soon_threadsafe(over.set)
            thread.join()
            loop.close()
