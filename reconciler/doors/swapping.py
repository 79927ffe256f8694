"""``handler swap``: the suite asked of the binding that an agent has and of the one it is to get; the edit.

The new one must pass every case; the old one is asked for comparison, and one that fails is no reason to keep
it. The version of the interface stays: other tools are another thing than another engine, and ``rebind``'s.
Nothing is saved before the last case is judged, nor if the new binding changed meanwhile.
"""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from reconciler.admission.admit import Admission, Selected
from reconciler.conformance import cases
from reconciler.conformance import evidence as law
from reconciler.conformance.cases import Case, Outcome
from reconciler.control import examining, folders
from reconciler.control.examining import Exam, Ground
from reconciler.doors import columns, editing, offline, rebinding, usage
from reconciler.doors.usage import Settings
from reconciler.model.names import InstanceName, Kind, ObjectRef

SKIPPED = 77
_NO_SECRET = ("SecretUnresolved", "SecretTimeout")
_OWN_FAULT = ("", "StartTimeout", "OutOfMemory", "CrashLoop")  # the cases then say so, one by one
_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("-", "yellow")}
_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    agent: str
    interface: str
    binding: str
    check: bool
    live: bool
    dry: bool


@dataclass
class Side:
    """One of the two bindings: what it is, and how each case ended."""

    binding: str
    exam: Exam | None = None
    why: str = ""  # it was not asked
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def reaches(self) -> tuple[str, ...]:
        return self.exam.recipe.egress if self.exam else ()

    @property
    def passed(self) -> int:
        return sum(one["verdict"] == "passed" for one in self.results.values())

    def total(self, key: str) -> float:
        """Seconds or bytes of all cases together."""
        return float(sum(one[key] for one in self.results.values()))

    def told(self) -> dict[str, Any]:
        """The side as JSON values."""
        recipe = self.exam.recipe if self.exam else None
        return {
            "binding": self.binding or None,
            "connector": recipe.connector if recipe else None,
            "instance": str(recipe.name) if recipe else None,
            "egress": list(self.reaches),
            "notAsked": self.why or None,
            "passed": self.passed,
            "seconds": round(self.total("seconds"), 3),
            "bytes": int(self.total("bytes")),
        }


def run(settings: Settings, wish: Wish) -> int:
    """Compare, tell, and save; the exit code. Raises ``usage.Stopped`` where nothing can be compared."""
    if not wish.check:
        if wish.live or wish.dry:
            raise usage.Usage("--live and --dry-run are about the suite: they need --check")
        return rebinding.run(settings, wish.agent, wish.interface, wish.binding)
    look = offline.look(folders.configuration(settings.config))
    edit = rebinding.edit(look, wish.agent, wish.interface, wish.binding)
    if edit.after is None:
        sys.stderr.write(f"{edit.file} selects {wish.binding} for {wish.interface} already.\n")
        return 0
    if not editing.is_admitted(settings, look, edit.file, edit.after, about=edit.about):
        return 1
    changed = look.with_file(edit.file, edit.after)
    before = _selected(look.admission, wish)
    after = _selected(changed.admission, wish)
    if after is None:
        raise usage.Stopped(f"agent '{wish.agent}' does not get '{wish.interface}' by this edit")
    if before and before.interface != after.interface:
        raise usage.Stopped(
            f"{wish.agent} has {before.interface} and would get {after.interface}, whose tools are others: "
            f"keep the version, or use 'handler rebind {wish.agent} {wish.interface} {wish.binding}'"
        )
    version = str(after.interface)
    old = _side(look.admission, before.binding if before else "", version, wish)
    new = _side(look.admission, wish.binding, version, wish)
    return _asked(settings, wish, edit, _Compared(look, version, old, new))


def _selected(admission: Admission, wish: Wish) -> Selected | None:
    for one in admission.selections.get(wish.agent, ()):
        if one.interface.name == wish.interface:
            return one
    return None


def _side(admission: Admission, binding: str, version: str, wish: Wish) -> Side:
    """What there is to ask of one binding, or why it is not asked."""
    if not binding:
        return Side("", why="nothing is bound")
    if ObjectRef(Kind.BINDING, binding) not in admission.in_force:
        return Side(binding, why="it is not in force")
    try:
        exam = _of_version(examining.exam(admission, binding), version)
    except examining.Unfit as unfit:
        return Side(binding, why=str(unfit))
    if law.reaches_out(exam.recipe) and not wish.live:
        reached = ", ".join(exam.recipe.egress)
        return Side(
            binding, exam, f"it reaches {reached}: with --live the fixtures of its cases are sent there"
        )
    return Side(binding, exam)


def _of_version(exam: Exam, version: str) -> Exam:
    suites = tuple(suite for suite in exam.suites if str(suite.contract.interface) == version)
    return replace(exam, suites=suites)


# asking


@dataclass(frozen=True, slots=True)
class _Compared:
    """Two bindings of one interface version, in one reading of the configuration."""

    look: offline.Look
    version: str
    old: Side
    new: Side


def _asked(settings: Settings, wish: Wish, edit: rebinding.Edit, both: _Compared) -> int:
    """Ask the two, unless the new one cannot be asked; the exit code."""
    if not both.new.why:
        _ask(both.look, settings, (both.old, both.new))
    if why := _not_asked(both.new):
        sys.stderr.write(f"handler: not compared, and nothing saved: {wish.binding}: {why}\n")
        return SKIPPED
    return _ended(settings, wish, edit, both)


def _not_asked(side: Side) -> str:
    """Why a side was not asked: known beforehand, or since it was tried."""
    return side.why


def _ask(look: offline.Look, settings: Settings, sides: tuple[Side, Side]) -> None:
    """Ask the two, one after the other; whoever is told to end leaves no more behind than with Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        anyio.run(_ask_both, look, settings, sides, backend="asyncio", backend_options={"use_uvloop": True})
    finally:
        signal.signal(signal.SIGTERM, before)


async def _ask_both(look: offline.Look, settings: Settings, sides: tuple[Side, Side]) -> None:
    ground = Ground(look.root, folders.state(look.root) / "envs")
    for side in reversed(sides):  # where the new one cannot run, the other need not
        if not side.why and side.exam is not None and not _not_asked(sides[1]):
            await _ask_one(side, side.exam, ground, _Listener(side, settings))


async def _ask_one(side: Side, exam: Exam, ground: Ground, listener: "_Listener") -> None:
    async with examining.standing(exam, ground, listener) as bench:
        listener.step("starting")
        refusal = await bench.start()
        if refusal is not None and refusal.reason not in _OWN_FAULT:
            words = refusal.diagnostic or refusal.code
            side.why = words if refusal.reason in _NO_SECRET else f"it does not start: {words}"
            return
        for suite in exam.suites:
            wanted = []
            for case in suite.cases:
                if case.tier == "certification":
                    continue
                if why := examining.unasked(suite, case):
                    listener.note(case, "skipped", (why,))
                else:
                    wanted.append(case)
            await bench.ask_all(suite, tuple(wanted), listener)
    listener.clear()


class _Listener:
    """Keeps how the cases of one side ended; on a terminal tells the one under way."""

    def __init__(self, side: Side, settings: Settings) -> None:
        self._side = side
        self._live = sys.stderr.isatty() and not settings.quiet
        self._said = settings.quiet

    def step(self, words: str) -> None:
        """Something takes its time."""
        if self._live:
            sys.stderr.write(f"\r\x1b[K{columns.shown(f'{self._side.binding}: {words}')[:100]}")
            sys.stderr.flush()
        elif words.startswith("its packages") and not self._said:
            self._said = True
            sys.stderr.write(f"{columns.shown(f'{self._side.binding}: {words}')}\n")

    def begins(self, version: str, case: Case) -> None:
        self.step(f"{version}: {case.name} …")

    def ended(self, version: str, case: Case, outcome: Outcome, faults: tuple[str, ...]) -> None:
        """One case was asked."""
        self.note(case, "failed" if faults else "passed", faults)
        told = self._side.results[case.name]
        told["seconds"], told["bytes"] = round(outcome.seconds, 3), cases.size(outcome)

    def note(self, case: Case, verdict: str, faults: tuple[str, ...]) -> None:
        """How one case ended."""
        told = {"verdict": verdict, "seconds": 0.0, "bytes": 0, "faults": list(faults)}
        self._side.results[case.name] = told

    def clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")


# telling


def _ended(settings: Settings, wish: Wish, edit: rebinding.Edit, both: _Compared) -> int:
    """Tell how it went, and save where every case passed; the exit code."""
    new, ok = both.new, bool(both.new.results) and both.new.passed == len(both.new.results)
    _tell(settings, wish, both)
    if not ok:
        count = columns.counted(len(new.results) - new.passed, "case")
        sys.stderr.write(f"handler: {edit.file} is left as it was: {new.binding} did not pass {count}\n")
        return 1
    if wish.dry:
        return 0
    now = offline.look(both.look.root)
    if now.tree.files.get(edit.file) != edit.before:
        raise usage.Stopped(f"{edit.file} changed in the meantime and is left as it is: try again")
    if _instance(_side(now.admission, wish.binding, both.version, wish)) != _instance(new):
        raise usage.Stopped(f"binding '{wish.binding}' changed while it was examined: try again")
    if not editing.save(settings, now, edit.file, edit.after or edit.before, about=edit.about):
        return 1
    rebinding.say(settings, now, edit, wish.binding)
    return 0


def _instance(side: Side) -> InstanceName | None:
    return side.exam.recipe.name if side.exam else None


def _tell(settings: Settings, wish: Wish, both: _Compared) -> None:
    version, old, new = both.version, both.old, both.new
    if settings.output == "json":
        names = dict.fromkeys((*new.results, *old.results))
        table = [{"name": name, "old": old.results.get(name), "new": new.results.get(name)} for name in names]
        sides = {"old": old.told(), "new": new.told()}
        told = {"agent": wish.agent, "interface": version, **sides, "cases": table}
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        return
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    sys.stdout.write(f"{paint(columns.shown(f'{wish.agent}: {version}'), 'bold')}\n")
    rows, colours = _matrix(old, new)
    sys.stdout.write(columns.table(rows, paint, colours))
    for side, what in ((old, "now"), (new, "then")):
        for name, result in side.results.items():
            for fault in result["faults"]:
                sys.stdout.write(columns.shown(f"{what}, {name}: {fault}") + "\n")
    if old.why:
        sys.stdout.write(columns.shown(f"{old.binding or 'now'} was not asked: {old.why}") + "\n")
    sys.stdout.flush()


def _matrix(old: Side, new: Side) -> tuple[list[list[str]], list[list[str]]]:
    """Case by old and new, then what they come to, as rows with their colours."""
    rows = [["", f"{old.binding or _NOTHING} (now)", f"{new.binding} (then)"]]
    colours = [["", "bold", "bold"]]
    for name in dict.fromkeys((*new.results, *old.results)):
        cells, names = [name], [""]
        for side in (old, new):
            text, colour = _cell(side.results.get(name))
            cells.append(text)
            names.append(colour)
        rows.append(cells)
        colours.append(names)
    for title, tell in _SUMS:
        rows.append([title, *(tell(side) if side.results else "-" for side in (old, new))])
        colours.append(["grey", "", ""])
    rows.append(["reaches", *(", ".join(side.reaches) or _NOTHING for side in (old, new))])
    colours.append(["grey", "", ""])
    return rows, colours


def _cell(result: dict[str, Any] | None) -> tuple[str, str]:
    if result is None:
        return "-", "grey"
    mark, colour = _MARKS[result["verdict"]]
    size = f"  {_size(result['bytes'])}" if result["bytes"] else ""
    return f"{mark} {result['seconds']:.2f} s{size}", colour


def _size(count: float) -> str:
    return f"{count:.0f} B" if count < 1000 else f"{count / 1000:.1f} KB"


_SUMS: tuple[tuple[str, Callable[[Side], str]], ...] = (
    ("passed", lambda side: f"{side.passed} of {len(side.results)}"),
    ("time", lambda side: f"{side.total('seconds'):.2f} s"),
    ("answers", lambda side: _size(side.total("bytes"))),
)
