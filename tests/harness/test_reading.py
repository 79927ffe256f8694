"""Reading harness files: comments, marks and hostile bytes, and no fault that repeats what it met."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.harness import reading

CANARY = "CANARYsecret"
TWICE = "a key stands twice in one table: which one is meant is not said"


def test_json_may_have_comments_a_byte_order_mark_and_commas_too_many() -> None:
    text = '\ufeff{ // one\n "a": "http://x/*no*/, }", /* two\n */ "b": [1, 2,], }\n'
    assert reading.values(text.encode(), "x.json") == {"a": "http://x/*no*/, }", "b": [1, 2]}


@settings(deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20,
))  # fmt: skip
def test_what_is_plain_json_is_read_as_it_is(value: object) -> None:
    assert reading.values(json.dumps({"v": value}).encode(), "x.json") == {"v": value}


_BAD = [
    ("x.json", f'{{"a": "{CANARY}" "b": 1}}'.encode(), "line 1, column 22: this is not JSON"),
    ("x.json", f'// {CANARY}\n{{"a": {CANARY}}}'.encode(), "line 2, column 7: this is not JSON"),
    ("x.json", f'{{"{CANARY}": 1, "{CANARY}": 2}}'.encode(), TWICE),
    ("x.json", b'{"a": ' + b"[" * 200_000, "its brackets are nested too deep"),
    ("x.json", b'{"a": ' + b"9" * 5000 + b"}", "a number in it is too long"),
    ("x.json", b'{"a": "' + CANARY.encode() + b'\xff"}', "line 1, column 20: this is not UTF-8"),
    ("x.json", '{"a": 1}'.encode("utf-16"), "it is UTF-16: save it as UTF-8"),
    ("x.json", b"[1]", "it holds no table but a list"),
    ("x.json", b"", "line 1, column 1: this is not JSON"),
    ("c.toml", f'a = "{CANARY}" {CANARY}'.encode(), "line 1, column 20: this is not TOML that can be read"),
    ("s.yaml", f"a: {CANARY}: {CANARY}".encode(), "line 1, column 16: this is not YAML"),
    ("s.yaml", f"a: *{CANARY}".encode(), "line 1, column 4: this is not YAML"),
    ("s.yaml", f"{CANARY}: 1\n{CANARY}: 2\n".encode(), "line 2, column 1: a key stands twice in one table"),
    ("s.yaml", b"a: \xff", "it is not UTF-8"),
    ("s.yaml", b"a: \x01", "a character in it cannot stand in YAML"),
    ("s.yaml", b"a: &x [*x]", "it is nested deeper than 32 levels, or refers to itself"),
    ("s.yaml", b"a: " + b"[" * 400 + b"]" * 400, "it is nested deeper than 32 levels, or refers to itself"),
    ("s.yaml", b"? [a]\n: b", "line 1, column 3: a key is no text"),
    ("s.yaml", b"<<: [a]", "line 1, column 5: only tables can be merged"),
    ("s.yaml", b"#" * 300_000, "it has 300,000 bytes, more than 262,144"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "data", "said"), _BAD, ids=lambda one: str(one)[:30])
def test_what_cannot_be_read_is_said_with_its_place_and_never_repeated(
    file: str, data: bytes, said: str
) -> None:
    with pytest.raises(ValueError) as fault:
        reading.values(data, file)
    assert str(fault.value) == said


def test_yaml_scalars_stay_text_and_no_tag_is_obeyed() -> None:
    data = b"a: no\nb: 012\nc: !!python/object/apply:os.system [touch /tmp/never]\nd: ~\n"
    data += b"e: &m {x: 1}\nf: {<<: *m, y: 2}\n"
    assert reading.values(data, "s.yml") == {
        "a": "no",
        "b": "012",
        "c": ["touch /tmp/never"],
        "d": None,
        "e": {"x": "1"},
        "f": {"x": "1", "y": "2"},
    }


def test_aliases_that_multiply_are_refused_before_they_do() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(ValueError, match="its aliases grow it beyond any real file"):
        reading.values("\n".join(lines).encode(), "s.yaml")


def test_a_hostile_line_of_quotes_is_passed_once() -> None:
    data = b'{"a": ' + b'"\\' * 400_000
    with pytest.raises(ValueError, match="not JSON"):
        reading.values(data, "x.json")


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["x.json", "x.toml", "x.yaml"]))
def test_any_bytes_are_read_or_refused_in_words(data: bytes, file: str) -> None:
    try:
        assert isinstance(reading.values(data, file), dict)
    except ValueError as fault:
        assert len(str(fault)) < 100
