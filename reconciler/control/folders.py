"""Where things lie: the configuration, its state and its run folder, and what ships with the product.

Standard library only, since the bridge starts with nothing else. Two configurations never share a state or
run
folder: both are named by a digest of the configuration's real path.
"""

import hashlib
import os
from pathlib import Path

_APP = "handler-ai"


def configuration(given: str | None = None) -> Path:
    """The configuration directory: what was given, ``$HANDLER_CONFIG``, the nearest folder upward that
    holds a
    ``handler.toml``, else the person's own. It need not exist.
    """
    if given or (given := os.environ.get("HANDLER_CONFIG")):
        return Path(given).expanduser().absolute()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "handler.toml").is_file():
            return folder
    return _xdg("XDG_CONFIG_HOME", ".config")


def state(config: Path) -> Path:
    """What the controller keeps of one configuration: ``$HANDLER_STATE``, else under the state home."""
    if given := os.environ.get("HANDLER_STATE"):
        return Path(given).expanduser().absolute()
    return _xdg("XDG_STATE_HOME", ".local/state") / _digest(config)


def run(config: Path) -> Path:
    """Sockets of one configuration: ``$HANDLER_RUN``, else under the runtime directory. Short: a Unix
    socket's
    path has at most 107 bytes.
    """
    if given := os.environ.get("HANDLER_RUN"):
        return Path(given).expanduser().absolute()
    home = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(home) if home and Path(home).is_dir() else Path(f"/tmp/{_APP}-{os.getuid()}")  # noqa: S108
    return (root / _APP if home else root) / _digest(config)


def catalog() -> Path:
    """The catalogue that ships with the product: package data, or the checkout's folder."""
    return _shipped("catalog")


def schemas() -> Path:
    """The JSON Schemas of every kind, as shipped."""
    return _shipped("schemas")


def _shipped(name: str) -> Path:
    package = Path(__file__).resolve().parents[1]
    inside = package / "_data" / name
    return inside if inside.is_dir() else package.parent / name


def _xdg(variable: str, default: str) -> Path:
    home = os.environ.get(variable)
    return (Path(home) if home else Path.home() / default) / _APP


def _digest(config: Path) -> str:
    return hashlib.sha256(os.fsencode(config.resolve())).hexdigest()[:12]
