"""An approval policy of the chains' other engines (``hitl-policy*.json``) as the text of ours, rule by rule.

Rules and conditions bear the same words there. What only bounds the other engine is left out and named; what
would make the policy let more through than was written refuses it.
"""

import json
from collections.abc import Iterator
from typing import Any

_TOP = {"version", "default_action", "rules"}
_RULE = {"tools": "tools", "tool": "tool", "action": "action", "timeout_s": "timeoutSeconds"}
_ELSEWHERE = {"compute": "bounds of what a mission spends", "attention": "who else may answer"}
_LONGEST = 604_800  # seconds that a question is kept

Left = tuple[str, str]
"""What was left out, and why."""


def text(found: dict[str, Any], source: str) -> tuple[str, list[Left]]:
    """The file and what was left out of it; raises ValueError with a clause for a person."""
    if "trusted_binaries" in found:
        raise ValueError(
            "trusted_binaries bounds what its rules allow, and is not known here: take it out of the file, "
            "and have programs run in the sandbox of shell/v1"
        )
    _only(found, _TOP | set(_ELSEWHERE), "the policy")
    rules = found.get("rules", [])
    if not isinstance(rules, list):
        raise ValueError("rules is no list")
    left = [(key, f"{why}: nothing here has it") for key, why in _ELSEWHERE.items() if key in found]
    lines = [
        f"# Of {source}. Which tool calls of a chain need a person: docs/approvals.md",
        'apiVersion = "handler.approval-policy/v1"',
        *_said("description", found.get("//")),
        *_said("defaultAction", found.get("default_action")),
    ]
    for number, rule in enumerate(rules):
        lines += ["", "[[rules]]", *_rule(rule, f"rules[{number}]", left)]
    return "\n".join(lines) + "\n", left


def _rule(rule: Any, place: str, left: list[Left]) -> Iterator[str]:
    if not isinstance(rule, dict):
        raise ValueError(f"{place} is no table")
    _only(rule, {*_RULE, "when", "on_timeout"}, place)
    if rule.get("on_timeout") == "allow":
        raise ValueError(f"{place}: on_timeout is allow, and here no answer is a no")
    if rule.get("timeout_s") == -1:
        left.append((f"{place}.timeout_s", "a question is kept for a week at most"))
        rule = rule | {"timeout_s": _LONGEST}
    for theirs, ours in _RULE.items():
        yield from _said(ours, rule.get(theirs))
    yield from _said("description", rule.get("//"))
    when = rule.get("when", [])
    if not isinstance(when, list):
        raise ValueError(f"{place}.when is no list")
    if when:
        yield f"when = [{', '.join(_condition(one, f'{place}.when[{at}]') for at, one in enumerate(when))}]"


def _condition(one: Any, place: str) -> str:
    if not isinstance(one, dict):
        raise ValueError(f"{place} is no table")
    _only(one, {"key", "op", "value"}, place)
    return (
        "{ " + ", ".join(line for key in ("key", "op", "value") for line in _said(key, one.get(key))) + " }"
    )


def _said(key: str, value: Any) -> Iterator[str]:
    """``key = value`` of a text or a whole number; nothing of None."""
    if value is None:
        return
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"{key} is neither a text nor a whole number")
    yield f"{key} = {json.dumps(value, ensure_ascii=False).replace(chr(127), chr(92) + 'u007f')}"


def _only(found: dict[str, Any], known: set[str], place: str) -> None:
    """Refuse keys that are not known; those that begin with // and $ are remarks."""
    for key in found:
        if key not in known and not key.startswith(("//", "$")):
            raise ValueError(f"{place} has {json.dumps(key[:80])}, which no approval policy has")
