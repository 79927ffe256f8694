"""Telling an OpenTelemetry collector of calls: batches of spans to ``telemetry.otlpEndpoint``, by OTLP/HTTP.

Calls never wait for it: their records are kept, so many at most, and sent a moment later from a thread. What
the collector does not take now is sent again; what does not fit is dropped and counted. No redirect is
followed and no proxy asked. Headers come from ``OTEL_EXPORTER_OTLP_HEADERS`` of the controller's environment.
"""

import http.client
import logging
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread

from reconciler import __version__
from reconciler.control import spans
from reconciler.control.exposition import Family, counted
from reconciler.model.calls import CallRecord

_LOG = logging.getLogger("handler.telemetry")
_WAITING = 4096  # records that wait, about 2 MB
_BATCH = 512
_PAUSE_S = 1.0  # how long a record waits for others
_RETRY_S = 5.0
_TIMEOUT_S = 10.0
_LATER = (429, 502, 503, 504)  # what OTLP says to send again
_PATH = "/v1/traces"
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"

Post = Callable[[str, bytes, Mapping[str, str]], int]


class Tracer:
    """Sends spans where the settings say. All methods are for the loop's own thread."""

    def __init__(self, environ: Mapping[str, str], hexes: spans.Hexes, post: Post | None = None) -> None:
        self.fault: Callable[[str], None] = lambda words: None  # told why the collector does not take them
        self._headers = _headers(environ.get(_HEADERS, ""))
        self._hexes = hexes
        self._post = post or posted
        self._to: str | None = None
        self._waiting: deque[CallRecord] = deque()
        self._counts: dict[tuple[str, ...], float] = {("sent",): 0, ("dropped",): 0}
        self._news = anyio.Event()
        self._said = ""

    def follow(self, endpoint: str | None) -> None:
        """Send there from now on; nothing for None."""
        if endpoint != self._to:
            self._to = endpoint
            self._said = ""
            if endpoint is None:
                self._waiting.clear()

    def called(self, record: CallRecord) -> None:
        """A call ended."""
        if self._to is None:
            return
        if len(self._waiting) >= _WAITING:
            self._counts["dropped",] += 1
            return
        self._waiting.append(record)
        self._news.set()

    def family(self) -> Family:
        """How many spans went out, and how many did not."""
        return counted("handler_spans_total", "Spans for the collector.", ("result",), self._counts)

    async def run(self) -> None:
        """Send for as long as this runs, what waits at the end included, where that is soon done."""
        try:
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                await anyio.sleep(_PAUSE_S)
                while self._waiting and self._to is not None:
                    if not await self._sent(self._to):
                        await anyio.sleep(_RETRY_S)
        finally:
            with anyio.move_on_after(_PAUSE_S, shield=True):
                while self._waiting and self._to is not None and await self._sent(self._to):
                    pass

    async def _sent(self, to: str) -> bool:
        """Send a batch; False when it is to be sent again."""
        batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
        body = spans.request(batch, self._hexes, __version__)
        if body is None:
            return True
        try:
            status = await anyio.to_thread.run_sync(
                self._post, to, body, self._headers, abandon_on_cancel=True
            )
            why = "" if 200 <= status < 300 else f"it answers {status}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            status, why = 503, getattr(error, "strerror", None) or type(error).__name__
        self._tell(why)
        if why and status in _LATER and self._to == to:
            self._waiting.extendleft(reversed(batch))
            self._counts["dropped",] += max(0, len(self._waiting) - _WAITING)
            while len(self._waiting) > _WAITING:
                self._waiting.pop()
            return False
        self._counts["dropped" if why else "sent",] += len(batch)
        return True

    def _tell(self, why: str) -> None:
        if why == self._said:
            return
        self._said = why
        if why:
            _LOG.warning("telemetry.otlpEndpoint takes no spans: %s", why)
            self.fault(f"telemetry.otlpEndpoint takes no spans: {why}; calls are served all the same")
        else:
            _LOG.info("telemetry.otlpEndpoint takes spans again")


def posted(endpoint: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send one request to a collector, and wait for its status; raises OSError and HTTPException."""
    to = urlsplit(endpoint)
    made: http.client.HTTPConnection
    if to.scheme == "https":
        made = http.client.HTTPSConnection(
            to.hostname or "", to.port, timeout=_TIMEOUT_S, context=ssl.create_default_context()
        )
    else:
        made = http.client.HTTPConnection(to.hostname or "", to.port, timeout=_TIMEOUT_S)
    try:
        path = to.path.rstrip("/")
        path = path if path.endswith(_PATH) else path + _PATH
        made.request("POST", path, body, {**headers, "content-type": "application/json"})
        return made.getresponse().status
    finally:
        made.close()


def _headers(told: str) -> dict[str, str]:
    """``name=value,name=value``, each percent-encoded."""
    pairs = (one.partition("=") for one in told.split(",") if "=" in one)
    return {unquote(name.strip()).lower(): unquote(value.strip()) for name, _, value in pairs}
