"""What is said of every object, from what was admitted and what is observed. Pure.

Each truth has one author here: *Admitted* comes from the rules, *Synced* from whether the newest form is
the one in force, *Supported* from what is not built, *Linked* from the process, *Ready* sums them up. The
same facts give the same words, and ``since`` is settled by the board.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.attempts.holdings import Tally
from reconciler.control import details, told
from reconciler.control.facts import Facts, Index
from reconciler.control.withholding import Demanded
from reconciler.model import revisions
from reconciler.model.inventory import Layer, Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem
from reconciler.model.resources import Agent, Binding, Record
from reconciler.model.status import REASONS, Condition, InstanceSeen, ObjectStatus, Reason, Summary, Truth

_COMING = {
    "building": "what it needs is being installed",
    "starting": "its process starts: it has not answered yet",
}
_BOUNDS = {
    "memory": "memory",
    "pids": "number of processes",
    "cpu": "use of processors",
}  # walls without which a connector runs all the same, if there is no other way
_NO_PROCESS = "no process is needed: the controller speaks to its server, and a call shows if that answers"
_SUSPENDED = Condition("Ready", "False", "Suspended", "suspended")


def statuses(facts: Facts) -> Iterator[ObjectStatus]:
    """One status for every object of the configuration, and for what it uses of the catalogue."""
    index = Index()
    for ref in sorted(index.follow(facts)):
        if index.is_told(ref):
            yield status(index, ref)


def status(index: Index, ref: ObjectRef) -> ObjectStatus:
    """What the facts of ``index`` say of one object."""
    admission = index.facts.admission
    now: Resource[Record] | None = admission.inventory.resources.get(ref)
    in_force = admission.in_force.get(ref)
    refused = admission.refused.get(ref, ())
    known = now or in_force
    file = known.file if known else refused[0].at.file if refused else ""
    source = admission.inventory.sources.get((Layer.CONFIG, file)) if now is None else None
    if ref in index.facts.held:
        now = source = None  # its own form is not the one in force, and may change too often to be told
    digest = now.digest if now else hashlib.sha256(source).hexdigest() if source is not None else ""
    seen = index.instances(ref)
    return ObjectStatus(
        kind=ref.kind.value,
        name=ref.name,
        file=file,
        digest=f"sha256:{digest}" if digest else "",
        observed_digest=f"sha256:{in_force.digest}" if in_force else "",
        suspended=_is_suspended(in_force),
        conditions=_conditions(index, ref, refused, seen),
        problems=tuple(problem_json(problem) for problem in (*refused, *index.warnings(ref))),
        inventory=tuple(_instance_json(one) for one in seen),
        used_by=tuple(sorted(map(str, index.users(ref)))),
        declared=details.declared(in_force.spec, admission) if in_force else None,
        services=_services(index.facts, ref),
        jobs=_jobs(index.facts, ref),
        observations=told.observations(index.facts, ref),
        models=told.models(index.facts, ref),
    )


def _is_suspended(form: Resource[Record] | None) -> bool:
    return form is not None and isinstance(form.spec, (Agent, Binding)) and form.spec.suspend


def _jobs(facts: Facts, ref: ObjectRef) -> Mapping[str, int] | None:
    if ref.kind is not Kind.BINDING or not facts.running:
        return None
    found = facts.jobs.get(ref, Tally())
    return {"open": found.open, "indeterminate": found.indeterminate}


def _services(facts: Facts, ref: ObjectRef) -> tuple[Mapping[str, object], ...]:
    if ref.kind is not Kind.AGENT:
        return ()
    return details.services(facts.admission, facts.serving if facts.running else None, ref.name)


def _conditions(
    index: Index, ref: ObjectRef, refused: tuple[Problem, ...], seen: tuple[InstanceSeen, ...]
) -> tuple[Condition, ...]:
    admitted = (
        Condition("Admitted", "False", _reason(refused[0]), refused[0].what)
        if refused
        else Condition("Admitted", "True", "Admitted")
    )
    facts = index.facts
    found = [admitted, _synced(index, ref, refused), _ready(index, ref, refused, seen)]
    if missing := facts.admission.absent.get(ref):
        found.append(Condition("Supported", "False", "NotBuilt", _not_built(missing)))
    if words := facts.flapping.get(ref):
        found.append(Condition("Flapping", "True", "Flapping", words))
    if drifted := facts.drifted.get(ref):
        found.append(drifted)
    if demanded := facts.proofs.get(ref):
        found.append(_conformant(demanded))
    if ref.kind is Kind.BINDING and facts.running:
        found.extend(told.conditions(facts.truths.get(ref), [*_observed(seen)]))
        if (trial := index.trial(ref.name)) and trial.given_up:
            found.append(Condition("Stalled", "True", "LastGoodRetained", trial.why))
    return tuple(sorted(found, key=lambda condition: condition.type))


def _synced(index: Index, ref: ObjectRef, refused: tuple[Problem, ...]) -> Condition:
    facts = index.facts
    if held := facts.held.get(ref):
        return Condition("Synced", "False", held.reason, held.message)
    if ref in facts.admission.retained:
        return Condition(
            "Synced", "False", "LastGoodRetained", "its newest text is refused: the last good form serves"
        )
    if refused:
        return Condition(
            "Synced", "False", _reason(refused[0]), "no form of it was ever admitted: none serves"
        )
    if why := _waiting(index, ref):
        return Condition("Synced", "False", "LastGoodRetained", why)
    if not facts.running:
        return Condition("Synced", "Unknown", "ReconcileSuccess", "written without a controller")
    return Condition("Synced", "True", "ReconcileSuccess")


def _waiting(index: Index, ref: ObjectRef) -> str:
    """Why the newest form of a binding or an agent does not serve yet, or ""."""
    if ref.kind is Kind.BINDING:
        trial = index.trial(ref.name)
        return trial.why if trial else ""
    facts = index.facts
    if ref.kind is Kind.AGENT:
        wanted, served = facts.desired.agents.get(ref.name), facts.serving.agents.get(ref.name)
        if wanted is not None and served is not None and wanted != served:
            new = [r.instance for r in wanted.every() if r.instance in facts.unproven]
            if new:
                return f"{_and(map(str, new))} {'have' if len(new) > 1 else 'has'} to answer first"
    return ""


def _ready(
    index: Index, ref: ObjectRef, refused: tuple[Problem, ...], seen: tuple[InstanceSeen, ...]
) -> Condition:
    facts = index.facts
    in_force = facts.admission.in_force.get(ref)
    if in_force is None:
        problem = refused[0] if refused else None
        reason: Reason = _reason(problem) if problem else "UnresolvedReference"
        return Condition("Ready", "False", reason, problem.what if problem else "nothing is in force")
    if _is_suspended(in_force):
        return Condition(
            "Ready", "False", "Suspended", getattr(in_force.spec, "suspend_reason", "") or "suspended"
        )
    match ref.kind:
        case Kind.BINDING:
            return _copied(in_force, _taped(in_force, _binding_ready(index, ref, seen)))
        case Kind.AGENT:
            return _agent_ready(index, ref)
        case _:
            missing = facts.admission.absent.get(ref, ())
            return _whole(facts, "Admitted", f"but {_not_built(missing)}" if missing else "")


def _whole(facts: Facts, reason: Reason, message: str) -> Condition:
    if not facts.running:
        return Condition("Ready", "Unknown", reason, "nothing runs until handlerd does")
    return Condition("Ready", "True", reason, message)


def _binding_ready(index: Index, ref: ObjectRef, seen: tuple[InstanceSeen, ...]) -> Condition:
    facts, wanted = index.facts, index.wanted(ref.name)
    if not wanted:
        missing = facts.admission.absent.get(ref, ())
        return Condition("Ready", "False", "NotBuilt", f"{_not_built(missing)}; nobody is served by it")
    if index.trial(ref.name) and any(
        name.binding == ref.name and str(name) not in wanted for name in facts.serving.recipes
    ):
        return Condition("Ready", "True", "LastGoodRetained", "an earlier instance serves")
    if (demanded := facts.proofs.get(ref)) and not demanded.passed:
        return Condition("Ready", "False", "Withheld", demanded.words)
    current = next((one for one in seen if one.name in wanted), None)
    if facts.running and (words := _without_process(facts, ref)):
        return Condition("Ready", "True", "Running", words)
    spoken = _runtime(facts, ref) == "dialect"
    if current is None or not facts.running or (spoken and current.phase != "failed"):
        found = _whole(facts, "Idle", _NO_PROCESS if spoken else "the first call starts it")
    else:
        found = _instance_ready(current)
    if found.reason in ("Idle", "Running") and (
        own := [one for one in seen if one.session and one.pid is not None]
    ):
        found = _whole(facts, "Running", f"sessions with a process of their own: {len(own)}")
    return told.ready(facts.truths.get(ref), found)


def _taped(form: Resource[Record], found: Condition) -> Condition:
    """Marked where its answers are recorded, or come from a cassette and not from an engine."""
    tape = getattr(form.spec, "cassette", None)
    if tape is None:
        return found
    if tape.mode == "replay":
        reason: Reason = "Playing"
        words = f"it plays {tape.path} back, and no engine answers"
    else:
        reason, words = "Recording", f"its answers are recorded to {tape.path}"
    if found.status != "True" or found.reason not in ("Running", "Idle"):
        return replace(found, message=f"{words}; {found.message}")
    return Condition("Ready", "True", reason, words)


def _copied(form: Resource[Record], found: Condition) -> Condition:
    """Marked where copies of its calls go to another binding."""
    shadow = getattr(form.spec, "shadow", None)
    if shadow is None:
        return found
    words = f"copies of some calls go to binding/{shadow} and are only compared"
    if found.status != "True" or found.reason not in ("Running", "Idle"):
        return replace(found, message=f"{words}; {found.message}")
    return Condition("Ready", "True", "Shadowed", words)


def _without_process(facts: Facts, ref: ObjectRef) -> str:
    """What answers a binding for which no process is needed, or ""."""
    tape = getattr(facts.admission.in_force[ref].spec, "cassette", None)
    if tape is not None and tape.mode == "replay":
        return "its cassette answers"
    return "it is part of the product: the controller answers" if _runtime(facts, ref) == "builtin" else ""


def _runtime(facts: Facts, ref: ObjectRef) -> str:
    form = facts.admission.in_force.get(ref)
    name = form.spec.connector if form is not None and isinstance(form.spec, Binding) else None
    connector = facts.admission.in_force.get(ObjectRef(Kind.CONNECTOR, name or ""))
    return getattr(connector.spec, "runtime", None) or "" if connector is not None else ""


def _conformant(demanded: Demanded) -> Condition:
    proof = demanded.proof
    more = f"it holds until {proof.until[:10]}" if demanded.passed else demanded.mend
    truth: Truth = "True" if demanded.passed else "False"
    return Condition("Conformant", truth, demanded.reason, f"{proof.message}; {more}")


def _instance_ready(current: InstanceSeen) -> Condition:
    if _vanished(current):
        words = (
            f"its process ended with {current.last_exit} and nobody asked for that: the next call starts it"
        )
        return Condition("Ready", "True", "ProcessVanished", words)
    if current.phase == "failed":
        return Condition("Ready", "False", current.reason or "ReconcileError", current.message)
    if current.phase in _COMING:
        return Condition("Ready", "Unknown", "Starting", current.message or _COMING[current.phase])
    if current.pid is not None and current.reason is not None:
        lacks = current.reason == "SecretUnresolved"
        words = "; what runs goes on with what it was given, and the next start will fail" if lacks else ""
        return Condition("Ready", "True", current.reason, f"{current.message}{words}")
    if current.pid is not None:
        return Condition("Ready", "True", "Running", "its process runs")
    return Condition("Ready", "True", "Idle", "the first call starts it")


def _vanished(one: InstanceSeen) -> bool:
    """It served, and ended unasked: that alone keeps nobody waiting."""
    return one.vanished and one.reason is None


def _agent_ready(index: Index, ref: ObjectRef) -> Condition:
    facts = index.facts
    if facts.running and ref.name not in facts.serving.agents:
        words = "it has no routes yet: none of its services can be served"
        return Condition("Ready", "False", "UnresolvedReference", words)
    if _waiting(index, ref):
        return _not_served(index, ref) or Condition(
            "Ready", "True", "LastGoodRetained", "earlier routes serve"
        )
    chosen = facts.admission.selections.get(ref.name, ())
    for selected in (one for first in chosen for one in first.each):
        binding = ObjectRef(Kind.BINDING, selected.binding)
        found = _ready(index, binding, (), index.instances(binding))
        if found.status == "False":
            return Condition("Ready", "False", found.reason, f"{binding} is not ready: {found.message}")
        if found.status == "Unknown" and facts.running:
            return Condition("Ready", "Unknown", found.reason, f"{binding}: {found.message}")
    served = facts.admission.selections.get(ref.name)
    return _whole(facts, "ReconcileSuccess", "" if served else "no service is bound: it has nothing to call")


def _not_served(index: Index, ref: ObjectRef) -> Condition | None:
    """Why the earlier routes of an agent do not serve it either; None when they do."""
    for route in index.facts.serving.agents[ref.name].every():
        binding = ObjectRef(Kind.BINDING, route.binding)
        form = index.facts.admission.in_force.get(binding)
        found = _SUSPENDED if route.suspended or (form and _is_suspended(form)) else None
        seen = next((one for one in index.instances(binding) if one.name == str(route.instance)), None)
        if found is None and seen is not None and seen.phase == "failed" and not _vanished(seen):
            found = _instance_ready(seen)
        if found is not None:
            words = f"earlier routes are in force, and {binding} is not ready: {found.message}"
            return Condition("Ready", "False", found.reason, words)
    return None


def _observed(seen: tuple[InstanceSeen, ...]) -> Iterator[Condition]:
    running = [one for one in seen if one.pid is not None and one.phase in ("ready", "idle")]
    failed = [one for one in seen if one.phase == "failed"]
    linked: Truth = "True" if running else "False" if failed else "Unknown"
    if linked != "Unknown":
        last: Reason = "ReconcileError"
        if failed:
            last = "ProcessVanished" if _vanished(failed[0]) else failed[0].reason or "ReconcileError"
        reason: Reason = "Running" if running else last
        yield Condition("Linked", linked, reason, "" if running else failed[0].message)
    if any(one.phase == "draining" and not one.session for one in seen):
        yield Condition("Reconciling", "True", "Draining", "an earlier instance ends with its last call")
    yield from _contained(running, failed)


def _contained(running: list[InstanceSeen], failed: list[InstanceSeen]) -> Iterator[Condition]:
    """Whether what runs is walled in; a wall that does not stand at all lets nothing run."""
    if unwalled := [one for one in failed if one.reason == "SandboxUnavailable"]:
        yield Condition("Contained", "False", "SandboxUnavailable", unwalled[0].message)
    elif any(one.walls.get("sandbox") == "none" for one in running):
        words = "it is attached: it runs outside of any sandbox, with all that its user may do"
        yield Condition("Contained", "False", "Uncontained", words)
    elif missing := [
        word for wall, word in _BOUNDS.items() if any(one.walls.get(wall) == "none" for one in running)
    ]:
        words = f"it runs, but nothing bounds its {_and(missing)} on this machine: `handler doctor` says more"
        yield Condition("Contained", "False", "Uncontained", words)
    elif running and all(one.walls for one in running):
        yield Condition("Contained", "True", "Running", "every wall of its sandbox stands")


def _not_built(missing: Iterable[str]) -> str:
    return f"this release does not have what it uses: {', '.join(missing) or 'its connector'}"


def _and(words: Iterable[str]) -> str:
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last


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
        dirty=revisions.parts(revision).dirty,
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
        "runtime": one.runtime,
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
