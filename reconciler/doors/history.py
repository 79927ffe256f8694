"""``handler history``: the last revisions that were admitted, or what became of one object's last forms.

From the status files alone. At most five of each, the newest first, one a content: what came back is counted.
"""

import json
import sys
import time

from reconciler.doors import columns, standing, tables, usage
from reconciler.model import revisions

_DIGITS = 12  # of a digest that people see, and may type


def run(settings: usage.Settings, subject: str) -> int:
    """Print a history; 0, or 1 for an object that is not known. Raises ``standing.Unreadable``."""
    seen = standing.read(settings.config)
    if not subject:
        found = _records(seen.summary.get("history"))
        rolled = seen.summary.get("rollback")
        _print(settings, found, _revisions(found))
        if isinstance(rolled, dict) and settings.output in ("", "table", "wide"):
            sys.stdout.write(
                f"Rolled back: {rolled_back(rolled)}, until the source changes or 'handler apply'.\n"
            )
        if _have_namesakes(found) and settings.output != "json" and not settings.quiet:
            sys.stderr.write(
                "One revision stands for several contents here (by edits that are not committed, or what was "
                "held back):\n'handler rollback CONTENT' names one.\n"
            )
        return 0
    kind, slash, name = subject.partition("/")
    if not slash or not name:
        raise usage.Usage(f"name an object as KIND/NAME, not '{subject}'")
    try:
        document = standing.document(settings.config, standing.kind_of(kind), name)
    except standing.Unknown as fault:
        sys.stderr.write(f"handler: {fault}\n")
        return 1
    found = _records(document.get("history"))
    _print(settings, found, _forms(found, str(document.get("observedGeneration"))))
    return 0


def rolled_back(told: dict[str, object]) -> str:
    """What a rollback serves instead of what, with the contents where the revisions read the same."""
    names = [str(told.get(key)) for key in ("revision", "insteadOf")]
    shown = [tables.revision(name) for name in names]
    if revisions.look_alike(*names):
        digests = [str(told.get(key)).rpartition(":")[2] for key in ("digest", "insteadOfDigest")]
        shown = [f"{name} (content {digest[:_DIGITS]})" for name, digest in zip(shown, digests, strict=True)]
    return f"{shown[0]} is served instead of {shown[1]}"


def _have_namesakes(found: list[dict[str, object]]) -> bool:
    shown = [tables.revision(str(one.get("revision"))) for one in found]
    return len(set(shown)) < len(shown)


def _print(settings: usage.Settings, found: list[dict[str, object]], rows: list[list[str]]) -> None:
    if settings.output == "json":
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"{one.get('revision') or one.get('digest')}\n" for one in found))
    elif not found:
        sys.stderr.write("" if settings.quiet else "Nothing was admitted yet.\n")
    else:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        colours = [["bold"] * 8] + [["green"] + [""] * 7 for _ in found]
        sys.stdout.write(columns.table(rows, paint, colours))


def _revisions(found: list[dict[str, object]]) -> list[list[str]]:
    rows = [["", "REVISION", "CONTENT", "STATUS", "ADMITTED", "TIMES", "TOOK", "ALSO"]]
    for one in found:
        refused = one.get("refused")
        status = f"{one.get('status')} ({refused} refused)" if refused else str(one.get("status"))
        also = one.get("also")
        names = ", ".join(tables.revision(str(name)) for name in also) if isinstance(also, list) else ""
        mark = "*" if one is found[0] else ""  # the newest is what is in force
        rows.append(
            [mark, tables.revision(str(one.get("revision"))), _short(one), status, *_told(one), names]
        )
    return rows


def _forms(found: list[dict[str, object]], in_force: str) -> list[list[str]]:
    rows = [["", "FORM", "STATUS", "SINCE", "TIMES", "TOOK"]]
    serves = next((one for one in found if _serves(one, in_force, found)), None)
    for one in found:
        mark = "*" if one is serves else ""
        rows.append([mark, _short(one), str(one.get("status")), *_told(one)])
    return rows


def _serves(one: dict[str, object], in_force: str, found: list[dict[str, object]]) -> bool:
    """The form that serves: the one in force, or while that waits for its proof the last that was applied."""
    waits = any(row.get("digest") == in_force and row.get("status") == "Waiting" for row in found)
    return one.get("status") == "Applied" if waits else one.get("digest") == in_force


def _told(one: dict[str, object]) -> list[str]:
    at = standing.instant(str(one.get("at") or ""))
    age = "-" if at is None else f"{columns.age(time.time() - at)} ago"
    seconds = one.get("seconds")
    took = "-"
    if isinstance(seconds, int | float) and seconds >= 0.001:
        took = f"{seconds:.2g} s" if seconds >= 0.1 else "< 0.1 s"
    return [age, str(one.get("count")), took]


def _short(one: dict[str, object]) -> str:
    return str(one.get("digest")).rpartition(":")[2][:_DIGITS]


def _records(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
