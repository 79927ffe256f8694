"""What takes long and nobody waits for: one errand at a time for each thing, its end asks to look again."""

import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

_LOG = logging.getLogger("handler.drift")

Work = Callable[[], Awaitable[str]]
Spawn = Callable[[Callable[[], Awaitable[Any]]], object]


class Errands:
    """Work beside the loop. ``spawn`` starts a coroutine in the background, ``ended`` hears of each end."""

    def __init__(self, spawn: Spawn, ended: Callable[[], None]) -> None:
        self._spawn = spawn
        self._ended = ended
        self._running: set[Hashable] = set()
        self._answers: dict[Hashable, str] = {}  # why one was in vain, until that was told

    def send(self, key: Hashable, work: Work, words: str) -> str:
        """``words`` while the work goes on, begun now or before; once why it was in vain, if it was."""
        if key in self._answers:
            return self._answers.pop(key)
        if key not in self._running:
            self._running.add(key)
            self._spawn(lambda: self._do(key, work))
        return words

    async def _do(self, key: Hashable, work: Work) -> None:
        why = "a fault of the controller itself; its log has the details"
        try:
            why = await work()
        except (OSError, ValueError) as error:
            why = str(error)
        except Exception:  # noqa: BLE001 - one errand in vain ends nothing else
            _LOG.exception("an errand broke off")
        finally:
            self._running.discard(key)
        if why:
            self._answers[key] = why
        self._ended()
