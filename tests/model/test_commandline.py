"""A line as words: quotes as a shell reads them, nothing expanded, and nothing that only a shell could do."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import commandline


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git log --oneline -5", ["git", "log", "--oneline", "-5"]),
        ("  grep  -n\t'a b'  x\n", ["grep", "-n", "a b", "x"]),
        ("\n \n a 'b\nc' \n \n", ["a", "b\nc"]),
        ("""a"b c"'d e'f""", ["ab cd ef"]),
        (r"a\ b \\ \"", ["a b", "\\", '"']),
        (r'"a \" \\ \n \$HOME"', [r'a " \ \n $HOME']),
        ("a '' \"\"", ["a", "", ""]),
        ("echo $HOME * ~ # {a,b}", ["echo", "$HOME", "*", "~", "#", "{a,b}"]),
        ("echo '; rm -rf /' \"| $(id)\"", ["echo", "; rm -rf /", "| $(id)"]),
        (r"echo \; \| \>", ["echo", ";", "|", ">"]),
        ('a \\\n b\\\nc "d\\\ne" \\\n', ["a", "bc", "de"]),
    ],
)
def test_a_line_is_split_as_it_is_written(line: str, words: list[str]) -> None:
    assert list(commandline.words(line)) == words


@pytest.mark.parametrize(
    "line",
    ["", "  \n", "'a", '"a', "a \\", "''", "'' a", "a; b", "a|b", "a && b", "a > b", "a < b", "a `b`",
     "a $(b)", "(a)", "a &", "a 2>&1", "a\nb", "a b \n  c\n"],
)  # fmt: skip
def test_what_a_shell_would_do_more_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        commandline.words(line)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_what_was_quoted_word_by_word_comes_back(words: list[str]) -> None:
    line = shlex.join(words)
    if words[0]:
        assert list(commandline.words(line)) == words
