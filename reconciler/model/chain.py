"""A task chain as written: a closed, frozen value for each table of its file.

A chain is a list of tasks; the first is where a run enters. Its keys keep their own names (snake_case),
unlike those of every other kind, so that chains of the format's other engines are read as they are. A key
that is ``null`` is one that is left out. What spans tasks (does a goto name one?) is asked in
``admission.chains``; what a chain does is ``chains.engine``.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from reconciler.model.checks import Field
from reconciler.model.forms import Record
from reconciler.model.records import Seq

HANDLERS = ("chat_completion", "execute_tool_calls", "tools", "route", "noop", "raise_error")
OPERATORS = (
    "default", "equals", "contains", "starts_with", "ends_with", "edge_traversed_at_least",
)  # fmt: skip
END = "end"  # a goto that ends the run, as an empty one does
BUDGET = "edge_traversed_at_least"
MAX_STEPS = 200  # tasks that a run may enter where its chain sets no other ceiling
ENVELOPE = ("input", "previous_output", "last_error")  # variables that the engine itself keeps

_SPAN = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
Duration = Annotated[
    str,
    Field(
        pattern=rf"^([-+]?(0|({_SPAN})+))?$",
        max_length=64,
        description="a span of time like 90s or 1m30s: numbers, each with ns, us, ms, s, m or h",
        examples=["30s"],
    ),
]


class ChainRecord(Record):
    """A record whose keys are written as they are named here."""

    keeps_names = True


class RetryPolicy(ChainRecord):
    """How a call of a model is tried again: after a rate limit, a fault of the server, or a timeout."""

    max_attempts: Annotated[int, Field(le=1000)] = 0
    """Calls in all, the first included; 0 and 1 are one."""
    initial_backoff: Duration | int = ""
    """The first wait; without it 500 ms. A whole number is nanoseconds. Each next wait is twice as long."""
    max_backoff: Duration | int = ""
    """The longest wait, from the second on; without it there is none."""
    jitter: float = 0.0
    """The share of a wait by which it may grow at random."""
    rate_limit_min_wait: Duration | int = ""
    """The shortest wait after a rate limit."""
    fallback_model_id: str = ""
    """The model for the rest of the attempts, once the first one failed `fallback_after` times in a row."""
    fallback_after: int = 0
    """After how many failures the fallback is called; 0 never calls it."""


class ExecuteConfig(ChainRecord):
    """Which model answers a task, and which tools it may call."""

    model: str = ""
    """The model that is asked first (macros); without one, the runner's first."""
    models: Seq[str] = ()
    """More models, tried in this order."""
    provider: str = ""
    """The binding, or the provider of a profile, that is asked first (macros)."""
    providers: Seq[str] = ()
    """More of them; of the same length as `models`, each goes with the model at its place."""
    temperature: float | None = None
    """The model's temperature; without it none is sent (`route`: 0)."""
    tools: Seq[str] | None = None
    """The providers of tools: names, `*` for all, `!name` for all but that; without it none is offered."""
    hide_tools: Seq[str] = ()
    """Tools that are left out, as `provider.tool` or `tool`."""
    tools_policies: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Bounds for each provider's tools. The strictest of the asking and the calling task's holds."""
    pass_clients_tools: bool = False
    """Whether tools that a caller of the OpenAI-compatible door brings are offered."""
    think: str = ""
    """How much the model thinks (macros): off, minimal, low, medium, high, xhigh, auto."""
    max_tokens: (
        Annotated[int, Field(ge=0, le=2**31)]
        | Annotated[str, Field(pattern=r"^([0-9]{1,10}|[^\x00]*\{\{[^\x00]*)?$", max_length=4096)]
        | None
    ) = None
    """The longest answer, in tokens, or a macro for it; 0 sends none."""
    shift: bool = False
    """Whether the oldest messages go when the history outgrows `token_limit`."""
    retry_policy: RetryPolicy | None = None
    """How a failed call of the model is tried again."""


class StaticTool(ChainRecord):
    """The tool that a task of handler `tools` calls, whatever a model says."""

    name: str = ""
    """The provider: an interface that the runner is granted."""
    tool_name: str = ""
    """The tool; without it, the provider's only one."""
    args: dict[str, str] = Field(default_factory=dict)
    """Arguments that are always the same. No macro or template is expanded in them."""


class Branch(ChainRecord):
    """One way on from a task that succeeded."""

    operator: str = ""
    """`default`, `equals`, `contains`, `starts_with`, `ends_with` or `edge_traversed_at_least`."""
    when: str = ""
    """What the task's word is compared with; for a budget, how often the edge was taken."""
    goto: str = ""
    """The next task; `end` or nothing ends the run."""
    edge: str = ""
    """For a budget: the edge that is counted, as `from->to`."""

    def fits(self, word: str) -> bool:
        """Whether a task's word takes this way, byte by byte; never of `default` and of budgets."""
        match self.operator:
            case "equals":
                return word == self.when
            case "contains":
                return self.when in word
            case "starts_with":
                return word.startswith(self.when)
            case "ends_with":
                return word.endswith(self.when)
            case _:
                return False


class Transition(ChainRecord):
    """Where a run goes after a task."""

    on_failure: str = ""
    """The task that takes over when this one failed for good; without it, the run fails."""
    branches: Seq[Branch] = ()
    """Ways on, the first that fits; `default` after all others. Without any, the run ends here."""


class Task(ChainRecord):
    """One step of a chain: a value in, a value and a word out; the word chooses the branch."""

    id: str = ""
    """The task's name in this chain; `end` is taken."""
    description: str = ""
    """What it is for."""
    handler: str = ""
    """What it does: `chat_completion`, `execute_tool_calls`, `tools`, `route`, `noop` or `raise_error`."""
    system_instruction: str = ""
    """What the model is told first (macros)."""
    execute_config: ExecuteConfig | None = None
    """Which model answers, and which tools it may call."""
    tools: StaticTool | None = None
    """The tool that a task of handler `tools` calls."""
    prompt_template: str = ""
    """A text that replaces the input: macros, then a Go template over the run's variables."""
    output_template: str = ""
    """For handler `tools`: a text that replaces the result, and is the task's word."""
    print: str = ""
    """A text for whoever watches, after success: macros, then a Go template over the variables."""
    input_var: str = ""
    """The variable that is read instead of the output of the task before."""
    input_max_bytes: Annotated[int, Field(le=2**40)] = 0
    """The largest input; what is longer is cut, and says so. 0 sets no limit."""
    transition: Transition = Transition()
    """Where the run goes after it."""
    timeout: Duration = ""
    """How long one attempt may take."""
    retry_on_failure: Annotated[int, Field(le=1000)] = 0
    """How often the whole task is tried again, at once and with the same input."""


class Chain(ChainRecord):
    """A task chain: `chains/ID.json` or `chains/ID.toml`."""

    schema_: Annotated[str | None, Field(alias="$schema")] = None
    """Where an editor finds the schema of this file; nothing is fetched from there."""
    id: str = ""
    """The chain's name: that of its file."""
    description: str = ""
    """What it is for."""
    tasks: Seq[Task] = ()
    """The tasks; a run enters at the first."""
    token_limit: int = 0
    """The budget of one request to a model, in tokens, tools included; 0 sets none."""
    debug: bool = False
    """Whether providers of tools are told to say more."""
    max_steps: Annotated[int, Field(ge=1, le=100_000)] = MAX_STEPS
    """How many tasks a run may enter before it fails as `step_limit`."""


def task_by_id(chain: Chain) -> Mapping[str, Task]:
    """The tasks by name; of a name that is given twice (V4 refuses it), the first."""
    found: dict[str, Task] = {}
    for task in chain.tasks:
        found.setdefault(task.id, task)
    return found


def edges(chain: Chain) -> Iterator[tuple[str, str, str]]:
    """Every way from a task to another, or to the end: source, target (``end`` for the end), and its label:
    ``equals x``, ``default``, ``on_failure``, ``edge_traversed_at_least 3``.
    """
    for task in chain.tasks:
        for branch in task.transition.branches:
            label = branch.operator if branch.operator == "default" else f"{branch.operator} {branch.when}"
            yield task.id, branch.goto or END, label
        if task.transition.on_failure:
            yield task.id, task.transition.on_failure, "on_failure"


def labels(task: Task) -> tuple[str, ...]:
    """The answers that a ``route`` chooses among: the words of its ``equals`` branches, as written."""
    words = [one.when for one in task.transition.branches if one.operator == "equals" and one.when.strip()]
    return tuple(dict.fromkeys(words))
