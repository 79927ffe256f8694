"""What a wish to write something for an agent's harness, or to remove it, comes to. Pure.

A wish is whole or not at all: where a person's own text is in the way, nothing is done and it is said. What
several users want of one file goes when the last of them does.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from reconciler.harness import merging
from reconciler.harness.harnesses import HARNESSES, Harness
from reconciler.harness.ledger import Ledger, Shared, User, Whole, digest
from reconciler.harness.merging import Entries, Ours, Theirs


@dataclass(frozen=True, slots=True)
class Wish:
    """What should be there for a user: entries in ``file`` (an absolute path), and whole files. None of both
    is a wish to have everything of the user's removed.
    """

    user: User
    file: str = ""
    entries: Entries = field(default_factory=dict)
    whole: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One file to write, or (``after`` is None) to remove."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that stays as it is: why, and what a person can do."""

    path: str
    why: str
    mend: str


Way = Literal["refuse", "force", "keep"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a wish comes to. Where anything is refused nothing is to be done."""

    changes: tuple[Change, ...]
    ledger: Ledger
    refusals: tuple[Refusal, ...]


_APART = "give each agent a project folder of its own (--into DIR)"
_FORCE = (
    "take that change back, or add --keep to leave it as it is and have it forgotten, or --force to have it "
    "written over or removed"
)


def together(ledger: Ledger, some: Iterable[Wish], found: Mapping[str, bytes | None], way: Way) -> Plan:
    """Several wishes as one: the next is about what the one before leaves, and each file changes once."""
    now, refusals = dict(found), dict[tuple[str, str], Refusal]()
    for wish in some:
        made = plan(ledger, wish, now, way)
        ledger = made.ledger
        now |= {one.path: one.after for one in made.changes}
        refusals |= {(one.path, one.why): one for one in made.refusals}
    changes = tuple(Change(path, found[path], after) for path, after in now.items() if after != found[path])
    return Plan(changes, ledger, tuple(refusals.values()))


def plan(ledger: Ledger, wish: Wish, found: Mapping[str, bytes | None], way: Way = "refuse") -> Plan:
    """The changes that make a wish true; ``found`` holds the bytes of every file that ``touched`` names.

    What a person wrote or changed is in the ``way``: it is refused, or written over, or kept as it is: then
    it is that person's until it is gone, or written over by wish.
    """
    changes: list[Change] = []
    refusals: list[Refusal] = []
    shared, whole, kept = dict(ledger.shared), dict(ledger.whole), dict(ledger.kept)
    for path in touched(ledger, wish):
        try:
            made: Shared | Whole | None
            if path in ledger.shared or path == wish.file:
                left = ledger.kept.get(path, ())
                after, made, theirs = _shared(ledger.shared.get(path), wish, (path, found[path]), (way, left))
                _put(shared, path, made)
                _put(kept, path, theirs or None)
            else:
                left_whole: Way = "keep" if way == "refuse" and path in ledger.kept else way
                after, made = _whole(ledger.whole.get(path), wish, (path, found[path]), left_whole)
                _put(whole, path, made)
                _put(kept, path, () if made is None and after != wish.whole.get(path) else None)
        except _Refused as refused:
            refusals.append(Refusal(path, refused.why, refused.mend))
            continue
        if after != found[path]:
            changes.append(Change(path, found[path], after))
    made_of = replace(ledger, shared=shared, whole=whole, kept=kept)
    return Plan(tuple(changes), _without_remains(made_of, wish), tuple(refusals))


def _without_remains(ledger: Ledger, wish: Wish) -> Ledger:
    """Where nothing of anybody is left in a project, nobody has to know whose the rest is."""
    project = wish.user.project
    users = {user for one in ledger.shared.values() for user in one.by}
    users |= {user for held in ledger.whole.values() for user in held.by}
    if wish.entries or wish.whole or any(user.project == project for user in users):
        return ledger
    kept = {path: names for path, names in ledger.kept.items() if not path.startswith(f"{project}/")}
    return replace(ledger, kept=kept)


def touched(ledger: Ledger, wish: Wish) -> list[str]:
    """The files that a wish is about, sorted: those it names, and those that were written for its user."""
    named = {wish.file} if wish.entries else set()
    return sorted(named | wish.whole.keys() | set(ledger.paths(wish.user)))


def drifted(ledger: Ledger, found: Mapping[str, bytes | None]) -> Iterator[tuple[str, str, tuple[User, ...]]]:
    """The files that are not as they were left: the path, how, and whose they are."""
    for path, one in ledger.shared.items():
        if why := _odd_shared(one, found.get(path)):
            yield path, why, tuple(one.by)
    for path, held in ledger.whole.items():
        data = found.get(path)
        if data is None:
            yield path, "it is gone", held.by
        elif digest(data) != held.digest:
            yield path, "it was changed", held.by


class _Refused(Exception):  # noqa: N818 - a fact about a file
    def __init__(self, why: str, mend: str) -> None:
        super().__init__(why)
        self.why, self.mend = why, mend


def _put(held: dict[str, Any], path: str, made: Shared | Whole | tuple[str, ...] | None) -> None:
    if made is None:
        held.pop(path, None)
    else:
        held[path] = made


def _shared(
    was: Shared | None, wish: Wish, at: tuple[str, bytes | None], left: tuple[Way, tuple[str, ...]]
) -> tuple[bytes | None, Shared | None, tuple[str, ...]]:
    """What becomes of the file, what is remembered of it, and the servers in it that a person keeps."""
    (path, data), (way, kept) = at, left
    by = dict(was.by) if was else {}
    by.pop(wish.user, None)
    if path == wish.file and wish.entries:
        _refuse_others(by, wish)
        by[wish.user] = wish.entries
    union: Entries = {
        name: entry for user in by for name, entry in _wanted(by[user], was, own=user == wish.user).items()
    }
    row = HARNESSES[wish.user.harness if path == wish.file else was.harness if was else wish.user.harness]
    ours = was.ours if was else Ours()
    try:
        found: tuple[str, ...] = ()
        if way != "force":
            only = None if way == "keep" else kept
            union, ours, found = merging.without_theirs(row, data, union, ours, only=only)
        after, ours = merging.merged(row, data, union, ours, force=way == "force")
    except Theirs as theirs:
        raise _Refused(_whose(row, theirs), _FORCE) from None
    except ValueError as fault:
        raise _Refused(f"cannot change it: {fault}", "mend the file; nothing was written") from None
    held = Shared(row.word, by, ours) if by and ours.entries else None
    wanted = {name for entries in by.values() for name in entries}
    still = {one for one in kept if was is None or merging.is_one_of(one, wanted)} | {*found}
    return after, held, tuple(sorted(one for one in still if not merging.is_one_of(one, ours.entries)))


def _wanted(entries: Entries, was: Shared | None, *, own: bool) -> Entries:
    """What a user's entries are written as: what somebody else's has of a person's is left to that person."""
    if own or was is None:
        return entries
    return {name: entry for name, entry in entries.items() if name in was.ours.entries}


def _refuse_others(by: Mapping[User, Entries], wish: Wish) -> None:
    for user, entries in by.items():
        for name, entry in entries.items():
            if wish.entries.get(name, entry) != entry:
                raise _Refused(
                    f"the server '{name}' in it is of agent '{user.agent}'",
                    _APART,
                )


def _whose(row: Harness, theirs: Theirs) -> str:
    foreign = [f"the server '{name}' in it is not ours" for name in theirs.foreign]
    edited = [f"the server '{name}' in it was changed since it was written" for name in theirs.edited]
    return "; ".join(foreign + edited)


def _whole(
    was: Whole | None, wish: Wish, at: tuple[str, bytes | None], way: Way
) -> tuple[bytes | None, Whole | None]:
    path, data = at
    others = tuple(user for user in was.by if user != wish.user) if was else ()
    wanted = wish.whole.get(path)
    untouched = was is not None and data is not None and digest(data) == was.digest
    if wanted is None:
        if others and was:
            return data, replace(was, by=others)
        if data is not None and not untouched and way != "force":
            return _kept(data, way, "it was changed since it was written")
        return None, None
    if data == wanted:
        return data, Whole(digest(wanted), (*others, wish.user)) if was else None
    if others and was and digest(wanted) != was.digest:
        raise _Refused(
            f"agent '{others[0].agent}' has another version of it",
            _APART,
        )
    if data is not None and not untouched and way != "force":
        return _kept(data, way, "it was changed since it was written" if was else "it is not ours")
    return wanted, Whole(digest(wanted), (*others, wish.user))


def _kept(data: bytes, way: Way, why: str) -> tuple[bytes, None]:
    """A person's file stays as it is and is not remembered, where that is wished."""
    if way != "keep":
        raise _Refused(why, _FORCE)
    return data, None


def _odd_shared(one: Shared, data: bytes | None) -> str:
    if data is None:
        return "it is gone"
    try:
        there = merging.standing(HARNESSES[one.harness], data)
    except ValueError as fault:
        return f"it cannot be read: {fault}"
    gone = [name for name in one.ours.entries if name not in there]
    other = [name for name, entry in one.ours.entries.items() if name in there and there[name] != entry]
    told = [f"the server '{name}' was removed from it" for name in gone]
    return "; ".join(told + [f"the server '{name}' in it was changed" for name in other])
