"""Does something answer there? A connection, a handshake of TLS, and of servers on this machine one `GET`.

Nothing of a payload, a secret or an agent goes along. What is connected to is what the list allows and the
address rules let through, as for any connection that leaves. Answers are bounded in bytes and in time, and
are never followed anywhere.
"""

import asyncio
import ssl
from contextlib import suppress

import h11

from reconciler.egress.reaching import Reach, Streams, Unreached
from reconciler.model.hosts import Allow, Target

_PATIENCE_S = 10.0
_MOST_BYTES = 2**20
_CHUNK = 65_536


async def knock(target: Target, *, tls: bool) -> str:
    """Connect and say nothing more; "" when something answered, else why not."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await _connected(target)
            try:
                if tls:
                    await writer.start_tls(ssl.create_default_context(), server_hostname=target.host)
            finally:
                writer.close()
    except Unreached as fault:
        return str(fault)
    except ssl.SSLError as fault:
        return f"{target} does not prove that it is {target.host}: {fault.reason or 'TLS fails'}"
    except (OSError, TimeoutError):
        return f"{target} takes no connection now"
    return ""


async def attached(path: str) -> str:
    """The same of a Unix socket."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_unix_connection(path)
            writer.close()
    except (OSError, TimeoutError):
        return "nothing accepts connections at its socket"
    return ""


async def asked(target: Target, path: str) -> tuple[int, bytes] | str:
    """The status and the body of a `GET` in plain HTTP, or why there is none. For servers of this machine."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await _connected(target)
            try:
                return await _answer(reader, writer, target, path)
            finally:
                writer.close()
    except Unreached as fault:
        return str(fault)
    except h11.ProtocolError:
        return f"{target} does not answer in HTTP"
    except (OSError, TimeoutError):
        return f"{target} does not answer within {_PATIENCE_S:g} s"


async def _connected(target: Target) -> Streams:
    streams, _ = await Reach(Allow([str(target)]), dial_s=_PATIENCE_S).connected(target)
    return streams


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Target, path: str
) -> tuple[int, bytes]:
    connection = h11.Connection(h11.CLIENT)
    headers = [("host", str(target)), ("accept", "application/json"), ("connection", "close")]
    writer.write(connection.send(h11.Request(method="GET", target=path, headers=headers)) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    status, body = 0, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = b""
            with suppress(ConnectionError):
                data = await reader.read(_CHUNK)
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif not isinstance(event, h11.InformationalResponse):
            return status, bytes(body)
        if len(body) > _MOST_BYTES:
            return status, b""
