"""The one way out of a sandbox that lists what it may reach: a connector's proxy, and the record of attempts.

A connector without ``egress`` has no proxy and no network. A proxy lives as long as the process that it
serves. Of each attempt one line goes to ``<state>/egress.jsonl``, with host and sizes and nothing of what was
said.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from reconciler.control import doorkeeper
from reconciler.control.journal import Journal
from reconciler.control.sessions import Session
from reconciler.egress.decisions import Decision
from reconciler.egress.proxy import Proxy
from reconciler.model.hosts import Allow
from reconciler.model.recipes import Recipe

_FORM = {name: type(value) for name, value in Decision("refused", "request").as_json().items()}
_MOST_TOLD = 1000
_MOST_TEXT = 400


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


def keep(journal: Journal, session: Session, told: object) -> int:
    """Write down the attempts that a session's own sandbox tells of; how many have their form."""
    about = {"object": str(doorkeeper.owner(session.agent)), "session": session.id}
    kept = [one for one in told[:_MOST_TOLD] if _formed(one)] if isinstance(told, list) else []
    for one in kept:
        short = {name: word[:_MOST_TEXT] if isinstance(word, str) else word for name, word in one.items()}
        journal.egress({**about, **short})
    return len(kept)


def _formed(one: object) -> bool:
    """Whether this is an attempt as ``Decision.as_json`` gives it."""
    if not isinstance(one, dict) or one.keys() != _FORM.keys():
        return False
    return all(isinstance(one[name], kind) for name, kind in _FORM.items())
