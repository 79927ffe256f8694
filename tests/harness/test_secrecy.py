"""What counts as a secret: in doubt a value does, an argument does by its looks, and defaults never pass."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.harness import secrecy
from reconciler.harness.secrecy import Reference

_PUBLIC = [
    "", "debug", "INFO", "true", "3000", "us-east-1", "/srv/data", "~/notes", "./here", "http://localhost:3000/api",
    "https://api.example.com/v1", "en-US", "production", "0.0.0.0", "a, b",
]  # fmt: skip
_NOT_PUBLIC = [
    "hunter2", "p4ssw0rd", "me@example.com", "postgres://u:p@h/db", "https://x/y?k=v", "4111111111111111",
    "AbCdEfGhIjKlMnOpQrStUvWx", "sk-proj-abcdefgh", "a" * 201, "x\ny", "{}", "Zm9vYmFyCg==",
    "123e4567-e89b-12d3-a456-426614174000",
]  # fmt: skip
_SECRET_LOOKS = [
    "ghp_abcdefghij", "--token=abc", "API_KEY=abc", "sh -c 'export TOKEN=abc; x'", "Bearer abcdef",
    "AKIAABCDEFGH",
    "postgresql://u:p@h/db", "https://u@h/x", "https://x/mcp?api_key=abc", "eyJhbGciOiJI.x.y",
    "x --password hunter2",
    "0123456789abcdef0123456789abcdef", "-----BEGIN PRIVATE KEY-----", "X-Api-Key: abc",
]  # fmt: skip
_PLAIN_LOOKS = [
    "-y", "@modelcontextprotocol/server-github", "@upstash/context7-mcp@latest", "mcp-server-sqlite",
    "--db-path",
    "/home/me/data.db", "--port=3000", "https://mcp.example.com/sse", "git+ssh://git@github.com/a/b", "stdio",
    "ghcr.io/github/github-mcp-server:v1.12.1", "x@sha256:" + "0a" * 32, "--read-only", "src/index.ts",
    "-e", "GITHUB_TOKEN",
]  # fmt: skip
_SECRET_NAMES = [
    "GITHUB_TOKEN", "apiKey", "X-Api-Key", "DB_PASSWORD", "PGPASSWORD", "Authorization", "sentry-dsn",
    "SECRET", "otp",
    "AWS_ACCESS_KEY_ID", "private_key", "sessionId", "DATABASE_URL",
]  # fmt: skip
_PLAIN_NAMES = ["LOG_LEVEL", "PORT", "REGION", "DEBUG", "path", "SPINNER", "HOSTNAME"]


@pytest.mark.parametrize("text", _PUBLIC)
def test_words_numbers_folders_and_addresses_are_public(text: str) -> None:
    assert secrecy.public(text)


@pytest.mark.parametrize("text", _NOT_PUBLIC)
def test_in_doubt_a_value_is_a_secret(text: str) -> None:
    assert not secrecy.public(text)


@pytest.mark.parametrize("text", _SECRET_LOOKS)
def test_what_has_the_shape_of_a_secret_looks_like_one(text: str) -> None:
    assert secrecy.looks_secret(text)


@pytest.mark.parametrize("text", _PLAIN_LOOKS)
def test_packages_folders_and_options_do_not(text: str) -> None:
    assert not secrecy.looks_secret(text)


def test_names_tell_secrets() -> None:
    assert [name for name in _SECRET_NAMES if not secrecy.names_a_secret(name)] == []
    assert [name for name in _PLAIN_NAMES if secrecy.names_a_secret(name)] == []


_REFERENCES = [
    ("${VAR}", Reference("env", "VAR")),
    ("${env:VAR}", Reference("env", "VAR")),
    ("{env:VAR}", Reference("env", "VAR")),
    ("{file:~/k}", Reference("file", "~/k")),
    ("${input:my-key}", Reference("input", "my-key")),
    ("${var:KEY}", Reference("var", "KEY")),
    ("${vault:KEY}", Reference("vault", "KEY")),
    ("${VAR:-x}", Reference("env", "VAR", default=True)),
    ("${VAR:+x}", Reference("env", "VAR", default=True)),
    ("Bearer ${VAR}", Reference("env", "VAR", scheme="Bearer")),
    ("x${VAR}", Reference("env", "VAR", whole=False)),
    ("${A}${B}", Reference("env", "A", whole=False)),
    ("plain", None),
    ("$VAR", None),
]


@pytest.mark.parametrize(("text", "found"), _REFERENCES)
def test_references_are_known_by_their_forms(text: str, found: Reference | None) -> None:
    assert secrecy.reference(text) == found


def test_one_harness_knows_a_bare_dollar() -> None:
    assert secrecy.reference("$VAR", bare=True) == Reference("env", "VAR")


@settings(deadline=None)
@given(st.text(alphabet="abc-_=/ 1", min_size=1, max_size=20), st.sampled_from(["", "env:", "var:"]))
def test_a_default_is_left_out_of_every_reference(default: str, store: str) -> None:
    text = f"--x=${{{store}VAR:-CANARY{default}}}"
    assert secrecy.without_defaults(text) == f"--x=${{{store}VAR}}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["a" * 4096, "a=" * 2048, "${" * 2048, "://" * 1365, " =" * 2048, "-a " * 1365]
)
def test_hostile_texts_are_passed_once(text: str) -> None:
    """Quadratic patterns would take minutes for these; the test's own time-out is the bound."""
    for _ in range(200):
        secrecy.looks_secret(text)
        secrecy.reference(text, bare=True)
        secrecy.without_defaults(text)
