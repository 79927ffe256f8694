"""What joins a route to a running connector: one connection an instance, an id table, MCP by ``upstream``.

Implements ``model.calls.Dispatch`` over the supervisor: a first call starts the instance (single flight) and
is sent right behind ``initialize``, without waiting for its answer. Calls above ``maxConcurrentCalls`` wait
here, and agents take turns. A connector that never answers, goes silent, talks nonsense or leaves is reported
to the supervisor, which alone kills and restarts; its calls end ``unavailable`` and are never sent twice.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from reconciler import __version__
from reconciler.builtin import tape
from reconciler.control.turns import Turns
from reconciler.control.within import RUNTIMES as WITHIN
from reconciler.control.within import InnerLane, Within
from reconciler.drivers import upstream, usual
from reconciler.drivers.upstream import Garbage, Progressed
from reconciler.model.calls import Lane, NoEffect, Refusal, Sink
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.status import Reason
from reconciler.runtime.supervisor import Unready
from reconciler.wire.framing import Framer, Oversized
from reconciler.wire.jsonrpc import Response

MAX_GARBAGE = 20  # lines without meaning before the connector is started anew
MAX_UNASKED = 5_000  # lines a second that answer nothing: progress, notes, asks, answers too late
_READY_S = 30.0  # where no recipe says otherwise
_AT_ONCE = 8
_LINGER_S = 0.1  # without calls, before the supervisor hears of it: every word to it costs more than a call
_PING_S = 5.0  # after a cancelled call, a living connector answers a ping within this
_LEAVE_S = 1.0  # between a closed connection and the end of its process
_FIRST_LINE = 2**20  # bytes of a line before any call has asked for more
_MAX_SKIPPED = 64 * 2**20  # bytes of one oversized line that are read over
_MAX_UNSENT = 64 * 2**20  # bytes that a connector may leave unread


class Endpoint(Protocol):
    """A started connector, as the supervisor gives it. Descriptors are the supervisor's."""

    inbox: int
    outbox: int
    ended: "asyncio.Future[str]"
    echoes: Callable[[bytes], bool] | None  # whether a line holds a secret that it was given, if it was any

    def connect(self) -> socket.socket:
        """A connected, non-blocking socket; raises OSError."""
        ...


class Instances(Protocol):
    """The supervisor, as much of it as is needed here."""

    async def ready(self, name: InstanceName) -> Endpoint: ...

    def hold(self, name: InstanceName) -> None: ...

    def release(self, name: InstanceName) -> None: ...

    def answered(self, name: InstanceName) -> None: ...

    def broken(self, name: InstanceName, reason: Reason | None, message: str) -> None: ...


class Dispatcher:
    """Lanes by instance. All methods are for the loop's own thread."""

    def __init__(
        self, instances: Instances, *, recipe: Callable[[InstanceName], Recipe | None] = lambda _: None,
        root: Path | None = None,
    ) -> None:  # fmt: skip
        """``recipe`` gives an instance's bounds; ``root``, the configuration, is where cassettes lie."""
        self.root = root
        self.instances = instances
        self._recipe = recipe
        self.within = Within(root)
        self._lanes: dict[InstanceName, Connector | InnerLane] = {}
        self._leaving: dict[InstanceName, asyncio.Future[str]] = {}  # ends of processes behind lost lanes
        self._opening: dict[InstanceName, list[Callable[[Lane | Refusal], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def lane(self, instance: InstanceName) -> Lane | None:
        """The lane when the instance runs already, else None."""
        return self._lanes.get(instance)

    def open_lane(self, instance: InstanceName, ready: Callable[[Lane | Refusal], None]) -> None:
        """Start the instance, once for all who ask meanwhile, and call back with the lane or a Refusal."""
        lane = self._lanes.get(instance)
        if lane is not None:
            ready(lane)
            return
        waiting = self._opening.get(instance)
        if waiting is not None:
            waiting.append(ready)
            return
        recipe = self._recipe(instance)
        if recipe is not None and recipe.runtime in WITHIN:
            ready(self._builtin(instance, recipe))
            return
        self._opening[instance] = [ready]
        self.keep(asyncio.get_running_loop().create_task(self._open(instance)))

    def prove(self, instance: InstanceName, heard: Callable[[Refusal | None], None]) -> None:
        """Start the instance and call back once: None when it answered its first question, else why not.

        A lane alone proves nothing: it is there as soon as a call may be sent ahead of that answer.
        """

        def ready(lane: Lane | Refusal) -> None:
            if isinstance(lane, Refusal):
                heard(lane)
            else:
                cast(Connector | InnerLane, lane).prove(heard)

        self.open_lane(instance, ready)

    def leave(self, name: InstanceName) -> None:
        """Send no more calls to the process that runs: the next one waits a little for its end, then opens
        another connection. Calls on their way are not touched.
        """
        if isinstance(lane := self._lanes.get(name), Connector):
            self.ended(lane)

    def serves(self, instance: InstanceName, number: int) -> Sink | None:
        """Who waits for the answer of a call of this number that has gone out to the instance, if it did."""
        lane = self._lanes.get(instance)
        return lane.serves(number) if lane is not None else None

    def keep(self, task: "asyncio.Task[None]") -> None:
        """Hold on to a task until it ends."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def ended(self, lane: "Connector") -> None:
        """A lane's connection is over; the next call opens another."""
        if self._lanes.get(lane.name) is lane:
            del self._lanes[lane.name]
            self._leaving[lane.name] = lane.process_ended

    def made(self, name: InstanceName, endpoint: Endpoint, recipe: Recipe | None) -> "Connector":
        """The lane of a process that runs."""
        return Connector(self, name, endpoint, recipe)

    def _builtin(self, instance: InstanceName, recipe: Recipe) -> InnerLane:
        """A lane within the controller; those of instances that are gone go when one comes."""
        for name, old in [*self._lanes.items()]:
            if not isinstance(old, Connector) and self._recipe(name) is None:
                self._lanes.pop(name).close()
        made = self._lanes[instance] = self.within.lane(instance, self.instances, recipe)
        return made

    async def _open(self, name: InstanceName) -> None:
        outcome: Lane | Refusal = Refusal("unavailable", "the start was given up")
        try:
            outcome = await self._connected(name)
        except Unready as unready:
            outcome = Refusal("unavailable", str(unready), unready.reason)
        except OSError as error:
            reason = "" if isinstance(error, ConnectionError) else "ReconcileError"  # it ended, or we cannot
            outcome = Refusal("unavailable", f"cannot connect to the connector: {error.strerror}", reason)
        finally:
            for ready in self._opening.pop(name):
                ready(outcome)

    async def _connected(self, name: InstanceName) -> "Connector":
        if (leaving := self._leaving.pop(name, None)) is not None:
            # Its process is about to end, and a call that reached it now would end with it.
            await asyncio.wait({leaving}, timeout=2 * _LEAVE_S)
        endpoint = await self.instances.ready(name)
        connection = endpoint.connect()  # fails when the process has ended, and its descriptors are gone
        lane = self.made(name, endpoint, self._recipe(name))
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: lane, sock=connection)
        except BaseException:
            connection.close()
            lane.close()
            raise
        self._lanes[name] = lane
        return lane


class Connector(asyncio.Protocol):
    """One connection to one instance: the lane that calls are sent on."""

    def __init__(
        self, dispatcher: Dispatcher, name: InstanceName, endpoint: Endpoint, recipe: Recipe | None
    ) -> None:
        self.name = name
        self.inbox = os.dup(endpoint.inbox)  # -1 once the connection is over
        self.outbox = os.dup(endpoint.outbox)
        self.late = 0  # answers that nobody waited for any more
        self.garbage = 0  # lines without meaning
        self._unasked = 0  # lines that answer nothing, in the second that began at…
        self._second = 0.0
        self._dispatcher = dispatcher
        self._instances = dispatcher.instances
        self._endpoint = endpoint
        self._listen = self._hear if endpoint.echoes is None else self._hear_guarded
        self.process_ended = endpoint.ended
        self._tape = tape.recorder(recipe, dispatcher.root)
        self._most = recipe.max_concurrent_calls if recipe else _AT_ONCE
        self._ready_s = recipe.ready_timeout_s if recipe else _READY_S
        self._framer = Framer(_FIRST_LINE)
        self._calls: dict[int, tuple[Sink, int]] = {}  # with the bound of the line that answers
        self._waiting = Turns()  # calls that have not gone out
        self._unsent: list[bytes] = []  # lines of this turn of the loop
        self._out = 0  # calls that have gone out and are not answered
        self._next = 1
        self._held = False  # from stopping: while there are calls, and a little longer
        self._linger: asyncio.TimerHandle | None = None
        self._handshake = 0  # the number of `initialize`, then of the last ping
        self._timer: asyncio.TimerHandle | None = None  # of that number's answer
        self._initialized = False
        self._proofs: list[Callable[[Refusal | None], None]] = []  # who waits for that
        self._ended = False
        self._why = "the connector closed its connection"
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport

    # the lane

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        """Send one call, or keep it until another has ended; the number cancels it."""
        number = self._next
        self._next = number + 1
        if self._ended:
            self._loop.call_soon(sink.done, Refusal("unavailable", self._why, no_effect="unsent"))
            return number
        line = upstream.call(number, tool, arguments, progress=sink.wants_progress)
        if self._tape is not None:
            sink = self._tape.listening((tool, arguments), sink, (self.inbox, self.outbox))
        calls = self._calls
        if not calls:
            self._hold()
        calls[number] = (sink, max_reply_bytes)
        if max_reply_bytes > self._framer.limit:
            self._framer.limit = max_reply_bytes
        if self._out >= self._most:
            self._waiting.add(sink.caller, number, line)
        else:
            self._out += 1
            if self._out == 1:
                self._transport.write(line)
            else:  # calls of one turn of the loop go out together: one write wakes the connector once
                if not self._unsent:
                    self._loop.call_soon(self._flush)
                self._unsent.append(line)
        return number

    def serves(self, number: int) -> Sink | None:
        """Who waits for the answer of a call, if it has gone out."""
        return self._calls[number][0] if number in self._calls and number not in self._waiting else None

    def cancel(self, number: int) -> bool:
        """Tell the connector to stop, and ask whether it lives: a call that came to no end may mean not."""
        has_gone_out = number not in self._waiting
        self._flush()
        if self._take(number) is not None and has_gone_out and not self._ended:
            self._transport.write(upstream.cancel(number))
            self._ping()
        return has_gone_out

    def prove(self, heard: Callable[[Refusal | None], None]) -> None:
        """Call back once it has answered `initialize`, with None, or has ended without, with why."""
        if self._ended:
            heard(Refusal("unavailable", self._why))
        elif self._initialized:
            heard(None)
        else:
            self._proofs.append(heard)

    def _proved(self, outcome: Refusal | None) -> None:
        proofs, self._proofs = self._proofs, []
        for heard in proofs:
            heard(outcome)

    def _flush(self) -> None:
        lines, self._unsent = self._unsent, []
        if lines and not self._ended:
            self._transport.writelines(lines)

    def hold(self) -> None:
        """Keep the process from stopping until ``release``."""
        self._instances.hold(self.name)

    def release(self) -> None:
        self._instances.release(self.name)

    def close(self) -> None:
        """Let go of the folders; nothing is handed over any more."""
        if self.inbox >= 0:
            os.close(self.inbox)
            os.close(self.outbox)
            self.inbox = self.outbox = -1

    # what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_MAX_UNSENT)
        self._transport.write(upstream.initialize(self._handshake, __version__))
        self._timer = self._loop.call_later(self._ready_s, self._silent)

    def data_received(self, data: bytes) -> None:
        framer = self._framer
        if framer.at_start and data.find(b"\n") == len(data) - 1 < framer.limit:
            self._listen(data)  # one line and nothing else: the usual case
            return
        for line in framer.feed(data):
            if self._ended:
                return
            if isinstance(line, bytes):
                self._listen(line)
            else:
                self._overlong(line)
        if framer.skipping and framer.dropped > _MAX_SKIPPED:
            self._break(None, "a line of the connector does not end")

    def pause_writing(self) -> None:
        self._break(None, "the connector does not read what it is sent")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ended and self._endpoint.ended.done():
            self._why = f"the connector ended: {self._endpoint.ended.result()}"
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._dispatcher.ended(self)
        self.close()
        calls, self._calls = self._calls, {}
        if self._linger is not None:
            self._linger.cancel()
        self._let_go()
        for number, (sink, _) in calls.items():
            proof: NoEffect = "unsent" if number in self._waiting else ""
            sink.done(Refusal("unavailable", self._why, no_effect=proof))
        if self._endpoint.ended.done():
            self._proved(Refusal("unavailable", self._why))
        else:
            self._dispatcher.keep(self._loop.create_task(self._see_it_end()))

    async def _see_it_end(self) -> None:
        """A connector that closed its connection but lives on is of no use: have it started anew. Whoever
        waits for a proof hears how it ended.
        """
        await asyncio.wait({self._endpoint.ended}, timeout=_LEAVE_S)
        if not self._endpoint.ended.done():
            self._instances.broken(self.name, None, self._why)
        self._proved(Refusal("unavailable", self._why))

    def _hear_guarded(self, line: bytes) -> None:
        """A line of a connector that was given secrets: one that holds such goes nowhere."""
        if self._endpoint.echoes is not None and self._endpoint.echoes(line):
            self._break(
                "SecretEcho", "a line of its answers held a secret that it was given: it went nowhere"
            )
        else:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        number, result = usual.answer(line)
        sent = self._take(number)
        if sent is None:
            if not line.isspace():
                self._hear_unusual(line)
        elif len(line) <= sent[1]:
            sent[0].done(result)
        else:
            sent[0].done(_too_long(len(line), sent[1]))

    def _hear_unusual(self, line: bytes) -> None:
        heard = upstream.read(line)
        if type(heard) is Response:
            self._answered(heard, len(line))
            return
        self._count_unasked()
        if isinstance(heard, Progressed):
            sent = self._calls.get(heard.number)
            if sent is not None:
                sent[0].progress(heard.progress, heard.total)
        elif isinstance(heard, bytes):
            self._transport.write(heard)
        elif isinstance(heard, Garbage):
            self._count_garbage(heard.why)

    def _answered(self, response: Response, size: int) -> None:
        sent = self._take(cast(int, response.id))
        if sent is None:
            self._answered_nobody(response)
            return
        sink, most = sent
        if size <= most:
            sink.done(upstream.reply(response))
        else:
            sink.done(_too_long(size, most))

    def _answered_nobody(self, response: Response) -> None:
        number = cast(int, response.id)
        if number == self._handshake and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if not self._initialized:
                self._initialize(response)
        elif 0 <= number < self._next:
            self.late += 1
            self._count_unasked()
        else:
            self._count_garbage("an answer to a call that was never made")

    def _initialize(self, response: Response) -> None:
        fault = upstream.greeting_fault(response)
        if fault is not None:
            self._break("StartTimeout", f"the connector does not initialize: {fault}")
            return
        self._initialized = True
        self._transport.write(upstream.INITIALIZED)
        self._instances.answered(self.name)
        self._proved(None)

    def _take(self, number: int) -> tuple[Sink, int] | None:
        """Forget a call; its place goes to one that waits."""
        sent = self._calls.pop(number, None)
        if sent is None:
            return None
        if self._out >= self._most and self._waiting:
            self._let_another_go(number)
        else:
            self._out -= 1
        if not self._calls and self._linger is None:
            self._linger = self._loop.call_later(_LINGER_S, self._let_go)
        return sent

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            self._instances.hold(self.name)

    def _let_go(self) -> None:
        """The process may stop, unless a call came meanwhile."""
        self._linger = None
        if self._held and not self._calls:
            self._held = False
            self._instances.release(self.name)

    def _let_another_go(self, number: int) -> None:
        if not self._waiting.drop(number):
            self._transport.write(self._waiting.take())

    def _overlong(self, line: Oversized) -> None:
        owner = upstream.owner(line.head)
        sent = None if owner is None else self._take(owner)
        if sent is not None:
            sent[0].done(Refusal("unavailable", f"an answer of more than {self._framer.limit} bytes"))
        else:
            self._count_garbage("an overlong line")

    def _count_garbage(self, why: str) -> None:
        self.garbage += 1
        if self.garbage >= MAX_GARBAGE:
            self._break(None, f"{self.garbage} lines without meaning; the last: {why}")

    def _count_unasked(self) -> None:
        """Whatever it is that a connector floods us with, every other agent waits while it is read."""
        now = self._loop.time()
        if now - self._second >= 1:
            self._second, self._unasked = now, 0
        self._unasked += 1
        if self._unasked > MAX_UNASKED:
            self._break(None, f"more than {MAX_UNASKED} lines in a second that answer nothing")

    def _ping(self) -> None:
        if self._timer is None:
            self._handshake = self._next
            self._next += 1
            self._transport.write(upstream.ping(self._handshake))
            self._timer = self._loop.call_later(_PING_S, self._silent)

    def _silent(self) -> None:
        if self._initialized:
            self._break(None, f"the connector has not answered a ping for {_PING_S:g} s")
        else:
            words = f"it did not answer within {self._ready_s:g} s, its connector's ready.timeoutSeconds"
            self._break("StartTimeout", words)

    def _break(self, reason: Reason | None, message: str) -> None:
        if not self._ended:
            self._ended = True
            self._why = message
            self._dispatcher.ended(self)
            self._instances.broken(self.name, reason, message)
            self._transport.abort()


def _too_long(size: int, most: int) -> Refusal:
    return Refusal("unavailable", f"an answer of {size} bytes, more than {most}")
