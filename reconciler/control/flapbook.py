"""What flaps, on disk while anything does: a restart slows it down as before.

Instants are monotonic seconds, which begin anew with a machine; the file holds by how much the wall clock is
ahead of them.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import orjson

from reconciler.control import atomic
from reconciler.control.flapping import Flapping, Kept

_LOG = logging.getLogger("handler.loop")


class FlapBook:
    """One file below the state folder. What cannot be written or read is no harm: it is found out again."""

    def __init__(self, path: Path, flapping: Flapping, clock: Callable[[], float]) -> None:
        """``clock`` is the monotonic seconds that ``flapping`` is told."""
        self._path, self._flapping, self._clock = path, flapping, clock
        self._last: tuple[Kept, ...] = ()

    def load(self) -> None:
        """Go on with what flapped when an earlier controller ended."""
        try:
            told = orjson.loads(self._path.read_bytes())
            shift_s = float(told["ahead"]) - self._ahead_s()
            kept = [Kept(**one) for one in told["objects"]]
            self._flapping.restore(kept, shift_s, self._clock())
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            _LOG.warning("%s cannot be read: what flaps is found out anew", self._path)
        self._last = self._flapping.kept()

    def save(self) -> None:
        """Keep it where it changed."""
        kept = self._flapping.kept()
        if kept == self._last:
            return
        told = {"ahead": self._ahead_s(), "objects": [asdict(one) for one in kept]}
        try:
            if kept:
                atomic.write(self._path, orjson.dumps(told), durable=False)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("what flaps cannot be written down: %s", error.strerror or error)
        self._last = kept

    def _ahead_s(self) -> float:
        return time.time() - self._clock()
