"""A call with an effect as router and ledger speak of it: kept before it is sent, and how it ended after.

The router is handed an ``Effects``. It says ``begin`` before the first byte goes to a connector, and sends
nothing until it hears that the attempt is kept; it says ``settle`` once the outcome is known, or known to be
unknown. What may have happened is never sent again by us. An agent reads ``outcome_unknown`` then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from reconciler.model.calls import Refusal
from reconciler.model.contract import Tool
from reconciler.model.routes import Route

UNKNOWN = "outcome_unknown"
CONFLICT = "idempotency_conflict"  # a key that stood for something else before; agents read ``refused``
REQUEST_KEY = "request_key"  # the input by which an interface lets its caller tell a repetition
Effect = Literal["happened", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Intent:
    """A call that is about to have an effect: who wants what of whom.

    ``arguments`` are as the agent gave them, ``files`` what they named: property, bytes, sha256. Of a job,
    ``handed`` is what a connector reads in the place of the files: each with its ``name`` and ``blob``, a
    file in the staging folder. ``key`` names the call, where its caller can name it; else the interface's
    ``request_key`` may.
    """

    agent: str
    session: str
    route: Route
    tool: Tool
    arguments: Mapping[str, Any]
    files: tuple[tuple[str, int, str], ...]
    timeout_s: float
    handed: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""  # of whoever makes the same call again after a restart, and means the same one


@dataclass(frozen=True, slots=True)
class Begun:
    """The attempt is kept: the call may go out, once. ``attempt`` names it to operators."""

    attempt: str


@dataclass(frozen=True, slots=True)
class Known:
    """The call was made before, under this attempt: what came of it, ``ok`` with the answer, or a code."""

    attempt: str
    code: str
    structured: bytes = b""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended. ``code`` is what the agent reads ("ok": the answer), ``cause`` for operators."""

    effect: Effect
    code: str = "ok"
    cause: str = ""
    structured: bytes = b""
    was_sent: bool = True  # False: no byte of the call came to the connector


Heard = Callable[[Begun | Known | Refusal], None]


class Effects(Protocol):
    """Who keeps attempts. Both call back exactly once, on the loop, within some seconds."""

    def begin(self, intent: Intent, heard: Heard) -> None:
        """Keep that the call is about to be sent. Unless it hears ``Begun`` nobody sends anything."""
        ...

    def settle(self, attempt: str, ending: Ending, heard: Callable[[], None]) -> None:
        """Keep how it ended. What cannot be written now is written later: nobody waits for a broken disk."""
        ...


class Unkept:
    """Where there is no ledger nothing that has an effect is done."""

    def begin(self, intent: Intent, heard: Heard) -> None:
        """Refuse."""
        heard(Refusal("unavailable", "there is no ledger to keep the attempt in"))

    def settle(self, attempt: str, ending: Ending, heard: Callable[[], None]) -> None:
        """Nothing was begun."""
        heard()
