"""What a status file says of an object beside its truths: what its file declares, and what answers an agent.

Pure, and drawn from what was admitted and what serves; ``handler describe`` only lays it out. Secrets are
references in a binding, and not even those are told here. The line that selected a binding is looked up in
the text that was read, so that a person can go and edit it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reconciler.admission.admit import Admission
from reconciler.admission.selection import Selected
from reconciler.config import places
from reconciler.model.inventory import Layer
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path, key_path
from reconciler.model.resources import Agent, Binding, Connector, Project, Record
from reconciler.model.routes import AgentRoutes, RouteTable
from reconciler.plan import making

_PLACES = 4096  # selections whose place is remembered: each costs 0.1 ms, and all are told again and again


def declared(spec: Record, admission: Admission) -> dict[str, Any]:
    """What the form in force says of itself; what its kind does not have is null or empty."""
    told: dict[str, Any] = {
        "description": getattr(spec, "description", ""),
        "project": None,
        "requires": [],
        "scope": [],
        "harness": None,
        "connector": None,
        "settings": {},
        "egress": (),
        "implements": [],
    }
    match spec:
        case Agent():
            told |= {
                "project": spec.project,
                "requires": _required(spec, admission),
                "scope": [_folder(entry) for entry in spec.scope],
                "harness": spec.harness,
            }
        case Project():
            told["requires"] = list(spec.requires)
        case Binding():
            told |= {"connector": spec.connector, "settings": dict(spec.settings)}
            told["egress"] = making.hosts(spec, admission)
            if spec.shadow is not None:
                told["shadow"] = spec.shadow
        case Connector():
            told["implements"] = list(spec.implements)
        case _:
            pass  # the description says it
    return told


def services(admission: Admission, serving: RouteTable | None, agent: str) -> tuple[dict[str, Any], ...]:
    """For each interface of an agent: its binding, the key that selected it, and the instance that serves.

    ``serving`` is None where nothing runs; then no instance is named.
    """
    routes = serving.agents.get(agent) if serving else None
    chosen = admission.selections.get(agent, ())
    return tuple(_service(admission, routes, one) for first in chosen for one in first.each)


def _service(admission: Admission, routes: AgentRoutes | None, one: Selected) -> dict[str, Any]:
    first = routes.routes.get(one.interface.name) if routes else None
    each = first.each if first else ()
    route = next((found for found in each if found.binding == one.binding), first)
    data = admission.inventory.sources.get((Layer.CONFIG, one.file))
    line, column = _place(one.file, data, one.path) if data is not None else (0, 0)
    return {
        "interface": str(one.interface),
        "binding": one.binding,
        "instance": str(route.instance) if route and not route.vacant else None,
        "tools": list(one.tools) if one.tools is not None else None,
        "maxCalls": one.max_calls,
        "file": one.file,
        "line": line,
        "column": column,
        "field": key_path(one.path),
    }


def _required(spec: Agent, admission: Admission) -> list[str]:
    """What an agent must have: by its own file, and by its project's."""
    project = admission.in_force.get(ObjectRef(Kind.PROJECT, spec.project)) if spec.project else None
    shared = project.spec.requires if project and isinstance(project.spec, Project) else ()
    return sorted({*spec.requires, *shared})


def _folder(entry: object) -> Mapping[str, str]:
    return {"path": str(getattr(entry, "path", entry)), "access": str(getattr(entry, "access", "create"))}


@lru_cache(maxsize=_PLACES)
def _place(file: str, data: bytes, path: Path) -> tuple[int, int]:
    return places.at(file, data, path) or (0, 0)
