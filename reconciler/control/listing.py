"""Which files a commit has, submodules followed as a checkout follows them. No content is read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reconciler.control import checkouts, gitstore
from reconciler.control.checkouts import Checkout
from reconciler.control.repository import Where

_MAX_SUBMODULES = 4  # deep, one in the other


@dataclass(frozen=True, slots=True)
class Listed:
    """One file of a commit: the object's name, its mode (octal text), and the store that has it."""

    name: str
    mode: str
    store: gitstore.Store


def listing(where: Where, commit: str, wanted: Callable[[str, bool], bool]) -> dict[str, Listed] | None:
    """Every file of ``commit`` below the folder that ``where`` names, by path from there; None when it has no
    such folder.

    ``wanted`` is asked as ``gitstore.files`` asks it. A submodule whose commit is at hand is followed, else
    it stands as itself. Raises ``gitstore.Unanswered``.
    """
    return _listing(where, commit, wanted, 0)


def _listing(
    where: Where, commit: str, wanted: Callable[[str, bool], bool], depth: int
) -> dict[str, Listed] | None:
    if where.repository is None:
        return None
    store = checkouts.store(where.repository, commit)
    with gitstore.opened(store) as reader:
        found = gitstore.files(reader, commit, where.prefix, wanted)
    if found is None:
        return None
    listed: dict[str, Listed] = {}
    for path, entry in found.items():
        inner = _submodule(where.repository, f"{where.prefix}/{path}".lstrip("/")) if _is_one(entry) else None
        below = (
            _below(Where(inner), entry.name, path, wanted=wanted, depth=depth)
            if inner and depth < _MAX_SUBMODULES
            else None
        )
        listed.update({path: Listed(entry.name, entry.mode, store)} if below is None else below)
    return listed


def _is_one(entry: gitstore.Entry) -> bool:
    return entry.mode == gitstore.SUBMODULE


def _below(
    inner: Where, commit: str, path: str, *, wanted: Callable[[str, bool], bool], depth: int
) -> dict[str, Listed] | None:
    """A submodule's files; None when its commit is not there."""

    def asked(one: str, folder: bool) -> bool:  # noqa: FBT001 - as trees are gone through
        return wanted(f"{path}/{one}", folder)

    try:
        found = _listing(inner, commit, asked, depth + 1)
    except gitstore.Unanswered:
        return None
    return {f"{path}/{one}": listed for one, listed in (found or {}).items()}


def _submodule(outer: Checkout, path: str) -> Checkout | None:
    """The repository of the submodule at ``path`` from the top: its checkout's, or the one kept for it."""
    top = f"{outer.top}/{path}"
    found = checkouts.checkout(Path(top))
    if found is not None and found.top == top:
        return found
    kept = f"{outer.common_dir}/modules/{path}"
    return Checkout(kept, kept, top) if Path(kept, "HEAD").is_file() else None
