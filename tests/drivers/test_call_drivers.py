"""Pictures, sound and vectors: what is asked of a vendor comes back as a typed result, or as what it is."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from reconciler.drivers import roll, stating
from reconciler.drivers.asking import Call, Unsealable
from reconciler.model.admitting import admit
from reconciler.model.outcome import CallOutcome, Done, Media, Rejected, Unknown
from reconciler.model.turns import Event, Preview, TextDelta
from tests.kit import dialects
from tests.kit.vendors import MP3, PNG, WAV, Vendor, send, vendor

DRAW = Call("c", "generate", {"model": "m-1", "prompt": "a ship", "n": 2})
CHANGE = Call("c", "edit", {"model": "m-1", "prompt": "a ship"}, {"image[]": (Media("image/png", PNG),)})
HEAR = Call("c", "transcribe", {"model": "m-1"}, {"file": (Media("audio/wav", WAV),)})
SPEAK = Call("c", "speak", {"model": "m-1", "input": "Hi", "voice": "v"})
EMBED = Call("c", "embed", {"model": "m-1", "input": ["a", "bcd"]})
CALLS = {"images": (DRAW, CHANGE), "audio": (HEAR, SPEAK), "embeddings": (EMBED,)}
EACH = [(name, call) for name, calls in CALLS.items() for call in calls]
IDS = [call.operation for _, call in EACH]


@pytest.fixture(scope="module")
def fake() -> Iterator[Vendor]:
    with vendor() as running:
        yield running


def _asked(name: str, call: Call, fake: Vendor) -> CallOutcome:
    profile = dialects.named(name, fake.base)
    driver = roll.CALLS[profile.identity.driver]
    return driver.read(send(driver.seal(call, profile)), call, profile)


def _streamed(name: str, call: Call, fake: Vendor, size: int) -> tuple[list[Event], CallOutcome]:
    profile = dialects.named(name, fake.base)
    driver = roll.CALLS[profile.identity.driver]
    reply = send(driver.seal(replace(call, stream=True), profile))
    decoder = driver.decoder(reply, call, profile)
    assert decoder is not None
    events: list[Event] = []
    for at in range(0, len(reply.body), size):
        events += decoder.feed(reply.body[at : at + size])
    return events, decoder.close()


def _done(outcome: CallOutcome) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def test_pictures_come_as_bytes_of_a_stated_type_with_their_prompts(fake: Vendor) -> None:
    done = _done(_asked("images", DRAW, fake))
    shown = [{"media": at, "revisedPrompt": "a nicer prompt"} for at in range(2)]
    assert done.result == {"images": shown}
    assert done.media == (Media("image/png", PNG),) * 2
    assert done.usage.output_tokens == 7


def test_a_picture_to_be_changed_goes_as_a_part_with_a_neutral_name(fake: Vendor) -> None:
    assert len(_done(_asked("images", CHANGE, fake)).media) == 1
    assert fake.received[-1].files == {"image[]": [("file.png", PNG)]}
    assert fake.received[-1].fields == {"model": "m-1", "prompt": "a ship"}


def test_previews_come_before_the_picture_and_the_whole_is_the_same(fake: Vendor) -> None:
    call = replace(DRAW, fields={**DRAW.fields, "n": 1})
    whole = _done(_asked("images", call, fake))
    for size in (1, 50, 10_000):
        events, end = _streamed("images", call, fake, size)
        assert [one for one in events if isinstance(one, Preview)] == [Preview(0, "image/png", PNG)]
        assert _done(end).media == whole.media


def test_an_address_is_a_result_where_it_is_stated_and_is_never_followed() -> None:
    with vendor("sends-address") as fake:
        done = _done(_asked("images", replace(DRAW, fields={**DRAW.fields, "n": 1}), fake))
        assert done.result == {"images": [{"url": "https://cdn.example.com/x.webp"}]}
        assert len(fake.received) == 1


def test_bytes_that_are_no_picture_of_the_profile_are_no_result() -> None:
    with vendor("sends-noise") as fake:
        assert isinstance(_asked("images", DRAW, fake), Unknown)


@pytest.mark.parametrize(
    ("form", "result"),
    [
        ("", {"text": "Hi you"}),
        ("text", {"text": "Hi you"}),
        ("vtt", {"text": "Hi you\n"}),
        (
            "verbose_json",
            {
                "text": "Hi you",
                "language": "english",
                "seconds": 1.5,
                "segments": [{"start": 0.0, "end": 1.5, "text": "Hi you"}],
                "words": [{"start": 0.0, "end": 0.5, "text": "Hi"}],
            },
        ),
    ],
)
def test_words_of_a_recording_come_in_every_format(form: str, result: object, fake: Vendor) -> None:
    fields: dict[str, object] = {
        "model": "m-1",
        "temperature": 0,
        "timestamp_granularities[]": ["word", "segment"],
    }
    call = replace(HEAR, fields=fields | ({"response_format": form} if form else {}))
    assert _done(_asked("audio", call, fake)).result == result
    received = fake.received[-1]
    assert received.files == {"file": [("file.wav", WAV)]}
    assert received.fields["timestamp_granularities[]"] == ["word", "segment"]
    assert received.fields["temperature"] == "0"


def test_words_come_in_pieces_and_are_the_same(fake: Vendor) -> None:
    for size in (1, 40, 10_000):
        events, end = _streamed("audio", HEAR, fake, size)
        assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "Hi you"
        assert _done(end).result == {"text": "Hi you"}
        assert _done(end).usage.input_tokens == 3


@pytest.mark.parametrize(
    ("form", "media"), [("", Media("audio/mpeg", MP3)), ("wav", Media("audio/wav", WAV))]
)
def test_a_text_is_spoken_whole_or_in_pieces(form: str, media: Media, fake: Vendor) -> None:
    call = replace(SPEAK, fields={**SPEAK.fields, **({"response_format": form} if form else {})})
    assert _done(_asked("audio", call, fake)).media == (media,)
    assert _done(_asked("audio", call, fake)).result == {"audio": {"media": 0}}
    events, end = _streamed("audio", call, fake, 11)
    assert b"".join(one.data for one in events if isinstance(one, Preview)) == media.data
    assert _done(end).media == (media,)


def test_a_page_is_no_recording() -> None:
    with vendor("page") as fake:
        assert isinstance(_asked("audio", SPEAK, fake), Unknown)


@pytest.mark.parametrize("form", ["float", "base64"])
def test_vectors_stand_in_the_order_of_the_texts(form: str, fake: Vendor) -> None:
    call = replace(EMBED, fields={**EMBED.fields, "encoding_format": form})
    assert _done(_asked("embeddings", call, fake)).result == {
        "vectors": [[1.0, 0.5], [3.0, 0.5]],
        "dimensions": 2,
    }


@pytest.mark.parametrize("manner", ["forgets-one", "substitutes"])
def test_fewer_vectors_or_those_of_another_model_are_no_result(manner: str) -> None:
    with vendor(manner) as fake:
        assert isinstance(_asked("embeddings", EMBED, fake), Unknown | Rejected)


@pytest.mark.parametrize(("name", "call"), EACH, ids=IDS)
@pytest.mark.parametrize("manner", ["garbage", "list", "empty", "redirects", "status-503", "error-in-200"])
def test_what_is_no_answer_of_the_dialect_is_never_taken_for_one(name: str, call: Call, manner: str) -> None:
    with vendor(manner) as fake:
        end = _asked(name, call, fake)
        assert len(fake.received) == 1
    assert isinstance(end, Rejected | Unknown)
    assert isinstance(end, Unknown) or (end.code, end.effect) == ("unavailable", "unknown")
    assert "vendor" not in repr(end)


@pytest.mark.parametrize("name", ["images", "audio"])
@pytest.mark.parametrize("manner", ["cut", "unknown-event", "error-midway"])
def test_a_stream_that_breaks_off_or_says_what_nobody_knows_is_no_result(name: str, manner: str) -> None:
    for call in CALLS[name]:
        if call is CHANGE:
            continue
        with vendor(manner) as fake:
            assert isinstance(_streamed(name, call, fake, 13)[1], Unknown | Rejected)


def test_a_refusal_is_read_by_the_profiles_map_first_match() -> None:
    with vendor("status-400-moderation_blocked") as fake:
        refused = _asked("images", DRAW, fake)
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.effect, refused.retry) == ("refused", "none", "never")
    assert refused.detail == "status 400, moderation_blocked"
    with vendor("status-429") as fake:
        waits = _asked("images", DRAW, fake)
    assert isinstance(waits, Rejected)
    assert (waits.code, waits.effect, waits.retry) == ("unavailable", "none", "retry-after")
    assert waits.seen.request_id == "req-1"
    assert waits.seen.limits.retry_after_s == 7.0
    assert waits.seen.limits.said["requestsRemaining"] == "0"
    assert waits.seen.limits.reset_s == {"requestsReset": 60.5}


@pytest.mark.parametrize(
    ("name", "call", "fact"),
    [
        ("images", replace(DRAW, fields={**DRAW.fields, "seed": 1}), "field.seed"),
        ("images", replace(DRAW, fields={"model": "m-1"}), "required.prompt"),
        ("images", replace(DRAW, operation="vary"), "operation.vary"),
        (
            "images",
            replace(CHANGE, files={"image[]": (Media("image/png", PNG),) * 3}),
            "field.image[].maxItems",
        ),
        ("images", replace(CHANGE, files={"image[]": (Media("image/gif", PNG),)}), "media.in:image/gif"),
        ("images", replace(DRAW, fields={**DRAW.fields, "n": 2**53}), "field.value"),
        ("images", replace(DRAW, fields={**DRAW.fields, "prompt": "\ud800"}), "field.value"),
        ("audio", replace(HEAR, files={"file": (Media("audio/wav", bytes(1001)),)}), "field.file.maxBytes"),
        ("embeddings", replace(EMBED, stream=True), "stream.meaning"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_report_19_what_a_profile_does_not_state_is_not_sent(name: str, call: Call, fact: str) -> None:
    profile = dialects.named(name)
    with pytest.raises(Unsealable) as refused:
        roll.CALLS[profile.identity.driver].seal(call, profile)
    assert refused.value.fact == fact


@pytest.mark.parametrize(("name", "call"), EACH, ids=IDS)
def test_a_call_is_judged_with_its_files_before_it_is_sealed(name: str, call: Call) -> None:
    profile = dialects.named(name)
    operation = profile.operation(call.operation)
    assert operation is not None
    assert not admit(profile, call.operation, stating.judged(call, operation))
    if call.files:
        assert admit(profile, call.operation, call.fields)
        doubled = replace(call, files={field: files * 3 for field, files in call.files.items()})
        assert admit(profile, call.operation, stating.judged(doubled, operation))


def test_a_file_that_is_too_large_is_an_input_at_fault() -> None:
    profile = dialects.named("audio")
    operation = profile.operation("transcribe")
    assert operation is not None
    large = replace(HEAR, files={"file": (Media("audio/wav", bytes(1001)),)})
    (fault,) = admit(profile, "transcribe", stating.judged(large, operation))
    assert (fault.fact, fault.invalid) == ("field.file", True)
