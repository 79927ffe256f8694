"""What is said of every object, from what was admitted and what is observed. Pure.

Each truth has one author here: *Admitted* comes from the rules, *Synced* from whether the newest form is
the one in
force, *Supported* from what is not built, *Linked* from the process, *Ready* sums them up. Nothing is
remembered:
the same facts give the same words, and ``since`` is settled by the board.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.admission.admit import Admission
from reconciler.control import details
from reconciler.model.inventory import Layer, Resource
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.problems import Problem, Severity, listed
from reconciler.model.resources import Agent, Binding, Record
from reconciler.model.routes import RouteTable
from reconciler.model.status import REASONS, Condition, InstanceSeen, ObjectStatus, Reason, Summary, Truth

_COMING = ("building", "starting")


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a status is drawn from. ``unproven`` says why a new instance does not serve yet."""

    admission: Admission
    desired: RouteTable
    serving: RouteTable
    instances: Mapping[str, InstanceSeen]  # by binding@digest12
    unproven: Mapping[InstanceName, str] = field(default_factory=dict)
    held: Mapping[ObjectRef, str] = field(default_factory=dict)  # removals that wait for `handler apply`
    running: bool = True  # False: written without a controller


def statuses(facts: Facts) -> Iterator[ObjectStatus]:
    """One status for every object of the configuration, and for what it uses of the catalogue."""
    used = users(facts.admission)
    for ref in sorted(_told(facts.admission, used)):
        yield _status(facts, ref, tuple(sorted(map(str, used.get(ref, ())))))


def users(admission: Admission) -> dict[ObjectRef, set[ObjectRef]]:
    """Who uses what: bindings use connectors; agents use bindings, interfaces and projects."""
    used: dict[ObjectRef, set[ObjectRef]] = {}
    for ref, resource in admission.in_force.items():
        spec = resource.spec
        if isinstance(spec, Binding) and spec.connector:
            used.setdefault(ObjectRef(Kind.CONNECTOR, spec.connector), set()).add(ref)
        if isinstance(spec, Agent) and spec.project:
            used.setdefault(ObjectRef(Kind.PROJECT, spec.project), set()).add(ref)
    for agent, selections in admission.selections.items():
        for selected in selections:
            me = ObjectRef(Kind.AGENT, agent)
            used.setdefault(ObjectRef(Kind.BINDING, selected.binding), set()).add(me)
            used.setdefault(ObjectRef(Kind.INTERFACE, str(selected.interface)), set()).add(me)
    return used


def _told(admission: Admission, used: Iterable[ObjectRef]) -> set[ObjectRef]:
    told = {ref for ref, resource in admission.inventory.resources.items() if resource.layer is Layer.CONFIG}
    told |= set(admission.refused) | set(admission.retained)
    return told | {ref for ref in used if ref in admission.in_force}


def _status(facts: Facts, ref: ObjectRef, used_by: tuple[str, ...]) -> ObjectStatus:
    admission = facts.admission
    now: Resource[Record] | None = admission.inventory.resources.get(ref)
    in_force = admission.in_force.get(ref)
    refused = admission.refused.get(ref, ())
    known = now or in_force
    file = known.file if known else refused[0].at.file if refused else ""
    source = admission.inventory.sources.get((Layer.CONFIG, file))
    digest = now.digest if now else hashlib.sha256(source).hexdigest() if source is not None else ""
    seen = _instances(facts, ref)
    warnings = tuple(p for p in admission.problems if p.about == ref and p.severity is Severity.WARNING)
    return ObjectStatus(
        kind=ref.kind.value,
        name=ref.name,
        file=file,
        digest=f"sha256:{digest}" if digest else "",
        observed_digest=f"sha256:{in_force.digest}" if in_force else "",
        suspended=bool(getattr(in_force.spec, "suspend", False)) if in_force else False,
        conditions=_conditions(facts, ref, refused, seen),
        problems=tuple(problem_json(problem) for problem in (*refused, *warnings)),
        inventory=tuple(_instance_json(one) for one in seen),
        used_by=used_by,
        declared=details.declared(in_force.spec, admission) if in_force else None,
        services=_services(facts, ref),
    )


def _services(facts: Facts, ref: ObjectRef) -> tuple[Mapping[str, object], ...]:
    if ref.kind is not Kind.AGENT:
        return ()
    return details.services(facts.admission, facts.serving if facts.running else None, ref.name)


def _instances(facts: Facts, ref: ObjectRef) -> tuple[InstanceSeen, ...]:
    if ref.kind is not Kind.BINDING:
        return ()
    mine = [one for name, one in facts.instances.items() if name.rpartition("@")[0] == ref.name]
    return tuple(sorted(mine, key=lambda one: one.name))


def _conditions(
    facts: Facts, ref: ObjectRef, refused: tuple[Problem, ...], seen: tuple[InstanceSeen, ...]
) -> tuple[Condition, ...]:
    admitted = (
        Condition("Admitted", "False", _reason(refused[0]), refused[0].what)
        if refused
        else Condition("Admitted", "True", "Admitted")
    )
    found = [admitted, _synced(facts, ref, refused), _ready(facts, ref, refused, seen)]
    if missing := facts.admission.absent.get(ref):
        found.append(Condition("Supported", "False", "NotBuilt", f"not built yet: {listed(missing)}"))
    if ref.kind is Kind.BINDING and facts.running:
        found.extend(_observed(facts, ref, seen))
    return tuple(sorted(found, key=lambda condition: condition.type))


def _synced(facts: Facts, ref: ObjectRef, refused: tuple[Problem, ...]) -> Condition:
    if ref in facts.held:
        return Condition("Synced", "False", "AwaitingApply", facts.held[ref])
    if ref in facts.admission.retained:
        return Condition("Synced", "False", "LastGoodRetained", "the last admitted form stays in force")
    if refused:
        return Condition("Synced", "False", _reason(refused[0]), "no form of it was ever admitted")
    if why := _waiting(facts, ref):
        return Condition("Synced", "False", "LastGoodRetained", why)
    if not facts.running:
        return Condition("Synced", "Unknown", "ReconcileSuccess", "written without a controller")
    return Condition("Synced", "True", "ReconcileSuccess")


def _waiting(facts: Facts, ref: ObjectRef) -> str:
    """Why the newest form of a binding or an agent does not serve yet, or ""."""
    if ref.kind is Kind.BINDING:
        return next((why for name, why in facts.unproven.items() if name.binding == ref.name), "")
    if ref.kind is Kind.AGENT:
        wanted, served = facts.desired.agents.get(ref.name), facts.serving.agents.get(ref.name)
        if wanted is not None and served is not None and wanted != served:
            new = [r.instance for r in wanted.routes.values() if r.instance in facts.unproven]
            if new:
                return f"earlier routes serve until {listed(map(str, new))} answers"
    return ""


def _ready(
    facts: Facts, ref: ObjectRef, refused: tuple[Problem, ...], seen: tuple[InstanceSeen, ...]
) -> Condition:
    in_force = facts.admission.in_force.get(ref)
    if in_force is None:
        problem = refused[0] if refused else None
        reason: Reason = _reason(problem) if problem else "UnresolvedReference"
        return Condition("Ready", "False", reason, problem.what if problem else "nothing is in force")
    if getattr(in_force.spec, "suspend", False):
        return Condition(
            "Ready", "False", "Suspended", getattr(in_force.spec, "suspend_reason", "") or "suspended"
        )
    match ref.kind:
        case Kind.BINDING:
            return _binding_ready(facts, ref, seen)
        case Kind.AGENT:
            return _agent_ready(facts, ref)
        case _:
            return _whole(facts, "Admitted", "")


def _whole(facts: Facts, reason: Reason, message: str) -> Condition:
    if not facts.running:
        return Condition("Ready", "Unknown", reason, "nothing runs until handlerd does")
    return Condition("Ready", "True", reason, message)


def _binding_ready(facts: Facts, ref: ObjectRef, seen: tuple[InstanceSeen, ...]) -> Condition:
    wanted = {str(name) for name in facts.desired.recipes if name.binding == ref.name}
    if not wanted:
        missing = facts.admission.absent.get(ref, ())
        return Condition("Ready", "False", "NotBuilt", f"not built yet: {listed(missing)}")
    current = next((one for one in seen if one.name in wanted), None)
    if current is None or not facts.running:
        return _whole(facts, "Idle", "the first call starts it")
    if current.phase == "failed":
        return Condition("Ready", "False", current.reason or "ReconcileError", current.message)
    if current.phase in _COMING:
        return Condition("Ready", "Unknown", "Starting", current.message or current.phase)
    if current.pid is not None:
        return Condition("Ready", "True", "Running", "its process runs")
    return Condition("Ready", "True", "Idle", "the first call starts it")


def _agent_ready(facts: Facts, ref: ObjectRef) -> Condition:
    if facts.running and ref.name not in facts.serving.agents:
        return Condition("Ready", "False", "UnresolvedReference", "it has no routes")
    for selected in facts.admission.selections.get(ref.name, ()):
        binding = ObjectRef(Kind.BINDING, selected.binding)
        found = _ready(facts, binding, (), _instances(facts, binding))
        if found.status == "False":
            return Condition("Ready", "False", found.reason, f"{binding} is not ready: {found.message}")
        if found.status == "Unknown" and facts.running:
            return Condition("Ready", "Unknown", found.reason, f"{binding}: {found.message}")
    return _whole(facts, "ReconcileSuccess", "")


def _observed(facts: Facts, ref: ObjectRef, seen: tuple[InstanceSeen, ...]) -> Iterator[Condition]:
    running = [one for one in seen if one.pid is not None and one.phase in ("ready", "idle")]
    failed = [one for one in seen if one.phase == "failed"]
    linked: Truth = "True" if running else "False" if failed else "Unknown"
    if linked != "Unknown":
        reason: Reason = "Running" if running else failed[0].reason or "ReconcileError"
        yield Condition("Linked", linked, reason, "" if running else failed[0].message)
    if any(one.phase == "draining" for one in seen):
        yield Condition("Reconciling", "True", "Draining", "an earlier instance ends with its last session")


def _reason(problem: Problem) -> Reason:
    return problem.reason if problem.reason in REASONS else "SchemaInvalid"  # type: ignore[return-value]


def problem_json(problem: Problem) -> dict[str, object]:
    """A problem as every status file, and every ``-o json``, has it."""
    return {
        "code": problem.code,
        "severity": problem.severity.value,
        "object": str(problem.about) if problem.about else None,
        "file": problem.at.file,
        "line": problem.at.line,
        "column": problem.at.column,
        "field": problem.field_path,
        "what": problem.what,
        "why": problem.why,
        "mend": problem.mend,
        "candidates": list(problem.candidates),
    }


def summary(facts: Facts, frame: Summary) -> Summary:
    """The summary over all objects: ``frame`` brings who controls what, and the source's own condition."""
    admission = facts.admission
    revision = admission.inventory.revision
    settled = not facts.unproven and not facts.held
    return replace(
        frame,
        last_attempted=revision,
        last_applied=revision,
        serving=revision if settled and facts.running else frame.serving,
        dirty="+dirty" in revision,
        generation=facts.serving.generation,
        instances=tuple(
            _seen_json(one) for one in sorted(facts.instances.values(), key=lambda one: one.name)
        ),
        problems=tuple(problem_json(problem) for problem in admission.problems if problem.about is None),
    )


def _seen_json(one: InstanceSeen) -> dict[str, object]:
    return {
        "name": one.name,
        "binding": one.name.rpartition("@")[0],
        "phase": one.phase,
        "pid": one.pid,
        "startedAt": one.started_at,
        "restarts": one.restarts,
        "lastExit": one.last_exit,
        "reason": one.reason,
        "message": one.message,
        "calls": one.calls,
        "walls": dict(one.walls),
    }


def _instance_json(one: InstanceSeen) -> dict[str, object]:
    return {
        "id": one.name,
        "phase": one.phase,
        "pid": one.pid,
        "startedAt": one.started_at,
        "restarts": one.restarts,
        "lastExit": one.last_exit,
    }
