"""Completes prompts with llama.cpp in this process: the tool of the llm interface over ``engine``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import completing
import engine
from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call


def complete(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``llm_complete``: what the model of that name answers."""

    def ask(messages: list[dict[str, Any]], schema: dict[str, Any] | None, most: int) -> completing.Turn:
        return engine.turn(name, messages, schema, most, stopped=call.cancelled.is_set)

    try:
        name = engine.model(arguments.get("model") or None)
        return completing.complete(arguments, ask, window=engine.window(), sees=False)
    except engine.TooLongError:
        raise Failure("too_long", "the prompt is longer than contextTokens") from None
    except engine.UnusableSchemaError:
        raise Failure("unsupported_schema", "the engine makes no grammar of it") from None
    except engine.StoppedError:
        raise Failure("unavailable", "cancelled") from None
    except engine.UnknownModelError as fault:
        raise Failure("unavailable", str(fault)) from None
    except engine.BrokenModelError:
        raise Failure("unavailable", f"{name}.gguf is no model that this llama.cpp loads") from None


if __name__ == "__main__":
    serve({"llm_complete": complete})
