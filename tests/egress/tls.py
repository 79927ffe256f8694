"""TLS greetings: a real one as this Python's ssl makes it, and ones put together byte by byte."""

import ssl
import struct


def real(name: str | None = "api.example.com") -> bytes:
    """The greeting of a real client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(inside, outside, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outside.read()
    raise AssertionError("a handshake without a server")


def block(width: int, data: bytes) -> bytes:
    return len(data).to_bytes(width) + data


def extension(kind: int, data: bytes) -> bytes:
    return struct.pack("!H", kind) + block(2, data)


def server_name(name: bytes, sort: int = 0) -> bytes:
    return extension(0, block(2, bytes([sort]) + block(2, name)))


def message(
    extensions: bytes | None, session: bytes = b"s" * 32, ciphers: bytes = b"\x13\x01", tail: bytes = b""
) -> bytes:
    """The handshake message; ``extensions`` None for the form of old clients, without any."""
    body = b"\x03\x03" + b"r" * 32 + block(1, session) + block(2, ciphers) + block(1, b"\0")
    body += (b"" if extensions is None else block(2, extensions)) + tail
    return b"\x01" + block(3, body)


def records(whole: bytes, size: int = 16384) -> bytes:
    """A handshake message in records of at most ``size`` bytes."""
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    return b"".join(b"\x16\x03\x01" + block(2, part) for part in parts)


def greeting(name: str = "api.example.com", *more: bytes) -> bytes:
    return records(message(server_name(name.encode()) + b"".join(more)))
