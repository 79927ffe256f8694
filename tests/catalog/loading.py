"""Loads the modules of a connector, which know each other by plain names as they do in their own process."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
CONNECTORS = ROOT / "catalog" / "connectors"
KIT = ROOT / "reconciler" / "kit"


def modules(connector: str, *names: str) -> list[ModuleType]:
    """The modules by name; nothing of them stays importable afterwards, since two connectors use one name."""
    folder = CONNECTORS / connector
    own = {path.stem for path in folder.glob("*.py")}
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a connector's folder is digested
    sys.path[:0] = [str(folder), str(KIT)]
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        del sys.path[:2]
        sys.dont_write_bytecode = writes
        for name in own:
            sys.modules.pop(name, None)
