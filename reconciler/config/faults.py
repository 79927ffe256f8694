"""What is wrong with the keys and values of one file, found by its model and told one problem a key.

pydantic reports each form of a choice that failed, and a misspelt key twice: as unknown, and as missing. Here
that becomes one fault with one place; ``config.words`` says it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.config import words
from reconciler.config.words import Fault, Subject
from reconciler.model import twins
from reconciler.model.problems import Path, Problem

_MAX_LOOKED_UP = 50  # misspelt keys of one file whose nearest name is looked for: it costs 0.1 ms each


def problems(subject: Subject) -> Iterator[Problem]:
    """Every fault that its model finds in a file, one problem for each key."""
    details = twins.errors(subject.row.model, subject.values)
    faults = [_fault(subject.values, one["loc"], one["type"], one.get("ctx", {})) for one in details]
    unknown = [fault.path for fault in faults if fault.word == "extra_forbidden"]
    nearest = {path: words.nearest_key(subject, path) for path in unknown[:_MAX_LOOKED_UP]}
    meant = {(*path[:-1], near) for path, near in nearest.items() if near}
    told: set[tuple[Path, bool]] = set()
    for fault in _settled(faults):
        one = (fault.path, fault.on_key)
        if one in told or (fault.word == "missing" and fault.path in meant):
            continue  # one cause, one problem
        told.add(one)
        yield words.told(fault, subject, nearest.get(fault.path))


# from pydantic's errors to faults


def _fault(values: object, loc: Sequence[str | int], word: str, bounds: Mapping[str, Any]) -> Fault:
    """Walk the values along an error's location; what is no step in them names a form of a choice."""
    path: Path = ()
    choices = set()
    here: Any = values
    for number, part in enumerate(loc, 1):
        if number == len(loc) and word in ("missing", "extra_forbidden"):
            path = (*path, part)
        elif _is_step(here, part):
            path, here = (*path, part), here[part]
        elif part != "[key]":
            choices.add(path)
    on_key = word == "extra_forbidden" or "[key]" in loc
    return Fault(path, word, bounds, on_key, frozenset(choices))


def _is_step(here: object, part: str | int) -> bool:
    if isinstance(here, dict):
        return part in here
    return isinstance(here, list) and isinstance(part, int) and part < len(here)


def _settled(faults: Sequence[Fault]) -> Iterator[Fault]:
    """The faults without those of a choice's forms that were never meant.

    A value that has the type of one form is judged by that form alone; where it has the type of none, the
    forms become one fault that expects any of them.
    """
    meant = {
        choice
        for fault in faults
        for choice in fault.choices
        if fault.path != choice or fault.word not in words.MISMATCH
    }
    expected: dict[Path, list[str]] = {}
    for fault in faults:
        if fault.word in words.MISMATCH:
            expected.setdefault(fault.path, []).append(words.MISMATCH[fault.word])
    for fault in faults:
        if fault.word not in words.MISMATCH:
            yield fault
        elif fault.path not in fault.choices or fault.path not in meant:
            yield fault.expecting(tuple(dict.fromkeys(expected[fault.path])))
