"""A chain as a service: the runs that agents called for. Implements ``agentjobs.Chains``."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from reconciler.control.agentjobs import Whose
from reconciler.control.rpc import Refused
from reconciler.control.runface import RunFace
from reconciler.control.runs import Runs, Unrunnable

_LOOK_S = 2.0  # at a run that nobody carries on just now


class ChainService:
    """For the loop's own thread, but ``seen``."""

    def __init__(self, face: RunFace, runs: Runs) -> None:
        self._face, self._runs = face, runs

    async def begin(self, run: str, chain: str, text: str, whose: Whose) -> None:
        """As ``Chains`` has it."""
        if run in self._runs.live or await asyncio.to_thread(self.seen, run) is not None:
            return
        try:
            wish = self._face.wish({"chain": chain, "input": text}, whose.agent, run)
            await self._runs.start(replace(wish, above=whose.above, class_name=whose.class_name))
        except (Refused, Unrunnable) as fault:
            raise ValueError(str(fault)) from None

    def seen(self, run: str) -> Mapping[str, Any] | None:
        """As ``Chains`` has it."""
        head = self._runs.files.head(run)
        if head is None or head.id != run:
            return None
        output = self._runs.files.output(run) if head.state == "completed" else None
        return {**head.as_json(), "text": output["text"] if output else ""}

    async def over(self, run: str) -> None:
        """As ``Chains`` has it."""
        while True:
            if (live := self._runs.live.get(run)) is not None:
                await live.changed(_LOOK_S)
                continue
            head = await asyncio.to_thread(self._runs.files.head, run)
            if head is None or head.is_over:
                return
            await asyncio.sleep(_LOOK_S)

    async def cancel(self, run: str) -> None:
        """As ``Chains`` has it."""
        with suppress(Unrunnable):
            await self._runs.cancel(run)
