"""The steps that a rendering may still take, within reach of everything that walks a value for it.

A context variable, because every function of a template would otherwise carry it for the few that walk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from reconciler.templates.values import Unusable


class Meter:
    """What is left of ``most`` steps."""

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        """Allow ``most`` steps."""
        self.most = most
        self.left = most

    def spend(self, steps: int) -> None:
        """Take steps; raises Unusable when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise Unusable(f"the template takes more than {self.most} steps")


_RUNNING: ContextVar[Meter | None] = ContextVar("_RUNNING", default=None)


@contextmanager
def running(meter: Meter) -> Iterator[None]:
    """While this lasts, what walks a value spends from ``meter``."""
    token = _RUNNING.set(meter)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def spend(steps: int) -> None:
    """Take steps of the rendering that runs, if one does; raises Unusable when there are none left."""
    meter = _RUNNING.get()
    if meter is not None:
        meter.spend(steps)
