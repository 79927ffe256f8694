"""What a run may call: the tools of its agent's session, as the engine knows them, through the router's law.

A provider is an interface that the agent is granted. A call goes under the name of its ask, so that one with
an effect is made once, however often the run is resumed: the ledger answers what came of it. What the agent
is granted today is looked at before each call, for a run may wait for days.
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from reconciler.chains import bounds
from reconciler.chains.asks import AskTool, AskTools, ToolFace
from reconciler.chains.flow import Value
from reconciler.chains.replies import ToolFailed, ToolSaid, ToolsFound
from reconciler.model.contract import Tool
from reconciler.model.routes import AgentRoutes, Route, RouteTable
from reconciler.router.server import Ask, Pinned, Router

Tokens = Callable[[str], int]


def found(ask: AskTools, routes: AgentRoutes, tokens: Tokens) -> ToolsFound:
    """The tools of the providers that are wanted. One that is not granted is left out."""
    wanted = None if ask.wanted is None or "*" in ask.wanted else set(ask.wanted)
    faces: list[ToolFace] = []
    unreachable: list[str] = []
    for name, route in routes.routes.items():
        if wanted is not None and name not in wanted:
            continue
        if route.suspended is not None:
            unreachable.append(name)
            continue
        faces += [_face(name, tool, tokens) for tool in _tools(route)]
    return ToolsFound(tuple(faces), tuple(unreachable))


def _tools(route: Route) -> list[Tool]:
    named = route.contract.tools.values()
    return [one for one in named if route.tools is None or one.name in route.tools]


def _face(provider: str, tool: Tool, tokens: Tokens) -> ToolFace:
    definition = tool.definition
    schema: Mapping[str, Any] = definition["inputSchema"]
    description = str(definition.get("description", ""))
    cost = tokens(orjson.dumps([tool.name, description, schema]).decode())
    return ToolFace(provider, tool.name, description, schema, cost, tool.effect)


async def called(ask: AskTool, router: Router, pinned: Pinned, table: RouteTable) -> ToolSaid | ToolFailed:
    """Make a call. Its result is JSON, as its interface has it."""
    if not _is_granted(ask, table.agents.get(pinned.routes.agent)):
        return ToolFailed("refused", "this is not granted any more")
    arguments = bounds.kept(ask.provider, ask.tool, ask.arguments, ask.policies)
    if isinstance(arguments, str):
        return ToolFailed("refused", arguments)
    said = await router.call(pinned, Ask(ask.provider, ask.tool, arguments, f"run:{ask.id}"))
    if said.code != "ok":
        return ToolFailed(said.code, said.message)
    if ask.policies and bounds.too_large(ask.provider, len(orjson.dumps(said.structured)), ask.policies):
        return ToolFailed("too_large", "the result is larger than the chain takes")
    return ToolSaid(Value("json", said.structured))


def _is_granted(ask: AskTool, routes: AgentRoutes | None) -> bool:
    route = routes.routes.get(ask.provider) if routes else None
    return route is not None and (route.tools is None or ask.tool in route.tools)
