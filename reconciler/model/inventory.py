"""A tree of files as read, and the resources found in it.

A ``Tree`` is one consistent reading of one layer: bytes by path, and what could not be read, said rather than
left out. An ``Inventory`` is both layers parsed. Values that did not change between two readings are the same
objects (``is``), which is how later rooms see cheaply what changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Problem
from reconciler.model.resources import Agent, Binding, Config, Connector, Interface, Project, Record

R_co = TypeVar("R_co", bound=Record, covariant=True)


class Layer(Enum):
    """Who a file belongs to; a configuration adds to the catalogue and never changes it."""

    CATALOG = "catalog"
    CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that could not be taken in, found while reading: ``too_large``, ``special``, ``symlink``,
    ``unreadable``.
    """

    word: str
    detail: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One consistent reading of a layer: path (posix, relative) to bytes, and the faults of what was not
    read.

    ``executable`` lists the paths that carry an execute bit, since a digest of a folder counts modes.
    """

    revision: str
    files: Mapping[str, bytes]
    faults: Mapping[str, Fault] = field(default_factory=dict)
    executable: frozenset[str] = frozenset()

    def unread(self, path: str) -> Fault | None:
        """Why the file at ``path`` (or a folder above it) could not be read, or None.

        What is unread is not gone: nothing may be taken for removed below such a path.
        """
        parts = path.split("/")
        for end in range(len(parts), 0, -1):
            if fault := self.faults.get("/".join(parts[:end])):
                return fault
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Resource(Generic[R_co]):
    """One parsed object: the file that defines it, its typed spec, and the files that belong to it.

    ``files`` are the paths of the object's whole folder for an interface or a connector, else its one file.
    ``digest`` is sha256 (hex) over them: path, mode and bytes of each, sorted.
    """

    ref: ObjectRef
    layer: Layer
    file: str
    digest: str
    spec: R_co
    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Inventory:
    """Everything found in both layers, good or not. A refused text has problems and no resource."""

    revision: str
    resources: Mapping[ObjectRef, Resource[Record]]
    problems: tuple[Problem, ...]
    sources: Mapping[tuple[Layer, str], bytes]  # what places are looked up in
    locks: Mapping[Layer, "Lock"]
    trees: Mapping[Layer, Tree]
    memory: object = field(default=None, repr=False)  # what the loader recognises unchanged files by; its own

    def interface(self, name: str) -> Resource[Interface] | None:
        return self._typed(Kind.INTERFACE, name, Interface)

    def connector(self, name: str) -> Resource[Connector] | None:
        return self._typed(Kind.CONNECTOR, name, Connector)

    def binding(self, name: str) -> Resource[Binding] | None:
        return self._typed(Kind.BINDING, name, Binding)

    def project(self, name: str) -> Resource[Project] | None:
        return self._typed(Kind.PROJECT, name, Project)

    def agent(self, name: str) -> Resource[Agent] | None:
        return self._typed(Kind.AGENT, name, Agent)

    def config(self) -> Config:
        """The settings in force; defaults when there is no ``handler.toml`` (or a refused one)."""
        found = self._typed(Kind.CONFIG, "handler", Config)
        return found.spec if found else Config()

    def names(self, kind: Kind) -> tuple[str, ...]:
        return tuple(sorted(ref.name for ref in self.resources if ref.kind is kind))

    def _typed(self, kind: Kind, name: str, model: type[R_co]) -> Resource[R_co] | None:
        found = self.resources.get(ObjectRef(kind, name))
        if found is None or not isinstance(found.spec, model):
            return None
        return found  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class LockEntry:
    """A published interface version or profile: digest of its folder (of a profile, of its facts), digest of
    what the model sees, who reviewed it, when.
    """

    ref: str  # ocr/v1, openai-images.gpt-image-2@1
    digest: str  # sha256:…
    model_digest: str  # sha256:… over RFC 8785 of tools.json and the skill's text; "" of a profile
    reviewed_by: str
    published: str  # ISO date
    line: int = 0
    files: tuple[tuple[str, str], ...] = ()  # each path in the folder and its sha256:…, so that one is named


@dataclass(frozen=True, slots=True)
class Lock:
    """One layer's ``handler.lock``, by interface version or profile."""

    entries: Mapping[str, LockEntry] = field(default_factory=dict)
