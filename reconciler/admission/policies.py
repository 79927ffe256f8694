"""The egress policy: do its words mean something, and could a rule ever do what it says?

A misspelt name is an error where the rule closes (it would close nothing) and a warning where it opens.
While a policy is refused, nothing leaves to another machine (``control.policing``): so what is told here as
an error is what would otherwise be open by mistake.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.admission.view import View
from reconciler.model.hosts import Target
from reconciler.model.inventory import Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.policies import EgressPolicy, Rule
from reconciler.model.problems import Path, Problem, Severity, Span, quoted

_BOUNDS = ("max_class", "max_bytes", "require")
Policy = Resource[EgressPolicy]


@dataclass(frozen=True, slots=True)
class _Said:
    what: str
    why: str
    mend: str
    severity: Severity = Severity.ERROR


def _problem(policy: Policy, code: str, path: Path, said: _Said) -> Problem:
    return Problem(
        code, said.what, said.why, said.mend, Span(policy.file), path=path, about=policy.ref,
        severity=said.severity,
    )  # fmt: skip


def names_are_given_once(view: View, policy: Policy) -> Iterator[Problem]:
    """Classes and rules are told apart by their names."""
    for key, names in (
        ("class", [one.name for one in policy.spec.class_]),
        ("rule", [one.id for one in policy.spec.rule]),
    ):
        seen: set[str] = set()
        for at, name in enumerate(names):
            if name in seen:
                why = "records name it: one name, one meaning"
                said = _Said(f"{quoted(name)} stands twice", why, "give one of them another name")
                yield _problem(policy, "S510", (key, at, "name" if key == "class" else "id"), said)
            seen.add(name)


def classes_are_known(view: View, policy: Policy) -> Iterator[Problem]:
    """A word for a class that is not listed would be above all others, or of nothing."""
    known = [one.name for one in policy.spec.class_]
    for path, name in _class_words(policy.spec):
        if name not in known:
            why = "classes are those that [[class]] lists, from the lowest to the highest"
            said = _Said(f"there is no class {quoted(name)}", why, _nearest(name, known, "a [[class]]"))
            yield _problem(policy, "S511", path, said)
    for agent in view.names(Kind.AGENT):
        found = view.find(ObjectRef(Kind.AGENT, agent))
        floor = getattr(found.spec, "floor_class", None) if found is not None else None
        if floor is not None and floor not in known:
            why = "what that agent handles counts as of the highest class, since nobody says how high it is"
            mend = f"add a [[class]] with name = {quoted(floor)}, or change agents/{agent}.toml"
            what = f"floorClass of agent {quoted(agent)} is {quoted(floor)}, which is no class here"
            yield _problem(policy, "S517", (), _Said(what, why, mend, Severity.WARNING))


def _class_words(spec: EgressPolicy) -> Iterator[tuple[Path, str]]:
    for at, label in enumerate(spec.label):
        yield ("label", at, "class"), label.class_
    for at, rule in enumerate(spec.rule):
        if rule.max_class is not None:
            yield ("rule", at, "maxClass"), rule.max_class
        for index, name in enumerate(rule.classes):
            yield ("rule", at, "classes", index), name


def rules_speak_of_what_is_there(view: View, policy: Policy) -> Iterator[Problem]:
    """Bindings, interfaces and agents that exist."""
    for at, rule in enumerate(policy.spec.rule):
        for key, kind, names in (
            ("bindings", Kind.BINDING, rule.bindings),
            ("interfaces", Kind.INTERFACE, rule.interfaces),
            ("agents", Kind.AGENT, rule.agents),
        ):
            for index, name in enumerate(names):
                known = view.names(kind)
                if name not in known:
                    yield _unknown(policy, rule, ("rule", at, key, index), (kind, name, known))


def _unknown(policy: Policy, rule: Rule, path: Path, word: tuple[Kind, str, Iterable[str]]) -> Problem:
    kind, name, known = word
    opens = rule.effect == "allow"
    why = "the rule speaks of nothing by it" if opens else "what the rule was to hold back would go"
    severity = Severity.WARNING if opens else Severity.ERROR
    mend = _nearest(name, known, f"the {kind.value}")
    return _problem(
        policy, "S512", path, _Said(f"there is no {kind.value} {quoted(name)}", why, mend, severity)
    )


def origins_are_hosts(view: View, policy: Policy) -> Iterator[Problem]:
    """Compared exactly with what the gate connects to: one spelling."""
    for at, rule in enumerate(policy.spec.rule):
        for index, origin in enumerate(rule.origins):
            scheme, _, host = origin.partition("://")
            try:
                usual = f"{scheme}://{Target.parse(host)}"
            except ValueError as fault:
                said = _Said(
                    f"{quoted(origin)} is no origin: {fault}",
                    "origins are compared exactly",
                    "write SCHEME://HOST:PORT",
                )
                yield _problem(policy, "S513", ("rule", at, "origins", index), said)
                continue
            if usual != origin:
                said = _Said(
                    f"{quoted(origin)} is never met", "origins are compared exactly", f"write '{usual}'"
                )
                yield _problem(policy, "S513", ("rule", at, "origins", index), said)


def a_denial_has_no_bounds(view: View, policy: Policy) -> Iterator[Problem]:
    """Bounds say how much may go: of a denial they could be read both ways."""
    for at, rule in enumerate(policy.spec.rule):
        if rule.effect != "deny":
            continue
        used = [key for key in _BOUNDS if getattr(rule, key) not in (None, ())]
        used += ["cost"] if rule.cost.per_call or rule.cost.per_day else []
        for key in used:
            alias = Rule.aliases[key]
            why = "a rule that denies, denies all that it speaks of"
            said = _Said(
                f"{quoted(alias)} means nothing in a rule that denies", why, f"delete {quoted(alias)}"
            )
            yield _problem(policy, "S514", ("rule", at, alias), said)


def days_are_paid_in_calls(view: View, policy: Policy) -> Iterator[Problem]:
    """A day's sum is counted in calls whose price is known, or bounded; in one currency."""
    for at, rule in enumerate(policy.spec.rule):
        per_call, per_day = rule.cost.per_call, rule.cost.per_day
        if per_day is None:
            continue
        if per_call is None:
            why = "a call whose price nobody states is counted as perCall"
            said = _Said("cost.perDay stands without cost.perCall", why, "add perCall, the most for one call")
        elif per_call[:3] != per_day[:3]:
            why = "nothing is converted"
            said = _Said("cost.perCall and cost.perDay are of two currencies", why, "write both in one")
        else:
            continue
        yield _problem(policy, "S515", ("rule", at, "cost", "perDay"), said)


def what_never_leaves_is_not_let_go(view: View, policy: Policy) -> Iterator[Problem]:
    """A rule that names a class which no rule can open promises what is not done."""
    shut = {one.name for one in policy.spec.class_ if one.local_only}
    for at, rule in enumerate(policy.spec.rule):
        named = [name for name in (rule.max_class, *rule.classes) if name in shut]
        if rule.effect != "deny" and named and not _is_here(rule):
            why = "its class is localOnly: no rule opens it"
            what = f"rule {quoted(rule.id)} lets nothing of class {quoted(named[0])} go"
            said = _Said(what, why, "name a class below it", Severity.WARNING)
            yield _problem(policy, "S516", ("rule", at, "id"), said)


def _is_here(rule: Rule) -> bool:
    """Whether it speaks of this machine's own addresses alone."""
    return bool(rule.origins) and all("//127." in one or "//[::1]" in one for one in rule.origins)


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name[:100], list(known), n=1)
    return f"write '{near[0]}'" if near else f"add {otherwise}, or delete the word"


RULES = (
    names_are_given_once,
    classes_are_known,
    rules_speak_of_what_is_there,
    origins_are_hosts,
    a_denial_has_no_bounds,
    days_are_paid_in_calls,
    what_never_leaves_is_not_let_go,
)
