"""Which instances were started with a secret that their binding names no more (ruling 54).

A session pins the recipe that it began with, and an earlier form of a binding may serve a while: neither
keeps a secret in use that a person took out of the binding. Where the slot is empty now, or the binding is
gone, that holds at once; where it names another place, once the instance that replaces this one serves. Pure.
"""

from collections.abc import Collection, Mapping

from reconciler.control.looking import Look
from reconciler.model.identity import moved
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Recipe
from reconciler.model.resources import Binding, Connector
from reconciler.plan import making


def revoked(
    look: Look, recipes: Mapping[InstanceName, Recipe], unproven: Collection[InstanceName]
) -> dict[InstanceName, str]:
    """Each declared instance that may not run on, with why; ``unproven`` are those that do not serve yet."""
    coming = {name.binding for name in unproven}
    found: dict[InstanceName, str] = {}
    for name in moved(recipes, look.desired.recipes):
        recipe = recipes.get(name)
        if recipe is None or not recipe.secrets:
            continue
        now = _named(look, name.binding)
        lost = [use.slot for use in recipe.secrets if now.get(use.slot) != (use.form, use.reference)]
        if lost and (name.binding not in coming or any(slot not in now for slot in lost)):
            slots = ", ".join(f"'{slot}'" for slot in sorted(lost))
            found[name] = f"its binding does not name the secret of slot {slots} any more: it is not used on"
    return found


def _named(look: Look, binding: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Where a binding in force finds each secret, by slot."""
    form = look.admission.in_force.get(ObjectRef(Kind.BINDING, binding))
    spec = form.spec if form is not None else None
    if not isinstance(spec, Binding):
        return {}
    below = look.admission.in_force.get(ObjectRef(Kind.CONNECTOR, spec.connector or ""))
    slots = below.spec.secret_slots if below is not None and isinstance(below.spec, Connector) else {}
    uses = [making.secret(slot, found, slots[slot]) for slot, found in spec.secrets.items() if slot in slots]
    return {use.slot: (use.form, use.reference) for use in uses}
