"""Patterns: what one engine cannot read or reads in its own way is refused; the rest all read alike."""

import re
import subprocess
import sys
import warnings

import pytest
import regress
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.admission import patterns
from reconciler.model.contract import matches
from tests.kit.effort import times

PORTABLE = [
    "", "a", "^a$", "^[a-z]{2}$", "^(?:a|b)+$", "^[^/]*$", r"^\$\{[A-Z_]{1,40}\}$", r"^[0-9]{4}-[0-9]{2}$",
    r"^[\u00e9-\u00ff]$", r"^\x41$", r"^[\-a]$", r"^\/$", "^[a&b|c]$", "^é+$", "^😀$", r"^a\.b$", r"^[\]\\]$",
    r"^\\b$", r"^[(?]$", "^(a)(b)$", "^.{0,100}$", r"^\t\n\v\f\r$", "^x{0,900}$", "^(?:ab{3}){9}$",
]  # fmt: skip

REFUSED = [
    # ECMA-262 with flag u cannot read it
    ("^(?P<x>a)$", "invalid group modifier"), ("a++", "invalid atom"), ("(?>a)", "invalid group"),
    (r"\A", "invalid character escape"), (r"a\z", "invalid character escape"), (r"\-", "invalid character"),
    ("a{,2}", "invalid quantifier"), ("{", "invalid"), ("}", "invalid"), ("]", "invalid"), ("[", ""),
    ("[[:alpha:]]", "invalid"), ("[z-a]", "range"), (r"[\w-z]", "range"), ("a{2,1}", "quantifier"), ("(", ""),
    (")", ""), ("*", ""), ("(?#c)a", "group"), ("(?x)a", "group"), (r"\_", "escape"), (r"\e", "escape"),
    # the linear engine cannot
    ("(?=a)a", "look-around"), ("(?<!a)b", "look-around"), (r"(a)\1", "back-references"), ("[^]", "escapes"),
    (r"[\b]", "escapes"), (r"\0", "escapes"), (r"\ud83d\ude00", "escapes"),
    # Python cannot
    (r"\p{L}", "Python"), (r"\u{1F600}", "Python"), (r"\cA", "Python"), ("(?<n>a)", "Python"),
    # all can, each in its own way
    (r"a\b", "another place"), (r"\Ba", "another place"), ("(?i:a)", "flags"), ("[a&&b]", "as an operation"),
    ("[a~~b]", "as an operation"), ("[[a]", "as an operation"), ("[a||b]", "as an operation"),
    # too large
    ("a" * 513, "513 characters"), ("a{1001}", "1001 characters"), ("(?:(?:a{0,50}){0,50}){0,50}", "125000"),
    ("(?:a{10}b{20}){40}", "1200"), ("(?:[a-z]{500}){0,3}", "1500"), ("a{0,1000000}", "1000000"),
]  # fmt: skip


@pytest.mark.parametrize("pattern", PORTABLE, ids=ascii)
def test_what_every_engine_reads_alike_is_portable(pattern: str) -> None:
    assert patterns.fault(pattern) is None


@pytest.mark.parametrize(("pattern", "words"), REFUSED, ids=lambda text: ascii(text)[:30])
def test_what_one_engine_cannot_read_or_reads_its_own_way_is_refused(pattern: str, words: str) -> None:
    found = patterns.fault(pattern)
    assert found is not None
    assert words in found[0]
    assert found[1]


@pytest.mark.parametrize(
    ("pattern", "shorthand"),
    [(r"^\d$", r"\d"), (r"[\w.]", r"\w"), (r"\\\S", r"\S"), (r"\\d", None), ("^[0-9]$", None), (r"\$", None)],
)
def test_a_shorthand_is_told_with_the_class_that_all_read_alike(pattern: str, shorthand: str | None) -> None:
    found = patterns.wider(pattern)
    assert (found and found[0]) == shorthand
    if found is not None:
        assert patterns.wider(pattern.replace(found[0], found[1].strip("[]"))) is None


def test_looking_at_a_pattern_leaves_the_warnings_as_they_were() -> None:
    before = list(warnings.filters)
    patterns.fault("[[a]")
    assert warnings.filters == before


_PIECE = st.sampled_from(
    ["a", "b", "é", "-", r"\.", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[a-c]", "[^a]", r"[\d-]", "[^é]",
     ".", r"\x41", r"\u00e9", "^", "$", r"[\w.]", "[&|]", "[~a]", r"\/",
     "[[]", r"\b", "(?i:a)", "[a&&b]", r"\p{L}", r"\0"]
)  # fmt: skip
_PATTERN = st.recursive(
    _PIECE,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        )
        | st.tuples(inner, inner).map("|".join)
    ),
    max_leaves=5,
)
_TEXT = st.text(st.sampled_from("abcABé-.\n\r\t \u0661\u00a0\u2028_&~[&|1😀\u017f\u212a"), max_size=6)


@pytest.mark.slow
@settings(max_examples=times(240))
@given(_PATTERN, _TEXT)
def test_a_portable_pattern_finds_the_same_in_ecma_262_and_here(pattern: str, text: str) -> None:
    if patterns.fault(pattern) is None:
        assert matches(pattern, text) == (regress.Regex(pattern, "u").find(text) is not None)


@pytest.mark.slow
@settings(max_examples=times(120))
@given(_PATTERN, st.text(st.sampled_from("abcAB-.1_&~[|"), max_size=6))
def test_and_in_python_too_on_ascii_text_of_one_line(pattern: str, text: str) -> None:
    if patterns.fault(pattern) is None:
        assert matches(pattern, text) == (re.search(pattern, text) is not None)


@settings(max_examples=times(120))
@given(st.text(st.sampled_from("ab\\[](){}?*+^$|.,0123456789:<=!-&dwb"), max_size=20))
def test_no_text_makes_the_rule_raise(pattern: str) -> None:
    if patterns.fault(pattern) is None:
        re.compile(pattern)
        matches(pattern, "a")


CATASTROPHES = """
import sys
from reconciler.model.contract import Tool
for pattern in ("(?:a+)+", "(?:a|a)*", "(?:a*)*b", "(?:(?:a+)+)+", "(?:.*a){12}", "(?:a?){40}a{40}"):
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": f"^{pattern}$"}}}
    tool = Tool({"name": "t", "inputSchema": schema, "outputSchema": schema}, kind="call", effect="none")
    print(tool.input_fault({"x": "a" * 100_000 + "!"}))
"""


def test_no_text_makes_a_portable_pattern_slow() -> None:
    """Where an engine goes back and tries again, these take longer than the world stands."""
    run = subprocess.run(
        [sys.executable, "-c", CATASTROPHES], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(run.stdout.splitlines()) == {"x does not match the pattern"}
