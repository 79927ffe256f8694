"""Where this machine keeps its programs, and whether what lies there is another by now."""

import os
from collections.abc import Collection
from pathlib import Path

_SEARCHED = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


def place(name: str) -> Path | None:
    """Where a program lies; None where it is not installed."""
    for folder in _SEARCHED:
        path = Path(folder) / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def changed_since(names: Collection[str], paths: Collection[str], moment: float) -> str:
    """The first of these programs, files or folders that is another than at that moment (seconds since 1970),
    or gone; "" for none. Of a folder it counts which names are in it, not what lies behind them.
    """
    places = [(name, place(name)) for name in names] + [(path, Path(path)) for path in paths]
    for shown, found in places:
        try:
            if found is None or found.stat().st_ctime > moment:
                return shown
        except OSError:
            return shown
    return ""
