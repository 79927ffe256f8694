"""What a gate has to say to a controller that does not read is bounded, and what was left out is counted."""

import asyncio
import json
import socket
from typing import Any

import pytest

from reconciler.egress import post
from reconciler.egress.gate import Ask
from reconciler.egress.gatehouse import House

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _heard(end: socket.socket) -> list[dict[str, Any]]:
    found = []
    while True:
        try:
            found.append(json.loads(end.recv(post.MOST_BYTES)))
        except BlockingIOError:
            return found


async def test_a_controller_that_does_not_read_costs_a_bounded_number_of_messages() -> None:
    ours, theirs = post.pair()
    house = House(theirs)
    told = {"host": "h.example", "cause": ""}
    for _ in range(20_000):
        house._record(1, dict(told))
    house._record(1, {"host": "h.example", "cause": "echo"})
    waiting = len(house._post._waiting)
    assert waiting == post.MOST_WAITING + 1, "the rest is counted, and that a secret came back is kept"
    refused = await house._may(1, Ask("c", "https://h.example", "GET", "/", "", 0))
    assert (refused.go, refused.why) == (False, "the controller does not keep up")
    heard = _heard(ours)
    while house._post._waiting:
        await asyncio.sleep(0)
        heard += _heard(ours)
    heard += _heard(ours)
    house._record(1, dict(told))
    await asyncio.sleep(0)
    heard += _heard(ours)
    passages = [one["passage"] for one in heard]
    dropped = sum(one.get("droppedBefore", 0) for one in passages)
    assert (len(passages) + dropped, dropped > 0) == (20_002, True)
    assert [one["cause"] for one in passages].count("echo") == 1
    house._post.close()
    ours.close()
