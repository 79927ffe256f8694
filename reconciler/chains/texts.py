"""The texts of a chain for one run: macros expanded once, counters and templates at each step.

A variable that is missing ends the run before anything is told. What a template cannot render ends the run,
too, but for ``output_template``, which fails its task: it speaks of what a tool gave. A conversation in a
template has the field names of the format's templates (``.Messages``, ``.CallTools``), and as JSON those of
its files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from typing import Any

from reconciler.chains import history
from reconciler.chains.flow import Value
from reconciler.chains.history import History
from reconciler.chains.retrying import RetryPolicy
from reconciler.chains.state import Failure, Fatal, State
from reconciler.model import durations
from reconciler.model.chain import ExecuteConfig, Task
from reconciler.templates import histories, macros, rendering
from reconciler.templates.macros import Expanded, Field, Known, MacroError

_NO_CONFIG = ExecuteConfig()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task's texts at one step: plain ones as they are sent, ``output`` still a template."""

    system: str
    output: Expanded
    model: str
    provider: str
    think: str
    max_tokens: int
    retry: RetryPolicy


@dataclass(frozen=True, slots=True)
class _Texts:
    """The same for the whole run: everything but the counters is in."""

    system: Expanded
    prompt: Expanded
    output: Expanded
    shown: Expanded
    prepared: Prepared


def check(state: State) -> None:
    """Raises ``Fatal`` for a variable that is missing, in whichever task."""
    prepare(state)


def prepare(state: State) -> None:
    """Expand the macros of every task, by the tools that are known by now. Raises ``Fatal``."""
    for task in state.chain.tasks:
        try:
            state.prepared[task.id] = _expanded(state, task)
        except MacroError as fault:
            raise Fatal("missing_variable", str(fault), task.id) from fault


def _expanded(state: State, task: Task) -> _Texts:
    known, config = _known(state, task), task.execute_config or _NO_CONFIG

    def name(text: str) -> str:
        return macros.expanded(text, known, Field.NAME).text({})

    most = config.max_tokens
    prepared = Prepared(
        "",
        Expanded(()),
        model=name(config.model),
        provider=name(config.provider),
        think=name(config.think).strip(),
        max_tokens=_tokens(task, name(most)) if isinstance(most, str) else most or 0,
        retry=_policy(config),
    )
    return _Texts(
        macros.expanded(task.system_instruction, known, Field.SYSTEM),
        macros.expanded(task.prompt_template, known, Field.TEMPLATE),
        macros.expanded(task.output_template, known, Field.TEMPLATE),
        macros.expanded(task.print, known, Field.TEMPLATE),
        prepared,
    )


def _known(state: State, task: Task) -> Known:
    settings = state.settings
    zone = timezone(timedelta(seconds=settings.utc_offset_s))
    tools: dict[str, tuple[str, ...]] = {}
    for face in state.faces.get(task.id, ()):
        tools[face.provider] = tuple(sorted({*tools.get(face.provider, ()), face.name}))
    variables = {**settings.variables, "chain": state.chain.id}
    now = settings.started.astimezone(zone)
    return Known(variables, state.chain.id, now, settings.host_os, settings.host_arch, tools)


def _tokens(task: Task, text: str) -> int:
    """The most tokens of an answer, as text: nothing is no bound, and anything but a count ends the run."""
    bare = text.strip()
    if not bare:
        return 0
    if not bare.isdecimal() or not bare.isascii():
        raise Fatal("bad_max_tokens", f"max_tokens of {task.id} is {bare[:40]!r}, which is no count", task.id)
    return int(bare)


def _policy(config: ExecuteConfig) -> RetryPolicy:
    written = config.retry_policy
    if written is None:
        return RetryPolicy()
    return RetryPolicy(
        written.max_attempts,
        durations.span_ns(written.initial_backoff),
        durations.span_ns(written.max_backoff),
        written.jitter,
        durations.span_ns(written.rate_limit_min_wait),
        written.fallback_model_id,
        written.fallback_after,
    )


# at a step


def prepared(state: State, task: Task) -> Prepared:
    """A task's texts, with the counters as they stand."""
    texts: _Texts = state.prepared[task.id]
    return replace(texts.prepared, system=texts.system.text(state.counters), output=texts.output)


def prompt(state: State, task: Task) -> str | None:
    """The text that replaces the input, or None where the task has no template. Raises ``Fatal``."""
    if not task.prompt_template:
        return None
    return _of_variables(state, task, state.prepared[task.id].prompt)


def printed(state: State, task: Task) -> str:
    """What is shown after the task; "" for nothing. Raises ``Fatal``."""
    return _of_variables(state, task, state.prepared[task.id].shown) if task.print else ""


def of_result(output: Expanded, value: Value, state: State) -> str:
    """A tool's result through ``output_template``. Raises ``Failure``."""
    source, bound = output.template(state.counters)
    try:
        return _rendered(source, seen(value), bound)
    except ValueError as fault:
        raise Failure("template", f"output_template: {fault}", value=value) from fault


def _of_variables(state: State, task: Task, text: Expanded) -> str:
    source, bound = text.template(state.counters)
    data = {name: seen(value) for name, value in state.variables.items()}
    try:
        return _rendered(source, data, bound)
    except ValueError as fault:
        raise Fatal("template", f"a template of {task.id} cannot be rendered: {fault}", task.id) from fault


def _rendered(source: str, data: Any, bound: Mapping[str, str]) -> str:
    return rendering.rendered(rendering.parsed(source, frozenset(bound)), data, bound=bound)


def seen(value: Value) -> Any:
    """A value as a template sees it."""
    return histories.history(history.to_json(value.data)) if isinstance(value.data, History) else value.data
