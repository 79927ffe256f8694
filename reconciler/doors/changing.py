"""``diff`` and ``apply``: what would change, and making it so, through the controller or without one.

The controller decides when one runs; without it the same rooms decide here, under the same lock, and nothing
runs until ``handlerd`` does. Exit codes follow the table: diff 0 nothing, 1 something, 2 anything refused;
apply 0 applied, 1 something refused, 3 not ready in time.
"""

import json
import re
import sys
import time
from dataclasses import dataclass

from reconciler.control import folders, lock, once
from reconciler.doors import client, columns, lines, standing, tables, usage

_WAIT_S = 120.0
_NUMBER = re.compile(r"[0-9.]+")
_MANY = 6  # names in one line; the rest is counted
_TELL_S = 1.0  # how often the controller is asked what it waits for
_MARKS = {"add": ("+", "green"), "change": ("~", "yellow"), "remove": ("-", "red"), "refuse": ("✗", "red")}
_PLANNED = {"add": "to add", "change": "to change", "remove": "to remove", "refuse": "refused"}
_DONE = {"add": "added", "change": "changed", "remove": "removed", "refuse": "refused"}


@dataclass(frozen=True, slots=True)
class Wish:
    """What ``handler apply`` was asked for."""

    dry_run: bool = False
    wait: bool = False
    atomic: bool = False
    agreed: bool = False
    prune_all: bool = False  # what is gone from the files goes, however much it is


def diff(settings: usage.Settings, *, detailed: bool) -> int:
    """Print what an apply would change. ``detailed``: Terraform's exit codes (0 none, 1 error, 2 changes)."""
    report = _previewed(settings)
    _show(report, settings)
    refused, changed = _refuses(report), bool(_records(report, "changes"))
    if detailed:
        return 1 if refused else 2 if changed else 0
    return 2 if refused else 1 if changed else 0


def apply(settings: usage.Settings, wish: Wish) -> int:
    """Reconcile now; the exit code."""
    if wish.dry_run or wish.atomic or _asks(settings, wish):
        report = _previewed(settings, wish)
        refused = _refuses(report)
        if wish.dry_run or (wish.atomic and refused):
            _show(report, settings)
            if not wish.dry_run:
                sys.stderr.write("handler: nothing was applied, since something is refused (--atomic)\n")
            return 1 if refused else 0
        if _asks(settings, wish) and not _agreed(report, settings):
            return 1
    return _applied(settings, wish)


def _asks(settings: usage.Settings, wish: Wish) -> bool:
    return settings.ask and not wish.agreed and sys.stdin.isatty()


def _agreed(report: lines.Json, settings: usage.Settings) -> bool:
    """Ask before something that serves is stopped; True when nothing is, or the person agrees."""
    removed = [one for one in _records(report, "changes") if one.get("verb") == "remove"]
    if not removed:
        return True
    _show({**report, "problems": []}, settings)
    sys.stderr.write(f"Stop and remove {columns.counted(len(removed), 'object')}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    sys.stderr.write("handler: nothing was applied\n")
    return False


def _applied(settings: usage.Settings, wish: Wish) -> int:
    control: client.Client | None = client.Client(settings.config)
    try:
        report = client.Client(settings.config).ask(
            "apply", {"wait": False, "dryRun": False, **_pruning(wish)}
        )
    except client.NoController:
        report, control = _applied_here(settings, wish), None
    refused = _refuses(report)
    if wish.wait and not refused and control and not report.get("ready"):
        report["ready"] = _waited(control, settings, report)
    _show(report, settings)
    if refused:
        return 1
    if wish.wait and not report.get("ready"):
        sys.stderr.write(_late(report, settings))
        return 3
    if wish.wait and settings.output != "json" and not settings.quiet:
        sys.stderr.write(f"In force and serving: {tables.revision(str(report.get('revision')))}\n")
    return 0


def _applied_here(settings: usage.Settings, wish: Wish) -> lines.Json:
    """Apply without a controller; raises ``Stopped`` while one is starting or stopping."""
    try:
        report = once.apply(folders.configuration(settings.config), prune_all=wish.prune_all)
    except lock.Held as held:
        raise usage.Stopped(f"cannot apply: {held}, and it does not answer yet: try again") from None
    if not settings.quiet:
        sys.stderr.write("handler: no controller runs, so nothing runs until 'handlerd' does\n")
    return report


def _waited(control: client.Client, settings: usage.Settings, report: lines.Json) -> bool:
    """Wait until the newest routes serve, telling what is waited for; False when time is over, with what it
    was for in the report's ``waitsFor``.
    """
    until, told = time.monotonic() + (settings.timeout_s or _WAIT_S), ""
    while (left := until - time.monotonic()) > 0:
        found = control.ask("ready", {"timeoutSeconds": min(left, _TELL_S)})
        if found.get("ready"):
            return True
        waiting = found.get("waiting")
        waits = waiting if isinstance(waiting, dict) else {}
        report["waitsFor"] = waits
        if found.get("stuck"):
            return False  # what does not serve yet is known to be bad: nothing more happens by itself
        words = "; ".join(f"{name}: {why}" for name, why in waits.items())
        bare = _NUMBER.sub("", words)  # a countdown is no news
        if words and bare != told and not settings.quiet:
            sys.stderr.write(f"waiting for {columns.shown(words)}\n")
            sys.stderr.flush()
            told = bare
    return False


def _late(report: lines.Json, settings: usage.Settings) -> str:
    """What is said when the wait was in vain: what it was for, where to look, and that nothing was lost."""
    waits = report.get("waitsFor")
    waits = waits if isinstance(waits, dict) else {}
    names = list(waits) or tables.waiting(standing.read(settings.config)) or ["something"]
    limit = f"within {settings.timeout_s or _WAIT_S:g} s"
    text = f"handler: applied, but not ready {limit}: {columns.shown(', '.join(map(str, names)))}\n"
    for name, why in waits.items():
        binding = str(name).partition("/")[2]
        text += f"  {columns.shown(name)}: {columns.shown(why)}; see 'handler logs {binding}'\n"
    return text + "What served before keeps serving.\n"


def _previewed(settings: usage.Settings, wish: Wish | None = None) -> lines.Json:
    wish = wish or Wish()
    try:
        return client.Client(settings.config).ask("diff", _pruning(wish))
    except client.NoController:
        return once.preview(folders.configuration(settings.config), prune_all=wish.prune_all)


def _pruning(wish: Wish) -> dict[str, object]:
    return {"prune": "all"} if wish.prune_all else {}


def _show(report: lines.Json, settings: usage.Settings) -> None:
    if settings.output == "json":
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        return
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    for one in _records(report, "problems"):
        sys.stdout.write(tables.problem_text(one, paint))
    done = report.get("applied") is True
    changes = _records(report, "changes")
    if done and not changes and report.get("waitsFor") and not report.get("ready"):
        sys.stdout.write("What was saved is admitted, and does not serve yet.\n")
    elif done and not changes and _records(report, "held"):
        sys.stdout.write("Nothing changed.\n")
    else:
        sys.stdout.write(changes_text(changes, paint, done=done))
    sys.stdout.write(held_text(_records(report, "held"), paint))
    sys.stdout.flush()  # talk on stderr comes after the data it is about


def changes_text(changes: list[lines.Json], paint: columns.Paint, *, done: bool = False) -> str:
    """The changes, planned or done, as text: what happens to each object, and whom it touches."""
    if not changes:
        return "Nothing new: what was saved is in force already.\n" if done else "Nothing would change.\n"
    rows: list[list[str]] = []
    colours: list[list[str]] = []
    for one in changes:
        mark, colour = _MARKS.get(str(one.get("verb")), ("?", ""))
        told = one.get("lines")
        first, *more = [str(line) for line in told] if isinstance(told, list) and told else [""]
        rows.append([mark, str(one.get("object")), first])
        colours.append([colour, colour, ""])
        for line in [*more, *_touched(one)]:
            rows.append(["", "", line])
            colours.append(["", "", "grey"])
    verbs = [one.get("verb") for one in changes]
    words = _DONE if done else _PLANNED
    counts = [f"{verbs.count(verb)} {words[verb]}" for verb in words if verb != "refuse" or verb in verbs]
    return columns.table(rows, paint, colours) + paint(", ".join(counts) + ".", "bold") + "\n"


def held_text(held: list[lines.Json], paint: columns.Paint) -> str:
    """What stays in force although the files say otherwise, and why: objects with one cause together."""
    causes: dict[str, list[str]] = {}
    for one in held:
        causes.setdefault(str(one.get("message")), []).append(str(one.get("object")))
    text = ""
    for message, names in causes.items():
        more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
        text += f"{paint('!', 'yellow')} {columns.shown(', '.join(names[:_MANY]))}{more}: in force still\n"
        text += f"    {columns.shown(message)}\n"
    return text


def _touched(change: lines.Json) -> list[str]:
    sessions, agents = change.get("sessions"), change.get("agents")
    found = []
    if (
        isinstance(agents, list)
        and agents
        and [f"agent/{agent}" for agent in agents] != [change.get("object")]
    ):
        found.append(f"next session of {', '.join(map(str, agents))}")
    if isinstance(sessions, int) and sessions:
        stay = "stays on what it was" if sessions == 1 else "stay on what they were"
        found.append(f"{columns.counted(sessions, 'open session')} {stay} opened with")
    return found


def _records(report: lines.Json, key: str) -> list[lines.Json]:
    found = report.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _refuses(report: lines.Json) -> bool:
    """Whether something is refused: an object, or a removal that nobody may do in passing."""
    blocked = any(one.get("reason") == "PruneBlocked" for one in _records(report, "held"))
    return blocked or bool(_errors(report))


def _errors(report: lines.Json) -> list[lines.Json]:
    return [one for one in _records(report, "problems") if one.get("severity") != "warning"]
