"""Local programs that end, in values: how one is run, one run exactly, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from reconciler.model.outcome import Effect


@dataclass(frozen=True, slots=True)
class Exit:
    """What an exit status means."""

    code: str  # an error code of the interface's, or the router's
    effect: Effect = "none"


@dataclass(frozen=True, slots=True)
class Output:
    """A file that the program leaves: its name in the output folder, its media types, its bound."""

    name: str
    media_types: tuple[str, ...]
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """How a local program is run. Arguments have holes: ``{in.NAME}`` and ``{out.NAME}`` are paths of ours,
    ``{field.NAME}`` is a value of the call. An argument whose optional field is not given is left out, with
    all of its group: ``optional`` maps a field to the arguments that speak of it.
    """

    program: str  # by name: the sandbox's list says where it is
    arguments: tuple[str, ...]
    outputs: Mapping[str, Output]
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exits: Mapping[int, Exit] = field(default_factory=dict)
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run, exactly: its unit is the job's id, its digest that of all that it is."""

    unit: str
    argv: tuple[str, ...]
    inputs: Mapping[str, str]  # file names in the input folder, to the sha256 of each
    outputs: Mapping[str, Output]
    timeout_s: float
    digest: str


@dataclass(frozen=True, slots=True)
class Left:
    """A regular file that a run left: how large, and how it begins (its first 64 bytes, or all)."""

    size: int
    head: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, as whoever ran it saw it. ``files`` are the outputs that are there, by key."""

    status: int | None  # None where it did not exit by itself
    cause: Literal["exit", "signal", "timeout", "memory", "cancelled"] = "exit"
    files: Mapping[str, Left] = field(default_factory=dict)
    tree_is_gone: bool = True  # no process of it is left
