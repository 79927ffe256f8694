"""A profile that notes what is read of it, for the law that drivers read facts and nothing else."""

import pytest

from reconciler.model.dialect import Profile
from tests.kit.recorded import Undeclared, recorded

_PROFILE = {
    "apiVersion": "handler.dialect-profile/v1",
    "profile": {
        "id": "acme.chat",
        "revision": 1,
        "dialect": "openai.chat-completions@1",
        "provider": "acme",
        "driver": "openai-chat@1",
    },
    "transport": {"base": "https://api.acme.example/v1", "headers": {"x-version": "2"}},
    "operation": [
        {
            "name": "complete",
            "method": "POST",
            "path": "/chat/completions",
            "effect": "none",
            "result": "openai.chat.completion@1",
            "field": {"model": {"type": "string"}},
        }
    ],
}


def test_what_is_read_is_noted_by_the_path_of_the_file() -> None:
    profile, read = recorded(Profile.model_validate(_PROFILE))
    operation = profile.operation("complete")
    assert operation is not None
    assert operation.cancel.mode == "none"
    assert operation.fields["model"].type == "string"
    assert profile.transport.headers["x-version"] == "2"
    assert {
        "operation",
        "operation[0].name",
        "operation[0].cancel.mode",
        "operation[0].field.model.type",
        "transport.headers.x-version",
    } <= read
    assert profile.ref == "acme.chat@1"


def test_what_the_format_does_not_have_cannot_be_read() -> None:
    profile, _ = recorded(Profile.model_validate(_PROFILE))
    with pytest.raises(Undeclared):
        profile.extra_body  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(Undeclared):
        profile.operations[0].cancel.timeout  # type: ignore[attr-defined]  # noqa: B018
