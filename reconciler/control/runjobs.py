"""A run of a chain that waits for a job: by the attempt's id alone, with no session open and no table pinned.

A call that submits a job answers with a handle, and its run waits until the job is over, over whatever death
of the controller. Then today's grant is looked at, and the job's own tool tells what came of it.
"""

from dataclasses import replace
from typing import Protocol

from reconciler.chains.asks import AskTool
from reconciler.chains.replies import Reply, ToolSaid
from reconciler.model.jobs import JOB, companions
from reconciler.model.routes import AgentRoutes


class Jobs(Protocol):
    """Who keeps jobs, as much of it as a run needs."""

    async def attempt(self, handle: str, agent: str) -> str:
        """The attempt behind a handle of an agent; "" where there is none."""
        ...

    async def over(self, attempt: str) -> str:
        """Return its handle when it is over, or nobody can know and a person has to look."""
        ...


class NoJobs:
    """Where nobody does jobs."""

    async def attempt(self, handle: str, agent: str) -> str:
        """There is none."""
        return ""

    async def over(self, attempt: str) -> str:
        """It is."""
        return ""


def handle(ask: AskTool, routes: AgentRoutes | None, said: Reply) -> str:
    """The handle that a call was answered with, where its tool submits a job; ""."""
    route = routes.routes.get(ask.provider) if routes else None
    tool = route.contract.tools.get(ask.tool) if route else None
    if tool is None or tool.kind != "job" or not isinstance(said, ToolSaid):
        return ""
    data = said.value.data
    return str(data.get(JOB, "")) if isinstance(data, dict) else ""


def collecting(ask: AskTool, handle: str) -> AskTool:
    """The same ask, as the one for what came of its job."""
    return replace(ask, tool=companions(ask.tool)["result"], arguments={JOB: handle})
