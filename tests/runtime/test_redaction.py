"""No form of a secret passes, whatever stands around it and however the text is cut."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.recipes import SecretUse
from reconciler.model.secrets import Filled, Resolved
from reconciler.runtime.redaction import Redactor, Sieve

VALUE = 'sk-CANARY/4bd9+1f06 "<&>ü(!)\\x'


def filled(value: str) -> Filled:
    use = SecretUse("key", "file", ("x",), env="KEY", via="env")
    return Filled(use, Resolved(value.encode(), key=b"k" * 32))


REDACTOR = Redactor([filled(VALUE)])
FORMS = {
    "plain": VALUE,
    "json": json.dumps({"a": VALUE}),
    "json without escapes": json.dumps([VALUE], ensure_ascii=False),
    "json in json": json.dumps(json.dumps([VALUE])),
    "json of Go": json.dumps(VALUE, ensure_ascii=False).translate(
        {60: "\\u003c", 62: "\\u003e", 38: "\\u0026"}
    ),
    "json of .NET": json.dumps(VALUE).translate({60: "\\u003C", 62: "\\u003E", 38: "\\u0026", 43: "\\u002B"}),
    "html": html.escape(VALUE),
    "html of Go": html.escape(VALUE).replace("&quot;", "&#34;"),
    "encodeURIComponent": quote(VALUE, safe="!'()*-_.~"),
    "encodeURI": quote(VALUE, safe=";,/?:@&=+$#!'()*-_.~"),
    "python": repr({"a": VALUE}),
    **{
        f"console of JavaScript, {mark}": VALUE.replace("\\", "\\\\").replace(mark, f"\\{mark}")
        for mark in ('"', "'", "`")
    },
    "url": f"https://x/?k={quote(VALUE)}",
    "url, all": quote(VALUE, safe=""),
    "url, small": quote(VALUE, safe="").lower().replace("canary", "CANARY"),
    "form": quote_plus(VALUE),
    "hex": VALUE.encode().hex(),
    "HEX": VALUE.encode().hex().upper(),
    **{
        f"base64 {alphabet.__name__} {before}-{after}": alphabet(
            b"u" * before + VALUE.encode() + b"v" * after
        ).decode()
        for alphabet in (base64.b64encode, base64.urlsafe_b64encode)
        for before in range(4)
        for after in range(4)
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found_and_left_out(form: str) -> None:
    text = FORMS[form].encode()
    assert REDACTOR.finds(b"before " + text + b" after")
    shown, count = REDACTOR.without(b"before " + text + b" after")
    assert count == 1
    assert b"[secret]" in shown
    assert shown.startswith(b"before ")
    assert shown.endswith(b" after")
    assert not REDACTOR.finds(shown)


LONG = "sk-CANARY-" + "9f3c71e04b7d" * 9
ONES = Redactor([filled(LONG)])
DIGITS = {
    "base64": base64.b64encode,
    "url": base64.urlsafe_b64encode,
    "hex": lambda text: text.hex().encode(),
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "\n\t"])
@pytest.mark.parametrize("columns", [2, 60, 64, 76])
@pytest.mark.parametrize("digits", DIGITS)
def test_digits_are_found_in_lines(digits: str, columns: int, end: str) -> None:
    for before in (0, 1, 50):
        text = DIGITS[digits](b"u" * before + LONG.encode() + b"v" * 40)
        lines = [text[at : at + columns].decode() for at in range(0, len(text), columns)]
        wrapped = f"before: {end.join(lines)} after".encode()
        assert ONES.finds(wrapped)
        shown, count = ONES.without(wrapped)
        assert count == 1
        assert (shown[:8], shown[-6:]) == (b"before: ", b" after")
        assert not ONES.finds(shown)
        told: list[None] = []
        sieve = Sieve(ONES, lambda told=told: told.append(None))  # type: ignore[misc]
        pieces = wrapped.splitlines(keepends=True) if columns > 2 else [wrapped]
        passed = b"".join(map(sieve.through, pieces)) + sieve.rest()
        assert told
        assert not ONES.finds(passed)


def test_plain_lines_are_shown_at_once() -> None:
    sieve = Sieve(ONES, lambda: None)
    for line in (b"c\n", b"sk\n", b"736b\n", b"a b c\n"):
        assert sieve.through(line) == line


@given(st.lists(st.sampled_from([*FORMS.values(), " ", "sk-", "some words", "\n"]), max_size=8), st.data())
def test_it_is_found_however_the_text_is_cut(parts: list[str], data: st.DataObject) -> None:
    text = "|".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    told: list[None] = []
    sieve = Sieve(REDACTOR, lambda: told.append(None))
    shown = b"".join(map(sieve.through, pieces)) + sieve.rest()
    assert shown == REDACTOR.without(text)[0]
    assert bool(told) == REDACTOR.finds(text)


def test_what_cannot_be_the_beginning_of_a_secret_is_shown_at_once() -> None:
    sieve = Sieve(REDACTOR, lambda: None)
    assert sieve.through(b"plain words\n") == b"plain words\n"
    assert sieve.through(b"then sk-CAN") == b"then "
    assert sieve.through(b"DLE\n") == b"sk-CANDLE\n"
    assert sieve.through(VALUE.encode()[:12]) == b""
    assert sieve.rest() == b"[secret]"  # the end came in the middle of what may be one


def test_each_long_line_of_a_key_is_found_alone() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END KEY-----"
    redactor = Redactor([filled(key)])
    assert redactor.without(b"a MIIEvQIBADANBgkqhkiG9w0 b")[0] == b"a [secret] b"
    assert redactor.without(key.encode())[0] == b"[secret]"
    assert not redactor.finds(b"short")


def test_a_redactor_shows_nothing_of_what_it_holds() -> None:
    assert VALUE not in repr(REDACTOR)
    assert not Redactor([]).finds(b"anything")
    assert Redactor([]).without(b"anything") == (b"anything", 0)
    assert Redactor([]).held(b"anything") == 0
