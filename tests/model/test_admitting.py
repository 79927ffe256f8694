"""A call is within its profile or the fact that it asks for is named; needs are met or told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.admitting import admit, selected, unmet
from reconciler.model.dialect import Profile
from tests.kit.effort import times

KEYS = ["type", "schema"]
VIDEO = Profile.model_validate(
    {
        "apiVersion": "handler.dialect-profile/v1",
        "profile": {
            "id": "acme-video",
            "revision": 2,
            "dialect": "openai.videos-job@1",
            "provider": "acme",
            "models": ["film-1", "film-2"],
            "driver": "openai-videos@1",
            "kind": "job",
        },
        "transport": {"base": "https://api.acme.example/v1"},
        "media": {"out": [{"type": "video/mp4", "via": "raw"}]},
        "retention": {"training": "no"},
        "operation": [
            {
                "name": "create",
                "method": "POST",
                "path": "/videos",
                "effect": "paid",
                "result": "openai.video@1",
                "required": ["prompt"],
                "rejected": ["user"],
                "field": {
                    "model": {"type": "string"},
                    "prompt": {"type": "string", "maxChars": 10},
                    "seconds": {"type": "integer", "min": 1, "max": 8, "enum": [4, 8]},
                    "size": {"type": "string", "pattern": "[0-9]+x[0-9]+"},
                    "seed": {"type": "integer", "models": ["film-2"]},
                    "format": {
                        "type": "object",
                        "types": ["text", "json_schema"],
                        "keys": ["type", "schema"],
                    },
                    "messages": {"type": "array", "roles": ["user"], "maxItems": 2},
                    "clip": {"type": "file", "maxBytes": 4},
                    "stop": {"type": "array", "also": ["string"]},
                    "sound": {"type": "boolean"},
                    "volume": {"type": "number"},
                },
                "rule": [
                    {"if": {"present": ["volume"]}, "then": {"require": ["sound"], "reject": ["stop"]}},
                    {
                        "if": {"equals": {"sound": True}, "absent": ["seed"], "models": ["film-1"]},
                        "then": {"enum": {"seconds": [8]}},
                    },
                ],
                "cancel": {"mode": "request", "path": "/videos/{job}/cancel"},
                "lookup": {"by": ["job-id"], "path": "/videos/{job}", "status": {"done": "succeeded"}},
                "fetch": {"path": "/videos/{job}/content", "parts": {"video": ""}},
            }
        ],
    }
)
GOOD = {"model": "film-1", "prompt": "a lake"}

CALLS: list[tuple[dict[str, object], str, bool]] = [
    ({"model": "film-3"}, "models", False),
    ({"model": "film"}, "models", False),
    ({"steps": 4}, "field.steps", False),
    ({"user": "ada"}, "field.user", False),
    ({"seed": 4}, "field.seed", False),
    ({"prompt": 4}, "field.prompt", True),
    ({"prompt": "a lake at dawn"}, "field.prompt", True),
    ({"seconds": 5}, "field.seconds", True),
    ({"seconds": True}, "field.seconds", True),
    ({"size": "large"}, "field.size", True),
    ({"format": {"type": "json_object"}}, "field.format", True),
    ({"format": {"type": "text", "strict": True}}, "field.format", True),
    ({"messages": [{"role": "system"}]}, "field.messages", True),
    ({"messages": [{"role": "user"}] * 3}, "field.messages", True),
    ({"clip": b"12345"}, "field.clip", True),
    ({"clip": "12"}, "field.clip", True),
    ({"volume": 1.5}, "field.sound", True),
    ({"volume": 1, "sound": False, "stop": []}, "field.stop", True),
    ({"volume": float("nan"), "sound": False}, "field.volume", True),
    ({"sound": True, "seconds": 4}, "field.seconds", True),
]


@pytest.mark.parametrize(("more", "fact", "invalid"), CALLS, ids=str)
def test_what_is_not_stated_is_refused_and_the_fact_is_named(
    more: dict[str, object], fact: str, invalid: bool
) -> None:
    found = admit(VIDEO, "create", {**GOOD, **more})
    assert [(one.fact, one.invalid) for one in found] == [(fact, invalid)]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"seconds": 8},
        {"seconds": 4},
        {"model": "film-2", "seed": 1},
        {"clip": b"1234"},
        {"stop": "x"},
        {"format": {"type": "json_schema", "schema": {}}},
        {"sound": True, "seconds": 8},
    ],
    ids=str,
)
def test_what_is_stated_passes(more: dict[str, object]) -> None:
    assert admit(VIDEO, "create", {**GOOD, **more}) == ()


def test_what_must_be_given_is_asked_for_and_an_operation_that_is_not_offered_is_none() -> None:
    assert [one.fact for one in admit(VIDEO, "create", {"model": "film-1"})] == ["field.prompt"]
    assert [one.fact for one in admit(VIDEO, "remix", GOOD)] == ["operation.remix"]


@pytest.mark.parametrize(
    "need",
    [
        "lookup.by=job-id", "cancel.mode>=request", "cancel.mode=request", "cancel.mode>=none",
        "media.out:video/mp4", "field.seconds", "field.format.types=json_schema", "field.messages.roles=user",
        "field.seconds.enum=4", "fetch.parts=video", "fetch", "retention.training=no", "lookup.path",
        "echo.model>=unreliable", "lookup.absenceIsProof=false", "effect=paid",
    ],
)  # fmt: skip
def test_needs_that_are_stated_are_met(need: str) -> None:
    assert list(unmet(VIDEO, "create", [need])) == []


@pytest.mark.parametrize(
    ("need", "detail"),
    [
        ("lookup.by=tag", "the profile states [job-id]"),
        ("cancel.mode>=proved", "the profile states [request]"),
        ("cancel.mode=sure", "its values are"),
        ("media.out:image/png", "the profile states [video/mp4]"),
        ("media.in:image/png", "the profile states []"),
        ("field.user", "it is not among the"),
        ("field.format.types=json_object", "the profile states [text, json_schema]"),
        ("field.seconds=4", "write field.seconds.enum=4"),
        ("stream.meaning=token-deltas", "the profile states [none]"),
        ("idempotency.mode>=client-key", "the profile states [none]"),
        ("retention.region=eu", "the profile states []"),
        ("lookup.absenceIsProof", "the profile states []"),
        ("colour", "it is no fact of a profile"),
        ("lookup.colour=red", "it is no fact of a profile"),
        ("cancel mode", "it cannot be read as a fact"),
    ],
)
def test_needs_that_are_not_stated_are_told_with_what_is(need: str, detail: str) -> None:
    (found,) = unmet(VIDEO, "create", [need])
    assert found.fact == need
    assert detail in found.detail


def test_an_exact_model_selects_one_profile_and_no_family_does() -> None:
    anyone = VIDEO.model_copy(
        update={"identity": VIDEO.identity.model_copy(update={"id": "open", "models": ()})}
    )
    assert selected([anyone, VIDEO], "create", "film-2") is VIDEO
    assert selected([anyone, VIDEO], "create", "film-9") is anyone
    assert selected([VIDEO], "create", "film-9") is None
    assert selected([VIDEO], "create", "film") is None
    assert selected([VIDEO], "remix", "film-1") is None


@pytest.mark.slow
@settings(max_examples=times(150))
@given(
    st.text(max_size=12),
    st.dictionaries(
        st.sampled_from(["model", "prompt", "seconds", "format", "messages", "clip", "stop", "x"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(max_size=4)
            | st.binary(max_size=6),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
            ),
            max_leaves=6,
        ),
        max_size=4,
    ),
)
def test_nothing_raises_and_what_passes_has_stated_fields_alone(need: str, fields: dict[str, object]) -> None:
    list(unmet(VIDEO, "create", [need]))
    if not admit(VIDEO, "create", fields):
        operation = VIDEO.operation("create")
        assert operation is not None
        assert fields.keys() <= operation.fields.keys()
