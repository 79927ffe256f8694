"""Work in a thread that is not left alone with what its caller closes."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(work: Callable[P, T], *words: P.args, **more: P.kwargs) -> T:
    """Work in a thread whose descriptors are not closed under it when nobody wants it any more."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *words, **more))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise
