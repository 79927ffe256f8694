"""Copies of calls: what a binding's ``shadow`` would have answered, asked after the caller had its answer.

The lane of a shadowed binding is wrapped: a sampled call of a tool without effect keeps its arguments and
open descriptors of its input files, and once it is answered a copy waits for the shadow. One copy of a
binding is asked at a time, a few wait, others are dropped: the caller waits for none of it and no fault of a
copy reaches it. What came of a copy is a line of ``<state>/shadow/NAME.jsonl``, without payload, and a count.
"""

import asyncio
import logging
import os
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from reconciler.admission.admit import Admission
from reconciler.control.appended import Appended
from reconciler.control.exposition import Family, counted
from reconciler.control.likeness import Likeness, compared, named
from reconciler.control.status import iso
from reconciler.control.threads import to_its_end
from reconciler.model.calls import Lane, Refusal, Relayed, Reply, Result, Sink
from reconciler.model.contract import MODEL, Contract, Tool
from reconciler.model.names import InstanceName, InterfaceRef, Kind, ObjectRef
from reconciler.model.resources import Binding, Connector
from reconciler.model.routes import ScopeFolder
from reconciler.router import files
from reconciler.router.call import judged
from reconciler.router.files import Denied
from reconciler.router.steps import Refused

_HELD = 5  # copies of one binding, from the call's begin to the comparison; more are dropped
_BURST = 8.0  # calls that are copied at once after a pause…
_A_SECOND = 1.0  # …and as many a second from then on
_FILES = 8  # input files of a call that is copied
_FILE_BYTES = 16 * 2**20  # of all of them
_ARGUMENT_BYTES = 2**20
_ARGUMENT_VALUES = 10_000
_RECORD_BYTES = 2**20  # of a record file, and of the one before it
_LOG = logging.getLogger("handler.shadow")

Open = Callable[[InstanceName, Callable[[Lane | Refusal], None]], None]


@dataclass(slots=True)
class Copy:
    """One call to be asked again. Its files are descriptors: the names go with the caller's answer."""

    plan: "Plan"
    tool: str
    arguments: Mapping[str, Any]
    inputs: dict[str, int]  # blob to descriptor
    max_bytes: int
    began: float
    own: Reply | None = None
    own_ms: float = 0.0

    def close(self) -> None:
        """Let go of the files and of the place, once."""
        self.plan.held.discard(id(self))
        while self.inputs:
            os.close(self.inputs.popitem()[1])


@dataclass(slots=True)
class Plan:
    """One shadowed binding: who shadows it, what may be copied, and what came of it so far."""

    binding: str
    shadow: str
    file: Appended
    models: tuple[str, ...] = ()  # of the shadow
    tools: Mapping[str, tuple[tuple[Contract, Tool], ...]] = field(default_factory=dict)
    known: frozenset[str] = frozenset()  # the names of fields that may be told
    counts: Counter[str] = field(default_factory=Counter)
    held: set[int] = field(default_factory=set)  # copies that are not over
    waiting: deque[Copy] = field(default_factory=deque)
    task: "asyncio.Task[None] | None" = None
    tokens: float = _BURST
    filled_at: float = 0.0


class Shadows:
    """Every shadowed binding. All methods are for the loop's own thread."""

    def __init__(self, state: Path, now: Callable[[], float], clock: Callable[[], float]) -> None:
        self.plans: dict[str, Plan] = {}
        self.opening: Open  # starts an instance as the router does, and never copies
        self.instance: Callable[[str], InstanceName | None]  # that a binding wants now
        self._folder = state / "shadow"
        self._now = now
        self.clock = clock

    def follow(self, admission: Admission, wanted: Mapping[str, str]) -> None:
        """From now on these bindings are shadowed by those."""
        for name in [*self.plans]:
            if wanted.get(name) != self.plans[name].shadow:
                self._end(self.plans.pop(name))
        for name, shadow in wanted.items():
            plan = self.plans.get(name)
            if plan is None:
                places = (self._folder / f"{name}.jsonl", self._folder / f"{name}.1.jsonl")
                plan = self.plans[name] = Plan(name, shadow, Appended(*places, _RECORD_BYTES))
                plan.filled_at = self.clock()
            self._see(plan, admission)

    def _see(self, plan: Plan, admission: Admission) -> None:
        binding = admission.in_force.get(ObjectRef(Kind.BINDING, plan.binding))
        shadow = admission.in_force.get(ObjectRef(Kind.BINDING, plan.shadow))
        spec = binding.spec if binding else None
        name = (spec.connector if isinstance(spec, Binding) else None) or ""
        connector = admission.in_force.get(ObjectRef(Kind.CONNECTOR, name))
        plan.models = shadow.spec.models if shadow and isinstance(shadow.spec, Binding) else ()
        offers = connector.spec.implements if connector and isinstance(connector.spec, Connector) else ()
        found = (admission.contracts.get(InterfaceRef.parse(one)) for one in offers)
        plan.tools = copied_tools([one for one in found if one is not None])
        schemas = [tool.definition["outputSchema"] for pairs in plan.tools.values() for _, tool in pairs]
        plan.known = named(schemas)

    def over(self, instance: InstanceName, lane: Lane) -> Lane:
        """The lane that one call of a binding goes by: its own, or one that overhears."""
        plan = self.plans.get(instance.binding)
        return lane if plan is None else _Overheard(self, plan, lane)

    def sampled(self, plan: Plan, call: tuple[str, Mapping[str, Any], int], inbox: int) -> Copy | None:
        """What is kept of a call that begins, or None when it is not to be copied."""
        tool, arguments, max_bytes = call
        if tool not in plan.tools:
            return None
        now = self.clock()
        plan.tokens = min(_BURST, plan.tokens + (now - plan.filled_at) * _A_SECOND)
        plan.filled_at = now
        if plan.tokens < 1:
            plan.counts["not_sampled"] += 1
            return None
        if len(plan.held) >= _HELD:
            plan.counts["dropped"] += 1
            return None
        copy = Copy(plan, tool, arguments, {}, max_bytes, now)
        if not (_is_light(arguments) and _opened(copy, plan.tools[tool][0][1], inbox)):
            copy.close()
            plan.counts["left_out"] += 1
            return None
        plan.tokens -= 1
        plan.held.add(id(copy))
        return copy

    def answered(self, plan: Plan, copy: Copy, reply: Reply) -> None:
        """The caller has this answer: ask the shadow, when there is room. Never raises."""
        copy.own, copy.own_ms = reply, (self.clock() - copy.began) * 1000
        gone = self.plans.get(plan.binding) is not plan
        if gone or (isinstance(reply, Refusal) and (reply.reason or reply.code == "unavailable")):
            copy.close()  # there is nothing to compare with
        else:
            plan.waiting.append(copy)
            if plan.task is None:
                plan.task = asyncio.get_running_loop().create_task(self._work(plan))

    def families(self) -> Iterator[Family]:
        """The counts, as metrics."""
        found: dict[tuple[str, ...], float] = {
            (plan.binding, plan.shadow, outcome): float(count)
            for plan in self.plans.values()
            for outcome, count in plan.counts.items()
        }
        labels = ("binding", "shadow", "outcome")
        yield counted("handler_shadow_calls_total", "Calls of shadowed bindings.", labels, found)

    async def close(self) -> None:
        """Give up every copy."""
        tasks = [plan.task for plan in self.plans.values() if plan.task is not None]
        for name in [*self.plans]:
            self._end(self.plans.pop(name))
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    def _end(self, plan: Plan) -> None:
        if plan.task is not None:
            plan.task.cancel()
        while plan.waiting:
            plan.waiting.popleft().close()

    async def _work(self, plan: Plan) -> None:
        try:
            while plan.waiting:
                copy = plan.waiting.popleft()
                try:
                    await self._copy(plan, copy)
                except Exception:  # noqa: BLE001 - a copy is nobody's call: the log has it
                    plan.counts["failed"] += 1
                    _LOG.exception("a copy of a call met a fault of Handler's own")
                finally:
                    copy.close()
        finally:
            plan.task = None

    async def _copy(self, plan: Plan, copy: Copy) -> None:
        instance = self.instance(plan.shadow)
        lane: Lane | Refusal = Refusal("unavailable", "the shadow has no instance")
        if instance is not None:
            lane = await self._lane(instance)
        reply, ms = (lane, 0.0) if isinstance(lane, Refusal) else await self._asked(plan, copy, lane)
        told = await asyncio.to_thread(_told, plan, copy, reply)
        plan.counts[told["outcome"]] += 1
        line = {
            "at": iso(self._now()), "binding": plan.binding, "shadow": plan.shadow,
            "instance": str(instance or ""), "tool": copy.tool, **told,
            "ms": {"own": round(copy.own_ms, 1), "shadow": round(ms, 1)},
            "missed": {word: plan.counts[word] for word in ("not_sampled", "dropped", "left_out")},
        }  # fmt: skip
        try:
            await asyncio.to_thread(plan.file.append, orjson.dumps(line) + b"\n")
        except OSError as error:
            plan.counts["unwritten"] += 1
            _LOG.warning("what came of a copy was not written: %s", error.strerror)

    async def _lane(self, instance: InstanceName) -> Lane | Refusal:
        came: asyncio.Future[Lane | Refusal] = asyncio.get_running_loop().create_future()
        self.opening(instance, lambda lane: None if came.done() else came.set_result(lane))
        return await came

    async def _asked(self, plan: Plan, copy: Copy, lane: Lane) -> tuple[Reply, float]:
        """What the shadow says, and within how many milliseconds once it had all that it needs."""
        placed: list[str] = []
        lane.hold()
        try:
            inbox = os.dup(lane.inbox) if copy.inputs else -1
            try:
                arguments = await to_its_end(_handed, plan, copy, inbox, placed)
                began = self.clock()
                seconds = max(one.spec.limits.timeout_seconds for one, _ in plan.tools[copy.tool])
                reply = await _reply(lane, f"shadow of {plan.binding}", (copy, arguments), seconds)
                return reply, (self.clock() - began) * 1000
            finally:
                for blob in placed:
                    files.discard(inbox, blob)
                if inbox >= 0:
                    os.close(inbox)
        except (OSError, Denied):
            return Refusal("unavailable", "its files cannot be handed over"), 0.0
        finally:
            lane.release()


def copied_tools(contracts: list[Contract]) -> Mapping[str, tuple[tuple[Contract, Tool], ...]]:
    """The tools that are asked twice: those without an effect in every version that has them."""
    found: dict[str, list[tuple[Contract, Tool]]] = {}
    for contract in contracts:
        for name, tool in contract.tools.items():
            found.setdefault(name, []).append((contract, tool))
    return {
        name: tuple(pairs) for name, pairs in found.items() if all(_does_nothing(tool) for _, tool in pairs)
    }


def _does_nothing(tool: Tool) -> bool:
    hints = tool.definition.get("annotations", {})
    says_so = hints.get("readOnlyHint", True) and not hints.get("destructiveHint", False)
    return bool(tool.kind == "call" and tool.effect == "none" and says_so)


def _is_light(arguments: Mapping[str, Any]) -> bool:
    """Whether arguments are small enough to be kept a while; looks at no more than that."""
    left, values, stack = _ARGUMENT_BYTES, _ARGUMENT_VALUES, [arguments]
    while stack and left > 0 and values > 0:
        one: Any = stack.pop()
        values -= 1
        if isinstance(one, str):
            left -= len(one)
        elif isinstance(one, Mapping):
            left -= sum(map(len, one)) if len(one) <= values else left
            stack += one.values() if left > 0 else ()
        elif isinstance(one, list):
            stack += one[: values + 1]
    return not stack and left > 0 and values > 0


def _opened(copy: Copy, tool: Tool, inbox: int) -> bool:
    """Open what was handed over for the call; False for too much, and for a call that writes files."""
    size = 0
    for one in tool.files:
        value = copy.arguments.get(one.name)
        if value is None:
            continue
        if one.output:
            return False
        for given in value if one.many else [value]:
            size += given["size"]
            if size > _FILE_BYTES or len(copy.inputs) >= _FILES:
                return False
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                copy.inputs[given["blob"]] = os.open(given["blob"], flags, dir_fd=inbox)
            except OSError:
                return False
    return True


def _handed(plan: Plan, copy: Copy, inbox: int, placed: list[str]) -> dict[str, Any]:
    """The arguments as the shadow gets them, its files in its own inbox. Runs in a thread."""
    tool = plan.tools[copy.tool][0][1]
    arguments = dict(copy.arguments)
    for one in tool.files:
        if (value := arguments.get(one.name)) is not None:
            many = [_placed(copy, given, inbox, placed) for given in (value if one.many else [value])]
            arguments[one.name] = many if one.many else many[0]
    if tool.takes_model and arguments.get(MODEL) not in plan.models:
        arguments.pop(MODEL, None)
        if plan.models:
            arguments[MODEL] = plan.models[0]
    return arguments


def _placed(copy: Copy, given: Mapping[str, Any], inbox: int, placed: list[str]) -> dict[str, Any]:
    ending = os.path.splitext(given["blob"])[1]  # noqa: PTH122 - a name and no path
    blob = f"shadow-{secrets.token_hex(12)}{ending}"
    placed.append(blob)
    opened = files.Opened(copy.inputs[given["blob"]], given["name"], given["mediaType"])
    made = files.hand_in(opened, inbox, blob, max_bytes=_FILE_BYTES, wanted=lambda: True)
    os.close(made.descriptor)
    return {**given, "blob": blob}


async def _reply(lane: Lane, caller: str, call: tuple[Copy, Mapping[str, Any]], seconds: float) -> Reply:
    copy, arguments = call
    ear = _Ear(caller)
    number = lane.send(copy.tool, arguments, ear, copy.max_bytes)
    try:
        async with asyncio.timeout(seconds):
            return await ear.heard
    except TimeoutError:
        return Refusal("unavailable", "no end in time")
    finally:
        if not ear.heard.done() or ear.heard.cancelled():
            lane.cancel(number)


def _told(plan: Plan, copy: Copy, reply: Reply) -> dict[str, Any]:
    """What a record says of two answers: codes and paths. Runs in a thread."""
    own, other = copy.own, reply
    codes = {"own": _code(plan, copy.tool, own), "shadow": _code(plan, copy.tool, other)}
    likeness = Likeness((), ())
    if isinstance(own, Result) and isinstance(other, Result):
        likeness = compared(own.structured, other.structured, plan.known)
    if codes["shadow"] == "unavailable":
        outcome = "unanswered"
    else:
        is_same = codes["own"] == codes["shadow"] and not likeness.different and not likeness.cut
        outcome = "same" if is_same else "different"
    return {
        "outcome": outcome, "codes": codes, "equal": likeness.equal, "different": likeness.different,
        "cut": likeness.cut,
    }  # fmt: skip


def _code(plan: Plan, tool: str, reply: Reply | None) -> str:
    """The code that an agent would have met, in the most lenient of the versions."""
    code = "unavailable"
    for contract, one in plan.tools.get(tool, ()) if reply is not None else ():
        outcome = judged(contract, one, reply)  # type: ignore[arg-type]
        code = outcome.code if isinstance(outcome, Refused) else "ok"
        if code == "ok":
            break
    return code


class _Ear:
    """The sink of a copy."""

    wants_progress = False
    session = ""
    entry = ""  # a policy takes it for the highest class
    attempt = ""  # it has no effect
    scope: tuple[ScopeFolder, ...] = ()

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.heard: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def progress(self, progress: float, total: float | None) -> None:
        """Nobody waits for it."""

    def done(self, reply: Reply) -> None:
        """As ``model.calls.Sink`` has it."""
        if not self.heard.done():
            self.heard.set_result(reply)


class _Overheard:
    """The lane of one call of a shadowed binding."""

    __slots__ = ("_copy", "_lane", "_plan", "_shadows", "inbox", "outbox")

    def __init__(self, shadows: Shadows, plan: Plan, lane: Lane) -> None:
        self._shadows, self._plan, self._lane = shadows, plan, lane
        self.inbox, self.outbox = lane.inbox, lane.outbox
        self._copy: Copy | None = None

    def send(self, tool: str, arguments: Mapping[str, Any], sink: Sink, max_reply_bytes: int) -> int:
        """As ``model.calls.Lane`` has it."""
        try:
            call = (tool, arguments, max_reply_bytes)
            self._copy = copy = self._shadows.sampled(self._plan, call, self.inbox)
        except Exception:  # noqa: BLE001 - the caller is not harmed by what is only looked at
            _LOG.exception("a call could not be copied")
            copy = None
        if copy is None:
            return self._lane.send(tool, arguments, sink, max_reply_bytes)
        return self._lane.send(tool, arguments, _Overhearing(self, sink), max_reply_bytes)

    def cancel(self, number: int) -> bool:
        """As ``model.calls.Lane`` has it; a call that was given up is not copied."""
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.close()
        return self._lane.cancel(number)

    def hold(self) -> None:
        self._lane.hold()

    def release(self) -> None:
        self._lane.release()

    def answered(self, reply: Reply) -> None:
        """The caller has its answer."""
        copy, self._copy = self._copy, None
        if copy is not None:
            with suppress(Exception):
                self._shadows.answered(self._plan, copy, reply)


class _Overhearing(Relayed):
    """The sink of a call that is copied: the caller hears first."""

    __slots__ = ("_lane",)

    def __init__(self, lane: _Overheard, sink: Sink) -> None:
        super().__init__(sink)
        self._lane = lane

    def done(self, reply: Reply) -> None:
        """As ``model.calls.Sink`` has it."""
        self._sink.done(reply)
        self._lane.answered(reply)
