"""What drivers seal is what the vendors' own packages mean by their types: every body parses as the
parameters of its method, every part of it, and no key besides. They serve for their types alone, and their
clients for the fake vendor. They take seconds to import, so this is `make flows-vendors`; `test_bodies` keeps
the bodies as they were when they were held to these types.
"""

import functools
import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from reconciler.drivers import roll
from reconciler.drivers.asking import Call
from reconciler.model.outcome import Media
from reconciler.model.sealed import Sealed
from reconciler.model.turns import Turn
from tests.drivers.test_bodies import HEARD, TURNS
from tests.drivers.test_call_drivers import CHANGE, DRAW, EMBED, HEAR, SPEAK
from tests.drivers.test_model_drivers import SCHEMA
from tests.kit import dialects
from tests.kit.vendors import PNG, send, vendor


def _whole(value: Any) -> Any:
    """The value with every lazy sequence of pydantic's run through, which is when its items are checked."""
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, str | bytes):
        return value
    return [_whole(item) for item in value] if hasattr(value, "__iter__") else value


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TypeAdapter(kind)


def _fits(value: Mapping[str, Any], kind: Any) -> None:
    """The method's parameters take it, whole, and have each of its keys."""
    _whole(_adapter(kind).validate_python(value))
    _has_keys(value, kind)


def _has_keys(value: Mapping[str, Any], kind: Any) -> None:
    assert not value.keys() - kind.__required_keys__ - kind.__optional_keys__
    assert not kind.__required_keys__ - value.keys()


def _sealed_turn(name: str, turn: Turn) -> dict[str, Any]:
    profile = dialects.named(name)
    driver = roll.MODELS[profile.identity.driver]
    body: dict[str, Any] = json.loads(driver.seal(driver.call_of(turn, "c", profile, None), profile).body)
    assert body.pop("stream", False) is turn.stream
    return body


@pytest.mark.parametrize("turn", [*TURNS.values(), HEARD], ids=[*TURNS, "heard"])
def test_a_chat_completion_is_openais_own(turn: Turn) -> None:
    from openai.types.chat import completion_create_params as params

    _fits(_sealed_turn("chat", turn), params.CompletionCreateParamsNonStreaming)


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_a_message_is_anthropics_own(turn: Turn) -> None:
    from anthropic.types import message_create_params as params

    _fits(_sealed_turn("messages", turn), params.MessageCreateParamsNonStreaming)


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_a_response_is_openais_own(turn: Turn) -> None:
    from openai.types.responses import response_create_params as params

    _fits(_sealed_turn("responses", turn), params.ResponseCreateParamsNonStreaming)


def _sent(name: str, call: Call) -> Sealed:
    profile = dialects.named(name)
    return roll.CALLS[profile.identity.driver].seal(call, profile)


def test_json_calls_are_openais_own() -> None:
    from openai.types import embedding_create_params, image_generate_params
    from openai.types.audio import speech_create_params

    whole, streamed = (
        image_generate_params.ImageGenerateParamsNonStreaming,
        image_generate_params.ImageGenerateParamsStreaming,
    )
    _fits(json.loads(_sent("images", DRAW).body), whole)
    _fits(json.loads(_sent("images", replace(DRAW, stream=True)).body), streamed)
    _fits(json.loads(_sent("embeddings", EMBED).body), embedding_create_params.EmbeddingCreateParams)
    _fits(json.loads(_sent("audio", SPEAK).body), speech_create_params.SpeechCreateParams)


def test_calls_of_parts_are_openais_own() -> None:
    from openai.types import image_edit_params
    from openai.types.audio import transcription_create_params

    masked = replace(CHANGE, files={**CHANGE.files, "mask": (Media("image/png", PNG),)})
    with vendor() as fake:
        for name, call, kind in (
            ("images", masked, image_edit_params.ImageEditParamsNonStreaming),
            ("audio", HEAR, transcription_create_params.TranscriptionCreateParamsNonStreaming),
        ):
            profile = dialects.named(name, fake.base)
            send(roll.CALLS[profile.identity.driver].seal(call, profile))
            received = fake.received[-1]
            sent = dict(received.fields) | {key: files[0][1] for key, files in received.files.items()}
            _has_keys({key.removesuffix("[]"): value for key, value in sent.items()}, kind)


def test_a_film_is_openais_own() -> None:
    from openai.types import video_create_params

    profile = dialects.named("videos.as-openai")
    call = Call("c", "create", {"prompt": "a ship", "seconds": "4"})
    body = json.loads(roll.JOBS[profile.identity.driver].seal_submit(call, profile).body)
    _has_keys(body, video_create_params.VideoCreateParams)
    assert body["seconds"] in ("4", "8", "12")


def test_the_vendors_own_clients_read_the_fake_vendor_as_we_do() -> None:
    """They send by themselves here, to loopback, so that the fake is known to answer as a vendor does."""
    import anthropic
    import openai

    tools = [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}]
    with vendor() as fake:
        with openai.OpenAI(base_url=fake.base, api_key="none", max_retries=0) as client:
            asked: dict[str, Any] = {"model": "m-1", "messages": [{"role": "user", "content": "Hello"}]}
            chunks = list(client.chat.completions.create(**asked, stream=True))
            assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == _WORDS
            whole = client.chat.completions.create(**asked, tools=tools)
            assert whole.choices[0].message.tool_calls[0].function.arguments == '{"a": 1}'
            events = list(client.responses.create(model="m-1", input="Hello", store=False, stream=True))
            assert events[-1].response.output_text == _WORDS
            vectors = client.embeddings.create(model="m-1", input=["a", "bcd"]).data
            assert [one.embedding[0] for one in sorted(vectors, key=lambda one: one.index)] == [1.0, 3.0]
        address = fake.base.removesuffix("/v1")
        with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
            asked = {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
            with client.messages.stream(**asked) as stream:
                assert stream.get_final_message().content[1].text == _WORDS
            assert client.messages.create(**asked).stop_reason == "end_turn"


_WORDS = "Hello, wörld."


def test_a_key_that_the_vendor_does_not_have_is_noticed() -> None:
    from openai.types import embedding_create_params as params

    with pytest.raises(AssertionError):
        _fits({"model": "m", "input": ["a"], "surprise": 1}, params.EmbeddingCreateParams)
    with pytest.raises(ValueError, match="model"):
        _fits({"input": ["a"]}, params.EmbeddingCreateParams)
    with pytest.raises(ValueError, match="input"):
        _fits({"model": "m", "input": [{}]}, params.EmbeddingCreateParams)
