"""Names and references: parsed once at the door, printed one way.

Every name a person writes matches one ASCII pattern, so that no two names are equal after a file system,
a Unix socket path or an agent's harness has folded them. Interfaces are referred to as ``ocr/v1``, other
objects as ``binding/ocr-perso``, running instances as ``ocr-perso@a1f3c9…``.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

NAME_PATTERN = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
MAX_NAME = 40
MAX_INTERFACE_NAME = 20  # mcp__<interface>__<tool> must fit the 64 characters of the narrowest harness
MAX_TOOL_NAME = 32
RESERVED_INTERFACES = frozenset({"services"})  # `services.sock` is the door to all of them
SHOWN_DIGEST = 12  # hex digits of an instance digest that people see

# Variables that steer the sandbox, the loader or the interpreter: no connector is given one of them.
_STEERING = re.compile(
    r"HANDLER_.*|LD_.*|PYTHON.*|DENO_.*|NODE_.*|BASH_.*|PATH|HOME|TMPDIR|SHELL|IFS|ENV|USER|LANG|GCONV_PATH"
    r"|HTTPS?_PROXY|ALL_PROXY|NO_PROXY"
)
# Variables that the controller goes by itself, and what it starts: to take one out would be felt everywhere.
_OURS = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TERM|TMPDIR|PWD|XDG_.*|LD_.*|PYTHON.*|SSL_CERT_(FILE|DIR)"
    r"|HANDLER_(CONFIG|STATE|RUN|SESSION|SERVICES)|NOTIFY_SOCKET|WATCHDOG_.*|LISTEN_.*|CREDENTIALS_DIRECTORY"
    r"|DBUS_SESSION_BUS_ADDRESS|GNUPGHOME|PASSWORD_STORE_DIR|SSH_AUTH_SOCK|(?i:HTTPS?_PROXY|ALL_PROXY|NO_PROXY)"
)
_NAME = re.compile(NAME_PATTERN.replace("$", r"\Z"))
_INTERFACE_REF = re.compile(r"(?P<name>[a-z][a-z0-9]*(?:-[a-z0-9]+)*)/v(?P<version>[1-9][0-9]{0,5})")


class Kind(Enum):
    """The kinds of object that a configuration holds, by the word people write."""

    INTERFACE = "interface"
    CONNECTOR = "connector"
    BINDING = "binding"
    PROJECT = "project"
    AGENT = "agent"
    CHAIN = "chain"
    CONFIG = "config"
    POLICY = "policy"
    APPROVAL = "approval"
    PROFILE = "profile"
    DIALECT = "dialect"

    __hash__ = object.__hash__  # one object a member: an Enum's own hash is Python code, and hot in a load


def name_fault(text: str, limit: int = MAX_NAME) -> str | None:
    """Say in one clause why ``text`` is not a legal name, or None when it is."""
    if not text:
        return "a name cannot be empty"
    if not text.isascii():
        odd = next(ch for ch in text if not ch.isascii())
        return f"{odd!r} (U+{ord(odd):04X}) is not ASCII"
    if len(text) > limit:
        return f"it has {len(text)} characters, more than {limit}"
    if _NAME.match(text) is None:
        return "names are lower-case letters, digits and single dashes, and start with a letter"
    return None


def variable_is_reserved(name: str) -> bool:
    """Whether a variable of the environment bends the sandbox, the loader or the interpreter."""
    return _STEERING.fullmatch(name) is not None


def variable_is_ours(name: str) -> bool:
    """Whether the controller, or a program that it starts for a person, goes by a variable."""
    return _OURS.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, order=True)
class InterfaceRef:
    """One published version of an interface, written ``ocr/v1``."""

    name: str
    version: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``NAME/vN``; raises ValueError with the words that a problem shows."""
        match = _INTERFACE_REF.fullmatch(text)
        if match is None:
            raise ValueError(f"cannot read {text!r} as an interface version: write NAME/vN, like ocr/v1")
        return cls(match["name"], int(match["version"]))

    def __str__(self) -> str:
        return f"{self.name}/v{self.version}"


class ObjectRef(NamedTuple):  # ten thousand are hashed and compared at each look: a tuple does so fastest
    """One object of a configuration, written ``binding/ocr-perso`` (an interface: ``interface/ocr/v1``)."""

    kind: Kind
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``kind/name``, short kinds included; raises ValueError."""
        word, _, name = text.partition("/")
        kind = KIND_WORDS.get(word)
        if kind is None or not name:
            raise ValueError(f"cannot read {text!r} as an object: write KIND/NAME, like binding/ocr-perso")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}"

    def __lt__(self, other: tuple[object, ...]) -> bool:
        if not isinstance(other, ObjectRef):
            return NotImplemented
        return (self.kind.value, self.name) < (other.kind.value, other.name)


KIND_WORDS = {kind.value: kind for kind in Kind} | {
    "if": Kind.INTERFACE,
    "con": Kind.CONNECTOR,
    "b": Kind.BINDING,
    "p": Kind.PROJECT,
    "a": Kind.AGENT,
    "policies": Kind.POLICY,  # its plural is no s
}


PUBLISHED = frozenset({Kind.INTERFACE, Kind.PROFILE})  # the kinds that a lock can freeze


def locked_object(entry: str) -> ObjectRef:
    """What a lock's entry is about: ``ocr/v1`` an interface version, ``openai-chat.gpt-5@1`` a profile."""
    return ObjectRef(Kind.PROFILE if "@" in entry else Kind.INTERFACE, entry)


@dataclass(frozen=True, slots=True, order=True)
class InstanceName:
    """A running connector: its binding, and the digest (64 hex) of all that it is made from."""

    binding: str
    digest: str

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return f"{self.binding}@{self.digest[:SHOWN_DIGEST]}"


def tool_prefix(interface: str) -> str:
    """What every tool name of an interface starts with (S5): ``web-search`` gives ``web_search_``."""
    return interface.replace("-", "_") + "_"
