"""``handler trace AGENT INTERFACE``: which key won, what it overrides, who answers, and why not others.

The files are read and judged as they lie now, so it works without a controller; what the status files say of
the same agent is put beside it, and where the two differ the reason why is told (an earlier form is kept, a
person rolled back, an apply is awaited, a new instance does not answer yet). Where the files are refused,
what serves stands first. Layers, lowest first: the project's default, the agent's own choice.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from reconciler.admission.connectors import implemented
from reconciler.admission.wiring import Choice, Requirement, choices, requirements
from reconciler.config import places
from reconciler.control import folders
from reconciler.doors import columns, editing, offline, standing, tables, usage
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Severity, key_path, listed
from reconciler.model.resources import Agent, Binding, Connector, Project

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Case:
    """One agent's use of one interface, as the files have it. ``layers`` has the winner first."""

    look: offline.Look
    agent: ObjectRef
    interface: str
    layers: tuple[Choice, ...]
    required: tuple[Requirement, ...]

    @property
    def binding(self) -> str | None:
        return self.layers[0].bindings[0] if self.layers else None

    @property
    def version(self) -> InterfaceRef | None:
        """The version that is meant: selected, else required, else the only one that the binding offers."""
        for one in self.look.admission.selections.get(self.agent.name, ()):
            if one.interface.name == self.interface:
                return one.interface
        if self.required:
            return self.required[-1].version
        if self.layers and self.layers[0].version:
            return InterfaceRef(self.interface, self.layers[0].version)
        offered = _offered(self.look, self.binding or "", self.interface)
        return offered[0] if len(offered) == 1 else None


def run(settings: usage.Settings, agent: str, interface: str) -> int:
    """Trace one selection; 0 the files bind it, 1 they bind nothing or are refused, whatever serves."""
    look = offline.look(folders.configuration(settings.config))
    ref = ObjectRef(Kind.AGENT, agent)
    editing.file_of(look, ref)  # raises for an agent that there is not
    name, _, version = interface.partition("/")
    case = _case(look, ref, name)
    told = _told(case, settings)
    if settings.output == "json":
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_text(told, columns.Paint(settings.color, tty=sys.stdout.isatty())))
    sys.stdout.flush()
    if version and told["binding"] and told["version"] != interface:
        sys.stderr.write(
            f"handler: {columns.shown(interface)} is not what {agent} uses: it has {told['version']}\n"
        )
        return 1
    return 0 if told["binding"] and not told["problems"] else 1


def _case(look: offline.Look, agent: ObjectRef, interface: str) -> _Case:
    resources = look.admission.inventory.resources
    found = resources.get(agent)
    if found is None or not isinstance(found.spec, Agent):
        return _Case(look, agent, interface, (), ())  # its text is refused: the problems say why
    where: list[Resource[Agent] | Resource[Project]] = [cast("Resource[Agent]", found)]
    project = resources.get(ObjectRef(Kind.PROJECT, found.spec.project or ""))
    if project is not None and isinstance(project.spec, Project):
        where.append(cast("Resource[Project]", project))
    layers = [chosen[interface] for one in where if interface in (chosen := choices(one))]
    needed = [need for one in reversed(where) for need in requirements(one) if need.version.name == interface]
    known = {ref.name.partition("/")[0] for ref in resources if ref.kind is Kind.INTERFACE}
    if not layers and not needed and interface not in known:
        near = usage.nearest(interface, sorted(known))
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
        raise usage.Usage(f"there is no interface '{columns.shown(interface)}': {hint}")
    return _Case(look, agent, interface, tuple(layers), tuple(needed))


def _told(case: _Case, settings: usage.Settings) -> Json:
    """Everything as JSON has it."""
    connector = _connector(case.look, case.binding or "")
    offers = [str(one) for one in _offered(case.look, case.binding or "", case.interface)]
    now, problems = _in_force(case, settings), [_problem(problem) for problem in _in_the_way(case)]
    serving = now["binding"] if now and (problems or not case.binding) else None
    return {
        "agent": case.agent.name,
        "interface": case.interface,
        "version": str(case.version) if case.version else None,
        "binding": case.binding,
        "chosenBy": _place(case, case.layers[0]) if case.layers else None,
        "overrides": [{**_place(case, one), "binding": listed(one.bindings)} for one in case.layers[1:]],
        "requiredBy": [{**_place(case, one), "version": str(one.version)} for one in case.required],
        "connector": connector.ref.name if connector else None,
        "offers": offers,
        "implements": bool(case.version and str(case.version) in offers),
        "unfit": _unfit_choice(case),
        "problems": problems,
        "inForce": now,
        "servesAllTheSame": serving,
        "others": [{"binding": name, "why": why} for name, why in _others(case) if name != serving],
    }


def _place(case: _Case, one: Choice | Requirement) -> Json:
    return _at(case, one.where.file, one.path)


def _at(case: _Case, file: str, path: Path) -> Json:
    data = case.look.tree.files.get(file)
    line, column = (places.at(file, data, path) if data is not None else None) or (0, 0)
    return {"file": file, "line": line, "column": column, "field": key_path(path)}


def _in_the_way(case: _Case) -> list[Problem]:
    refused = case.look.admission.refused.get(case.agent, ())
    return [problem for problem in refused if problem.severity is Severity.ERROR]


def _problem(problem: Problem) -> Json:
    at = problem.at
    told = {"code": problem.code, "severity": "error", "file": at.file, "line": at.line, "column": at.column}
    return told | {"what": problem.what, "why": problem.why, "mend": problem.mend}


# what runs


def _in_force(case: _Case, settings: usage.Settings) -> Json | None:
    """What the status files say of it; None where nothing was ever applied."""
    try:
        seen = standing.read(settings.config)
        told = standing.document(settings.config, "agent", case.agent.name)
    except usage.Stopped:
        return None
    services = [one for one in columns.records(told.get("services")) if _names(one, case.interface)]
    now: Json = services[0] if services else {}
    instance = next((one for one in seen.instances if one.get("name") == now.get("instance")), {})
    selected = now.get("binding")
    answers = str(now["instance"]).rpartition("@")[0] if now.get("instance") else selected
    keys = ("file", "line", "column", "field")  # of what is selected: that may not answer yet
    binding = _document(settings, str(answers))
    return {
        **{key: now.get(key) for key in ("interface", "instance")},
        **{key: now.get(key) if answers == selected else None for key in keys},
        "binding": answers,
        "selected": selected,
        "pid": instance.get("pid"),
        "phase": instance.get("phase"),
        "runtime": instance.get("runtime"),
        "callers": _callers(binding),
        "conformant": _conformant(binding),
        "suspended": bool(told.get("suspended")),
        "why": _reasons(seen.summary, told, binding),
        "earlier": bool(_reasons(told, binding)),
        "controllerLives": seen.lives,
    }


def _names(service: Json, interface: str) -> bool:
    return str(service.get("interface")).partition("/")[0] == interface


def _callers(binding: Json) -> list[str]:
    """The agents that use the binding."""
    found = binding.get("usedBy")
    return [str(one) for one in found if str(one).startswith("agent/")] if isinstance(found, list) else []


def _conformant(binding: Json) -> str:
    """What is known of the binding's conformance: a condition's status and message, or ""."""
    for one in columns.records(binding.get("conditions")):
        if one.get("type") == "Conformant":
            return f"{one.get('status')} {one.get('message')}".strip()
    return ""


def _document(settings: usage.Settings, binding: str) -> Json:
    try:
        return standing.document(settings.config, "binding", binding)
    except usage.Stopped:
        return {}


def _reasons(*documents: Json) -> list[str]:
    """Why what is in force may not be what the files say: of the whole, the agent, the binding."""
    found = []
    for document in documents:
        for one in columns.records(document.get("conditions")):
            if one.get("type") == "Synced" and one.get("status") == "False":
                found.append((str(one.get("reason")), str(one.get("message"))))
    told: list[str] = []
    for reason, message in found:
        if not any(known.startswith(f"{reason}: ") and known.endswith(message) for known in told):
            told.append(f"{reason}: {message}")
    return told


# why not the others


def _others(case: _Case) -> Iterator[tuple[str, str]]:
    """Every other binding that has to do with the interface, and why it does not answer."""
    admission = case.look.admission
    refs = {*admission.inventory.resources, *admission.refused}
    for ref in sorted(ref for ref in refs if ref.kind is Kind.BINDING and ref.name != case.binding):
        if why := _why_not(case, ref):
            yield ref.name, why


def _why_not(case: _Case, ref: ObjectRef) -> str:
    """Why a binding does not answer; "" where it has nothing to do with the interface."""
    admission = case.look.admission
    offered = _offered(case.look, ref.name, case.interface)
    known = _connector(case.look, ref.name) is not None
    if not offered and (known or ref not in admission.refused):
        return ""
    if refused := [one for one in admission.refused.get(ref, ()) if one.severity is Severity.ERROR]:
        return f"refused: {refused[0].at}: {refused[0].what}"
    if case.version and case.version not in offered:
        return f"offers {listed(map(str, offered))}, not {case.version}"
    return "; ".join((*_unfit(case, ref), _not_chosen(case, ref.name)))


def _unfit_choice(case: _Case) -> list[str]:
    """What keeps the chosen binding itself from answering."""
    ref = ObjectRef(Kind.BINDING, case.binding or "")
    refused = [one for one in case.look.admission.refused.get(ref, ()) if one.severity is Severity.ERROR]
    found = [f"refused: {one.at}: {one.what}" for one in refused[:1]]
    return [*found, *_unfit(case, ref)] if ref in case.look.admission.in_force else found


def _unfit(case: _Case, ref: ObjectRef) -> Iterator[str]:
    """What keeps an admitted binding from answering anyone."""
    admission = case.look.admission
    if ref in admission.unusable:
        yield f"not built in this release: {listed(admission.absent.get(ref, ())) or 'its connector'}"
    binding = admission.in_force[ref].spec
    if isinstance(binding, Binding) and binding.suspend:
        yield f"suspended: {binding.suspend_reason}" if binding.suspend_reason else "suspended"


def _not_chosen(case: _Case, name: str) -> str:
    for one in case.layers[1:]:
        if name in one.bindings:
            won = _shown(_place(case, case.layers[0]))
            return f"chosen by {_shown(_place(case, one))}, which {won} overrides"
    return f"not chosen: 'handler rebind {case.agent.name} {case.interface} {name}' would"


def _offered(look: offline.Look, binding: str, interface: str) -> list[InterfaceRef]:
    connector = _connector(look, binding)
    return implemented(connector, interface) if connector else []


def _connector(look: offline.Look, binding: str) -> Resource[Connector] | None:
    inventory = look.admission.inventory
    found = inventory.binding(binding)
    return inventory.connector(found.spec.connector) if found and found.spec.connector else None


# text


def _text(told: Json, paint: columns.Paint) -> str:
    head = _head(told)
    rows = [[" ", *row] for row in (*_declared(told), *_running(told))]
    text = paint(head[0], "bold") + (f"   {columns.shown(head[1])}" if len(head) > 1 else "") + "\n"
    text += columns.table(rows, paint)
    if told["servesAllTheSame"] and told["problems"]:
        text += f"\n{paint('Why the files are refused, while that serves', 'bold')}\n"
    for problem in told["problems"]:
        text += "\n" + tables.problem_text(problem, paint)
    if told["others"]:
        text += f"\n{paint('Why not the others', 'bold')}\n"
        text += columns.table(
            [[" ", f"binding/{one['binding']}", one["why"]] for one in told["others"]], paint
        )
    return text


def _head(told: Json) -> list[str]:
    """What is bound and by which line: by the files, or in force where they bind nothing or are refused."""
    if told["servesAllTheSame"]:
        what = f"{told['inForce']['interface']} → binding/{told['servesAllTheSame']}"
        return [what, "in force, though not by the files as they are"]
    head = [f"{told['version'] or told['interface']} → binding/{told['binding']}"]
    if not told["binding"]:
        head = [f"{told['version'] or told['interface']} → nothing"]
    return [*head, *([_shown(told["chosenBy"])] if told["chosenBy"] else ())]


def _declared(told: Json) -> Iterator[list[str]]:
    refused = "; they are refused, see below" if told["problems"] else ""
    if told["servesAllTheSame"] and told["chosenBy"]:
        yield ["files", f"{_shown(told['chosenBy'])} = {told['binding']}{refused}"]
    elif told["servesAllTheSame"]:
        yield ["files", f"they bind nothing{refused}"]
    for one in told["overrides"]:
        yield ["overrides", f"{_shown(one)} = {one['binding']}"]
    for one in told["requiredBy"]:
        yield ["required", f"{_shown(one)} = {one['version']}"]
    if told["connector"]:
        offers = listed(told["offers"]) or "no version of it"
        name = told["version"] or offers
        fits = f"implements {name} ✓" if told["implements"] else f"implements {offers} ✗"
        yield ["connector", f"{told['connector']} {fits}"]
    for why in told["unfit"]:
        yield ["but", why]


def _state(now: Json) -> str:
    if now["pid"]:
        return f"pid {now['pid']}"
    if now["runtime"] in tables.WITHIN:
        return "in the controller"
    return "not running" if now["phase"] in (None, "declared") else str(now["phase"])


def _running(told: Json) -> Iterator[list[str]]:
    now = told["inForce"]
    if now is None:
        yield ["in force", "nothing yet: nothing was ever applied"]
        return
    if not now["controllerLives"]:
        yield ["controller", "none runs: what follows is what was so last"]
    if now["conformant"]:
        yield ["conformance", now["conformant"]]
    if now["suspended"]:
        yield ["suspended", "the agent opens no new session"]
    if now["instance"]:
        yield [
            "instance",
            f"{now['instance']} {_state(now)}, used by {columns.counted(len(now['callers']), 'agent')}",
        ]
    if now["binding"] != told["binding"]:
        by = f" ({_shown(now)})" if now["file"] else ""
        kept = f"binding/{now['binding']}{by}" if now["binding"] else "nothing"
        yield ["in force", f"{kept}, not what the files say now"]
    elif now["earlier"] and now["binding"]:
        yield ["in force", f"binding/{now['binding']}, by an earlier form or instance"]
    for why in now["why"]:
        yield ["because", why]


def _shown(place: Json) -> str:
    at = f"{place['file']}:{place['line']}:{place['column']}" if place.get("line") else str(place.get("file"))
    return f"{at} {place.get('field')}"
