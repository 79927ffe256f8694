"""Calls, cancels, answers and progress in any order: each request has its own answer, once, or none.

Random steps against a real router, with a connector that answers when the test says so, beside a model that
is a dictionary. After every step a ping shows that all of it was heard.
"""

import os
import random
from typing import Any

import orjson
import pytest

from reconciler.router.peers import Pinned
from tests.router import stage
from tests.router.stage import FakeLane, Sent
from tests.router.test_cancelling import cancel, until
from tests.router.test_server import Agent, Set, run, stage_set

STEPS = 400
IDS: tuple[Any, ...] = (0, 1, 2, "0", "1", "2", "01", " 1", 2**63)


def in_short(message: dict[str, Any]) -> Any:
    if "method" in message:
        return message["params"]["progressToken"], message["params"]["progress"]
    if "error" in message:
        return message["id"], message["error"]["code"]
    return message["id"], message["result"]["structuredContent"]["text"]


class Game:
    """One connection: what was asked on it, and what must come back."""

    def __init__(self, play: Set, agent: Agent, lane: FakeLane, chance: random.Random) -> None:
        self.play, self.agent, self.lane, self.chance = play, agent, lane, chance
        self.flying: dict[tuple[type, Any], str] = {}  # by id: the text of its call
        self.ids: dict[str, Any] = {}  # by text: the id that its call had
        self.told: dict[str, float] = {}  # by text: the last progress
        self.ended: set[int] = set()  # numbers that the connector has answered
        self.pings = 0

    async def heard(self) -> list[Any]:
        """Everything that was sent up to now, in short. Answers are sent with the others of their turn of
        the loop, which may be after a first ping is answered.
        """
        found: list[Any] = []
        for _ in range(2):
            self.pings += 1
            self.agent.send({"jsonrpc": "2.0", "id": f"ping {self.pings}", "method": "ping"})
            while (message := await self.agent.message()).get("id") != f"ping {self.pings}":
                found.append(in_short(message))
        return found

    async def step(self) -> None:
        move = self.chance.choice(
            (self.call, self.call, self.answer, self.answer, self.cancel, self.progress)
        )
        wanted = move()
        found = await self.heard()
        assert repr(found) == repr(wanted), move.__name__

    def call(self) -> list[Any]:
        ident, text = self.chance.choice(IDS), f"call {len(self.ids)}"
        meta = {"progressToken": text} if self.chance.random() < 0.5 else None
        self.agent.call(ident, "echo_say", meta, text=text)
        self.ids[text] = ident
        if (type(ident), ident) in self.flying:
            return [(None, -32600)]
        self.flying[type(ident), ident] = text
        if meta:
            self.told[text] = -1.0
        return []

    def answer(self) -> list[Any]:
        """The connector answers any call that it has, in time or long after nobody waits."""
        sent = self._one_of([one for one in self.lane.sent if one.number not in self.ended])
        if sent is None:
            return []
        self.ended.add(sent.number)
        text = sent.arguments["text"]
        sent.answer(text=text)
        ident = self.ids[text]
        if self.flying.get((type(ident), ident)) != text:
            return []
        del self.flying[type(ident), ident]
        return [(ident, text)]

    def progress(self) -> list[Any]:
        sent = self._one_of(self.lane.sent[-8:])
        if sent is None:
            return []
        done, text = float(self.chance.randrange(10)), sent.arguments["text"]
        sent.sink.progress(done, None)
        ident = self.ids[text]
        if text not in self.told or self.flying.get((type(ident), ident)) != text or done <= self.told[text]:
            return []
        self.told[text] = done
        return [(text, done)]

    def cancel(self) -> list[Any]:
        ident = self.chance.choice((*IDS, "nobody"))
        self.agent.send(cancel(ident))
        self.flying.pop((type(ident), ident), None)
        return []

    def _one_of(self, calls: list[Sent]) -> Sent | None:
        return self.chance.choice(calls) if calls else None

    async def end(self) -> None:
        """Everything that still flies is answered, and nothing else."""
        left = dict(self.flying)
        found: list[Any] = []
        while len(self.ended) < len(self.lane.sent):
            self.answer()
            found += await self.heard()
        assert sorted(map(repr, found)) == sorted(repr((ident, text)) for (_, ident), text in left.items())
        usage = self.play.router.guest(Pinned("s1", self.play.routes)).desks["echo"].usage
        assert (usage.running, usage.waiting) == (0, 0)
        assert [one.code for one in await self.play.recorded(1)]


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_each_request_has_its_own_answer_once_or_none_whatever_happens_meanwhile(at_once: int) -> None:
    seed = int(os.environ.get("HANDLER_FUZZ_SEED") or random.SystemRandom().randrange(2**32))
    print(f"HANDLER_FUZZ_SEED={seed}")

    async def test() -> None:
        lane = FakeLane()
        routes = stage.routes(stage.route(stage.echo(concurrentCalls=at_once)))
        async with stage_set(lane, routes) as play, play.agent() as agent, play.agent() as other:
            game = Game(play, agent, lane, random.Random(seed))
            for _ in range(STEPS):
                other.send(cancel(game.chance.choice(IDS)))  # what another connection gives up is its own
                await game.step()
            await game.end()
            assert len(game.ids) > STEPS / 10
            other.send(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + b"\n")
            assert (await other.message())["id"] == 1
            await until(lambda: all(one.over for one in (call.sink for call in lane.sent)))  # type: ignore[attr-defined]

    run(test, 60)
