"""Words become arguments of the type that the schema asks for, or a sentence why not."""

import io
import json
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
        "page": {"$ref": "#/$defs/page"},
        "boxes": {"type": "array", "items": {"$ref": "#/$defs/page"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "headers": {"type": "object", "additionalProperties": {"type": "integer"}},
        "a.b": {"type": "string"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/page"}, {"type": "null"}]},
        "scan": {"anyOf": [{"type": "string", "format": "handler-file"}, {"type": "null"}]},
        "level": {"enum": [1, 2, "high"]},
        "fixed": {"const": 7},
    },
    "$defs": {"size": {"type": "integer"}, "circle": {"$ref": "#/$defs/circle"}},
}
_SCHEMA["$defs"]["page"] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "size": {"type": "integer"},
        "name": {"type": "string"},
        "scan": {"type": "string", "format": "handler-file"},
        "inner": {"$ref": "#/$defs/page"},
    },
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
        (["page.size=1", "page.name=2"], {"page": {"size": 1, "name": "2"}}),
        (["page.inner.inner.size=1"], {"page": {"inner": {"inner": {"size": 1}}}}),
        (["page.scan=/a"], {"page": {"scan": "/a"}}),
        (['page={"size":1}'], {"page": {"size": 1}}),
        (["boxes[1].size=2", "boxes[0].size=1"], {"boxes": [{"size": 1}, {"size": 2}]}),
        (["tags[0]=a", "tags[1]=b"], {"tags": ["a", "b"]}),
        (["grid[0][0]=1", "grid[0][1]=2", "grid[1][0]=3"], {"grid": [[1, 2], [3]]}),
        (["grid[0]=[1,2]"], {"grid": [[1, 2]]}),
        (["headers.x-y=3"], {"headers": {"x-y": 3}}),
        (["a.b=x"], {"a.b": "x"}),
        (["maybe=null"], {"maybe": None}),
        (["maybe.size=1"], {"maybe": {"size": 1}}),
        (["scan=null"], {"scan": None}),
        (["scan=/x"], {"scan": "/x"}),
        (["level=1"], {"level": 1}),
        (["level=high"], {"level": "high"}),
        (["fixed=7"], {"fixed": 7}),
        (["text=@@alice"], {"text": "@alice"}),
        (["text=@"], {"text": "@"}),
        (["path=/@a"], {"path": "/@a"}),
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
        (["page.siez=1"], "'page.siez' is not an input of t_tool: did you mean 'size'?"),
        (["page.size=1", "page={}"], "'page' is given as a whole and in parts"),
        (["page.size=x"], "'page.size' wants a whole number, not 'x'"),
        (["page[0]=x"], "'page' is no list: it wants a JSON object"),
        (["count.x=1"], "'count' has no parts: it wants a whole number"),
        (["boxes[0].size=1", "boxes[2].size=1"], "'boxes' has no element 1"),
        (["boxes[0].size=1", "boxes.size=1"], "'boxes' is given as a list and as an object"),
        (["tags[x]=1"], "'tags[x]' is no key"),
        (["tags[0=1"], "'tags[0' is no key"),
        (["tags[0]x=1"], "'tags[0]x' is no key"),
        (["tags[99999]=1"], "counts too far"),
        (["page..size=1"], "'page..size' is no key"),
        ([".=1"], "'.' is no key"),
        (["page" + ".inner" * 40 + "=1"], "reaches too deep"),
        (["scale=NaN"], "'scale' wants a number"),
        (["scale=1e999"], "'scale' wants a number"),
        (["box=" + "[" * 100_000], "'box' wants a JSON object"),
        (['page={"size": 1, "size": 2}'], "'page' wants a JSON object"),
        (["text=@/no/such/file"], "'text' wants the text of the file '/no/such/file': No such file"),
        (["text=@\0"], "it is no text in UTF-8"),
        (["tags=[en]"], "not '[en]': write tags=en"),
        (["tags=[en, it's]"], """write tags=en 'tags=it'"'"'s'"""),
        (
            ["path=@/no/such"],
            "'path' takes the name of the file itself: write path=/no/such (path=./@/no/such",
        ),
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


def test_a_file_whose_name_begins_with_an_at_sign_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "@a.pdf").touch()
    assert typed("path=@a.pdf") == typed("path=./@a.pdf") == {"path": f"{arguments.here()}/@a.pdf"}
    assert typed("out=@new.wav") == {"out": f"{arguments.here()}/@new.wav"}


def test_an_at_sign_takes_the_text_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.txt").write_text("two\nlines é")
    Path("box.json").write_text('{"x": [1]}')
    Path("tags.json").write_text('["a", "b"]')
    Path("odd").write_bytes(b"\xff")
    assert typed("text=@long.txt") == {"text": "two\nlines é"}
    assert typed("box=@box.json") == {"box": {"x": [1]}}
    assert typed("tags=@tags.json") == {"tags": ["a", "b"]}
    assert typed("tags=@long.txt", "tags=x") == {"tags": ["two\nlines é", "x"]}
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin"))
    assert typed("text=@-") == {"text": "from stdin"}
    for text, why in (("\udcff", "no text in UTF-8"), ("x" * (2**22 + 1), "longer than a call may be")):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        with pytest.raises(Usage, match=why):
            typed("text=@-")
    with pytest.raises(Usage, match="no text in UTF-8"):
        typed("text=@odd")


_KEYS = st.sampled_from(sorted(_SCHEMA["properties"])) | st.text("ab.[]01", max_size=12)


@given(st.lists(st.tuples(_KEYS, st.text()), max_size=4))
def test_any_words_are_arguments_or_a_sentence(words: list[tuple[str, str]]) -> None:
    try:
        value = arguments.typed(words, _SCHEMA, "t")
    except Usage as fault:
        assert str(fault)
    else:
        assert json.loads(json.dumps(value, allow_nan=False)) == value


@given(st.text(), st.sampled_from(sorted(_SCHEMA["properties"])))
def test_any_text_is_a_value_or_a_sentence(text: str, key: str) -> None:
    try:
        value = arguments.typed([(key, text)], _SCHEMA, "t")
    except Usage as fault:
        assert key in str(fault)
    else:
        assert set(value) == {key}
