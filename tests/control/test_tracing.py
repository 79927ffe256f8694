"""Telling a collector over real HTTP: in batches, again when it is to be, and never in the way of calls."""

import asyncio
import http.server
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import anyio
import orjson
import pytest

from reconciler.control import exposition, tracing
from reconciler.control.tracing import Tracer
from tests.control.test_exposition import read
from tests.control.test_spans import CALL, hexes


class Collector:
    """A collector that keeps what it is told, and answers as it is told to."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[int] = []
        outer = self

        class Asked(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.heard.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(outer.answers.pop(0) if outer.answers else 200)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *words: object) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Asked)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> int:
        told = [orjson.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"] for _, _, body in self.heard]
        return sum(map(len, told))

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join(30)
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_PAUSE_S", 0.01)
    monkeypatch.setattr(tracing, "_RETRY_S", 0.01)


def live(tracer: Tracer, story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tracer.run)
            await story()
            tasks.cancel_scope.cancel()

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not holds():
            await anyio.sleep(0.01)


def counts(tracer: Tracer) -> dict[str, float]:
    return {labels["result"]: value for _, labels, value in read(exposition.text([tracer.family()]))}


def test_calls_are_told_together_where_the_settings_say(collector: Collector) -> None:
    tracer = Tracer({"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b, X-Other=2"}, hexes)

    async def story() -> None:
        tracer.called(CALL)
        tracer.follow(collector.address)
        for _ in range(3):
            tracer.called(CALL)
        await until(lambda: counts(tracer)["sent"] == 3)

    live(tracer, story)
    (told,) = collector.heard
    assert told[0] == "/v1/traces"
    assert told[1]["content-type"] == "application/json"
    assert (told[1]["x-key"], told[1]["x-other"]) == ("a b", "2")
    assert collector.spans() == 3


@pytest.mark.parametrize(("answers", "sent", "heard"), [([503, 429], 1, 3), ([400], 0, 1), ([302], 0, 1)])
def test_what_is_to_be_sent_again_is_and_the_rest_is_dropped(
    collector: Collector, answers: list[int], sent: int, heard: int
) -> None:
    collector.answers = list(answers)
    tracer = Tracer({}, hexes)
    faults: list[str] = []
    tracer.fault = faults.append

    async def story() -> None:
        tracer.follow(f"{collector.address}/v1/traces")
        tracer.called(CALL)
        await until(lambda: sum(counts(tracer).values()) == 1)

    live(tracer, story)
    assert counts(tracer) == {"sent": sent, "dropped": 1 - sent}
    assert len(collector.heard) == heard
    assert f"it answers {answers[0]}" in faults[0]


def test_a_collector_that_is_away_gets_what_fits_later(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_WAITING", 10)
    tracer = Tracer({}, hexes)
    faults: list[str] = []
    tracer.fault = faults.append

    async def story() -> None:
        tracer.follow("http://127.0.0.1:1")
        for _ in range(15):
            tracer.called(CALL)
        await until(lambda: faults != [])
        tracer.follow(collector.address)
        await until(lambda: counts(tracer)["sent"] == 10)

    live(tracer, story)
    assert "Connection refused" in faults[0]
    assert counts(tracer) == {"sent": 10, "dropped": 5}


def test_what_waits_at_the_end_is_still_sent(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = Tracer({}, hexes)

    async def story() -> None:
        monkeypatch.setattr(tracing, "_PAUSE_S", 30.0)
        tracer.follow(collector.address)
        tracer.called(CALL)
        await anyio.sleep(0)

    live(tracer, story)
    assert collector.spans() == 1


def test_calls_that_are_not_sampled_reach_nobody(collector: Collector) -> None:
    tracer = Tracer({}, hexes)

    async def story() -> None:
        tracer.follow(collector.address)
        tracer.called(replace(CALL, trace=f"00-{'a' * 32}-{'b' * 16}-00"))
        await until(lambda: not tracer._waiting)

    live(tracer, story)
    assert collector.heard == []
