"""What a harness is told of an agent's services, for one run: files, arguments, variables. Pure.

For ``handler run``: nothing of a person's is edited. The files go into a private folder of the session, the
arguments after the harness's own program, the variables into its environment.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from reconciler.harness.harnesses import HARNESSES, Harness, Service, Session

_MARK = re.compile(r"\{(?:file|folder|skills|servers)\}")


@dataclass(frozen=True, slots=True)
class Skill:
    """A text that tells a model how to use an interface: the bytes of its ``SKILL.md``."""

    name: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Rendered:
    """What one run of a harness needs. ``files`` are by path below the private folder; ``program`` is what
    starts the harness, and after it ``arguments`` stand.
    """

    program: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def rendered(harness: str, services: Sequence[Service], skills: Sequence[Skill], folder: str) -> Rendered:
    """What a run of ``harness`` (a word of ``agent.harness``) needs; ``folder`` is private, and absolute.

    Nothing for ``none`` and for a harness that has no way to be told for one run. Raises ValueError for a
    word that is no harness.
    """
    if harness == "none":
        return Rendered()
    if harness not in HARNESSES:
        raise ValueError(f"'{harness}' is no harness: write one of {', '.join(HARNESSES)}")
    row = HARNESSES[harness]
    if row.session is None:
        return Rendered(row.program)
    return _for_session(row, row.session, services, (skills, folder))


def command(told: Rendered, words: Sequence[str]) -> tuple[str, ...] | None:
    """A command line with the arguments after its program: ``words``, or the harness's own program where
    there are none.

    None where the program is another one than the harness's, so that its arguments have no place: a wrapper,
    say. Variables reach it all the same.
    """
    if not words:
        return (told.program, *told.arguments) if told.program else None
    if not told.arguments:
        return tuple(words)
    if PurePosixPath(words[0]).name != told.program:
        return None
    return (words[0], *told.arguments, *words[1:])


def document(row: Harness, services: Sequence[Service]) -> dict[str, Any]:
    """A whole file of a harness that holds these services, and what such a file has to hold besides."""
    made: Any = _listed(row, services)
    for key in reversed(row.table):
        made = {key: made}
    return {**row.beside, **made}


def _listed(row: Harness, services: Sequence[Service]) -> list[Any] | dict[str, Any]:
    if row.named:
        return [{row.named: service.name, **row.entry(service)} for service in services]
    return {service.name: row.entry(service) for service in services}


def _for_session(
    row: Harness, way: Session, services: Sequence[Service], beside: tuple[Sequence[Skill], str]
) -> Rendered:
    skills, folder = beside
    places = {
        "{file}": f"{folder}/{way.file}",
        "{folder}": folder,
        "{skills}": f"{folder}/{way.skills}",
        "{servers}": json.dumps(_listed(row, services), ensure_ascii=False),
    }
    files: dict[str, bytes] = {}
    if way.file:
        whole = {**document(row, services), **_placed(way.beside, places)}
        files[way.file] = text(whole)
    if way.skills:
        files |= {f"{way.skills}/{skill.name}/SKILL.md": skill.text for skill in skills}
    single = [word for service in services for word in (way.single(service) if way.single else ())]
    return Rendered(
        program=row.program,
        files=files,
        arguments=(*_placed(way.arguments, places), *single),
        environment=_placed(dict(way.environment), places),
    )


def text(value: object) -> bytes:
    """A file of JSON, laid out for people."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def _placed(value: Any, places: Mapping[str, str]) -> Any:
    """The same with every mark replaced by what it stands for, at every depth; once."""
    match value:
        case str():
            return _MARK.sub(lambda found: places[found[0]], value)
        case Mapping():
            return {key: _placed(one, places) for key, one in value.items()}
        case list() | tuple():
            return type(value)(_placed(one, places) for one in value)
        case _:
            return value
