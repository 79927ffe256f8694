"""The usual line of a connector, read in one go: a success without files. Pure.

Every other line is for ``upstream``, which reads this one too and finds the same: a test holds both to it.
"""

from typing import Any

import orjson

from reconciler.model.calls import Result
from reconciler.wire import strict

_WITH_END = orjson.OPT_APPEND_NEWLINE
_KEYS = 3  # jsonrpc, id, result
_NOTHING = (-1, Result({}, {}))


def answer(line: bytes) -> tuple[int, Result]:
    """The number and the result of a line; -1: it is of another shape, or breaks a rule."""
    try:
        value: Any = orjson.loads(line)
        same = orjson.dumps(value, None, _WITH_END)
        if same != line:
            strict.need_exact(line, same)  # as ``strict.read`` has it
        result = value["result"]
        structured = result["structuredContent"]
        number = value["id"]
        if (
            type(number) is int
            and type(structured) is dict
            and value["jsonrpc"] == "2.0"
            and len(value) == _KEYS
            and "isError" not in result
            and "_meta" not in result
        ):
            return number, Result(structured, _NO_FILES)
    except (KeyError, TypeError, ValueError):
        pass
    return _NOTHING


_NO_FILES: dict[str, str] = {}  # one for all: nobody changes it
