"""Asks the policy, wherever something may leave: at a call's entry, at each request, at each tunnel.

Without a policy everything that a connector lists may be reached, as its file says. With one, a call is
decided at its *entry*, before anything is handed over: its data has a class (labels of its files, the floor
of its agent, what its session read before). Then what the connector sends is decided again, each request of
its exact bytes (``wire``). A connector whose secrets do not go by the gate speaks TLS of its own
(``boundary``): there the entry is what a person agrees to, and tunnels go where that call may. A policy that
is refused lets nothing go to another machine.
"""

import asyncio
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from reconciler.admission.admit import Admission
from reconciler.control.approvals import Approvals
from reconciler.control.egressbook import Book
from reconciler.control.evidence import Evidence, Told, digest_of, mark_of
from reconciler.egress.decide import Case, Ruled, Spent, decide
from reconciler.egress.gate import Ask, Verdicted
from reconciler.egress.policy import Place, Policy
from reconciler.model.calls import Refusal, Sink
from reconciler.model.entries import AWAITS, Entered, Entering
from reconciler.model.hosts import Target
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.policies import EgressPolicy
from reconciler.model.recipes import Recipe
from reconciler.model.resources import Agent, Binding, Connector, Interface
from reconciler.model.routes import ScopeFolder
from reconciler.router import scopes
from reconciler.router.beneath import Denied

POLICY = ObjectRef(Kind.POLICY, "egress")
_MARGIN_S = 1.0  # before a call's own deadline, so that its agent hears why
_HERE = "local"


@dataclass(slots=True)
class Entry:
    """A call that entered: what its requests are judged by."""

    id: str
    case: Case
    instance: InstanceName
    session: str
    scope: tuple[ScopeFolder, ...]
    until_s: float  # monotonic: the call's own deadline
    consented: set[str] = field(default_factory=set)  # rules by which a person agreed to this call
    charged: dict[str, tuple[str, int]] = field(default_factory=dict)  # rule → currency, units


class Policing:
    """One controller's. ``recipe`` and ``sink`` say what an instance is made of and whose a running call is.
    All methods are for the loop's own thread.
    """

    def __init__(self, state: Path, evidence: Evidence, now: Callable[[], float]) -> None:
        """``now`` is the wall clock in seconds since 1970."""
        self.recipe: Callable[[InstanceName], Recipe | None] = lambda name: None
        self.sink: Callable[[InstanceName, int], Sink | None] = lambda name, number: None
        self.facts: Callable[[Recipe], Mapping[str, str]] = lambda recipe: {}  # what its profile states
        self.followed: Callable[[bool], None] = lambda watched: None  # whether there is a policy
        self.entered: Callable[[InstanceName | None], None] = lambda name: None  # open tunnels are looked at
        self.closing: Callable[[], Awaitable[None]] = _nothing  # awaited at the end
        self.policy: Policy | None = None
        self.evidence = evidence
        self._state, self._now = state, now
        self._book: Book | None = None
        self._approvals: Approvals | None = None
        self._form: object = None
        self._admission: Admission | None = None
        self._entries: dict[str, Entry] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    @property
    def book(self) -> Book:
        """What is remembered; ValueError or OSError where it cannot be read."""
        if self._book is None:
            self._book = Book(self._state, self._now)
        return self._book

    @property
    def approvals(self) -> Approvals:
        """What people are asked."""
        if self._approvals is None:
            self._approvals = Approvals(self._state, self._now)
        return self._approvals

    def follow(self, admission: Admission) -> None:
        """From now on the policy that is in force holds, for open sessions too."""
        self._admission = admission
        form = "refused" if POLICY in admission.refused else admission.in_force.get(POLICY)
        if form is self._form:
            return
        self._form = form
        spec = getattr(form, "spec", None)
        if isinstance(spec, EgressPolicy):
            self.policy = Policy.of(spec, str(Path.home()))
        else:
            self.policy = None if form is None else Policy.shut("the policy is refused: nothing leaves by it")
        self.followed(self.policy is not None)
        self.entered(None)

    async def close(self) -> None:
        """Nobody waits for a person any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.closing()

    # the entry of a call

    def enter(self, entering: Entering, heard: Entered) -> None:
        """Decide on a call; ``heard`` is told its entry, or why there is none."""
        policy = self.policy
        if policy is None:
            heard("")
            return
        try:
            said = self._entered(policy, entering)
        except (OSError, ValueError) as fault:
            heard(Refusal("refused", f"nothing can be decided: {fault}"))
            return
        if isinstance(said, str | Refusal):
            heard(said)
            return
        task = asyncio.ensure_future(said)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._heard(done, heard))

    def _heard(self, task: "asyncio.Future[str | Refusal]", heard: Entered) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            heard(Refusal("unavailable", "the controller ends"))
        elif (fault := task.exception()) is not None:
            heard(Refusal("refused", f"a person could not be asked: {type(fault).__name__}"))
        else:
            heard(task.result())

    def read(self, entry: str, paths: tuple[str, ...]) -> Refusal | None:
        """A session reads files of its scope by a builtin connector: its later text is of their class."""
        policy, held = self.policy, self._entries.get(entry)
        if policy is None or held is None or policy.spec.taint != "session":
            return None
        try:
            class_name = policy.highest(policy.labelled(_places(held.scope, paths)))
            self.book.raise_mark(held.session, class_name, policy)
        except (OSError, ValueError) as fault:
            return Refusal("refused", f"what was read cannot be kept: {type(fault).__name__}")
        return None

    def left(self, entry: str) -> None:
        """The call of that entry is over."""
        self._entries.pop(entry, None)

    def _entered(self, policy: Policy, entering: Entering) -> str | Refusal | Awaitable[str | Refusal]:
        entry, basis = self._entry(policy, entering)
        recipe = self.recipe(entering.route.instance)
        if recipe is None:  # where it would go is not known
            return Refusal("unavailable", f"{entering.route.instance} is not declared")
        origins, facts = _origins(recipe.egress), self.facts(recipe)
        cases = [
            replace(entry.case, origin=origin, is_local=is_here(origin), facts=facts) for origin in origins
        ]
        cases = cases or [replace(entry.case, origin=_HERE, is_local=True)]
        ruled = [(decide(policy, case, self.book.spent), case) for case in cases]
        order = ("allow", "ask", "deny")
        said, case = min(ruled, key=lambda pair: order.index(pair[0].verdict))
        told = Told(
            case, said, entering.session, str(entering.route.instance), _entry_digest(entering), basis
        )
        by_wire = goes_by_gate(recipe)
        if said.verdict == "deny":
            self.evidence.decided(policy, told)
            return Refusal("refused", _words(said), "EgressDenied")
        if said.verdict == "ask" and not by_wire:
            return self._consented(policy, entry, told, entering.left_s - _MARGIN_S)
        if origins and not by_wire:
            self.evidence.decided(policy, told)
            self.charge(entry, said)
        return self._in(policy, entry)

    async def _consented(self, policy: Policy, entry: Entry, told: Told, wait_s: float) -> str | Refusal:
        number, decision = await self.ask(policy, told, wait_s, lambda: self.stands(policy, told, entry))
        if not decision:
            return Refusal("refused", f"approval {number} is not given ({told.ruled.rule})", AWAITS)
        entry.consented.add(told.ruled.rule)
        self.charge(entry, told.ruled)
        return self._in(policy, entry)

    def _in(self, policy: Policy, entry: Entry) -> str:
        if policy.spec.taint == "session":
            self.book.raise_mark(entry.session, entry.case.class_name, policy)
        self._entries[entry.id] = entry
        self.entered(entry.instance)
        return entry.id

    def _entry(self, policy: Policy, entering: Entering) -> tuple[Entry, tuple[tuple[str, str], ...]]:
        """The call as requests are judged by it, and why it is of its class."""
        basis = [
            (one.label, one.class_name) for one in policy.labelled(_places(entering.scope, entering.paths))
        ]
        if policy.spec.taint == "session" and (mark := self.book.mark(entering.session)):
            basis.append(("session", mark))
        if floor := self._floor(entering.agent):
            basis.append(("floor", floor))
        class_name = max((name for _, name in basis), key=policy.rank, default=policy.lowest)
        spec = entering.route.contract.spec
        size = sum(size for _, size, _ in entering.files) + len(orjson.dumps(entering.arguments))
        case = Case(
            binding=entering.route.binding, interface=str(entering.route.interface),
            purpose=spec.purpose or spec.name, origin="", agent=entering.agent, class_name=class_name,
            size=size, effect=entering.tool.effect, grade="boundary",
        )  # fmt: skip
        until_s = asyncio.get_running_loop().time() + entering.left_s
        number, instance = secrets.token_hex(8), entering.route.instance
        return Entry(number, case, instance, entering.session, entering.scope, until_s), tuple(basis)

    def entry(self, name: str) -> Entry | None:
        """The call that entered under that name, while it is under way."""
        return self._entries.get(name)

    def class_of(self, session: str, agent: str) -> str:
        """The class of what a session says that hands over no file."""
        policy = self.policy
        if policy is None:
            return ""
        found = [self._floor(agent), self.book.mark(session) if policy.spec.taint == "session" else ""]
        return max((name for name in found if name), key=policy.rank, default=policy.lowest)

    def mark(self, session: str, class_name: str) -> None:
        """What a session says is at least of that class: it heard it of another. Raises OSError."""
        policy = self.policy
        if policy is not None and class_name and policy.spec.taint == "session":
            self.book.raise_mark(session, class_name, policy)

    def _floor(self, agent: str) -> str:
        form = self._admission.in_force.get(ObjectRef(Kind.AGENT, agent)) if self._admission else None
        return form.spec.floor_class or "" if form is not None and isinstance(form.spec, Agent) else ""

    # what a connector sends

    def request(self, recipe: Recipe, ask: Ask) -> Verdicted | Awaitable[Verdicted]:
        """Whether one request may go, of exactly these bytes."""
        policy = self.policy
        if policy is None:
            return Verdicted(go=True)
        try:
            return self._requested(policy, recipe, ask)
        except (OSError, ValueError) as fault:
            return Verdicted(go=False, why=f"nothing can be decided: {fault}")

    def _requested(self, policy: Policy, recipe: Recipe, ask: Ask) -> Verdicted | Awaitable[Verdicted]:
        entry = self._of_call(recipe, ask.call)
        cases = [entry.case] if entry is not None else self.unattributed(policy, recipe, ask.call)
        here = is_here(ask.origin)
        cases = [replace(one, origin=ask.origin, is_local=here, size=ask.size, grade="wire") for one in cases]
        spent = self.spent(entry)
        said, case = max(((decide(policy, one, spent), one) for one in cases), key=strictness)
        session = entry.session if entry is not None else ""
        told = Told(case, said, session, str(recipe.name), ask.wire, (), ask.method, ask.path)
        if said.verdict == "ask" and (entry is None or said.rule not in entry.consented):
            return self._wire_consent(policy, entry, told)
        allowed = said.verdict != "deny"
        final = replace(said, verdict="allow") if allowed else said
        self.evidence.decided(policy, replace(told, ruled=final))
        if allowed and entry is not None:
            self.charge(entry, said)
        return Verdicted(go=True) if allowed else Verdicted(go=False, why=_words(said))

    async def _wire_consent(self, policy: Policy, entry: Entry | None, told: Told) -> Verdicted:
        wait_s = told.ruled.timeout_s
        if entry is not None:
            wait_s = entry.until_s - asyncio.get_running_loop().time() - _MARGIN_S

        def still() -> bool:
            return (entry is None or entry.id in self._entries) and self.stands(policy, told, entry)

        number, decision = await self.ask(policy, told, wait_s, still)
        if not decision:
            return Verdicted(go=False, why=f"approval {number} is not given ({told.ruled.rule})")
        if entry is not None:
            self.charge(entry, told.ruled)
        return Verdicted(go=True)

    async def tunnel(self, recipe: Recipe, target: Target) -> str:
        """Why a tunnel may not be opened, or "". Whoever speaks TLS of its own inside it is judged by every
        call that it has at hand.
        """
        return self.judged(recipe, target)

    def judged(self, recipe: Recipe, target: Target) -> str:
        """The same, of a tunnel that is there."""
        policy = self.policy
        if policy is None:
            return ""
        origin = _origin(target)
        here = is_here(origin)
        running = [one for one in self._entries.values() if one.instance == recipe.name]
        try:
            asked: list[tuple[Entry | None, Case]] = [(one, one.case) for one in running]
            asked = asked or [(None, case) for case in self.unattributed(policy, recipe, "")]
            for entry, one in asked:
                case = replace(one, origin=origin, is_local=here, grade="boundary")
                said = decide(policy, case, self.spent(entry))
                if said.verdict == "allow" or (entry is not None and said.rule in entry.consented):
                    continue
                told = Told(case, said, entry.session if entry else "", str(recipe.name), "", ())
                self.evidence.decided(policy, told)
                asks = said.verdict == "ask"
                return "a person was not asked about it at the entry of its call" if asks else _words(said)
        except (OSError, ValueError) as fault:
            return f"nothing can be decided: {fault}"
        return ""

    def _of_call(self, recipe: Recipe, call: str) -> Entry | None:
        sink = self.sink(recipe.name, int(call)) if call else None
        return self._entries.get(sink.entry) if sink is not None else None

    def unattributed(self, policy: Policy, recipe: Recipe, call: str) -> list[Case]:
        """What serves no call that entered: as each interface of its binding, and as each call that the
        instance has at hand, since who does not say for which it is may have any of them in mind. A start, or
        a look whether somebody answers, is of the highest class at hand. A call that nobody decided on (a
        shadow's copy, one that ran when the policy came) is of the highest class there is.
        """
        held = [one.case for one in self._entries.values() if one.instance == recipe.name]
        classes = policy.ranks if call else [one.class_name for one in held]
        class_name = max(classes, key=policy.rank, default=policy.lowest)
        offered = [
            Case(recipe.binding, version, purpose, "", class_name=class_name)
            for version, purpose in self._offers(recipe.binding)
        ]
        return [*held, *(offered or [Case(recipe.binding, "", "", "", class_name=class_name)])]

    def _offers(self, binding: str) -> Iterable[tuple[str, str]]:
        forms = self._admission.in_force if self._admission else {}
        bound = forms.get(ObjectRef(Kind.BINDING, binding))
        name = bound.spec.connector if bound is not None and isinstance(bound.spec, Binding) else None
        found = forms.get(ObjectRef(Kind.CONNECTOR, name)) if name else None
        if found is None or not isinstance(found.spec, Connector):
            return
        for version in found.spec.implements:
            form = forms.get(ObjectRef(Kind.INTERFACE, version))
            purpose = form.spec.purpose if form is not None and isinstance(form.spec, Interface) else None
            yield version, purpose or version.partition("/")[0]

    # people and money

    async def ask(
        self, policy: Policy, told: Told, wait_s: float, still: Callable[[], bool]
    ) -> tuple[str, str]:
        """Ask a person about exact bytes, once; the question's number, and the decision that it came to: ""
        where they did not agree in time, or it cannot be used any more (``still``).
        """
        mark = mark_of(policy, told)
        if (given := await self.approvals.consent(mark)) is not None:
            found = given if still() else replace(given, state="expired")
            decision = self.evidence.decided(policy, told, found)
            return found.id, decision if found.state == "used" else ""
        until = self._now() + told.ruled.timeout_s
        about = self.evidence.about(policy, told)
        asked = self.approvals.asked(mark, about, until=until, wait_s=wait_s, still=still)
        self.evidence.pending(told)
        found = await asked
        decision = self.evidence.decided(policy, told, found)
        return found.id, decision if found.state == "used" else ""

    def stands(self, policy: Policy, told: Told, entry: Entry | None) -> bool:
        """Whether what was said before a person was asked holds still: the policy may be another by now, and
        a day's sum may be used up.
        """
        return self.policy is policy and decide(policy, told.case, self.spent(entry)).verdict != "deny"

    def charge(self, entry: Entry | None, said: Ruled) -> None:
        """Count a call once by each rule that lets it go; what serves no call, each time."""
        if said.charge is None or not said.rule or (entry is not None and said.rule in entry.charged):
            return
        self.book.spend(said.rule, said.charge)
        if entry is not None:
            entry.charged[said.rule] = (said.charge.currency, said.charge.units)

    def spent(self, entry: Entry | None) -> Spent:
        """What was spent today, without what this call was counted as: it is not counted twice."""
        spent = self.book.spent
        if entry is None or not entry.charged:
            return spent
        without = {rule: dict(sums) for rule, sums in spent.items()}
        for rule, (currency, units) in entry.charged.items():
            sums = without.get(rule, {})
            sums[currency] = max(0, sums.get(currency, 0) - units)
        return without


async def _nothing() -> None:
    pass


def goes_by_gate(recipe: Recipe) -> bool:
    """Whether each of its requests is decided on by itself: what has its secrets added by the gate."""
    return recipe.runtime == "dialect" or any(use.via == "gate" for use in recipe.secrets)


def _origin(target: Target) -> str:
    """How rules name a listed host: an address may be spoken to plainly, a name never."""
    return f"{'https' if target.address is None else 'http'}://{target}"


def _origins(listed: Iterable[str]) -> tuple[str, ...]:
    return tuple(_origin(Target.parse(one)) for one in listed)


def is_here(origin: str) -> bool:
    """Whether an origin is an address of this very machine."""
    host = origin.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback


def _places(scope: tuple[ScopeFolder, ...], paths: Iterable[str]) -> list[Place]:
    found = []
    for path in paths:
        try:
            folder, parts = scopes.within(scope, path)
        except Denied:
            continue  # the router refuses it
        found += places(scope, "/".join((folder.path.rstrip("/"), *parts)))
    return found


def places(scope: Iterable[ScopeFolder], path: str) -> list[Place]:
    """A file as labels see it, below each folder of the scope that it lies in: one that is granted again as a
    folder of its own is no less of a class for it, whichever way an agent writes its path.
    """
    roots = [f"{one.path.rstrip('/')}/" for one in scope]
    return [Place(path, path.removeprefix(root)) for root in roots if path.startswith(root)]


def _entry_digest(entering: Entering) -> str:
    """What names a call that enters: its tool, its arguments, and the files that it hands over."""
    files = [list(one) for one in entering.files]
    return digest_of({"tool": entering.tool.name, "arguments": entering.arguments, "files": files})


def strictness(pair: tuple[Ruled, Case]) -> int:
    """Where a verdict stands, the strictest last."""
    return ("allow", "ask", "deny").index(pair[0].verdict)


def _words(said: Ruled) -> str:
    return f"{said.reason} ({said.rule})" if said.rule else said.reason
