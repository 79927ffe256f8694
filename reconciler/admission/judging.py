"""One object judged: everything that the rules of its kind say of it, and what it yields.

Of most kinds rules yield problems alone and stand in one table; an interface also yields its compiled
contract, an agent what it selects.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from reconciler.admission import (
    absent,
    agents,
    approvals,
    bindings,
    chains,
    interfaces,
    kinds,
    policies,
    profiles,
    sources,
    wiring,
)
from reconciler.admission.selection import Selected
from reconciler.admission.view import Rule, View, enough
from reconciler.model.approvalfile import ApprovalPolicy
from reconciler.model.chain import Chain
from reconciler.model.contract import Contract
from reconciler.model.inventory import Resource
from reconciler.model.policies import EgressPolicy
from reconciler.model.problems import Problem
from reconciler.model.resources import (
    Agent,
    Binding,
    Config,
    Connector,
    Dialect,
    Interface,
    Profile,
    Project,
    Record,
)

_RULES: Mapping[type[Record], tuple[Rule[Any], ...]] = {
    Config: sources.RULES,
    Dialect: profiles.DIALECT_RULES,
    Profile: profiles.RULES,
    Connector: kinds.RULES,
    Binding: bindings.RULES,
    Project: wiring.PROJECT_RULES,
    EgressPolicy: policies.RULES,
    ApprovalPolicy: approvals.RULES,
    Chain: chains.RULES,
}


class Judged(NamedTuple):
    """What was said of an object, and what came of it besides."""

    problems: list[Problem]
    contract: Contract | None = None
    selected: tuple[Selected, ...] = ()


def judged(view: View, resource: Resource[Record]) -> Judged:
    """Everything that the rules of its kind say of one object, and what it yields."""
    found = list(absent.warnings(resource))
    match resource.spec:
        case Interface():
            seen = interfaces.judged(view, cast("Resource[Interface]", resource))
            return Judged([*found, *seen.problems], seen.contract)
        case Agent():
            problems, selected = agents.judged(view, cast("Resource[Agent]", resource))
            return Judged([*found, *problems], None, selected)
        case _:
            pass
    rules = _RULES.get(type(resource.spec), ())
    return Judged([*found, *enough(problem for rule in rules for problem in rule(view, resource))])
