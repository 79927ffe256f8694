"""Attempts as rows: the columns that are asked for by name, and JSON for the rest. Pure."""

from collections.abc import Mapping
from typing import Any

import orjson

from reconciler.attempts.records import (
    Attempt,
    Cancel,
    Ended,
    Execution,
    Idempotency,
    Owner,
    Provider,
    Request,
    State,
)

_PLAIN = (
    "id", "handle", "scope", "call_key", "interface", "tool", "operation", "effect", "kind", "grade",
    "generation", "ver", "fence", "holder", "lease_until", "transmissions", "deadline", "next_check_at",
    "checks",
)  # fmt: skip
_GROUPS = ("execution", "request", "idempotency", "provider", "ended", "cancel")
_RETIRED = ("data_class", "config_commit", "policy_digest")  # of a request: older rows have them, empty
FIXED = (
    "id", "handle", "scope", "call_key", "generation", "agent", "session", "project", "principal",
    "interface", "tool", "operation", "effect", "kind", "grade", "binding", "input_digest", "execution",
    "request", "idempotency",
)  # fmt: skip
"""Columns that no happening changes."""
MOVING = (
    "state", "ver", "fence", "holder", "lease_until", "transmissions", "deadline", "next_check_at", "checks",
    "parked", "over_at", "entered", "decisions", "provider", "ended", "cancel",
)  # fmt: skip
"""Columns that move."""


def row(one: Attempt) -> dict[str, Any]:
    """The columns of an attempt."""
    columns: dict[str, Any] = {name: getattr(one, name) for name in _PLAIN}
    owner = one.owner
    columns |= {
        "agent": owner.agent,
        "session": owner.session,
        "project": owner.project,
        "principal": owner.principal,
    }
    columns |= {name: _text(getattr(one, name)) for name in _GROUPS}
    columns["binding"] = one.execution.binding
    columns["input_digest"] = one.request.input_digest
    columns["state"] = one.state.value
    columns["parked"] = int(one.parked)
    columns["entered"] = _text(one.entered)
    columns["decisions"] = _text(one.decisions)
    columns["over_at"] = one.entered.get(one.state, 0.0) if one.is_over else 0.0
    return columns


def attempt(found: Mapping[str, Any]) -> Attempt:
    """The attempt of a row."""
    groups = {name: orjson.loads(found[name]) for name in _GROUPS}
    entered: dict[str, float] = {State(name): at for name, at in orjson.loads(found["entered"]).items()}
    if not {State(found["state"]), State.PREPARED} <= entered.keys():
        raise ValueError("it does not say since when")
    return Attempt(
        **{name: found[name] for name in _PLAIN},
        owner=Owner(found["agent"], found["session"], found["project"], found["principal"]),
        execution=Execution(**groups["execution"]),
        request=_request(groups["request"]),
        idempotency=Idempotency(**groups["idempotency"]),
        provider=Provider(**{**groups["provider"], "request_ids": tuple(groups["provider"]["request_ids"])}),
        ended=Ended(**{**groups["ended"], "warnings": tuple(groups["ended"]["warnings"])}),
        cancel=Cancel(**groups["cancel"]),
        state=State(found["state"]),
        parked=bool(found["parked"]),
        entered=entered,
        decisions=tuple(orjson.loads(found["decisions"])),
    )


def _request(told: dict[str, Any]) -> Request:
    kept = {name: value for name, value in told.items() if name not in _RETIRED}
    return Request(**{**kept, "artifacts": tuple(kept["artifacts"])})


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
