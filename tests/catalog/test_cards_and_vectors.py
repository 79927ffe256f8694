"""What image-card draws, and what embed-e5 decides without its model."""

import io
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.catalog.calling import Call, failure
from tests.catalog.loading import modules

(CARD,) = modules("image-card", "main")
(E5,) = modules("embed-e5", "main")


def drawn(prompt: str, **more: str) -> tuple[dict[str, int], bytes]:
    written: list[bytes] = []
    output = SimpleNamespace(write=written.append)
    answer: dict[str, int] = CARD.create({"prompt": prompt, "output": output, **more}, Call())
    return answer, written[0]


@pytest.mark.parametrize(
    ("shape", "size"), [("square", (512, 512)), ("landscape", (512, 288)), ("portrait", (288, 512))]
)
def test_a_card_has_the_shape_that_was_asked_for(
    shape: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARD_SIZE", "512")
    answer, data = drawn("A lighthouse at dusk", shape=shape)
    assert Image.open(io.BytesIO(data)).size == size == (answer["width"], answer["height"])


def test_the_same_words_give_the_same_bytes_and_other_words_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARD_SIZE", "512")
    assert drawn("A lighthouse")[1] == drawn("  A\u200b lighthouse\n")[1]
    assert drawn("A lighthouse")[1] != drawn("A harbour")[1]


@pytest.mark.parametrize("prompt", ["x" * 4000, "word " * 800, "W" * 60 + " " + "i" * 400, "東京 " * 50])
def test_whatever_is_asked_for_is_drawn_inside_the_margin(
    prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARD_SIZE", "512")
    picture = Image.open(io.BytesIO(drawn(prompt)[1])).convert("L")
    brightest = max(picture.crop((0, 0, 512, 20)).tobytes() + picture.crop((0, 0, 20, 512)).tobytes())
    assert brightest < 200  # the colours of a card are dark, its letters are not
    assert max(picture.tobytes()) > 200


@given(st.text("\u200b\u2060\u00ad \t\n\x07\u2028", min_size=1))
def test_signs_without_ink_alone_are_declined(prompt: str) -> None:
    assert CARD.seen(prompt) == []


def test_a_prompt_without_ink_writes_nothing() -> None:
    assert failure(lambda: drawn("\u200b"))[0] == "unsupported_prompt"


class Model:
    """Vectors that count letters: near where the letters are the same."""

    dim = 26

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: list[str], *, is_query: bool) -> Any:
        self.asked += texts
        rows = [[1e-9 + text.count(chr(97 + n)) for n in range(26)] for text in texts]
        return SimpleNamespace(tolist=lambda: [[one / math.hypot(*row) for one in row] for row in rows])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    made = Model()
    monkeypatch.setattr(E5, "_model", lambda: made)
    return made


def test_texts_are_ranked_by_nearness_and_equal_ones_stay_in_order(model: Model) -> None:
    told = E5.compare({"query": "abc", "texts": ["xyz", "cab", "abx", "bca"]}, Call())["ranking"]
    assert [one["index"] for one in told] == [1, 3, 2, 0]
    assert told[0]["score"] == pytest.approx(1, abs=1e-4)


def test_no_text_reaches_the_library_with_a_nul_in_it(model: Model) -> None:
    E5.texts({"texts": ["before\0after"], "kind": "query"}, Call())
    assert model.asked == ["before after"]


def test_every_line_that_is_not_empty_has_a_vector_and_its_number(model: Model, tmp_path: Path) -> None:
    given_in = SimpleNamespace(read=lambda: b"\xef\xbb\xbfone\r\n\n  \ntwo\n" + b"three\n" * 20)
    output = SimpleNamespace(open=lambda: (tmp_path / "out").open("wb"))
    told = E5.lines({"path": given_in, "output": output, "kind": "document"}, Call())
    assert told == {"lines": 22, "dimensions": 26}
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [one["line"] for one in rows] == [1, 4, *range(5, 25)]
    assert model.asked[:2] == ["one", "two"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x89PNG\r\n\xff", "unsupported_format"),
        (b"a\0b", "unsupported_format"),
        (b"x" * 2001, "unsupported_format"),
        (b"x\n" * 3001, "too_large"),
    ],
)
def test_what_is_no_list_of_short_texts_is_refused_before_the_model_is_asked(data: bytes, code: str) -> None:
    assert failure(lambda: E5._lines(data))[0] == code


def test_a_cancelled_call_asks_for_nothing_more(model: Model) -> None:
    call = Call()
    call.cancelled.set()
    assert failure(lambda: E5.texts({"texts": ["a"], "kind": "query"}, call))[0] == "unavailable"
    assert model.asked == []
