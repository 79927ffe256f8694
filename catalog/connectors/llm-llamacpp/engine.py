"""One model at a time in llama.cpp, and one completion at a time: a second would halve both.

A model is loaded with the first call for it and stays until another is asked for. The answer comes in
pieces, so that a call for which nobody waits any more ends within a token, and what the model wrote until
its bound is kept.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import Any

from completing import Turn

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_SUFFIX = ".gguf"
_USUAL_CONTEXT = 8192

Stopped = Callable[[], bool]


class UnknownModelError(Exception):
    """The folder has no such model, or there is more than one and none was named."""


class BrokenModelError(Exception):
    """The file is no model that this engine loads."""


class TooLongError(Exception):
    """The prompt is longer than the model's window."""


class StoppedError(Exception):
    """Nobody waits for the answer any more."""


class UnusableSchemaError(Exception):
    """The engine cannot hold its answers to this schema."""


def model(named: str | None) -> str:
    """The name of the model to use; raises UnknownModelError."""
    here = sorted(
        one.name.removesuffix(_SUFFIX)
        for one in os.scandir(_folder())
        if one.name.endswith(_SUFFIX)
        and one.is_file()  # the engine would wait for a pipe with all that it holds
    )
    if named is None and len(here) == 1:
        return here[0]
    if named is None:
        raise UnknownModelError(
            f"the folder has {len(here)} models: list those to use in the binding's models"
        )
    if not _NAME.fullmatch(named) or named not in here:
        raise UnknownModelError("the folder has no such model")
    return named


def window() -> int:
    """How many tokens the engine is set up for."""
    return int(os.environ.get("LLAMA_CONTEXT_TOKENS") or _USUAL_CONTEXT)


def turn(
    name: str, messages: list[dict[str, Any]], schema: dict[str, Any] | None, most: int, *, stopped: Stopped
) -> Turn:
    """One answer of the model; raises what this module names."""
    body: dict[str, Any] = {
        "messages": messages,
        "max_tokens": most,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    with _busy:
        if stopped():
            raise StoppedError
        answer = _Answer(stopped)
        try:
            _loaded(name).handle_chat_completions(body, answer.take)
        except ValueError as fault:  # what the engine says of a grammar that it cannot make
            raise UnusableSchemaError from fault
    return answer.whole(with_schema=schema is not None)


class _Answer:
    """The pieces of one answer, as they come."""

    def __init__(self, stopped: Stopped) -> None:
        self._stopped = stopped
        self._parts: list[str] = []
        self._usage: dict[str, int] = {}
        self._error: dict[str, Any] = {}

    def take(self, piece: Any) -> bool:
        """Keep one piece; True ends the answer."""
        for one in piece if isinstance(piece, list) else [piece]:
            self._error = self._error or one.get("error") or {}
            self._usage = one.get("usage") or self._usage
            for choice in one.get("choices") or ():
                self._parts.append(choice.get("delta", {}).get("content") or "")
        return self._stopped()

    def whole(self, *, with_schema: bool) -> Turn:
        if self._error.get("type") == "exceed_context_size_error":
            raise TooLongError
        if with_schema and self._error.get("type") == "invalid_request_error":
            raise UnusableSchemaError  # messages are always well formed: it makes no grammar of the schema
        if self._error:
            raise RuntimeError(f"the engine ended with {self._error.get('type')}")
        if self._stopped():
            raise StoppedError
        text = "".join(self._parts).encode("utf-8", "replace").decode()
        return Turn(text, self._usage.get("prompt_tokens", 0), self._usage.get("completion_tokens", 0))


_busy = threading.Lock()
_servers: dict[str, Any] = {}  # at most one


def _loaded(name: str) -> Any:
    if name not in _servers:
        import xllamacpp  # noqa: PLC0415 - 100 MB that only the first call needs

        _servers.clear()  # before the next is read: two may be more than the memory
        wanted = xllamacpp.CommonParams()
        wanted.model.path = f"{_folder()}/{name}{_SUFFIX}"
        wanted.n_ctx = window()
        wanted.n_parallel = 1
        wanted.n_gpu_layers = 0
        wanted.fit_params = False
        wanted.warmup = False
        wanted.verbosity = 0
        wanted.cpuparams.n_threads = min(_setting_threads(), len(os.sched_getaffinity(0)))
        try:
            _servers[name] = xllamacpp.Server(wanted)
        except (RuntimeError, ValueError) as fault:
            raise BrokenModelError from fault
    return _servers[name]


def _setting_threads() -> int:
    return int(os.environ.get("LLAMA_THREADS") or 4)


def _folder() -> str:
    return os.environ["LLAMA_MODELS"]
