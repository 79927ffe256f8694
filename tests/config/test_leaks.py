"""A secret in a file's own text refuses it, and is told by its place alone; what only looks odd passes."""

import base64
import hashlib
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.config import leaks, toml
from reconciler.config.load import inventory
from reconciler.model import secretlike
from reconciler.model.inventory import Layer, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem

BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n'
CONNECTOR = 'apiVersion = "handler.connector/v1"\nname = "x"\ndescription = "x"\nimplements = []\n'
# Made up, and written in parts so that no other scanner stumbles over this file.
R24 = "Zq7Lw2Xc9Vb4" + "Nm1Kj6Hg3Fd8"
R36 = R24 + "Ty5Pq0Rs2Uv7"
HEX = hashlib.sha256(b"key").hexdigest()
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTYifQ." + R36
PEM = "-----BEGIN OPENSSH" + " PRIVATE KEY-----"
AWS = "AK" + "IAQ7LWXCZVB4NMKJHG"

SECRETS = [
    # known shapes, wherever they stand
    ("an API key", f'description = "sk-{R36}"'),
    ("an API key", f'description = "my key is sk-ant-api03-{R36}, do not tell"'),
    ("an API key", f'settings.model = "sk-proj-{R36}"'),
    ("a token of GitHub", f'settings.model = "ghp_{R36}"'),
    ("a token of GitHub", f'settings.model = "github_pat_{R36}"'),
    ("a token of GitLab", f'settings.model = "glpat-{R24}"'),
    ("a token of Slack", f'settings.model = "xoxb-{"1" * 11}-{R24}"'),
    ("a key of AWS", f'settings.model = "{AWS}"'),
    ("a key of Google", f'settings.model = "AIza{R36[:35]}"'),
    ("a private key", f"settings.model = '''\n{PEM}\nb3BlbnNzaC1rZXktdjEA\n'''"),
    ("a web token", f'settings.model = "{JWT}"'),
    ("a key of age", f'settings.model = "AGE-SECRET-KEY-1{R24.upper()}"'),
    ("a password in an address", 'settings.url = "https://me:s3same@db.example.com/x"'),
    ("a token", f'description = "Authorization: Bearer {R24}"'),
    (
        "a password",
        'description = "Authorization: Basic ' + base64.b64encode(b"me:s3same-open").decode() + '"',
    ),
    ("an API key", 'settings.model = "\\u0073k-' + R36 + '"'),  # as TOML may write it
    ("a token of GitHub", f'"ghp_{R36}" = 1'),
    ("a token of GitHub", f"# ghp_{R36}"),
    # where a reference belongs
    ("a secret instead of a reference", f'secrets.api_key = "{R24}"'),
    ("a secret instead of a reference", 'secrets.api_key = "s3same-0pen"'),
    ("a secret instead of a reference", f'secrets.api_key = {{ value = "{R24}" }}'),
    ("a secret instead of a reference", f'secrets.api_key = {{ env = "{R24}" }}'),
    ("a secret instead of a reference", f'secrets.api_key = {{ systemd = "{HEX}" }}'),
    ("a secret instead of a reference", f'secrets.api_key = {{ command = ["/bin/echo", "-n", "{R24}"] }}'),
    ("a secret instead of a reference", f'secrets.api_key = {{ command = ["sh", "-c", "TOKEN={R24} x"] }}'),
    # by its name
    ("a secret, by its name", f'settings.token = "{HEX[:20]}"'),
    ("a secret, by its name", f'settings.apiKey = "{uuid.UUID(HEX[:32])}"'),
    ("a secret, by its name", f'settings.vendorKey = "{R24}"'),
    ("a secret, by its name", 'settings.password = "Summer2024!"'),
    ("a secret, by its name", 'settings.clientSecret = "KrBLmFgQysGFbuNzsbkm"'),
    ("a secret, by its name", f'settings.options = "a=1, api_key: {R24}"'),
    ("a secret, by its name", f'settings.url = "https://x.example.com/?token={R24}"'),
    ("a secret, by its name", f'command = ["serve", "--api-key", "{R24}"]'),
    ("a secret, by its name", f'command = ["serve", "--api-key={R24}"]'),
    ("a secret, by its name", f'command = ["env", "VENDOR_TOKEN={R24}", "serve"]'),
    ("a secret, by its name", f"tool.x_do.input = \"{{password: '{R24}', text: text}}\""),
    ("a secret, by its name", f'settings.tokens = ["{R24}"]'),
    ("a secret, by its name", f"# api_key = {R24}"),
    # in a text that is no TOML, whose fault would show the line
    ("a secret, by its name", f"settings.token = {R24}"),
    ("an API key", f"settings.model = sk-{R36}"),
]

NONE = [
    f'connectorDigest = "sha256:{HEX}"',
    f'settings.checksum = "{HEX}"',
    f'settings.token = "sha256:{HEX}"',
    f'settings.key = "{uuid.UUID(HEX[:32])}"',
    'settings.keyFingerprint = "SHA256:uNiVztksCsDhcc0u9e8BrmkpQRwlKU1ETQ0p1c6eXk4"',
    'settings.key = "aa:bb:cc:dd:ee:ff:00:11:22:33"',
    'settings.logo = "data:image/png;base64,' + base64.b64encode(bytes(range(256))).decode() + '"',
    'settings.logo = "' + base64.b64encode(hashlib.sha512(b"image").digest() * 4).decode() + '"',
    'settings.token = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"',
    'settings.tokenizer = "cl100k_base"',
    'settings.tokenFile = "/etc/vendor/Zq7Lw2Xc9Vb4Nm1K"',
    'settings.token = "~/.config/vendor/t0ken-2024"',
    f'settings.keyId = "{R24}"',
    f'settings.publicKey = "{R36}"',
    'settings.password = "none"',
    'settings.password = "ask the operator"',
    'settings.token = "required"',
    'settings.token = "bearer-v2"',
    'settings.token = "<your token>"',
    'settings.apiKey = "YOUR_API_KEY_1"',
    'settings.apiKey = "xxxxxxxxxxxxxxxxxxxxxxxx"',
    'settings.apiKey = "${VENDOR_KEY_2024}"',
    'settings.sortKey = "created-2024-11"',
    'settings.cacheKey = "invoice-2024-07-v3-page-12"',
    'settings.model = "gpt-4o-transcribe-2025-03-20"',
    'settings.model = "sk-learn-1.5-classifier"',
    'settings.maxTokens = "20000"',
    'settings.signatureAlgorithm = "HS256"',
    'settings.url = "https://git@github.com/x/y"',
    'settings.url = "https://user:<password>@host/x"',
    'settings.url = "postgres://user:${PASSWORD}@host/x"',
    'settings.url = "https://host/x?key=name&sort=2024"',
    'description = "An API key starts with sk- and a token of GitHub with ghp_"',
    'description = "the secret: keep the token short, the password long"',
    'description = "AWS writes AKIAIOSFODNN7EXAMPLE in its manual"',
    'description = "-----BEGIN CERTIFICATE----- stands first in a certificate"',
    'description = "Basic authentication, or a bearer of good news"',
    'secrets.api_key = { env = "VENDOR_API_KEY_2" }',
    'secrets.api_key = { file = "~/.secrets/vendor-2024-11-key-b7" }',
    'secrets.api_key = { command = ["pass", "show", "vendor/key-2024"] }',
    'secrets.api_key = { command = ["op", "read", "op://vault/item7/field"] }',
    'secrets.api_key = { command = ["op", "item", "get", "7gnxvdmx4yzabcd2efgh3ijklm"] }',
    'secrets.api_key = { command = ["bw", "get", "password", "99ee88d2-6046-4ea7-92c2-acac464b1412"] }',
    'secrets.api_key = { command = ["aws", "get-secret-value", "--secret-id", "prod/Db1xyz9q7"] }',
    'secrets.api_key = { systemd = "vendor-key-2024" }',
    'secrets.api_key = { keyring = { service = "vendor.example", user = "me@example.com" } }',
    'secrets.api_key = { age = { file = "secrets/vendor.age", identity = "~/.config/age/id" } }',
    'secrets.api_key = { sops = { file = "secrets/prod.yaml", path = "vendor.key" } }',
    'secretSlots.api_key = { header = "x-api-key", description = "from https://vendor.example/keys" }',
    'secretSlots.api_key = { env = "VENDOR_KEY", via = "fd", required = true }',
    'egress = ["api.mistral.ai:443", "s3.eu-central-1.amazonaws.com:443"]',
    'command = ["serve", "--token-file", "/run/secrets/api_key", "--keys", "3"]',
    'tool.x_do.input = "{token: arguments.token, key: key}"',
    f'settings.token = "{R24}"  # no secret',
    f'settings.model = "ghp_{R36}"  # no secret: revoked, the vendor\'s own test',
]


def found(text: str) -> tuple[Problem, ...]:
    data = text.encode()
    values = toml.read(data)
    known = values if isinstance(values, dict) else None
    return leaks.problems("bindings/b.toml", data, known, ObjectRef(Kind.BINDING, "b"))


@pytest.mark.parametrize(("word", "line"), SECRETS)
def test_what_looks_like_a_secret_is_told_at_its_line_and_never_repeated(word: str, line: str) -> None:
    (problem,) = found(BINDING + line + "\n")
    assert problem.what.endswith(f"what looks like {word}")
    assert problem.at.line == BINDING.count("\n") + 1
    assert problem.mend
    for value in (R24, R36, HEX[:20], "s3same", "Summer2024", "KrBLmFgQ", JWT, AWS, HEX[:8]):
        assert value not in repr(problem)


@pytest.mark.parametrize("line", NONE)
def test_what_is_no_secret_passes(line: str) -> None:
    assert found(BINDING + line + "\n") == ()


def test_the_text_is_refused_for_it_alone_since_other_problems_repeat_what_they_are_about() -> None:
    text = f'{BINDING}unknown_{R24} = 1\nsecrets.api_key = "{R24}"\n'
    tree = Tree("r", {"bindings/b.toml": text.encode()})
    seen = inventory({Layer.CONFIG: tree})
    assert [one.code for one in seen.problems] == ["S223"]
    assert ObjectRef(Kind.BINDING, "b") not in seen.resources
    assert R24 not in repr(seen.problems)


def test_the_mend_names_a_variable_after_the_slot() -> None:
    (problem,) = found(f'{BINDING}secrets.mistral-api-key = "{R24}"\n')
    assert '{ env = "MISTRAL_API_KEY" }' in problem.mend


@given(
    st.binary(min_size=16, max_size=48), st.sampled_from(["token", "api_key", "clientSecret", "X_PASSWORD"])
)
def test_random_bytes_under_a_secrets_name_are_found_however_they_are_written(data: bytes, name: str) -> None:
    random = hashlib.sha512(data).digest()[: len(data)]
    for text in (random.hex(), base64.b64encode(random).decode(), base64.urlsafe_b64encode(random).decode()):
        if not text.startswith("/") and ".." not in text:
            assert secretlike.is_value_of(name, text), text


WORDS = st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=9), min_size=1, max_size=6)


@settings(max_examples=40)
@given(WORDS, st.sampled_from([" ", "-", "_", "/", "."]))
def test_words_are_never_secrets(words: list[str], between: str) -> None:
    text = between.join(words)
    assert (
        found(f'{BINDING}settings.token = "{text}"\ndescription = "{text}"\nsettings.key = "{text}"\n') == ()
    )


@settings(max_examples=40)
@given(st.text(max_size=120))
def test_any_text_is_looked_through_without_a_fault(text: str) -> None:
    assert isinstance(list(secretlike.shapes(text)), list)
    assert isinstance(list(secretlike.named(text)), list)
    leaks.problems("b.toml", text.encode("utf-8", "replace"), None, ObjectRef(Kind.BINDING, "b"))


def hard() -> Iterator[str]:
    yield "a" * 200_000
    yield "token=" * 40_000
    yield "-" * 200_000
    yield "://a:" * 40_000
    yield "eyJaaaaaaaa." * 20_000
    yield "sk-" + "a-" * 100_000
    yield "Basic " + "A1" * 100_000
    yield "token\t\t\t\t" * 20_000


@pytest.mark.slow
@pytest.mark.parametrize("text", [*hard()], ids=range(8))
@pytest.mark.timeout(20)
def test_no_text_takes_long(text: str) -> None:
    list(secretlike.shapes(text))
    list(secretlike.named(text))
