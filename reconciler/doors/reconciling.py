"""``rollback`` and ``reconcile``: acts of a person that the controller does at once.

A rollback also works without a controller: it is written down, and the next one serves it. Neither writes to
the configuration or to git.
"""

import json
import sys

from reconciler.control import folders, lock, once, rolling
from reconciler.doors import client, columns, history, lines, radius, tables, usage


def rollback(settings: usage.Settings, wanted: str) -> int:
    """Serve an earlier revision ("": the previous one); 0, or 1 where something of it is refused now.

    Raises ``usage.Stopped`` where it is not kept, or cannot be written down.
    """
    try:
        report = client.Client(settings.config).ask("rollback", {"to": wanted})
    except client.NoController:
        report = _rolled_back_here(settings, wanted)
    if settings.output == "json":
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    else:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        if radius.records(report, "changes"):
            sys.stdout.write(radius.text(report, paint, done=True))
        sys.stdout.flush()
        if not settings.quiet:
            sys.stderr.write(_said(report))
    return 1 if report.get("refused") else 0


def reconcile(settings: usage.Settings, subject: str) -> int:
    """Have the controller look now, and try again what failed (of one object); 0. Raises as ``ask``."""
    report = client.Client(settings.config).ask("reconcile", {"object": subject})
    if settings.output == "json":
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        return 0
    tried = report.get("retried")
    names = ", ".join(map(str, tried)) if isinstance(tried, list) else ""
    if not settings.quiet:
        sys.stderr.write(f"Looked: {tables.revision(str(report.get('revision')))} is in force.\n")
        if names:
            sys.stderr.write(f"Tried again now: {columns.shown(names)}.\n")
        waits = report.get("waiting")
        if isinstance(waits, list) and waits:
            told = columns.shown(", ".join(map(str, waits)))
            sys.stderr.write(f"Held back until 'handler apply': {told}.\n")
    return 0


def _rolled_back_here(settings: usage.Settings, wanted: str) -> lines.Json:
    try:
        report = once.roll_back(folders.configuration(settings.config), wanted)
    except rolling.NotKept as fault:
        raise usage.Stopped(str(fault)) from None
    except lock.Held as held:
        raise usage.Stopped(f"cannot roll back: {held}, and it does not answer yet: try again") from None
    if not settings.quiet:
        sys.stderr.write("handler: no controller runs, so nothing runs until 'handlerd' does\n")
    return report


def _said(report: lines.Json) -> str:
    rolled = report.get("rollback")
    if not isinstance(rolled, dict):
        return ""
    return (
        f"Rolled back: {history.rolled_back(rolled)}. It stays until the source changes; "
        "'handler apply' ends it now.\n"
    )
