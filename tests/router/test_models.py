"""Models over a real socket: what is granted, what is told, what a connector hears of."""

from reconciler.router import mcp
from tests.router import stage
from tests.router.stage import FakeLane
from tests.router.test_server import run, stage_set, text_of

TOOLS = [
    stage.tool("llm_say", stage.closed(text=stage.TEXT, _model=stage.TEXT), stage.closed(text=stage.TEXT))
]


def saying_the_model(call: stage.Sent) -> None:
    call.answer(text=call.arguments.get("model", "none"))


def test_only_granted_models_reach_the_connector_and_the_first_is_the_default() -> None:
    async def test() -> None:
        lane = FakeLane(saying_the_model)
        routes = stage.routes(stage.route(stage.contract("llm", TOOLS), models=("small", "large")))
        async with stage_set(lane, routes) as play, play.agent("llm") as agent:
            said = []
            for ident, asked in enumerate([{}, {"model": ""}, {"model": "large"}, {"model": "CANARY"}]):
                agent.call(ident, "llm_say", text="x", **asked)
                message = await agent.message()
                structured = message["result"].get("structuredContent")
                said.append(structured["text"] if structured else text_of(message))
            assert said == ["small", "small", "large", "refused"]
            assert len(lane.sent) == 3
            assert "CANARY" not in repr(message)
            assert "CANARY" not in repr(await play.recorded(4))
            listed = (await agent.ask("l", "tools/list"))["result"]["tools"]
            assert listed == TOOLS  # as published, whoever may ask for what
            told = (await agent.ask("i", "initialize"))["result"]["instructions"]
            assert "Models: small (where none is named), large." in told

    run(test)


def test_instructions_name_no_models_where_any_may_be_asked_for() -> None:
    assert "Models" not in mcp.instructions([stage.route(stage.contract("llm", TOOLS))])
