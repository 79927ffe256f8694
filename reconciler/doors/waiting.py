"""``handler wait``: returns when an object is as it should be, or cannot become so by itself.

It reads status files, when they change, and asks nobody; a controller that starts meanwhile is waited for,
and a file that was saved a moment ago, but not for long: then nobody is going to make it so. A
condition counts once it is about the newest form (kstatus): an object that serves by an earlier form is not
yet ready, and one whose newest form is refused ends the wait.
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from typing import get_args

from reconciler.control import folders
from reconciler.doors import columns, standing, usage, verdicts
from reconciler.doors.standing import Standing
from reconciler.model import revisions
from reconciler.model.status import ConditionType

_WAIT_S = 120.0
_POLL_S = 0.05  # two stats
_LOOK_S = 1.0  # a controller that ends changes no file
_HOPE_S = 10.0  # for a controller that was started beside us, and a file it has not seen
_WHOLE = "configuration"
_GONE = "Deleted"
_BY_FILES = ("Admitted", "Supported", _GONE)  # true whether or not a controller keeps it so
_OF_OBJECTS = ("Ready", "Admitted", "Supported", _GONE)  # never of the configuration as a whole
_HELD = ("PruneBlocked", "AwaitingApply")  # its file is gone, and it stays until a person says otherwise
_ENDS = ("Ready", "Synced", "Admitted")  # what a refused form never comes to be


@dataclass(frozen=True, slots=True)
class Wish:
    """What is waited for: a condition's type and status (or ``Deleted``), of an object, at a revision."""

    kind: str
    name: str
    condition: str
    status: str
    revision: str = ""

    @property
    def subject(self) -> str:
        return f"{self.kind}/{self.name}" if self.name else self.kind


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found: ``reached``, or ``failed`` for good, or neither; and why. ``vain``: as it stands,
    nobody is going to make it so.
    """

    reached: bool = False
    failed: bool = False
    why: str = ""
    vain: bool = False


def wish(subject: str, wanted: str, revision: str) -> Wish:
    """Read the words of a command line ("" for what is usually ``wanted``); raises ``usage.Usage``."""
    wanted = wanted or ("Synced" if subject == _WHOLE else "Ready")
    word, _, status = wanted.partition("=")
    known = {one.lower(): one for one in (*get_args(ConditionType), _GONE)} | {"delete": _GONE}
    condition = known.get(word.lower())
    if condition is None:
        raise usage.Usage(f"--for knows {', '.join(sorted(set(known.values())))}, not '{word}'")
    truth = (status or "true").capitalize()
    if truth not in ("True", "False", "Unknown") or (status and condition == _GONE):
        raise usage.Usage(f"--for={word} may be True, False or Unknown, not '{status}'")
    if subject == _WHOLE:
        if condition in _OF_OBJECTS:
            raise usage.Usage(f"{condition} is said of objects: of the whole, wait for Synced")
        return Wish(_WHOLE, "", condition, truth, revision)
    kind, slash, name = subject.partition("/")
    if not slash or not name:
        raise usage.Usage(f"name an object as KIND/NAME (or '{_WHOLE}'), not '{subject}'")
    return Wish(standing.kind_of(kind), name, condition, truth, revision)


def run(settings: usage.Settings, asked: Wish) -> int:
    """Wait; 0 reached, 1 it cannot be reached by itself, 3 not in time. Raises ``usage.Stopped`` (2)."""
    config, state, _ = folders.places(settings.config)
    known = os.path.isdir(state)  # noqa: PTH112 - a configuration that is away may come back
    if not known and (absent := folders.absent(config, usage.path_shown(config))):
        raise usage.Stopped(absent)
    limit = settings.timeout_s or _WAIT_S
    until, looked, told, hoped = time.monotonic() + limit, 0.0, "", time.monotonic()
    files: tuple[object, ...] = ()
    while True:
        now, there = time.monotonic(), _signatures(state, asked)
        if there != files or now - looked >= _LOOK_S:
            seen, looked, files = _look(settings, asked), now, there
            if seen.reached or seen.failed:
                return _ended(settings, asked, seen)
            hoped = hoped if seen.vain else now
            if now - hoped >= _HOPE_S:
                raise usage.Stopped(
                    f"{asked.subject} will not be {_wanted(asked)}: {columns.shown(seen.why)}"
                )
            if seen.why != told and not settings.quiet:
                _tell(asked, seen)
                told = seen.why
        if now >= until:
            sys.stderr.write(
                f"handler: {asked.subject} is not {_wanted(asked)} within {limit:g} s: {seen.why}\n"
            )
            return 3
        time.sleep(min(_POLL_S, max(until - now, 0)))


def _tell(asked: Wish, seen: Seen) -> None:
    sys.stderr.write(f"waiting for {asked.subject}: {columns.shown(seen.why)}\n")
    sys.stderr.flush()


def verdict(asked: Wish, seen: Standing, document: dict[str, object] | None) -> Seen:
    """What the status says of a wish. ``document`` is the object's own file (for the whole: the summary)."""
    if seen.is_starting:
        return Seen(why="the controller is starting")
    if not seen.lives and asked.condition not in _BY_FILES:
        return Seen(why="no controller runs ('handlerd' starts one)", vain=True)
    applied = str(seen.summary.get("lastAppliedRevision") or "")
    if asked.revision and not revisions.is_meant(applied, asked.revision):
        return _elsewhere(asked.revision, applied, seen.summary)
    if document is None:
        why = f"there is no {asked.subject} in the configuration"
        return Seen(reached=asked.condition == _GONE, why=why, vain=not asked.revision)
    if asked.condition == _GONE:
        one = verdicts.conditions(document).get("Synced", {})
        held = one.get("reason") in _HELD
        return Seen(failed=held, why=f"{one['reason']}: {one['message']}" if held else "it is still there")
    return _condition(asked, document)


def _elsewhere(wanted: str, applied: str, summary: dict[str, object]) -> Seen:
    """Another revision is in force than the one that is waited for: whether the source holds that one and is
    refused, or is not served until a person says so, and what keeps the source back in any case.
    """
    why = f"the configuration is at {applied or 'no revision yet'}"
    source = verdicts.conditions(summary).get("Synced", {})
    if source.get("status") != "False":
        return Seen(why=why)
    reason = source.get("reason", "")
    here = revisions.is_meant(str(summary.get("lastAttemptedRevision") or ""), wanted)
    failed = here and verdicts.code(reason) != verdicts.LATER
    return Seen(failed=failed, why=f"{why}: {reason}: {source.get('message', '')}".rstrip(": "))


def _condition(asked: Wish, document: dict[str, object]) -> Seen:
    """Whether a document's conditions are as wished, about its newest form."""
    found = verdicts.conditions(document)
    one = found.get(
        asked.condition, {"status": "Unknown", "reason": "", "message": "nothing was observed yet"}
    )
    why = f"{one['reason']}: {one['message']}".strip(": ")
    if asked.status != "True":
        why = f"{asked.condition} is {one['status']} ({why})"
    synced = found.get("Synced", {}).get("status") != "False" and verdicts.is_newest(document)
    if asked.condition == "Ready" and asked.status == "True" and one["status"] == "True" and not synced:
        one, why = {**one, "status": "False"}, "an earlier form serves, not yet the newest"
    if one["status"] == asked.status:
        return Seen(reached=True, why=why)
    if asked.status != "True":
        return Seen(why=why)
    return Seen(failed=_is_final(asked, found, one), why=_cause(found) or why)


def _is_final(asked: Wish, found: dict[str, dict[str, str]], one: dict[str, str]) -> bool:
    """True when nothing changes until a person does."""
    if found.get("Stalled", {}).get("status") == "True":
        return True
    refused = found.get("Admitted", {}).get("status") == "False"
    if refused and asked.condition in _ENDS:
        return True
    if one["status"] != "False" or one["reason"] == "LastGoodRetained":
        return False  # it is admitted, and tried
    return verdicts.code(one["reason"]) != verdicts.LATER


def _cause(found: dict[str, dict[str, str]]) -> str:
    admitted = found.get("Admitted", {})
    if admitted.get("status") != "False":
        return ""
    return f"its newest form is refused: {admitted.get('message')}"


def _look(settings: usage.Settings, asked: Wish) -> Seen:
    """What there is now; what cannot be read may be by and by, so it is waited for."""
    try:
        seen = standing.read(settings.config)
        return verdict(asked, seen, _document(settings, asked, seen))
    except standing.Unreadable as fault:
        return Seen(why=str(fault), vain=fault.starting is False)


def _document(settings: usage.Settings, asked: Wish, seen: Standing) -> dict[str, object] | None:
    if not asked.name:
        return seen.summary
    try:
        return standing.document(settings.config, asked.kind, asked.name)
    except standing.Unknown:
        return None


def _ended(settings: usage.Settings, asked: Wish, seen: Seen) -> int:
    if seen.failed:
        sys.stderr.write(
            f"handler: {asked.subject} will not be {_wanted(asked)} by itself: {columns.shown(seen.why)}\n"
        )
        if asked.name:
            sys.stderr.write(f"See 'handler describe {asked.subject}'.\n")
        return 1
    if settings.output == "json":
        told = {
            "object": asked.subject,
            "condition": asked.condition,
            "status": asked.status,
            "message": seen.why,
        }
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    elif not settings.quiet:
        sys.stdout.write(f"{asked.subject} is {_wanted(asked)}\n")
    return 0


def _wanted(asked: Wish) -> str:
    at = f" at {asked.revision}" if asked.revision else ""
    return (asked.condition if asked.status == "True" else f"{asked.condition}={asked.status}") + at


def _signatures(state: str, asked: Wish) -> tuple[object, ...]:
    """What changes when one of the two files is written anew."""
    names = ["summary.json", *([f"{asked.kind}/{asked.name}.json"] if asked.name else [])]
    found: list[object] = []
    for name in names:
        try:
            one = os.stat(f"{state}/status/{name}")  # noqa: PTH116 - twenty times a second
        except OSError:
            found.append(None)
        else:
            found.append((one.st_ino, one.st_mtime_ns, one.st_size))
    return tuple(found)
