"""Where things lie: the configuration, its state and its run folder, and what ships with the product.

Standard library only, since the bridge starts with nothing else, and little of that: pathlib and hashlib are
imported where they are needed, for together they cost more than the rest of a quick command. Two
configurations never share a state or run folder: both are named by a digest of the configuration's real path;
where ``HANDLER_STATE`` or ``HANDLER_RUN`` name one, a file in it says whose it is, and no other may use it.
"""
# ruff: noqa: PTH109, PTH110, PTH111, PTH112, PTH113, PTH118, PTH120 - see above

from __future__ import annotations

import os

from reconciler.control import unwaiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_APP = "handler-ai"
_OWNER = "configuration"  # in both folders: the name that the owner was given by, and what that was
_LONGEST = 16_384  # bytes of that file: two paths


class Foreign(Exception):  # noqa: N818 - a fact about folders
    """A state or run folder was named that another configuration uses; the text says whose and what to do."""


def places(given: str | None = None) -> tuple[str, str, str]:
    """The configuration, its state folder and its run folder, as text: what quick commands start from.

    Raises ``Foreign`` where one of the two is another configuration's.
    """
    config = _configuration(given)
    found = config, _state(config), _run(config)
    _need_ours("HANDLER_STATE", found[1], config)
    _need_ours("HANDLER_RUN", found[2], config)
    return found


def claim(config: Path, folder: Path) -> None:
    """Say in a state or run folder whose it is. Only for the process that holds the state's lock. Raises
    OSError.
    """
    told = os.fsencode(f"{config}\0{os.path.realpath(config)}\0")
    path = f"{folder}/{_OWNER}"
    if _bytes(path) != told:
        from reconciler.control import atomic  # noqa: PLC0415 - a controller alone claims

        atomic.write(_path(path), told)


def absent(config: str, shown: str = "") -> str:
    """One sentence on how to name a configuration, where there is no folder at ``config``; else ""."""
    if os.path.isdir(config):
        return ""
    return (
        f"there is no configuration at {shown or config}: name one with -c DIR or HANDLER_CONFIG, "
        "or make one with 'handler init DIR'"
    )


def configuration(given: str | None = None, *, using: str = "") -> Path:
    """The configuration directory: what was given, ``$HANDLER_CONFIG``, the nearest folder upward that
    holds a ``handler.toml``, that which uses ``$HANDLER_STATE`` (``$HANDLER_RUN``), else the person's own. It
    need not exist. ``using``: the one that uses this state or run folder; LookupError where that is not said.
    """
    if using:
        if owner := _owner(using)[0]:
            return _path(owner)
        raise LookupError(using)
    return _path(_configuration(given))


def state(config: Path, *, whosever: bool = False) -> Path:
    """What the controller keeps of one configuration: ``$HANDLER_STATE``, else under the state home. Raises
    ``Foreign`` where that is another configuration's, and not ``whosever``.
    """
    found = _state(str(config))
    if not whosever:
        _need_ours("HANDLER_STATE", found, str(config))
    return _path(found)


def run(config: Path) -> Path:
    """Sockets of one configuration: ``$HANDLER_RUN``, else under the runtime directory. Short: a Unix
    socket's path has at most 107 bytes.
    """
    return _path(_run(str(config)))


def catalog() -> Path:
    """The catalogue that ships with the product: package data, or the checkout's folder."""
    return _shipped("catalog")


def schemas() -> Path:
    """The JSON Schemas of every kind, as shipped."""
    return _shipped("schemas")


def docs() -> Path:
    """The pages of the documentation that commands read, as shipped."""
    return _shipped("docs")


def _configuration(given: str | None) -> str:
    if given or (given := os.environ.get("HANDLER_CONFIG")):
        return _absolute(given)
    here = os.getcwd()
    while not os.path.isfile(os.path.join(here, "handler.toml")):
        above = os.path.dirname(here)
        if above == here:
            return _used() or _xdg("XDG_CONFIG_HOME", ".config")
        here = above
    return here


def _used() -> str:
    """The configuration that uses the folders of the surroundings, or ""."""
    for variable in ("HANDLER_STATE", "HANDLER_RUN"):
        if given := os.environ.get(variable):
            return _owner(_absolute(given))[0]
    return ""


def _need_ours(variable: str, folder: str, config: str) -> None:
    """Raise ``Foreign`` where ``folder``, which a variable names, is another configuration's."""
    owner, was = _owner(folder) if os.environ.get(variable) else ("", "")
    real = os.path.realpath(config)
    if not owner or config == owner or real == (os.path.realpath(owner) if os.path.exists(owner) else was):
        return
    thing = "state" if variable == "HANDLER_STATE" else "run"
    raise Foreign(
        f"the {thing} folder {folder} ({variable}) belongs to the configuration {owner}, not to {config}\n"
        f"  mend  to use {owner}: -c {owner}; to use both: another {variable} for {config}, or none;\n"
        f"        if {owner} became {config}: handler -c {config} daemon adopt"
    )


def _owner(folder: str) -> tuple[str, str]:
    """By which name the configuration that uses a folder was given, and its real path then; "" of none."""
    words = os.fsdecode(_bytes(f"{folder}/{_OWNER}")).split("\0")
    return (words[0], words[1]) if len(words) == 3 else ("", "")


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb", opener=unwaiting.opener) as file:
            return file.read(_LONGEST)
    except OSError:
        return b""


def _state(config: str) -> str:
    if given := os.environ.get("HANDLER_STATE"):
        return _absolute(given)
    return os.path.join(_xdg("XDG_STATE_HOME", ".local/state"), _digest(config))


def _run(config: str) -> str:
    if given := os.environ.get("HANDLER_RUN"):
        return _absolute(given)
    return os.path.join(_runtime(), _digest(config))


def _runtime() -> str:
    """The runtime directory, also for a program whose harness hides ``XDG_RUNTIME_DIR`` from it."""
    for home in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"):
        if home and os.path.isdir(home):
            return os.path.join(home, _APP)
    return f"/tmp/{_APP}-{os.getuid()}"  # noqa: S108 - checked to be ours before anything is put there


def _absolute(given: str) -> str:
    return os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(given)))


def _xdg(variable: str, default: str) -> str:
    home = os.environ.get(variable)
    return os.path.join(home or os.path.join(os.path.expanduser("~"), default), _APP)


_known: dict[str, str] = {}  # the bridge asks again and again while it waits for a controller


def _digest(config: str) -> str:
    if config not in _known:
        _known[config] = _digested(config)
    return _known[config]


def _digested(config: str) -> str:
    path = os.fsencode(os.path.realpath(config))
    for name in ("_sha2", "_sha256", "hashlib"):  # CPython 3.12, 3.11, any: hashlib alone would load OpenSSL
        try:
            digest = __import__(name).sha256(path).hexdigest()
        except ImportError:
            continue
        return str(digest[:12])
    raise RuntimeError("this Python has no sha256")


def _path(text: str) -> Path:
    from pathlib import Path  # noqa: PLC0415 - a third of a quick command's start

    return Path(text)


def _shipped(name: str) -> Path:
    package = _path(__file__).resolve().parents[1]
    inside = package / "_data" / name
    return inside if inside.is_dir() else package.parent / name
