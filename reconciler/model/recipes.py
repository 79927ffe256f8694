"""What an instance is made of: the whole recipe of one running connector, and its digest.

A recipe holds references to secrets, never secrets. Its digest is sha256 over RFC 8785 of ``as_json`` and
names
the instance, so a changed recipe is a new instance and nothing is ever updated in place. What does not change
the running thing (descriptions, probes, conformance demands, suspend) is not in it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import orjson
import rfc8785

from reconciler.model.names import InstanceName

_FOR_EVER_S = 10.0 * 365 * 24 * 3600
_PLAIN_FROM, _PLAIN_TO = 1e-4, 1e15  # between them no writer of shortest decimals uses an exponent


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What the sandbox lets in: host programs by name, read-only paths, and bounds."""

    programs: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    tmp_bytes: int = 256 * 2**20
    memory_bytes: int | None = None
    pids: int = 64
    cpu: float | None = None
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class SecretUse:  # noqa: PLW1641 - frozen: dataclass makes its hash
    """One filled slot: where the value is found (by form and words) and how it is delivered."""

    slot: str
    form: str  # command, file, env, keyring, systemd, age, sops
    reference: tuple[str, ...]
    env: str | None
    via: str
    header: str | None = None  # what the gate adds it as: "x-api-key", "Authorization: Bearer {}"

    if TYPE_CHECKING:  # equal to its like alone: never to a resolved secret

        def __eq__(self, other: "SecretUse") -> bool: ...  # type: ignore[override]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One instance's making. ``code`` is the digest of the connector's folder; ``files`` its bytes by
    path.
    """

    binding: str
    connector: str
    runtime: str
    code: str  # sha256 hex of the connector folder
    entry: str
    environment: str  # sha256 hex of requirements.lock, "" when the connector needs nothing installed
    settings: tuple[tuple[str, str], ...]  # environment variable and text, sorted
    secrets: tuple[SecretUse, ...]
    models: tuple[str, ...]
    egress: tuple[str, ...]
    sandbox: SandboxPolicy
    state: str  # "none" or "session"
    kit: str  # sha256 hex of the connector kit
    idle_stop_s: float = 300
    max_concurrent_calls: int = 8
    ready_timeout_s: float = 30
    command: tuple[str, ...] = ()  # of a program that is not the connector's own entry
    socket: str = ""  # absolute path of what is attached
    image: str = ""  # name@sha256:… of the OCI image that it is
    cassette: str = ""  # below the configuration: played back, or recorded by a connector that runs
    profiles: tuple[tuple[str, str], ...] = ()  # id@revision and sha256 hex of its facts, as listed
    folders: tuple[tuple[str, str], ...] = ()  # a setting's key and the folder it names, as written, sorted
    adds: tuple[tuple[str, str], ...] = ()  # the same of folders that files are added to, and not shown
    session: str = ""  # the one that it serves, where state is kept for each; "": it serves all

    def as_json(self) -> dict[str, Any]:
        """The recipe as plain JSON values; the input of its digest, and what a session keeps on disk."""
        value: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS[Recipe]}
        if not self.command:
            del value["command"]  # a recipe without one keeps the name that it always had
        for name in ("cassette", "image", "session", "socket"):
            if not value[name]:
                del value[name]
        for name in ("adds", "folders", "profiles"):
            if not value[name]:
                del value[name]
            else:
                value[name] = [list(pair) for pair in value[name]]
        value["settings"] = [list(pair) for pair in self.settings]
        value["secrets"] = [_use(use) for use in self.secrets]
        value["sandbox"] = {name: getattr(self.sandbox, name) for name in _FIELDS[SandboxPolicy]}
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Recipe":
        """Read what ``as_json`` wrote (lists where tuples were); raises KeyError or TypeError when it is
        not that.
        """
        known = dict(value)
        for name in ("models", "egress", "command"):
            known[name] = tuple(known.get(name, ()))
        known["settings"] = tuple((key, text) for key, text in known["settings"])
        for name in ("adds", "folders"):
            known[name] = tuple((key, path) for key, path in known.get(name, ()))
        known["profiles"] = tuple((ref, digest) for ref, digest in known.get("profiles", ()))
        known["secrets"] = tuple(
            SecretUse(**{**use, "reference": tuple(use["reference"])}) for use in known["secrets"]
        )
        policy = known["sandbox"]
        known["sandbox"] = SandboxPolicy(
            **{**policy, "programs": tuple(policy["programs"]), "read": tuple(policy["read"])}
        )
        return cls(**known)

    def of_session(self, session: str) -> "Recipe":
        """The same for one session alone: it runs until that ends, since what it keeps is what it is for."""
        return replace(self, session=session, idle_stop_s=_FOR_EVER_S)

    @property
    def name(self) -> InstanceName:
        """``binding@digest``; computed, so callers that need it often keep it."""
        return InstanceName(self.binding, recipe_digest(self))


_FIELDS = {kind: tuple(one.name for one in fields(kind)) for kind in (Recipe, SecretUse, SandboxPolicy)}


def _use(use: SecretUse) -> dict[str, Any]:
    value = {name: getattr(use, name) for name in _FIELDS[SecretUse]}
    if use.header is None:
        del value["header"]  # as above
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Pinned:
    """A connector's folder as an instance runs it: bytes by path, and which of them carry an execute bit.

    ``digest`` is ``folder_digest`` of the two and equals ``Recipe.code``; paths are relative to the folder.
    """

    digest: str
    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()


def recipe_digest(recipe: Recipe) -> str:
    """sha256 (hex) over the canonical JSON (RFC 8785) of a recipe."""
    return hashlib.sha256(_canonical(recipe.as_json())).hexdigest()


def _canonical(value: dict[str, Any]) -> bytes:
    """RFC 8785 of a recipe. With ASCII keys and numbers that everybody writes alike, sorted orjson is that,
    and ten times as quick; other numbers take the long way.
    """
    sandbox = value["sandbox"] = dict(value["sandbox"])
    for holder, name in ((value, "idle_stop_s"), (value, "ready_timeout_s"), (sandbox, "cpu")):
        number = holder[name]
        if not isinstance(number, float):
            continue
        if number.is_integer():
            holder[name] = int(number)
        elif not _PLAIN_FROM <= number < _PLAIN_TO:
            return rfc8785.dumps(_plain(value))
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def folder_digest(files: Mapping[str, bytes], executable: frozenset[str] = frozenset()) -> str:
    """sha256 (hex) of a folder: each path, its mode and the sha256 of its bytes, sorted by path.

    Paths are relative to the folder, posix. A renamed, added, removed or newly executable file changes it.
    """
    whole = hashlib.sha256()
    for path in sorted(files):
        mode = "x" if path in executable else "-"
        whole.update(f"{hashlib.sha256(files[path]).hexdigest()} {mode} {path}\n".encode())
    return whole.hexdigest()
