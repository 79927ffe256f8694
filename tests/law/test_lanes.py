"""Calls of what speaks a dialect, through the real gate to a server that counts: reports 1, 3 and 12."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.control.dialects import DialectLane, Dialects
from reconciler.control.permitting import Permitting
from reconciler.control.spoken import Mapped, Spoken
from reconciler.control.transmitting import Outside, Speaker
from reconciler.model.calls import Refusal, Reply, Result
from reconciler.runtime.resolving import Resolver
from tests.control.test_dialectlanes import _Holds as Holds
from tests.control.test_sending import DIALECT, World, told, world
from tests.kit import dialects

MAPPED = Mapped("embed", "{input: texts}", "{many: length(result.vectors)}")
ERROR = b'{"error": {"message": "m", "type": "t", "param": null, "code": null}}'
VECTORS = b'{"object":"list","model":"m-1","data":[{"object":"embedding","index":0,"embedding":[1.0]}]}'


def answer(status: str, body: bytes, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


class Caller:
    """Whoever waits for one call."""

    caller, session, scope, entry, attempt, wants_progress = "clerk", "s1", (), "", "", False

    def __init__(self) -> None:
        self.heard: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def progress(self, progress: float, total: float | None) -> None: ...

    def done(self, reply: Reply) -> None:
        self.heard.set_result(reply)


def lane(made: World, holds: Holds, run: Path) -> DialectLane:
    """One that has a single call out at a time."""
    permitting = Permitting(cast(Any, SimpleNamespace(policy=None)), made.permits, lambda: made.now)
    outside = Outside(lambda *_: made.way, made.permits, permitting, Resolver(), run)
    base = f"{made.origin}/v1"
    spoken = Spoken(DIALECT, (dialects.named("embeddings", base),), {"embed_texts": MAPPED}, base)
    speaker = Speaker(spoken, outside)
    room = SimpleNamespace(speaker=lambda name: speaker, entry=lambda entry: ("embed/v1", ""), keeper=None)
    return DialectLane(DIALECT.name, holds, cast(Dialects, room), 1)


def call(through: DialectLane) -> tuple[int, Caller]:
    caller = Caller()
    return through.send("embed_texts", {"texts": ["a"], "model": "m-1"}, cast(Any, caller), 2**20), caller


@pytest.mark.parametrize(
    "said",
    [
        None,  # it hangs up
        answer("500 Oops", ERROR),
        answer("429 Busy", ERROR, "Retry-After: 0"),
        answer("503 Later", ERROR, "Retry-After: 0"),
        answer("307 Away", b"", "Location: http://127.0.0.1:9/v1/embeddings"),
    ],
    ids=["drop", "500", "429", "503", "307"],
)
def test_report_1_whatever_a_server_does_it_is_sent_to_once(tmp_path: Path, said: bytes | None) -> None:
    """litellm#850: the client library below sent it three times though it was told not to."""

    async def story() -> None:
        async with world(tmp_path, said) as made:
            holds = Holds()
            through = lane(made, holds, tmp_path)
            reply = await asyncio.wait_for(call(through)[1].heard, 30)
            assert isinstance(reply, Refusal) and reply.code == "unavailable"
            assert (len(made.sent), holds.count) == (1, 0)
            through.close()

    told(story)


def test_report_12_a_call_that_is_given_up_is_hung_up_on_and_its_place_is_free(tmp_path: Path) -> None:
    """python-sdk#2507, codex#20925: nobody was told, and the call went on or was never over."""

    async def story() -> None:
        async with world(tmp_path, answer("200 OK", VECTORS)) as made:
            made.held, holds = 1, Holds()
            through = lane(made, holds, tmp_path)
            number, first = call(through)
            deadline = time.monotonic() + 30
            while not made.sent and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            _, second = call(through)  # waits for its turn
            await asyncio.sleep(0.05)
            assert len(made.sent) == 1
            assert through.cancel(number)  # it may have been done: it was sent
            reply = await asyncio.wait_for(second.heard, 30)
            assert isinstance(reply, Result) and reply.structured == {"many": 1}
            await asyncio.wait_for(made.left.wait(), 30)
            assert not first.heard.done()
            assert (len(made.sent), holds.count) == (2, 0)
            through.close()

    told(story)
