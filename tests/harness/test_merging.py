"""Our servers in other people's files: whose an entry is, what is refused, and that removal is exact."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.harness import merging, rendering
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.merging import Ours, Theirs

OCR = Service("ocr", ("/bin/handler-service", "ocr", "--agent", "a"), 120)
LLM = Service("llm", ("/bin/handler-service", "llm", "--agent", "a"), 60)
SLOW = Service("ocr", OCR.command, 600)

_JSON = [
    None,
    "{}",
    '{ "theme": "dark" }',
    '{\n  // mine\n  "TABLE": {\n    "mine": {"command": "x"}, // why\n  },\n}\n',
    '\ufeff{\r\n\t"TABLE": {},\r\n\t"z": 1\r\n}',
    '{"TABLE": {"mine": {"command": "x"}}, "a": [1, 2.0, null]}',
]
_TOML = [
    None,
    "",
    'model = "x" # mine',
    "\ufeff[tools]\r\na = 1\r\n",
    "TABLE = EMPTY\n",
    "# the end\n\n\n",
]


def _entries(word: str, *services: Service) -> dict[str, Any]:
    return {service.name: HARNESSES[word].entry(service) for service in services}


def _texts(word: str) -> list[bytes | None]:
    row = HARNESSES[word]
    texts = _TOML if row.form == "TOML" else _JSON
    empty = "[]" if row.named else "{}"
    return [
        None if text is None else text.replace("TABLE", row.table[0]).replace("EMPTY", empty).encode()
        for text in texts
    ]


_CASES = [(word, text) for word in HARNESSES for text in _texts(word)]


@pytest.mark.parametrize(("word", "before"), _CASES)
def test_a_second_write_changes_nothing_and_removal_is_exact(word: str, before: bytes | None) -> None:
    row = HARNESSES[word]
    once, ours = merging.merged(row, before, _entries(word, OCR, LLM), Ours())
    assert once is not None
    assert merging.standing(row, once).items() >= _entries(word, OCR, LLM).items()
    assert merging.merged(row, once, _entries(word, OCR, LLM), ours) == (once, ours)
    assert merging.merged(row, once, {}, ours) == (before, Ours())


@pytest.mark.parametrize(("word", "before"), _CASES)
def test_what_is_brought_up_to_date_goes_as_exactly(word: str, before: bytes | None) -> None:
    row = HARNESSES[word]
    steps = [_entries(word, OCR), _entries(word, SLOW, LLM), _entries(word, LLM), _entries(word, OCR, LLM)]
    data, ours = before, Ours()
    for step in steps:
        data, ours = merging.merged(row, data, step, ours)
        assert data is not None
        assert ours.entries == step
        assert merging.standing(row, data).items() >= step.items()
    assert merging.merged(row, data, {}, ours) == (before, Ours())


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.sampled_from(_CASES),
    st.lists(st.sets(st.sampled_from([OCR, LLM, Service("web", ("/w",), 1)])), max_size=5),
)
def test_any_sequence_of_writes_goes_without_a_trace(
    case: tuple[str, bytes | None], steps: list[set[Service]]
) -> None:
    word, before = case
    data, ours = before, Ours()
    for step in steps:
        services = sorted(step, key=lambda one: one.name)
        data, ours = merging.merged(HARNESSES[word], data, _entries(word, *services), ours)
    assert merging.merged(HARNESSES[word], data, {}, ours)[0] == before


@pytest.mark.parametrize("word", HARNESSES)
def test_an_entry_of_a_person_is_not_written_over(word: str) -> None:
    row = HARNESSES[word]
    theirs, _ = merging.merged(row, None, {"ocr": {"command": "mine"}}, Ours())
    assert theirs is not None
    with pytest.raises(Theirs) as caught:
        merging.merged(row, theirs, _entries(word, OCR, LLM), Ours())
    assert (caught.value.foreign, caught.value.edited) == (("ocr",), ())
    forced, ours = merging.merged(row, theirs, _entries(word, OCR), Ours(), force=True)
    assert forced is not None
    assert merging.standing(row, forced) == _entries(word, OCR)
    assert ours.entries == _entries(word, OCR)


@pytest.mark.parametrize("word", HARNESSES)
def test_an_entry_of_ours_that_a_person_edited_is_neither_written_over_nor_removed(word: str) -> None:
    row = HARNESSES[word]
    data, ours = merging.merged(row, None, _entries(word, OCR), Ours())
    assert data is not None
    edited = data.replace(b'"a"', b'"b"')
    assert edited != data
    for wanted in ({}, _entries(word, SLOW)):
        with pytest.raises(Theirs) as caught:
            merging.merged(row, edited, wanted, ours)
        assert (caught.value.foreign, caught.value.edited) == ((), ("ocr",))
        merging.merged(row, edited, wanted, ours, force=True)


@pytest.mark.parametrize("word", HARNESSES)
def test_a_person_who_wrote_the_same_keeps_it(word: str) -> None:
    row = HARNESSES[word]
    theirs, _ = merging.merged(row, None, _entries(word, OCR), Ours())
    data, ours = merging.merged(row, theirs, _entries(word, OCR), Ours())
    assert (data, ours.entries) == (theirs, {})
    assert merging.merged(row, data, {}, ours)[0] == theirs


@pytest.mark.parametrize("theirs", ["OCR", "Web.Search", "web_search"])
def test_a_name_that_a_harness_may_take_for_ours_is_a_persons(theirs: str) -> None:
    row = HARNESSES["vibe"]
    data, _ = merging.merged(row, None, {theirs: {"transport": "stdio"}}, Ours())
    wanted = {name: row.entry(Service(name, ("/b",), 1)) for name in ("ocr", "web-search")}
    with pytest.raises(Theirs) as caught:
        merging.merged(row, data, wanted, Ours())
    assert caught.value.foreign == (theirs,)
    after, ours = merging.merged(row, data, wanted, Ours(), force=True)
    assert after is not None
    assert merging.standing(row, after).keys() == {theirs, *wanted}
    assert merging.merged(row, after, {}, ours)[0] == data


def test_an_entry_that_a_person_removed_comes_back_with_the_next_write() -> None:
    row = HARNESSES["claude-code"]
    _, ours = merging.merged(row, b"{}", _entries("claude-code", OCR), Ours())
    data, again = merging.merged(row, b'{"x": 1}', _entries("claude-code", OCR), ours)
    assert data is not None
    assert json.loads(data)["mcpServers"] == _entries("claude-code", OCR)
    assert merging.merged(row, data, {}, again)[0] == b'{"x": 1}'


def test_what_a_person_added_to_a_file_of_ours_keeps_it() -> None:
    row = HARNESSES["cursor"]
    data, ours = merging.merged(row, None, _entries("cursor", OCR), Ours())
    assert data is not None
    edited = data.replace(b"{\n", b'{\n  "more": true,\n', 1)
    left, _ = merging.merged(row, edited, {}, ours)
    assert left is not None
    assert json.loads(left) == {"more": True}


_BROKEN = [
    ("claude-code", b'{"mcpServers": {', "line 1, column"),
    ("claude-code", b"", "line 1, column 1"),
    ("vscode", b'{"servers": []}', "is none"),
    ("cursor", b'{"mcpServers": {"a": 1, "a": 2}}', "twice"),
    ("zed", b"{\n  'a': 1\n}", "line 2, column 3"),
    ("codex", b"[[mcp_servers]\n", "line 1, column"),
    ("vibe", b"[mcp_servers.a]\n", "is none"),
    ("qwen", b'{"a": "\xff"}', "line 1, column 8: this is not UTF-8"),
]


@pytest.mark.parametrize(("word", "data", "why"), _BROKEN)
def test_a_file_that_cannot_be_read_is_never_taken_for_an_empty_one(word: str, data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        merging.merged(HARNESSES[word], data, _entries(word, OCR), Ours())


def test_a_fresh_file_is_the_document_that_is_printed() -> None:
    for word, row in HARNESSES.items():
        data, _ = merging.merged(row, None, _entries(word, OCR), Ours())
        if row.form == "JSON":
            assert data == rendering.text(rendering.document(row, [OCR]))


@settings(deadline=None)
@given(
    st.sampled_from(_CASES),
    st.integers(0, 90),
    st.integers(0, 12),
    st.sampled_from(["", "{", "]", '"', "#", "//", ","]),
)
def test_a_file_that_was_damaged_anywhere_is_refused_or_changed_rightly(
    case: tuple[str, bytes | None], at: int, length: int, put: str
) -> None:
    word, before = case
    row = HARNESSES[word]
    data = (before or b"") and before[:at] + put.encode() + before[at + length :]
    try:
        after, ours = merging.merged(row, data, _entries(word, OCR), Ours())
    except ValueError:
        return
    assert after is not None
    assert merging.standing(row, after) == {**merging.standing(row, data), **_entries(word, OCR)}
    assert merging.merged(row, after, {}, ours)[0] == data
