"""``handler approve`` and ``handler receipts``: what people are asked before it leaves, and what did leave.

Questions and receipts are read from their files, beside the controller that writes them; an answer is the
controller's to take, since somebody waits for it there.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from reconciler.control import approvals, receipts
from reconciler.control.status import iso
from reconciler.doors import client, columns, kept, usage

_HEAD = ["ID", "STATE", "AGENT", "INTERFACE", "TO", "CLASS", "BYTES", "RULE", "LEFT"]
_ABOUT = ("agent", "interface", "origin", "class", "bytes", "rule")
_COLOURS = {"waiting": "yellow", "denied": "red", "expired": "red"}
_RECEIPT = ("at", "verdict", "rule", "agent", "interface", "origin", "class", "bytes", "reason")


def listing(settings: usage.Settings) -> int:
    """Show every question that is kept: what waits, then what is over, each from the newest; 0."""
    found = [_aged(one) for one in approvals.stored(kept.state(settings))]
    found.sort(key=lambda one: (one.state != "waiting", -one.at))
    if settings.output == "json":
        sys.stdout.write(json.dumps([one.as_json() for one in found], indent=2) + "\n")
    elif settings.output == "name":
        sys.stdout.write("".join(f"{one.id}\n" for one in found))
    elif found:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        rest = [""] * (len(_HEAD) - 2)
        colours = [["bold"] * len(_HEAD), *(["", _COLOURS.get(one.state, ""), *rest] for one in found)]
        sys.stdout.write(columns.table([_HEAD, *map(_row, found)], paint, colours))
    elif not settings.quiet:
        sys.stderr.write("Nobody is asked anything.\n")
    return 0


def show(settings: usage.Settings, number: str) -> int:
    """Show one question whole; 0. Raises ``usage.Stopped`` where there is none."""
    found = [_aged(one) for one in approvals.stored(kept.state(settings)) if one.id.startswith(number)]
    if len(found) != 1:
        many = f"{len(found)} approvals begin" if found else "no approval begins"
        raise usage.Stopped(f"{many} with '{number[:40]}': 'handler approve list' shows them")
    one = found[0]
    if settings.output == "json":
        sys.stdout.write(json.dumps(one.as_json(), indent=2) + "\n")
        return 0
    rows: list[tuple[str, Any]] = [("id", one.id), ("state", one.state), ("asked", iso(one.at))]
    rows += [("until", iso(one.until)), ("by", one.by)]
    basis = ", ".join(" → ".join(map(str, each.values())) for each in _mappings(one.about.get("classBasis")))
    rows += [(key, basis if key == "classBasis" else value) for key, value in one.about.items()]
    width = max(len(key) for key, _ in rows)
    told = (f"{key:<{width}}  {_told(value)}\n" for key, value in rows if value != "")
    sys.stdout.write("".join(told))
    return 0


def answer(settings: usage.Settings, number: str, *, agreed: bool) -> int:
    """Have the controller take a person's answer; 0. Raises ``usage.Stopped`` where it does not."""
    told = client.Client(settings.config).ask("approve", {"id": number, "agreed": agreed})
    if settings.output == "json":
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    elif not settings.quiet:
        words = "approved, once, for exactly these bytes" if agreed else "denied"
        sys.stdout.write(f"{told.get('id')}: {words}\n")
    return 0


def verify(settings: usage.Settings) -> int:
    """Follow the receipts; 0 they hold, 1 they do not, with file and line."""
    state = kept.state(settings)
    chain = receipts.verified(state)
    broken = chain.broken
    if settings.output == "json":
        place = {"file": broken.file, "line": broken.line, "why": broken.why} if broken else None
        told = {"lines": chain.lines, "begins": chain.begins, "broken": place}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    elif broken is not None:
        where = Path(state, receipts.FOLDER, broken.file)
        sys.stdout.write(f"{where}:{broken.line}: the chain of receipts is broken: {broken.why}\n")
    elif not settings.quiet:
        more = f", from number {chain.begins} on" if chain.begins > 1 else ""
        sys.stdout.write(f"{chain.lines} receipts hold{more}.\n" if chain.lines else "There is no receipt.\n")
    return 0 if broken is None else 1


def receipt_list(settings: usage.Settings, count: int, *, denied: bool) -> int:
    """Show the last receipts; 0. A line that is none is passed over: ``verify`` names it."""
    found: list[dict[str, Any]] = []
    for path in sorted(Path(kept.state(settings), receipts.FOLDER).glob("????-??-??.jsonl"), reverse=True):
        if len(found) >= count or path.is_symlink() or not path.is_file():
            continue
        for line in reversed(path.read_bytes().splitlines()):
            one = _receipt(line)
            if one is not None and len(found) < count and (one.get("verdict") == "deny" or not denied):
                found.append(one)
    found.reverse()
    if settings.output == "json":
        sys.stdout.write("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in found))
    elif found:
        paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
        rows = [[columns.shown(one.get(key, "")) or "-" for key in _RECEIPT] for one in found]
        sys.stdout.write(columns.table([[key.upper() for key in _RECEIPT], *rows], paint))
    elif not settings.quiet:
        sys.stderr.write("Nothing was denied.\n" if denied else "There is no receipt.\n")
    return 0


def _receipt(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _told(value: object) -> str:
    """A value as a person reads it: the arguments of a call as the JSON that they are."""
    return columns.shown(json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value)


def _mappings(found: object) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _aged(one: approvals.Approval) -> approvals.Approval:
    return approvals.aged(one, time.time())


def _row(one: approvals.Approval) -> list[str]:
    about = one.about
    left = columns.age(max(0.0, one.until - time.time())) if one.state == "waiting" else "-"
    about = {"origin": about["tool"], **about} if "run" in about else about  # a chain asks about a call
    words = ["-" if about.get(key, "") == "" else str(about[key]) for key in _ABOUT]
    return [one.id, one.state, *words, left]
