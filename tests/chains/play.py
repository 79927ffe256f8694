"""A scripted partner of a run: a model that says what a list says, tools, people, a clock."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.chains import engine, flow
from reconciler.chains.asks import Ask, AskApproval, AskModel, AskSleep, AskTool, AskTools, ToolFace
from reconciler.chains.engine import Failed, Finished, Run
from reconciler.chains.flow import Value
from reconciler.chains.history import History, Message, ToolCall
from reconciler.chains.replies import (
    Decided,
    ModelFailed,
    ModelSaid,
    Reply,
    Slept,
    ToolSaid,
    ToolsFound,
)
from reconciler.chains.retrying import ErrorClass
from reconciler.chains.state import Laws, Settings, allow_all
from reconciler.model.chain import Chain

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VARS = {"model": "m", "provider": "p", "think": "low", "default_model": "m", "default_provider": "p"}
FACES = (
    ToolFace("fs", "fs_read_file"),
    ToolFace("fs", "fs_write_file", effect="local"),
    ToolFace("ocr", "ocr_extract"),
)


def say(text: str = "", *calls: ToolCall) -> ModelSaid:
    return ModelSaid(Message("assistant", text, calls=calls), model="m")


def call(name: str = "fs.fs_read_file", arguments: str = "{}", ident: str = "c") -> ToolCall:
    return ToolCall(ident, name, arguments)


def fail(error: ErrorClass = ErrorClass.PERMANENT, **more: Any) -> ModelFailed:
    return ModelFailed(error, **more)


@dataclass
class Play:
    """What answers a run. ``model`` is a list of replies, or a function of the ask; what is asked is kept."""

    model: Iterable[Reply] | Callable[[AskModel], Reply] = ()
    tool: Callable[[AskTool], Reply] = lambda ask: ToolSaid(flow.text("data"))
    approve: Callable[[AskApproval], Reply] = lambda ask: Decided("approved")
    faces: tuple[ToolFace, ...] = FACES
    unreachable: tuple[str, ...] = ()
    asked: list[Ask] = field(default_factory=list)
    now: datetime = NOW

    def __post_init__(self) -> None:
        if not callable(self.model):
            self.lines = iter(self.model)

    def reply(self, ask: Ask) -> Reply:
        self.asked.append(ask)
        self.now += timedelta(seconds=1)
        match ask:
            case AskTools(wanted=wanted):
                named = {one.removeprefix("!") for one in wanted or ("*",)}
                found = [one for one in self.faces if one.provider in named or "*" in named]
                return ToolsFound(tuple(found), self.unreachable)
            case AskModel():
                return self.model(ask) if callable(self.model) else next(self.lines)
            case AskTool():
                return self.tool(ask)
            case AskApproval():
                return self.approve(ask)
            case AskSleep(until=until):
                self.now = until
                return Slept()

    def through(self, run: Run) -> Run:
        """Answer until there is an outcome."""
        while run.ask is not None:
            run.advance(self.reply(run.ask), self.now)
        return run

    @property
    def models(self) -> list[AskModel]:
        return [one for one in self.asked if isinstance(one, AskModel)]

    @property
    def tools(self) -> list[AskTool]:
        return [one for one in self.asked if isinstance(one, AskTool)]

    @property
    def sleeps(self) -> list[AskSleep]:
        return [one for one in self.asked if isinstance(one, AskSleep)]


def chain(*tasks: Mapping[str, Any], **more: Any) -> Chain:
    return Chain.model_validate({"id": "c", "tasks": list(tasks), **more})


def begin(what: Chain, value: Value | str = "hello", **settings: Any) -> Run:
    judge = settings.pop("judge", allow_all)
    given = flow.text(value) if isinstance(value, str) else value
    laws = Laws(lambda text: len(text) // 4, judge)
    return engine.begin(what, given, Settings("r", NOW, **{"variables": VARS, **settings}), laws)


def run(what: Chain, play: Play | None = None, value: Value | str = "hello", **settings: Any) -> Run:
    return (play or Play()).through(begin(what, value, **settings))


def output(done: Run) -> Any:
    assert isinstance(done.outcome, Finished), done.outcome
    data = done.outcome.value.data
    return data.last.content if isinstance(data, History) and data.last else data


def failure(done: Run) -> Failed:
    assert isinstance(done.outcome, Failed), done.outcome
    return done.outcome


def path(done: Run) -> list[str]:
    """The tasks that were entered, in order; attempts of one visit once."""
    return [one.task for one in done.units if one.retry == 0]


def stored(one: Run) -> dict[str, Any]:
    return json.loads(json.dumps(one.to_json()))
