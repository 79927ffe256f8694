"""Words become arguments of the type that the schema asks for, or a sentence why not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.doors import arguments
from reconciler.doors.usage import Usage

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "scale": {"type": "number"},
        "draft": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"$ref": "#/$defs/size"}},
        "box": {"type": "object"},
        "either": {"type": ["string", "integer", "null"]},
        "choice": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/size"}]},
        "mode": {"enum": ["fast", "good"]},
        "circle": {"$ref": "#/$defs/circle"},
        "path": {"type": "string", "format": "handler-file"},
        "out": {"type": "string", "format": "handler-output-file"},
        "many": {"type": "array", "items": {"type": "string", "format": "handler-file"}},
    },
    "$defs": {"size": {"type": "integer"}, "circle": {"$ref": "#/$defs/circle"}},
}


def typed(*words: str) -> dict[str, object]:
    return arguments.typed([(w.partition("=")[0], w.partition("=")[2]) for w in words], _SCHEMA, "t_tool")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["text=12"], {"text": "12"}),
        (["text=a=b"], {"text": "a=b"}),
        (["text="], {"text": ""}),
        (["count=12"], {"count": 12}),
        (["count=-3"], {"count": -3}),
        (["scale=0.5"], {"scale": 0.5}),
        (["scale=2"], {"scale": 2}),
        (["draft=true"], {"draft": True}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a","b"]'], {"tags": ["a", "b"]}),
        (["sizes=1", "sizes=2"], {"sizes": [1, 2]}),
        (['box={"x":1}'], {"box": {"x": 1}}),
        (["either=7"], {"either": 7}),
        (["either=null"], {"either": None}),
        (["either=seven"], {"either": "seven"}),
        (["choice=true"], {"choice": True}),
        (["choice=4"], {"choice": 4}),
        (["mode=fast"], {"mode": "fast"}),
        (["circle=x"], {"circle": "x"}),
        (["text=a", "count=1"], {"text": "a", "count": 1}),
    ],
)
def test_values_get_the_type_of_the_schema(words: list[str], expected: dict[str, object]) -> None:
    assert typed(*words) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["count=1.5"], "'count' wants a whole number, not '1.5'"),
        (["count=true"], "'count' wants a whole number"),
        (["scale=big"], "'scale' wants a number, not 'big'"),
        (["draft=yes"], "'draft' wants true or false, not 'yes'"),
        (["txet=x"], "'txet' is not an input of t_tool: did you mean 'text'?"),
        (["zzz=x"], "it takes text, count"),
        (["count=1", "count=2"], "'count' takes one value, not 2"),
        (["sizes=a"], "'sizes' wants a whole number"),
        (["count=" + "9" * 200 + "x"], "not '" + "9" * 80 + "'"),
    ],
)
def test_what_the_words_cannot_mean_is_said(words: list[str], said: str) -> None:
    with pytest.raises(Usage) as fault:
        typed(*words)
    assert said in str(fault.value)


def test_files_are_named_from_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    monkeypatch.chdir(link)
    monkeypatch.setenv("PWD", str(link))
    monkeypatch.setenv("HOME", "/home/me")
    assert typed("path=a.pdf") == {"path": f"{link}/a.pdf"}
    assert typed("out=./b/../c.wav") == {"out": f"{link}/c.wav"}
    assert typed("many=a", "many=/abs/b") == {"many": [f"{link}/a", "/abs/b"]}
    assert typed("path=~/x.pdf") == {"path": "/home/me/x.pdf"}
    monkeypatch.setenv("PWD", "/somewhere/else")
    assert typed("path=a.pdf") == {"path": f"{real}/a.pdf"}


@given(st.text(), st.sampled_from(sorted(_SCHEMA["properties"])))
def test_any_text_is_a_value_or_a_sentence(text: str, key: str) -> None:
    try:
        value = arguments.typed([(key, text)], _SCHEMA, "t")
    except Usage as fault:
        assert key in str(fault)
    else:
        assert set(value) == {key}
