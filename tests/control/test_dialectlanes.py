"""Lanes of instances that speak a dialect: what is held for a call is given back however it ends."""

import asyncio

from reconciler.control.dialects import DialectLane
from reconciler.model.names import InstanceName


class _Holds:
    """Counts what is held."""

    def __init__(self) -> None:
        self.count = 0

    def hold(self, name: InstanceName) -> None:
        self.count += 1

    def release(self, name: InstanceName) -> None:
        self.count -= 1


def test_a_call_that_is_cancelled_before_it_begins_holds_nothing() -> None:
    async def main() -> None:
        holds = _Holds()
        lane = DialectLane("b@1", holds, None, 1)  # type: ignore[arg-type]
        number = lane.send("tool", {}, None, 1000)  # type: ignore[arg-type]
        assert holds.count == 1
        assert not lane.cancel(number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert holds.count == 0
        lane.close()

    asyncio.run(main())
