"""The lane to a builtin connector: calls go to threads of this room and their answers come back on the loop.

It is what ``model.calls.Lane`` asks for. A few threads answer for each agent (``router.crew``), so a call may
wait for one of its own agent's. A cancelled call's answer goes nowhere, and its thread stops at the next
piece of its work. While calls run, the instance is held.
"""

import asyncio
import functools
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from reconciler.builtin import fs
from reconciler.builtin.asking import Answerer, Asked, Ended
from reconciler.model.calls import Refusal, Reply, Result, Sink
from reconciler.model.names import InstanceName
from reconciler.router.beneath import Denied, short
from reconciler.router.crew import Crew

RUNTIME = "builtin"
_AT_ONCE = 4
_LOG = logging.getLogger("handler.builtin")
_TOOLS: Mapping[str, Answerer] = fs.TOOLS
_FAULTY = Refusal("unavailable", "a fault of the product's own: the controller's log has it")


class Holder(Protocol):
    """Who counts the calls that an instance has: the supervisor."""

    def hold(self, name: InstanceName) -> None: ...

    def release(self, name: InstanceName) -> None: ...


@functools.cache
def threads() -> Crew:
    """Made when the first call comes: most controllers never need them."""
    return Crew("builtin")


class BuiltinLane:
    """One instance of a builtin connector. All methods are for the loop's own thread."""

    is_contained = False  # whether what it does stands in a sandbox
    inbox: int = -1  # nothing is handed over: a builtin opens what lies in the scope by itself
    outbox: int = -1

    def __init__(self, name: InstanceName, holder: Holder, most: int = _AT_ONCE) -> None:
        """``most`` calls of an agent are answered at the same time; others wait for their turn, as they
        came.
        """
        self._name = name
        self._holder = holder
        self._most = most
        self._running: Counter[str] = Counter()  # by whose they are; also of calls that were given up
        self._whose: dict[int, str] = {}  # of each that runs or waits
        self._waiting: deque[tuple[int, str, Mapping[str, Any]]] = deque()
        self._next = 1
        self._calls: dict[int, Sink] = {}

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        """Answer one call in a thread; the number cancels it. What bounds an answer is the router's check."""
        number = self._next
        self._next += 1
        self._calls[number] = sink
        self.hold()
        self._whose[number] = whose = self._counted(sink)
        if self._running[whose] < self._most:
            self._begin(number, tool, arguments)
        else:
            self._waiting.append((number, tool, arguments))
        return number

    def _begin(self, number: int, tool: str, arguments: Mapping[str, Any]) -> None:
        self._running[self._whose[number]] += 1
        sink = self._calls[number]
        asked = Asked(sink.session, sink.scope, lambda: number in self._calls)
        told = threads().submit(sink.caller, _guarded, self.answer, (tool, arguments, asked))
        future: asyncio.Future[Any] = asyncio.wrap_future(told)
        future.add_done_callback(lambda done: self._done(number, done))

    def _counted(self, sink: Sink) -> str:
        """Among whose calls it counts: a folder that hangs holds up the calls of its own agent alone."""
        return sink.caller

    def answer(self, tool: str, arguments: Mapping[str, Any], asked: Asked) -> Reply:
        """What is said to one call. Runs in a thread; raises as an ``Answerer`` does."""
        answerer = _TOOLS.get(tool)
        if answerer is None:
            return Refusal("unavailable", "the product has no such tool")
        asked.go_on()
        answer = answerer(arguments, asked)
        return Result(answer, {}, tuple(asked.read))

    def close(self) -> None:
        """Nothing is held."""

    def cancel(self, number: int) -> bool:
        """Forget a call; its thread sees it at its next piece of work, and one that waits never begins."""
        if self._calls.pop(number, None) is None or all(one[0] != number for one in self._waiting):
            return True
        self._waiting = deque(one for one in self._waiting if one[0] != number)
        del self._whose[number]
        self.release()
        return False

    def serves(self, number: int) -> Sink | None:
        """Who waits for that call's answer."""
        return self._calls.get(number)

    def prove(self, heard: Callable[[Refusal | None], None]) -> None:
        """It is there whenever the controller is."""
        heard(None)

    def hold(self) -> None:
        """As ``model.calls.Lane`` has it."""
        self._holder.hold(self._name)

    def release(self) -> None:
        """As ``model.calls.Lane`` has it."""
        self._holder.release(self._name)

    def _done(self, number: int, future: "asyncio.Future[Reply]") -> None:
        whose = self._whose.pop(number)
        self._running[whose] -= 1
        self._running += Counter()  # forgets who has none
        self.release()
        if (waits := next((one for one in self._waiting if self._whose[one[0]] == whose), None)) is not None:
            self._waiting.remove(waits)
            self._begin(*waits)
        sink = self._calls.pop(number, None)
        if future.cancelled():  # the loop is closing
            return
        if fault := future.exception():
            _LOG.error("a builtin tool met a fault of its own", exc_info=fault)
        reply = _FAULTY if fault else future.result()
        if sink is not None:
            sink.done(reply)


def _guarded(
    answer: Callable[[str, Mapping[str, Any], Asked], Reply], call: tuple[str, Mapping[str, Any], Asked]
) -> Reply:
    """Run in a thread; whatever happens, somebody hears of it. What is written gets its name in the last step
    of all, so a tool that raises one of these has changed nothing.
    """
    try:
        return answer(*call)
    except Ended as ended:
        return Refusal(ended.code, ended.diagnostic, no_effect="said")
    except Denied as denied:
        return Refusal(denied.denial.value, denied.diagnostic, no_effect="said")
    except OSError as error:
        return Refusal("unavailable", f"the machine refused it: {short(error)}", no_effect="said")
    except Exception:  # noqa: BLE001 - a fault of ours ends one call, told in the log and never to an agent
        _LOG.exception("a builtin tool met a fault of its own")
        return _FAULTY
