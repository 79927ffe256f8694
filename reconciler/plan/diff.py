"""The steps of a cutover: declare what is new, have it proven, point the agents at it, retire the old. Pure.

The one place that decides them; the loop does what stands here, in this order, since two instances of one
binding stand side by side until the last session on the old one ends. The law, tested as a property: doing
the steps leaves none but proofs that are not given yet, once those are given another round leaves none, and
where nothing differs there is none.
"""

from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass

from reconciler.model.identity import Edited, laid_over, moved
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
    """What there is: the instances declared and not retired (quickest with their recipes, as a mapping that
    shares what is desired), the table that new sessions get now, the recipes that open sessions are pinned
    to, and the instances that have proven themselves.
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
    needed, declared = _needed(desired, served, now.pinned or {}), now.declared
    if not isinstance(declared, Mapping):
        declared = dict.fromkeys(declared)
    odd = sorted(moved(declared, needed))
    declare = [Declare(name, needed[name]) for name in odd if name in needed and name not in declared]
    prove = [Prove(name) for name in serving.to_prove(desired, served, now.proven)]
    swap = [] if served is now.table else [SwapRoutes(served)]
    retire = [Retire(name) for name in odd if name not in needed]
    return (*declare, *prove, *swap, *retire)


def declared(
    recipes: Mapping[InstanceName, Recipe], desired: RouteTable
) -> MutableMapping[InstanceName, Recipe]:
    """What is declared once the steps are done, as a mapping that shares what is desired."""
    found = Edited(desired.recipes)
    odd = moved(desired.recipes, recipes)
    found.update({name: recipes[name] for name in odd if name in recipes and name not in desired.recipes})
    return found


def _needed(
    desired: RouteTable, served: RouteTable, pinned: Mapping[InstanceName, Recipe]
) -> Mapping[InstanceName, Recipe]:
    odd = moved(desired.recipes, served.recipes)
    earlier = {name: served.recipes[name] for name in odd if name in served.recipes}
    more = {name: one for name, one in {**earlier, **pinned}.items() if name not in desired.recipes}
    return laid_over(desired.recipes, more)
