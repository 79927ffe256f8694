"""The two ways out of a connector's sandbox that lists what it may reach, and the record of all attempts.

They are a proxy of its own and the gate. A connector without ``egress`` has neither, and no network. A proxy,
and a connector's place at the gate, last as long as the process that they serve. Of each attempt one line
goes to ``<state>/egress.jsonl``, with host and sizes and nothing of what was said; ``way`` says which of the
two it took.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from reconciler.control import doorkeeper
from reconciler.control.gatekeeper import Gatekeeper
from reconciler.control.journal import Journal
from reconciler.control.policing import Policing
from reconciler.control.sending import Way
from reconciler.control.sessions import Session
from reconciler.egress.decisions import Cause, Decision, Verdict
from reconciler.egress.gate import Ask, Verdicted
from reconciler.egress.permits import Permits, Refusal
from reconciler.egress.proxy import Proxy
from reconciler.model.hosts import Allow
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.runtime.gating import Gated

_FORM = {name: type(value) for name, value in Decision("refused", "request").as_json().items()}
_MOST_TOLD = 1000
_MOST_TEXT = 400
_NO_CALL = "the call that the request says to serve does not run"


class Leaving:
    """The ways out of one controller's connectors. ``serves`` says whether a call runs, by instance and its
    number there; none runs before it is set.
    """

    def __init__(
        self,
        journal: Journal,
        proxy: Callable[..., Proxy] = Proxy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal, self._clock = journal, clock
        self.permits = Permits()  # by the same clock
        self.policing: Policing | None = None  # whoever asks the policy; None: there is none
        self._proxy = proxy
        self._proxies: dict[Proxy, Recipe] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.gate = Gatekeeper(self._may, self._passed)
        self.serves: Callable[[InstanceName, int], object] = lambda name, number: None

    async def serve(self, recipe: Recipe, listener: socket.socket) -> Callable[[], None]:
        """Serve one process of a recipe by a proxy; gives what ends that. ValueError when its list is
        none.
        """
        policing = self.policing
        may = partial(policing.tunnel, recipe) if policing is not None else None
        proxy = self._proxy(Allow(recipe.egress), partial(self._say, recipe), may=may)
        await proxy.start(listener)
        self._proxies[proxy] = recipe
        return partial(self._close, proxy)

    def serve_gate(self, recipe: Recipe, listener: socket.socket, gated: Gated) -> Callable[[], None]:
        """Serve one process of a recipe by the gate; gives what ends that."""
        return self.gate.open(recipe, listener, gated)

    async def close(self) -> None:
        """End the gate's process."""
        await self.gate.close()

    def way(self, recipe: Recipe, gated: Gated, run: Path) -> Way:
        """The way out of an instance that is no process, for the controller itself; close it."""
        return Way(recipe, gated, self.serve_gate, permits=self.permits, run=run)

    def _may(self, recipe: Recipe, ask: Ask) -> Verdicted | Awaitable[Verdicted]:
        """Whether a request may go. An instance that is no process sends what a permit is for, and nothing
        else. Of others, what is listed and the policy allows, for a call that runs, or for none (a start, a
        look whether somebody answers).
        """
        call = ask.call
        if recipe.runtime == "dialect" or call in self.permits:
            try:
                self.permits.take(call, recipe.name, ask.wire, self._clock())
            except Refusal as fault:
                return Verdicted(go=False, cause="denied", why=str(fault))
            return Verdicted(go=True)
        if call and not (call.isascii() and call.isdigit() and self.serves(recipe.name, int(call))):
            return Verdicted(go=False, cause="call", why=_NO_CALL)
        return Verdicted(go=True) if self.policing is None else self.policing.request(recipe, ask)

    def _say(self, recipe: Recipe, decision: Decision) -> None:
        self._write(recipe, "proxy", dict(decision.as_json()))

    def _passed(self, recipe: Recipe, passage: dict[str, Any]) -> None:
        self._write(recipe, "gate", passage)

    def _write(self, recipe: Recipe, way: str, told: dict[str, Any]) -> None:
        about = {"object": f"binding/{recipe.binding}", "instance": str(recipe.name), "way": way}
        self._journal.egress({**about, **told})

    def look(self, policing: Policing, name: InstanceName | None) -> None:
        """Break off the tunnels of an instance (None: of all) that the policy does not let be there: a call
        came with other data, or the policy is another one.
        """
        for proxy, recipe in list(self._proxies.items()):
            if name in (None, recipe.name):
                proxy.cut(partial(policing.judged, recipe))

    def _close(self, proxy: Proxy) -> None:
        self._proxies.pop(proxy, None)
        task = asyncio.get_running_loop().create_task(proxy.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def keep(journal: Journal, session: Session, told: object) -> int:
    """Write down the attempts that a session's own sandbox tells of; how many have their form."""
    about = {"object": str(doorkeeper.owner(session.agent)), "session": session.id, "way": "proxy"}
    kept = [one for one in told[:_MOST_TOLD] if _formed(one)] if isinstance(told, list) else []
    for one in kept:
        short = {name: word[:_MOST_TEXT] if isinstance(word, str) else word for name, word in one.items()}
        journal.egress({**about, **short})
    return len(kept)


def _formed(one: object) -> bool:
    """Whether this is an attempt as ``Decision.as_json`` gives it, with words and sizes that one can have."""
    if not isinstance(one, dict) or one.keys() != _FORM.keys():
        return False
    if not all(type(one[name]) is kind for name, kind in _FORM.items()):
        return False
    words, sizes = (
        (one["why"] + one["target"] + one["address"]),
        (one["upBytes"], one["downBytes"], one["ms"]),
    )
    known = one["verdict"] in get_args(Verdict) and one["cause"] in get_args(Cause)
    return known and words.isprintable() and all(0 <= size < 2**63 for size in sizes)
