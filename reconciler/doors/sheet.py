"""What ``describe`` shows of what an object's file says of itself, and of what is kept of it."""

import json

from reconciler.doors import columns, shadowed, standing, usage


def rows(document: dict[str, object], settings: usage.Settings) -> list[list[str]]:
    """What an object's file says of itself, and what is kept of it: two cells a row."""
    told = document.get("declared")
    told = told if isinstance(told, dict) else {}
    kind, name = str(document.get("kind")), str(document.get("name"))
    folders = [f"{one.get('path')} ({one.get('access')})" for one in columns.records(told.get("scope"))]
    values = told.get("settings")
    values = values if isinstance(values, dict) else {}
    found: list[tuple[str, object]] = [
        ("about", told.get("description")),
        ("project", told.get("project")),
        ("requires", ", ".join(map(str, _list_of(told.get("requires"))))),
        ("implements", ", ".join(map(str, _list_of(told.get("implements"))))),
        ("scope", ", ".join(folders)),
        ("harness", told.get("harness")),
        ("connector", told.get("connector")),
        ("shadow", shadowed.told(settings.config, name, told.get("shadow"))),
        ("settings", ", ".join(f"{key} = {json.dumps(values[key], ensure_ascii=False)}" for key in values)),
    ]
    if kind == "agent":
        count = len(standing.sessions(settings.config, agent=name))
        found.append(("sessions", f"{count} open" if count else "none is open"))
    if kind == "binding":
        written = bool(standing.log_lines(path := standing.log_path(settings.config, name), 1))
        found.append(("log", usage.path_shown(path) + ("" if written else " (nothing is written yet)")))
        if isinstance(hosts := told.get("egress"), list):
            found.append(("leaves", _leaves(settings, hosts)))
        found.append(("jobs", columns.jobs(document.get("jobs"))))
    return [[word, str(value)] for word, value in found if value]


def _leaves(settings: usage.Settings, hosts: list[object]) -> str:
    """The hosts that a binding's connector reaches, and what rules it; "" where it lists none."""
    if not hosts:
        return ""
    try:
        standing.document(settings.config, "policy", "egress")
    except usage.Stopped:
        ruled = "no policy rules what (docs/egress.md): `handler new policy egress`"
    else:
        ruled = "as policy/egress rules"
    return f"to {', '.join(map(str, hosts))}; {ruled}"


def _list_of(value: object) -> list[object]:
    return value if isinstance(value, list) else []
