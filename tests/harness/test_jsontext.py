"""Members into a JSON text and out again: every other byte stays, comments and commas included."""

import json
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from reconciler.harness import jsontext, reading

ENTRY = {"command": "/bin/handler-service", "args": ["ocr"], "timeout": 130_000}
PATH = ("mcpServers",)

_PUT = {
    "an empty object": (
        "{}",
        '{\n  "mcpServers": {\n    "ocr": [\n      1\n    ]\n  }\n}',
    ),
    "a table that is there": (
        '{\n    "mcpServers": {\n        "mine": {} // keep\n    }\n}\n',
        (
            '{\n    "mcpServers": {\n        "ocr": [\n            1\n        ],\n'
            '        "mine": {} // keep\n    }\n}\n'
        ),
    ),
    "one line": (
        '{"mcpServers": {"mine": {}}}',
        '{"mcpServers": { "ocr": [1],"mine": {}}}',
    ),
    "a comment behind the brace": (
        '{\n\t"mcpServers": { // ours\n\t\t"mine": {},\n\t},\n}\n',
        '{\n\t"mcpServers": { // ours\n\t\t"ocr": [\n\t\t\t1\n\t\t],\n\t\t"mine": {},\n\t},\n}\n',
    ),
    "an empty table with a comment": (
        '{\n  "mcpServers": {\n    // nothing yet\n  }\n}\n',
        '{\n  "mcpServers": {\n    "ocr": [\n      1\n    ]\n    // nothing yet\n  }\n}\n',
    ),
    "the line ends of another system": (
        '{\r\n  "theme": "dark"\r\n}\r\n',
        '{\r\n  "mcpServers": {\r\n    "ocr": [\r\n      1\r\n    ]\r\n  },\r\n  "theme": "dark"\r\n}\r\n',
    ),
}


@pytest.mark.parametrize("case", _PUT)
def test_a_member_is_laid_out_as_its_neighbours_are(case: str) -> None:
    before, after = _PUT[case]
    made, tail = jsontext.given(before, PATH, {"ocr": [1]})
    assert made == after
    made_path, name = (PATH, "ocr") if "mcpServers" in before else ((), "mcpServers")
    assert jsontext.taken(made, made_path, [name], tail) == before


def test_braces_and_slashes_in_texts_are_texts() -> None:
    before = '{"a": "}//{", "mcpServers": {"b\\"": "/* no */"}, "c": [{"mcpServers": 1}, "]"]}'
    made, tail = jsontext.given(before, PATH, {"ocr": ENTRY})
    assert reading.values(made.encode(), "x.json")["mcpServers"] == {"ocr": ENTRY, 'b"': "/* no */"}
    assert jsontext.taken(made, PATH, ["ocr"], tail) == before


def test_what_a_person_put_behind_ours_stays_when_ours_goes() -> None:
    made, tail = jsontext.given("{}", PATH, {"ocr": 1, "llm": 2})
    edited = made.replace('"llm": 2', '"llm": 2, // fine\n    "mine": 3')
    assert json.loads(_plain(jsontext.taken(edited, PATH, ["ocr", "llm"], tail))) == {
        "mcpServers": {"mine": 3}
    }
    assert "// fine" in jsontext.taken(edited, PATH, ["ocr", "llm"], tail)


def test_ours_moved_to_the_end_goes_with_the_comma_before_it() -> None:
    text = '{"mcpServers": {"mine": 1, /* x */ "ocr": 2}}'
    assert jsontext.taken(text, PATH, ["ocr"], "") == '{"mcpServers": {"mine": 1 /* x */}}'


def test_a_table_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is none"):
        jsontext.given('{"mcpServers": []}', PATH, {"ocr": 1})


def _plain(text: str) -> str:
    return json.dumps(reading.values(text.encode(), "x.json"))


# any text: in, read, out


_SPACE = st.sampled_from(
    ["", " ", "\n", "\n  ", "\t", "\n\n    ", " // note, {\n", "/* } */", "\n  // x\n  "]
)
_KEYS = st.sampled_from(["a", "theme", "mcp{", "servers,", "é", "//", 'q"'])
_LEAVES = st.one_of(st.integers(), st.booleans(), st.none(), st.text(max_size=5), st.just("}],//"))


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """A JSON text with comments, odd spacing and commas at the end; sometimes with a table of servers."""
    return draw(_SPACE) + _object(draw, 0) + draw(_SPACE)


def _object(draw: st.DrawFn, depth: int) -> str:
    keys = draw(st.lists(_KEYS, unique=True, max_size=3))
    if depth == 0 and draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), "mcpServers")
    parts = []
    for key in keys:
        deep = key == "mcpServers" or (depth < 2 and draw(st.booleans()))
        value = _object(draw, depth + 1) if deep else json.dumps(draw(_LEAVES))
        parts.append(f"{draw(_SPACE)}{json.dumps(key)}{draw(_SPACE)}:{draw(_SPACE)}{value}{draw(_SPACE)}")
    last = draw(st.sampled_from(["", ","])) if parts else ""
    return "{" + ",".join(parts) + last + draw(_SPACE) + "}"


@pytest.mark.parametrize("inside", ["", '"a": 1', '"a": 1,'])
@pytest.mark.parametrize("end", [" \t\n", "\r\n", " \u00a0\r\n  ", " {\n", "\n\n"])
@pytest.mark.parametrize("comment", ["// x", "/* } */", "/* a */ /* b */ // c", "//"])
def test_a_comment_behind_a_brace_stays_there_with_its_line_end(comment: str, end: str, inside: str) -> None:
    line = f"{comment}{end}" if "//" in comment or (end.isascii() and "{" not in end) else f"{comment}\n"
    for text in (f'{{"mcpServers": {{ {line}{inside}}} }}', f"{{{line}{inside} }}"):
        made, tail = jsontext.given(text, PATH, {"ocr": 1})
        assert reading.values(made.encode(), "x.json")["mcpServers"]["ocr"] == 1
        path, name = (PATH, "ocr") if "mcpServers" in text else ((), "mcpServers")
        assert jsontext.taken(made, path, [name], tail) == text
        assert "\r\r" not in made


@pytest.mark.slow
@over(_texts(), st.sets(st.sampled_from(["ocr", "llm", "web"]), min_size=1))
def test_any_text_is_as_it_was_once_ours_is_out_again(text: str, names: set[str]) -> None:
    before: dict[str, Any] = reading.values(text.encode(), "x.json")
    entries: dict[str, Any] = dict.fromkeys(sorted(names), ENTRY)
    made, tail = jsontext.given(text, PATH, entries)
    after = reading.values(made.encode(), "x.json")
    there = before.get("mcpServers", {})
    assert after == {**before, "mcpServers": {**entries, **there}}
    assert [key for key in after if key in before] == list(before)
    path, gone = (PATH, list(entries)) if "mcpServers" in before else ((), ["mcpServers"])
    assert jsontext.taken(made, path, gone, tail) == text
