"""Models over a real socket: what is granted, what is told, what a connector hears of."""

from dataclasses import replace

from reconciler.model.calls import Lane
from reconciler.model.contract import Contract
from reconciler.model.names import InstanceName
from reconciler.model.routes import Route
from reconciler.model.stands import Stand, as_pinned, together
from reconciler.router import mcp
from reconciler.router.server import Pinned
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


def _two_bindings(contract: Contract) -> Route:
    first = stage.route(contract, models=("small", "large"))
    other = replace(first, binding="other", instance=InstanceName("other", "cd" * 32), models=("huge",))
    return replace(first, others=(other,))


def test_a_model_says_which_of_several_bindings_answers_and_their_limits_are_one() -> None:
    async def test() -> None:
        asked: list[str] = []
        lane = FakeLane(saying_the_model)
        spec = stage.contract("llm", TOOLS)
        routes = stage.routes(_two_bindings(spec))
        async with stage_set(lane, routes) as play, play.agent("llm") as agent:

            def noted(instance: InstanceName) -> Lane | None:
                asked.append(instance.binding)
                return lane

            play.dispatch.lane = noted
            said = []
            for ident, model in enumerate(["", "huge", "large", "CANARY", "huge"]):
                agent.call(ident, "llm_say", text="x", model=model)
                message = await agent.message()
                structured = message["result"].get("structuredContent")
                said.append(structured["text"] if structured else text_of(message))
                if model == "CANARY":
                    assert "small, large, huge" in repr(message)
            assert said == ["small", "huge", "large", "refused", "huge"]
            assert asked == ["llm-vendor", "other", "llm-vendor", "other"]
            kept = [one.binding for one in await play.recorded(5)]
            assert kept == ["llm-vendor", "other", "llm-vendor", "llm-vendor", "other"]
            desks = play.router.guest(Pinned("s1", routes)).desks["llm"]
            assert desks.others["other"].usage is desks.usage
            told = (await agent.ask("i", "initialize"))["result"]["instructions"]
            assert "Models: small (where none is named), large, huge." in told

    run(test)


def test_an_interface_stands_degraded_where_one_of_its_bindings_is_missing() -> None:
    route = _two_bindings(stage.contract("llm", TOOLS))
    closed = replace(route, others=(replace(route.others[0], suspended="x"),))
    assert [as_pinned(one).state for one in (route, closed)] == ["bound", "degraded"]
    assert as_pinned(replace(closed, suspended="x")).state == "missing"
    assert together([Stand("bound", 1.0), Stand("missing", 7.0)]) == Stand("degraded", 7.0)
