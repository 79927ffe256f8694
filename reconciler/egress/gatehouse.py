"""The gate as a process: opens and closes the gates of connectors as the controller's messages say.

``python -I -m reconciler.egress.gatehouse NUMBER``: the number of its end of the pair that ``post`` speaks
over. The secrets of a connector come by that pair, are held here as long as its gate is open, and are nowhere
else. It ends with the controller, leaves no core file, and no other process of its user may look into it.
"""

import asyncio
import base64
import ctypes
import itertools
import os
import resource
import signal
import socket
import ssl
import sys
from dataclasses import asdict
from typing import Any

from reconciler.egress.gate import Ask, Gate, Passage, Slots, Verdicted
from reconciler.egress.post import MOST_WAITING, Post
from reconciler.model.hosts import Allow
from reconciler.model.recipes import SecretUse
from reconciler.model.secrets import Filled, Resolved

_NOT_DUMPABLE = 4  # PR_SET_DUMPABLE
_ANSWER_S = 30.0  # the controller decides in microseconds, or says that it waits for a person
_PERSON_S = 3600.0  # for that; the controller's own time is shorter


class House:
    """All gates of one controller."""

    def __init__(self, end: socket.socket) -> None:
        self.over = asyncio.Event()
        self._key = os.urandom(32)
        self._trust = ssl.create_default_context()
        self._trust.set_alpn_protocols(["http/1.1"])
        self._gates: dict[int, Gate] = {}
        self._filled: dict[int, list[Filled]] = {}
        self._opened: dict[int, tuple[socket.socket, list[str]]] = {}
        self._asked: dict[int, tuple[asyncio.Future[Verdicted], asyncio.Timeout]] = {}
        self._left_out: dict[int, int] = {}  # by gate: passages that the controller was not told of
        self._numbers = itertools.count(1)
        self._work: asyncio.Queue[tuple[str, int]] = asyncio.Queue()  # in order: none is closed unopened
        self._post = Post(end, self._heard, self.over.set)

    def _heard(self, message: dict[str, Any], numbers: list[int]) -> None:
        match message:
            case {"open": int(gate)}:
                self._opened[gate] = (socket.socket(fileno=numbers[0]), [])
                self._filled[gate] = []
            case {"allow": int(gate), "hosts": list(hosts)}:
                self._opened[gate][1].extend(hosts)
            case {"secret": int(gate), "slot": str(slot), "header": str(header), "value": str(value)}:
                use = SecretUse(slot, "", (), None, "gate", header)
                self._filled[gate].append(Filled(use, Resolved(base64.b64decode(value), key=self._key)))
            case {"serve": int(gate)}:
                self._work.put_nowait(("serve", gate))
            case {"close": int(gate)}:
                self._work.put_nowait(("close", gate))
            case {"answer": int(number), "go": bool(go), "cause": str(cause), "why": str(why)}:
                if (waiting := self._asked.pop(number, None)) is not None and not waiting[0].done():
                    waiting[0].set_result(Verdicted(go, cause, why))  # type: ignore[arg-type]
            case {"wait": int(number)}:
                if (waiting := self._asked.get(number)) is not None and not waiting[1].expired():
                    waiting[1].reschedule(asyncio.get_running_loop().time() + _PERSON_S)
            case _:
                pass

    async def run(self) -> None:
        """Do what the messages say, one after another, until it is cancelled."""
        while True:
            what, number = await self._work.get()
            await (self._serve(number) if what == "serve" else self._close(number))

    async def _serve(self, number: int) -> None:
        listener, listed = self._opened.pop(number)
        slots = Slots.of(self._filled.pop(number))

        async def may(ask: Ask) -> Verdicted:
            return await self._may(number, ask)

        def record(passage: Passage) -> None:
            self._record(number, passage.as_json())

        gate = self._gates[number] = Gate(_allowed(listed), slots, may, record, self._key, self._trust)
        await gate.start(listener)

    def _record(self, number: int, passage: dict[str, Any]) -> None:
        """Tell the controller of a passage. One that hangs is not told all: the next says how many it missed.
        That a secret came back is said while there is any room.
        """
        if self._post.crowded(MOST_WAITING * 2 if passage.get("cause") == "echo" else MOST_WAITING):
            self._left_out[number] = self._left_out.get(number, 0) + 1
            return
        if left_out := self._left_out.pop(number, 0):
            passage["droppedBefore"] = left_out
        self._post.send({"passed": number, "passage": passage})

    async def _close(self, number: int) -> None:
        self._left_out.pop(number, None)
        self._filled.pop(number, None)
        if (opened := self._opened.pop(number, None)) is not None:
            opened[0].close()
        if (gate := self._gates.pop(number, None)) is not None:
            await gate.close()

    async def _may(self, gate: int, ask: Ask) -> Verdicted:
        if self._post.crowded():
            return Verdicted(go=False, why="the controller does not keep up")
        number = next(self._numbers)
        answer: asyncio.Future[Verdicted] = asyncio.get_running_loop().create_future()
        self._post.send({"ask": number, "gate": gate, **asdict(ask)})
        try:
            async with asyncio.timeout(_ANSWER_S) as patience:
                self._asked[number] = (answer, patience)
                return await answer
        except TimeoutError:
            return Verdicted(go=False, why="the controller did not decide in time")
        finally:
            self._asked.pop(number, None)


def _allowed(listed: list[str]) -> Allow:
    """A list, or an empty one where it is none: the controller does not start that connector either."""
    try:
        return Allow(listed)
    except ValueError:
        return Allow(())


async def _run(end: socket.socket) -> None:
    house = House(end)
    work = asyncio.get_running_loop().create_task(house.run())
    over = asyncio.get_running_loop().create_task(house.over.wait())
    await asyncio.wait((work, over), return_when=asyncio.FIRST_COMPLETED)  # a fault of ours: begin anew


def main(words: list[str]) -> int:
    """Serve until the controller is gone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_NOT_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to hear, who ends us
    end = socket.socket(fileno=int(words[0]))
    end.settimeout(0)
    asyncio.run(_run(end))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
