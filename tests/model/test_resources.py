"""Records are closed, strict and frozen, and never repeat what they were given."""

import pytest
from pydantic import ValidationError

from reconciler.model.names import Kind
from reconciler.model.resources import KINDS, Agent, Binding, Config, Connector, Interface

BINDING = {"apiVersion": "handler.binding/v1", "connector": "ocr-a"}


def test_every_kind_has_one_row_and_its_own_format() -> None:
    assert sorted(row.kind.value for row in KINDS) == sorted(kind.value for kind in Kind)
    words = {kind.value: kind.value for kind in Kind} | {
        "policy": "egress-policy",
        "approval": "approval-policy",
        "profile": "dialect-profile",
    }
    assert {row.kind.value: row.api_version for row in KINDS} == {
        kind: f"handler.{word}/v1" for kind, word in words.items()
    }


def test_keys_are_camel_case_in_files_and_nowhere_else() -> None:
    binding = Binding.model_validate({**BINDING, "instance": {"idleStopSeconds": 5, "maxConcurrentCalls": 2}})
    assert binding.instance.idle_stop_seconds == 5
    with pytest.raises(ValidationError):
        Binding.model_validate({**BINDING, "instance": {"idle_stop_seconds": 5}})


@pytest.mark.parametrize(
    "change",
    [
        {"conector": "a"},
        {"suspend": "yes"},
        {"suspend": 1},
        {"models": "m"},
        {"models": [1]},
        {"instance": {"idleStopSeconds": "120"}},
        {"instance": {"pids": 1.0}},
        {"instance": {"pids": True}},
        {"instance": {"idleStopSeconds": float("inf")}},
        {"settings": {"x": float("nan")}},
        {"settings": {"x": None}},
        {"settings": {"x": [1]}},
        {"settings": {"X": 1}},
        {"secrets": {"k": "sk-CANARY"}},
        {"secrets": {"k.env": {"env": "K"}}},
        {"connector": "OCR"},
        {"connector": "ocr\n"},
        {"connectorDigest": "sha256:x"},
    ],
)
def test_nothing_is_converted_and_nothing_unknown_is_let_in(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        Binding.model_validate({**BINDING, **change})
    assert "CANARY" not in str(caught.value)


def test_a_record_does_not_change() -> None:
    binding = Binding.model_validate(BINDING)
    with pytest.raises(AttributeError):
        binding.connector = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del binding.connector
    assert Binding.model_validate(BINDING).settings is not binding.settings


def test_settings_keep_their_types() -> None:
    settings = Binding.model_validate(
        {**BINDING, "settings": {"a": 1, "b": 1.5, "c": True, "d": "1"}}
    ).settings
    assert [type(value) for value in settings.values()] == [int, float, bool, str]


def test_a_service_is_a_name_a_list_or_a_table() -> None:
    agent = Agent.model_validate(
        {
            "apiVersion": "handler.agent/v1",
            "services": {"ocr": "a", "llm": ["a", "b"], "tts": {"binding": "c", "maxCalls": 3}},
            "scope": ["~/x", {"path": "/y", "access": "write"}],
        }
    )
    assert agent.services["llm"] == ("a", "b")
    assert not isinstance(agent.services["tts"], str | tuple)
    assert agent.services["tts"].max_calls == 3


def test_the_seed_s_files_are_right() -> None:
    Interface.model_validate(
        {
            "apiVersion": "handler.interface/v1",
            "name": "ocr",
            "version": 1,
            "description": "Extract text from scanned documents and images",
            "limits": {"maxFileBytes": 20_000_000, "timeoutSeconds": 120},
            "errors": {"unsupported_format": "the file is not a PDF or an image"},
        }
    )
    Connector.model_validate(
        {
            "apiVersion": "handler.connector/v1",
            "name": "ocr-mistral",
            "description": "Mistral OCR API",
            "implements": ["ocr/v1"],
            "egress": ["api.mistral.ai:443"],
            "secretSlots": {"api_key": {"env": "MISTRAL_API_KEY", "required": True}},
            "settings": {
                "model": {"env": "MISTRAL_OCR_MODEL", "description": "defaults to mistral-ocr-latest"}
            },
        }
    )
    assert Config.model_validate({}).prune.max_fraction == 0.5
