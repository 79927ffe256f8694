"""Sprig's functions of JSON, encodings, hashes and regular expressions.

JSON is written as Go writes it: keys sorted, ``<``, ``>`` and ``&`` escaped unless raw. Regular expressions
are RE2's, the same as Go's: they take time in proportion to the text, whatever the pattern.
"""

import base64
import binascii
import functools
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from reconciler.templates import comparing, golang, layouts, metering, printing, values
from reconciler.templates.values import Owned, Record, Unusable

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
_ESCAPED = re.compile('["\\\\\x00-\x1f\u2028\u2029]')
_ESCAPED_HTML = re.compile('["\\\\\x00-\x1f\u2028\u2029<>&]')
_LARGE, _SMALL = 1e21, 1e-6  # from where on, and below where, Go writes a number with an exponent


def _json(value: object, *, html: bool = True, indent: str = "") -> str:
    comparing.bounded(value)
    return printing.written(_written(value, _ESCAPED_HTML if html else _ESCAPED, indent, "\n"))


def _written(value: object, escaped: re.Pattern[str], indent: str, line: str) -> Iterator[str]:
    inner = line + indent
    match value:
        case Record():
            yield from _written(dict(value.json), escaped, indent, line)
        case dict() if value:
            for at, key in enumerate(sorted(value)):
                yield ("," if at else "{") + (inner if indent else "")
                yield _text(key, escaped) + (": " if indent else ":")
                yield from _written(value[key], escaped, indent, inner)
            yield (line if indent else "") + "}"
        case list() | tuple() if value:
            for at, item in enumerate(value):
                yield ("," if at else "[") + (inner if indent else "")
                yield from _written(item, escaped, indent, inner)
            yield (line if indent else "") + "]"
        case _:
            yield _single(value, escaped)


def _single(value: object, escaped: re.Pattern[str]) -> str:
    single = printing.scalar(value) or ""
    match value:
        case None | values.Missing():
            single = "null"
        case dict():
            single = "{}"
        case list() | tuple():
            single = "[]"
        case float():
            single = _number(value)
        case datetime():
            single = _text(layouts.written(value, "2006-01-02T15:04:05.999999999Z07:00"), escaped)
        case values.Duration(ns):
            single = str(ns)
        case str():
            single = _text(value, escaped)
        case _:
            pass
    return single


def _text(text: str, escaped: re.Pattern[str]) -> str:
    clean = text.encode("utf-8", "replace").decode()
    return '"' + escaped.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04x}"), clean) + '"'


def _number(value: float) -> str:
    sign, digits, point = (
        printing.shortest(value) if abs(value) != float("inf") and value == value else ("", "", 0)
    )
    if not digits:
        raise Unusable("JSON has no such number")
    if value and not _SMALL <= abs(value) < _LARGE:
        power = point - 1
        broken = digits[0] + ("." + digits[1:] if digits[1:] else "")
        return f"{sign}{broken}e{'+' if power > 0 else '-'}{abs(power)}"
    return sign + printing.plain(digits, point)


def _read(text: str) -> object:
    def refused(name: str) -> object:
        raise ValueError(name)

    try:
        value = json.loads(text, object_pairs_hook=Owned, parse_constant=refused)
        comparing.bounded(value)
    except (ValueError, RecursionError):
        raise Unusable("the text is no JSON") from None
    return value


def _read_or_nothing(text: str) -> object:
    try:
        return _read(text)
    except Unusable:
        return None


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _decoded(decode: Callable[[bytes], bytes]) -> Callable[[str], str]:
    def decoded(text: str) -> str:
        try:
            return decode(_raw(text)).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            raise Unusable("the text is not encoded like that") from None

    return decoded


_A_STEP = 300  # characters of a text, times instructions of an expression, that RE2 walks in a step's time


@functools.lru_cache(maxsize=32)
def _pattern(pattern: str) -> Any:
    """A compiled expression; raises Unusable for one that RE2 does not take."""
    import re2  # noqa: PLC0415 - loaded by the few templates that use one

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(_clean(pattern), options)
    except re2.error as fault:
        said = fault.args[0]
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise Unusable(f"cannot read the regular expression: {said[:80]}") from None


def _clean(text: str) -> str:
    """``text`` without halves of surrogate pairs, which are no UTF-8."""
    return _raw(text).decode()


def _paid(pattern: str, text: str) -> Any:
    """A compiled expression, once the steps are spent that it may take with this text."""
    compiled = _pattern(pattern)
    metering.spend(len(text) * compiled.programsize // _A_STEP)
    return compiled


def _match(pattern: str, text: str) -> bool:
    return _paid(pattern, text).search(_clean(text)) is not None


def _find(pattern: str, text: str) -> str:
    found = _paid(pattern, text).search(_clean(text))
    return found[0] if found else ""


def _find_all(pattern: str, text: str, most: int) -> list[str]:
    return [
        found[0]
        for at, found in enumerate(_paid(pattern, text).finditer(_clean(text)))
        if most < 0 or at < most
    ]


_REFERENCE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)


def _expanded(template: str, found: Any) -> str:
    def group(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        try:
            return found[int(name) if name.isdecimal() else name] or ""
        except (IndexError, KeyError):
            return ""

    return _REFERENCE.sub(group, template)


def _replaced(pattern: str, text: str, made: Callable[[Any], str]) -> str:
    return printing.written(_pieces(pattern, text, made))


def _pieces(pattern: str, text: str, made: Callable[[Any], str]) -> Iterator[str]:
    done, text = 0, _clean(text)
    for found in _paid(pattern, text).finditer(text):
        yield text[done : found.start()]
        yield made(found)
        done = found.end()
    yield text[done:]


def _split(pattern: str, text: str, most: int) -> list[str]:
    """As Go splits: never at the very beginning of an empty match, into ``most`` parts if that is not below
    0.
    """
    if most == 0:
        return []
    parts: list[str] = []
    done, text = 0, _clean(text)
    for found in _paid(pattern, text).finditer(text):
        if most > 0 and len(parts) == most - 1:
            break
        if found.end() == 0 or (found.start() == found.end() == len(text)):
            continue
        parts.append(text[done : found.start()])
        done = found.end()
    return [*parts, text[done:]]


_QUOTED = re.compile(r"[\\.+*?()|\[\]{}^$]")

_REGEX: Mapping[str, golang.Entry] = {
    "Match": (_match, "ss"),
    "Find": (_find, "ss"),
    "FindAll": (_find_all, "ssi"),
    "ReplaceAll": (
        lambda pattern, text, new: _replaced(pattern, text, lambda found: _expanded(new, found)),
        "sss",
    ),
    "ReplaceAllLiteral": (lambda pattern, text, new: _replaced(pattern, text, lambda _: new), "sss"),
    "Split": (_split, "ssi"),
}

FUNCTIONS: Mapping[str, golang.Entry] = {
    **{f"regex{name}": entry for name, entry in _REGEX.items()},
    **{f"mustRegex{name}": entry for name, entry in _REGEX.items()},
    "regexQuoteMeta": (lambda text: _QUOTED.sub(r"\\\g<0>", text), "s"),
    "toJson": (_json, "a"),
    "mustToJson": (_json, "a"),
    "toPrettyJson": (lambda value: _json(value, indent="  "), "a"),
    "mustToPrettyJson": (lambda value: _json(value, indent="  "), "a"),
    "toRawJson": (lambda value: _json(value, html=False), "a"),
    "mustToRawJson": (lambda value: _json(value, html=False), "a"),
    "fromJson": (_read_or_nothing, "s"),
    "mustFromJson": (_read, "s"),
    "b64enc": (lambda text: base64.b64encode(_raw(text)).decode(), "s"),
    "b64dec": (_decoded(lambda raw: base64.b64decode(raw, validate=True)), "s"),
    "b32enc": (lambda text: base64.b32encode(_raw(text)).decode(), "s"),
    "b32dec": (_decoded(base64.b32decode), "s"),
    "sha1sum": (lambda text: hashlib.sha1(_raw(text), usedforsecurity=False).hexdigest(), "s"),
    "sha256sum": (lambda text: hashlib.sha256(_raw(text)).hexdigest(), "s"),
    "sha512sum": (lambda text: hashlib.sha512(_raw(text)).hexdigest(), "s"),
    "adler32sum": (lambda text: str(zlib.adler32(_raw(text))), "s"),
}
