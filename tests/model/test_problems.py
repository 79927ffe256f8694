"""A problem says what, where, why and how to mend it; order and quoting are one rule."""

from reconciler.model.problems import Problem, Span, in_order, key_path, listed, quoted


def problem(what: str, at: Span) -> Problem:
    return Problem("B101", what, "why", "mend", at)


def test_problems_come_once_and_by_place() -> None:
    late, early = problem("x", Span("b", 1, 1)), problem("x", Span("a", 10, 2))
    assert in_order([late, early, late]) == (early, late)
    assert str(late.at) == "b:1:1"
    assert str(Span("b")) == "b"


def test_a_path_of_keys_reads_as_people_write_it() -> None:
    assert key_path(("services", "ocr", "tools", 0)) == "services.ocr.tools[0]"
    assert key_path(()) == ""
    assert Problem("B101", "a", "b", "c", Span("f"), ("requires", 0)).field_path == "requires[0]"


def test_a_quoted_value_is_short_and_printable() -> None:
    assert quoted("ocr") == "'ocr'"
    assert quoted("a\nb\u202e") == "'a\\u000ab\\u202e'"
    assert len(quoted("x" * 1000)) == 82
    assert quoted("x" * 1000).endswith("…'")


def test_words_are_listed_as_a_sentence_lists_them() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b or c"
    assert listed([]) == "nothing"
