"""What ``diff`` and ``apply`` answer: two sides side by side, with what runs, as one report.

The older side is what is in force, or a commit; the newer one the configuration as an explicit apply would
decide it, or a commit. What only a person's apply does, and the loop alone would not, is told. A side that
cannot be read ends the comparison (OSError with the reason): a report is whole or there is none. Nothing here
takes a lock, writes, or changes what a looker remembers.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reconciler.control import commits, say
from reconciler.control.admitted import Admitted
from reconciler.control.looking import Look, Looker
from reconciler.control.place import Place
from reconciler.control.sessions import Session
from reconciler.control.source import Gone
from reconciler.model.inventory import Tree
from reconciler.model.names import InstanceName, ObjectRef
from reconciler.model.problems import Problem, Severity
from reconciler.model.status import Held
from reconciler.plan import blast
from reconciler.plan.impact import Side, Waits, impact
from reconciler.plan.losses import NOTHING as NOTHING_RUNS
from reconciler.plan.losses import Live, Open

NOBODY: Mapping[Any, Any] = MappingProxyType({})


def side(look: Look | None) -> Side | None:
    """A decided look as one of two sides."""
    return Side(look.admission, look.desired) if look else None


def live(
    sessions: Iterable[Session],
    running: Collection[str] = (),
    unproven: Mapping[InstanceName, str] = NOBODY,
) -> Live:
    """What runs, as a comparison needs it: ``running`` names the instances that have a process, ``unproven``
    those that are to replace one that serves, and why they do not yet.
    """
    behind = {name.binding: why for name, why in unproven.items()}
    return Live(tuple(_open(one) for one in sessions), frozenset(running), behind)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is compared: the configuration as it is, or the commit that ``rev`` means; ``prune_all``: as an
    apply that may remove everything.
    """

    rev: str = ""
    prune_all: bool = False


NOTHING = Wish()


def preview(looker: Looker, runs: Live, wish: Wish = NOTHING, tree: Tree | None = None) -> dict[str, Any]:
    """What an apply of the configuration (or of ``tree``) would change, by what ``looker`` has in force;
    raises OSError when it cannot be read as a whole.
    """
    before = looker.last
    if wish.rev and tree is None:
        tree = committed(looker.source.root, wish.rev)
    look = readable(looker.preview(tree, prune_all=wish.prune_all))
    return report(before, look, runs, looker.would_wait(look, _in_use(runs)))


def unmoved(looker: Looker, expected: str) -> None:
    """Raise OSError where the configuration is not at the revision that a person was shown and agreed to."""
    found = readable(looker.preview()).admission.inventory.revision if expected else ""
    if found != expected:
        raise OSError("the configuration changed since it was shown, and nothing was applied: look again")


def between(place: Place, older: str, newer: str) -> dict[str, Any]:
    """What lies between two commits of a configuration, whatever runs: no session is part of it. Raises
    OSError when one of them cannot be read as a whole.
    """
    looker = Looker(place, Admitted(place.state / "admitted"))
    looker.first(committed(place.config, older))
    told = preview(looker, NOTHING_RUNS, tree=committed(place.config, newer))
    return {**told, "applied": False, "ready": False}


def committed(config: Path, rev: str) -> Tree:
    """The configuration at the commit that ``rev`` means; OSError with why there is none."""
    commit = commits.resolve(config, rev)
    found = commit if isinstance(commit, Gone) else commits.tree(commit)
    if isinstance(found, Gone):
        raise OSError(f"{rev[:80]!r} cannot be compared: {found.detail}")
    return found


def report(
    before: Look | None, look: Look, runs: Live, waits: Mapping[ObjectRef, Held] = NOBODY
) -> dict[str, Any]:
    """A decided look as ``apply`` and ``diff`` answer it. ``waits``: what would be held back were this tree
    only saved; what waits for an explicit apply is told.
    """
    asked = {ref: why for ref, why in waits.items() if why.reason == "AwaitingApply" and ref not in look.held}
    told = Waits(look.held, asked)
    old, new = side(before), Side(look.admission, look.desired)
    changes = impact(old, new, runs, told)
    return {
        **blast.as_json((old, new), runs, told, changes),
        "problems": [
            say.problem_json(problem) for problem in look.admission.problems if _is_of(problem, look)
        ],
        "refused": sorted(str(ref) for ref in look.admission.refused),
        "waiting": sorted(str(ref) for ref in look.held),
    }


def _is_of(problem: Problem, look: Look) -> bool:
    """Whether a problem is one of the files as they are: what only its last form keeps in force has none."""
    return problem.severity is Severity.ERROR or problem.about not in look.held


def readable(found: object) -> Look:
    """A look, or OSError with why there is none."""
    if isinstance(found, Look):
        return found
    raise OSError(f"the configuration cannot be read now: {getattr(found, 'detail', found)}")


def _open(session: Session) -> Open:
    return Open(
        session.id,
        session.agent,
        session.revision,
        session.generation,
        frozenset(route.instance for route in session.routes.every()),
        frozenset(str(route.interface) for route in session.routes.every()),
        session.standing,
    )


def _in_use(runs: Live) -> Collection[str]:
    return {name.binding for one in runs.sessions for name in one.instances}
