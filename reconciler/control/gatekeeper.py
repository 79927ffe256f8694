"""Keeps the gate's process: started for the first connector that wants it, and again whenever it dies.

It is one process for all connectors of a controller, and ends with it. The controller keeps the listening
sockets, so what a connector asks while there is no process waits for the next one; secrets it does not keep:
a new process is given what is found behind the references then.
"""

import asyncio
import base64
import itertools
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from reconciler.egress import post
from reconciler.egress.gate import Ask, Verdicted
from reconciler.egress.post import Post
from reconciler.model.recipes import Recipe
from reconciler.model.secrets import Filled
from reconciler.runtime.gating import Gated
from reconciler.runtime.resolving import Unresolved

_LOG = logging.getLogger("handler.gate")
_ROOT = str(Path(__file__).resolve().parents[2])
_CODE = (
    "import sys; sys.path += sys.argv[2].split(':'); from reconciler.egress.gatehouse import main; "
    "sys.exit(main(sys.argv[1:]))"
)
_PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "TZ")
_FIRST_WAIT_S, _LAST_WAIT_S, _LIVED_S = 0.05, 5.0, 60.0
_END_S = 2.0
_HOSTS = 400  # of a list, in one message
_ASKED = tuple(one.name for one in fields(Ask))

May = Callable[[Recipe, Ask], "Verdicted | Awaitable[Verdicted]"]
Passed = Callable[[Recipe, dict[str, Any]], None]


@dataclass(slots=True)
class _Open:
    recipe: Recipe
    listener: socket.socket
    gated: Gated


class Gatekeeper:
    """``may`` decides on a request by its recipe and what the gate understood of it, at once or later;
    ``passed`` hears what became of each. All methods are for the loop's own thread.
    """

    def __init__(self, may: May, passed: Passed) -> None:
        self._may, self._passed = may, passed
        self._open: dict[int, _Open] = {}
        self._numbers = itertools.count(1)
        self._post: Post | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._wait_s = _FIRST_WAIT_S
        self._again: asyncio.Task[None] | None = None
        self._deciding: set[asyncio.Future[None]] = set()
        self._filling: set[asyncio.Task[None]] = set()  # secrets that are found anew for a new process
        self._closed = False

    @property
    def pid(self) -> int:
        """The gate's process now; 0 when there is none."""
        return self._child.pid if self._child is not None else 0

    def open(self, recipe: Recipe, listener: socket.socket, gated: Gated) -> Callable[[], None]:
        """Serve a listening socket for one process of a recipe; gives what ends that. OSError: it cannot."""
        number = next(self._numbers)
        self._open[number] = _Open(recipe, listener, Gated((), gated.refill, gated.echoed))
        try:
            if self._post is None and self._again is None:
                self._start()
        except OSError:
            self._shut(number)
            raise
        if self._post is not None:
            self._give(number, gated.filled)
        return lambda: self._shut(number)

    async def close(self) -> None:
        """End the process; nothing is served any more."""
        self._closed = True
        tasks = [*self._filling, *self._deciding, *([self._again] if self._again is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for number in list(self._open):
            self._shut(number)
        if self._post is not None:
            self._post.close()
            self._post = None
        child, self._child = self._child, None
        if child is not None:
            await asyncio.to_thread(_reap, child, _END_S)

    def _shut(self, number: int) -> None:
        one = self._open.pop(number, None)
        if one is not None:
            one.listener.close()
            if self._post is not None:
                self._post.send({"close": number})

    def _give(self, number: int, filled: tuple[Filled, ...]) -> None:
        one, post_box = self._open[number], self._post
        assert post_box is not None  # noqa: S101 - asked before
        handed = os.dup(one.listener.fileno())
        allow = list(one.recipe.egress)
        post_box.send({"open": number}, (handed,), lambda: os.close(handed))
        for first in range(0, len(allow), _HOSTS):
            post_box.send({"allow": number, "hosts": allow[first : first + _HOSTS]})
        for slot in filled:
            value = base64.b64encode(slot.value.reveal()).decode()
            header = slot.use.header or ""
            post_box.send({"secret": number, "slot": slot.use.slot, "header": header, "value": value})
        post_box.send({"serve": number})

    def _start(self) -> None:
        ours, theirs = post.pair()
        with theirs:
            try:
                self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                    (sys.executable, "-I", "-c", _CODE, str(theirs.fileno()), _where()),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                )
            except OSError:
                ours.close()
                raise
        self._started_at = asyncio.get_running_loop().time()
        self._post = Post(ours, self._heard, self._ended)

    def _heard(self, message: dict[str, Any], numbers: list[int]) -> None:
        match message:
            case {"ask": int(number), "gate": int(gate)}:
                one = self._open.get(gate)
                ask = Ask(**{name: message[name] for name in _ASKED})
                said = self._may(one.recipe, ask) if one is not None else Verdicted(go=False)
                if isinstance(said, Verdicted):
                    self._answer(number, said)
                else:
                    task = asyncio.ensure_future(self._later(number, said, self._post))
                    self._deciding.add(task)
                    task.add_done_callback(self._deciding.discard)
            case {"passed": int(gate), "passage": dict(passage)}:
                if (one := self._open.get(gate)) is not None:
                    self._passed(one.recipe, passage)
                    if passage.get("cause") == "echo":
                        one.gated.echoed()
            case _:
                pass

    def _answer(self, number: int, said: Verdicted) -> None:
        if self._post is not None:
            self._post.send({"answer": number, "go": said.go, "cause": said.cause, "why": said.why})

    async def _later(self, number: int, said: Awaitable[Verdicted], post_box: Post | None) -> None:
        """Answer when it is decided: to the very process that asked, and with no where deciding failed."""
        if post_box is not None:
            post_box.send({"wait": number})
        verdict = Verdicted(go=False, why="the controller could not decide")
        try:
            verdict = await said
        except Exception as fault:  # noqa: BLE001 - whoever asked is answered, and a line is written
            _LOG.error("a request could not be decided on: %s", type(fault).__name__)
        if self._post is post_box:
            self._answer(number, verdict)

    def _ended(self) -> None:
        """It died: begin anew, for whoever has a gate."""
        child, self._child, self._post = self._child, None, None
        if child is not None:
            _reap(child, 0.0)
        for task in self._filling:
            task.cancel()
        if self._closed:
            return
        _LOG.warning("the gate ended: it is started again")
        now = asyncio.get_running_loop().time()
        lived = now - self._started_at > _LIVED_S
        self._wait_s = _FIRST_WAIT_S if lived else min(self._wait_s * 2, _LAST_WAIT_S)
        self._again = asyncio.get_running_loop().create_task(self._begin_anew())

    async def _begin_anew(self) -> None:
        try:
            while self._open:
                await asyncio.sleep(self._wait_s)
                with suppress(OSError):
                    self._start()
                    break
                self._wait_s = min(self._wait_s * 2, _LAST_WAIT_S)
        finally:
            self._again = None
        for number in self._open:  # each by itself: a program that hangs holds up its own connector alone
            task = asyncio.get_running_loop().create_task(self._fill_anew(number, self._post))
            self._filling.add(task)
            task.add_done_callback(self._filled_anew)

    async def _fill_anew(self, number: int, post_box: Post | None) -> None:
        refill = self._open[number].gated.refill
        try:
            filled = await refill() if refill is not None else ()
        except Unresolved:  # whoever resolves it ends the instance
            return
        if number in self._open and self._post is post_box is not None:
            self._give(number, filled)

    def _filled_anew(self, task: asyncio.Task[None]) -> None:
        self._filling.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _LOG.error("secrets could not be found anew: %s", type(fault).__name__)


def _reap(child: "subprocess.Popen[bytes]", patience_s: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        child.wait(patience_s)
        return
    child.kill()
    child.wait()


def _where() -> str:
    """Where our own process finds its modules, by a variable too: the child reads none."""
    return ":".join((_ROOT, *(one for one in sys.path if one.startswith("/"))))
