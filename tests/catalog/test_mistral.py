"""ocr-mistral in its real sandbox, against a local server that answers as Mistral's API is documented to.

The connector asks ``api.mistral.ai`` through the gate, by https, as it would anywhere; the gate is handed a
resolver and a dialler that lead to the local server, and a certificate authority of the test's to trust.
"""

import asyncio
import json
import os
import shutil
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tomli
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reconciler.egress.gate import Ask, Gate, Passage, Slots, Verdicted
from reconciler.egress.reaching import Streams, dialled
from reconciler.model.hosts import Allow
from reconciler.model.recipes import Pinned, Recipe, SandboxPolicy, SecretUse, folder_digest
from reconciler.model.resources import Connector
from reconciler.runtime.gating import Gated
from tests.kit.house import FIXTURES, ROOT
from tests.runtime.rig import Line, Rig, rig

DENO = Path(sys.executable).parent / "deno"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not DENO.exists() and shutil.which("deno", path="/usr/local/bin:/usr/bin") is None,
        reason="no deno: pip install deno",
    ),
]

FOLDER = ROOT / "catalog" / "connectors" / "ocr-mistral"
HOST = "api.mistral.ai"
KEY = "canary-51f0-mistral-key"
QUOTED = "canary-51f0-quoted"  # what the service says of a document, which nobody may hear
PDF = (FIXTURES / "invoice.pdf").read_bytes()
PNG = (FIXTURES / "invoice.png").read_bytes()
MIB = 2**20

# The shape of the documented answer: pages in any order, pictures, dimensions, usage.
ANSWER = {
    "pages": [
        {
            "index": 1,
            "markdown": "",
            "images": [],
            "dimensions": {"dpi": 200, "height": 2200, "width": 1700},
        },
        {
            "index": 0,
            "markdown": "# Invoice INV-2024-0042\n\n![img-0.jpeg](img-0.jpeg)\n\n| Total | 1,680.00 |",
            "images": [{"id": "img-0.jpeg", "top_left_x": 1, "top_left_y": 2, "bottom_right_x": 3}],
            "dimensions": {"dpi": 200, "height": 2200, "width": 1700},
        },
    ],
    "model": "mistral-ocr-2505-completion",
    "document_annotation": None,
    "usage_info": {"pages_processed": 2, "doc_size_bytes": 1024},
}


def replied(status: int, body: bytes, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def error(status: int) -> bytes:
    return replied(status, json.dumps({"message": QUOTED, "detail": [{"input": QUOTED}]}).encode())


def huge() -> bytes:
    page = {"index": 0, "markdown": "x" * (9 * MIB)}
    return replied(200, json.dumps({"pages": [page]}).encode())


# What the server does to one request, and how the call must end: a code, and words for operators.
FAULTS: dict[str, tuple[Callable[[], bytes | None], str, str]] = {
    "a bad request": (lambda: error(400), "unsupported_format", "400"),
    "unprocessable": (lambda: error(422), "unsupported_format", "422"),
    "too large": (lambda: error(413), "too_large", "413"),
    "a wrong key": (lambda: error(401), "unavailable", "refuses the key (401)"),
    "no right": (lambda: error(403), "unavailable", "refuses the key (403)"),
    "no such model": (lambda: error(404), "unavailable", "does not know the model mistral-ocr-latest"),
    "out of quota": (lambda: error(429), "unavailable", "a quota or a rate is used up (429)"),
    "a fault": (lambda: error(500), "unavailable", "answered 500"),
    "overload": (lambda: error(503), "unavailable", "answered 503"),
    "a redirect": (
        lambda: replied(302, b"", f"location: https://evil.example.com/{QUOTED}"),
        "unavailable",
        "answered 302",
    ),
    "no JSON": (lambda: replied(200, b"<html>" + QUOTED.encode()), "unavailable", "is not JSON"),
    "no pages": (lambda: replied(200, b'{"object": "error"}'), "unavailable", "no pages"),
    "a page without text": (
        lambda: replied(200, b'{"pages": [{"index": 0}]}'),
        "unavailable",
        "a page without text",
    ),
    "a list": (lambda: replied(200, b"[1]"), "unavailable", "no pages"),
    "half an answer": (lambda: replied(200, json.dumps(ANSWER).encode())[:-20], "unavailable", "no answer"),
    "half a long answer": (lambda: huge()[: -8 * MIB], "unavailable", "the answer broke off"),
    "a huge answer": (huge, "unavailable", "more than 8388608 bytes"),
    "no HTTP": (lambda: b"garbage " + QUOTED.encode() + b"\r\n\r\n", "unavailable", "is no HTTP"),
    "hanging up": (lambda: b"", "unavailable", "no answer"),
    "an echo": (lambda: replied(200, json.dumps({"pages": [KEY]}).encode()), "unavailable", "held a secret"),
    "a compressed answer": (
        lambda: replied(200, b"x", "content-encoding: gzip"),
        "unavailable",
        "is encoded",
    ),
    "silence": (lambda: None, "unavailable", "no answer within 4 s"),
}


@dataclass
class Vendor:
    """The server: it answers each request with the next of ``replies``, and keeps what it was asked."""

    replies: list[bytes | None] = field(default_factory=list)
    heard: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.heard.append((first, headers, json.loads(body)))
            reply = self.replies.pop(0)
            if reply is None:
                await reader.read()  # until whoever asked gives up
            else:
                writer.write(reply)
                await writer.drain()
        writer.close()


def certificates(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """An authority of the test's own, and a server context with its certificate for the one name."""

    def made(
        name: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey, *, ca: bool
    ) -> bytes:
        now = datetime.now(UTC)
        subject, issuer = (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, "test")
        )
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if not ca:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    authority, chain = folder / "authority.pem", folder / "chain.pem"
    authority.write_bytes(made("test", root, root, ca=True))
    chain.write_bytes(made(HOST, leaf, root, ca=False) + leaf.private_bytes(pem, pkcs8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return authority, context


@dataclass
class Stand:
    """The connector as it runs, one connection to it, and the vendor."""

    made: Rig
    vendor: Vendor
    line: Line
    inbox: int
    passed: list[Passage]

    async def extract(self, data: bytes, **more: Any) -> dict[str, Any]:
        blob = f"f{time.monotonic_ns()}"
        with os.fdopen(os.open(blob, os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=self.inbox), "wb") as file:
            file.write(data)
        given = {"name": "a.bin", "mediaType": "application/octet-stream", "size": len(data), "blob": blob}
        params = {"name": "ocr_extract", "arguments": {"path": given, **more}}
        result: dict[str, Any] = (await self.line.ask("tools/call", params))["result"]
        assert KEY not in json.dumps(result)
        assert QUOTED not in json.dumps(result)
        return result

    async def failed(self, data: bytes, **more: Any) -> tuple[str, str]:
        result = await self.extract(data, **more)
        assert result["isError"], result
        said = result["_meta"]["ai.handler/error"]
        return said["code"], said["diagnostic"]

    def log(self) -> str:
        return "".join(path.read_text() for path in (self.made.base / "state" / "logs").iterdir())


def policy() -> tuple[Connector, SandboxPolicy]:
    spec = Connector.model_validate(tomli.loads((FOLDER / "connector.toml").read_text()))
    return spec, SandboxPolicy(tmp_bytes=spec.sandbox.tmp_bytes, memory_bytes=spec.sandbox.memory_bytes)


@asynccontextmanager
async def standing(folder: Path) -> AsyncIterator[Stand]:
    authority, context = certificates(folder)
    trust = ssl.create_default_context(cafile=authority)
    vendor = Vendor()
    passed: list[Passage] = []
    closing: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(vendor.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    async def resolve(name: str, number: int) -> Sequence[str]:
        assert (name, number) == (HOST, 443)
        return ["93.184.216.34"]

    async def dial(address: str, number: int) -> Streams:
        vendor.dialled.append((address, number))
        return await dialled("127.0.0.1", port)

    key = folder / "key"
    key.write_text(KEY + "\n")
    key.chmod(0o600)
    spec, allowed = policy()
    header = spec.secret_slots["api_key"].header
    files = {path.name: path.read_bytes() for path in FOLDER.iterdir()}

    async def may(ask: Ask) -> Verdicted:
        return Verdicted(go=bool(ask.call))  # each request serves a call, and says whose

    async def no_proxy(recipe: object, listener: socket.socket) -> Callable[[], None]:
        listener.close()
        return lambda: None

    def gate(recipe: Recipe, listener: socket.socket, gated: Gated) -> Callable[[], None]:
        slots, loop = Slots.of(gated.filled), asyncio.get_running_loop()
        made = Gate(Allow(recipe.egress), slots, may, passed.append, b"k" * 32, trust, resolve, dial)
        closing.append(loop.create_task(made.start(listener)))
        return lambda: closing.append(loop.create_task(made.close()))

    async with rig(way_out=no_proxy, gate=gate) as made:
        name = await made.declare(
            "ocr-mistral",
            Pinned(folder_digest(files), files),
            runtime="deno",
            entry="main.ts",
            egress=spec.egress,
            sandbox=allowed,
            settings=(("MISTRAL_OCR_MODEL", "mistral-ocr-latest"), ("OCR_TIMEOUT_SECONDS", "4")),
            secrets=(SecretUse("api_key", "file", (str(key),), None, "gate", header),),
            ready_timeout_s=60,
        )
        endpoint, line = await made.open(name)
        yield Stand(made, vendor, line, endpoint.inbox, passed)
    await asyncio.gather(*closing)
    server.close()


def test_it_asks_as_documented_answers_in_the_interfaces_words_and_maps_every_failure(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with standing(tmp_path) as stand:
            await succeeds(stand)
            await refuses_what_nobody_reads(stand)
            await maps_every_failure(stand)
            assert KEY not in stand.log()
            assert QUOTED not in stand.log()
            assert {one.origin for one in stand.passed} == {f"https://{HOST}:443"}

    asyncio.run(story())


async def succeeds(stand: Stand) -> None:
    vendor = stand.vendor
    vendor.replies += [replied(200, json.dumps(ANSWER).encode(), "content-type: application/json")] * 2
    answer = await stand.extract(PDF, languages=["en", "xx"])
    assert answer["structuredContent"] == {
        "pages": [{"text": "# Invoice INV-2024-0042\n\n\n\n| Total | 1,680.00 |"}, {"text": ""}]
    }
    await stand.extract(PNG)
    (first, headers, body), (_, _, picture) = vendor.heard
    assert first == "POST /v1/ocr HTTP/1.1"
    assert headers["host"] == HOST
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["content-type"] == "application/json"
    assert (body["model"], body["include_image_base64"]) == ("mistral-ocr-latest", False)
    assert body["document"]["type"] == "document_url"
    assert body["document"]["document_url"].startswith("data:application/pdf;base64,JVBERi0")
    assert picture["document"]["type"] == "image_url"
    assert picture["document"]["image_url"].startswith("data:image/png;base64,iVBORw0K")


async def refuses_what_nobody_reads(stand: Stand) -> None:
    """Before anything is sent: no key and no document leaves for it."""
    asked = len(stand.vendor.heard)
    for file, code in (
        ("archive.zip", "unsupported_format"),
        ("empty.pdf", "unsupported_format"),
        ("oversized.png", "too_large"),
    ):
        assert (await stand.failed((FIXTURES / file).read_bytes()))[0] == code, file
    assert (await stand.failed(PNG, languages=["xx"]))[0] == "unavailable"
    assert len(stand.vendor.heard) == asked


async def maps_every_failure(stand: Stand) -> None:
    for name, (reply, code, words) in FAULTS.items():
        asked = len(stand.vendor.heard)
        stand.vendor.replies = [reply()]
        found = await stand.failed(PNG)
        assert found[0] == code, (name, found)
        assert words in found[1], (name, found)
        assert len(stand.vendor.heard) == asked + 1, f"{name}: nothing is repeated"


def test_it_trusts_no_server_that_this_machine_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with standing(tmp_path) as stand:
            code, words = await stand.failed(PNG)
            assert code == "unavailable"
            assert "is not who it should be: its certificate is not accepted" in words
            assert stand.vendor.dialled == [("93.184.216.34", 443)]
            assert stand.vendor.heard == []

    real = certificates

    def other(folder: Path) -> tuple[Path, ssl.SSLContext]:
        (folder / "other").mkdir()
        return real(folder)[0], real(folder / "other")[1]

    monkeypatch.setattr(sys.modules[__name__], "certificates", other)
    asyncio.run(story())
