"""``agent/v1``: whom a session may call. Its jobs are the ledger's and a runner's."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.builtin.asking import Asked
from reconciler.builtin.lane import BuiltinLane, Holder
from reconciler.model.calls import Refusal, Reply, Result
from reconciler.model.names import InstanceName

VERSION = "agent/v1"
LIST = "agent_list"
Listed = Callable[[str], list[dict[str, str]]]


class AgentsLane(BuiltinLane):
    """The lane of an instance that calls agents."""

    def __init__(self, name: InstanceName, holder: Holder, most: int, listed: Listed) -> None:
        """``listed`` says whom a session may call."""
        super().__init__(name, holder, most)
        self._listed = listed

    def answer(self, tool: str, arguments: Mapping[str, Any], asked: Asked) -> Reply:
        """What is said to one call. Runs in a thread."""
        if tool != LIST:
            return Refusal("unavailable", "the product has no such tool")
        return Result({"agents": self._listed(asked.session)}, {}, ())
