"""How a host may be spelled, asked of all that judges it: admission, and the proxy of a sandbox.

The list of the proxy is ``LISTED``. Whatever is spelled, the resolver here says that it is a public machine,
and the machine takes every connection: what a proxy lets through would arrive.
"""
# ruff: noqa: RUF001 - what looks alike is the point

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from reconciler.egress.decisions import Decision
from reconciler.egress.proxy import Proxy, Streams, dialled
from reconciler.model.hosts import Allow
from tests.admission.build import connector, errors, judge

LISTED = (
    "api.example.com:443", "127.0.0.1:8080", "[2001:db8::7]:443", "xn--bcher-kva.example:443",
    "loop.example.com:443",
    "mapped.example.com:443", "nat64.example.com:443", "sixtofour.example.com:443",
    "metadata.example.com:443",
)  # fmt: skip
RESOLVED = {
    "loop.example.com": "127.0.0.1",
    "mapped.example.com": "::ffff:127.0.0.1",
    "nat64.example.com": "64:ff9b::7f00:1",
    "sixtofour.example.com": "2002:7f00:1::",
    "metadata.example.com": "169.254.169.254",
}
PUBLIC = "93.184.216.34"


@dataclass(frozen=True)
class Spelling:
    """``listable``: admission takes it as an entry; ``through``: the proxy lets a request for it out."""

    text: str
    what: str
    listable: bool
    through: bool


def _no(text: str, what: str) -> Spelling:
    return Spelling(text, what, listable=False, through=False)


SPELLINGS = (
    Spelling("api.example.com:443", "as it is listed", listable=True, through=True),
    Spelling("API.Example.COM:443", "upper case, which names do not know", listable=True, through=True),
    Spelling("127.0.0.1:8080", "an address that is listed itself", listable=True, through=True),
    Spelling("[2001:db8::7]:443", "an IPv6 address", listable=True, through=True),
    Spelling("[2001:0DB8:0:0::0007]:443", "the same, written out", listable=True, through=True),
    Spelling("xn--bcher-kva.example:443", "a name beyond ASCII, as DNS has it", listable=True, through=True),
    Spelling("api.example.com:80", "another port", listable=True, through=False),
    Spelling("example.com:443", "the domain above", listable=True, through=False),
    Spelling("a.api.example.com:443", "a name below", listable=True, through=False),
    Spelling("api.example.com.evil.test:443", "the name as a prefix", listable=True, through=False),
    Spelling("evilapi.example.com:443", "the name as a suffix", listable=True, through=False),
    Spelling("127.0.0.2:8080", "a neighbour of an address", listable=True, through=False),
    Spelling("[::ffff:127.0.0.1]:8080", "the address, mapped into IPv6", listable=True, through=False),
    Spelling("[::1]:8080", "loopback in IPv6", listable=True, through=False),
    Spelling("[64:ff9b::7f00:1]:443", "loopback behind NAT64", listable=True, through=False),
    Spelling("[2002:7f00:1::]:443", "loopback behind 6to4", listable=True, through=False),
    Spelling("169.254.169.254:80", "a cloud's metadata", listable=True, through=False),
    Spelling("0.0.0.0:8080", "this host", listable=True, through=False),
    Spelling("loop.example.com:443", "a listed name that leads to loopback", listable=True, through=False),
    Spelling("mapped.example.com:443", "one that leads to mapped loopback", listable=True, through=False),
    Spelling("nat64.example.com:443", "one that leads there behind NAT64", listable=True, through=False),
    Spelling("sixtofour.example.com:443", "one that leads there behind 6to4", listable=True, through=False),
    Spelling("metadata.example.com:443", "one that leads to metadata", listable=True, through=False),
    Spelling("localhost:8080", "a name for loopback", listable=True, through=False),
    _no("localhost.:8080", "the same with a trailing dot"),
    _no("api.example.com.:443", "a trailing dot"),
    _no("127.0.0.1.:8080", "an address with a trailing dot"),
    _no(".api.example.com:443", "a leading dot"),
    _no("api..example.com:443", "an empty label"),
    _no("127.1:8080", "a short address"),
    _no("0x7f.1:8080", "hexadecimal and short"),
    _no("0x7f000001:8080", "hexadecimal"),
    _no("2130706433:8080", "one number"),
    _no("0177.0.0.1:8080", "octal"),
    _no("127.0.0.01:8080", "a leading zero"),
    _no("0:8080", "zero"),
    _no("256.0.0.1:443", "no byte"),
    _no("①②⑦.0.0.1:8080", "circled digits"),
    _no("１２７.0.0.1:8080", "wide digits"),
    _no("bücher.example:443", "a name beyond ASCII as it is read"),
    _no("api。example.com:443", "an ideographic full stop"),
    _no("аpi.example.com:443", "a Cyrillic letter"),
    _no("*.example.com:443", "a wildcard"),
    _no("*:443", "everything"),
    _no("user@api.example.com:443", "user information"),
    _no("api.example.com@evil.test:443", "the name as user information"),
    _no("api.example.com%00.evil.test:443", "an escaped NUL"),
    _no("api.example.com\0.evil.test:443", "a NUL"),
    _no("api.example.com\t:443", "a tab"),
    _no("api.example.com :443", "a space"),
    _no("api.example.com\r\nX: y:443", "the end of a line"),
    _no("api%2eexample.com:443", "an escaped dot"),
    _no("https://api.example.com:443", "an address of the web"),
    _no("api.example.com/:443", "a path"),
    _no("api.example.com#:443", "a fragment"),
    _no("api.example.com\\:443", "a backslash"),
    _no("[fe80::1%eth0]:443", "a zone"),
    _no("[127.0.0.1]:8080", "IPv4 in brackets"),
    _no("::1:8080", "IPv6 without brackets"),
    _no("api.example.com", "no port"),
    _no("api.example.com:", "an empty port"),
    _no("api.example.com:0", "port 0"),
    _no("api.example.com:00443", "zeros before a port"),
    _no("api.example.com:+443", "a sign before a port"),
    _no("api.example.com:65536", "a port that there is none of"),
    _no("api.example.com:443:443", "two ports"),
    _no("api.example.com:４４３", "wide digits of a port"),
    _no(f"{'a' * 64}.example:443", "a label of 64"),
    _no("-api.example.com:443", "a hyphen first"),
    _no(":443", "no host"),
)


def listable(text: str) -> bool:
    """Whether admission takes it into a connector's list."""
    quoted = (
        '"'
        + "".join(one if one.isprintable() and one not in '"\\' else f"\\u{ord(one):04x}" for one in text)
        + '"'
    )
    return _faults(f"egress = [{quoted}]\n") == _faults("")


def _faults(more: str) -> set[tuple[str, str]]:
    return {(one.code, one.what) for one in errors(judge(connector("c", "ocr/v1", more=more)))}


async def _taken(text: str, port: int, came: list[str]) -> str:
    """The proxy's status for a CONNECT to this."""
    before = len(came)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        writer.write(f"CONNECT {text} HTTP/1.1\r\n\r\n".encode())
        await writer.drain()
        head = await asyncio.wait_for(reader.readline(), 30)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    status = head.split(b" ")[1].decode() if b" " in head else "closed"
    assert (status == "200") == (len(came) > before), (text, status, came[before:])
    return status


async def _all(texts: Sequence[str]) -> dict[str, str]:
    came: list[str] = []
    decided: list[Decision] = []
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    there = server.sockets[0].getsockname()[1]

    async def resolve(host: str, number: int) -> Sequence[str]:
        return [RESOLVED.get(host, PUBLIC)]

    async def dial(address: str, number: int) -> Streams:
        came.append(address)
        return await dialled("127.0.0.1", there)

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    proxy = Proxy(Allow(LISTED), decided.append, resolve, dial)
    await proxy.start(listener)
    try:
        return {text: await _taken(text, port, came) for text in texts}
    finally:
        await proxy.close()
        server.close()
        await server.wait_closed()


def statuses() -> dict[str, str]:
    """What a real proxy answers to each spelling."""
    return asyncio.run(_all([one.text for one in SPELLINGS]))


def shown(text: str) -> str:
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)
