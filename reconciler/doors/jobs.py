"""``handler jobs``: attempts at effects, what is under way, and what nobody knows the outcome of.

Listing reads the ledger beside the controller that writes it. What changes an attempt is asked of the
controller; where none runs it is done here, under the state folder's lock, and a controller that comes later
goes on from there.
"""

import getpass
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.machine import ForbiddenError
from reconciler.attempts.store import UnbegunError
from reconciler.control import folders, jobbook, lock
from reconciler.control.ledgers import Ledgers
from reconciler.doors import client, columns, kept, lines, usage

_SHORT = 13  # of an id in a table: its millisecond, which is nobody else's as a rule
_COLOURS = {"indeterminate": "red", "failed": "yellow", "succeeded": "green"}
_WORDS = {"none": "nothing happened", "unknown": "it may have happened", "happened": "it happened"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which attempts a person wants to see."""

    every: bool = False
    agent: str = ""
    binding: str = ""


def listing(settings: usage.Settings, which: Wanted) -> int:
    """List attempts, the newest first; 0."""
    told = _seen(settings, "jobs.list", asdict(which), lambda ledger: jobbook.listing(ledger, asdict(which)))
    found, bad = _jobs(told), _texts(told.get("unreadable"))
    _print(settings, found, bad)
    if settings.quiet:
        return 0
    if len(found) >= jobbook.MOST:
        sys.stderr.write(f"These are the newest {jobbook.MOST}: --agent or --binding shows others.\n")
    if bad:
        rows = columns.counted(len(bad), "row")
        sys.stderr.write(f"{rows} of the ledger cannot be read: {columns.shown(', '.join(bad[:5]))}\n")
    elif not found and settings.output != "json":
        hint = "" if which.every else " ('--all' lists what is over, too)"
        sys.stderr.write(f"No job is open{hint}.\n" if not which.every else "There is no job.\n")
    return 0


def get(settings: usage.Settings, text: str) -> int:
    """Show one attempt with its history; 0. Raises ``usage.Stopped`` where there is none."""

    def here(ledger: Ledger) -> lines.Json:
        try:
            return _one(jobbook.shown(ledger, text))
        except jobbook.UnknownError as fault:
            raise usage.Stopped(str(fault)) from None

    told = _seen(settings, "jobs.get", {"job": text}, here)
    (seen,) = _jobs(told) or (None,)
    if seen is None:
        raise usage.Stopped(f"there is no job '{text}': no effect was ever tried here")
    if settings.output in ("json", "name"):
        _print(settings, [seen])
    else:
        sys.stdout.write(_sheet(seen, columns.Paint(settings.color, tty=sys.stdout.isatty())))
    return 0


def cancel(settings: usage.Settings, text: str) -> int:
    """Keep the wish to stop an attempt; 0. Raises ``usage.Stopped`` where that makes no sense any more."""
    asked = {"job": text, "by": _person()}
    told = _done(settings, "jobs.cancel", asked, lambda ledger: _one(_cancelled(ledger, asked)))
    _tell(settings, told, _after_cancel)
    return 0


def settle(settings: usage.Settings, text: str, to: str, evidence: str) -> int:
    """Keep what a person knows of an indeterminate attempt; 0. Raises ``usage.Stopped``."""
    asked = {"job": text, "by": _person(), "as": to, "evidence": evidence}
    told = _done(settings, "jobs.settle", asked, lambda ledger: _one(_settled(ledger, asked)))
    _tell(settings, told, lambda one: f"{one['job']} is {one['state']}, {one['cause']}.")
    return 0


def prune(settings: usage.Settings, *, dry_run: bool) -> int:
    """Let go what is past its time, or say what would go; 0."""
    told = _done(
        settings,
        "jobs.prune",
        {"dryRun": dry_run},
        lambda ledger: jobbook.pruned(ledger, time.time(), dry_run=dry_run),
    )
    if settings.output == "json":
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        return 0
    jobs, files = (list(told.get(name) or ()) for name in ("jobs", "files"))  # type: ignore[call-overload]
    for name in (*jobs, *files):
        sys.stdout.write(f"{columns.shown(name)}\n")
    if not settings.quiet:
        went = "would go" if dry_run else "went"
        counts = f"{columns.counted(len(jobs), 'job')} and {columns.counted(len(files), 'file')}"
        sys.stderr.write(f"{counts} {went}. What is indeterminate stays until it is settled.\n")
    return 0


def _cancelled(ledger: Ledger, asked: dict[str, str]) -> dict[str, Any]:
    return jobbook.as_json(jobbook.cancel(ledger, asked["job"], asked["by"], time.time()))


def _settled(ledger: Ledger, asked: dict[str, str]) -> dict[str, Any]:
    said = jobbook.settled(asked["as"], asked["by"], asked["evidence"])
    return jobbook.as_json(jobbook.settle(ledger, asked["job"], said, time.time()))


def _one(job: dict[str, Any]) -> lines.Json:
    return {"jobs": [job]}


def _seen(
    settings: usage.Settings, method: str, params: Mapping[str, object], here: Callable[[Ledger], lines.Json]
) -> lines.Json:
    """What the ledger says: read beside whoever writes it. One that several machines share is asked of the
    controller where one runs, which has its password. Raises ``usage.Stopped``.
    """
    state = kept.state(settings)
    ledgers = Ledgers(state, folders.configuration(settings.config))
    try:
        if ledgers.shared() is not None:
            with suppress(client.NoController):
                return _asked(settings, ledgers, method, params)
        ledger = ledgers.read()
    except UnbegunError:
        ledger = None
    except OSError as error:
        raise usage.Stopped(str(error)) from None
    if ledger is None:
        return {"jobs": [], "unreadable": []}
    try:
        return here(ledger)
    except OSError as error:
        raise usage.Stopped(str(error)) from None
    finally:
        ledger.close()


def _asked(
    settings: usage.Settings, ledgers: Ledgers, method: str, params: Mapping[str, object]
) -> lines.Json:
    """The controller's answer. Where none comes in time, what it waits for is named: its ledger."""
    try:
        return client.Client(settings.config).ask(method, dict(params))
    except client.Late as late:
        with suppress(OSError):
            if (shared := ledgers.shared()) is not None:
                raise usage.Stopped(
                    f"{late}: its ledger, {shared.where}, does not answer it ('handler doctor' asks, too)"
                ) from None
        raise


def _jobs(told: lines.Json) -> list[dict[str, Any]]:
    found = told.get("jobs")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _texts(found: object) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list) else []


def _done(
    settings: usage.Settings, method: str, params: Mapping[str, object], here: Callable[[Ledger], lines.Json]
) -> lines.Json:
    """Have the controller do it, or do it here where none runs."""
    ledgers = Ledgers(Path(folders.places(settings.config)[1]), folders.configuration(settings.config))
    try:
        return _asked(settings, ledgers, method, params)
    except client.NoController:
        state = kept.state(settings)
    if not ledgers.exists():
        raise usage.Stopped("there is no job: no effect was ever tried here")
    try:
        with lock.held(state):
            ledger = ledgers.open()
            try:
                return here(ledger)
            finally:
                ledger.close()
    except lock.Held as held:
        raise usage.Stopped(f"{held}, and it does not answer yet: try again") from None
    except (jobbook.UnknownError, ForbiddenError, OSError) as fault:
        raise usage.Stopped(str(fault)) from None


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        return "somebody"


def _tell(settings: usage.Settings, told: lines.Json, words: Callable[[dict[str, Any]], str]) -> None:
    one = next(iter(_jobs(told)), {})
    if settings.output in ("json", "name"):
        _print(settings, [one])
    elif not settings.quiet and one:
        sys.stderr.write(f"{columns.shown(words(one))}\n")


def _after_cancel(one: dict[str, Any]) -> str:
    if one["state"] == "cancelled":
        return f"{one['job']} is cancelled: nothing was sent."
    return (
        f"{one['job']} is {one['state']}: the wish is kept. It ends as cancelled only where that is proven."
    )


def _print(settings: usage.Settings, jobs: list[dict[str, Any]], bad: Sequence[str] = ()) -> None:
    if settings.output == "json":
        told = {"jobs": jobs, "unreadable": list(bad)}
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        return
    if settings.output == "name":
        sys.stdout.write("".join(f"{one['job']}\n" for one in jobs))
        return
    if not jobs:
        return
    wide = settings.output == "wide"
    paint = columns.Paint(settings.color, tty=sys.stdout.isatty())
    head = [
        "JOB",
        "TOOL",
        "AGENT",
        "BINDING",
        "STATE",
        "AGE",
        *(["SENT", "SESSION", "HANDLE", "CAUSE"] if wide else []),
    ]
    rows, colours = [head], [["bold"] * len(head)]
    for one in jobs:
        asked = ", cancel asked" if one["cancelAskedAt"] and one["state"] not in jobbook.SETTLED else ""
        state, age = f"{one['state']}{asked}", columns.age(time.time() - _instant(one))
        more = [str(one["transmissions"]), one["session"], one["handle"] or "-", one["cause"]] if wide else []
        job = one["job"] if wide else one["job"][:_SHORT]
        rows.append([job, one["tool"], one["agent"], one["binding"], state, age, *more])
        colours.append(["", "", "", "", _COLOURS.get(one["state"], "")])
    sys.stdout.write(columns.table(rows, paint, colours))


def _instant(one: dict[str, Any]) -> float:
    return datetime.fromisoformat(one["createdAt"]).timestamp()


def _sheet(one: dict[str, Any], paint: columns.Paint) -> str:
    """One attempt for a person: what it is, how it stands, what happened to it, and what there is to do."""
    state = paint(one["state"], _COLOURS.get(one["state"], ""))
    facts = [
        ("Job", one["job"]),
        ("Tool", f"{one['tool']} ({one['interface']}), {one['effect']}"),
        ("Agent", f"{one['agent']}, session {one['session']}" if one["session"] else one["agent"]),
        ("Handle", one["handle"]),
        ("Binding", one["binding"]),
        ("Sent", "once" if one["transmissions"] == 1 else f"{one['transmissions']} times"),
        ("Outcome", _WORDS.get(one["happened"], "")),
        ("Code", one["code"]),
        ("Cause", one["cause"]),
    ]
    shown = [[name, text] for name, text in facts if text]
    shown.insert(1, ["State", one["state"]])
    text = columns.table(shown, columns.Paint("never", tty=False)).replace(one["state"], state, 1)
    history = [["", "WHEN", "WHAT", "STATE", "BY"]] + [
        ["", event["at"], event["what"], event["to"], event["actor"]] for event in one["history"] or ()
    ]
    text += f"\nHistory\n{columns.table(history, paint)}"
    if one["parked"]:
        text += (
            "\nIt may have happened, and nobody can be asked. Look where it would have, then say so:\n"
            f"  handler jobs settle {one['job']} --as succeeded|failed --evidence '…'\n"
        )
    return text
