"""Calls into bytes: exactly these, always the same, and nothing that the profile does not state."""

import dataclasses

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.drivers import roll, sealing
from reconciler.drivers.asking import Call, Unsealable
from reconciler.model.dialect import Profile
from reconciler.model.outcome import Media
from reconciler.model.sealed import AuthSlot, Sealed
from tests.kit import dialects
from tests.kit.effort import times

EMBED = Call("call-1", "embed", {"model": "m-1", "input": ["ü", "b"]})
HEAR = Call(
    "call-1", "transcribe", {"model": "m-1", "temperature": 0.5}, {"file": (Media("audio/wav", b"RIFF"),)}
)


def _sealed(name: str, call: Call, **changes: object) -> Sealed:
    profile = dialects.named(name)
    if changes:
        profile = Profile.model_validate(profile.model_dump(by_alias=True, exclude_none=True) | changes)
    return sealing.call(call, profile)


def test_a_json_call_is_these_bytes() -> None:
    sealed = _sealed("embeddings", EMBED)
    assert sealed.method == "POST"
    assert sealed.origin == "https://api.x.com:443"
    assert sealed.target == "/v1/embeddings"
    assert sealed.headers == (("content-type", "application/json"),)
    assert sealed.body == '{"input":["ü","b"],"model":"m-1"}'.encode()
    assert sealed.auth == AuthSlot("bearer", "api_key", "authorization")
    assert sealed.max_response == 1_000_000
    assert sealed.stream is None
    assert sealed.wire_digest == "sha256:ff8a04567a7d39b77807d1592067dec35ebf8fad2c66a4700e79468a74ecea07"


def test_a_call_of_parts_is_these_bytes() -> None:
    sealed = _sealed("audio", HEAR)
    mark = "hdl1-81c8fa01823dd6dfb3e20ba18d40a725dd351b21"
    assert sealed.headers == (("content-type", f"multipart/form-data; boundary={mark}"),)
    assert (
        sealed.body
        == (
            f'--{mark}\r\ncontent-disposition: form-data; name="model"\r\n\r\nm-1\r\n'
            f'--{mark}\r\ncontent-disposition: form-data; name="temperature"\r\n\r\n0.5\r\n'
            f'--{mark}\r\ncontent-disposition: form-data; name="file"; filename="file.wav"\r\n'
            f"content-type: audio/wav\r\n\r\nRIFF\r\n--{mark}--\r\n"
        ).encode()
    )


def test_the_same_call_is_the_same_bytes_and_another_id_is_another_boundary() -> None:
    assert _sealed("audio", HEAR) == _sealed("audio", HEAR)
    other = _sealed("audio", dataclasses.replace(HEAR, id="call-2"))
    assert other.headers != _sealed("audio", HEAR).headers


def test_a_boundary_is_nothing_that_stands_in_the_parts() -> None:
    mark = _sealed("audio", HEAR).headers[0][1].partition("boundary=")[2]
    nasty = dataclasses.replace(HEAR, files={"file": (Media("audio/wav", f"--{mark}--".encode()),)})
    assert mark not in _sealed("audio", nasty).headers[0][1]


def test_a_files_name_brings_no_quote_no_line_and_no_folder() -> None:
    named = dataclasses.replace(HEAR, files={"file": (Media("audio/wav", b"x", 'a/b"\r\nc: d.wav'),)})
    assert b'filename="b%22%0D%0Ac: d.wav"' in _sealed("audio", named).body


@pytest.mark.parametrize(
    ("base", "origin", "target"),
    [
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", "/v1/embeddings"),
        ("https://H.example.com/a/b/", "https://h.example.com:443", "/a/b/embeddings"),
        ("https://[::1]:9", "https://[::1]:9", "/embeddings"),
    ],
)
def test_a_binding_names_the_base_where_the_profile_leaves_it(base: str, origin: str, target: str) -> None:
    profile = dialects.named("embeddings", "binding")
    sealed = sealing.call(dataclasses.replace(EMBED, base=base), profile)
    assert (sealed.origin, sealed.target) == (origin, target)


@pytest.mark.parametrize("base", [None, "", "ftp://x/y", "https://u@x/y", "https://x/y?z", "https://127.1/"])
def test_what_is_no_base_is_not_sent_to(base: str | None) -> None:
    with pytest.raises(Unsealable, match=r"transport\.base"):
        sealing.call(dataclasses.replace(EMBED, base=base), dialects.named("embeddings", "binding"))


def test_a_key_and_a_tag_go_where_the_profile_says() -> None:
    profile = dialects.named("videos.gateway")
    call = Call("c", "create", {"prompt": "p", "metadata": {"own": "1"}}, key="k" * 45, tag="t-1")
    sealed = roll.JOBS[profile.identity.driver].seal_submit(call, profile)
    assert ("idempotency-key", "k" * 45) in sealed.headers
    assert sealed.body == b'{"metadata":{"own":"1","tag":"t-1"},"prompt":"p"}'
    assert call.fields["metadata"] == {"own": "1"}
    with pytest.raises(Unsealable, match=r"idempotency\.maxChars"):
        sealing.call(dataclasses.replace(call, key="k" * 65), profile)
    plain = sealing.call(call, dialects.named("videos.as-openai"))
    assert plain.headers == (("content-type", "application/json"),)
    assert b"t-1" not in plain.body


def test_a_query_for_the_secret_is_said_and_the_secret_is_not() -> None:
    auth = {"scheme": "query", "parameter": "key", "secret": "api_key"}
    assert _sealed("embeddings", EMBED, auth=auth).auth == AuthSlot("query", "api_key", None, "key")
    assert _sealed("embeddings", EMBED, auth={}).auth is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=times(50), deadline=None)
@given(
    st.sampled_from(dialects.NAMES),
    st.dictionaries(
        st.sampled_from(
            ["model", "prompt", "input", "n", "temperature", "seconds", "voice", "file", "nobody", "metadata"]
        ),
        VALUES,
    ),
)
def test_any_fields_at_all_are_sealed_whole_or_refused_with_a_fact(
    name: str, fields: dict[str, object]
) -> None:
    profile = dialects.named(name)
    for operation in profile.operations:
        try:
            sealed = sealing.call(Call("c", operation.name, fields), profile)
        except Unsealable as refused:
            assert refused.fact
        else:
            assert sealed.is_whole()
            assert all(key in operation.fields for key in fields)


@pytest.mark.slow
@settings(max_examples=times(60), deadline=None)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_the_quick_way_to_json_is_rfc_8785(fields: dict[str, object]) -> None:
    try:
        wanted = rfc8785.dumps(fields)  # type: ignore[arg-type]
    except rfc8785.CanonicalizationError:
        with pytest.raises(Unsealable):
            sealing.as_json(fields)
    else:
        assert sealing.as_json(fields) == wanted


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"b": 1.0, "a": -0.0}, '{"a":0,"b":1}'),
        ({"x": 1e21, "y": 1e-7}, '{"x":1e+21,"y":1e-7}'),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'),
        ({"t": "\x7f\u2028\x1f\n<"}, '{"t":"\x7f\u2028\\u001f\\n<"}'),
    ],
)
def test_numbers_and_texts_have_one_form(fields: dict[str, object], text: str) -> None:
    assert sealing.as_json(fields) == text.encode()
