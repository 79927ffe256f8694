"""``handler connector check``: every case of what a connector implements, told as it goes, and evidence.

What came back is a case's own payload, made of the suite's fixtures, so it may be shown to whoever runs the
check; evidence holds none of it.
"""

import json
import os
import platform
import re
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from reconciler import __version__
from reconciler.admission.admit import Admission
from reconciler.config.evidence import Evidence
from reconciler.conformance import cases
from reconciler.conformance import evidence as law
from reconciler.conformance.cases import Case, Outcome
from reconciler.control import certifying, examining, folders, proofs
from reconciler.control.caserun import Suite
from reconciler.control.certifying import Probe
from reconciler.control.examining import Bench, Exam, Ground
from reconciler.control.troubles import Trouble
from reconciler.doors import columns, junit, offline, problems, usage
from reconciler.doors.usage import Settings, Stopped
from reconciler.model.inventory import Layer
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Binding

SKIPPED = 77
_PLAIN = "handler-check"  # the binding that is made where none is named
_NO_SECRET = ("SecretUnresolved", "SecretTimeout")
_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("-", "yellow")}
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_SCALAR = re.compile(r"true|false|-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,15})?")
_WRAPPED = ("mcp", "remote")
_OWN_LIST = (
    "handler: of its server's own list of tools only the names that are mapped are looked for, at its start: "
    "schemas there, and what changes later, are found by the cases alone\n"
)
_CAME = 600  # characters of an answer that are shown


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    connector: str
    binding: str
    cases: tuple[str, ...]
    junit: str
    given: tuple[str, ...]  # settings, as KEY=VALUE
    models: tuple[str, ...]
    live: bool
    certify: bool
    record: bool
    effects: bool


class _Skipped(Exception):  # noqa: N818 - a verdict in words
    """It was not examined, and that is nobody's fault."""


def run(settings: Settings, wish: Wish) -> int:
    """Examine, tell, keep; the exit code. Raises ``Stopped`` where nothing can be examined."""
    if wish.binding and (wish.given or wish.models):
        raise usage.Usage(
            "--set and --model are for a connector without a binding: write it into the binding"
        )
    if wish.record and wish.cases:
        raise usage.Usage("--record keeps evidence of a whole check, and --case asks for a part of one")
    if wish.junit and not (place := Path(wish.junit).absolute().parent).is_dir():
        raise Stopped(f"--junit names a file in a folder that is not there: mkdir -p {place}")
    if wish.junit and Path(wish.junit).is_dir():
        raise Stopped(f"--junit names a folder, not a file: {wish.junit}")
    root = folders.configuration(settings.config)
    look = offline.look(root) if root.is_dir() or settings.config else offline.catalogue(root)
    try:
        look, name = _chosen(settings, look, wish)
        exam = _fit(look.admission, name, wish)
        report = _Report(settings, exam, wish)
        return _run(_Task(look, root, exam, wish, report))
    except _Skipped as why:
        sys.stderr.write(f"handler: skipped: {why}\n")
        if wish.junit:  # a CI job that shows the file would show that of another day
            Path(wish.junit).write_text(junit.skipped(wish.connector, str(why)), "utf-8")
        return SKIPPED


# what is examined


def _chosen(settings: Settings, look: offline.Look, wish: Wish) -> tuple[offline.Look, str]:
    """The binding to examine, and the look that holds it: the named one, the connector's defaults, or its
    only binding.
    """
    admission, ref = look.admission, ObjectRef(Kind.CONNECTOR, wish.connector)
    if wish.binding:
        form = admission.in_force.get(ObjectRef(Kind.BINDING, wish.binding))
        if form is None:
            raise Stopped(_why_not(settings, look, ObjectRef(Kind.BINDING, wish.binding)))
        if not isinstance(form.spec, Binding) or form.spec.connector != wish.connector:
            raise Stopped(f"binding '{wish.binding}' is not one of connector '{wish.connector}'")
        return look, wish.binding
    if ref not in admission.in_force:
        raise Stopped(_why_not(settings, look, ref))
    text = f'apiVersion = "handler.binding/v1"\nconnector = "{wish.connector}"\n{_settings(wish)}'
    plain = look.with_file(f"bindings/{_PLAIN}.toml", text.encode())
    made = ObjectRef(Kind.BINDING, _PLAIN)
    if made in plain.admission.in_force:
        return plain, _PLAIN
    users = sorted(
        one.ref.name
        for one in admission.in_force.values()
        if isinstance(one.spec, Binding) and one.spec.connector == wish.connector
    )
    if len(users) == 1 and not wish.given and not wish.models:
        return look, users[0]
    needs = "; ".join(problem.what for problem in plain.admission.refused.get(made, ()))
    mend = f"name one with --binding: {', '.join(users)}" if users else "write a binding, and name it"
    raise Stopped(f"connector '{wish.connector}' cannot be examined by itself: {needs}; {mend}")


def _settings(wish: Wish) -> str:
    """Settings and models as a binding has them; a value that is no number and no truth value is a text."""
    lines = [f"models = {json.dumps(list(wish.models))}\n"] if wish.models else []
    for one in wish.given:
        key, equals, value = one.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise usage.Usage(f"--set wants KEY=VALUE, not '{one}'")
        word = value if _SCALAR.fullmatch(value) else json.dumps(value)
        lines.append(f"settings.{key} = {word}\n")
    return "".join(lines)


def _why_not(settings: Settings, look: offline.Look, ref: ObjectRef) -> str:
    """Why something is not in force; its problems are printed."""
    if found := look.admission.refused.get(ref):
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(problems.text(found, look.admission.inventory, paint))
        return f"{ref} is refused, so it cannot be examined"
    known = [one.name for one in look.admission.in_force if one.kind is ref.kind]
    near = usage.nearest(ref.name, known)
    hint = f": did you mean '{near}'?" if near else f"; there is {', '.join(sorted(known)) or 'none'}"
    return f"there is no {ref.kind.value} '{ref.name}'{hint}"


def _fit(admission: Admission, binding: str, wish: Wish) -> Exam:
    try:
        exam = examining.exam(admission, binding)
    except examining.Unfit as why:
        raise Stopped(str(why)) from None
    names = {case.name for suite in exam.suites for case in suite.cases}
    for name in wish.cases:
        if name not in names:
            near = usage.nearest(name, sorted(names))
            raise Stopped(f"there is no case '{name}'" + (f": did you mean '{near}'?" if near else ""))
    if law.reaches_out(exam.recipe) and not wish.live:
        reached = ", ".join(exam.recipe.egress)
        raise _Skipped(f"it reaches {reached}: with --live the fixtures of its cases are sent there")
    return exam


# the examination


@dataclass(frozen=True, slots=True)
class _Task:
    look: offline.Look
    root: Path
    exam: Exam
    wish: Wish
    report: "_Report"


def _run(task: _Task) -> int:
    """Examine; told to end, as CI does and a terminal that closes, it leaves no more than with Ctrl-C."""
    ends = [end for end in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(end) != signal.SIG_IGN]
    before = [signal.signal(end, signal.default_int_handler) for end in ends]
    try:
        return anyio.run(_examine, task, backend="asyncio", backend_options={"use_uvloop": True})
    finally:
        for end, was in zip(ends, before, strict=True):
            signal.signal(end, was)


async def _examine(task: _Task) -> int:
    started = _instant()
    ground = Ground(task.root, folders.state(task.root) / "envs")
    if task.wish.effects:
        ground = replace(ground, ledger=folders.state(task.root))
        _tell_effects(task)
    async with examining.standing(task.exam, ground, task.report) as bench:
        if task.exam.recipe.runtime in _WRAPPED and not task.report.settings.quiet:
            sys.stderr.write(_OWN_LIST)
        await _start(task, bench)
        for suite in task.exam.suites:
            version, wanted = str(suite.contract.interface), []
            for case in suite.cases:
                if task.wish.cases and case.name not in task.wish.cases:
                    continue
                if case.tier == "certification" and not task.wish.certify:
                    continue
                if why := examining.unasked(suite, case, effects=task.wish.effects):
                    task.report.skipped(version, case, why)
                else:
                    wanted.append(case)
            await bench.ask_all(suite, tuple(wanted), task.report)
        if task.wish.certify and not task.wish.cases:
            await _certify(task, bench)
        walls, log = await bench.walls(), bench.log()
    evidence = law.sealed(_values(task, started, walls))
    return _told(task, evidence, log)


def _tell_effects(task: _Task) -> None:
    """Say what will be done for real, before it is done: nobody else can say what it costs."""
    found = Counter(
        (suite.contract.tools[case.tool].effect, case.tool)
        for suite in task.exam.suites
        for case in suite.cases
        if suite.contract.tools[case.tool].effect != "none"
        and (not task.wish.cases or case.name in task.wish.cases)
    )
    for (effect, tool), count in sorted(found.items()):
        where = (
            "in a folder of the check's own" if effect == "local" else "by the account that it is bound to"
        )
        cases_ = columns.counted(count, "case")
        sys.stderr.write(f"handler: {cases_} of {tool} with the effect '{effect}', for real, {where}\n")


async def _certify(task: _Task, bench: Bench) -> None:
    """Make trouble with the quickest case that was answered."""
    if task.exam.recipe.runtime in ("builtin", "dialect"):
        why = "it has no process and no connection of its own that could be broken"
        _no_trouble(task, why)
        return
    found = _that_passed(task)
    if not found:
        lack = "no case was answered" if task.wish.effects else "no case without an effect was answered"
        _no_trouble(task, f"{lack} that trouble could be made with")
        return
    seconds, suite, case = min(found, key=lambda one: (_effect(one) != "none", one[0]))
    if (effect := suite.contract.tools[case.tool].effect) != "none":
        lost = [one for one in Trouble if certifying.ends(one, effect) == (certifying.UNKNOWN,)]
        sys.stderr.write(
            f"handler: trouble is made with '{case.name}': {2 * len(Trouble)} more calls of {case.tool} with"
            f" the effect '{effect}', for real; nobody will know the outcome of {len(lost)}:"
            " handler jobs list\n"
        )
    await certifying.certify(bench, Probe(suite, case, seconds), task.report)


def _that_passed(task: _Task) -> list[tuple[float, Suite, Case]]:
    """The cases that were answered, and how long each took; a job is no single call that could be hit."""
    return [
        (seconds, suite, case)
        for suite in task.exam.suites
        for case in suite.cases
        if case.expect.error is None
        and suite.contract.tools[case.tool].kind == "call"
        and (seconds := task.report.passed_in(str(suite.contract.interface), case)) is not None
    ]


def _effect(one: tuple[float, Suite, Case]) -> str:
    return one[1].contract.tools[one[2].tool].effect


def _no_trouble(task: _Task, why: str) -> None:
    """Certification did not come to pass: it is told as skipped, and what is skipped never passes."""
    suite = task.exam.suites[0]
    case = Case("trouble", suite.cases[0].tool, {}, tier="certification")
    task.report.skipped(str(suite.contract.interface), case, why)


async def _start(task: _Task, bench: Bench) -> None:
    """Have it answer its first question. Raises ``_Skipped`` without a secret, ``Stopped`` where it cannot
    run here; a connector that fails by itself fails its cases.
    """
    task.report.step("starting")
    refusal = await bench.start()
    if refusal is None:
        return
    words = refusal.diagnostic or refusal.code
    if refusal.reason in _NO_SECRET:
        raise _Skipped(words)
    task.report.log(bench.log())
    if refusal.reason in ("", "StartTimeout", "OutOfMemory", "CrashLoop"):
        return  # its own code ran and was at fault: the cases say so, one by one
    raise Stopped(f"{task.exam.recipe.connector} does not start: {words}")


def _values(task: _Task, started: str, walls: dict[str, str]) -> dict[str, Any]:
    exam = task.exam
    about = law.subject(exam.recipe, exam.sources)
    binding = None if exam.recipe.binding == _PLAIN else exam.recipe.binding
    return {
        "subject": about.model_dump(by_alias=True),
        "binding": binding,
        "mode": "live" if law.reaches_out(exam.recipe) else "offline",
        "kit": f"sha256:{exam.recipe.kit}",
        "product": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{os.uname().machine}",
        "walls": walls,
        "started": started,
        "finished": _instant(),
        "results": [told.result for told in task.report.results],
    }


def _instant() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# what is told


@dataclass(slots=True)
class _Told:
    """One result as evidence has it, and what came back."""

    result: dict[str, Any]
    came: str


@dataclass
class _Report:
    """Tells of each case as it ends; on a terminal also of the one under way."""

    settings: Settings
    exam: Exam
    wish: Wish
    results: list[_Told] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._text = self.settings.output != "json"
        self._live = sys.stderr.isatty() and not self.settings.quiet
        self._paint = columns.Paint(self.settings.color, tty=sys.stdout.isatty())
        self._version = ""
        self._said = ""

    def step(self, words: str) -> None:
        """Something takes its time."""
        if self._live:
            sys.stderr.write(f"\r\x1b[K{columns.shown(words)[:100]}")
            sys.stderr.flush()
        elif words != self._said and words.startswith("its packages") and not self.settings.quiet:
            sys.stderr.write(f"{columns.shown(words)}\n")
        self._said = words

    def begins(self, version: str, case: Case) -> None:
        self.step(f"{version}: {case.name} …")

    def ended(self, version: str, case: Case, outcome: Outcome, faults: tuple[str, ...]) -> None:
        """One case was asked."""
        came = cases.shown(outcome, _CAME) if faults else ""
        self._note(version, case, "failed" if faults else "passed", (outcome.seconds, faults, came))

    def skipped(self, version: str, case: Case, why: str) -> None:
        """One case may not be asked."""
        self._note(version, case, "skipped", (0.0, (why,), ""))

    def passed_in(self, version: str, case: Case) -> float | None:
        """How long a case took that passed; None for another."""
        for told in self.results:
            result = told.result
            if (result["interface"], result["name"]) == (version, case.name):
                return float(result["seconds"]) if result["verdict"] == "passed" else None
        return None

    def log(self, text: str) -> None:
        """What the connector printed, where something went wrong."""
        if text and not self.settings.quiet:
            self._clear()
            lines = "".join(f"  {columns.shown(line)}\n" for line in text.splitlines()[-20:])
            sys.stderr.write(f"the last lines of its log:\n{lines}")

    def _note(self, version: str, case: Case, verdict: str, what: tuple[float, tuple[str, ...], str]) -> None:
        seconds, faults, came = what
        result = {
            "interface": version,
            "name": case.name,
            "tier": case.tier,
            "verdict": verdict,
            "seconds": round(seconds, 3),
            "faults": list(faults),
        }
        self.results.append(_Told(result, came))
        if self._text:
            self._clear()
            self._print(result, came)

    def _print(self, result: dict[str, Any], came: str) -> None:
        head = result["interface"]
        if result["tier"] == "certification":
            head = f"{head} certification"
        if head != self._version:
            self._version = head
            sys.stdout.write(f"{self._paint(self._version, 'bold')}\n")
        if self.settings.quiet and result["verdict"] == "passed":
            return
        mark, colour = _MARKS[result["verdict"]]
        name = columns.shown(result["name"])
        sys.stdout.write(f"  {self._paint(mark, colour)} {name}  {result['seconds']:.2f} s\n")
        for fault in result["faults"]:
            sys.stdout.write(f"      {columns.shown(fault)}\n")
        if came:
            sys.stdout.write(f"      came back: {columns.shown(came)}\n")
        sys.stdout.flush()

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _told(task: _Task, evidence: Evidence, log: str) -> int:
    """Keep the evidence, write what was asked for, and sum up; the exit code."""
    report, wish, settings = task.report, task.wish, task.report.settings
    ok = all(one.result["verdict"] == "passed" for one in report.results) and bool(report.results)
    if not ok:
        report.log(log)
    places = [] if wish.cases else _kept(task, evidence)
    if wish.junit:
        Path(wish.junit).write_text(junit.text(evidence, [one.came for one in report.results]), "utf-8")
    if settings.output == "json":
        came = [{"came": one.came} if one.came else {} for one in report.results]
        whole = json.loads(evidence.model_dump_json(by_alias=True))
        if wish.cases:  # a part of a check proves nothing
            del whole["tiers"], whole["fingerprint"]
        whole["results"] = [{**result, **more} for result, more in zip(whole["results"], came, strict=True)]
        sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    elif not settings.quiet:
        passed = sum(one.result["verdict"] == "passed" for one in report.results)
        took = sum(one.result["seconds"] for one in report.results)
        count = columns.counted(len(report.results), "case")
        skipped = sum(one.result["verdict"] == "skipped" for one in report.results)
        more = f", {skipped} could not be run" if skipped else ""
        sys.stdout.write(f"{wish.connector}: {passed} of {count} passed{more}, {took:.1f} s\n")
    if not settings.quiet:
        for place in places:
            sys.stderr.write(f"evidence: {usage.path_shown(str(place))}\n")
    return 0 if ok else 1


def _kept(task: _Task, evidence: Evidence) -> list[Path]:
    found = [proofs.keep(folders.state(task.root), evidence)]
    if task.wish.record:
        form = task.look.admission.in_force[ObjectRef(Kind.CONNECTOR, task.wish.connector)]
        layer = task.root if form.layer is Layer.CONFIG else folders.catalog()
        found.append(proofs.record(layer / form.file.rpartition("/")[0], evidence))
    return found
