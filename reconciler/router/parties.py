"""Who a call is between: the client that it came from, and itself, as its connection holds it."""

from typing import Protocol

from reconciler.wire.jsonrpc import Id


class Client(Protocol):
    """The connection that a call came from."""

    def answered(self, ident: Id, line: bytes | None) -> None:
        """The call of that id is over; the line (None: nothing) goes to the agent."""
        ...

    def send(self, line: bytes) -> None:
        """Write to the agent, when it is still there."""
        ...

    def report(self, line: bytes) -> None:
        """Progress: may be left out when the agent does not keep up."""
        ...


class Flying(Protocol):
    """A call on its way, as its connection holds it."""

    over: bool

    def is_late(self) -> bool:
        """Whether the call's time is up, on the router's clock."""
        ...

    def expire(self) -> None:
        """The deadline passed: the agent is told, the connector is told to stop."""
        ...

    def cancel(self) -> None:
        """The agent gave the call up: stop, and say nothing."""
        ...

    def abandon(self, why: str) -> None:
        """Its session ends: the agent is told that nobody answers, the connector is told to stop."""
        ...


class Nobody:
    """The client of a call whose agent left."""

    def answered(self, ident: Id, line: bytes | None) -> None:
        """Nobody hears of it."""

    def send(self, line: bytes) -> None:
        """Nobody hears of it."""

    def report(self, line: bytes) -> None:
        """Nobody hears of it."""


NOBODY = Nobody()
