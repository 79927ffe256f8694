"""What bubblewrap tells through a pipe while it builds a sandbox, read without blocking the loop."""

import asyncio
import json
import os
from contextlib import ExitStack


def pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """The two ends of a new pipe, each closed by its owner."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


async def until(pipe: int, mark: bytes) -> bytes:
    """What a pipe gives up to and with ``mark``; b"" when it ends before."""
    loop = asyncio.get_running_loop()
    os.set_blocking(pipe, False)
    read = b""
    while mark not in read:
        readable = asyncio.Event()
        loop.add_reader(pipe, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(pipe)
        data = os.read(pipe, 4096)
        if not data:
            return b""
        read += data
    return read


def child_pid(info: bytes) -> int:
    """The process that bubblewrap's ``--info-fd`` names; ValueError when it ended before it could."""
    if not info:
        raise ValueError("bubblewrap could not build it")
    return int(json.loads(info)["child-pid"])
