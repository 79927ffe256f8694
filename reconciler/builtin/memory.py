"""What each session has read, so that nothing is overwritten that was not seen as it is.

By session and file (device, inode): the digest of what was read, and whether it was all of it. Bounded, the
oldest goes first; a controller that starts anew knows nothing, and a write then asks for another read.
"""

import os
import threading
from collections import OrderedDict

_MOST = 10_000


class Reads:
    """The files that sessions have read; asked from several threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, int, int], tuple[str, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, session: str, found: os.stat_result, digest: str, *, whole: bool) -> None:
        """A session has read a file, in whole or in part; a part of what it read in whole adds nothing."""
        key = (session, found.st_dev, found.st_ino)
        with self._lock:
            before = self._known.pop(key, None)
            whole = whole or (before is not None and before == (digest, True))
            self._known[key] = (digest, whole)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def knows(self, session: str, found: os.stat_result, digest: str, *, whole: bool) -> bool:
        """Whether it has read the file as it is now, in whole where that is asked for."""
        with self._lock:
            known = self._known.get((session, found.st_dev, found.st_ino))
        return known is not None and known[0] == digest and (known[1] or not whole)


READS = Reads()
