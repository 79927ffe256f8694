"""Whose call goes next where more wait than a connector takes: every caller has its turn. Pure.

Calls of one caller go in their order; callers take turns, so that one with many calls waiting delays each
other one by a single call and no more. A call may leave before its turn has come.
"""

from collections import OrderedDict


class Turns:
    """Lines that wait to be sent, by the number of their call."""

    __slots__ = ("_callers", "_lines")

    def __init__(self) -> None:
        self._callers: dict[int, str] = {}  # by number
        self._lines: OrderedDict[str, dict[int, bytes]] = OrderedDict()  # by caller, in the order of turns

    def __len__(self) -> int:
        return len(self._callers)

    def __contains__(self, number: int) -> bool:
        return number in self._callers

    def add(self, caller: str, number: int, line: bytes) -> None:
        """Have a call wait; a caller that had none waiting comes after all others."""
        self._callers[number] = caller
        self._lines.setdefault(caller, {})[number] = line

    def take(self) -> bytes:
        """The line that goes next; raises KeyError when none waits."""
        caller, lines = self._lines.popitem(last=False)
        number = next(iter(lines))
        line = lines.pop(number)
        del self._callers[number]
        if lines:
            self._lines[caller] = lines
        return line

    def drop(self, number: int) -> bool:
        """Forget a call before its turn; False when it does not wait."""
        caller = self._callers.pop(number, None)
        if caller is None:
            return False
        lines = self._lines[caller]
        del lines[number]
        if not lines:
            del self._lines[caller]
        return True
