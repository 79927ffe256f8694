"""Settings whose form is narrow: where observers are listened for, where spans are sent."""

import pytest
from pydantic import ValidationError

from reconciler.model.resources import Config


def _config(text: str) -> Config:
    return Config.model_validate({"apiVersion": "handler.config/v1", "http": {"listen": text}})


@pytest.mark.parametrize(
    "text", ["unix", "127.0.0.1:0", "127.0.0.1:9464", "127.255.0.9:65535", "[::1]:1", "127.0.0.1:10000"]
)
def test_an_address_of_this_machine_is_taken(text: str) -> None:
    assert _config(text).http.listen == text


@pytest.mark.parametrize(
    "text",
    [
        "", "unix:/tmp/x", "9464", "127.0.0.1", "127.0.0.1:", "localhost:1", "0.0.0.0:1", "10.0.0.1:1",
        "127.0.0.1:65536", "127.0.0.1:99999", "127.0.0.1:080", "127.0.0.256:1", "127.0.0.01:1", "127.1:1",
        "[::1]:70000", "[::]:1", "[::ffff:127.0.0.1]:1", "127.0.0.1:1\n", "127.0.0.1:\u0661",
    ],
)  # fmt: skip
def test_what_cannot_be_listened_on_is_refused_where_it_is_written(text: str) -> None:
    with pytest.raises(ValidationError):
        _config(text)


def _collector(text: str) -> Config:
    return Config.model_validate({"apiVersion": "handler.config/v1", "telemetry": {"otlpEndpoint": text}})


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:4318", "https://otel.example", "http://[::1]:1/a/b", "https://x.example/v1:2"]
)
def test_a_collector_is_an_address_over_http(text: str) -> None:
    assert _collector(text).telemetry.otlp_endpoint == text


@pytest.mark.parametrize(
    "text",
    [
        "", "http://", "ftp://x", "http://x:", "http://x:65536", "http://127.0.0.1:99999", "http://u:p@x",
        "http://u@x", "http://[::1", "http://x?y", "http://x/#y", "http://x:a", "http://:80",
    ],
)  # fmt: skip
def test_a_collector_that_cannot_be_reached_is_refused_where_it_is_written(text: str) -> None:
    with pytest.raises(ValidationError):
        _collector(text)
