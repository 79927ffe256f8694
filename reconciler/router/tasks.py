"""MCP's tasks extension (``io.modelcontextprotocol/tasks``, SEP-2663): another way to the same jobs.

A task is a job of the ledger and its id the job's handle, so that a client may begin with one way and end
with the other. ``tasks/get`` gives what the tool of the result gives, files and all. A tool's error is the
result of a task that is ``completed``; none is ever ``failed``, which is for errors of the protocol: those
are told before there is a task. Who did not declare the extension in a request is never answered with a task.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from reconciler.model.calls import Refusal
from reconciler.model.jobs import JOB, JobSeen
from reconciler.router import answers, mcp
from reconciler.router.steps import Answer, Outcome, Refused
from reconciler.wire import jsonrpc
from reconciler.wire.jsonrpc import Id

_FIND_S = 60.0  # a ledger that says nothing for so long is not waited for
_POLL_S = (1.0, 15.0)  # between two looks at a task, the least and the most…
_POLL_SHARE = 10  # …and otherwise a tenth of its age: what took long takes longer


_DONE = {"resultType": "complete"}


class Finding:
    """A request about a task until it is known whose job that is. ``found`` hears it, None: given up."""

    def __init__(
        self,
        clock: Callable[[], float],
        ask: mcp.AskTask,
        found: Callable[[mcp.AskTask, JobSeen | Refusal | None], None],
    ) -> None:
        self.over = False
        self._clock, self._started = clock, clock()
        self._ask, self._found = ask, found

    def heard(self, seen: JobSeen | Refusal | None) -> None:
        """The answer; a late one is nobody's."""
        if not self.over:
            self.over = True
            self._found(self._ask, seen)

    def is_late(self) -> bool:
        """Whether its time is up."""
        return self._clock() - self._started >= _FIND_S

    def expire(self) -> None:
        """Its time is up."""
        self.heard(Refusal("unavailable", f"no word of the job within {_FIND_S:g} s"))

    def cancel(self) -> None:
        """The agent gave it up."""
        self.heard(None)

    def abandon(self, why: str) -> None:
        """Its session ends."""
        self.heard(Refusal("unavailable", why))


def about(face: mcp.Face, ask: mcp.AskTask, seen: JobSeen | Refusal) -> bytes | mcp.Call:
    """What a request about a job comes to: a line, or the call of that one of its tools which says more."""
    if isinstance(seen, Refusal):
        return _error(ask.id, seen.code)
    interface, tool = seen.tool
    offers = face.tasks.get(tool)
    if offers is None or str(offers["result"].route.interface) != interface:
        return _error(ask.id, "refused")  # its tools are not among what this agent may use here
    if ask.verb == "update":  # no task asks for anything: whatever is told is told too late
        return jsonrpc.result(ask.id, _DONE)
    if ask.verb == "get" and seen.state in ("working", "cancelled"):
        return jsonrpc.result(ask.id, _told(seen, seen.state))
    offer = offers["cancel" if ask.verb == "cancel" else "result"]
    return mcp.Call(ask.id, offer, {JOB: ask.handle}, modern=True, trace=ask.trace, task=ask.verb)


def ended(ask: mcp.Call, outcome: Outcome, seen: JobSeen | None) -> bytes:
    """The line of a call that has ended, as its client may hear it; ``seen`` is the job that it was about."""
    if not ask.task or (ask.task == "create" and isinstance(outcome, Refused)):
        return _plain(ask, outcome)
    if seen is None:
        return _error(ask.id, outcome.code if isinstance(outcome, Refused) else "unavailable")
    if ask.task == "create":
        return jsonrpc.result(ask.id, _told(seen, "working") | {"resultType": "task"})
    if ask.task == "cancel":
        return jsonrpc.result(ask.id, _DONE)
    if seen.state in ("working", "cancelled"):
        return jsonrpc.result(ask.id, _told(seen, seen.state))
    result = orjson.loads(_plain(ask, outcome, seen))["result"]
    return jsonrpc.result(ask.id, _told(seen, "completed") | {"result": result})


def _plain(ask: mcp.Call, outcome: Outcome, kept: JobSeen | None = None) -> bytes:
    """The line of a call of a tool. What was ``kept`` and could not be given may still be had."""
    if isinstance(outcome, Answer):
        return answers.success(ask, outcome.structured)
    detail = outcome.detail
    if kept is not None and kept.state == "succeeded":
        detail = f"the job is done; ask {ask.offer.tool.name} with the job {kept.handle} for its result"
    return answers.failure(ask, outcome.code, detail)


def _told(seen: JobSeen, status: str) -> dict[str, Any]:
    """A job as a task."""
    age_s = max(0.0, seen.changed_at - seen.made_at)
    told = {
        **_DONE,
        "taskId": seen.handle,
        "status": status,
        "createdAt": _instant(seen.made_at),
        "lastUpdatedAt": _instant(seen.changed_at),
        "ttlMs": math.ceil((seen.kept_until - seen.made_at) * 1000) if seen.kept_until else None,
        "pollIntervalMs": int(1000 * min(max(_POLL_S[0], age_s / _POLL_SHARE), _POLL_S[1])),
    }
    if seen.progress is not None and status == "working":
        told["statusMessage"] = f"{seen.progress:.0%} done"
    return told


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _error(ident: Id, code: str) -> bytes:
    """A request about a task that is not answered: it is not there, or nobody can say now."""
    if code == "refused":
        return jsonrpc.error(ident, jsonrpc.INVALID_PARAMS, mcp.NO_TASK)
    return jsonrpc.error(ident, jsonrpc.INTERNAL_ERROR, mcp.ROUTER_TEXTS["unavailable"])
