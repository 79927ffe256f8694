"""What the status files say: read as they are, with how old they are and whether their controller lives.

Nothing here asks the controller or writes a byte, so it works when none runs, and a second configuration's
files are never touched. A controller lives when the process with its number also has its start time, in this
boot of the machine; numbers alone come back.
"""

import json
import os
import time

from reconciler.control import folders, unwaiting
from reconciler.doors import usage

_VERSION = "handler.status/v1"
_MOST = 8 * 2**20  # characters of a file that are read: a log has one megabyte, a session far less
_START = 19  # place of the start time in /proc/PID/stat, after the command's closing bracket

# The words people write for kinds of object; the same as in the model, which costs too much to import here.
KINDS = {
    "interface": "interface",
    "if": "interface",
    "connector": "connector",
    "con": "connector",
    "binding": "binding",
    "b": "binding",
    "project": "project",
    "p": "project",
    "agent": "agent",
    "a": "agent",
    "chain": "chain",
    "policy": "policy",
    "approval": "approval",
    "config": "config",
    "profile": "profile",
    "dialect": "dialect",
    "policies": "policy",
    "instance": "instance",
    "inst": "instance",
}


class Unreadable(usage.Stopped):
    """The status cannot be read; the text says why and what to do. ``starting`` is None where it is broken;
    else there is none yet, and a controller is about to write one, or not.
    """

    starting: bool | None = None


class Unknown(usage.Stopped):
    """There is no such kind or object; the text lists what there is."""


class Standing:
    """The status of one configuration, as its files have it.

    ``age_s`` is how long ago they changed; ``lives`` whether a controller keeps them now.
    """

    __slots__ = ("age_s", "config", "lives", "state", "summary")

    def __init__(self, config: str, state: str) -> None:
        """Read the summary; raises ``Unreadable``."""
        self.config = config
        self.state = state
        path = f"{state}/status/summary.json"
        self.summary = _document(path, config)
        self.age_s = max(0.0, time.time() - os.stat(path).st_mtime)  # noqa: PTH116 - pathlib costs a start
        self.lives = _lives(state, self.summary.get("controller"))

    @property
    def objects(self) -> list[dict[str, object]]:
        return _records(self.summary.get("objects"))

    @property
    def instances(self) -> list[dict[str, object]]:
        return _records(self.summary.get("instances"))

    @property
    def problems(self) -> list[dict[str, object]]:
        """Problems of files that are no object."""
        return _records(self.summary.get("problems"))

    @property
    def is_starting(self) -> bool:
        """True while a controller lives that has not looked at the configuration yet."""
        conditions = _records(self.summary.get("conditions"))
        return self.lives and any(one.get("reason") == "Starting" for one in conditions)

    @property
    def is_blind(self) -> bool:
        """True when nothing is known because nothing could be read yet: that is no empty configuration."""
        conditions = _records(self.summary.get("conditions"))
        return not self.objects and any(one.get("status") == "False" for one in conditions)

    @property
    def is_unread(self) -> bool:
        """True when nothing of the newest revision counts: it is refused, or cannot be read now."""
        conditions = _records(self.summary.get("conditions"))
        unread = ("SourceRefused", "SourceUnavailable", "SourceBusy")
        return any(one.get("status") == "False" and one.get("reason") in unread for one in conditions)

    def since_s(self) -> float:
        """How long ago the summary was written, by its own words where it has them."""
        written = instant(str(self.summary.get("at", "")))
        return self.age_s if written is None else max(0.0, time.time() - written)

    def applied_s(self) -> float:
        """How long ago what is applied was, by the history; else how long ago the summary was written."""
        newest = next(iter(_records(self.summary.get("history"))), {})
        is_it = newest.get("revision") == self.summary.get("lastAppliedRevision")
        at = instant(str(newest.get("at", ""))) if is_it else None
        return self.since_s() if at is None else max(0.0, time.time() - at)


def read(given: str | None) -> Standing:
    """The standing of the configuration that ``given`` (or the surroundings) name; raises ``Unreadable``."""
    config, state, _ = folders.places(given)
    return Standing(config, state)


def document(given: str | None, kind: str, name: str) -> dict[str, object]:
    """One object's own status file; raises ``Unknown`` without one, ``Unreadable`` when it is broken."""
    config, state, _ = folders.places(given)
    path = f"{state}/status/{kind}/{name}.json"
    if ".." in name.split("/") or not os.path.isfile(path):  # noqa: PTH113 - pathlib costs a start
        raise Unknown(_unknown(given, kind, name))
    return _document(path, config)


def _unknown(given: str | None, kind: str, name: str) -> str:
    """What is said of an object without a status file, with the one of its kind that may have been meant."""
    folder = f"{folders.places(given)[1]}/status/{kind}"
    near = usage.nearest(name, [file.removesuffix(".json") for file in _names(folder, ".json")])
    return f"nothing is known of {kind}/{name}" + (f": did you mean '{near}'?" if near else "")


def sessions(given: str | None, *, agent: str = "", binding: str = "") -> list[dict[str, object]]:
    """The sessions that are kept now, as their files have them: of an agent, or with a route to a binding."""
    folder = f"{folders.places(given)[1]}/sessions"
    found = []
    for name in _names(folder, ".json"):
        try:
            one = json.loads(_text(f"{folder}/{name}", _MOST))
        except ValueError:
            continue  # it is being written, or is of another version
        told = _records(one.get("agents")) if isinstance(one, dict) else []
        routes = [route.get("binding") for pinned in told for route in _records(pinned.get("routes"))]
        if (agent and agent in [pinned.get("agent") for pinned in told]) or (binding and binding in routes):
            found.append(one)
    return found


def log_path(given: str | None, binding: str) -> str:
    """Where what a binding's connector prints is kept."""
    return f"{folders.places(given)[1]}/logs/{binding}.log"


def log_lines(path: str, count: int) -> list[str]:
    """The last lines that a connector printed, at most ``count``: of its log, and of the older half beside
    it.
    """
    from reconciler.model import loglines  # noqa: PLC0415 - most of what is asked here needs no log

    said = loglines.lines(_text(path, _MOST))
    if len(said) < count:
        said = loglines.lines(_text(f"{path}.1", _MOST)) + said
    return [line.text for line in said[-count:]] if count else []


def kind_of(word: str) -> str:
    """The kind that a word names, short forms and plurals included; raises ``usage.Usage``."""
    for form in (word, word.removesuffix("s"), word.removesuffix("es"), word.lower()):
        if form in KINDS:
            return KINDS[form]
    near = usage.nearest(word, [*KINDS, *(f"{kind}s" for kind in KINDS)])
    hint = f"did you mean '{near}'?" if near else ", ".join(dict.fromkeys(KINDS.values()))
    raise usage.Usage(f"'{word}' is not a kind of object: {hint}")


def instant(text: str) -> float | None:
    """Seconds since 1970 of an ISO time in UTC, or None when it is none."""
    try:
        year, month, day = (int(part) for part in text[:10].split("-"))
        hour, minute, second = (int(part) for part in text[11:19].split(":"))
    except ValueError:
        return None
    before = year - (month < 3)
    days = 365 * before + before // 4 - before // 100 + before // 400
    days += (153 * ((month + 9) % 12) + 2) // 5 + day - 719_469
    return days * 86_400.0 + hour * 3_600 + minute * 60 + second


def _document(path: str, config: str) -> dict[str, object]:
    try:
        with open(path, "rb", opener=unwaiting.opener) as file:
            value = json.loads(file.read())
    except FileNotFoundError:
        nothing = Unreadable(_why_nothing(config, path))
        nothing.starting = bool(_owner(path.rpartition("/status/")[0]))
        raise nothing from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot read {path}: {_reason(error)}") from None
    if not isinstance(value, dict) or value.get("apiVersion", _VERSION) != _VERSION:
        raise Unreadable(f"{path} is not of {_VERSION}: another version of handler wrote it")
    return _aged(value, time.time())


def _aged(told: dict[str, object], now: float) -> dict[str, object]:
    """A document as it is to be read now: what is past its end is not known any more, whatever it says."""
    for one in _records(told.get("conditions")):
        if (until := instant(str(one.get("expiresAt") or ""))) is not None and until <= now:
            one.update(status="Unknown", reason="Stale", message=f"it was {one.get('reason')}, too long ago")
    for one in _records(told.get("observations")):
        if (until := instant(str(one.get("expiresAt") or ""))) is not None and until <= now:
            worth = "stale" if one.get("kind") == "conformance" else "unknown"
            one.update(one if one.get("value") == "never" else {"value": worth, "reason": "Stale"})
    return told


def _why_nothing(config: str, path: str) -> str:
    """Why there is no status: no configuration, a controller that has not spoken yet, or none ever."""
    shown = usage.path_shown(config)
    if absent := folders.absent(config, shown):
        return absent
    if pid := _owner(path.rpartition("/status/")[0]):
        return (
            f"the controller of {shown} (pid {pid}) is starting: ask again in a moment (status files that "
            "were removed are written anew within reconcile.resyncSeconds, or by 'handler apply')"
        )
    mend = f"run 'handlerd -c {shown}' (it needs a second to start), or 'handler apply' once"
    return f"nothing was ever applied for {shown}: {mend}"


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or "it is not JSON")


def _records(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _lives(state: str, told: object) -> bool:
    """True while the process that holds the state folder, or that wrote the files, runs."""
    if _owner(state):
        return True
    if not isinstance(told, dict) or not told.get("pid"):
        return False
    boot = _text("/proc/sys/kernel/random/boot_id").strip()
    return told.get("bootId", boot) == boot and _started(told["pid"]) == str(told.get("startTime"))


def _owner(state: str) -> str:
    """The number of the living process that holds a state folder, or ""."""
    words = _text(f"{state}/lock").split()
    return words[0] if len(words) == 2 and _started(words[0]) == words[1] else ""


def _started(pid: object) -> str:
    """When a process started, in clock ticks since boot; "" when there is none."""
    if not str(pid).isdigit():
        return ""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[_START] if len(fields) > _START and fields[0] not in "ZX" else ""


def _names(folder: str, ending: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(ending))  # noqa: PTH208
    except OSError:
        return []


def _text(path: str, most: int = 4096) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=unwaiting.opener) as file:
            return file.read(most)
    except OSError:
        return ""
