"""A chain's values before they are judged: without what says nothing, and with a word on what nobody reads.

``null`` is a key that is left out, as other engines of the format have it, and a key that begins with two
slashes is a comment. A key that is unknown and like a known one is left in place, to be refused: a misspelt
``tools_policies`` would silently take bounds away. One that is like none is told.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from reconciler.model.chain import Branch, Chain, ExecuteConfig, RetryPolicy, StaticTool, Task, Transition
from reconciler.model.names import ObjectRef
from reconciler.model.problems import Path, Problem, Severity, Span, key_path, quoted
from reconciler.model.records import Record

_UNREAD = "H237"
_LIKE = 0.7  # how near a misspelt key is to the one that was meant; the same as for every other kind
_INSIDE: Mapping[type[Record], Mapping[str, type[Record]]] = {
    Chain: {"tasks": Task},
    Task: {"execute_config": ExecuteConfig, "tools": StaticTool, "transition": Transition},
    ExecuteConfig: {"retry_policy": RetryPolicy},
    Transition: {"branches": Branch},
}

_MODELS: tuple[type[Record], ...] = (*_INSIDE, RetryPolicy, StaticTool, Branch)
_ALL = {alias for model in _MODELS for alias in model.aliases.values()}


def read(
    values: Mapping[str, Any], file: str, about: ObjectRef | None
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """The values to be judged, and a warning for each key that says nothing here, without a place yet."""
    unread: list[Path] = []
    kept = _table(values, Chain, (), unread)
    return kept, tuple(_warning(path, file, about) for path in unread)


def _table(values: Mapping[str, Any], model: type[Record], path: Path, unread: list[Path]) -> dict[str, Any]:
    known, inside = set(model.aliases.values()), _INSIDE.get(model, {})
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if value is None or key.startswith("//"):
            continue
        if key not in known and not _like(key, _ALL):
            unread.append((*path, key))
            continue
        kept[key] = _value(value, inside.get(key), (*path, key), unread)
    return kept


def _value(value: Any, model: type[Record] | None, path: Path, unread: list[Path]) -> Any:
    if model is None:
        return value
    if isinstance(value, dict):
        return _table(value, model, path, unread)
    if isinstance(value, list):
        return [_value(one, model, (*path, at), unread) for at, one in enumerate(value)]
    return value


def _like(key: str, known: set[str]) -> bool:
    folded = {one.replace("_", "") for one in known}
    plain = key.replace("_", "").replace("-", "").casefold()
    return bool(difflib.get_close_matches(plain, folded, n=1, cutoff=_LIKE))


def _warning(path: Path, file: str, about: ObjectRef | None) -> Problem:
    above = key_path(path[:-1]) or "a chain"
    return Problem(
        _UNREAD,
        f"{quoted(path[-1])} says nothing here",
        f"it is no key of {above}; another engine of the format may read it",
        "remove it, or leave it to the other",
        Span(file),
        path,
        Severity.WARNING,
        about,
        reason="UnknownField",
        on_key=True,
    )
