"""Values of the controller's own JSON files, taken only as what they must be.

Whoever edits such a file by hand may put anything there. A wrong type that is let in breaks something much
later, so each value is asked for at the door; TypeError is what a reader of such files catches.
"""

import math


def text(value: object) -> str:
    """A string; TypeError when it is none."""
    if not isinstance(value, str):
        raise TypeError(f"a text belongs here, not {type(value).__name__}")
    return value


def whole(value: object) -> int:
    """A whole number; TypeError when it is none (``true`` is none)."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a whole number belongs here, not {type(value).__name__}")
    return value


def seconds(value: object) -> float:
    """A finite number; TypeError when it is none."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"a number belongs here, not {type(value).__name__}")
    return float(value)


def truth(value: object) -> bool:
    """True or false; TypeError when it is neither."""
    if not isinstance(value, bool):
        raise TypeError(f"true or false belongs here, not {type(value).__name__}")
    return value
