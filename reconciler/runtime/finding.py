"""Whether each secret of what is declared can be found now: yes or no, its length and its fingerprint."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from reconciler.model.recipes import SecretUse
from reconciler.runtime.resolving import Resolver, Unresolved
from reconciler.runtime.running import Running


@dataclass(frozen=True, slots=True)
class Found:
    """One slot of one binding. ``changed``: a process runs that was started with another value."""

    binding: str
    slot: str
    form: str
    via: str
    found: bool
    length: int = 0  # bytes
    fingerprint: str = ""  # under a key of this controller: it tells equal from changed, and nothing else
    changed: bool = False
    reason: str = ""
    message: str = ""

    def as_json(self) -> Mapping[str, object]:
        return asdict(self)


async def look(units: Iterable[Running], resolver: Resolver, binding: str) -> list[Found]:
    """Resolve every reference of a binding (``""``: of all) once, a few at a time, and keep nothing."""
    wanted: dict[tuple[str, SecretUse], list[Running]] = {}
    for unit in units:
        if binding in ("", unit.recipe.binding):
            for use in unit.recipe.secrets:
                wanted.setdefault((unit.recipe.binding, use), []).append(unit)
    turns = asyncio.Semaphore(8)  # programs at once
    keys = sorted(wanted, key=lambda key: (key[0], key[1].slot, key[1].form, key[1].reference))
    return list(await asyncio.gather(*(_one(key, wanted[key], resolver, turns) for key in keys)))


async def miss(units: Collection[Running], resolver: Resolver) -> None:
    """Tell each unit whether its next start would find its secrets, as far as that costs next to nothing."""
    wanted = {(use.form, use.reference): use for unit in units for use in unit.recipe.secrets}
    turns = asyncio.Semaphore(8)

    async def glance(use: SecretUse) -> str:
        async with turns:
            return await resolver.unfound(use)

    told = dict(zip(wanted, await asyncio.gather(*map(glance, wanted.values())), strict=True))
    for unit in units:
        faults = ((use, told[use.form, use.reference]) for use in unit.recipe.secrets)
        found = (str(Unresolved(use, "SecretUnresolved", fault)) for use, fault in faults if fault)
        unit.lacks(next(found, ""))


async def _one(
    key: tuple[str, SecretUse], units: list[Running], resolver: Resolver, turns: asyncio.Semaphore
) -> Found:
    binding, use = key
    about = (binding, use.slot, use.form, use.via)
    try:
        async with turns:
            value = (await resolver.one(use)).value
    except Unresolved as fault:
        return Found(*about, found=False, reason=fault.reason, message=fault.fault)
    mark = value.fingerprint
    changed = any(unit.marks.get(use.slot, mark) != mark for unit in units)
    return Found(*about, found=True, length=len(value.reveal()), fingerprint=mark, changed=changed)
