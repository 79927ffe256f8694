"""``handler doctor``: what this machine offers to a configuration, what is missing, and how to mend it.

It looks, it changes nothing that lasts: the walls are tried with the very sandbox that connectors get, and
programs are looked for where the sandbox looks for them. A row that stands is green, one that keeps something
from working is red, one that only narrows something is yellow; what nothing here needs is grey.
"""

import asyncio
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from reconciler import __version__
from reconciler.admission import connectors
from reconciler.attempts.ledger import SKEW_S
from reconciler.attempts.store import UnbegunError
from reconciler.control import folders, lock
from reconciler.control.ledgers import Ledgers
from reconciler.doors import columns, machine, offline, usage
from reconciler.doors.machine import Finding
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Agent, Connector
from reconciler.router import beneath
from reconciler.runtime import environments, host, walls
from reconciler.runtime.limits import Limits

_OLDEST = (3, 11)
_WATCHES = 8_192  # a configuration of 1,000 objects has some 2,000 folders; editors want as many again
_INSTANCES = 64
_SOCKET_PATH = 107
_LONGEST = len("/s/0123456789ab/") + 20 + len(".sock")
_LOCK = "requirements.lock"
_GIT_S = 5.0
_CONTROLLER = "controller"
_MARKS = {
    "stands": ("✓", "green"), "narrow": ("!", "yellow"), "missing": ("✗", "red"), "unneeded": ("-", "grey")
}  # fmt: skip


def run(settings: usage.Settings) -> int:
    """Look at everything and say it; 0 when nothing is missing, else 1."""
    named = bool(settings.config or os.environ.get("HANDLER_CONFIG"))
    findings = list(findings_of(folders.configuration(settings.config), named=named))
    if settings.output == "json":
        sys.stdout.write(json.dumps([asdict(one) for one in findings], indent=2, ensure_ascii=False) + "\n")
    else:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(_text(findings, paint))
    return 1 if any(one.state == "missing" for one in findings) else 0


def findings_of(config: Path, *, named: bool = True) -> Iterator[Finding]:
    """Everything that is looked at, in the order of the road that a call takes. A configuration that nobody
    named may be elsewhere.
    """
    yield _python()
    yield _git()
    yield from _folders(config, named=named)
    yield from _watching()
    yield from _walls()
    yield _files()
    yield from _ledger(config)
    yield from _engines(config)


def _ledger(config: Path) -> Iterator[Finding]:
    """Whether what is kept of calls with effects can be written: to the file, or the database that the
    settings name.
    """
    ledgers = Ledgers(folders.state(config), config)
    try:
        shared = ledgers.shared()
        where = shared.where if shared is not None else str(ledgers.file)
        told = ledgers.remembered() or where
        try:
            found = ledgers.read()
        except UnbegunError:
            yield Finding("ledger", "stands", f"{where}, empty so far")
            return
        if found is None:
            return  # a file that the first effect makes
        try:
            sealed, skew_s = found.store.sealed(), abs(found.store.skew_s())
        finally:
            found.close()
    except OSError as fault:
        sealed, skew_s = str(fault), 0.0
    if sealed:
        yield Finding(
            "ledger", "missing", f"calls with effects are refused: {sealed}", "see docs/attempts.md"
        )
    elif skew_s >= SKEW_S:
        told = (
            f"{where}: this machine's clock is {skew_s:.0f} s off, so nothing of other machines is taken over"
        )
        yield Finding("ledger", "narrow", told, "set the clocks by NTP")
    else:
        yield Finding("ledger", "stands" if told == where else "narrow", told)


def _text(findings: list[Finding], paint: columns.Paint) -> str:
    rows, colours = [], []
    for one in findings:
        mark, colour = _MARKS[one.state]
        rows.append([mark, one.thing, one.told])
        colours.append([colour, "", ""])
        if one.mend:
            rows.append(["", "", f"mend  {one.mend}"])
            colours.append(["", "", "grey"])
    return columns.table(rows, paint, colours) + paint(_verdict(findings), "bold") + "\n"


def _verdict(findings: list[Finding]) -> str:
    """The last line: what is missing, and what works with less than it could."""
    missing, narrow = (
        [one.thing for one in findings if one.state == state] for state in ("missing", "narrow")
    )
    if not missing and not narrow:
        return "Nothing is missing."
    first = f"Missing: {', '.join(missing)}." if missing else ""
    idle = "No controller runs." if _CONTROLLER in narrow else ""
    weaker = ", ".join(thing for thing in narrow if thing != _CONTROLLER)
    return " ".join(filter(None, (first, idle, weaker and f"Weaker than it could be, marked !: {weaker}.")))


def _python() -> Finding:
    told = f"{platform.python_version()} at {sys.executable}, handler {__version__}"
    if sys.version_info >= _OLDEST:
        return Finding("python", "stands", told)
    return Finding("python", "missing", told, "install Python 3.11 or newer")


def _git() -> Finding:
    try:
        told = subprocess.run(
            ["git", "--version"],  # noqa: S607 - the git that a person's PATH gives
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return Finding("git", "narrow", "not found: revisions are told by digest alone", "install git")
    return Finding("git", "stands", told.stdout.strip())


def _folders(config: Path, *, named: bool = True) -> Iterator[Finding]:
    if (config / "handler.toml").is_file() or any(
        (config / name).is_dir() for name in ("agents", "bindings")
    ):
        yield Finding("configuration", "stands", str(config))
    elif not named:
        told = f"none here, none named, and nothing at {config}"
        yield Finding("configuration", "unneeded", told, "name yours with -c DIR, or 'handler init DIR'")
    else:
        yield Finding("configuration", "missing", f"nothing at {config}", f"handler init {config}")
    state, run = folders.state(config), folders.run(config)
    yield _place("state folder", state)
    room = _SOCKET_PATH - _LONGEST
    if len(os.fsencode(run)) > room:
        told = f"{run} is longer than the {room} bytes that Unix sockets leave"
        yield Finding("run folder", "missing", told, "set HANDLER_RUN to a shorter path")
    else:
        found = _place("run folder", run)
        elsewhere = "set HANDLER_RUN (or XDG_RUNTIME_DIR) to a folder that is yours"
        yield replace(found, mend=elsewhere) if found.state == "missing" else found
    owner = lock.owner(state)
    if owner:
        yield Finding(_CONTROLLER, "stands", f"pid {owner.pid}")
    else:
        yield Finding(_CONTROLLER, "narrow", "none runs", f"handlerd -c {config}")
    yield _shipped()


def _place(thing: str, folder: Path) -> Finding:
    """Whether a folder of ours is there, or can be made, and is ours alone."""
    if folder.is_dir():
        found = folder.stat()
        if found.st_uid != os.geteuid():
            return Finding(thing, "missing", f"{folder} belongs to uid {found.st_uid}", f"remove {folder}")
        if found.st_mode & 0o077:
            return Finding(thing, "narrow", f"{folder} is open to others", f"chmod 700 {folder}")
        return Finding(thing, "stands", str(folder))
    above = next(parent for parent in folder.parents if parent.is_dir())
    if os.access(above, os.W_OK):
        return Finding(thing, "stands", f"{folder} (made with the first start)")
    return Finding(thing, "missing", f"cannot make {folder}", f"make {above} writable for you")


def _shipped() -> Finding:
    found = folders.catalog()
    if (found / "interfaces").is_dir():
        return Finding("catalogue", "stands", str(found))
    return Finding("catalogue", "missing", f"nothing at {found}", "install handler-reconciler anew")


def _watching() -> Iterator[Finding]:
    for name, least in (("max_user_watches", _WATCHES), ("max_user_instances", _INSTANCES)):
        try:
            value = int(Path("/proc/sys/fs/inotify", name).read_text())
        except (OSError, ValueError):
            yield Finding(
                f"inotify {name}", "narrow", "cannot be read: edits are seen by the timed scan alone"
            )
            continue
        if value >= least:
            yield Finding(f"inotify {name}", "stands", str(value))
        else:
            told = f"{value} is few: beyond it, only the timed scan sees edits"
            yield Finding(f"inotify {name}", "narrow", told, f"sysctl fs.inotify.{name}={least}")


def _walls() -> Iterator[Finding]:
    """Each wall around a connector, tried out; a missing one means that no connector starts."""
    folder = Path(tempfile.mkdtemp(prefix="handler-doctor-"))
    limits = Limits(f"doctor-{os.getpid()}")
    yield machine.groups(limits)
    yield machine.namespaces()
    try:
        found = asyncio.run(walls.probe(folder, limits))
    except walls.SandboxUnavailable as fault:
        yield Finding("sandbox", "missing", "no connector starts without it", str(fault))
        return
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        limits.close()
    for wall, how in found.standing.items():
        bound = wall in walls.TOLD and not how.startswith("cgroup")
        yield Finding(f"wall: {wall}", "narrow" if bound else "stands", how)


def _files() -> Finding:
    """Whether what agents name can be opened by the one road that no link leads out of."""
    words = beneath.missing()
    if words is None:
        return Finding("files", "stands", "openat2: nothing outside of a scope is opened")
    mend = "use Linux 5.6 or newer, or a container runtime whose seccomp profile lets openat2 through"
    return Finding("files", "missing", words, mend)


def _engines(config: Path) -> Iterator[Finding]:
    """What agents, and the connectors that bindings name, need of this machine."""
    try:
        admission = offline.look(config).admission
    except usage.Stopped:
        yield from machine.programs(())
        return
    for ref, resource in sorted(admission.in_force.items()):
        if isinstance(resource.spec, Agent):
            yield from _scope(ref, resource.spec)
    used = {
        getattr(resource.spec, "connector", None)
        for ref, resource in admission.in_force.items()
        if ref.kind is Kind.BINDING
    }
    named = [(name, admission.inventory.connector(name)) for name in sorted(filter(None, used))]
    yield from machine.programs({connectors.runtime(one) or "" for _, one in named if one is not None})
    for name, connector in named:
        if connector is not None:
            yield from _needs(name, connector.spec, connectors.runtime(connector))
            if (lock := connector.files.get(_LOCK)) is not None:
                yield _packages(name, lock, config)


def _scope(ref: ObjectRef, agent: Agent) -> Iterator[Finding]:
    """The folders of an agent's scope that are not there: nothing can be read from them or put there."""
    for entry in agent.scope:
        written = entry if isinstance(entry, str) else entry.path
        folder = Path(written).expanduser()
        if folder.is_dir():
            continue
        what = "is no folder" if folder.exists() else "does not exist"
        plain = written.removeprefix("~")
        typed = written if shlex.quote(plain) == plain else shlex.quote(str(folder))
        mend = f"move {typed} away" if folder.exists() else f"mkdir -p {typed}"
        yield Finding(str(ref), "missing", f"{written} of its scope {what}", mend)


def _packages(name: str, lock: bytes, config: Path) -> Finding:
    """Whether what a connector's requirements.lock lists is installed, and where it comes from."""
    thing = f"packages of connector/{name}"
    digest = hashlib.sha256(lock).hexdigest()
    if environments.place_of(folders.state(config) / "envs", digest).is_dir():
        return Finding(thing, "stands", "built (from the index that your pip is set up for)")
    try:
        environments.installer(config, config)
    except environments.NotBuiltError as fault:
        return Finding(thing, "missing", str(fault), "install pip or uv for this Python")
    told = "not built yet: the controller fetches them from the index that your pip is set up for"
    return Finding(thing, "narrow", told, f"handlerd -c {config}")


def _needs(name: str, connector: Connector, runtime: str | None) -> Iterator[Finding]:
    own = machine.lacking(runtime)
    lacking = [own] if own else []
    for program in connector.sandbox.programs:
        try:
            host.program(program)
        except host.Missing:
            lacking.append(program)
    for path in connector.sandbox.read:
        if not Path(path).exists():
            lacking.append(path)
    if not lacking:
        more = f"needs no more than runtime {runtime} does"
        plain = more if runtime in ("deno", "image") else "needs nothing of this machine"
        told = ", ".join(connector.sandbox.programs) or plain
        yield Finding(f"connector/{name}", "stands", told)
        return
    provisioning = folders.catalog() / "connectors" / name / "PROVISIONING.md"
    mend = f"see {provisioning}" if provisioning.is_file() else f"install what gives {lacking[0]}"
    yield Finding(f"connector/{name}", "missing", f"not on this machine: {', '.join(lacking)}", mend)
