"""The one way out of each connector that lists what it may reach: its proxy, and the record of each attempt.

A connector without ``egress`` has no proxy and no network. A proxy lives as long as the process that it
serves. Of each attempt one line goes to ``<state>/egress.jsonl``, with host and sizes and nothing of what was
said.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from reconciler.control.journal import Journal
from reconciler.egress.decisions import Decision
from reconciler.egress.proxy import Proxy
from reconciler.model.hosts import Allow
from reconciler.model.recipes import Recipe


class Leaving:
    """The proxies of one controller's connectors."""

    def __init__(self, journal: Journal, proxy: Callable[..., Proxy] = Proxy) -> None:
        self._journal = journal
        self._proxy = proxy
        self._closing: set[asyncio.Task[None]] = set()

    async def serve(self, recipe: Recipe, listener: socket.socket) -> Callable[[], None]:
        """Serve one process of a recipe; gives what ends that. ValueError when its list is none."""
        about = {"object": f"binding/{recipe.binding}", "instance": str(recipe.name)}
        proxy = self._proxy(Allow(recipe.egress), partial(self._say, about))
        await proxy.start(listener)
        return partial(self._close, proxy)

    def _say(self, about: dict[str, str], decision: Decision) -> None:
        self._journal.egress({**about, **decision.as_json()})

    def _close(self, proxy: Proxy) -> None:
        task = asyncio.get_running_loop().create_task(proxy.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
