"""``policies/approval.toml`` as written: which calls of a chain's tools need a person.

``approvals`` reads it into what is judged by, and refuses what cannot be meant.
"""

from typing import Annotated, Any, Literal

from reconciler.model.forms import Field, Record
from reconciler.model.records import Seq, Text

Verb = Literal["allow", "approve", "deny"]
Operator = Literal[
    "eq",
    "glob",
    "host",
    "command_blacklist",
    "command_ask_always",
    "command_prefix_allowlist",
    "no_command_substitution",
]


class ApprovalCondition(Record):
    """One look at an argument of the call."""

    key: Annotated[Text, Field(examples=["command"])] = ""
    """The argument; without it, for `no_command_substitution` alone, every one."""
    op: Operator
    """How it is looked at."""
    value: Annotated[Text, Field(examples=["rm, dd, mkfs"])] = ""
    """What it is compared with."""


class ApprovalRule(Record):
    """One rule; the first that fits a call decides."""

    tools: Annotated[Text, Field(examples=["fs"])] = ""
    """The provider that it speaks of, like `fs`; `*` or nothing is any."""
    tool: Annotated[Text, Field(examples=["fs_write_file"])] = ""
    """The tool of it, like `fs_write_file` or `write_file`; `*` or nothing is any."""
    when: Annotated[Seq[ApprovalCondition], Field(max_length=100)] = ()
    """Conditions on its arguments, of which all must fit."""
    action: Verb
    """What becomes of the call: `allow`, `approve` (a person is asked), `deny`."""
    timeout_seconds: Annotated[int, Field(ge=0, le=604_800)] = 0
    """How long an answer is waited for; without one it is a no. 0: a week."""
    on_timeout: Literal["deny"] = "deny"
    """What no answer is."""
    description: Text = ""
    """Why it is there."""


class ApprovalPolicy(Record):
    """Which calls of chains need a person: `policies/approval.toml`. Without it, those with an effect do."""

    api_version: Literal["handler.approval-policy/v1"]
    """The format of this file."""
    description: Text = ""
    """What it is for."""
    default_action: Verb = "approve"
    """What becomes of a call that no rule fits."""
    rules: Annotated[Seq[ApprovalRule], Field(max_length=10_000)] = ()
    """The rules, in their order."""


def document(written: ApprovalPolicy) -> dict[str, Any]:
    """The policy by the keys of its file, as ``approvals.policy`` reads it and a run keeps it."""
    found = written.model_dump(mode="json", by_alias=True, exclude_none=True)
    del found["apiVersion"]
    return found
