"""What became of the files that ``handler render --write`` wrote for harnesses: told, never put right.

They are other people's files: an entry that somebody edited may be meant so, so what puts it right is a
command, which the message names. Looking costs one ``stat`` a file; only what looks otherwise is read.
"""

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.control import harnessfiles
from reconciler.control.drift import Found
from reconciler.harness import harnesses, wishes
from reconciler.harness.harnesses import HARNESSES, Harness
from reconciler.harness.ledger import Ledger, User
from reconciler.harness.merging import Entries
from reconciler.model.names import Kind, ObjectRef

Served = Mapping[
    str, Mapping[str, float]
]  # of each agent with routes: interfaces, and seconds that a call may take
_Look = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class _Odd:
    """One file that is not as it was left, how, and for whom it was written."""

    path: str
    how: str
    users: tuple[User, ...]


class HarnessDrift:
    """Looks after the files that a state folder remembers."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._record = str(state / "harness" / "written.json")
        self._look: _Look | None = None
        self._ledger = Ledger()
        self._odd: tuple[_Odd, ...] = ()

    def is_idle(self) -> bool:
        """True when nothing was ever written, so that nobody has to ask what serves."""
        return not self._ledger.shared and not self._ledger.whole and _look(self._record) is None

    def found(self, agents: Collection[str], served: Served) -> list[Found]:
        """What there is to tell; ``agents`` are those in force. For a thread: it waits for the disk."""
        look = self._looks()
        if look != self._look:
            self._read()
            self._look = self._looks()
        return [*self._edited(agents), *self._behind(agents, served)]

    def _looks(self) -> _Look:
        return tuple(map(_look, (self._record, *self._ledger.shared, *self._ledger.whole)))

    def _read(self) -> None:
        try:
            self._ledger = harnessfiles.read(self._state)
        except (harnessfiles.Unfit, OSError):
            self._ledger, self._odd = Ledger(), ()  # `handler render` says what is wrong with it
            return
        held = {path: _data(path) for path in (*self._ledger.shared, *self._ledger.whole)}
        self._odd = tuple(_Odd(*one) for one in wishes.drifted(self._ledger, held))

    def _edited(self, agents: Collection[str]) -> Iterator[Found]:
        for odd in self._odd:
            about = tuple(ObjectRef(Kind.AGENT, name) for name in _names(odd.users) if name in agents)
            if about:
                message = f"{odd.path}: {odd.how}"
                yield _told(
                    message, about, _mend(odd.users[0], "--write --force", "--keep in place of --force")
                )

    def _behind(self, agents: Collection[str], served: Served) -> Iterator[Found]:
        """Files that name other services than the agent has now, or name them otherwise."""
        odd = {one.path for one in self._odd}
        for path, shared in self._ledger.shared.items():
            for user, entries in shared.by.items():
                if user.agent not in agents:
                    message = f"{path}: agent '{user.agent}', for whom it was written, is no more"
                    yield _told(message, (), _mend(user, "--remove"))
                elif path not in odd and user.agent in served:
                    about = (ObjectRef(Kind.AGENT, user.agent),)
                    for how in _differences(HARNESSES[shared.harness], entries, served[user.agent]):
                        yield _told(f"{path}: {how}", about, _mend(user, "--write"))


def _differences(row: Harness, written: Entries, served: Mapping[str, float]) -> Iterator[str]:
    for name in sorted(served.keys() - written.keys()):
        yield f"the server '{name}' is not in it yet"
    for name in sorted(written.keys() - served.keys()):
        yield f"the server '{name}' in it is not served any more"
    for name in sorted(written.keys() & served.keys()):
        if not _is_current(row, name, written[name], served[name]):
            yield f"the server '{name}' would be written otherwise now"


def _is_current(row: Harness, name: str, entry: Any, timeout_s: float) -> bool:
    try:
        return bool(harnesses.again(row, name, entry, timeout_s) == entry)
    except (LookupError, TypeError, AttributeError):
        return False  # somebody edited what is remembered


def _names(users: tuple[User, ...]) -> list[str]:
    return list(dict.fromkeys(user.agent for user in users))


def _told(message: str, about: tuple[ObjectRef, ...], hint: str) -> Found:
    """What is told and never put right; what is of no agent any more is the controller's to tell."""
    return Found("HarnessEdited", message, about, _left, own=not about, hint=hint)


async def _left() -> str:
    return "it is never written over by itself"


def _mend(user: User, act: str, keep: str = "") -> str:
    """What a person can type: ``act`` puts it right, ``keep`` has it left as it is from now on."""
    harness = "" if act == "--remove" else f" --harness {user.harness}"
    words = f"handler render {user.agent}{harness} {act} --into {shlex.quote(user.project)}"
    told = f"`{words}` puts it right"
    return f"{told}; {keep} leaves it as it is, as yours" if keep else told


def _data(path: str) -> bytes | None:
    try:
        return harnessfiles.data(Path(path))
    except (harnessfiles.Unfit, OSError):
        return None


def _look(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - one of many
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
