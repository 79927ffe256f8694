"""What was written into other people's files, and for whom, as it is remembered. Pure.

Two sorts of file are kept apart: *shared* ones hold a person's own text besides ours (``merging``); *whole*
ones are ours alone (a skill, a plugin). A user is an agent, a harness and a project; of one file there may be
several. What a wish to write or to remove comes to is decided in ``wishes``.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.harness.harnesses import HARNESSES
from reconciler.harness.merging import Entries, Ours

FORMAT = "handler.harness/v1"


@dataclass(frozen=True, slots=True)
class User:
    """Whom something was written for; ``project`` is an absolute path."""

    agent: str
    harness: str
    project: str


@dataclass(frozen=True, slots=True)
class Shared:
    """A file with entries of ours in it: its harness's word, and each user's entries."""

    harness: str
    by: Mapping[User, Entries]
    ours: Ours


@dataclass(frozen=True, slots=True)
class Whole:
    """A file of ours: the digest of what was written, and its users."""

    digest: str
    by: tuple[User, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything that was written, by absolute path, and the folders that were made for it.

    ``kept`` is what a person said is theirs: the servers in a file; () where the whole file is.
    """

    shared: Mapping[str, Shared] = field(default_factory=dict)
    whole: Mapping[str, Whole] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def paths(self, user: User) -> list[str]:
        """The files that something was written into for a user."""
        held = [path for path, one in self.shared.items() if user in one.by]
        return held + [path for path, one in self.whole.items() if user in one.by]

    def users(self, agent: str, project: str) -> list[User]:
        """For which harnesses something of an agent is in a project."""
        by = [user for one in self.shared.values() for user in one.by]
        by += [user for held in self.whole.values() for user in held.by]
        return [user for user in dict.fromkeys(by) if (user.agent, user.project) == (agent, project)]


def digest(data: bytes) -> str:
    """The digest by which a whole file is known again."""
    return hashlib.sha256(data).hexdigest()


# as it lies in a file


def as_json(ledger: Ledger) -> dict[str, Any]:
    """The ledger as JSON values."""
    return {
        "apiVersion": FORMAT,
        "shared": {
            path: {
                "harness": one.harness,
                "by": [
                    {"user": _user_json(user), "entries": dict(entries)} for user, entries in one.by.items()
                ],
                "entries": dict(one.ours.entries),
                "made": one.ours.made,
                "depth": one.ours.depth,
                "gaps": dict(one.ours.gaps),
            }
            for path, one in ledger.shared.items()
        },
        "whole": {
            path: {"sha256": one.digest, "by": [_user_json(user) for user in one.by]}
            for path, one in ledger.whole.items()
        },
        "folders": list(ledger.folders),
        "kept": {path: list(names) for path, names in ledger.kept.items()},
    }


def from_json(value: Any) -> Ledger:
    """Read what ``as_json`` gave; raises KeyError, TypeError or ValueError when it is not that."""
    if value["apiVersion"] != FORMAT:
        raise ValueError("it has another format")
    return Ledger(
        shared={path: _shared_from(one) for path, one in value["shared"].items()},
        whole={
            path: Whole(str(one["sha256"]), tuple(_users(one["by"]))) for path, one in value["whole"].items()
        },
        folders=tuple(map(str, value["folders"])),
        kept={path: tuple(map(str, names)) for path, names in value.get("kept", {}).items()},
    )


def _shared_from(value: Any) -> Shared:
    if value["harness"] not in HARNESSES:
        raise ValueError("it names a harness that is none")
    by = {_user(one["user"]): dict(one["entries"]) for one in value["by"]}
    ours = Ours(dict(value["entries"]), bool(value["made"]), int(value["depth"]), dict(value["gaps"]))
    return Shared(value["harness"], by, ours)


def _user_json(user: User) -> dict[str, str]:
    return {"agent": user.agent, "harness": user.harness, "project": user.project}


def _users(values: Iterable[Any]) -> Iterator[User]:
    return map(_user, values)


def _user(value: Any) -> User:
    return User(str(value["agent"]), str(value["harness"]), str(value["project"]))
