"""``diff`` and ``apply``: what would change, and making it so, through the controller or without one.

The controller decides when one runs; without it the same rooms decide here, under the same lock, and nothing
runs until ``handlerd`` does. They are imported for that alone: it takes longer than asking. Exit codes follow
the table: diff 0 nothing, 1 something, 2 anything refused; apply 0 applied, 1 something refused, 3 not ready
in time.
"""

import json
import re
import sys
import time
from dataclasses import dataclass, replace

from reconciler.control import folders
from reconciler.doors import client, columns, lines, radius, standing, tables, usage

_WAIT_S = 120.0
_NUMBER = re.compile(r"[0-9.]+")
_TELL_S = 1.0  # how often the controller is asked what it waits for


@dataclass(frozen=True, slots=True)
class Wish:
    """What ``handler apply`` was asked for."""

    dry_run: bool = False
    wait: bool = False
    atomic: bool = False
    agreed: bool = False
    prune_all: bool = False  # what is gone from the files goes, however much it is
    expected: str = ""  # the revision that was agreed to; "": any


def diff(settings: usage.Settings, rev: str = "", *, detailed: bool) -> int:
    """Print what an apply would change; with ``rev`` one of that commit, or what lies between two (A..B).
    ``detailed``: Terraform's exit codes (0 none, 1 error, 2 changes).
    """
    report = _between(settings, rev) if ".." in rev else _previewed(settings, Wish(), rev)
    _show(report, settings)
    refused, changed = _refuses(report), bool(radius.records(report, "changes"))
    if not rev and not settings.quiet and settings.output != "json":
        sys.stderr.write(_already(report))
    if detailed:
        return 1 if refused else 2 if changed else 0
    return 2 if refused else 1 if changed else 0


def _already(report: lines.Json) -> str:
    """What is said where nothing is left to do: a saved edit may be in force before anybody can ask."""
    if any(radius.records(report, key) for key in ("changes", "held", "problems")):
        return ""
    return (
        "What was saved is admitted already: 'handler events' tells what became of it "
        '(reconcile.mode = "manual" waits for an apply)\n'
    )


def apply(settings: usage.Settings, wish: Wish) -> int:
    """Reconcile now; the exit code."""
    if wish.dry_run or wish.atomic or not wish.agreed:
        report = _previewed(settings, wish)
        refused = _refuses(report)
        if wish.dry_run or (wish.atomic and refused):
            _show(report, settings)
            if not wish.dry_run:
                sys.stderr.write("handler: nothing was applied, since something is refused (--atomic)\n")
            return 1 if refused else 0
        if not wish.agreed and radius.losses(report):
            if not _agreed(report, settings, wish):
                return 1
            wish = replace(wish, expected=str(report.get("revision")))
    return _applied(settings, wish)


def _agreed(report: lines.Json, settings: usage.Settings, wish: Wish) -> bool:
    """Ask before anybody is served no more; True when the person agrees. Raises ``Stopped`` where nobody can
    be asked: what waits for an answer that cannot come would hang.
    """
    lost = radius.losses(report)
    what = f"this stops serving {columns.counted(len(lost), 'user')}"
    told = "".join(f"  {columns.shown(line)}\n" for line in lost)
    if not settings.ask or not sys.stdin.isatty():
        if wish.prune_all:
            return True  # the flag says what is to go
        raise usage.Stopped(
            f"nothing was applied: {what}, and nobody can be asked\n{told}"
            "  mend  say yes beforehand: 'handler apply -y' ('handler diff' shows all of it)"
        )
    _show({**report, "problems": []}, settings)
    sys.stderr.write(f"{what[:1].upper()}{what[1:]}:\n{told}Do it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    sys.stderr.write("handler: nothing was applied\n")
    return False


def _applied(settings: usage.Settings, wish: Wish) -> int:
    control: client.Client | None = client.Client(settings.config)
    expected: dict[str, object] = {"expect": wish.expected} if wish.expected else {}
    try:
        report = client.Client(settings.config).ask(
            "apply", {"wait": False, "dryRun": False, **_pruning(wish), **expected}
        )
    except client.NoController:
        report, control = _applied_here(settings, wish), None
    refused = _refuses(report)
    if wish.wait and not refused and control and not report.get("ready"):
        report["ready"] = _waited(control, settings, report)
        if report["ready"]:
            report["lastGood"] = []  # nothing is refused, so it named what has answered by now
            report["waited"] = True
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
    from reconciler.control import lock, once  # noqa: PLC0415 - all the rooms: where a controller answers, none is needed

    try:
        report = once.apply(folders.configuration(settings.config), wish.expected, prune_all=wish.prune_all)
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
            report["stuck"] = True  # what does not serve yet is known to be bad: waiting on is in vain
            return False
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
    limit = (
        "nothing goes on by itself"
        if report.get("stuck")
        else f"not ready within {settings.timeout_s or _WAIT_S:g} s"
    )
    text = f"handler: applied, but {limit}: {columns.shown(', '.join(map(str, names)))}\n"
    for name, why in waits.items():
        binding = str(name).partition("/")[2]
        where = "" if "`handler " in str(why) else f"; see 'handler logs {binding}'"
        text += f"  {columns.shown(name)}: {columns.shown(why)}{where}\n"
    return text + "What served before keeps serving.\n"


def _previewed(settings: usage.Settings, wish: Wish, rev: str = "") -> lines.Json:
    try:
        return client.Client(settings.config).ask("diff", {**_pruning(wish), **({"rev": rev} if rev else {})})
    except client.NoController:
        from reconciler.control import comparing, once  # noqa: PLC0415 - all the rooms: where a controller answers, none is needed

        asked = comparing.Wish(rev, prune_all=wish.prune_all)
        return once.preview(folders.configuration(settings.config), asked)


def _between(settings: usage.Settings, revs: str) -> lines.Json:
    """What lies between two commits: decided here, whether a controller runs or not."""
    older, _, newer = revs.partition("..")
    if not older or not newer or newer.startswith("."):
        raise usage.Usage(f"--rev wants a commit, or two as A..B, not '{revs}'")
    from reconciler.control import comparing  # noqa: PLC0415 - all the rooms: where a controller answers, none is needed
    from reconciler.control.place import Place  # noqa: PLC0415 - as above

    return comparing.between(Place.of(folders.configuration(settings.config)), older, newer)


def _pruning(wish: Wish) -> dict[str, object]:
    return {"prune": "all"} if wish.prune_all else {}


def _show(report: lines.Json, settings: usage.Settings) -> None:
    if settings.output == "json":
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        return
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    for one in radius.records(report, "problems"):
        sys.stdout.write(tables.problem_text(one, paint))
    done = report.get("applied") is True
    changes = radius.records(report, "changes")
    if settings.quiet and not any(radius.records(report, key) for key in ("changes", "held", "lastGood")):
        return  # that nothing changed is talk
    if done and not changes and report.get("waited"):
        sys.stdout.write("What was saved before serves now.\n")
    elif done and not changes and report.get("waitsFor") and not report.get("ready"):
        sys.stdout.write("What was saved is admitted, and does not serve yet.\n")
    else:
        sys.stdout.write(radius.text(report, paint, done=done))
    sys.stdout.flush()  # talk on stderr comes after the data it is about


def _refuses(report: lines.Json) -> bool:
    """Whether something is refused: an object, or a removal that nobody may do in passing."""
    blocked = any(one.get("reason") == "PruneBlocked" for one in radius.records(report, "held"))
    return blocked or bool(_errors(report))


def _errors(report: lines.Json) -> list[lines.Json]:
    return [one for one in radius.records(report, "problems") if one.get("severity") != "warning"]
