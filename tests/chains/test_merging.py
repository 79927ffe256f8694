"""What a task's own tool is called with: every way that a value and fixed arguments come together."""

from typing import Any

import pytest

from reconciler.chains import bounds, flow, merging
from reconciler.chains.flow import NIL, Value
from reconciler.chains.history import History, Message

WRITE = {
    "required": ["path", "content"],
    "properties": {
        "path": {"type": "string"}, "content": {"type": "string"}, "depth": {"type": "integer"},
        "all": {"type": "boolean"}, "tags": {"type": "array"}, "share": {"type": "number"},
    },
}  # fmt: skip
TALK = Value("chat_history", History((Message("user", "ask"), Message("assistant", "answer"))))


@pytest.mark.parametrize(
    ("value", "static", "wanted"),
    [
        (flow.text("hello"), {"path": "a"}, {"path": "a", "content": "hello"}),
        (flow.text("hello"), {}, {}),  # two are unset: which one is meant is not guessed
        (TALK, {"path": "a"}, {"path": "a", "content": "answer"}),
        (Value("json", {"path": "b", "content": "c"}), {"path": "a"}, {"path": "a", "content": "c"}),
        (Value("int", 7), {"path": "a"}, {"path": "a"}),
        (NIL, {"path": "a", "content": "x"}, {"path": "a", "content": "x"}),
        (NIL, {"depth": "3", "all": "true"}, {"depth": 3, "all": True}),
        (NIL, {"depth": "true", "all": "1"}, {"depth": "true", "all": "1"}),
        (NIL, {"tags": '["x"]', "share": "0.5"}, {"tags": ["x"], "share": 0.5}),
        (NIL, {"depth": "[" * 5000}, {"depth": "[" * 5000}),
        (NIL, {"odd": "1"}, {"odd": "1"}),
    ],
)
def test_what_flows_and_what_is_fixed_become_the_arguments(
    value: Value, static: dict[str, str], wanted: dict[str, Any]
) -> None:
    assert merging.arguments(WRITE, value, static) == wanted


def test_a_tool_without_a_schema_gets_what_flows_as_input() -> None:
    assert merging.arguments({}, flow.text("x"), {"a": "1"}) == {"input": "x", "a": "1"}


@pytest.mark.parametrize(
    ("path", "policies", "refused"),
    [
        ("notes/a.txt", {"_allowed_dir": "notes"}, False),
        ("notes/../b.txt", {"_allowed_dir": "notes"}, True),
        ("notesmore/a.txt", {"_allowed_dir": "notes"}, True),
        ("../a.txt", {"_allowed_dir": "."}, True),
        ("/etc/passwd", {"_allowed_dir": "."}, True),
        ("a/.git/x", {"_denied_path_substrings": ".git, secret"}, True),
        ("a/b", {"_denied_path_substrings": ".git, secret"}, False),
        ("a", {"_max_read_bytes": "ten"}, True),
        ("a", {"_max_read_bytes": "10"}, False),
        ("a", {"_allowed_commands": "ls"}, True),
    ],
)
def test_a_chains_bounds_hold_or_refuse(path: str, policies: dict[str, str], *, refused: bool) -> None:
    assert (bounds.refusal("fs", {"path": path}, policies) is not None) is refused


def test_a_bound_that_nobody_keeps_refuses() -> None:
    assert bounds.refusal("ocr", {}, {"_allowed_dir": "."}) is not None
    assert bounds.refusal("ocr", {}, {}) is None
    assert bounds.too_large("fs", 11, {"_max_read_bytes": "10", "_max_output_bytes": "0"})
    assert not bounds.too_large("fs", 10, {"_max_read_bytes": "10", "_max_output_bytes": "-1"})
    assert not bounds.too_large("shell", 11, {"_max_output_bytes": "10"})  # its outputs were cut
