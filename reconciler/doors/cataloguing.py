"""``handler catalog``: what there is to choose from, of the catalogue and of one's own, and how it is proven.

A connector is listed once its newest whole evidence about the code and the suites of now says that every case
passed; the rest are candidates. All is read from files: nothing is started, asked or fetched.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from reconciler.config.evidence import Evidence
from reconciler.conformance import evidence as law
from reconciler.control import atomic, folders, proofs
from reconciler.doors import columns, offline, reviewing, usage
from reconciler.model.inventory import Layer, Resource
from reconciler.model.names import InterfaceRef, Kind, ObjectRef
from reconciler.model.resources import Connector, Interface, ToolMapping
from reconciler.plan import making

TIERS = ("certification", "conformance", "failed", "stale", "none")
_PASSED = TIERS[:2]
_COLOURS = {"certification": "green", "conformance": "green", "failed": "red", "stale": "yellow"}


@dataclass(frozen=True, slots=True)
class Wish:
    """Which connectors are asked for; "" and False ask for nothing."""

    word: str = ""
    interface: str = ""
    tier: str = ""
    runtime: str = ""
    egress: str = ""
    local: bool = False
    remote: bool = False
    candidates: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One connector as the catalogue tells of it."""

    name: str
    description: str
    implements: tuple[str, ...]
    runtime: str
    reaches: tuple[str, ...]  # hosts, and settings that name one
    own: bool  # of the configuration, not of what ships
    tier: str
    mode: str  # of the evidence: offline, live, or ""
    day: str
    bindings: tuple[str, ...]

    def told(self) -> dict[str, Any]:
        """The entry as JSON values."""
        return {
            "connector": self.name,
            "description": self.description,
            "implements": list(self.implements),
            "runtime": self.runtime,
            "reaches": list(self.reaches),
            "layer": "configuration" if self.own else "catalog",
            "tier": self.tier,
            "evidence": {"mode": self.mode, "day": self.day} if self.day else None,
            "bindings": list(self.bindings),
        }


def listed(settings: usage.Settings, wish: Wish) -> int:
    """List connectors, one line each; 0, also where there is none."""
    look = _look(settings)
    if wish.interface:
        _known_interface(look, wish.interface)
    whole = [one for one in entries(look) if _fits(one, wish)]
    shown = [one for one in whole if (one.tier in _PASSED) != wish.candidates or wish.tier or wish.word]
    if settings.output == "json":
        sys.stdout.write(json.dumps([one.told() for one in shown], indent=2, ensure_ascii=False) + "\n")
        return 0
    if settings.output == "name":
        sys.stdout.write("".join(f"connector/{one.name}\n" for one in shown))
        return 0
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    rows = [["CONNECTOR", "IMPLEMENTS", "RUNTIME", "REACHES", "PROVEN", "DAY", "BINDINGS"]]
    rows += [_row(one) for one in shown]
    colours = [[""] * 4 + [_COLOURS.get(one.tier, "grey")] for one in shown]
    if shown:
        sys.stdout.write(columns.table(rows, paint, [["bold"] * 7, *colours]))
        sys.stdout.flush()
    if not settings.quiet:
        _say(whole, shown, wish)
    return 0


def _row(one: Entry) -> list[str]:
    proven = f"{one.tier} ({one.mode})" if one.mode else one.tier
    reaches = ", ".join(one.reaches) or "nothing"
    bindings = ", ".join(one.bindings) or "-"
    return [
        one.name,
        ", ".join(one.implements) or "-",
        one.runtime,
        reaches,
        proven,
        one.day or "-",
        bindings,
    ]


def _say(whole: list[Entry], shown: list[Entry], wish: Wish) -> None:
    if not shown:
        sys.stderr.write("No connector is that.\n")
    left = len(whole) - len(shown)
    if left and not wish.candidates:
        few = columns.counted(left, "candidate")
        sys.stderr.write(f"{few} not proven here and now: --candidates lists them.\n")


def show(settings: usage.Settings, name: str) -> int:
    """Tell all of one interface version or connector. Raises ``usage.Usage`` where there is neither."""
    look = _look(settings)
    known = {one.name: one for one in entries(look)}
    found = look.admission.in_force.get(ObjectRef(Kind.INTERFACE, name)) if "/" in name else None
    if found is None and name not in known:
        near = usage.nearest(name, [*known, *look.admission.inventory.names(Kind.INTERFACE)])
        hint = f": did you mean '{near}'?" if near else "; 'handler catalog list' lists them"
        raise usage.Usage(f"there is no connector or interface '{name}'{hint}")
    if found is not None:
        fulfilling = [one for one in known.values() if name in one.implements]
        told = _interface(look, cast("Resource[Interface]", found), fulfilling)
    else:
        form = cast("Resource[Connector]", look.admission.in_force[ObjectRef(Kind.CONNECTOR, name)])
        told = _connector(form, known[name])
    if settings.output == "json":
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("".join(_text(told)))
    return 0


def _interface(look: offline.Look, form: Resource[Interface], by: Iterable[Entry]) -> dict[str, Any]:
    spec = form.spec
    contract = look.admission.contracts[InterfaceRef.parse(form.ref.name)]
    locked = look.admission.inventory.locks.get(form.layer)
    entry = locked.entries.get(form.ref.name) if locked else None
    return {
        "interface": form.ref.name,
        "description": spec.description,
        "published": f"{entry.published}, reviewed by {entry.reviewed_by}" if entry else "no: a draft",
        "tools": {name: f"effect {tool.effect}" for name, tool in contract.tools.items()},
        "errors": dict(spec.errors),
        "limits": spec.limits.model_dump(mode="json", by_alias=True),
        "connectors": {one.name: f"{one.tier}, reaches {_reached(one)}" for one in by},
    }


def _connector(form: Resource[Connector], one: Entry) -> dict[str, Any]:
    spec = form.spec
    pages = form.files.get("PROVISIONING.md", b"") or b""
    return {
        **one.told(),
        **({"runs": runs} if (runs := _runs(spec)) else {}),
        "tools": {name: _answered(name, mapped) for name, mapped in spec.tool.items()},
        "secrets": {slot: told.description or "" for slot, told in spec.secret_slots.items()},
        "settings": {key: told.description for key, told in spec.settings.items()},
        "programs": list(spec.sandbox.programs),
        "provisioning": pages.decode("utf-8", "replace"),
    }


def _runs(spec: Connector) -> str:
    """What is run, or spoken to; "" where its own code is all."""
    return " ".join(spec.command or ()) or spec.image or spec.url or spec.socket or ", ".join(spec.profiles)


def _answered(name: str, mapped: ToolMapping) -> str:
    """What of a wrapped server, or of a profile, answers a tool."""
    return f"operation {mapped.operation}" if mapped.operation else f"{mapped.from_ or name} of the server"


def _reached(one: Entry) -> str:
    return ", ".join(one.reaches) or "nothing"


def _text(told: dict[str, Any]) -> Iterator[str]:
    for key, value in told.items():
        if isinstance(value, dict):
            yield f"{key}:\n" if value else ""
            for name, text in value.items():
                yield columns.shown(f"  {name}: {text}") + "\n"
        elif key == "provisioning":
            yield "".join(f"{columns.shown(line)}\n" for line in ["", *str(value).splitlines()])
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            yield columns.shown(f"{key}: {shown if shown not in (None, '') else '-'}") + "\n"


# what there is


def _look(settings: usage.Settings) -> offline.Look:
    root = folders.configuration(settings.config)
    return offline.look(root) if root.is_dir() or settings.config else offline.catalogue(root)


def _known_interface(look: offline.Look, wanted: str) -> None:
    names = [ref.name for ref in look.admission.in_force if ref.kind is Kind.INTERFACE]
    if wanted not in names and wanted not in {name.partition("/")[0] for name in names}:
        near = usage.nearest(wanted, names)
        raise usage.Usage(f"there is no interface '{wanted}'" + (f": did you mean '{near}'?" if near else ""))


def entries(look: offline.Look) -> list[Entry]:
    """Every connector in force, by name."""
    state = folders.state(look.root)
    found = [
        _entry(look, state, cast("Resource[Connector]", form))
        for ref, form in look.admission.in_force.items()
        if ref.kind is Kind.CONNECTOR
    ]
    return sorted(found, key=lambda one: one.name)


def _entry(look: offline.Look, state: Path, form: Resource[Connector]) -> Entry:
    base, name = making.base(form, making.profiles_of(look.admission, form)), form.ref.name
    named = [
        f"settings.{key}" for key, one in form.spec.settings.items() if one.format not in (None, "folder")
    ]
    evidence = [*proofs.beside(look.trees, name), *proofs.kept(state, name)]
    tier, mode, day = _standing(look, form, base.code.digest, evidence)
    bindings = sorted(
        one.ref.name
        for one in look.admission.in_force.values()
        if one.ref.kind is Kind.BINDING and getattr(one.spec, "connector", "") == name
    )
    return Entry(
        name=name,
        description=form.spec.description,
        implements=tuple(map(str, form.spec.implements)),
        runtime=base.runtime,
        reaches=(*base.egress, *named),
        own=form.layer is Layer.CONFIG,
        tier=tier,
        mode=mode,
        day=day,
        bindings=tuple(bindings),
    )


def _standing(
    look: offline.Look, form: Resource[Connector], code: str, found: list[Evidence]
) -> tuple[str, str, str]:
    """What its evidence says of the code and the suites of now: tier, mode, day."""
    whole = [one for one in found if law.is_whole(one)]
    if not whole:
        return "none", "", ""
    suites = {
        version: law.suite_digest(look.admission.in_force[ref].files)
        for version in map(str, form.spec.implements)
        if (ref := ObjectRef(Kind.INTERFACE, version)) in look.admission.in_force
    }
    its_own = [
        one
        for one in whole
        if one.subject.connector_digest == f"sha256:{code}" and dict(one.subject.suites) == suites
    ]
    newest = max(its_own or whole, key=lambda one: one.finished)
    day = newest.finished[:10]
    if not its_own:
        return "stale", newest.mode, day
    if newest.tiers.conformance != "passed":
        return "failed", newest.mode, day
    return _PASSED[newest.tiers.certification != "passed"], newest.mode, day


def _fits(one: Entry, wish: Wish) -> bool:
    versions = {*one.implements, *(version.partition("/")[0] for version in one.implements)}
    text = " ".join((one.name, one.description, *one.implements, one.runtime, *one.reaches)).casefold()
    return (
        all(word in text for word in wish.word.casefold().split())
        and wish.interface in ("", *versions)
        and wish.tier in ("", one.tier)
        and wish.runtime in ("", one.runtime)
        and _reaches(one, wish.egress)
        and not (wish.local and one.reaches)
        and not (wish.remote and not one.reaches)
    )


def _reaches(one: Entry, wanted: str) -> bool:
    if wanted == "none":
        return not one.reaches
    return not wanted or any(wanted in (host, host.rpartition(":")[0]) for host in one.reaches)


# an interface of somebody else's


def take_interface(settings: usage.Settings, folder: Path, *, dry: bool) -> int:
    """Copy a version of somebody else's into the configuration, as a draft, and show what a model would read.

    0 it is there, 1 it is refused or hides something, so nothing is written. Raises ``usage.Stopped``.
    """
    from reconciler.doors import problems  # noqa: PLC0415 - where something is refused

    root = folders.configuration(settings.config)
    look = offline.look(root)
    files = _files(folder)
    ref = _version(files, folder)
    if any(path.startswith(f"interfaces/{ref}/") for path in look.tree.files):
        raise usage.Stopped(f"interfaces/{ref}/ is there already: a version is never written over")
    changed = look.with_files({f"interfaces/{ref}/{path}": data for path, data in files.items()})
    interface = changed.admission.inventory.interface(str(ref))
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    found = changed.admission.refused.get(ObjectRef(Kind.INTERFACE, str(ref)), ())
    if interface is not None:
        sys.stdout.write(reviewing.text(interface, reviewing.before(look.admission.inventory, ref), paint))
    if found or interface is None:
        sys.stdout.write(problems.text(found, changed.admission.inventory, paint))
        sys.stderr.write(f"handler: {ref} is refused, and nothing was written\n")
        return 1
    if not dry:
        for path, data in files.items():
            target = root / "interfaces" / str(ref) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(target, data)
            target.chmod(0o644)
        sys.stderr.write(f"interfaces/{ref}/ is a draft. Once you have read it: handler lock add {ref}\n")
    return 0


_LARGEST = 64 * 2**20


def _files(folder: Path) -> dict[str, bytes]:
    """The plain files of a folder; a link or anything else is refused, and so is what is too large."""
    found: dict[str, bytes] = {}
    room = _LARGEST
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise usage.Stopped(f"{usage.path_shown(str(path))} is no plain file: nothing was taken over")
        if path.is_file():
            room -= path.stat().st_size
            if room < 0:
                raise usage.Stopped(f"{usage.path_shown(str(folder))} holds more than {_LARGEST} bytes")
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def _version(files: dict[str, bytes], folder: Path) -> InterfaceRef:
    from reconciler.config import toml  # noqa: PLC0415 - an import alone needs it
    from reconciler.config.text import TextFault  # noqa: PLC0415 - as above

    shown = usage.path_shown(str(folder))
    values = toml.read(files.get("interface.toml", b""))
    if isinstance(values, TextFault):
        raise usage.Stopped(f"cannot read {shown}/interface.toml:{values.line}: {values.what}")
    try:
        return InterfaceRef.parse(f"{values['name']}/v{values['version']}")
    except (KeyError, ValueError):
        raise usage.Stopped(f"{shown} is no interface version: its interface.toml names none") from None
