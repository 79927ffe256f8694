"""A model that says what a script says: for tests of chains, and named ``scripted`` wherever it shows.

A script is a list of answers, given in their order: ``text``, ``tools`` (``name``, ``arguments``), and for
trying out failures ``fail`` (a class like ``rate_limit``), ``code``; ``delaySeconds`` waits before it.
Nothing is sent anywhere. Which answer is next follows from how many the run had, so a resumed run goes on
where it was.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from reconciler.chains.ports import Asker, NotTurned, Offered, Told, Turned
from reconciler.chains.retrying import ErrorClass
from reconciler.model.outcome import Usage
from reconciler.model.turns import Finish, ModelFacts, ModelTurn, TextDelta, ToolUse, Turn

NAME = "scripted"
_KEYS = frozenset({"text", "tools", "fail", "code", "delaySeconds", "thinking"})
_SEES_ALL = ModelFacts(vision=True, audio_in=True, tools=True, parallel_tools=True, stream=True, think=True)
_LONGEST_S = 600


def read(script: Any) -> list[dict[str, Any]]:
    """A script, checked; raises ValueError in words for a person."""
    if not isinstance(script, list) or not all(isinstance(one, dict) for one in script):
        raise ValueError("a script is a list of answers, each an object")
    for number, one in enumerate(script):
        if unknown := sorted(one.keys() - _KEYS):
            raise ValueError(f"answer {number} of the script has {unknown[0]!r}; known: {sorted(_KEYS)}")
        if "fail" in one and one["fail"] not in [each.value for each in ErrorClass]:
            raise ValueError(
                f"answer {number} of the script fails as none of {[e.value for e in ErrorClass]}"
            )
        delay = one.get("delaySeconds", 0)
        if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= _LONGEST_S:
            raise ValueError(f"answer {number} of the script waits for more than 0 to {_LONGEST_S} s")
        if odd := [key for key in ("text", "thinking", "code") if not isinstance(one.get(key, ""), str)]:
            raise ValueError(f"{odd[0]!r} of answer {number} of the script is a text")
        _need_tools(one.get("tools", []), number)
    return script


def _need_tools(tools: Any, number: int) -> None:
    if not isinstance(tools, list):
        raise ValueError(f"'tools' of answer {number} of the script is a list")
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            raise ValueError(f"answer {number} of the script names no tool to call")
        if not isinstance(tool.get("arguments", {}), dict | str):
            raise ValueError(f"the arguments of a tool of answer {number} are an object, or text")


class Scripted:
    """The models of one run with a script. ``had`` says how many answers of a model the run has got."""

    def __init__(self, script: Sequence[Mapping[str, Any]], had: Callable[[], int]) -> None:
        self._script, self._had = script, had

    def offered(self, agent: str) -> tuple[Offered, ...]:
        """One model, for every name that is asked for."""
        return (Offered(NAME, NAME, NAME, _SEES_ALL, is_scripted=True),)

    async def turn(
        self, asker: Asker, provider: str, turn: Turn, *, told: Told | None, deadline: datetime | None
    ) -> Turned | NotTurned:
        """The script's next answer."""
        number = self._had()
        if number >= len(self._script):
            words = f"the script has {len(self._script)} answers, and another one was asked for"
            return NotTurned(ErrorClass.PERMANENT, "script_ended", words)
        line = self._script[number]
        await asyncio.sleep(line.get("delaySeconds", 0))
        if fail := line.get("fail"):
            return NotTurned(ErrorClass(fail), str(line.get("code") or fail), "the script says so")
        text = str(line.get("text", ""))
        if told is not None:
            for at, piece in enumerate(text.split(" ") if text else ()):
                told(TextDelta(f" {piece}" if at else piece))
            told(Finish("tools" if line.get("tools") else "stop"))
        uses = tuple(_use(number, at, one) for at, one in enumerate(line.get("tools", ())))
        usage = Usage(len(turn.messages), len(text.split()))
        turned = ModelTurn(
            text, "tools" if uses else "stop", uses, str(line.get("thinking", "")), usage=usage, model=NAME
        )
        return Turned(turned, NAME, NAME)


def _use(number: int, at: int, tool: Mapping[str, Any]) -> ToolUse:
    arguments = tool.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolUse(f"call-{number}-{at}", str(tool["name"]), text)
