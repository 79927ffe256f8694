"""TOML is read, placed and edited; whatever it is, nothing raises and nothing else changes."""

from typing import Any

import pytest
import tomli
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.config import toml
from reconciler.config.text import TextFault, comments
from tests.kit.effort import times

SYNTAX = [
    ("an unescaped backslash", 'x = 1\nd = "C:\\data\\deepscan"', "S209", (2, 8), "single quotes"),
    ("a backslash before a u", 'd = "C:\\users"', "S209", (1, 8), "single quotes"),
    ("a curly quote", "c = “ocr-a”", "S208", (1, 5), "straight quote"),
    ("a curly quote at the end", 'c = "ocr-a”\n', "S208", (1, 11), "straight quote"),
    ("a curly apostrophe that is text", 'c = "it\u2019s" x', "S211", (1, 12), "one key on each line"),
    ("an integer of 5,000 digits", "x = 1\na = " + "1" * 5000, "S210", (2, 5), "smaller number"),
    ("an integer of 65 bits", "x = 1\na = [1, 18446744073709551616]", "S210", (2, 9), "smaller number"),
    ("a hexadecimal number without end", "a = 0x" + "f" * 100_000, "S210", (1, 5), "smaller number"),
    ("one marker of a conflict", "a = 1\n=======\nb = 2", "S201", (2, 1), "conflict"),
    ("a marker of the common ancestor", "||||||| base\na = 1", "S201", (1, 1), "conflict"),
    ("a word", "a = ocr", "S211", (1, 5), "quotes"),
    ("yes", "a = yes", "S211", (1, 5), "write true"),
    ("False", "a = False", "S211", (1, 5), "write false"),
    ("null", "a = null", "S211", (1, 5), "remove the key"),
    ("no value", "a =\n", "S211", (1, 4), "write a value"),
    ("a comment for a value", "a = # later", "S211", (1, 5), "write a value"),
    ("an at sign", "a = @", "S211", (1, 5), "quotes"),
    ("a colon", "a: 1", "S211", (1, 2), "key = value"),
    ("two keys on a line", "a = 1 b = 2", "S211", (1, 7), "one key on each line"),
    ("a key twice", "connector = 1\nconnector = 2", "S211", (2, 1), "remove one"),
    ("a table twice", "[a]\nx = 1\n[a]", "S211", (3, 2), "remove one"),
    ("an inline key twice", "a = { b = 1, b = 2 }", "S211", (1, 19), "remove one"),
    ("an open list", "a = [1, 2", "S211", (1, 10), "]"),
    ("an open table", "a = { b = 1", "S211", (1, 12), "}"),
    ("an open header", "[a\nb = 1", "S211", (1, 3), "]"),
    ("an open text", "a = 'x", "S211", (1, 7), "close it"),
    ("an open text on its line", 'a = "x\nb = 1', "S211", (1, 7), "close it"),
    ("a key without a name", "a = 1\n= 2", "S211", (2, 1), "key = value"),
    ("a half surrogate", 'a = "\\ud800"', "S211", (1, 12), "character"),
    ("the thirtieth of February", "a = 2024-02-30", "S211", (1, 5), "real"),
]


@pytest.mark.parametrize(
    ("written", "code", "place", "mend"), [r[1:] for r in SYNTAX], ids=[r[0] for r in SYNTAX]
)
def test_each_mistake_has_its_own_words_and_place(
    written: str, code: str, place: tuple[int, int], mend: str
) -> None:
    fault = toml.read(written.encode())
    assert isinstance(fault, TextFault)
    assert (fault.code, (fault.line, fault.column)) == (code, place)
    assert mend in fault.mend


def test_a_text_that_may_be_a_secret_is_never_repeated() -> None:
    for written in (
        "key = sk-CANARY-7f3a",
        'key = "sk-CANARY-7f3a',
        "key = “sk-CANARY-7f3a”",
        'k = "\\sk-CANARY"',
    ):
        fault = toml.read(written.encode())
        assert isinstance(fault, TextFault)
        assert "CANARY" not in repr(fault)


def test_long_digits_in_text_are_no_number() -> None:
    digest = "sha256:" + "0123456789abcdef" * 4
    assert toml.read(f'a = "{digest}"\nb = 9223372036854775807'.encode()) == {"a": digest, "b": 2**63 - 1}


@pytest.mark.parametrize(
    "hostile",
    [
        b"a = " + b"[" * 100_000,
        b"a = " + b"{b=" * 100_000,
        b".".join([b"a"] * 200_000) + b" = 1",
        b"".join(b"z%d.%s = 1\n" % (i, b".".join([b"a"] * 30)) for i in range(12_000)),
        b"".join(b"[z%d.%s]\n" % (i, b".".join([b"a"] * 30)) for i in range(12_000)),
        b"a = [" + b"[]," * 300_000 + b"]",
        b'a = """' + b'""\\' * 300_000,
        b"<<<<<<<" * 100_000,
        b"a = 1" + b"_1" * 400_000,
    ],
    ids=range(9),
)
@pytest.mark.timeout(20)  # a second each where the machine is free; the bound is that none is quadratic
def test_a_hostile_text_is_refused_soon(hostile: bytes) -> None:
    assert isinstance(toml.read(hostile), TextFault)


@given(
    st.one_of(
        st.binary(max_size=300), st.text(alphabet="ab.='\"[]{},\n#0x\\ ”<>=", max_size=200).map(str.encode)
    )
)
def test_any_bytes_are_values_or_a_fault(data: bytes) -> None:
    assert isinstance(toml.read(data), dict | TextFault)


# places

PLACED = """\
# é
a.b = 1 # é
"q\\u0041.x" = "é"
arr = [1, {x = 2, y.z = [3]},
  # c
  "s"]
[t."u v"]
é-no = 0
[w]
k = {"é" = 1979-05-27, z = 2}
[[aot]]
n = 1
[[aot]]
n = 2
[aot.sub]
z = true
[last]
inline = {
  a = 1,
}
after = 1.5
"""


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("a", "b"), (2, 7), (2, 3)),
        (("a",), (2, 1), (2, 1)),
        (("a", "missing"), (2, 1), (2, 1)),
        (("qA.x",), (3, 15), (3, 1)),
        (("arr",), (4, 7), (4, 1)),
        (("arr", 1), (4, 11), (4, 11)),
        (("arr", 1, "y", "z", 0), (4, 26), (4, 26)),
        (("arr", 2), (6, 3), (6, 3)),
        (("arr", 9), (4, 7), (4, 7)),
        (("t", "u v"), (7, 1), (7, 4)),
        (("w", "k", "é"), (10, 12), (10, 6)),
        (("w", "k", "z"), (10, 28), (10, 24)),
        (("w", "missing"), (9, 1), (9, 1)),
        (("w", "k", "missing"), (10, 5), (10, 5)),
        (("aot", 0, "n"), (12, 5), (12, 1)),
        (("aot", 1, "n"), (14, 5), (14, 1)),
        (("aot", 1), (13, 1), (13, 1)),
        (("aot", 1, "sub", "z"), (16, 5), (16, 1)),
        (("last", "after"), (21, 9), (21, 1)),
        (("missing",), (1, 1), (1, 1)),
        ((), (1, 1), (1, 1)),
    ],
)
def test_a_path_is_placed_in_characters(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    data = PLACED.replace("é-no", "e-no").encode()
    assert toml.place(data, path) == value
    assert toml.place(data, path, on_key=True) == key
    marked = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
    assert toml.place(marked, path) == value


KEYS = st.one_of(
    st.sampled_from(["a", "b", "long-key", "é", "with space", 'quo"te', "x.y", ""]), st.text(max_size=5)
)
SCALARS = st.one_of(st.booleans(), st.integers(-99, 99), st.text(alphabet='ab é"\\\n#', max_size=8))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


def written(value: object) -> str:
    """TOML on one line, written by this test alone."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)} = {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    assert isinstance(value, str)
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value) + '"'


def paths(value: object, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [above] if above else []
    if isinstance(value, dict):
        found += [path for key, item in value.items() for path in paths(item, (*above, key))]
    if isinstance(value, list):
        found += [path for number, item in enumerate(value) for path in paths(item, (*above, number))]
    return found


@given(st.dictionaries(KEYS, VALUES, max_size=4))
@settings(max_examples=times(25))
def test_the_place_of_each_value_is_where_it_starts(values: dict[str, Any]) -> None:
    assume(not any("\ud800" <= c <= "\udfff" for c in repr(values)))
    lines = [f"{written(key)} = {written(item)}" for key, item in values.items()]
    data = "\n".join(lines).encode()
    for path in paths(values):
        line, column = toml.place(data, path)
        here: object = values
        for part in path:
            here = here[part]  # type: ignore[index]
        assert lines[line - 1][column - 1 :].startswith(written(here))
        if isinstance(path[-1], str):
            line, column = toml.place(data, path, on_key=True)
            assert lines[line - 1][column - 1 :].startswith(written(path[-1]))


@settings(max_examples=times(25))
@given(
    st.one_of(st.binary(max_size=200), st.text(alphabet="ab.='\"[]{},\n# é", max_size=120).map(str.encode)),
    st.lists(st.one_of(st.sampled_from(["a", "b", ""]), st.integers(0, 3)), max_size=4).map(tuple),
    st.booleans(),
)
def test_a_place_lies_inside_any_bytes(data: bytes, path: tuple[str | int, ...], on_key: bool) -> None:
    line, column = toml.place(data, path, on_key=on_key)
    lines = data.split(b"\n")
    assert 1 <= line <= len(lines)
    assert 1 <= column <= len(lines[line - 1]) + 1


# edits

AGENT = """\
# the clerk
apiVersion = "handler.agent/v1"   # the format
services = { ocr = "ocr-a", tts = "tts-a" } # two

[run] # how
command = ["x",
  # why
  "y"]
# the end
"""


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("services", "ocr"), "ocr-b", 'services = { ocr = "ocr-b", tts = "tts-a" } # two'),
        (("suspend",), True, "suspend = true"),
        (("apiVersion",), "handler.agent/v2", 'apiVersion = "handler.agent/v2"   # the format'),
        (("run", "command", 1), "z", '  "z"]'),
        (("limits", "calls"), 3, "calls = 3"),
    ],
)
def test_an_edit_changes_one_value_and_no_other_line(
    path: tuple[str | int, ...], value: object, line: str
) -> None:
    after = toml.edit(AGENT, path, value)
    assert line in after.splitlines()
    gone = set(AGENT.splitlines()) - set(after.splitlines())
    assert len(gone) <= 1
    assert comments(after) == comments(AGENT)
    assert toml.edit(after, path, value) == after


def test_an_edit_removes_a_key() -> None:
    after = toml.edit(AGENT, ("services", "tts"), None)
    assert tomli.loads(after)["services"] == {"ocr": "ocr-a"}
    assert toml.edit(AGENT, ("nothing", "here"), None) == AGENT


def test_an_edit_keeps_line_ends_and_the_byte_order_mark() -> None:
    windows = "\ufeff" + AGENT.replace("\n", "\r\n")
    after = toml.edit(windows, ("suspend",), True)
    assert after.startswith("\ufeff#")
    assert "\n" not in after.replace("\r\n", "")


def test_a_value_that_becomes_a_table_takes_no_key_with_it() -> None:
    before = '[settings]\nmodel = "m"\nlang = "fr"\n'
    after = tomli.loads(toml.edit(before, ("settings", "model"), {"name": "m"}))
    assert after == {"settings": {"model": {"name": "m"}, "lang": "fr"}}


@pytest.mark.parametrize(
    ("before", "path", "value", "words"),
    [
        ("a = ", ("a",), 1, "not TOML"),
        ("a = 1", (), 1, "name a key"),
        ("a = 1", ("a", "b"), 1, "no table"),
        ("a = [1]", ("a", 1), 1, "has 1 items"),
        ("a = [1]", ("a", "b"), 1, "no table"),
        ("a = 1", ("b",), object(), "by hand"),
        ("a = 1 # why\n", ("a",), {"b": 1}, "comment"),
        ("a = 1\0", ("b",), 1, "NUL"),
    ],
)
def test_an_edit_that_cannot_be_proved_is_refused(
    before: str, path: tuple[str | int, ...], value: object, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        toml.edit(before, path, value)


@given(
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.dictionaries(st.sampled_from(["t1", "t2"]), st.dictionaries(KEYS, VALUES, max_size=3)),
    st.data(),
)
@settings(max_examples=times(25))
def test_an_edit_keeps_everything_else(
    values: dict[str, Any], tables: dict[str, Any], data: st.DataObject
) -> None:
    assume(not any("\ud800" <= c <= "\udfff" for c in repr((values, tables))))
    lines = [
        f"{written(key)} = {written(item)} # of {number}" for number, (key, item) in enumerate(values.items())
    ]
    for name, table in tables.items():
        lines += [f"[{name}] # table", *(f"{written(key)} = {written(item)}" for key, item in table.items())]
    before = "\n".join(lines) + "\n"
    assume(not values.keys() & tables.keys())
    known = paths({**values, **tables})
    path = data.draw(st.sampled_from([*known, ("new",), ("t1", "new"), ("n", "e", "w")]))
    value = data.draw(SCALARS)
    try:
        after = toml.edit(before, path, value)
    except ValueError:
        return
    meant: Any = {**values, **tables}
    here = meant
    for part in path[:-1]:
        here = here.setdefault(part, {}) if isinstance(here, dict) else here[part]
    here[path[-1]] = value
    assert tomli.loads(after) == meant
    assert not comments(before) - comments(after)
