"""The blast radius as JSON: what the control socket answers and ``-o json`` prints, whole.

The shape is ``config.differences``'; nothing is cut, counted together or left out. A key that has nothing to
say is empty or null. A chain runs for whichever agent it is run for, so what touches it is told
of the agents: the lists of chains are empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.model.names import Kind, ObjectRef
from reconciler.model.routes import Route
from reconciler.model.status import Held
from reconciler.plan import keys, reach
from reconciler.plan.impact import Change, Replaced, Side, Waits
from reconciler.plan.losses import Live, Open

API_VERSION = "handler.diff/v1"


def as_json(
    sides: tuple[Side | None, Side], live: Live, waits: Waits, changes: Sequence[Change]
) -> dict[str, Any]:
    """All changes and what they come to together: whom they reach, and which instances begin and end."""
    before, after = sides
    reached = {name for change in changes for name in change.agents}
    agents = {ref.name for ref in after.admission.in_force if ref.kind is Kind.AGENT}
    staying = {session for change in changes for session in change.sessions}
    staying |= {loss.name for change in changes for loss in change.lost if loss.sort == "session"}
    replaced = [change.instance for change in changes if change.instance]
    return {
        "apiVersion": API_VERSION,
        "from": (before.admission.inventory.revision if before else None) or None,
        "revision": after.admission.inventory.revision,
        "changes": [_change(change) for change in changes],
        "agents": {"reached": sorted(reached), "untouched": sorted(agents - reached)},
        "chains": [],
        "sessions": [_session(one) for one in live.sessions if one.id in staying],
        "instances": {
            "begin": [str(one.after) for one in replaced if one.after],
            "end": [str(one.before) for one in replaced if one.before],
        },
        "held": [_held(ref, why) for ref, why in sorted({**waits.explicit, **waits.held}.items())],
        "refusedBefore": _refused_before(before),
        "lastGood": [{"object": name, "why": why} for name, why in sorted(_last_good(live, changes).items())],
    }


def _refused_before(before: Side | None) -> list[str]:
    """What the older side refuses and has no form of: it counts as not there."""
    if before is None:
        return []
    admission = before.admission
    return sorted(str(ref) for ref in admission.refused if ref not in admission.in_force)


def _last_good(live: Live, changes: Sequence[Change]) -> dict[str, str]:
    """What goes on in an earlier form, by object, and why."""
    behind = {str(ObjectRef(Kind.BINDING, name)): why for name, why in live.behind.items()}
    return behind | {str(one.object): one.problems[0].what for one in changes if one.last_good}


def _change(change: Change) -> dict[str, Any]:
    of = {delta.sort: delta for delta in change.deltas}
    instance = change.instance
    return {
        "verb": change.verb,
        "object": str(change.object),
        "effect": change.effect,
        "file": change.file,
        "fields": _fields(change.fields),
        "files": list(change.files),
        "instance": _replaced(instance) if instance else None,
        "bounds": _fields(instance.bounds) if instance else [],
        "routes": [
            {"interface": one.interface, "from": _route(one.before), "to": _route(one.after)}
            for one in change.routes
        ],
        **{sort: _delta(of.get(sort)) for sort in reach.SORTS},
        "agents": list(change.agents),
        "chains": [],
        "users": list(change.used_by),
        "sessions": list(change.sessions),
        "losses": [{"sort": one.sort, "name": one.name, "why": one.why} for one in change.lost],
        "held": {"reason": change.held.reason, "message": change.held.message} if change.held else None,
        "lastGood": change.last_good,
    }


def _fields(found: Iterable[keys.Field]) -> list[dict[str, Any]]:
    return [{"key": one.key, "from": one.before, "to": one.after} for one in found]


def _replaced(instance: Replaced) -> dict[str, Any]:
    before, after = instance.before, instance.after
    return {
        "from": str(before) if before else None,
        "to": str(after) if after else None,
        "making": _fields(instance.making),
    }


def _route(route: Route | None) -> Mapping[str, Any] | None:
    if route is None:
        return None
    return {
        "binding": route.binding,
        "version": str(route.interface),
        "instance": None if route.vacant else str(route.instance),
        "tools": list(route.tools) if route.tools is not None else None,
        "maxCalls": route.max_calls,
        "unavailable": route.suspended,
    }


def _delta(found: reach.Delta | None) -> dict[str, list[str]]:
    return {"removed": list(found.removed) if found else [], "added": list(found.added) if found else []}


def _session(session: Open) -> dict[str, Any]:
    return {
        "session": session.id,
        "agent": session.agent,
        "revision": session.revision or None,
        "generation": session.generation,
        "standing": session.standing,
        "instances": sorted(map(str, session.instances)),
    }


def _held(ref: ObjectRef, why: Held) -> dict[str, str]:
    return {"object": str(ref), "reason": why.reason, "message": why.message}
