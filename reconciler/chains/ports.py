"""What a run needs of whoever can ask models: one turn of one model, each transmission decided on its own.

The far end is the controller's: profiles, drivers, policy, gate. A run names a model and a provider (a
binding, or the provider of a profile; empty: the agent's own first); what is not granted to its agent is not
there. Nothing here tries again: a failed turn says its class, and the chain's own policy decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from reconciler.chains.retrying import ErrorClass
from reconciler.model.turns import Event, ModelFacts, ModelTurn, Turn


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom a model is asked: ``session`` counts budgets and taint; ``call`` is this turn's name, the same
    when a run is resumed (empty outside of a run).
    """

    agent: str
    session: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class Offered:
    """A model that an agent may ask, in its order: ``provider`` is the binding, ``kind`` the profile's
    provider. ``is_scripted``: a script answers, and nothing is sent; every surface says so.
    """

    model: str
    provider: str
    kind: str = ""
    facts: ModelFacts = field(default_factory=ModelFacts)
    is_scripted: bool = False


@dataclass(frozen=True, slots=True)
class Turned:
    """A whole answer, and which model gave it."""

    turn: ModelTurn
    model: str
    provider: str


@dataclass(frozen=True, slots=True)
class NotTurned:
    """No answer. ``code`` is a closed word (``no_models``, ``no_vision_model``, ``refused``,
    ``unavailable``, ``capacity``, …), ``detail`` for operators alone. ``midstream``: pieces were told
    before.
    """

    error: ErrorClass
    code: str
    detail: str = ""
    cannot_take_tools: bool = False
    midstream: bool = False


Told = Callable[[Event], None]


class Models(Protocol):
    """The models of an agent. All methods are for the loop's own thread; a cancelled turn stops at once."""

    def offered(self, agent: str) -> tuple[Offered, ...]:
        """What an agent may ask now, in its order; empty where it is granted no model."""
        ...

    async def turn(
        self, asker: Asker, provider: str, turn: Turn, *, told: Told | None, deadline: datetime | None
    ) -> Turned | NotTurned:
        """Ask ``turn.model`` (empty: the first) of ``provider`` (empty: any that has it), once. ``told``
        hears the pieces while they come, where the model can stream; the whole comes back either way.
        """
        ...


class NoModels:
    """Where no model can be asked from here."""

    def offered(self, agent: str) -> tuple[Offered, ...]:
        """None."""
        return ()

    async def turn(
        self, asker: Asker, provider: str, turn: Turn, *, told: Told | None, deadline: datetime | None
    ) -> Turned | NotTurned:
        """Say that there is none."""
        return NotTurned(ErrorClass.PERMANENT, "no_models", "no model can be asked by this controller")
