"""May this leave? One case judged by a policy: deny beats ask beats allow, whatever the order of rules. Pure.

First what no rule can open: a class that never leaves this machine, an interface that a class is never given
to. Then every rule is looked at. A rule that allows lets go only what is within all its bounds; a rule that
asks means what it speaks of, and what is beyond its bounds is denied rather than left to a wider rule. Where
nothing matches, the policy's word for here or for elsewhere holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from reconciler.egress.policy import Policy, Sum, missing, sums
from reconciler.model.policies import Rule, Verdict

Grade = Literal["wire", "boundary"]
CONTROL = "control"  # the rule of polls, lookups and cancels: they carry ids, and go where the submit went
_USUAL = "internal"  # the class up to which effects may go by a boundary without a word of a rule
_NOTHING: Mapping[str, str] = {}
Spent = Mapping[str, Mapping[str, int]]  # by rule and currency, in units
_UNSPENT: Spent = {}


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that wants to leave, as far as a policy looks at it."""

    binding: str
    interface: str  # ocr/v1
    purpose: str
    origin: str  # https://host:port
    agent: str = ""
    class_name: str = ""
    size: int = 0  # bytes of the body; at a boundary, of arguments and files
    is_local: bool = False
    effect: str = "none"
    grade: Grade = "wire"
    facts: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    estimate: Sum | None = None
    is_control: bool = False  # a poll, lookup, cancel or fetch of what was let go before


@dataclass(frozen=True, slots=True)
class Ruled:
    """What is said of it, and by which rule ("" where none matched)."""

    verdict: Verdict
    rule: str
    reason: str  # for operators: one clause, nothing of what was to be sent
    ttl_s: float = 60.0
    timeout_s: float = 600.0  # of asking a person
    charge: Sum | None = None  # what it is counted as


def decide(policy: Policy, case: Case, spent: Spent = _UNSPENT) -> Ruled:
    """Judge one case. ``spent`` is what each rule spent today, in units by currency."""
    if policy.closed:
        return Ruled("allow" if case.is_local else "deny", "", policy.closed)
    if shut := _shut(policy, case):
        return Ruled("deny", "", shut)
    spoken = [rule for rule in policy.spec.rule if _speaks(rule, case)]
    if denied := [rule for rule in spoken if rule.effect == "deny"]:
        return Ruled("deny", min(rule.id for rule in denied), "a rule denies it")
    if case.is_control:
        return Ruled("allow", CONTROL, "it carries the id of what was let go before")
    return _within(policy, case, spoken, spent)


def _within(policy: Policy, case: Case, spoken: Sequence[Rule], spent: Spent) -> Ruled:
    """What rules say that ask or allow, each within its bounds."""
    spoken = sorted(spoken, key=lambda rule: rule.id)
    beyond = {rule.id: _beyond(policy, rule, case, spent.get(rule.id, {})) for rule in spoken}
    if asking := [rule for rule in spoken if rule.effect == "ask"]:
        too_far = [rule.id for rule in asking if beyond[rule.id]]
        if too_far:
            return Ruled("deny", too_far[0], beyond[too_far[0]])
        return _let(asking, case, "ask", min(rule.ask.timeout_seconds for rule in asking))
    if letting := [rule for rule in spoken if not beyond[rule.id]]:
        return _let(letting, case, "allow", 0)
    verdict = policy.spec.local if case.is_local else policy.spec.remote
    near = "; ".join(f"{name}: {why}" for name, why in beyond.items())
    return Ruled(verdict, "", f"no rule lets it go ({near})" if near else "no rule speaks of it")


def _is_local_only(policy: Policy, class_name: str) -> bool:
    known = next((one for one in policy.spec.class_ if one.name == class_name), None)
    # A class that the policy does not name is nobody's to open.
    return known.local_only if known is not None else class_name not in policy.ranks


def _shut(policy: Policy, case: Case) -> str:
    """What no rule can open."""
    class_name = case.class_name or policy.lowest
    if not case.is_local and _is_local_only(policy, class_name):
        return f"data of class {class_name} never leaves this machine"
    for one in policy.spec.class_:
        if case.interface in one.never and policy.rank(class_name) >= policy.rank(one.name):
            return f"data of class {class_name} is never given to {case.interface}"
    return ""


def _speaks(rule: Rule, case: Case) -> bool:
    """Whether a case is what a rule speaks of, its bounds apart."""
    pairs = (
        (rule.bindings, case.binding),
        (rule.interfaces, case.interface),
        (rule.agents, case.agent),
        (rule.origins, case.origin),
        (rule.purposes, case.purpose),
        (rule.classes, case.class_name),
    )
    return all(not listed or value in listed for listed, value in pairs)


def _beyond(policy: Policy, rule: Rule, case: Case, spent: Mapping[str, int]) -> str:
    """Which bound of a rule a case is beyond, as a clause; "" where it is within all."""
    if rule.max_class is not None and policy.rank(case.class_name or policy.lowest) > policy.rank(
        rule.max_class
    ):
        return f"its class is above {rule.max_class}"
    if rule.max_bytes is not None and case.size > rule.max_bytes:
        return f"it is larger than {rule.max_bytes} bytes"
    if unmet := missing(rule, case.facts):
        return f"nothing states {unmet[0]}"
    if case.grade == "boundary" and rule.enforcement is None and _needs_wire(policy, case):
        return "an effect with data of this class is decided on request by request alone"
    return _beyond_cost(rule, case, spent)


def _needs_wire(policy: Policy, case: Case) -> bool:
    usual = _USUAL if _USUAL in policy.ranks else policy.lowest
    return case.effect != "none" and policy.rank(case.class_name or policy.lowest) > policy.rank(usual)


def _beyond_cost(rule: Rule, case: Case, spent: Mapping[str, int]) -> str:
    per_call, per_day = sums(rule.cost)
    charge = _charge(rule, case)
    if charge is None:
        return "" if per_day is None else "nothing says what it costs"
    if per_call is not None and (charge.currency != per_call.currency or charge.units > per_call.units):
        return f"it costs more than {per_call}"
    if per_day is not None and (
        charge.currency != per_day.currency or spent.get(charge.currency, 0) + charge.units > per_day.units
    ):
        return f"{per_day} of today are used up"
    return ""


def _charge(rule: Rule, case: Case) -> Sum | None:
    """What a case is counted as: its estimate, else the most that a call may cost."""
    return case.estimate or sums(rule.cost)[0]


def _let(rules: Sequence[Rule], case: Case, verdict: Verdict, timeout_s: float) -> Ruled:
    """The strictest of rules that agree: one with a budget before one without, the shortest life of all."""
    budgeted = [rule for rule in rules if rule.cost.per_day or rule.cost.per_call]
    rule = (budgeted or rules)[0]
    reason = "a person is asked" if verdict == "ask" else "a rule allows it"
    ttl_s = min(one.ttl_seconds for one in rules)
    return Ruled(verdict, rule.id, reason, ttl_s, timeout_s, _charge(rule, case))
