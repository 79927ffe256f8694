"""The controller as the OpenAI-compatible door sees it: models, chains, one answer as it comes.

A connection of the control socket for each question, on the door's own loop. Whoever stops listening ends
what was asked: a model's turn with its connection, a run of a chain by ``run.cancel``.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import orjson

from reconciler.doors.openai_asked import CHAIN, CLIENT, Asked, as_history
from reconciler.doors.openai_said import Faulted, Listed, Said
from reconciler.model import turnlines
from reconciler.model.outcome import Usage
from reconciler.model.turns import Event, Image, Message, TextDelta, ToolCallDelta, ToolUse, Turn

_MAX_LINE = 64 * 2**20
_ANSWER_S = 30.0  # for what the controller answers at once
_RAISED = "raised"  # the code of a chain that ends with an error of its own
_CLIENT = f"{CLIENT}."
_NO_CONTROLLER = Faulted("unavailable", message="no controller answers now")
# what a run ended with, where the door's word is another one
_CODES: Mapping[str, str] = {
    "permanent": "invalid_input",
    "server_error": "unavailable",
    "cancelled": "unavailable",
}

_UNSTATED = re.compile(r"(?:^|\s)field\.([a-z_]{1,40})\b")

Piece = Event | Said | Faulted


@dataclass(frozen=True, slots=True)
class Known:
    """What can be asked: models in the agent's order, and chains with the tasks that may be their last."""

    models: tuple[str, ...] = ()
    chains: Mapping[str, frozenset[str]] = field(default_factory=dict)
    seeing: frozenset[str] = frozenset()  # the models that may be shown pictures

    def first(self, messages: tuple[Message, ...]) -> str:
        """The model for these messages where none is named: the first that takes them; "" for none."""
        shows = any(isinstance(part, Image) for one in messages for part in one.parts)
        fit = [one for one in self.models if not shows or one in self.seeing]
        return next(iter(fit or self.models), "")

    def listed(self) -> tuple[Listed, ...]:
        """All of them under the names of models."""
        return (*map(Listed, self.models), *(Listed(f"{CHAIN}{one}") for one in self.chains))


class FarError(Exception):
    """The controller refused, or is not there; ``fault`` is what a client is told."""

    def __init__(self, fault: Faulted) -> None:
        super().__init__(fault.detail or fault.code)
        self.fault = fault


class Far:
    """The controller of one configuration, asked for one agent ("" for the only one)."""

    def __init__(self, socket: str, agent: str, timeout_s: float) -> None:
        """``timeout_s`` bounds one answer, whole."""
        self._socket, self._agent, self._timeout_s = socket, agent, timeout_s
        self._session = f"openai-{secrets.token_hex(6)}"  # one for all turns of a door: a file of records

    async def known(self) -> Known:
        """What there is to ask now; raises ``FarError``."""
        found = await self._ask("llm.models", {"agent": self._agent})
        models = found["models"]
        return Known(
            tuple(dict.fromkeys(one["model"] for one in models)),
            {name: frozenset(tasks) for name, tasks in found["chains"].items()},
            frozenset(one["model"] for one in models if one["vision"]),
        )

    async def turn(self, turn: Turn) -> AsyncGenerator[Piece, None]:
        """The answer of one model: its pieces, then ``Said`` or ``Faulted``, always one of the two."""
        asked = {
            "agent": self._agent,
            "turn": turnlines.turn(turn),
            "session": self._session,
            "timeoutSeconds": self._timeout_s,
        }
        try:
            async with _line(self._socket) as line, asyncio.timeout(self._timeout_s + 5):
                async for name, told in line.going("llm.turn", asked):
                    yield _said_of_turn(told) if name == "result" else turnlines.event_from(told["event"])
        except FarError as error:
            yield error.fault
        except TimeoutError:
            yield Faulted("timeout")

    async def chain(self, chain: str, asked: Asked, known: Known) -> AsyncGenerator[Piece, None]:
        """The answer of a run: the words of tasks that may be the last, as they come; then ``Said`` or
        ``Faulted``.
        """
        try:
            head = await self._ask("chain.run", self._begun(chain, asked, known))
            async with aclosing(self._followed(head["id"], known.chains.get(chain, frozenset()))) as pieces:
                async for piece in pieces:
                    yield piece
        except FarError as error:
            yield error.fault

    def _begun(self, chain: str, asked: Asked, known: Known) -> dict[str, Any]:
        turn = asked.turn
        given: dict[str, str] = {"model": turn.model} if turn.model in known.models else {}
        if turn.max_tokens:
            given["max_tokens"] = str(turn.max_tokens)
        tools = [
            {"name": one.name, "description": one.description, "parameters": one.parameters}
            for one in turn.tools
        ]
        return {
            "agent": self._agent,
            "chain": chain,
            "input": as_history(turn.messages),
            "inputType": "chat_history",
            "vars": given,
            "temperature": turn.temperature,
            "clientTools": [] if turn.tool_choice == "none" else tools,
        }

    async def _followed(self, run: str, last: frozenset[str]) -> AsyncGenerator[Piece, None]:
        over, telling = False, _Telling(last)
        try:
            async with _line(self._socket) as line, asyncio.timeout(self._timeout_s):
                async for name, told in line.going("run.stream", {"run": run, "cancel": True}):
                    over = name == "result"
                    for one in told["told"]:
                        if (words := telling.piece(one)) is not None:
                            yield words
                    if over:
                        for piece in telling.end(told["run"], told.get("output")):
                            yield piece
        except TimeoutError:
            yield Faulted("timeout")
        finally:
            if not over:
                await asyncio.shield(self._cancel(run))

    async def _cancel(self, run: str) -> None:
        with contextlib.suppress(FarError):
            await self._ask("run.cancel", {"run": run})

    async def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        async with _line(self._socket) as line:
            return await line.ask(method, params, _ANSWER_S)


class _Telling:
    """The words of a run as one answer: those of tasks that may be the last, and what the run ends with.

    A later task's words follow those of an earlier one after an empty line. What the run's result says and
    was not shown yet is shown in the end.
    """

    def __init__(self, last: frozenset[str]) -> None:
        self._last = last
        self._shown = ""  # of the attempt that speaks now
        self._any = False
        self._counted = [0, 0]
        self._model, self._finish = "", ""

    def piece(self, told: Mapping[str, Any]) -> TextDelta | None:
        kind = told.get("kind")
        if kind == "step_started":
            self._shown = ""
        if kind == "model_call":
            counted = told.get("usage") or {}
            self._counted[0] += counted.get("prompt_tokens", 0)
            self._counted[1] += counted.get("completion_tokens", 0)
            self._model = told.get("model_name") or self._model
            chosen = told.get("task_handler") == "route"  # a label that was chosen is no word of the answer
            self._finish = "" if chosen else told.get("finish_reason") or ""
        if kind == "step_chunk" and told.get("task_id") in self._last and told.get("content"):
            return self._words(told["content"])
        return None

    def _words(self, text: str) -> TextDelta:
        apart = "\n\n" if self._any and not self._shown else ""
        self._shown += text
        self._any = True
        return TextDelta(apart + text)

    def end(self, run: Mapping[str, Any], output: Mapping[str, Any] | None) -> list[Piece]:
        if run["state"] != "completed" or output is None:
            code = run.get("code") or ("unavailable" if run["state"] == "stopped" else "run_failed")
            words = str(run.get("message") or "") if code == _RAISED else ""  # its chain's to its caller
            detail = f"run {run['id']} {run['state']}: 'handler runs show {run['id']}' says more"
            return [Faulted(_CODES.get(code, code), detail, words, ran=True)]
        said = self._said(run, output)
        found: list[Piece] = []
        if not said.text.startswith(self._shown):
            self._shown = ""
        if left := said.text[len(self._shown) :]:
            found.append(self._words(left))
        for number, one in enumerate(said.tools):
            found.append(ToolCallDelta(number, one.id, one.name, one.arguments))
        return [*found, said]

    def _said(self, run: Mapping[str, Any], output: Mapping[str, Any]) -> Said:
        tools = _client_calls(output.get("data"))
        text = str(output.get("text") or "")
        if tools:
            text = str(output["data"]["messages"][-1].get("content") or "")
        return Said(
            text,
            "tools" if tools else "length" if self._finish == "length" else "stop",
            tools,
            usage=Usage(*self._counted),
            mark="scripted" if run.get("scripted") else "",
        )


def _client_calls(data: object) -> tuple[ToolUse, ...]:
    """The calls of the client's own tools that the last message of a history asks for; () where there is
    any other among them.
    """
    messages = data.get("messages") if isinstance(data, dict) else None
    last = messages[-1] if isinstance(messages, list) and messages else {}
    calls = last.get("callTools") or []
    if not all(one["function"]["name"].startswith(_CLIENT) for one in calls):
        return ()
    return tuple(
        ToolUse(one["id"], one["function"]["name"].removeprefix(_CLIENT), one["function"]["arguments"])
        for one in calls
    )


def _said_of_turn(told: Mapping[str, Any]) -> Said | Faulted:
    if code := told.get("failed"):
        cause = str(told.get("cause") or "")
        if code == "refused" and (name := _field(cause)):
            words = f"the model does not take '{name}', or not this value of it"
            return Faulted("invalid_input", cause, words, name)
        return Faulted(code, cause, retry_after_s=told.get("retryAfterSeconds"))
    turn = turnlines.answer_from(told["answer"])
    mark = "scripted" if told.get("scripted") else ""
    return Said(
        turn.text, turn.finish, turn.tools, turn.refusal, turn.usage, str(told.get("model") or ""), mark
    )


def _field(cause: str) -> str:
    """The field that a model's profile does not state, where that is the cause: ``… field.NAME…``."""
    found = _UNSTATED.search(cause)
    return found[1] if found else ""


@contextlib.asynccontextmanager
async def _line(path: str) -> AsyncIterator["_Line"]:
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE)
    except OSError:
        raise FarError(_NO_CONTROLLER) from None
    try:
        yield _Line(reader, writer)
    finally:
        writer.close()


class _Line:
    """One connection of the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    async def ask(self, method: str, params: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """The result; raises ``FarError``."""
        try:
            async with asyncio.timeout(timeout_s):
                async for name, told in self.going(method, params):
                    if name == "result":
                        return told
        except TimeoutError:
            raise FarError(Faulted("unavailable", f"no answer to {method} in time")) from None
        raise FarError(_NO_CONTROLLER)

    async def going(
        self, method: str, params: Mapping[str, Any]
    ) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """What is told until the result, which is the last: (``told`` or ``result``, it)."""
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        try:
            self._writer.write(orjson.dumps(asked) + b"\n")
            await self._writer.drain()
            while line := await self._reader.readline():
                message = orjson.loads(line)
                if message.get("id") == self._number and "method" not in message:
                    if error := message.get("error"):
                        raise FarError(_refused(error))
                    yield "result", message["result"]
                    return
                yield "told", message["params"]
        except (OSError, ValueError, asyncio.IncompleteReadError):
            raise FarError(_NO_CONTROLLER) from None
        raise FarError(_NO_CONTROLLER)


def _refused(error: Mapping[str, Any]) -> Faulted:
    """What the controller said no to. Its words are for the person who serves: they go to the door's log."""
    message = str(error.get("message"))
    if message.startswith("there is no chain"):
        return Faulted("chain_not_found", message)
    if message.startswith("the run cannot begin"):
        return Faulted("cannot_begin", message)
    return Faulted(
        "unavailable", message, "the controller does not do that now: the door's log has its words"
    )
