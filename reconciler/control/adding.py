"""Calls whose answer hands files over for folders of the binding: put there before anybody hears the answer.

The connector sees nothing of such a folder and cannot write there: the controller does, as its own user, what
an answer asks for, and only for what the ledger keeps. Where that fails, so does the call; while nothing was
put anywhere that is proof that nothing happened. Work on files is done in threads.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from reconciler.control.dispatch import Connector, Dispatcher, Endpoint, Instances
from reconciler.control.threads import to_its_end
from reconciler.model.calls import Refusal, Relayed, Reply, Result, Sink
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.router import additions
from reconciler.router.beneath import Denied
from reconciler.runtime import host


class AddingDispatcher(Dispatcher):
    """A dispatcher whose connectors may have files added to folders of their bindings."""

    def __init__(
        self,
        instances: Instances,
        *,
        recipe: Callable[[InstanceName], Recipe | None],
        root: Path | None = None,
        ours: Collection[Path],
    ) -> None:
        """``ours``, by their real paths, are folders that nothing is ever added to."""
        super().__init__(instances, recipe=recipe, root=root)
        self.ours = tuple(ours)

    def made(self, name: InstanceName, endpoint: Endpoint, recipe: Recipe | None) -> Connector:
        """The lane of a process that runs."""
        if recipe is None or not recipe.adds:
            return super().made(name, endpoint, recipe)
        return _Lane(self, name, endpoint, recipe)


class _Lane(Connector):
    def __init__(
        self, dispatcher: AddingDispatcher, name: InstanceName, endpoint: Endpoint, recipe: Recipe
    ) -> None:
        super().__init__(dispatcher, name, endpoint, recipe)
        self._adding: dict[int, _Adding] = {}  # calls whose answer was not passed on
        self._keep = dispatcher.keep
        self.recipe = recipe
        # As the folders lie now: who puts a link on the way to one later does not choose where we write.
        found = asyncio.to_thread(_found, recipe.adds, dispatcher.ours)
        self._folders = asyncio.get_running_loop().create_task(found)

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        relay = _Adding(self, sink)
        number = super().send(tool, arguments, relay, max_reply_bytes)
        relay.over = partial(self._adding.pop, number, None)
        self._adding[number] = relay
        return number

    def cancel(self, number: int) -> bool:
        """As ``Connector`` has it; what is being put in place meanwhile may be there or not."""
        if (relay := self._adding.pop(number, None)) is not None:
            relay.is_wanted = False
        return super().cancel(number)

    def start(self, relay: "_Adding", reply: Result) -> None:
        """Put in place what an answer hands over, in a thread."""
        try:
            outbox = os.dup(self.outbox)
        except OSError:
            relay.pass_on(_failed("the connector ended before its files were taken over"))
            return
        self._keep(asyncio.get_running_loop().create_task(self._put(relay, reply, outbox)))

    async def _put(self, relay: "_Adding", reply: Result, outbox: int) -> None:
        outcome: Reply = Refusal("unavailable", "its files were not taken over", own=True)
        try:
            folders = await asyncio.shield(self._folders)
            outcome = await to_its_end(self._placed, relay, reply, (outbox, folders))
        finally:
            os.close(outbox)
            relay.pass_on(outcome)

    def _placed(
        self, relay: "_Adding", reply: Result, places: "tuple[int, dict[str, str] | host.Missing]"
    ) -> Reply:
        """The answer that goes on once its files lie in their places, or why they do not."""
        outbox, folders = places
        if isinstance(folders, host.Missing):
            return _failed(str(folders))
        try:
            additions.put(
                outbox,
                reply.added,
                folders,
                max_bytes=self.recipe.sandbox.tmp_bytes,
                wanted=lambda: relay.is_wanted,
            )
        except Denied as denied:
            return _failed(denied.diagnostic)
        except additions.Broken as fault:
            return Refusal("unavailable", str(fault), own=True)
        return Result(reply.structured, reply.files, reply.read)


class _Adding(Relayed):
    """The sink of a call whose answer may hand files over."""

    def __init__(self, lane: _Lane, sink: Sink) -> None:
        super().__init__(sink)
        self._lane = lane
        self.is_wanted = True
        self.over: Callable[[], object] = lambda: None

    def done(self, reply: Reply) -> None:
        """As ``model.calls.Sink`` has it: once what the answer hands over lies in its place."""
        if not isinstance(reply, Result) or not reply.added:
            self.pass_on(reply)
        elif not self.attempt:
            self.pass_on(_failed("files are added by tools with an effect alone"))
        else:
            self._lane.start(self, reply)

    def pass_on(self, reply: Reply) -> None:
        """The end, unless nobody waits for it any more."""
        self.over()
        if self.is_wanted:
            self._sink.done(reply)


def _found(adds: Iterable[tuple[str, str]], ours: Collection[Path]) -> dict[str, str] | host.Missing:
    """The real paths of folders by setting, or what is the matter with one. Looks at files."""
    try:
        return {key: host.folder(path, ours) for key, path in adds}
    except host.Missing as fault:
        return fault


def _failed(why: str) -> Refusal:
    return Refusal("unavailable", why, no_effect="said", own=True)
