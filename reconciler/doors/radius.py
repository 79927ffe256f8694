"""A blast radius as text: one line an object, and below it what differs and whom it reaches.

Drawn from the report alone (``plan.blast``), so that what a program reads and what a person reads say the
same. Long lists are counted here, and only here: ``-o json`` has all of them.
"""

from collections.abc import Iterable, Iterator

from reconciler.doors import columns, tables
from reconciler.doors.lines import Json

_MARKS = {
    "add": ("+", "green"),
    "change": ("~", "yellow"),
    "remove": ("-", "red"),
    "refuse": ("✗", "red"),
}
_PLANNED = {"add": "to add", "change": "to change", "remove": "to remove"}
_DONE = {"add": "added", "change": "changed", "remove": "removed"}
_NOT_DONE = {"refuse": "refused"}  # counted where there is any
_UNSET = ("services.", "secrets.", "settings.", "handler.")  # keys that have no default
_SORTS = ("egress", "secrets", "programs", "read", "adds", "cost", "copies")
_MINUS = "\N{MINUS SIGN}"  # stands out from a dash in a name
_INDENT = " " * 6
_JOIN = " " * 5
_LATE = "not in use yet, what served before still does"
_MANY = 6  # names in one line; the rest is counted
_LONGEST = 80  # cells of a value


def text(report: Json, paint: columns.Paint, *, done: bool = False) -> str:
    """The changes, planned or done: what happens to each object, and whom it touches."""
    changes = [one for one in records(report, "changes") if one.get("verb") != "hold"]
    after = _held(report, paint) + _behind(report, paint)
    if not changes:
        new = "Nothing changed.\n" if after else "Nothing new: what was saved is in force already.\n"
        blocked = any(one.get("reason") == "PruneBlocked" for one in records(report, "held"))
        same = f"Nothing would change{': what is removed is held back' if blocked else ''}.\n"
        return (new if done else same) + after
    sessions = {str(one.get("session")): one for one in records(report, "sessions")}
    rows, colours, below = [], [], []
    for one in changes:
        mark, colour = _MARKS.get(str(one.get("verb")), ("?", ""))
        told = list(_lines(one, report, sessions))
        effect = _effect(one)
        head = told.pop(0) if effect and told and told[0].startswith("=") else ""
        rows.append([mark, str(one.get("object")), effect, head[1:]])
        colours.append([colour, colour, "", ""])
        below.append([line.removeprefix("=") for line in told])
    heads = columns.table(rows, paint, colours).splitlines()
    told_of = "".join(
        f"{head}\n" + "".join(f"{_INDENT}{paint(columns.shown(line), 'grey')}\n" for line in more)
        for head, more in zip(heads, below, strict=True)
    )
    counted = paint(_counted(changes, done=done), "bold") + _reaching(report)
    return told_of + after + counted + "\n"


def losses(report: Json) -> list[str]:
    """Whom it stops serving, one clause each: what a person is asked about."""
    sessions = {str(one.get("session")): one for one in records(report, "sessions")}
    return [line for one in records(report, "changes") for line in _lost(one, sessions)]


def records(report: Json, key: str) -> list[Json]:
    """The objects in a list of a report; [] where it is none."""
    found = report.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _effect(change: Json) -> str:
    effect = str(change.get("effect") or "")
    match change.get("verb"):
        case "remove":
            return "stop, remove" if change.get("losses") else "remove"
        case "refuse":
            return "last good stays" if change.get("lastGood") else "nothing in force"
        case _:
            return effect


def _counted(changes: list[Json], *, done: bool) -> str:
    verbs = [one.get("verb") for one in changes]
    words = (_DONE if done else _PLANNED) | {verb: word for verb, word in _NOT_DONE.items() if verb in verbs}
    return ", ".join(f"{verbs.count(verb)} {word}" for verb, word in words.items()) + "."


def _held(report: Json, paint: columns.Paint) -> str:
    """What stays in force although the files say otherwise, and why: objects with one cause together. What
    an apply removes all the same has a line of its own.
    """
    told = {one.get("object") for one in records(report, "changes") if one.get("verb") == "remove"}
    causes: dict[str, list[str]] = {}
    for one in records(report, "held"):
        if one.get("object") not in told:
            causes.setdefault(str(one.get("message")), []).append(str(one.get("object")))
    return "".join(
        f"{paint('!', 'yellow')} {columns.shown(_named(names))}: in force still\n"
        f"{_INDENT}{columns.shown(message)}\n"
        for message, names in causes.items()
    )


def _behind(report: Json, paint: columns.Paint) -> str:
    """Which bindings do not serve yet as they are in force; of what is refused its own line tells."""
    told = {str(one.get("object")) for one in records(report, "changes") if one.get("verb") == "refuse"}
    return "".join(
        f"{paint('!', 'yellow')} {columns.shown(one.get('object'))}: {_LATE}\n"
        f"{_INDENT}{columns.shown(one.get('why'))}\n"
        for one in records(report, "lastGood")
        if one.get("object") not in told
    )


def _reaching(report: Json) -> str:
    agents = _part(report, "agents")
    reached, untouched = (len(_words(agents, key)) for key in ("reached", "untouched"))
    sessions = len(records(report, "sessions"))
    if not reached and not sessions:
        return ""
    told = f" Reaches {reached} of {columns.counted(reached + untouched, 'agent')}"
    return f"{told} and {columns.counted(sessions, 'open session')}." if sessions else f"{told}."


def _lines(change: Json, report: Json, sessions: dict[str, Json]) -> Iterator[str]:
    """What is told of one change; the first may start with ``=``: it stands beside the object."""
    if change.get("verb") == "refuse":
        yield from _refused(change, report)
    if change.get("verb") == "add" and change.get("object") in _words(report, "refusedBefore"):
        yield "it was refused before"
    if held := _part(change, "held"):
        yield f"{held.get('reason')}: {held.get('message')}"
    written = {str(one.get("key")) for one in records(change, "fields")}
    yield from (f"={line}" for line in _fields(change, "fields"))
    if files := _words(change, "files"):
        yield f"files  {_named(files)}"
    for route in records(change, "routes"):
        yield from _rerouted(route, written)
    yield from _of_instance(change)
    if deltas := [line for sort in _SORTS if (line := _delta(sort, _part(change, sort)))]:
        yield _JOIN.join(deltas)
    yield from _whom(change, sessions)


def _refused(change: Json, report: Json) -> Iterator[str]:
    for problem in records(report, "problems"):
        if problem.get("object") == change.get("object") and problem.get("severity") != "warning":
            place = f"{problem.get('file')}:{problem.get('line')}:{problem.get('column')}"
            yield f"={place}: {problem.get('code')}: {problem.get('what')}"


def _whom(change: Json, sessions: dict[str, Json]) -> Iterator[str]:
    agents = _words(change, "agents")
    if agents and [f"agent/{name}" for name in agents] != [change.get("object")]:
        yield f"next session of {_named(agents)}"
    if users := _words(change, "users"):
        yield f"used by {_named(users)}"
    yield from _staying(change, sessions)
    yield from _lost(change, sessions)


def _fields(change: Json, key: str) -> Iterator[str]:
    for one in records(change, key):
        name = str(one.get("key"))
        old, new = (_value(name, one.get(side)) for side in ("from", "to"))
        if _cut(old) != _cut(new):
            old, new = _cut(old), _cut(new)
        yield f"{name}: {old} → {new}"


def _value(key: str, value: object) -> str:
    if value is None:
        return "nothing" if key.startswith(_UNSET) else "(default)"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cut(value: str) -> str:
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def _rerouted(route: Json, written: set[str]) -> Iterator[str]:
    """What answers an interface now and then, unless the agent's own key says the same."""
    name = f"services.{route.get('interface')}"
    old, new = _part(route, "from"), _part(route, "to")
    if (
        not old
        or not new
        or (old.get("binding"), old.get("version"))
        != (
            new.get("binding"),
            new.get("version"),
        )
    ):
        if name not in written or not (old and new):
            yield f"{name}: {_answer(old)} → {_answer(new)}"
    elif old.get("instance") != new.get("instance"):
        yield f"{name}: {old.get('instance')} → {new.get('instance')}"
    if not old or not new:
        return
    if old.get("tools") != new.get("tools"):
        yield f"{name}: tools {_granted(old)} → {_granted(new)}"
    if old.get("maxCalls") != new.get("maxCalls"):
        yield f"{name}: maxCalls {old.get('maxCalls') or 'no limit'} → {new.get('maxCalls') or 'no limit'}"
    if old.get("unavailable") != new.get("unavailable"):
        why = new.get("unavailable")
        yield f"{name}: unavailable, {why}" if why else f"{name}: answers again"


def _answer(route: Json) -> str:
    return f"{route.get('binding')} ({route.get('version')})" if route else "nothing"


def _granted(route: Json) -> str:
    return ", ".join(_words(route, "tools")) if isinstance(route.get("tools"), list) else "all"


def _of_instance(change: Json) -> Iterator[str]:
    """Another instance in the place of one: its name, and what it is made of and bounded by."""
    instance = _part(change, "instance")
    old, new = instance.get("from"), instance.get("to")
    if old and new:
        yield f"{old} → {new}"
        made = [*_fields(instance, "making"), *_fields(change, "bounds")]
        if made:
            yield _JOIN.join(made)


def _delta(sort: str, delta: Json) -> str:
    gone = [f"{_MINUS} {one}" for one in _words(delta, "removed")]
    come = [f"+ {one}" for one in _words(delta, "added")]
    return "  ".join((sort, *_few([*gone, *come]))) if gone or come else ""


def _staying(change: Json, sessions: dict[str, Json]) -> Iterator[str]:
    """The open sessions that keep what they have, together where they hold the same of the same revision."""
    binding = str(change.get("object")).removeprefix("binding/")
    groups: dict[tuple[str, str, str], int] = {}
    for session in (sessions[one] for one in _words(change, "sessions") if one in sessions):
        pinned = [name for name in _words(session, "instances") if name.startswith(f"{binding}@")]
        revision = session.get("revision")
        key = (str(session.get("agent")), ", ".join(pinned), str(revision) if revision else "")
        groups[key] = groups.get(key, 0) + 1
    for (agent, held, revision), count in sorted(groups.items()):
        stay, end = ("stays", "it ends") if count == 1 else ("stay", "they end")
        since = tables.revision(revision) if revision else "a revision that was not written down"
        who = columns.counted(count, f"session of {agent}") if count == 1 else f"{count} sessions of {agent}"
        on = f"on {held} until {end}" if held else "as it is" if count == 1 else "as they are"
        yield f"{who} {stay} {on}, opened at {since}"


def _lost(change: Json, sessions: dict[str, Json]) -> Iterator[str]:
    for one in records(change, "losses"):
        name, why = str(one.get("name")), one.get("why")
        if one.get("sort") == "session":
            agent = sessions.get(name, {}).get("agent")
            yield f"session {name} of {agent}: {why}"
        else:
            yield f"{'agent/' if one.get('sort') == 'agent' else ''}{name}: {why}"


def _part(record: Json, key: str) -> Json:
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def _words(record: Json, key: str) -> list[str]:
    found = record.get(key)
    return [str(one) for one in found] if isinstance(found, list) else []


def _named(words: list[str]) -> str:
    return ", ".join(_few(words))


def _few(words: Iterable[str]) -> list[str]:
    every = list(words)
    return every if len(every) <= _MANY else [*every[:_MANY], f"and {len(every) - _MANY} more"]
