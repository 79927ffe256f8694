"""The way to language models for whoever holds a conversation: task chains and the OpenAI-compatible door.

``Models`` is handed to them, and control implements it. One ``turn`` is one transmission: it has a decision
and a budget charge of its own, and is never repeated here; whoever asks retries, or does not. Which models
there are is what the caller's own routes grant: exact ids, in order. A binding that speaks a dialect is asked
by its driver; one with code of its own by ``llm_complete``, where the turn fits that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from reconciler.model.outcome import Effect, Seen
from reconciler.model.routes import AgentRoutes
from reconciler.model.turns import Answered, Event, ModelFacts, Turn

Missing = Literal["no_models", "model_not_found", "no_vision_model"]
# What became of a turn that brought no answer, as a closed word that chains and doors can map:
Fault = Literal[
    "invalid_input",  # the server says that the request is no good (too long, most often)
    "refused",  # the profile does not state what is asked, the policy denies it, or the model is not granted
    "rate_limit",  # the server wants to be asked later
    "auth",  # the server does not take the credential
    "limit",  # ours: too many at once
    "unavailable",  # it is down, cannot be reached, or cannot be understood
    "timeout",
    "substituted",  # another model than the one asked for answered
]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: an agent's session with the routes it has pinned. ``purpose`` and ``interface`` are what a
    policy is told; ``entry`` is the call that let it in, "" where none did.
    """

    agent: str
    session: str
    routes: AgentRoutes
    purpose: str = "llm"
    interface: str = "llm/v1"
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model that a caller may ask: by its exact id, through a binding, as a profile's provider has it. ""
    is the usual one of a connector that lets any be asked for.
    """

    model: str
    binding: str
    provider: str  # the profile's
    facts: ModelFacts = field(default_factory=ModelFacts)
    is_called: bool = False  # a connector with code: asked by ``llm_complete``, which leaves its own record

    def is_of(self, provider: str) -> bool:
        """Whether a provider's name means it: the binding's, or the profile's provider; "": any."""
        return provider in ("", self.binding, self.provider)


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """No answer. ``cause`` is for operators alone: no payload, no words of a vendor. ``effect`` ``none`` is a
    proof that no model worked on it. ``began``: events were given away before it broke.
    """

    fault: Fault
    cause: str
    effect: Effect = "unknown"
    retry_after_s: float | None = None
    began: bool = False
    seen: Seen = field(default_factory=Seen)


class Models(Protocol):
    """All of it on the loop's own thread."""

    def candidates(self, caller: Caller) -> tuple[Candidate, ...]:
        """The models that a caller may ask, the default first; () where it has none."""
        ...

    async def turn(
        self,
        caller: Caller,
        candidate: Candidate,
        turn: Turn,
        *,
        timeout_s: float,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered | TurnFailed:
        """Ask once. ``turn.model`` is set to the candidate's. With ``on_event`` and a model whose facts say
        ``stream``, the answer comes in events first, whole in the end. Cancelling drops the connection.
        """
        ...


def choose(
    found: Iterable[Candidate], model: str = "", provider: str = "", *, vision: bool = False
) -> Candidate | Missing:
    """The candidate that is meant: ids match exactly, no id is the first of all; a word where none is."""
    granted = [one for one in found if one.is_of(provider)]
    if not granted:
        return "no_models"
    named = [one for one in granted if not model or one.model == model]
    if not named:
        return "model_not_found"
    if not vision:
        return named[0]
    return next((one for one in named if one.facts.vision), "no_vision_model")
