"""``handler describe configuration``: what is said of the configuration as a whole, from ``summary.json``.

It is what ``wait configuration`` and ``events configuration`` are about: the source, and what is in force
of it. ``config/handler`` is another thing, the object in ``handler.toml``: its settings may be in force while
the source as a whole is refused.
"""

import json
import sys
import time

from reconciler.doors import columns, standing, usage

_BESIDE = ("objects", "instances", "problems")  # of objects: ``handler status`` and ``get`` show them


def run(settings: usage.Settings, words: list[str]) -> int:
    """Print it; 0. Raises ``usage.Usage`` and ``standing.Unreadable``."""
    if len(words) != 1:
        raise usage.Usage("'handler describe configuration' takes nothing else (-o json)")
    seen = standing.read(settings.config)
    if settings.output == "json":
        told = {key: value for key, value in seen.summary.items() if key not in _BESIDE}
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    else:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        sys.stdout.write(text(seen, paint))
    return 0


def text(seen: standing.Standing, paint: columns.Paint) -> str:
    """The whole as lines for people."""
    summary = seen.summary
    head = [
        ["object", "configuration (its settings: config/handler)"],
        ["folder", usage.path_shown(seen.config, anywhere=True)],
        ["state", usage.path_shown(seen.state, anywhere=True)],
    ]
    for word, key in (
        ("in force", "lastAppliedRevision"),
        ("newest", "lastAttemptedRevision"),
        ("asked", "lastHandledRequestAt"),
    ):
        if summary.get(key):
            head.append([word, str(summary[key])])
    head.append(["edits", "the work tree differs from what is committed"] if summary.get("dirty") else [])
    if not seen.lives:
        head.append(["controller", f"none runs: this is what was so {columns.age(seen.age_s)} ago"])
    head = [row for row in head if row]
    rows = [["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]]
    for one in columns.records(summary.get("conditions")):
        since = _since(str(one.get("lastTransitionTime") or ""))
        facts = [one.get("type"), one.get("status"), one.get("reason"), since, one.get("message") or ""]
        rows.append([str(fact) for fact in facts])
    colours = [["bold"] * 5] + [[""] * 5] * (len(rows) - 1)
    return (
        columns.table(head, paint, [["bold", ""] for _ in head]) + "\n" + columns.table(rows, paint, colours)
    )


def _since(at: str) -> str:
    told = standing.instant(at)
    return "-" if told is None else columns.age(time.time() - told)
