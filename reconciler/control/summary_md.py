"""``summary.md``: the status as a page that people can paste into an issue or a chat. Pure.

What is not as it should be comes first, with its place in a file, since when, and how to mend it; then what
is held back, then counts. Every word of a file or a message is escaped, so that nobody's text becomes markup
or a link. It grows with what is wrong, not with the configuration, and each table has a bound.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.model.status import Condition, ObjectStatus, Summary

_MOST = 100  # rows of a table: a page is read by people
_HELD = ("AwaitingApply", "PruneBlocked", "Flapping")
_MARKUP = frozenset("\\`*_[]<>|~&#")
_WORDS = {"True": "ready, by an earlier form", "False": "not ready", "Unknown": "not known"}

_WITHIN = ("builtin", "cassette", "dialect")  # runtimes that have no process, as on the screen
_ORDER = tuple(_WORDS[truth] for truth in ("False", "Unknown", "True"))

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Row:
    """An object that is not as it should be."""

    state: str
    why: str
    where: str
    since: str
    held: str  # why its last form is kept although its file says otherwise, or ""
    mend: str


class Page:
    """What the page tells of the objects, kept up to date one by one."""

    def __init__(self) -> None:
        self._rows: dict[Key, _Row] = {}

    def note(self, status: ObjectStatus, conditions: Iterable[Condition]) -> None:
        """Take in what is told of an object now."""
        key, row = (status.kind, status.name), _row(status, {one.type: one for one in conditions})
        if row is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._rows.pop(key, None)

    def text(self, summary: Summary, conditions: Iterable[Condition], counts: Mapping[str, int]) -> str:
        """The page, but for when that was; ``counts`` has every object by kind."""
        told = self._rows.items()
        if summary.controller is None:  # nothing runs, so nothing more is known of what is admitted
            told = {key: row for key, row in told if row.state != _WORDS["Unknown"]}.items()
        rows = sorted(told, key=lambda item: (_ORDER.index(item[1].state), item[0]))
        parts = [
            f"# Handler: {escaped(summary.configuration)}\n",
            _headline(summary, len(rows), sum(counts.values())),
            *(_source(one) for one in conditions),
            _table(("object", "state", "why", "where", "since"), [_cells(key, row) for key, row in rows]),
            _mends(rows, summary),
            _titled(
                "Held back", ("object", "why"), ([_name(key), row.held] for key, row in rows if row.held)
            ),
            _titled("Files that are no object", ("where", "what"), map(_stray, summary.problems)),
            _titled("Objects", ("kind", "all", "fine"), _counted(counts, dict(rows))),
            _titled("Instances", ("instance", "phase", "pid", "restarts"), map(_instance, summary.instances)),
        ]
        return "\n".join(part for part in parts if part)


def escaped(text: object) -> str:
    """A text as Markdown that renders as it, on one line: nothing in it is markup or a link."""
    return (
        "".join(map(_escape, " ".join(str(text).split()))).replace("://", ":\\//").replace("www.", "www\\.")
    )


def _escape(ch: str) -> str:
    if ch in _MARKUP:
        return f"\\{ch}"
    if ch.isprintable():
        return ch
    return ch.encode("unicode_escape").decode().replace("\\", "\\\\")  # shown, and its backslash, too


def _row(status: ObjectStatus, conditions: Mapping[str, Condition]) -> _Row | None:
    ready, synced = conditions.get("Ready"), conditions.get("Synced")
    late = synced is not None and synced.status == "False"
    if ready is not None and ready.status == "True" and not late:
        return None
    first: Mapping[str, Any] = status.problems[0] if status.problems else {}
    told = synced if late and ready is not None and ready.status == "True" else ready
    file = str(first.get("file") or status.file)
    where = f"{file}:{first['line']}:{first.get('column')}" if first.get("line") else file
    held = synced.message if synced is not None and synced.reason in _HELD else ""
    return _Row(
        state=_WORDS[ready.status if ready else "Unknown"],
        why=f"{told.reason}: {told.message}".rstrip(": ") if told else "",
        where=where,
        since=told.since if told else "",
        held=held,
        mend=str(first.get("mend") or ""),
    )


def _headline(summary: Summary, wrong: int, whole: int) -> str:
    revision = summary.serving or summary.last_applied
    facts = [f"revision {escaped(revision)}" if revision else "nothing was applied yet"]
    if summary.last_attempted and summary.last_attempted != revision:
        facts.append(f"newest {escaped(summary.last_attempted)}")
    facts.append(f"generation {summary.generation}")
    facts.append(_controller(summary.controller))
    good = "ready" if summary.controller else "admitted; nothing runs until handlerd does"
    state = f"All {whole} objects are {good}." if whole > 1 else f"The one object is {good}."
    if not whole:
        blind = any(one.status == "False" for one in summary.conditions)
        state = "Nothing is in force yet." if blind else "The configuration is empty."
    elif wrong:
        verb, word = "is" if wrong == 1 else "are", good.partition(";")[0]
        state = f"{wrong} of {whole} objects {verb} not {word} in the newest form."
    return f"{' · '.join(facts)}\n\n**{state}**\n"


def _controller(found: Mapping[str, Any] | None) -> str:
    if not found:
        return "no controller"
    return f"handlerd {escaped(found.get('version', ''))} (pid {escaped(found.get('pid', '?'))})"


def _source(one: Condition) -> str:
    """A condition of the whole that has something to say."""
    if one.status == "True" and not one.message:
        return ""
    return f"{one.type} {one.status}, {escaped(f'{one.reason}: {one.message}'.rstrip(': '))}\n"


def _cells(key: Key, row: _Row) -> list[str]:
    return [_name(key), row.state, row.why, row.where, row.since]


def _name(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def _mends(rows: list[tuple[Key, _Row]], summary: Summary) -> str:
    """What to do, one line a place; one cause that stops many is told once."""
    found = [(row.where, row.mend) for _, row in rows if row.mend]
    found += [(_stray(one)[0], str(one["mend"])) for one in summary.problems if one.get("mend")]
    lines = list(dict.fromkeys(f"- {escaped(where)}: {escaped(mend)}\n" for where, mend in found))
    return "".join(["## What to do\n\n", *lines[:_MOST], _more(len(lines))]) if lines else ""


def _stray(one: Mapping[str, Any]) -> list[str]:
    file, line = str(one.get("file", "")), one.get("line")
    return [f"{file}:{line}:{one.get('column')}" if line else file, f"{one.get('code')}: {one.get('what')}"]


def _counted(counts: Mapping[str, int], wrong: Iterable[Key]) -> list[list[str]]:
    late = Counter(kind for kind, _ in wrong)
    return [[kind, str(count), str(count - late[kind])] for kind, count in sorted(counts.items())]


def _instance(one: Mapping[str, Any]) -> list[str]:
    phase, lives = one.get("phase"), bool(one.get("pid"))
    if phase in ("ready", "idle") and lives:
        phase = "running"  # as the screen says it
    elif phase == "declared" and not lives:
        phase = "in the controller" if one.get("runtime") in _WITHIN else "stopped"
    facts = [one.get("name"), phase, one.get("pid"), one.get("restarts")]
    return ["" if fact is None else str(fact) for fact in facts]


def _titled(title: str, head: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    table = _table(head, list(rows))
    return f"## {title}\n\n{table}" if table else ""


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *([escaped(cell) for cell in row] for row in rows[:_MOST])]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + _more(len(rows))


def _more(count: int) -> str:
    return f"\n… and {count - _MOST} more\n" if count > _MOST else ""
