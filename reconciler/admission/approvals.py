"""The policy of approvals: can each of its rules be meant as it is written?

While it is refused, the built-in one holds (``control.runface``), with a question for all that no rule of
it allows.
"""

import re
from collections.abc import Iterator

from reconciler.admission.view import View
from reconciler.model import approvals
from reconciler.model.approvalfile import ApprovalPolicy, document
from reconciler.model.inventory import Resource
from reconciler.model.problems import Path, Problem, Span

_STEP = re.compile(r"([A-Za-z]+)|\[(\d+)\]")


def rules_can_be_meant(view: View, policy: Resource[ApprovalPolicy]) -> Iterator[Problem]:
    """The first rule that compares with nothing, or whose pattern cannot be read."""
    try:
        approvals.policy(document(policy.spec))
    except approvals.PolicyError as fault:
        why = "a rule that means nothing would let a call pass, or ask about every one"
        yield Problem(
            "S530", fault.what, why, fault.mend, Span(policy.file), path=_path(fault.path), about=policy.ref
        )


def _path(text: str) -> Path:
    """``rules[0].when[1].op`` as a path."""
    return tuple(name or int(number) for name, number in _STEP.findall(text))


RULES = (rules_can_be_meant,)
