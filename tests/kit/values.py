"""Small real values of the model, for tests of rooms that take them."""

import orjson

from reconciler.model.contract import Contract, compiled
from reconciler.model.names import InterfaceRef
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.resources import Interface
from reconciler.model.routes import AgentRoutes, Route, RouteTable


def contract(name: str = "echo", version: int = 1) -> Contract:
    spec = Interface.model_validate(
        {"apiVersion": "handler.interface/v1", "name": name, "version": version, "description": "for tests"}
    )
    shape = {"type": "object", "additionalProperties": False, "properties": {"text": {"type": "string"}}}
    tool = {"name": f"{name}_say", "description": "says it", "inputSchema": shape, "outputSchema": shape}
    return compiled(spec, orjson.dumps([tool]))


def recipe(binding: str = "echo-a", code: str = "0" * 64) -> Recipe:
    return Recipe(
        binding=binding, connector="echo", runtime="python", code=code, entry="main.py", environment="",
        settings=(), secrets=(), models=(), egress=(), sandbox=SandboxPolicy(), state="none", kit="1" * 64,
    )  # fmt: skip


def routes(agent: str, chosen: Recipe, interface: str = "echo") -> AgentRoutes:
    route = Route(InterfaceRef(interface, 1), chosen.binding, chosen.name, contract(interface))
    return AgentRoutes(agent, {interface: route})


def table(generation: int, *agents: AgentRoutes, recipes: tuple[Recipe, ...] = ()) -> RouteTable:
    return RouteTable(generation, {one.agent: one for one in agents}, {one.name: one for one in recipes})
