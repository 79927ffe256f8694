"""The law of a job's four tools: what its handle, its state and its end come to as answers. Pure.

A job that was submitted is durable before the agent has its handle. A result is the interface's own answer,
checked like any other; until there is one the agent reads ``not_ready``, and how it ended otherwise after.
"""

from collections.abc import Generator
from typing import Any

import orjson

from reconciler.model.calls import Refusal, Result
from reconciler.model.contract import Contract
from reconciler.model.effects import UNKNOWN
from reconciler.model.jobs import CANCELLED, NOT_READY, AskJob, JobSeen
from reconciler.router.steps import Answer, Outcome, Refused


def served(contract: Contract, asked: AskJob) -> Generator[AskJob, JobSeen | Refusal, Outcome | Result]:
    """One call of such a tool; a Result is still to be judged by the contract. Its ``files`` are those that
    are to be put in place: property, and path.
    """
    what = asked.what
    seen = yield asked
    if isinstance(seen, Refusal):
        return Refused(seen.code, diagnostic=seen.diagnostic)
    if what == "result":
        return _result(contract, seen)
    told: dict[str, Any] = {"job": seen.handle, "state": seen.state}
    if what != "job":
        told |= {"progress": seen.progress} if seen.progress is not None else {}
        told |= {"error": _listed(contract, seen.error)} if seen.error else {}
    return Answer(orjson.dumps(told))


def _result(contract: Contract, seen: JobSeen) -> Outcome | Result:
    match seen.state:
        case "succeeded":
            try:
                structured = orjson.loads(seen.structured)
            except orjson.JSONDecodeError:
                return Refused("unavailable", diagnostic="the kept result is no JSON")
            return Result(structured, seen.files)
        case "working":
            return Refused(NOT_READY)
        case "cancelled":
            return Refused(CANCELLED)
        case "unknown":
            return Refused(UNKNOWN)
        case "failed":
            return Refused(_listed(contract, seen.error), diagnostic=seen.error)


def _listed(contract: Contract, code: str) -> str:
    """A code that the interface does not list would be the vendor's word: no agent hears it."""
    return code if code == UNKNOWN or code in contract.errors else "unavailable"
