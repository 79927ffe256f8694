"""summary.md: valid Markdown, cells that are the words that were told, what is wrong first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reconciler.control.status import Board
from reconciler.control.summary_md import Page, escaped
from reconciler.model.status import Condition, ObjectStatus, Summary

_READY = Condition("Ready", "True", "Idle")
_SYNCED = Condition("Synced", "True", "ReconcileSuccess")
_PROBLEM = {"file": "agents/clerk.toml", "line": 4, "column": 12, "code": "A203", "mend": "write ocr = 'x'"}


def _status(name: str, *conditions: Condition, problems: tuple[Any, ...] = ()) -> ObjectStatus:
    found = conditions or (_READY, _SYNCED)
    return ObjectStatus(
        "agent", name, f"agents/{name}.toml", "", "", suspended=False, conditions=found, problems=problems
    )


def _tables(text: str) -> Iterator[list[list[str]]]:
    """The cells of every table of a page, as they render."""
    table: list[list[str]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "table_open":
            table = []
        elif token.type == "tr_open":
            table.append([])
        elif token.type == "inline" and token.children is not None and table and token.level > 2:
            assert {child.type for child in token.children} <= {"text", "text_special"}, token.content
            table[-1].append("".join(child.content for child in token.children))
        elif token.type == "table_close":
            yield table


def _page(*statuses: ObjectStatus, **summary: Any) -> str:
    page = Page()
    for one in statuses:
        page.note(one, one.conditions)
    frame = {"controller": {"pid": 7, "version": "1"}} | summary
    return page.text(Summary(configuration="/home/ada/conf", **frame), (), {"agent": len(statuses)})


@given(st.text(max_size=60))
def test_any_words_render_as_they_are(words: str) -> None:
    (table, *_) = _tables(_page(_status("a", Condition("Ready", "False", "SchemaInvalid", words))))
    cell = table[1][2]
    plain = " ".join(words.split())
    assert len(table[1]) == 5
    if plain.isprintable():
        assert cell == f"SchemaInvalid: {plain}".rstrip(": ") or cell == f"SchemaInvalid: {plain}".strip()


def test_what_is_not_ready_comes_first_with_its_place_and_its_mend() -> None:
    text = _page(
        _status("reader"),
        _status("late", _READY, Condition("Synced", "False", "AwaitingApply", "its file is gone")),
        _status(
            "clerk", Condition("Ready", "False", "MissingRequirement", "needs ocr/v1"), problems=(_PROBLEM,)
        ),
    )
    wrong, held, kinds = _tables(text)
    assert wrong[1][:4] == [
        "agent/clerk",
        "not ready",
        "MissingRequirement: needs ocr/v1",
        "agents/clerk.toml:4:12",
    ]
    assert wrong[2][:3] == ["agent/late", "ready, by an earlier form", "AwaitingApply: its file is gone"]
    assert held[1:] == [["agent/late", "its file is gone"]]
    assert kinds[1:] == [["agent", "3", "1"]]
    assert "- agents/clerk.toml:4:12: write ocr = 'x'\n" in text
    assert "**2 of 3 objects are not ready in the newest form.**" in text


def test_when_everything_is_ready_the_page_is_short() -> None:
    text = _page(
        _status("reader"), serving="main@sha1:4f2c1aa", generation=3, controller={"pid": 7, "version": "1"}
    )
    assert "**The one object is ready.**" in text
    assert "**All 2 objects are ready.**" in _page(_status("reader"), _status("clerk"))
    assert "revision main@sha1:4f2c1aa · generation 3 · handlerd 1 (pid 7)" in text
    assert "What to do" not in text


def test_without_a_controller_what_is_admitted_is_no_fault() -> None:
    nothing = Condition("Ready", "Unknown", "Idle", "nothing runs until handlerd does")
    text = _page(_status("reader", nothing), _status("clerk", nothing), controller=None)
    assert "**All 2 objects are admitted; nothing runs until handlerd does.**" in text
    assert "no controller" in text
    assert "agent/reader" not in text
    refused = _status("late", Condition("Ready", "False", "UnknownField", "x"))
    assert "**1 of 2 objects is not admitted in the newest form.**" in _page(
        _status("reader", nothing), refused, controller=None
    )


def test_a_page_is_bounded_whatever_is_wrong() -> None:
    bad = Condition("Ready", "False", "SchemaInvalid", "x")
    text = _page(*(_status(f"a{number}", bad) for number in range(1000)))
    assert len(next(_tables(text))) == 101
    assert "… and 900 more" in text


def test_an_address_in_a_message_is_no_link() -> None:
    assert "http://" not in escaped("see http://example.org")


def test_the_page_lies_beside_the_summary_and_is_written_only_when_it_says_something_new(
    tmp_path: Path,
) -> None:
    board, page = Board(tmp_path, lambda: 0.0), tmp_path / "summary.md"
    board.publish([_status("reader")])
    assert board.summary(Summary(configuration="/c"))
    first = page.stat()
    assert "*As of 1970-01-01T00:00:00.000Z.*" in page.read_text()
    assert not board.summary(Summary(configuration="/c"))
    assert board.summary(
        Summary(configuration="/c", handled="1970-01-01T00:00:01.000Z")
    )  # the page has no such word
    assert (page.stat().st_mtime_ns, page.stat().st_ino) == (first.st_mtime_ns, first.st_ino)
    board.publish([_status("reader", Condition("Ready", "False", "CrashLoop", "exit 1"))])
    assert board.summary(Summary(configuration="/c"))
    assert "agent/reader | not ready | CrashLoop: exit 1" in page.read_text()
    board.publish([])
    assert board.summary(Summary(configuration="/c"))
    assert "The configuration is empty." in page.read_text()
