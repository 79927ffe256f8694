"""Bytes become text, or one fault that says where and what to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.config import text
from reconciler.config.text import TextFault
from reconciler.model.names import Kind, ObjectRef

NESTED = b"a = " + b"[" * 500 + b"]" * 500
CONFLICT = b'a = 1\n<<<<<<< HEAD\nb = "ours"\n=======\nb = "theirs"\n>>>>>>> topic\n'

REFUSED = [
    ("a merge conflict", CONFLICT, "S201", 2, 1),
    ("UTF-16 with its mark", 'a = "b"'.encode("utf-16"), "S202", 1, 1),
    ("UTF-16 without a mark", 'a = "b"'.encode("utf-16-le"), "S202", 1, 1),
    ("UTF-32", 'a = "b"'.encode("utf-32"), "S202", 1, 1),
    ("Latin-1", 'x = 1\na = "café"'.encode("latin-1"), "S203", 2, 9),
    ("a NUL byte", b'x = 1\na = "b\0"', "S204", 2, 7),
    ("a control character", b'a = "\x07"', "S204", 1, 6),
    ("a C1 control character", 'a = "\x85"'.encode(), "S204", 1, 6),
    ("a lone carriage return", b"a = 1\rb = 2", "S205", 1, 6),
    ("too many bytes", b"#" * (text.MAX_BYTES + 1), "S206", 1, 1),
    ("500 brackets", NESTED, "S207", 1, 37),
    ("nesting over many lines", b"a = [\n" + b"[\n" * 40 + b"]\n" * 41, "S207", 33, 1),
    ("a key of 20,000 parts", b".".join([b"a"] * 20_000) + b" = 1", "S207", 1, 64),
    ("too many tables", b"[a]\n" * 20_001, "S207", 20_001, 1),
    ("a zero-width space", 'a = "b\u200bc"'.encode(), "S212", 1, 7),
    ("a change of direction", 'a = "b\u202ec"'.encode(), "S212", 1, 7),
    ("a tag character", 'a = "b\U000e0041"'.encode(), "S212", 1, 7),
    ("a joiner where no script needs it", 'a = "b\u200dc"'.encode(), "S212", 1, 7),
    ("a second byte order mark", "\ufeff\ufeffa = 1".encode(), "S212", 1, 1),
]


@pytest.mark.parametrize(
    ("data", "code", "line", "column"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_a_text_that_cannot_be_meant_is_refused_with_its_place(
    data: bytes, code: str, line: int, column: int
) -> None:
    fault = text.decoded(data)
    assert isinstance(fault, TextFault)
    assert (fault.code, fault.line, fault.column) == (code, line, column)
    assert fault.what and fault.why and fault.mend


ACCEPTED = [
    ("an empty file", b"", ""),
    ("a byte order mark", b"\xef\xbb\xbfa = 1", "a = 1"),
    ("CRLF", b"a = 1\r\nb = 2\r\n", "a = 1\r\nb = 2\r\n"),
    ("a joiner that Persian needs", 'a = "می\u200cشود"'.encode(), 'a = "می\u200cشود"'),
    ("an emoji in its coloured form", 'a = "☕\ufe0f"'.encode(), 'a = "☕\ufe0f"'),
    ("a rule of equals signs in prose", b'a = """\nTitle\n=======\n"""', 'a = """\nTitle\n=======\n"""'),
    ("forty dots in text", b"a = '" + b"." * 40 + b"'", "a = '" + "." * 40 + "'"),
    ("forty brackets in a comment", b"# " + b"[" * 40, "# " + "[" * 40),
    ("forty hosts on one line", b"a = [" + b"'a.b.c:1'," * 40 + b"]", "a = [" + "'a.b.c:1'," * 40 + "]"),
    ("forty lists on one line", b"a = [" + b"[1]," * 40 + b"]", "a = [" + "[1]," * 40 + "]"),
]


@pytest.mark.parametrize(
    ("data", "expected"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED]
)
def test_a_text_that_people_write_is_taken_as_it_is(data: bytes, expected: str) -> None:
    assert text.decoded(data) == expected


@given(st.binary(max_size=400))
def test_any_bytes_become_text_or_a_fault_inside_them(data: bytes) -> None:
    found = text.decoded(data)
    if isinstance(found, TextFault):
        lines = data.split(b"\n")
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1


@given(st.text(alphabet="\"'\\[]{}.=,#\nab ", max_size=300))
def test_any_punctuation_is_looked_through(written: str) -> None:
    found = text.decoded(written.encode())
    assert found == written or isinstance(found, TextFault)


def test_a_conflict_is_its_own_reason() -> None:
    fault = text.decoded(CONFLICT)
    assert isinstance(fault, TextFault)
    problem = fault.problem("bindings/a.toml", ObjectRef(Kind.BINDING, "a"))
    assert (str(problem.at), problem.reason) == ("bindings/a.toml:2:1", "MergeConflict")
    assert str(problem.about) == "binding/a"


def test_comments_are_counted_and_text_is_no_comment() -> None:
    written = '# one\na = "# no" # two\nb = """\n# no\n""" # two\r\n'
    assert text.comments(written) == {"# one": 1, "# two": 2}


def test_a_position_counts_characters_from_one() -> None:
    assert text.position("é\nàb", 3) == (2, 2)
    assert text.position("", 0) == (1, 1)
