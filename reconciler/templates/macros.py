"""Macros: ``{{var:model}}``, ``{{edge_count:a->b}}``, ``{{now}}`` and the others, expanded once.

A text is read once, at the start of a run, into pieces: what is written, what was put in, and counters that
each step reads afresh. So nothing that came from data is ever read again, neither for macros nor as a
template. In a field that is a Go template, what is put in is bound to a variable of the template, or, inside
a quoted text, escaped: it is data there, whatever it says.

What is no macro stays as it stands: ``{{.input}}`` and ``{{ now }}`` are the template's.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from reconciler.templates import layouts

_MACRO = re.compile(r"\{\{([A-Za-z0-9_]+)(?::([^}]*))?\}\}")
_PREFIX = "$macro"  # of the variables that carry what was put in


class MacroError(ValueError):
    """A macro that cannot be expanded: a variable that is missing or empty, or one without a name."""


class Field(Enum):
    """Where a text stands, which decides what is expanded in it and how."""

    SYSTEM = "system"  # a system instruction: plain, with counters; a bare ``{{now}}`` is the day alone, so
    # that the beginning of a prompt stays what it was
    TEMPLATE = "template"  # a Go template (prompt, output, print): counters; values are bound as data
    NAME = "name"  # model, provider, think, max_tokens: plain, no counters


class Sort(Enum):
    """What a piece of an expanded text is."""

    TEXT = "text"  # as the author wrote it
    VALUE = "value"  # put in by a macro: data
    EDGE = "edge"  # a counter, read at each step: ``a->b``


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of a text; ``within`` is where it stands: nowhere special, in an action (``{``), in a quote
    there.
    """

    sort: Sort
    text: str
    within: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What the macros of one chain, at one moment, may say. Nothing else is ever looked up.

    ``now`` is the moment the run began, in the zone it is told in. ``tools`` gives the providers that the
    task may use, with their tools.
    """

    variables: Mapping[str, str]
    chain: str
    now: datetime
    os: str
    arch: str
    tools: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text whose macros are expanded, up to its counters."""

    pieces: tuple[Piece, ...]

    def text(self, counts: Mapping[str, int]) -> str:
        """The plain text, with the counters as they stand (0 for an edge that was never taken)."""
        return "".join(
            _count(piece, counts) if piece.sort is Sort.EDGE else piece.text for piece in self.pieces
        )

    def template(self, counts: Mapping[str, int]) -> tuple[str, dict[str, str]]:
        """The source of the Go template, and the values of its variables: see ``rendering.rendered``."""
        source: list[str] = []
        bound: dict[str, str] = {}
        for piece in self.pieces:
            match piece.sort:
                case Sort.TEXT:
                    source.append(piece.text)
                case Sort.EDGE:
                    source.append(_count(piece, counts))
                case Sort.VALUE if piece.within in {'"', "`"}:
                    source.append(_inside(piece))
                case Sort.VALUE:
                    name = f"{_PREFIX}{len(bound)}"
                    bound[name] = piece.text
                    source.append(name if piece.within else "{{" + name + "}}")
        return "".join(source), bound


@dataclass(frozen=True, slots=True)
class Found:
    """A macro as it is written: ``{{name:payload}}``, from the ``at``-th character on; no payload is None."""

    name: str
    payload: str | None
    at: int


def found(text: str) -> tuple[Found, ...]:
    """Everything in ``text`` that has the shape of a macro, known or not, for those who look before a run."""
    return tuple(_found(match) for match in _MACRO.finditer(text))


def expanded(text: str, known: Known, field: Field) -> Expanded:
    """``text`` with its macros expanded; raises MacroError for a variable that is missing or empty."""
    spans = _spans(text) if field is Field.TEMPLATE else ((match, "") for match in _MACRO.finditer(text))
    pieces: list[Piece] = []
    done = 0
    for match, within in spans:
        macro = _found(match)
        if macro.name == "edge_count" and macro.payload and field is not Field.NAME:
            piece = Piece(Sort.EDGE, macro.payload, within)
        elif (value := _value(macro, known, field)) is not None:
            piece = Piece(Sort.VALUE, value, within)
        else:
            continue
        if match.start() > done:
            pieces.append(Piece(Sort.TEXT, text[done : match.start()]))
        pieces.append(piece)
        done = match.end()
    if done < len(text):
        pieces.append(Piece(Sort.TEXT, text[done:]))
    return Expanded(tuple(pieces))


def _found(match: re.Match[str]) -> Found:
    payload = match[2]
    return Found(match[1], None if payload is None else payload.strip(), match.start())


# What a template's action is made of, as far as the place of a macro in it is concerned.
_STEP = re.compile(r"/\*.*?\*/|\\.|'(?:\\.|[^'\\])*'|.", re.DOTALL)


def _spans(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each macro of a template, with what it stands in; none of those inside a comment."""
    at, within = 0, ""
    while at < len(text):
        if text.startswith("{{", at) and (match := _MACRO.match(text, at)):
            yield match, within
            at = match.end()
        elif not within:
            opened = text.find("{{", at)
            if opened < 0:
                return
            if opened > at:
                at = opened
                continue
            at, within = opened + 2, "{"
        else:
            at, within = _inward(text, at, within)


def _inward(text: str, at: int, within: str) -> tuple[int, str]:
    """One step inside an action: the next place, and what it stands in."""
    if within == "{" and text.startswith("}}", at):
        return at + 2, ""
    step = _STEP.match(text, at) if within == "{" else None
    if step is not None and len(step[0]) > 1 and not step[0].startswith("\\"):
        return step.end(), within
    if within == '"' and text[at] == "\\":
        return at + 2, within
    if text[at] in {'"', "`"}:
        if within == "{":
            return at + 1, text[at]
        if within == text[at]:
            return at + 1, "{"
    return at + 1, within


def _value(macro: Found, known: Known, field: Field) -> str | None:
    """What a macro says; None: it is none of ours and stays as it is written."""
    value: str | None = None
    match (macro.name, macro.payload):
        case ("var", str(payload)):
            value = _variable(payload, known.variables)
        case ("date" | "now", payload):
            day = macro.name == "date" or field is Field.SYSTEM
            value = layouts.written(known.now, payload or ("2006-01-02" if day else layouts.RFC3339))
        case ("chain", "id"):
            value = known.chain
        case ("host", payload):
            host = {"os": known.os, "arch": known.arch}
            value = _json(host) if payload is None else host.get(payload)
        case ("tools", None):
            value = _json(known.tools)
        case ("toolservice", payload):
            value = _toolservice(payload or "", known.tools)
        case _:
            pass
    return value


def _toolservice(payload: str, tools: Mapping[str, tuple[str, ...]]) -> str | None:
    match payload.split():
        case ["list"]:
            return _json(tools)
        case ["tools"]:
            return _json(sorted(tools))
        case ["tools", provider]:
            return _json(tools.get(provider, ()))
        case _:
            return None


def _variable(payload: str, variables: Mapping[str, str]) -> str:
    name, bar, otherwise = payload.partition("|")
    name, otherwise = name.strip(), otherwise.strip()
    if not name:
        raise MacroError("a macro '{{var:…}}' names no variable: write {{var:NAME}}")
    if value := _looked_up(name, variables):
        return value
    if bar and not otherwise.startswith("var:"):
        return otherwise
    other = otherwise.removeprefix("var:").strip()
    if other and (value := _looked_up(other, variables)):
        return value
    both = f"{name!r} and {other!r} are" if other else f"{name!r} is"
    raise MacroError(f"the variable {both} not set: give it with --var {other or name}=VALUE")


def _looked_up(name: str, variables: Mapping[str, str]) -> str:
    for twin in (name, name.replace("-", "_"), name.replace("_", "-")):
        if twin in variables:
            return variables[twin]
    return ""


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _count(piece: Piece, counts: Mapping[str, int]) -> str:
    return str(counts.get(piece.text, 0))


def _inside(piece: Piece) -> str:
    """A value inside a quoted text of an action, so that the text is what the value says and no more."""
    if piece.within == '"':
        return json.dumps(piece.text, ensure_ascii=False)[1:-1].replace("\\/", "/").replace("\x7f", "\\x7f")
    if "`" in piece.text:
        raise MacroError(
            'a value with a backquote cannot stand between backquotes: write "…" around the macro'
        )
    return piece.text
