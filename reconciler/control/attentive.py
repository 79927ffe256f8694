"""A dispatch that asks what is known of an instance before each of its calls, where anything bad is known.

Of what is well nothing is asked: the usual lane is handed on as it is. Where an operation is not ready, or
the link is down, the lane is one that answers for it: `unavailable` at once, nothing sent, until one call may
try.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.control.truths import DIALECT, Truths
from reconciler.model.calls import Dispatch, Lane, Refusal, Sink
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe


class Attentive:
    """Implements ``model.calls.Dispatch`` over another. Who reports calls himself asks himself."""

    def __init__(
        self, inner: Dispatch, truths: Truths, recipe: Callable[[InstanceName], Recipe | None]
    ) -> None:
        self._inner = inner
        self._truths = truths
        self._recipe = recipe

    def lane(self, instance: InstanceName) -> Lane | None:
        lane = self._inner.lane(instance)
        if lane is not None and instance not in self._truths.met:
            self._truths.meet(instance)  # it was proven, and has had its lane since
        return lane if lane is None or not self._truths.poor else self._over(instance, lane)

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        def came(lane: Lane | Refusal) -> None:
            ready(lane if isinstance(lane, Refusal) else self._over(instance, lane))

        self._truths.meet(instance)
        self._inner.open_lane(instance, came)

    def _over(self, instance: InstanceName, lane: Lane) -> Lane:
        if instance not in self._truths.poor:
            return lane
        recipe = self._recipe(instance)
        return lane if recipe is None or recipe.runtime == DIALECT else _Asking(instance, lane, self._truths)


class _Asking:
    """A lane whose calls are sent when they may be."""

    def __init__(self, instance: InstanceName, lane: Lane, truths: Truths) -> None:
        self.inbox, self.outbox = lane.inbox, lane.outbox
        self._instance, self._lane, self._truths = instance, lane, truths
        self._refused = -1  # numbers of calls that were never sent are below zero

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        refusal = self._truths.let_in(self._instance, tool)
        if refusal is None:
            return self._lane.send(tool, arguments, sink, max_reply_bytes)
        self._refused -= 1
        self._truths.later(sink.done, refusal)
        return self._refused

    def cancel(self, number: int) -> bool:
        return self._lane.cancel(number) if number >= 0 else False

    def hold(self) -> None:
        self._lane.hold()

    def release(self) -> None:
        self._lane.release()
