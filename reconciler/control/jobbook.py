"""What a person does to attempts: stop one, say what became of one, let old ones go; and how one is shown.

Where a controller runs it does so itself, in its ledger's thread (``JobBook``, by the control socket);
otherwise ``handler jobs`` takes the state folder's lock and does the same. Listing needs neither.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from reconciler.attempts import retention
from reconciler.attempts.happenings import Settled
from reconciler.attempts.ledger import Event, Ledger, OvertakenError
from reconciler.attempts.machine import ForbiddenError
from reconciler.attempts.records import Attempt, State
from reconciler.attempts.writing import Writing
from reconciler.control.rpc import Caller, Method, Refused
from reconciler.control.status import iso

MOST = 1000  # jobs in one list
SETTLED = ("succeeded", "failed", "cancelled")
_EVIDENCE_CHARS = 1000
_LOG = logging.getLogger("handler.jobs")
PRUNE_FIRST_S = 60.0
PRUNE_EVERY_S = 6 * 3600.0


class UnknownError(LookupError):
    """No attempt, or several, have what a person typed; the text says so."""


def as_json(one: Attempt, history: list[Event] | None = None) -> dict[str, Any]:
    """An attempt as ``config.jobfile`` shapes it: nothing of a payload."""
    asked = one.cancel.asked_at
    return {
        "job": one.id,
        "handle": one.handle if one.kind == "job" else "",
        "kind": one.kind,
        "agent": one.owner.agent,
        "session": one.owner.session,
        "interface": one.interface,
        "tool": one.tool,
        "binding": one.execution.binding,
        "effect": one.effect,
        "state": one.state.value,
        "parked": one.parked,
        "createdAt": iso(one.entered[State.PREPARED]),
        "since": iso(one.entered[one.state]),
        "transmissions": one.transmissions,
        "cancelAskedAt": iso(asked) if asked else None,
        "code": one.ended.code,
        "cause": one.ended.cause,
        "happened": one.ended.effect,
        "resultBytes": one.ended.result_bytes,
        "history": None if history is None else [_event(event) for event in history],
    }


def _event(one: Event) -> dict[str, Any]:
    return {
        "at": iso(one.at),
        "what": one.what,
        "from": one.src,
        "to": one.dst,
        "actor": one.actor,
        "evidence": dict(one.evidence),
    }


def listing(ledger: Ledger, which: Mapping[str, Any]) -> dict[str, Any]:
    """The attempts of a list, the newest first, and the ids of rows that cannot be read."""
    agent, binding = _text(which, "agent"), _text(which, "binding")
    every = which.get("every") is True
    found, bad = ledger.listed(MOST, only_open=not every, agent=agent, binding=binding)
    return {"jobs": [as_json(one) for one in found], "unreadable": bad}


def shown(ledger: Ledger, text: str) -> dict[str, Any]:
    """One attempt with its history. Raises UnknownError."""
    one = wanted(ledger, text)
    return as_json(one, ledger.history(one.id))


def wanted(ledger: Ledger, text: str) -> Attempt:
    """The one attempt whose id is or begins with ``text``. Raises UnknownError."""
    found = ledger.found(text)
    if len(found) > 1:
        raise UnknownError(f"several jobs begin with '{text}': write more of the id")
    if not found and (bad := ledger.unreadable(text)):
        raise UnknownError(f"the row of {bad[0]} cannot be read: the ledger was damaged, or written by hand")
    if not found:
        raise UnknownError(f"there is no job '{text}': 'handler jobs list --all' names them")
    return found[0]


def cancel(ledger: Ledger, text: str, by: str, now: float) -> Attempt:
    """Keep the wish to stop it. Raises UnknownError and ForbiddenError."""
    one = wanted(ledger, text)
    if one.is_over:
        raise ForbiddenError(f"it is over: {one.state}")
    if one.kind == "call" and one.state is State.INDETERMINATE:
        raise ForbiddenError(
            "it was a call, and nobody can be asked: 'handler jobs settle' says what became of it"
        )
    if one.kind == "call" and one.state is not State.PREPARED:
        raise ForbiddenError(
            "it is a call, no job: its connector has it, and it ends with its answer or its time"
        )
    return ledger.ask_cancel(one.id, by, now)


def settle(ledger: Ledger, text: str, said: Settled, now: float) -> Attempt:
    """Keep what a person knows of an indeterminate attempt. Raises UnknownError and ForbiddenError."""
    one = wanted(ledger, text)
    if one.state is not State.INDETERMINATE:
        raise ForbiddenError(f"it is {one.state}: only what is indeterminate is settled by a person")
    return ledger.apply(one, now, said, actor=said.by)


def pruned(ledger: Ledger, now: float, *, dry_run: bool) -> dict[str, Any]:
    """What went, or would go, as the command prints it."""
    gone = retention.prune(ledger, now, dry_run=dry_run)
    return {
        "dryRun": dry_run,
        "jobs": list(gone.attempts),
        "files": list(gone.papers),
        "decisions": gone.decisions,
    }


def settled(to: str, by: str, evidence: str) -> Settled:
    """A person's word in its form. Raises ForbiddenError where it says nothing."""
    if to not in SETTLED:
        raise ForbiddenError(f"an attempt is settled as one of {', '.join(SETTLED)}, not as '{to}'")
    if not evidence.strip():
        raise ForbiddenError("say how you know, by --evidence")
    if len(evidence) > _EVIDENCE_CHARS:
        raise ForbiddenError(f"the evidence is longer than {_EVIDENCE_CHARS} characters")
    return Settled(State(to), by, evidence.strip())


class JobBook:
    """The controller's answers about attempts, by method name."""

    def __init__(
        self,
        exists: Callable[[], bool],
        writing: Callable[[], Awaitable[Writing]],
        moved: Callable[[], None],
    ) -> None:
        """``writing`` gives the ledger, which ``exists``, or not yet; ``moved`` hears of its attempts."""
        self._exists = exists
        self._writing = writing
        self._moved = moved

    def table(self) -> Mapping[str, Method]:
        """The methods of the control socket."""
        return {
            "jobs.list": self.list,
            "jobs.get": self.get,
            "jobs.cancel": self.cancel,
            "jobs.settle": self.settle,
            "jobs.prune": self.prune,
        }

    async def list(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """The attempts that are not over, or ``every`` one; of an ``agent``, of a ``binding``."""
        if not self._exists():
            return {"jobs": [], "unreadable": []}
        return await self._done(lambda ledger: listing(ledger, params), moves=False)

    async def get(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """One ``job``, with its history."""
        job = _text(params, "job")
        return await self._done(lambda ledger: {"jobs": [shown(ledger, job)]}, moves=False)

    async def cancel(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Keep the wish to stop ``job``."""
        job, by = _text(params, "job"), _text(params, "by")
        return {"jobs": [await self._done(lambda ledger: as_json(cancel(ledger, job, by, time.time())))]}

    async def settle(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Keep what a person knows of ``job``: ``as`` a state, by ``evidence``."""
        job = _text(params, "job")
        try:
            said = settled(_text(params, "as"), _text(params, "by"), _text(params, "evidence"))
        except ForbiddenError as fault:
            raise Refused(str(fault)) from None
        return {"jobs": [await self._done(lambda ledger: as_json(settle(ledger, job, said, time.time())))]}

    async def prune(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Let go what is past its time; with ``dryRun``, say what would go."""
        dry = params.get("dryRun") is True
        return await self._done(lambda ledger: pruned(ledger, time.time(), dry_run=dry))

    async def keep_house(self) -> None:
        """Let go what is past its time, soon after a start and every few hours; until cancelled. A controller
        that never runs for hours does so, too.
        """
        wait_s = PRUNE_FIRST_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = PRUNE_EVERY_S
            if not self._exists():
                continue
            try:
                writing = await self._writing()
                more = True
                while more:  # a page each, so that calls have their turns in between
                    more = bool((await writing.run(_prune)).attempts)
            except OSError as error:
                _LOG.warning("what is past its time stays in the ledger: %s", error)

    async def _done(self, work: Callable[[Ledger], dict[str, Any]], *, moves: bool = True) -> dict[str, Any]:
        if not self._exists():
            raise Refused("there is no job: no effect was ever tried here")
        try:
            writing = await self._writing()
            return await writing.run(work)
        except (UnknownError, ForbiddenError, OvertakenError, OSError) as fault:
            raise Refused(str(fault)) from None
        finally:
            if moves:
                self._moved()


def _prune(ledger: Ledger) -> retention.Gone:
    return retention.prune(ledger, time.time(), dry_run=False, at_once=retention.PAGE)


def _text(params: Mapping[str, Any], name: str) -> str:
    return str(params.get(name) or "")
