"""The steps from what runs to what is desired: declare what is new, point the agents at it, retire the old.

In that order, since two instances of one binding stand side by side until the last session on the old one
ends. The law, tested as a property: doing the steps leaves no steps, and where nothing differs there is
none.
"""

from collections.abc import Collection
from dataclasses import dataclass

from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.routes import RouteTable
from reconciler.plan.desired import Desired
from reconciler.plan.routing import same_table


@dataclass(frozen=True, slots=True)
class Declare:
    """Make an instance known; its first call starts it."""

    name: InstanceName
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class SwapRoutes:
    """Give new sessions this table. Open ones keep theirs."""

    table: RouteTable


@dataclass(frozen=True, slots=True)
class Retire:
    """Drain an instance that nothing desires any more, then stop it."""

    name: InstanceName


Step = Declare | SwapRoutes | Retire


def steps(
    desired: Desired,
    running: Collection[InstanceName],
    table: RouteTable | None,
    pinned: Collection[InstanceName] = (),
) -> tuple[Step, ...]:
    """What is to be done, in order. ``running`` is what was declared and not retired, ``table`` what new
    sessions get now, ``pinned`` what open sessions still hold and so is not retired.
    """
    declared = set(running)
    wanted = desired.recipes
    declare = [Declare(name, wanted[name]) for name in sorted(wanted.keys() - declared)]
    retire = [Retire(name) for name in sorted(declared - wanted.keys() - set(pinned))]
    swap = [] if table is not None and same_table(desired.table, table) else [SwapRoutes(desired.table)]
    return (*declare, *swap, *retire)
