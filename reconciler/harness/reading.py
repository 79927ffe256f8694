"""Bytes of a harness's configuration to plain values: JSON with comments, TOML, YAML.

Every fault is one clause with its line and column and repeats nothing of the text, since secrets stand there;
so no parser's own message is passed on. Comments and commas before a closing bracket are blanked out of JSON,
which keeps every place. YAML gives text for every scalar (``no`` is no boolean here), and its aliases are
followed under a budget, so that a small text cannot grow into a large value.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from reconciler.config import toml
from reconciler.config.text import TextFault, position

MAX_BYTES = 2**24  # ~/.claude.json keeps a history, and grows to megabytes
_SUFFIXES = {"toml": "TOML", "yaml": "YAML", "yml": "YAML"}

# A string whole, an open one to the end of its line, so that a hostile text is passed once; then comments.
_STRING = r'"(?:[^"\\\n]|\\.)*"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def values(data: bytes, file: str) -> dict[str, Any]:
    """The values of a file by the sort that its name tells; raises ValueError with a clause for a person."""
    form = _SUFFIXES.get(file.rpartition(".")[2].lower(), "JSON")
    readers: dict[str, Callable[[bytes], Any]] = {"TOML": _toml, "YAML": _yaml, "JSON": _json}
    found = readers[form](data)
    if not isinstance(found, dict):
        raise ValueError(f"it holds no table but a {type(found).__name__}")
    return found


def _toml(data: bytes) -> Any:
    found = toml.read(data)
    if isinstance(found, TextFault):
        raise ValueError(f"line {found.line}, column {found.column}: this is not TOML that can be read")
    return found


def _yaml(data: bytes) -> Any:
    from reconciler.harness import yamltext  # noqa: PLC0415 - its parser is paid for by those who need it

    return yamltext.parsed(data)


def _json(data: bytes) -> Any:
    text = _decoded(data)
    blanked = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    try:
        return json.loads(blanked, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: this is not JSON") from None
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None
    except _Twice:
        raise ValueError("a key stands twice in one table: which one is meant is not said") from None
    except ValueError:
        raise ValueError("a number in it is too long") from None


def _decoded(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError("it is UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(errors="replace")
        line, column = position(before, len(before))
        raise ValueError(f"line {line}, column {column}: this is not UTF-8") from None


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


class _Twice(Exception):  # noqa: N818 - a fact about the text
    """A key that stands twice, so that readers differ on what is meant."""


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    listed = list(pairs)
    made = dict(listed)
    if len(made) != len(listed):
        raise _Twice
    return made
