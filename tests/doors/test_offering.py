"""A tool is shown as a shell calls it: each input with its type, what is needed first, parts by own keys."""

from typing import Any

import pytest

from reconciler.doors import offering

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["path", "mode"],
    "properties": {
        "quality": {"type": "integer", "default": 90, "description": "how good"},
        "path": {"type": "string", "format": "handler-file", "description": "a scan"},
        "out": {"type": "string", "format": "handler-output-file"},
        "mode": {"enum": ["fast", "good"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "page": {"$ref": "#/$defs/page"},
        "maybe": {"type": ["number", "null"]},
    },
    "$defs": {"page": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}


def shown(**schema: Any) -> str:
    return offering.explained({"name": "t_do", "description": "Does it.", **schema})


@pytest.mark.parametrize(
    "line",
    [
        "Usage: handler call t_do path=FILE mode=fast|good [KEY=VALUE…]\n\nDoes it.\n",
        "  path=FILE  (required)\n      a scan\n  mode=fast|good  (required)\n",
        "  mode=fast|good  (required)\n  quality=N\n      how good · default 90\n",
        "  out=NEW-FILE\n",
        "  tags=TEXT …\n",
        "  page.size=N\n",
        "  maybe=null|NUMBER\n",
        "Answers JSON with pages.\n",
    ],
)
def test_inputs_are_shown_as_a_shell_writes_them(line: str) -> None:
    assert line in shown(inputSchema=_SCHEMA, outputSchema={"properties": {"pages": {}}})


def test_a_tool_without_inputs_says_so() -> None:
    assert shown(inputSchema={"type": "object"}) == (
        "Usage: handler call t_do\n\nDoes it.\n\nIt takes no inputs.\n"
    )


def test_a_schema_that_refers_to_itself_is_shown_as_far_as_it_is_useful() -> None:
    circle = {"type": "object", "properties": {"inner": {"$ref": "#"}, "n": {"type": "integer"}}}
    text = shown(inputSchema=circle)
    assert "inner.inner.n=N" in text
    assert "inner.inner.inner.inner={JSON}" in text


def test_no_word_of_a_schema_reaches_the_terminal_as_a_command() -> None:
    text = shown(inputSchema={"properties": {"a": {"description": "\x1b[2J"}}})
    assert "\x1b" not in text
