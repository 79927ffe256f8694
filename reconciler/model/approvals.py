"""Which tool calls of a chain need a person: the policy, as it is written and as it is read.

A policy is a default and rules, of which the first that fits decides: ``allow``, ``approve`` (a person is
asked), ``deny``. Nothing is guessed: a key, an action or an operator that is not known refuses the policy,
and so does a pattern that cannot be read. Without a policy, ``BUILT_IN`` stands: reading is allowed, what
looks like a secret is denied, the rest is asked.
"""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from reconciler.model import globs

_LONGEST_S = 7 * 86_400  # a question that nobody answers in a week is answered by no


class Action(Enum):
    """What becomes of a call."""

    ALLOW = "allow"
    APPROVE = "approve"
    DENY = "deny"


class Op(Enum):
    """How a condition looks at an argument."""

    EQ = "eq"  # its text is the value
    GLOB = "glob"  # it is a path that the pattern stands for
    HOST = "host"  # it is an address on that host or below it
    COMMAND_BLACKLIST = "command_blacklist"  # it runs one of these programs
    COMMAND_ASK_ALWAYS = "command_ask_always"  # the same, under the name of what it is for
    COMMAND_PREFIX_ALLOWLIST = "command_prefix_allowlist"  # it runs nothing but commands that begin so
    NO_COMMAND_SUBSTITUTION = "no_command_substitution"  # it holds what a shell would run


@dataclass(frozen=True, slots=True)
class Condition:
    """One look at the argument ``key``; an empty key, for substitutions alone, looks at all arguments."""

    key: str
    op: Op
    value: str
    patterns: tuple[str, ...] = ()  # of a glob


@dataclass(frozen=True, slots=True)
class Rule:
    """Which calls it is for (an empty name is any), when, and what becomes of them. ``timeout_s``
    0: unset.
    """

    provider: str
    tool: str
    action: Action
    when: tuple[Condition, ...] = ()
    timeout_s: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules, of which the first that fits decides, and what becomes of a call that none fits."""

    rules: tuple[Rule, ...]
    default: Action = Action.APPROVE


class PolicyError(ValueError):
    """A policy that cannot be read: ``path`` of the value, like ``rules[0].when[1].op``, what, and
    the mend.
    """

    def __init__(self, path: str, what: str, mend: str) -> None:
        """Say ``what`` is wrong at ``path``, and what to write instead."""
        super().__init__(f"{path}: {what}: {mend}")
        self.path = path
        self.what = what
        self.mend = mend


def policy(document: Mapping[str, object]) -> Policy:
    """The policy that a document writes (``defaultAction``, ``rules``); raises PolicyError at the first
    fault.
    """
    _closed(document, "", {"defaultAction", "rules", "description"})
    default = Action.APPROVE
    if "defaultAction" in document:
        default = _choice(document, "", "defaultAction", Action)
    return Policy(tuple(_rule(row, path) for path, row in _rows(document, "", "rules")), default)


def _rule(row: Mapping[str, object], path: str) -> Rule:
    _closed(row, path, {"tools", "tool", "when", "action", "timeoutSeconds", "onTimeout", "description"})
    action = _choice(row, path, "action", Action)
    if row.get("onTimeout", "deny") != "deny":
        raise PolicyError(
            f"{path}.onTimeout", "a question that nobody answers is denied", "write 'deny', or nothing"
        )
    timeout = row.get("timeoutSeconds", 0)
    if not isinstance(timeout, int) or isinstance(timeout, bool) or not 0 <= timeout <= _LONGEST_S:
        raise PolicyError(f"{path}.timeoutSeconds", "no question waits so long", "write 0 to 604800")
    when = tuple(_condition(inner, at, action) for at, inner in _rows(row, path, "when"))
    return Rule(_name(row, path, "tools"), _name(row, path, "tool"), action, when, timeout)


def _condition(row: Mapping[str, object], path: str, action: Action) -> Condition:
    _closed(row, path, {"key", "op", "value"})
    op = _choice(row, path, "op", Op)
    key, value = _text(row, path, "key"), _text(row, path, "value")
    whole = op is Op.NO_COMMAND_SUBSTITUTION
    if not key and not whole:
        raise PolicyError(f"{path}.key", "the condition looks at no argument", "write the argument's name")
    if not value.strip() and not whole and op is not Op.EQ:
        raise PolicyError(f"{path}.value", "the condition compares with nothing", "write what it should be")
    if whole and action is Action.ALLOW:
        raise PolicyError(f"{path}.op", "it fits what holds a substitution", "write 'approve' or 'deny'")
    try:
        patterns = globs.expanded(value) if op is Op.GLOB else ()
    except ValueError as fault:
        raise PolicyError(f"{path}.value", str(fault), "mend the pattern") from None
    return Condition(key, op, value, patterns)


def _closed(row: Mapping[str, object], path: str, known: Collection[str]) -> None:
    for key in row:
        if key not in known:
            folded = {name.lower(): name for name in known}
            near = difflib.get_close_matches(key.replace("_", "").lower(), folded, n=1)
            mend = (
                f"write '{folded[near[0]]}'" if near else f"remove it; known are {', '.join(sorted(known))}"
            )
            raise PolicyError(_at(path, key), f"there is no key {key[:80]!r} here", mend)


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _rows(row: Mapping[str, object], path: str, key: str) -> list[tuple[str, Mapping[str, object]]]:
    value = row.get(key, [])
    if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
        raise PolicyError(_at(path, key), "it is no list of tables", "write a list of tables")
    return [(f"{_at(path, key)}[{at}]", item) for at, item in enumerate(value)]


def _text(row: Mapping[str, object], path: str, key: str) -> str:
    value = row.get(key, "")
    if not isinstance(value, str):
        raise PolicyError(_at(path, key), "it is no text", 'write a text in "…"')
    return value


def _name(row: Mapping[str, object], path: str, key: str) -> str:
    """A name of a provider or tool; ``*`` is any, as nothing is."""
    name = _text(row, path, key).strip()
    return "" if name == "*" else name


_E = TypeVar("_E", bound=Enum)


def _choice(row: Mapping[str, object], path: str, key: str, kind: type[_E]) -> _E:
    value = row.get(key)
    known = [str(item.value) for item in kind]
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        what = f"{str(value)[:80]!r} is none of them" if key in row else "it is missing"
        raise PolicyError(
            _at(path, key), what, f"write '{near[0]}'" if near else f"write one of {', '.join(known)}"
        )
    return kind(value)


_READING = ("read_file", "read_file_range", "list_dir", "grep", "find_files", "count_stats", "stat_file")
_PRIVATE = "**/{.ssh,.aws,.gnupg,.kube,.docker,.config/gcloud}/**"
_PRIVATE_FILES = (
    "**/{.env,.env.*,.netrc,.npmrc,.pypirc,.git-credentials,id_rsa*,id_ed25519*,*.pem,*.key,*.p12}"
)


def _built_in() -> Policy:
    secret = tuple(
        Rule("", "", Action.DENY, (Condition("path", Op.GLOB, value, globs.expanded(value)),))
        for value in (_PRIVATE, _PRIVATE_FILES)
    )
    names = [name for tool in _READING for name in (tool, f"fs_{tool}")]
    reading = tuple(Rule(provider, name, Action.ALLOW) for provider in ("fs", "local_fs") for name in names)
    return Policy((*secret, *reading))


BUILT_IN = _built_in()
"""Where a chain has no policy, or one that cannot be read."""
