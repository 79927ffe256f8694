"""What a run knows while it goes: its variables, its counters, its tools, and how it asks and tells.

Everything here follows from the chain, the input, the settings and the answers so far, so that it need not be
stored: a run is resumed by giving it the same answers again. Instants come with the answers; nothing here
looks at a clock.
"""

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from reconciler.chains import allowlists, approvals, toolnames
from reconciler.chains.approvals import Decision
from reconciler.chains.asks import Ask, ToolFace
from reconciler.chains.events import Event, Kind, Unit
from reconciler.chains.flow import Value
from reconciler.chains.history import Message, ToolCall
from reconciler.chains.replies import Cancelled, Reply, TimedOut
from reconciler.model.approvals import Action, Policy
from reconciler.model.chain import Chain, ExecuteConfig, Task

Steps = Generator[Ask, Reply, Any]

USUAL_RESULT_BYTES = 256 * 1024  # of one tool's result, where a chain sets no token_limit


class Failure(Exception):  # noqa: N818 - it is a task's, and may be routed
    """A task that did not succeed: it may be tried again, and goes to ``on_failure``.

    ``code`` is a closed word; ``value`` what the task had made by then; ``final`` says that no other
    attempt may follow, since something may have happened that must not happen twice.
    """

    def __init__(self, code: str, message: str, *, value: Value | None = None, final: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.value, self.final = code, message, value, final


class Fatal(Exception):  # noqa: N818 - it ends the run
    """What ends a run whatever ``on_failure`` says; with ``task`` where one is to blame."""

    def __init__(self, code: str, message: str, task: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.task = code, message, task


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is started with besides its chain and input; a checkpoint holds it whole.

    ``started`` is when; ``variables`` what ``{{var:…}}`` finds; ``allowlist`` the caller's own list of
    providers (None: no restriction); ``context_length`` the tokens of one request (0: not known);
    ``temperature`` and ``client_tools`` what a caller of the OpenAI-compatible door sent.
    """

    run: str
    started: datetime
    variables: Mapping[str, str] = field(default_factory=dict)
    allowlist: tuple[str, ...] | None = None
    context_length: int = 0
    temperature: float | None = None
    client_tools: tuple[ToolFace, ...] = ()
    utc_offset_s: int = 0  # of the local time that {{now}} and {{date}} tell
    host_os: str = "linux"  # as Go names them: what {{host:os}} and {{host:arch}} tell
    host_arch: str = "amd64"


Judge = Callable[[str, str, Mapping[str, Any]], Decision]
"""Provider, tool and arguments to what the policy in force says."""


def allow_all(provider: str, tool: str, arguments: Mapping[str, Any]) -> Decision:
    """The policy of a run that has none: the runner's grants are all that holds it."""
    return Decision(Action.ALLOW)


def judge_by(policy: Policy) -> Judge:
    """What this policy says of each call; its rules may use the names of the format's other engines."""
    rules = toolnames.modern_rules(policy.rules)
    modern = replace(policy, rules=tuple(rule for _, rule in rules))

    def judge(provider: str, tool: str, arguments: Mapping[str, Any]) -> Decision:
        decision = approvals.decided(modern, provider, tool, arguments)
        return decision if decision.rule is None else replace(decision, rule=rules[decision.rule][0])

    return judge


@dataclass(frozen=True, slots=True)
class Laws:
    """What a run is handed each time it is begun or resumed: how tokens are counted, and who judges calls.

    They must say the same each time: whoever keeps a run keeps the policy that it began with. ``spares``: a
    call without an effect that no rule is about is made, where the policy would ask a person. ``fault``: what
    is wrong with arguments by their schema, so that nobody is asked about a call that could not be made.
    """

    tokens: Callable[[str], int]
    judge: Judge = allow_all
    spares: bool = False
    policy: str = ""  # whose rules these are, for whoever watches
    fault: Callable[[Mapping[str, Any], Mapping[str, Any]], str] = lambda schema, arguments: ""


class State:
    """The going of one run. Only ``engine`` and the handlers use it."""

    def __init__(self, chain: Chain, settings: Settings, laws: Laws) -> None:
        self.chain, self.settings, self.laws = chain, settings, laws
        self.now = settings.started
        self.variables: dict[str, Value] = {}
        self.counters: dict[str, int] = {}
        self.events: list[Event] = []
        self.units: list[Unit] = []
        self.faces: dict[str, tuple[ToolFace, ...]] = {}  # by task: what it may offer
        self.everything: dict[str, ToolFace] = {}  # by full name: what any task may offer
        self.asked_by: dict[str, ExecuteConfig | None] = {}  # by call: the config of whose model asked
        self.results: dict[str, Message] = {}  # by call: what was answered; none is made twice
        self.verdicts: dict[str, str] = {}  # by call: what a person said
        self.prepared: dict[str, Any] = {}  # by task: its texts, macros of the start expanded
        self.begun: set[str] = set()  # calls that were handed out and whose outcome is not known
        self.deadline: datetime | None = None
        self.began = settings.started
        self.retry = 0
        self.answered_by = ("", "")  # model and provider of the attempt's last answer
        self.used: list[str] = []  # tools of the attempt
        self._asks = 0
        self._ids = 0

    # asking

    def ask_id(self) -> str:
        """The id of the next ask: the same one when the run is resumed."""
        self._asks += 1
        return f"{self.settings.run}/{self._asks}"

    def ask(self, ask: Ask) -> Generator[Ask, Reply, Reply]:
        """The answer to an ask. Raises ``Fatal`` where the run is cancelled, ``Failure`` where time is up."""
        reply = yield ask
        if isinstance(reply, Cancelled):
            raise Fatal("cancelled", "the run was cancelled")
        if isinstance(reply, TimedOut):
            raise Failure("timeout", "the attempt took longer than its timeout")
        return reply

    def draw(self, ask: str) -> float:
        """A number in [0, 1) that depends on the ask alone: no two asks wait alike, and a resumed run waits
        as it did.
        """
        digest = hashlib.sha256(ask.encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48

    def in_time(self, seconds: float) -> datetime:
        """The instant so many seconds from now, or the end of the attempt where that is sooner."""
        wanted = self.now + timedelta(seconds=seconds)
        return min(wanted, self.deadline) if self.deadline else wanted

    @property
    def is_late(self) -> bool:
        """Whether the attempt has used up its time."""
        return self.deadline is not None and self.now >= self.deadline

    # telling

    def tell(self, kind: Kind, task: Task | None = None, **more: Any) -> None:
        """Add an event; what is empty is left out of it."""
        said = {key: value for key, value in more.items() if value not in ("", None, (), {})}
        name, handler = (task.id, task.handler) if task else ("", "")
        retry = self.retry if task else 0
        self.events.append(Event(len(self.events), kind, self.now.isoformat(), name, handler, retry, said))

    # messages

    def message_id(self) -> str:
        """The id of the next message."""
        self._ids += 1
        return f"{self.settings.run}-m{self._ids}"

    def result_of(self, call: ToolCall, content: str) -> Message:
        """The message that answers a call."""
        return Message(
            "tool", content, id=self.message_id(), tool_call_id=call.id, timestamp=self.now.isoformat()
        )

    # tools

    def scope(self, task: Task) -> tuple[str, ...]:
        """The providers whose tools a task may run: without a list of its own, all that the chain has."""
        config = task.execute_config
        wanted = config.tools if config else None
        registered = sorted({face.provider for face in self.everything.values()})
        return allowlists.executable(wanted, self.settings.allowlist, registered)

    def within(self, task: Task, faces: Iterable[ToolFace]) -> tuple[ToolFace, ...]:
        """Those of the tools that the task's own list and the caller's allow."""
        wanted = task.execute_config.tools if task.execute_config else None
        faces = tuple(faces)
        allowed = allowlists.narrowed(wanted, self.settings.allowlist, {one.provider for one in faces})
        return tuple(one for one in faces if one.provider in allowed)

    def policies(self, task: Task, provider: str, call: str = "") -> Mapping[str, str]:
        """The bounds of one call: the strictest of the task whose model asked and the one that runs it."""
        asking = self.asked_by.get(call)
        executing = task.execute_config.tools_policies if task.execute_config else {}
        both = allowlists.strictest(asking.tools_policies if asking else {}, executing)
        return both.get(provider, {})
