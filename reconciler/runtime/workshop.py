"""What the instances of one supervisor share, and what one says that has no process now."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.model.recipes import Recipe
from reconciler.model.status import InstanceSeen, Reason
from reconciler.runtime.gating import GateFor, ProxyFor, no_gate
from reconciler.runtime.identities import Identities
from reconciler.runtime.laying import Store
from reconciler.runtime.limits import Limits
from reconciler.runtime.resolving import Resolver, Unresolved
from reconciler.runtime.ringlog import RingLog
from reconciler.runtime.walls import Walls


class Unready(Exception):  # noqa: N818 - it is an answer: there is no process now
    """Why an instance has no process now: a reason of the closed list, and words for operators."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Workshop:
    """What all instances of one supervisor share."""

    run: Path  # <run>/i
    owner: str
    kit: Path
    store: Store
    identities: Identities
    limits: Limits
    walls: Callable[[], asyncio.Future[Walls]]
    log: Callable[[str], RingLog]
    event: Callable[[InstanceSeen], None]
    way_out: ProxyFor
    secrets: Resolver
    ours: tuple[Path, ...]  # the real paths of folders that no connector is shown
    revoke: Callable[[Recipe, Unresolved], None]  # what else runs on a reference that does not resolve
    gate: GateFor = no_gate
    stirred: Callable[[Any], None] = lambda unit: None  # one is no more as it was declared
