"""The controller's own log on stderr: sentences where a terminal reads them, JSON lines elsewhere.

``[log]`` of ``handler.toml`` decides both, from the first look on; ``-v`` and ``-q`` are stronger than its
level. A line's ``template`` is one of a fixed set of messages and ``args`` what stands in it: names, counts,
paths, reasons; never a payload or a secret.
"""

import json
import logging
import time
from typing import Any, TextIO

from reconciler.doors import usage
from reconciler.model import revisions


class Lines(logging.Formatter):
    """One JSON object a line, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        value: dict[str, object] = {
            "at": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.args:
            args = record.args if isinstance(record.args, tuple) else (record.args,)
            value["template"] = record.msg
            value["args"] = [one if isinstance(one, int | float) else str(one) for one in args]
        if record.exc_info:
            value["traceback"] = self.formatException(record.exc_info)
        return json.dumps(value, ensure_ascii=False)


class _Sentences(logging.Formatter):
    """Sentences for people, revisions in their short form."""

    def format(self, record: logging.LogRecord) -> str:
        return revisions.shortened(super().format(record))


class Logbook:
    """A stream as the log of this process."""

    def __init__(self, settings: usage.Settings, stream: TextIO) -> None:
        """Log to ``stream`` from now on, as the command line says."""
        self._told = logging.DEBUG if settings.verbose else logging.WARNING if settings.quiet else None
        self._stream = logging.StreamHandler(stream)
        self._was: Any = None
        self._set("info", "auto")
        logging.getLogger().addHandler(self._stream)
        logging.getLogger("asyncio").setLevel(logging.WARNING)

    def follow(self, wanted: Any) -> None:
        """Be as ``[log]`` says from now on: its ``level`` and ``format``."""
        if wanted != self._was:
            self._was = wanted
            self._set(wanted.level, wanted.format)

    def _set(self, level: str, form: str) -> None:
        lines = form == "json" or (form == "auto" and not self._stream.stream.isatty())
        self._stream.setFormatter(Lines() if lines else _Sentences("handlerd: %(message)s"))
        logging.getLogger().setLevel(level.upper() if self._told is None else self._told)
