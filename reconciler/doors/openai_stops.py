"""Where a text ends by the ``stop`` words of its asker, for servers and chains that know of none."""


class Cut:
    """Ends a text at the first of some words, however it comes in pieces: what may be the beginning of one
    is held back until it is known.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.ended = False

    def feed(self, text: str) -> str:
        """What may be shown after this piece."""
        return self._shown(text, at_end=False)

    def flush(self) -> str:
        """What may be shown once no piece follows."""
        return self._shown("", at_end=True)

    def _shown(self, text: str, *, at_end: bool) -> str:
        if self.ended:
            return ""
        if not self._stops:
            return text
        self._held += text
        found = [place for one in self._stops if (place := self._held.find(one)) >= 0]
        first = min(found, default=len(self._held))
        open_at = len(self._held) if at_end else self._may_begin()
        place = min(first, open_at)
        shown, self._held = self._held[:place], self._held[place:]
        self.ended = bool(found) and first <= open_at
        return shown

    def _may_begin(self) -> int:
        """Where a word may have begun that is not whole yet."""
        size = len(self._held)
        longest = max(map(len, self._stops))
        for place in range(max(0, size - longest + 1), size):
            rest = self._held[place:]
            if any(len(one) > len(rest) and one.startswith(rest) for one in self._stops):
                return place
        return size
