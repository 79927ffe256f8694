"""``handler import``: a harness's MCP configuration becomes connectors, bindings and an agent.

What is read is only read, nothing is started or asked, and no file that is there is written over: where one
says something else than the import would, it is left as it is, and so is the rest of its server. What the
texts say is decided in ``harness``; here are places, links and what is told. A second import changes nothing.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import tomli

from reconciler.control import folders
from reconciler.doors import columns, foreign, newing, offline, usage
from reconciler.harness import formats, naming, registry, writing
from reconciler.harness.formats import Left, Server
from reconciler.model.inventory import Layer
from reconciler.model.names import Kind, name_fault


@dataclass(slots=True)
class _Report:
    """What became of everything that was found."""

    written: dict[str, str] = field(default_factory=dict)
    there: list[str] = field(default_factory=list)  # says the same already
    kept: list[str] = field(default_factory=list)  # is there and says something else
    left: list[Left] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)


def run(settings: usage.Settings, harness: str, path: str, options: tuple[str, bool]) -> int:
    """Import what a harness is configured with; ``options``: the agent's name, and whether to write nothing.

    0 all is there now, 1 a server was left out. Raises ``Usage`` and ``Stopped``.
    """
    agent, dry = options[0] or harness, options[1]
    if harness not in formats.HARNESSES:
        near = usage.nearest(harness, list(formats.HARNESSES))
        hint = f"did you mean '{near}'?" if near else f"it reads {', '.join(formats.HARNESSES)}"
        raise usage.Usage(f"'{columns.shown(harness)}' is no configuration that can be imported: {hint}")
    if fault := name_fault(agent):
        raise usage.Usage(f"'{columns.shown(agent)}' is no name for an agent: {fault}")
    look = offline.look(foreign.root(settings))
    report = _Report()
    _decide(look, harness, agent, (_found(harness, path, report), report))
    if not dry:
        foreign.write(look.root, report.written)
    _print(settings, report, dry=dry)
    foreign.refused(settings, look, report.written)
    return 1 if report.left else 0


def registered(settings: usage.Settings, path: str, way: str, *, dry: bool) -> int:
    """Take one server of the MCP registry in, from its ``server.json``: a candidate that nothing selects.

    0 all is there now, 1 it was left out. Raises ``Usage`` and ``Stopped``.
    """
    file = foreign.named(path)
    shown = usage.path_shown(str(file))
    with foreign.values(file, "server.json") as values:
        one = registry.server(values, way)
    look = offline.look(folders.configuration(settings.config))
    report = _Report()
    if isinstance(one, Left):
        report.left.append(one)
    else:
        _take_registered(look, one, shown, (registry.requirement(values), report))
    if not dry:
        foreign.write(look.root, report.written)
    _print(settings, report, dry=dry)
    foreign.refused(settings, look, report.written)
    return 1 if report.left else 0


def _take_registered(look: offline.Look, one: Server, shown: str, more: tuple[str, _Report]) -> None:
    requirement, report = more
    known = look.admission.inventory.resources.items()
    taken = {ref.name for ref, row in known if row.layer is Layer.CATALOG and ref.kind is Kind.CONNECTOR}
    name = naming.objects([one.name], taken)[one.name]
    made = writing.written(one, name, writing.Origin("the MCP registry", shown))
    if isinstance(made, Left):
        report.left.append(made)
    elif _take(look, made.files, report):
        report.todo += made.todo
        if requirement and one.command and one.command[0] != "npx":
            lock = f"connectors/{name}/requirements.lock"
            report.todo.append(
                f"{lock}: install {requirement} by hashes ('uv pip compile --generate-hashes')"
            )


# what is there to import


def _found(harness: str, path: str, report: _Report) -> list[tuple[Server, str]]:
    """The servers of every file, each name once: where a harness knows several files, the nearest counts."""
    files, folder = _files(harness, path)
    ranked: list[tuple[int, int, Server | Left, str]] = []
    for order, file in enumerate(files):
        for one in _read(harness, file, folder):
            rank = one.rank if isinstance(one, Server) else 1
            ranked.append((rank, order, one, usage.path_shown(str(file), anywhere=True)))
    known: dict[str, tuple[Server, str]] = {}
    seen: set[str] = set()
    for _, _, one, shown in sorted(ranked, key=lambda row: row[:2]):
        if one.name in seen:
            continue
        seen.add(one.name)
        if isinstance(one, Left):
            report.left.append(one)
        else:
            known[one.name] = one, shown
    if len(seen) > formats.MAX_SERVERS:
        raise usage.Stopped(
            f"there are more than {formats.MAX_SERVERS} MCP servers: import one file at a time"
        )
    return [known[name] for name in sorted(known)]


def _files(harness: str, path: str) -> tuple[list[Path], Path]:
    """The files to read and the project they are read for; raises ``Stopped`` when there is none."""
    given = Path(path).expanduser().absolute() if path else None
    if given is not None and not given.is_dir():
        if not os.path.lexists(given):
            raise usage.Stopped(f"there is nothing at {usage.path_shown(str(given))}")
        return [given], given.parent if given.parent.name not in (
            ".vscode",
            ".cursor",
        ) else given.parent.parent
    folder = given or Path.cwd()
    looked = _places(harness, folder, own=given is None)
    there = [file for file in looked if os.path.lexists(file)]
    if not there:
        names = ", ".join(usage.path_shown(str(file)) for file in looked)
        raise usage.Stopped(f"there is no configuration of {harness} here: looked for {names}; name its file")
    return there, folder


def _places(harness: str, folder: Path, *, own: bool) -> list[Path]:
    """Where a harness keeps its servers, nearest first; ``own`` also where it keeps the person's."""
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    near, far = {
        "claude": ([".mcp.json"], [home / ".claude.json"]),
        "codex": (
            [".codex/config.toml"],
            [Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml"],
        ),
        "vscode": ([".vscode/mcp.json"], [config / "Code/User/mcp.json"]),
        "cursor": ([".cursor/mcp.json"], [home / ".cursor/mcp.json"]),
        "opencode": (
            ["opencode.json", "opencode.jsonc"],
            [config / "opencode/opencode.json", config / "opencode/opencode.jsonc"],
        ),
        "gridctl": (["stack.yaml", "stack.yml"], []),
    }[harness]
    listed = [folder / name for name in near] + (far if own else [])
    return list(dict.fromkeys(listed))


def _read(harness: str, file: Path, folder: Path) -> list[Server | Left]:
    with foreign.values(file) as values:
        return formats.servers(harness, values, str(folder), str(Path.home()))


# what becomes of it


def _decide(
    look: offline.Look, harness: str, agent: str, found: tuple[list[tuple[Server, str]], _Report]
) -> None:
    """Fill the report: each server whole or not at all, then the agent."""
    servers, report = found
    known = look.admission.inventory.resources.items()
    taken = {ref.name for ref, one in known if one.layer is Layer.CATALOG and ref.kind is Kind.CONNECTOR}
    names = naming.objects((server.name for server, _ in servers), taken)
    bindings = []
    for server, shown in servers:
        one = writing.written(server, names[server.name], writing.Origin(harness, shown))
        if isinstance(one, Left):
            report.left.append(one)
            continue
        bindings.append(one.name)
        if _take(look, one.files, report):
            report.todo += one.todo
    origin = writing.Origin(harness, servers[0][1] if servers else "")
    if bindings:
        _take(look, writing.agent(agent, bindings, origin), report)


def _take(look: offline.Look, files: dict[str, str], report: _Report) -> bool:
    """Sort one object's files into the report; True when any of them is to be written."""
    state = {path: _standing(look, path, text) for path, text in files.items()}
    report.kept += [path for path, one in state.items() if one == "other"]
    report.there += [path for path, one in state.items() if one == "same"]
    if "other" in state.values():
        return False
    fresh = {path: newing.with_schema(look.root, path, files[path]) for path, one in state.items() if not one}
    report.written |= fresh
    return bool(fresh)


def _standing(look: offline.Look, path: str, text: str) -> str:
    """``same`` when the file says what the text says, ``other`` when something else stands there, or ""."""
    own = path.rpartition("/")[0] if path.count("/") > 1 else path
    for known in (*look.tree.files, *look.tree.faults):
        folded = known.casefold()
        if (folded == own or folded.startswith(f"{own}/")) and not (
            known == path or known.startswith(f"{own}/")
        ):
            return "other"
    there = look.tree.files.get(path)
    if there is not None:
        try:
            return "same" if tomli.loads(there.decode()) == tomli.loads(text) else "other"
        except ValueError:
            return "other"
    target = look.root / path
    return "other" if os.path.lexists(target) or (own != path and os.path.lexists(target.parent)) else ""


# what is told


def _print(settings: usage.Settings, report: _Report, *, dry: bool) -> None:
    if settings.output == "json":
        told = {
            "dryRun": dry,
            "written": sorted(report.written),
            "there": sorted(report.there),
            "kept": sorted(report.kept),
            "left": [{"server": one.name, "why": one.why} for one in report.left],
            "toDo": report.todo,
        }
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    elif dry:
        sys.stdout.write("\n".join(f"# {path}\n{text}" for path, text in report.written.items()))
    else:
        sys.stdout.write("".join(f"{path}\n" for path in report.written))
    sys.stdout.flush()
    for one in report.left:
        sys.stderr.write(f"left out: the server '{columns.shown(one.name[:80])}': {one.why}\n")
    for path in report.kept:
        sys.stderr.write(f"kept: {path} is there already and says something else: it was not touched\n")
    if not settings.quiet:
        _say(report, dry=dry)


def _say(report: _Report, *, dry: bool) -> None:
    """What is still to be done, and what comes next."""
    for one in report.todo:
        sys.stderr.write(f"to do: {one}\n")
    done = "would be written" if dry else "written"
    sys.stderr.write(
        f"{columns.counted(len(report.written), 'file')} {done}, {len(report.there)} there already. "
        "Nothing was started, asked or sent, and the source is as it was.\n"
    )
    if report.written:
        sys.stderr.write(
            "None of them runs before its connector's implements names an interface, with its tools mapped.\n"
        )
