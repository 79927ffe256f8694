"""The canonical layout: stable, the same values and comments whatever it was, and what it looks like."""

from collections import Counter
from pathlib import Path

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from reconciler.config.text import comments
from reconciler.config.tomledit import same
from reconciler.config.tomlform import canonical

_ROOT = Path(__file__).resolve().parents[2]
_GAP = st.sampled_from(["", " ", "   ", "\t"])
_KEY = st.sampled_from(["a", "b-c", '"d e"', "'f'", '"g"', "1", '"é"', '"x.y"'])
_NOTE = st.sampled_from(["# note", "#", '# a, [b] = {c} "d" \' #   ', "#:schema x"])
_BREAK = st.one_of(
    st.just(""),
    st.sampled_from(["\n", "\n\n", "\n\n\n  "]),
    st.builds(lambda gap, note: f"{gap}{note}\n", _GAP, _NOTE),
)
_SCALAR = st.sampled_from(
    [
        "1", "0x1F", "1_000", "3.5e-7", "inf", "-nan", "true", "1979-05-27T07:32:00Z",
        "1979-05-27 07:32:00.5", "1979-05-27", "07:32:00", '"text # no comment"', "'plain'", "'C:\\dir'",
        "'\"'", '""', '"""\nseveral  \n\n  lines # no comment\n"""', "'''\n[x]\n'''",
        '"\\"\\u00e9"', '""""q""""',
    ]
)  # fmt: skip


def _list(items: list[str], breaks: list[str], *, comma: bool) -> str:
    text = "["
    for number, item in enumerate(items):
        text += f"{breaks[number]}{item}"
        text += "," if number < len(items) - 1 or comma else ""
        text += breaks[-number - 1]
    return f"{text}{breaks[0]}]"


def _table(items: list[str], gap: str) -> str:
    pairs = f"{gap},{gap}".join(f"k{number}{gap}={gap}{item}" for number, item in enumerate(items))
    return f"{{{gap}{pairs}{gap}}}"


_VALUE = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(
        st.builds(
            _list,
            st.lists(inner, max_size=4),
            st.lists(_BREAK, min_size=6, max_size=6),
            comma=st.booleans(),
        ),
        st.builds(_table, st.lists(inner, max_size=3), st.sampled_from(["", " ", "  "])),
    ),
    max_leaves=8,
)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    text, end = "", draw(st.sampled_from(["\n", "\r\n"]))
    for number in range(draw(st.integers(0, 4))):
        if number:
            brackets = draw(st.sampled_from([("[", "]"), ("[[", "]]")]))
            gap = draw(_GAP)
            text += f"{gap}{brackets[0]}{gap}t{number}{gap}.{gap}{draw(_KEY)}{gap}{brackets[1]}{draw(_GAP)}"
            text += draw(st.one_of(st.just(""), _NOTE)) + "\n"
        for key in draw(st.lists(_KEY, max_size=3, unique_by=lambda key: key.strip("\"'"))):
            text += draw(_BREAK) if not text or text.endswith("\n") else ""
            note = draw(st.one_of(st.just(""), _NOTE))
            text += f"{draw(_GAP)}{key}{draw(_GAP)}={draw(_GAP)}{draw(_VALUE)}{draw(_GAP)}{note}\n"
    return text.replace("\n", end)


def _notes(text: str) -> Counter[str]:
    return Counter(note.rstrip() for note in comments(text).elements())


@pytest.mark.slow
@given(_texts())
def test_the_layout_changes_no_value_and_no_comment_and_is_stable(text: str) -> None:
    values = tomli.loads(text)
    made = canonical(text.encode())
    assert same(tomli.loads(made.decode()), values)
    assert _notes(made.decode()) == _notes(text)
    assert canonical(made) == made
    assert b"\r" not in made
    assert b"\n\n\n" not in made or '"""' in text or "'''" in text


def test_a_text_is_laid_out_one_way() -> None:
    text = """\ufeff#:schema x \r
a   =   1 # c
"ocr" = 'x'
'q"r' = 'C:\\x'



[ z . "b c" ]

x = [1,2 , # two
   3
  # end
]
when = 1979-05-27 07:32:00
none = [ ]
same = {}
g = {a=1,b = [1,
2]}
# about c
[[c]]	# t
h = [ # n
  {a = 1},

  'b' ] # z


"""
    assert (
        canonical(text.encode()).decode()
        == """\
#:schema x
a = 1 # c
ocr = "x"
'q"r' = 'C:\\x'

[z."b c"]
x = [
  1,
  2, # two
  3,
  # end
]
when = 1979-05-27 07:32:00
none = []
same = {}
g = { a = 1, b = [
  1,
  2,
] }

# about c
[[c]] # t
h = [
  # n
  { a = 1 },

  "b",
] # z
"""
    )


def test_a_list_that_does_not_fit_its_line_has_one_item_a_line() -> None:
    words = [f'"word number {number:03}"' for number in range(8)]
    lines = canonical(f"a = [{', '.join(words)}]".encode()).decode().splitlines()
    assert lines == ["a = [", *(f"  {word}," for word in words), "]"]


@pytest.mark.parametrize("data", [b"a = ", b"a = 1\na = 2\n", b"\xff", b"\xff\xfea\0", b"<<<<<<< ours\n"])
def test_what_is_not_toml_is_not_laid_out(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is not TOML|line 1"):
        canonical(data)


def test_what_the_newest_toml_allows_is_laid_out_or_left_alone() -> None:
    text = b"a = { # first\n  b = 1,\n\n  c = 2, # second\n}\n"
    try:
        tomli.loads(text.decode())
    except tomli.TOMLDecodeError:
        pytest.skip("this reader knows TOML 1.0 alone")
    assert canonical(text) == b"a = {\n  # first\n  b = 1,\n\n  c = 2, # second\n}\n"


def test_nothing_at_all_stays_nothing() -> None:
    assert canonical(b"") == b""
    assert canonical(b"\n \n") == b""
    assert canonical(b"# alone") == b"# alone\n"


@pytest.mark.parametrize("folder", ["examples/config", "reconciler/doors/scaffold"])
def test_what_we_hand_out_is_laid_out_that_way(folder: str) -> None:
    kinds = ("agents", "bindings", "projects", "connectors")
    files = [path for path in (_ROOT / folder).rglob("*.toml") if path.parent.name in kinds]
    assert files
    for path in [*files, _ROOT / folder / "handler.toml"]:
        if path.exists():
            assert canonical(path.read_bytes()) == path.read_bytes(), path
