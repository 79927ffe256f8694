"""``handler render``: what is derived for an agent, printed, compared, written into its harness's own file.

Everything is read from the configuration alone: no controller is asked and nothing is started. What the
texts are is decided in ``harness``, how they get to the disk in ``control.harnessfiles``.
"""

import difflib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.control import folders, harnessfiles, looking, skills
from reconciler.doors import columns, offline, outfit, problems, standing, usage
from reconciler.harness import plugin, wishes
from reconciler.harness.harnesses import HARNESSES, Harness, Service
from reconciler.harness.ledger import Ledger, User
from reconciler.harness.rendering import Skill
from reconciler.harness.wishes import Plan, Wish
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Agent
from reconciler.model.routes import AgentRoutes
from reconciler.plan import desired as planning

_FOLDERS_OF_SKILLS = (".agents/skills", ".claude/skills")
_CARRIED = ("HANDLER_RUN", "HANDLER_STATE")  # where a bridge looks, if not where it would by itself


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for: ``act`` is ``print``, ``write`` or ``remove``; ``dry``: only shown.

    ``way`` says what becomes of entries and files that a person wrote or changed.
    """

    agent: str
    harness: str
    into: str
    act: str
    dry: bool = False
    way: wishes.Way = "refuse"


@dataclass(frozen=True, slots=True)
class _Scene:
    """The configuration, whose services are rendered, and the project they are rendered into."""

    config: Path
    look: offline.Look
    agent: str
    project: Path


def run(settings: usage.Settings, asked: Asked) -> int:
    """Print, compare, write or remove; the exit code. Raises ``Usage`` and ``Stopped``."""
    if asked.harness and asked.harness not in HARNESSES:
        near = usage.nearest(asked.harness, list(HARNESSES))
        hint = f"did you mean '{near}'?" if near else f"it knows {', '.join(HARNESSES)}"
        raise usage.Usage(f"'{columns.shown(asked.harness)}' is no harness: {hint}")
    config = folders.configuration(settings.config)
    look = offline.look(config)
    project = Path(asked.into).expanduser().absolute() if asked.into else Path.cwd()
    if not project.is_dir():
        raise usage.Stopped(f"there is no folder {usage.path_shown(str(project))} to render into")
    scene = _Scene(config.absolute(), look, asked.agent or _only_agent(look), project)
    try:
        if asked.act == "print":
            return _print(settings, scene, asked)
        return _change(settings, scene, asked)
    except harnessfiles.Unfit as fault:
        raise usage.Stopped(str(fault)) from None


# what is derived


def _only_agent(look: offline.Look) -> str:
    names = sorted(ref.name for ref in look.admission.inventory.resources if ref.kind is Kind.AGENT)
    if len(names) == 1:
        return names[0]
    if not names:
        raise usage.Stopped("there is no agent to render for: 'handler new agent NAME' writes one")
    raise usage.Usage(f"there are several agents: name one of {', '.join(names)}")


def _routes(settings: usage.Settings, scene: _Scene) -> AgentRoutes:
    """The agent's routes as its files say; raises ``Stopped`` where it has none, with why."""
    admission = scene.look.admission
    desired = planning.desire(admission, generation=0, kit=looking.kit_digest(), home=str(Path.home()))
    routes = desired.table.agents.get(scene.agent)
    if routes is not None:
        return routes
    ref = ObjectRef(Kind.AGENT, scene.agent)
    known = sorted(one.name for one in admission.inventory.resources if one.kind is Kind.AGENT)
    why = desired.refusals.get(scene.agent) or admission.refused.get(ref, ())
    if why:
        paint = columns.Paint(settings.color, tty=sys.stderr.isatty())
        sys.stderr.write(problems.text(list(why), admission.inventory, paint) + "\n")
        raise usage.Stopped(f"agent '{scene.agent}' has no services to render")
    near = usage.nearest(scene.agent, known)
    hint = f"did you mean '{near}'?" if near else f"there are {', '.join(known) or 'none'}"
    raise usage.Usage(f"there is no agent '{columns.shown(scene.agent)}': {hint}")


def _harness(scene: _Scene, asked: Asked) -> Harness | None:
    """The harness that is asked for, else the agent's own; None where it names none."""
    if asked.harness:
        return HARNESSES[asked.harness]
    found = scene.look.admission.in_force.get(ObjectRef(Kind.AGENT, scene.agent))
    assert found is not None  # noqa: S101 - it has routes
    assert isinstance(found.spec, Agent)  # noqa: S101
    return HARNESSES.get(found.spec.harness)


def _services(scene: _Scene, routes: AgentRoutes) -> list[Service]:
    carried = {name: os.environ[name] for name in _CARRIED if os.environ.get(name)}
    where = ("--agent", scene.agent, "-c", str(scene.config))
    return [
        Service(name, (outfit.bridge(), name, *where), route.contract.spec.limits.timeout_seconds, carried)
        for name, route in routes.routes.items()
    ]


def _wish(scene: _Scene, row: Harness, routes: AgentRoutes) -> tuple[Wish, list[str]]:
    """What should be there for the agent's harness, and which of the files can be run."""
    user = User(scene.agent, row.word, str(scene.project.resolve()))
    services = _services(scene, routes)
    texts = skills.of(scene.config, [route.interface for route in routes.routes.values()])
    if row.whole:
        parts = plugin.files(scene.agent, services, texts)
        home = row.file.format(agent=scene.agent).rpartition("/")[0]
        placed = {
            str(harnessfiles.place(scene.project, f"{home}/{name}")): one for name, one in parts.items()
        }
        programs = [path for path in placed if path.endswith(plugin.PROGRAM)]
        return Wish(user, whole=placed), programs
    file = _file(scene, row)
    entries = {service.name: row.entry(service) for service in services}
    return Wish(user, str(file), entries, _skill_files(scene, texts)), []


def _file(scene: _Scene, row: Harness) -> Path:
    if row.file.startswith("~/"):
        return harnessfiles.place(Path.home(), row.file[2:])
    return harnessfiles.place(scene.project, row.file)


def _skill_files(scene: _Scene, texts: Sequence[Skill]) -> dict[str, bytes]:
    return {
        str(harnessfiles.place(scene.project, f"{folder}/{one.name}/SKILL.md")): one.text
        for folder in _FOLDERS_OF_SKILLS
        for one in texts
    }


# printing


def _print(settings: usage.Settings, scene: _Scene, asked: Asked) -> int:
    routes = _routes(settings, scene)
    row = _harness(scene, asked)
    told: dict[str, Any] = {
        "agent": scene.agent,
        "harness": row.word if row else "none",
        "instances": sorted({str(route.instance) for route in routes.every()}),
        "routes": [
            {
                "interface": str(route.interface),
                "binding": route.binding,
                "instance": str(route.instance),
                "tools": [tool["name"] for tool in _served(routes, name)],
                "suspended": route.suspended,
            }
            for name, first in routes.routes.items()
            for route in first.each
        ],
        "tools": {name: _served(routes, name) for name in routes.routes},
        "files": _files_told(scene, row, routes) if row else {},
    }
    if settings.output == "json":
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_text(told))
    if row is None and not settings.quiet:
        sys.stderr.write(
            f"agent '{scene.agent}' names no harness: write harness = \"claude-code\" in its file, or add "
            "--harness H to see its files\n"
        )
    if not settings.quiet:
        sys.stderr.write("".join(_served_otherwise(settings, routes)))
    return 0


def _served_otherwise(settings: usage.Settings, routes: AgentRoutes) -> Iterator[str]:
    """A line for each instance that a running controller has another one for: what is printed is of now."""
    try:
        seen = standing.read(settings.config)
    except usage.Stopped:
        return
    serving: dict[str, list[str]] = {}
    for one in seen.instances if seen.lives else ():
        serving.setdefault(str(one.get("binding")), []).append(str(one.get("name")))
    for route in routes.every():
        names = serving.get(route.binding, [])
        if names and str(route.instance) not in names:
            yield (
                f"{route.interface}: the controller serves it by {columns.shown(', '.join(names))} still: "
                "the configuration, or Handler itself, changed since it looked ('handler diff' tells of "
                "the first; for the second, restart handlerd)\n"
            )


def _served(routes: AgentRoutes, name: str) -> list[Mapping[str, Any]]:
    """The tools of one interface as the agent is shown them."""
    route = routes.routes[name]
    granted = route.contract.tools if route.tools is None else route.tools
    return [tool.definition for tool in route.contract.tools.values() if tool.name in granted]


def _files_told(scene: _Scene, row: Harness, routes: AgentRoutes) -> dict[str, str]:
    """What the files would be where there are none, by path as a person writes it."""
    wish, _ = _wish(scene, row, routes)
    plan = wishes.plan(Ledger(), wish, dict.fromkeys(wishes.touched(Ledger(), wish)))
    return {_shown(scene, one.path): (one.after or b"").decode() for one in plan.changes}


def _text(told: Mapping[str, Any]) -> str:
    parts = [f"# agent {told['agent']}, harness {told['harness']}\n"]
    for route in told["routes"]:
        closed = f"  closed: {route['suspended']}" if route["suspended"] else ""
        parts.append(f"{route['interface']} → {route['instance']}  ({', '.join(route['tools'])}){closed}\n")
    for name, tools in told["tools"].items():
        parts.append(
            f"\n# tools.json of {name} as served\n{json.dumps(tools, indent=2, ensure_ascii=False)}\n"
        )
    for path, text in told["files"].items():
        parts.append(f"\n# {path}\n{text}" + ("" if text.endswith("\n") else "\n"))
    return "".join(parts)


def _shown(scene: _Scene, path: str) -> str:
    root = f"{scene.project.resolve()}/"
    return path.removeprefix(root) if path.startswith(root) else usage.path_shown(path, anywhere=True)


# changing


def _change(settings: usage.Settings, scene: _Scene, asked: Asked) -> int:
    """Compare, write or remove: 0 done (or nothing to do), 1 refused (or, compared, something to do).

    Where anything is in the way nothing is done at all, of whatever harness.
    """
    state = folders.state(scene.config)
    programs: list[str] = []
    if asked.act == "remove":
        wished = _removals(scene, asked, harnessfiles.read(state))
    else:
        routes = _routes(settings, scene)
        row = _harness(scene, asked)
        if row is None:
            raise usage.Usage(
                f"agent '{scene.agent}' names no harness: add --harness H, or name it in its file"
            )
        wish, programs = _wish(scene, row, routes)
        wished = [wish]
    if asked.dry:
        ledger = harnessfiles.read(state)
        plan = _planned(ledger, wished, asked.way)
        shown = _planned(ledger, wished, "force") if plan.refusals else plan
        return _tell(settings, scene, asked, replace(shown, refusals=plan.refusals))
    with harnessfiles.remembered(state) as (ledger, remember):
        plan = _planned(ledger, wished, asked.way)
        if not plan.refusals:
            harnessfiles.done(plan, ledger, state, harnessfiles.Way(remember, programs))
    return _tell(settings, scene, asked, plan)


def _planned(ledger: Ledger, wished: Sequence[Wish], way: wishes.Way) -> Plan:
    paths = sorted({path for wish in wished for path in wishes.touched(ledger, wish)})
    found = {path: harnessfiles.data(Path(path)) for path in paths}
    return wishes.together(ledger, wished, found, way)


def _removals(scene: _Scene, asked: Asked, ledger: Ledger) -> list[Wish]:
    """A wish to remove for each harness that something of the agent was written for in this project."""
    project = str(scene.project.resolve())
    users = ledger.users(scene.agent, project)
    return [Wish(user) for user in users if asked.harness in ("", user.harness)]


def _tell(settings: usage.Settings, scene: _Scene, asked: Asked, plan: Plan) -> int:
    changes = plan.changes if asked.dry or not plan.refusals else ()
    changes = tuple(sorted(changes, key=lambda one: (one.path.endswith("/SKILL.md"), one.path)))
    refusals = plan.refusals
    if settings.output == "json":
        told = {
            "agent": scene.agent,
            "project": str(scene.project),
            "written": [one.path for one in changes if one.after is not None and not refusals],
            "removed": [one.path for one in changes if one.after is None and not refusals],
            "refused": [{"file": one.path, "why": one.why, "mend": one.mend} for one in refusals],
        }
        sys.stdout.write(json.dumps({"dryRun": asked.dry, **told}, indent=2) + "\n")
    elif asked.dry:
        sys.stdout.write("".join(_difference(scene, change) for change in changes))
    else:
        sys.stdout.write("".join(f"{_shown(scene, one.path)}\n" for one in changes))
    sys.stdout.flush()
    for one in refusals:
        sys.stderr.write(f"handler: {_shown(scene, one.path)}: {one.why}\n  mend  {one.mend}\n")
    if refusals:
        sys.stderr.write(_nothing_done(asked, len({one.path for one in refusals})))
    elif not settings.quiet:
        sys.stderr.write(_said(asked, changes) + "".join(_kept(scene, plan)))
    return 1 if refusals or (asked.dry and changes) else 0


def _kept(scene: _Scene, plan: Plan) -> Iterator[str]:
    """A line for each file of this project in which something is a person's, by that person's word."""
    for path, names in sorted(plan.ledger.kept.items()):
        if Path(path).is_relative_to(scene.project.resolve()):
            what = f"{', '.join(names)} in {_shown(scene, path)}" if names else _shown(scene, path)
            yield f"Left as it is, as --keep said once: {columns.shown(what)} (--force writes over it).\n"


def _nothing_done(asked: Asked, count: int) -> str:
    verb = "removed" if asked.act == "remove" else "written"
    are = "is" if count == 1 else "are"
    told = f"{columns.counted(count, 'file')} {are} in the way"
    if asked.dry:
        return f"Nothing would be {verb}: {told}. Shown is what --force would do.\n"
    return f"Nothing was {verb}: {told}.\n"


def _said(asked: Asked, changes: Sequence[wishes.Change]) -> str:
    if not changes:
        return "Nothing of it is here.\n" if asked.act == "remove" else "Everything is as it should be.\n"
    removed = sum(change.after is None for change in changes)
    written = len(changes) - removed
    will = "would be " if asked.dry else ""
    parts = [f"{columns.counted(written, 'file')} {will}written"] if written else []
    parts += [f"{columns.counted(removed, 'file')} {will}removed"] if removed else []
    return ", ".join(parts) + ".\n"


def _difference(scene: _Scene, change: wishes.Change) -> str:
    """A unified diff of one file; what cannot be shown as text is named."""
    name = _shown(scene, change.path)
    try:
        before, after = (
            (one or b"").decode().splitlines(keepends=True) for one in (change.before, change.after)
        )
    except UnicodeDecodeError:
        return f"# {name} would change, and is no text\n"
    old = "/dev/null" if change.before is None else f"a/{name}"
    new = "/dev/null" if change.after is None else f"b/{name}"
    lines = difflib.unified_diff(before, after, old, new)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
