"""The steps of a cutover: declare what is new, have it proven, point the agents at it, retire the old. Pure.

The one place that decides them; the loop does what stands here, in this order, since two instances of one
binding stand side by side until the last session on the old one ends. The law, tested as a property: doing
the steps leaves none but proofs that are not given yet, once those are given another round leaves none, and
where nothing differs there is none.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.routes import RouteTable
from reconciler.plan import serving


@dataclass(frozen=True, slots=True)
class Declare:
    """Make an instance known; its first call, or its proof, starts it."""

    name: InstanceName
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Prove:
    """Start an instance and see that it answers: until then what it would replace keeps serving."""

    name: InstanceName


@dataclass(frozen=True, slots=True)
class SwapRoutes:
    """Give new sessions this table. Open ones keep theirs."""

    table: RouteTable


@dataclass(frozen=True, slots=True)
class Retire:
    """Drain an instance that nothing needs any more, then stop it."""

    name: InstanceName


Step = Declare | Prove | SwapRoutes | Retire


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What there is: the instances declared and not retired, the table that new sessions get now, the recipes
    that open sessions are pinned to, and the instances that have proven themselves.
    """

    declared: Collection[InstanceName]
    table: RouteTable = serving.NOTHING
    pinned: Mapping[InstanceName, Recipe] | None = None
    proven: Collection[InstanceName] = ()


def steps(desired: RouteTable, now: Standing) -> tuple[Step, ...]:
    """What is to be done, in order.

    Kept alive is what is desired, what a route that keeps serving needs (it may be of an earlier controller,
    and not be declared yet), and what open sessions hold.
    """
    served = serving.serve(desired, now.table, now.proven)
    needed = {**served.recipes, **(now.pinned or {}), **desired.recipes}
    declared = now.declared if type(now.declared) is dict else dict.fromkeys(now.declared)
    # Sets against plain dicts: those compare by the hashes they keep, and there may be thousands of names.
    declare = [Declare(name, needed[name]) for name in sorted(set(needed).difference(declared))]
    prove = [Prove(name) for name in serving.to_prove(desired, served, now.proven)]
    swap = [] if served is now.table else [SwapRoutes(served)]
    retire = [Retire(name) for name in sorted(set(declared).difference(needed))]
    return (*declare, *prove, *swap, *retire)
