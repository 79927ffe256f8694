"""The part of an agent's file that says how it works for others: ``run``."""

from typing import Annotated

from reconciler.model.forms import Field
from reconciler.model.records import Record, Seq


class Run(Record):
    """How this agent runs as a service for others."""

    command: Seq[str] | None = None
    """The program and its arguments, in a sandbox; `{input}` is one of them, and what stands on its stdin."""
    chain: str | None = None
    """The task chain that answers."""
    timeout_seconds: Annotated[float, Field(gt=0, le=21_600)] = 3600
    """Of one run of a command: the longest that it may take."""
