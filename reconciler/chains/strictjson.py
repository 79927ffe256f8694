"""JSON that comes from a model or a caller as text: read only where it can be kept and written again."""

import json
import math
from typing import Any

import orjson


def read(text: str) -> Any:
    """What a text of JSON holds; raises ValueError for any other, and for what no file here could hold: NaN,
    infinity, a whole number over 64 bits, half a character, brackets in brackets without end.
    """
    try:
        found = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        orjson.dumps(found)
    except (TypeError, RecursionError) as fault:
        raise ValueError(f"it is no JSON that can be kept: {fault}") from None
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:20]} is larger than any number")
    return number
