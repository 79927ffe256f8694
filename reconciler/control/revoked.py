"""Which instances were started with a secret that their binding names no more (ruling 54).

A session pins the recipe that it began with, and an earlier form of a binding may serve a while: neither
keeps a secret in use that a person took out of the binding. Where the slot is empty now, or the binding is
gone, that holds at once; where it names another place, once the instance that replaces this one serves.

A slot that is required may not be empty, so the text that empties it is refused and the earlier form serves
on: not with that secret. Any other refused text takes nothing back, and neither does one that cannot be read,
nor a reference that is misspelt. Pure.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping

from reconciler.control.looking import Look
from reconciler.model.identity import moved
from reconciler.model.inventory import Layer, Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Recipe, SecretUse
from reconciler.model.resources import Binding, Connector, Record, SecretReference, SecretSlot
from reconciler.plan import making

Source = tuple[str, tuple[str, ...]]  # a form and its words


def revoked(
    look: Look, recipes: Mapping[InstanceName, Recipe], unproven: Collection[InstanceName]
) -> dict[InstanceName, str]:
    """Each declared instance that may not run on, with why; ``unproven`` are those that do not serve yet."""
    coming = {name.binding for name in unproven}
    lost: dict[InstanceName, list[str]] = {}
    for name in moved(recipes, look.desired.recipes):
        recipe = recipes.get(name)
        if recipe is None or not recipe.secrets:
            continue
        now = _named(look, name.binding)
        gone = [use.slot for use in recipe.secrets if now.get(use.slot) != (use.form, use.reference)]
        if gone and (name.binding not in coming or any(slot not in now for slot in gone)):
            lost[name] = gone
    emptied = dict(_emptied(look))
    for name, recipe in recipes.items() if emptied else ():
        now_empty = emptied.get(name.binding, ())
        if gone := [use.slot for use in recipe.secrets if use in now_empty]:
            lost[name] = sorted({*lost.get(name, ()), *gone})
    return {name: _words(slots, refused=name.binding in emptied) for name, slots in lost.items()}


def _words(slots: Collection[str], *, refused: bool) -> str:
    listed = ", ".join(f"'{slot}'" for slot in sorted(slots))
    words = f"its binding does not name the secret of slot {listed} any more: it is not used on"
    return f"{words}; name another in [secrets], or remove the binding" if refused else words


def _emptied(look: Look) -> Iterator[tuple[str, tuple[SecretUse, ...]]]:
    """By binding whose newest text is refused: what its form in force takes and that text names nowhere."""
    for ref in look.admission.retained:
        form = look.admission.in_force.get(ref) if ref.kind is Kind.BINDING else None
        if form is None or ref in look.held or not isinstance(form.spec, Binding) or not form.spec.secrets:
            continue
        told = _told(look, form)
        if told is None:
            continue
        slots, named = told
        uses = (use for use in _uses(look, form.spec) if use.slot not in slots)
        if gone := tuple(use for use in uses if (use.form, use.reference) not in named):
            yield ref.name, gone


def _told(look: Look, form: Resource[Record]) -> tuple[Collection[str], Collection[Source]] | None:
    """The slots that a binding's newest text fills, however badly, and all references anywhere in it (a
    table or a slot may be misspelt); None where it is not known what it says.
    """
    text = look.admission.inventory.sources.get((Layer.CONFIG, form.file))
    if text is None:
        return None
    try:
        said = tomllib.loads(text.decode())
    except ValueError:
        return None
    filled = said.get("secrets", {})
    return (filled, set(_references(said))) if isinstance(filled, dict) else None


def _references(said: object) -> Iterator[Source]:
    if isinstance(said, dict):
        try:
            use = making.secret("", SecretReference.model_validate(said), SecretSlot())
            yield use.form, use.reference
        except ValueError:  # pydantic's ValidationError is one
            pass
        for one in said.values():
            yield from _references(one)


def _named(look: Look, binding: str) -> dict[str, Source]:
    """Where a binding in force finds each secret, by slot."""
    form = look.admission.in_force.get(ObjectRef(Kind.BINDING, binding))
    spec = form.spec if form is not None else None
    if not isinstance(spec, Binding):
        return {}
    return {use.slot: (use.form, use.reference) for use in _uses(look, spec)}


def _uses(look: Look, spec: Binding) -> list[SecretUse]:
    below = look.admission.in_force.get(ObjectRef(Kind.CONNECTOR, spec.connector or ""))
    slots = below.spec.secret_slots if below is not None and isinstance(below.spec, Connector) else {}
    return [making.secret(slot, found, slots[slot]) for slot, found in spec.secrets.items() if slot in slots]
