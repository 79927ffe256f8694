"""Approval policies of the chains' other engines: the same rules in ours, and nothing let through besides."""

import json
from typing import Any

import pytest

from reconciler.config import toml
from reconciler.harness import approvaljson

_POLICY: dict[str, Any] = {
    "$schema": "https://example.com/hitl-policy-v1.schema.json",
    "//": 'What a desk may do.\n"Quoted", with \u007f.',
    "default_action": "deny",
    "rules": [
        {
            "//": "no keys",
            "tools": "local_fs",
            "tool": "*",
            "action": "deny",
            "when": [{"key": "path", "op": "glob", "value": "**/{.ssh,.gnupg}/**"}],
        },
        {"tools": "local_shell", "action": "approve", "timeout_s": -1, "on_timeout": "deny"},
        {"tools": "webtools", "tool": "web_get", "action": "approve", "timeout_s": 60, "when": []},
    ],
    "compute": {"maxTurns": 3},
}


def test_rules_keep_their_order_and_words_and_what_has_no_place_is_named() -> None:
    text, left = approvaljson.text(_POLICY, "hitl-policy.json")
    found = toml.read(text.encode())
    assert found == {
        "apiVersion": "handler.approval-policy/v1",
        "description": _POLICY["//"],
        "defaultAction": "deny",
        "rules": [
            {
                "tools": "local_fs",
                "tool": "*",
                "action": "deny",
                "description": "no keys",
                "when": [{"key": "path", "op": "glob", "value": "**/{.ssh,.gnupg}/**"}],
            },
            {"tools": "local_shell", "action": "approve", "timeoutSeconds": 604_800},
            {"tools": "webtools", "tool": "web_get", "action": "approve", "timeoutSeconds": 60},
        ],
    }
    assert [what for what, _ in left] == ["compute", "rules[1].timeout_s"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"trusted_binaries": {"dirs": ["/usr/bin"]}}, "trusted_binaries"),
        ({"rules": [{"action": "approve", "on_timeout": "allow"}]}, "no answer is a no"),
        ({"rules": [{"action": "allow", "unless": []}]}, '"unless", which no approval policy has'),
        ({"rules": [{"action": "allow", "when": [{"op": "eq", "path": "x"}]}]}, "rules[0].when[0]"),
        ({"rules": {"action": "allow"}}, "rules is no list"),
        ({"rules": [{"action": True}]}, "neither a text"),
        ({"rules": [["allow"]]}, "rules[0] is no table"),
        ({"defaultAction": "allow"}, '"defaultAction"'),
    ],
)
def test_what_would_let_more_through_or_is_not_known_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError) as fault:
        approvaljson.text(json.loads(json.dumps(_POLICY)) | change, "p.json")
    assert why in str(fault.value)
