"""The whole law of a call, without I/O: a generator that asks for what it needs and returns how it ended.

Order: suspended? input against the closed schema, limits, files looked at, sent, answer against the schema
and its bounds, output files put in place. A call with an effect is kept before it is sent, and how it ended
is kept before the agent hears of it. Each step yields one request (``Turn``, ``Look``, ``HandOver``,
``Send``, ``Place``; ``Join``, ``Begin``, ``Settle``) and is sent back the reply to it, or a ``Refusal`` of
the router's own, which ends the call. A deadline is such a refusal, sent in at whatever step the call stands.
The agent sees a code of the interface's closed list and fixed words; what a connector said goes to the record
only (S3). What may have happened is called unknown unless its contrary is proved, and never sent again.
"""

import difflib
from collections.abc import Generator, Mapping
from typing import Any

import orjson

from reconciler.model.calls import Refusal, Reply, Result
from reconciler.model.contract import COMPANIONS, MODEL, NOT_A_FIELD, Contract, Tool
from reconciler.model.effects import CONFLICT, UNKNOWN, Ending, Known
from reconciler.model.entries import AWAITS, DENIED, UNASKED, Policed
from reconciler.model.entries import Files as Decided
from reconciler.model.jobs import AskJob
from reconciler.model.routes import Route
from reconciler.router import joblaw
from reconciler.router.steps import (
    Answer,
    Begin,
    Enter,
    HandOver,
    Hash,
    Join,
    Look,
    Outcome,
    Place,
    Refused,
    Send,
    Settle,
    Step,
    Turn,
)
from reconciler.wire import strict

QUEUE = 64  # calls of one session and interface that may wait for a turn, or for a word of its jobs
_DROPPED = "wait_for_previous"  # measured: Gemini CLI adds this argument to every call
_MAX_LISTED = 20  # models that a refusal names
_MAX_WORD = 64  # characters of a misspelt name that are compared
_LINE_FACTOR, _LINE_ROOM = 2.5, 64 * 1024  # what escapes and the envelope may add to an answer (ruling 52)

_OURS = ("refused", "invalid_input", "limit")  # of what never left: a fact that a profile does not state
_LEVELS = strict.MAX_DEPTH - 2  # of an answer: what is above it is the message and its result


class Usage:
    """What one session has used of one interface: calls made, calls running, calls that wait, calls about
    jobs.
    """

    __slots__ = (
        "asking",
        "concurrent",
        "longest",
        "made",
        "most",
        "policed",
        "running",
        "timeout_s",
        "waiting",
    )

    def __init__(self, route: Route, policed: Policed | None = None) -> None:
        limits = route.contract.spec.limits
        self.timeout_s = limits.timeout_seconds
        self.longest = int(limits.max_output_bytes * _LINE_FACTOR) + _LINE_ROOM  # bytes of an answer's line
        bounds = [bound for bound in (limits.calls_per_session, route.max_calls) if bound]
        self.most = min(bounds) if bounds else None
        self.concurrent = limits.concurrent_calls
        self.policed = policed or Policed()
        self.made = 0
        self.running = 0
        self.waiting = 0
        self.asking = 0

    def is_free(self) -> bool:
        """Whether a call may begin at once: within what a session has, and with nobody to wait for or ask."""
        if self.policed.on:
            return False
        return self.running < self.concurrent and (self.most is None or self.made < self.most)


def serve(route: Route, tool: Tool, arguments: dict[str, Any], usage: Usage) -> Generator[Step, Any, Outcome]:
    """One call from its arguments to its outcome. ``usage`` is held from the first send to the end."""
    if _DROPPED in arguments and _DROPPED not in tool.definition["inputSchema"].get("properties", ()):
        arguments = {name: value for name, value in arguments.items() if name != _DROPPED}
    refused = _at_the_door(route, tool, arguments, usage)
    if refused is not None:
        return refused
    if tool.takes_model and route.models and not arguments.get(MODEL):
        arguments = {**arguments, MODEL: route.models[0]}
    usage.made += 1
    if tool.kind != "call":
        return (yield from about_a_job(route, tool, arguments, usage))
    if tool.effect != "none" and (joined := (yield Join(arguments))) is not None:
        # A deadline: of the other one nobody knows in time.
        late = isinstance(joined, Refusal)
        return Refused(UNKNOWN, diagnostic=joined.diagnostic) if late else joined
    if usage.running >= usage.concurrent:
        usage.waiting += 1
        try:
            late = yield Turn()
        finally:
            usage.waiting -= 1
        if late is not None:
            return Refused("limit", diagnostic=late.diagnostic)
    usage.running += 1
    try:
        if tool.files or tool.effect != "none" or usage.policed.on:
            return (yield from _in_full(route.contract, tool, arguments, usage))
        return judged(route.contract, tool, (yield Send(tool.name, arguments, usage.longest)))
    finally:
        usage.running -= 1


def _at_the_door(route: Route, tool: Tool, arguments: dict[str, Any], usage: Usage) -> Refused | None:
    if route.suspended is not None and tool.kind not in COMPANIONS:  # a job of it may be asked about
        return Refused("unavailable", diagnostic=route.suspended)
    fault = tool.input_fault(arguments)
    if fault is not None:
        # A name that the agent made up is payload: the agent reads it, the record does not hold it.
        if fault.endswith(NOT_A_FIELD):
            return Refused(
                "invalid_input", fault + _nearest(tool, arguments, fault), "what it names " + NOT_A_FIELD
            )
        return Refused("invalid_input", fault, tool.input_rule(arguments))  # names of maps are payload too
    if tool.takes_model and route.models is not None and not _may_ask(route.models, arguments.get(MODEL)):
        known = ", ".join((route.allowed or ())[:_MAX_LISTED]) or "none"
        return Refused("refused", f"the models that you may ask for: {known}", "a model that is not granted")
    return _beyond(usage)


def _beyond(usage: Usage) -> Refused | None:
    """What of a session's limits leaves no room for one more call."""
    if usage.most is not None and usage.made >= usage.most:
        return Refused("limit", diagnostic=f"{usage.most} calls a session")
    if usage.waiting >= QUEUE:
        return Refused("limit", diagnostic=f"{usage.concurrent} calls at once and {QUEUE} waiting")
    return None


def _may_ask(models: tuple[str, ...], model: object) -> bool:
    """Ids match exactly; one that is left out or empty is the default (ruling 13)."""
    return model in models if model else bool(models)


def _nearest(tool: Tool, arguments: Mapping[str, Any], fault: str) -> str:
    """What a misspelt argument was most likely meant to be, as the end of a clause; "" if nothing is near."""
    known = tool.definition["inputSchema"].get("properties", {})
    for name in arguments:
        word = name[:_MAX_WORD]
        if fault == f"{word} {NOT_A_FIELD}":
            near = difflib.get_close_matches(word, [one for one in known if one not in arguments], n=1)
            return f"; did you mean {near[0]}?" if near else ""
    return ""


def about_a_job(
    route: Route, tool: Tool, given: dict[str, Any], usage: Usage
) -> Generator[Step, Any, Outcome]:
    """A call of a job's four tools. What it is submitted with is copied before it is kept, and the files of
    its result are put in place when that is asked for. Begun here, it counts as no call: a client that asks
    after a task does so by itself, and often.
    """
    if usage.asking >= QUEUE:
        return Refused("limit", diagnostic=f"{QUEUE} calls about jobs at once")
    usage.asking += 1
    try:
        return (yield from _asked(route.contract, tool, given, usage))
    finally:
        usage.asking -= 1


def _asked(
    contract: Contract, tool: Tool, given: dict[str, Any], usage: Usage
) -> Generator[Step, Any, Outcome]:
    asked = AskJob(tool.kind, given)  # type: ignore[arg-type]
    if tool.kind == "job" and (tool.files or usage.policed.on):
        handed = yield from _handed(contract, tool, given, usage)
        if isinstance(handed, Refused):
            return handed
        asked = AskJob("job", given, {name: handed[name] for name in handed if handed[name] != given[name]})
    told = yield from joblaw.served(contract, asked)
    if not isinstance(told, Result):
        return told
    outcome = judged(contract, tool, told)
    if isinstance(outcome, Answer) and told.files:
        failed = yield from _delivered(contract, given, told.files)
        return failed or outcome
    return outcome


def _delivered(
    contract: Contract, given: dict[str, Any], wanted: Mapping[str, str]
) -> Generator[Step, Any, Refused | None]:
    """The files of a job's result, each to the path that was asked for at its submit; why not, or None. Who
    asks twice at once, or again after a death in between, finds them there.
    """
    refusal: Refusal | None = yield Look({}, wanted, contract.spec.limits.max_file_bytes, again=True)
    if refusal is not None:
        return _own(contract, refusal)
    handed = yield HandOver(staged=True)
    laid = handed if isinstance(handed, Refusal) else (yield AskJob("files", given, handed))
    if isinstance(laid, Refusal):
        return _own(contract, laid)
    refusal = yield Place({name: handed[name]["blob"] for name in wanted})
    if refusal is not None:
        return _own(contract, refusal, large="unavailable")
    yield AskJob("kept", given)
    return None


def _in_full(
    contract: Contract, tool: Tool, given: dict[str, Any], usage: Usage
) -> Generator[Step, Any, Outcome]:
    """A call that hands over files, has an effect, is asked a policy about, or several of these."""
    has_effect = tool.effect != "none"
    _, outputs = _named(tool, given)
    arguments = yield from _handed(contract, tool, given, usage)
    if isinstance(arguments, Refused):
        return arguments
    if has_effect:
        begun = yield Begin(given)
        if isinstance(begun, Refusal):
            return Refused(begun.code, diagnostic=begun.diagnostic)
        if isinstance(begun, Known):
            return Answer(begun.structured) if begun.code == "ok" else Refused(begun.code)
    reply = yield Send(tool.name, arguments, usage.longest)
    outcome = judged(contract, tool, reply)
    failed = (yield from _placed(contract, outputs, reply)) if isinstance(outcome, Answer) else None
    if not has_effect:
        return failed or outcome
    outcome, ending = _concluded(contract, reply, outcome, failed)
    yield Settle(ending)
    return outcome


def _handed(
    contract: Contract, tool: Tool, given: dict[str, Any], usage: Usage
) -> Generator[Step, Any, dict[str, Any] | Refused]:
    """The arguments as the connector gets them, once a policy has let the call in and its files are there."""
    inputs, outputs = _named(tool, given)
    if inputs or outputs:
        lists = frozenset(field.name for field in tool.files if field.many)
        refusal = yield Look(inputs, outputs, contract.spec.limits.max_file_bytes, lists)
        if refusal is not None:
            return _own(contract, refusal)
    decided = (yield from _let_in(contract, given, inputs)) if usage.policed.on else None
    if isinstance(decided, Refused):
        return decided
    if not (inputs or outputs):
        return given
    hashed = tool.effect != "none" or decided is not None
    handed = yield HandOver(hashed, decided, staged=tool.kind == "job")
    return _own(contract, handed) if isinstance(handed, Refusal) else {**given, **handed}


def _let_in(
    contract: Contract, given: dict[str, Any], inputs: Mapping[str, tuple[str, ...]]
) -> Generator[Step, Any, Decided | Refused]:
    """A policy's word on the call: what its files have to be when they are handed over, or why it ends."""
    hashed: Decided | Refusal = (yield Hash()) if inputs else ()
    if isinstance(hashed, Refusal):
        return _own(contract, hashed)
    paths = tuple(path for some in inputs.values() for path in some)
    said: Refusal | None = yield Enter(given, hashed, paths)
    if said is None:
        return hashed
    if said.code != "refused":
        return Refused(said.code, diagnostic=said.diagnostic)
    return Refused("refused", UNASKED if said.reason == AWAITS else DENIED, said.diagnostic)


def _named(tool: Tool, given: Mapping[str, Any]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The files that a call names: inputs, and outputs."""
    inputs: dict[str, tuple[str, ...]] = {}
    outputs: dict[str, str] = {}
    for field in tool.files:
        if field.name in given:
            named = given[field.name]
            if field.output:
                outputs[field.name] = named
            else:
                inputs[field.name] = tuple(named) if field.many else (named,)
    return inputs, outputs


def _placed(
    contract: Contract, outputs: Mapping[str, str], reply: Result
) -> Generator[Step, Any, Refused | None]:
    """Output files put in place; why they are not, or None."""
    if not outputs:
        return None
    missing = [name for name in outputs if name not in reply.files]
    if missing:
        return Refused("unavailable", diagnostic=f"answered without the file of {missing[0]}")
    refusal = yield Place({name: reply.files[name] for name in outputs})
    # The connector wrote what is too large, not the agent.
    return None if refusal is None else _own(contract, refusal, large="unavailable")


def _concluded(
    contract: Contract, reply: Reply, outcome: Outcome, failed: Refused | None
) -> tuple[Outcome, Ending]:
    """What a call with an effect comes to. That nothing happened needs a proof: the call never reached the
    connector, or the connector says so, be it by a code of the interface that means it.
    """
    if failed is not None:
        words = failed.diagnostic or failed.code
        return Refused(UNKNOWN, _SPOILT, words), Ending("happened", UNKNOWN, words)
    if isinstance(outcome, Answer):
        return outcome, Ending("happened", structured=outcome.structured)
    said = "" if isinstance(reply, Result) else reply.code
    if said == CONFLICT and CONFLICT not in contract.errors:
        outcome = Refused("refused", diagnostic=CONFLICT)
    elif isinstance(reply, Result) or not (reply.no_effect or _means_nothing_happened(contract, said)):
        return Refused(UNKNOWN, diagnostic=outcome.diagnostic), Ending("unknown", UNKNOWN, outcome.diagnostic)
    was_sent = isinstance(reply, Result) or reply.no_effect != "unsent"
    return outcome, Ending("none", outcome.code, outcome.diagnostic, was_sent=was_sent)


_SPOILT = "it happened, and what it made could not be put in place"


def _means_nothing_happened(contract: Contract, code: str) -> bool:
    """Every error of an interface says so, but for the two that may come of a call that got lost."""
    return code in contract.errors and code not in (UNKNOWN, "unavailable")


def judged(contract: Contract, tool: Tool, reply: Reply) -> Outcome:
    """What a connector's reply comes to: its codes against the list, its answer against the schema."""
    if not isinstance(reply, Result):
        ours = reply.code in _OURS and reply.no_effect == "unsent"  # the controller's own lanes alone say so
        # A connector, too: of what its operator does not permit, where it vouches that nothing happened.
        ours = ours or (reply.code == "refused" and reply.no_effect == "said")
        if ours or reply.code in contract.errors or reply.code == "unavailable":
            return Refused(reply.code, diagnostic=reply.diagnostic or reply.code)
        # A code that the interface does not list would be the vendor's word: the operator alone hears it.
        why = f"answered the error '{reply.code}', which {contract.interface} does not list"
        return Refused("unavailable", diagnostic=f"{why}: {reply.diagnostic}" if reply.diagnostic else why)
    fault = tool.output_fault(reply.structured)
    if fault is None and not (tool.is_shallow_out or strict.fits(reply.structured, _LEVELS)):
        fault = strict.TOO_DEEP
    if fault is not None:
        return Refused("unavailable", diagnostic=f"answered outside its contract: {fault}")
    structured = orjson.dumps(reply.structured)
    most = contract.spec.limits.max_output_bytes
    if len(structured) > most:
        return Refused("unavailable", diagnostic=f"answered with {len(structured)} bytes, more than {most}")
    return Answer(structured)


def _own(contract: Contract, refusal: Refusal, *, large: str = "refused") -> Refused:
    """A refusal of the router's: ``too_large`` only where the interface has that word (ruling 11)."""
    code = refusal.code
    if code == "too_large" and code not in contract.errors:
        code = large
    return Refused(code, diagnostic=refusal.diagnostic)
