"""How far an instance, or an agent's next session, reaches: hosts, secrets, programs, paths, and what calls
cost.

A reach is compared as sets, so that a difference names each thing that is gained or lost. What a call costs
comes from the interface alone: the effect that its version states for each tool (``none`` is not listed), so
it is known before anything ran. Bounds and making are compared one by one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

from reconciler.model.contract import Contract
from reconciler.model.recipes import Recipe
from reconciler.model.routes import Route
from reconciler.plan.keys import Field, fingerprint

_DIGEST = 12  # hex digits of code and environments, as everywhere in the product


@dataclass(frozen=True, slots=True)
class Reach:
    """What is within reach; ``adds`` are folders that get new files. ``secrets`` are fingerprints of
    references, ``cost`` is ``paid (ocr/v1 ocr_extract)``. ``copies`` are shadows, which get copies of calls,
    with the hosts that each reaches: ``binding/trial (api.example:443)``.
    """

    egress: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()
    cost: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()


NOTHING = Reach()
SORTS = tuple(one.name for one in fields(Reach))


@dataclass(frozen=True, slots=True)
class Delta:
    """What one sort of reach loses and gains, sorted; ``sort`` is one of ``SORTS``."""

    sort: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


def of_recipe(recipe: Recipe | None, contracts: Iterable[Contract]) -> Reach:
    """The reach of an instance that serves these interface versions."""
    if recipe is None:
        return NOTHING
    return Reach(
        frozenset(recipe.egress),
        frozenset(map(fingerprint, recipe.secrets)),
        frozenset(recipe.sandbox.programs),
        frozenset((*recipe.sandbox.read, *(path for _, path in recipe.folders))),
        frozenset(path for _, path in recipe.adds),
        frozenset(cost for contract in contracts for cost in costs(contract, None)),
    )


def of_route(route: Route, recipe: Recipe | None) -> Reach:
    """The reach of one route: that of its instance, and what the granted tools cost; closed, it has none."""
    if route.suspended is not None:
        return NOTHING
    plain = of_recipe(recipe, ())
    cost = frozenset(costs(route.contract, route.tools))
    return replace(plain, cost=cost)


def together(parts: Iterable[Reach]) -> Reach:
    """All that any of them reaches."""
    every = tuple(parts)
    return Reach(**{sort: frozenset().union(*(getattr(one, sort) for one in every)) for sort in SORTS})


def costs(contract: Contract, granted: Iterable[str] | None) -> Iterator[str]:
    """The effects that an interface version states for its tools (the ``granted`` ones; None: all), each with
    where that is stated.
    """
    names = contract.tools if granted is None else granted
    for name in sorted(names):
        tool = contract.tools.get(name)
        if tool is not None and tool.effect != "none":
            yield f"{tool.effect} ({contract.interface} {name})"


def deltas(was: Reach, now: Reach) -> tuple[Delta, ...]:
    """What is lost and gained, sort by sort; only those where something is."""
    found = []
    for sort in SORTS:
        old, new = getattr(was, sort), getattr(now, sort)
        if old != new:
            found.append(Delta(sort, tuple(sorted(old - new)), tuple(sorted(new - old))))
    return tuple(found)


def bounds(old: Recipe | None, new: Recipe | None) -> tuple[Field, ...]:
    """The bounds at which two instances differ, as their keys have them; None: no bound, or no instance."""
    was, now = dict(_bounds(old)), dict(_bounds(new))
    names = [*was, *(name for name in now if name not in was)]
    return tuple(
        Field(name, was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)
    )


def _bounds(recipe: Recipe | None) -> Iterator[tuple[str, float | None]]:
    if recipe is None:
        return
    walls = recipe.sandbox
    yield "memoryBytes", walls.memory_bytes
    yield "tmpBytes", walls.tmp_bytes
    yield "pids", walls.pids
    yield "cpu", walls.cpu
    yield "gpu", walls.gpu
    yield "idleStopSeconds", recipe.idle_stop_s
    yield "maxConcurrentCalls", recipe.max_concurrent_calls
    yield "readyTimeoutSeconds", recipe.ready_timeout_s


def _facts(recipe: Recipe) -> str | None:
    """The profiles that an instance speaks by, each with the digest of its facts; None: it needs none."""
    return ", ".join(f"{name} {digest[:_DIGEST]}" for name, digest in recipe.profiles) or None


def making(old: Recipe | None, new: Recipe | None) -> tuple[Field, ...]:
    """What two instances of one binding are made of, where it differs and no key of the binding shows it."""
    if old is None or new is None:
        return ()
    pairs = (
        Field("connector", old.connector, new.connector),
        Field("code", old.code[:_DIGEST], new.code[:_DIGEST]),
        Field("entry", old.entry, new.entry),
        Field("runtime", old.runtime, new.runtime),
        Field("environment", old.environment[:_DIGEST] or None, new.environment[:_DIGEST] or None),
        Field("kit", old.kit[:_DIGEST], new.kit[:_DIGEST]),
        Field("state", old.state, new.state),
        Field("profiles", _facts(old), _facts(new)),
    )
    return tuple(one for one in pairs if one.before != one.after)
