"""Every problem of a policy of approvals: the exact words, and that each mend mends."""

import pytest

from reconciler.model.approvalfile import ApprovalPolicy
from reconciler.model.names import Kind, ObjectRef
from tests.admission import build
from tests.admission.table import Bad, check

FILE = "policies/approval.toml"


def rule(text: str) -> build.Files:
    return {FILE: f"apiVersion = 'handler.approval-policy/v1'\n[[rules]]\n{text}"}


BAD = [
    Bad(
        "S530",
        rule("action = 'deny'\nwhen = [{ key = 'path', op = 'glob', value = 'a/{b' }]\n"),
        FILE,
        "rules[0].when[0].value",
        "the braces of 'a/{b' do not match: close each '{' with a '}'",
        "mend the pattern",
        rule("action = 'deny'\nwhen = [{ key = 'path', op = 'glob', value = 'a/{b}' }]\n"),
    ),
    Bad(
        "S530",
        rule("action = 'deny'\nwhen = [{ op = 'eq', value = 'x' }]\n"),
        FILE,
        "rules[0].when[0].key",
        "the condition looks at no argument",
        "write the argument's name",
        rule("action = 'deny'\nwhen = [{ key = 'to', op = 'eq', value = 'x' }]\n"),
    ),
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_each_problem_says_what_where_and_how_to_mend_it(bad: Bad) -> None:
    check(bad)


def test_a_policy_of_approvals_is_in_force() -> None:
    admission = build.judge(rule("tools = 'fs'\ntool = 'read_file'\naction = 'allow'\n"))
    form = admission.in_force[ObjectRef(Kind.APPROVAL, "approval")]
    assert isinstance(form.spec, ApprovalPolicy)
    assert form.spec.rules[0].tool == "read_file"
