"""Which program opens a keyring, a file of age or a file of sops, as an argument list.

They are programs and not libraries, so that each is bounded like any other: one that hangs is ended. None of
them is part of the product; where one is missing, that is what is said.
"""

import importlib.util
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler.model.recipes import SecretUse

_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PYRAGE = (
    "import pathlib,sys,pyrage;"
    "lines=pathlib.Path(sys.argv[1]).read_text().splitlines();"
    "i=[pyrage.x25519.Identity.from_str(l.strip()) for l in lines if l.startswith('AGE-SECRET-KEY-')];"
    "sys.stdout.buffer.write(pyrage.decrypt(pathlib.Path(sys.argv[2]).read_bytes(),i))"
)


class UnresolvedError(Exception):
    """Why a secret does not resolve, as a clause without the value and without the reference's words."""


def command(use: SecretUse, root: Path) -> tuple[str, ...]:
    """What prints the secret of a ``keyring``, ``age`` or ``sops`` reference; raises UnresolvedError."""
    words = _named(use)
    match use.form:
        case "keyring":
            return _keyring(words)
        case "age":
            return _age(words, root)
        case "sops":
            return _sops(words, root)
        case _:
            raise UnresolvedError(f"the form '{use.form}' is not known")


def private_fault(seen: os.stat_result) -> str | None:
    """Why a file is not one that we alone can read, or None."""
    if not stat.S_ISREG(seen.st_mode):
        return "it is not a regular file"
    if seen.st_uid != os.geteuid():
        return "it belongs to somebody else: only a file of the controller's own user is read"
    return "others may read it: chmod 600 it" if seen.st_mode & 0o077 else None


def _named(use: SecretUse) -> Mapping[str, str]:
    return dict(word.partition("=")[::2] for word in use.reference)


def _keyring(words: Mapping[str, str]) -> tuple[str, ...]:
    service, user = _both(words, "service", "user")
    if importlib.util.find_spec("keyring") is None:
        raise UnresolvedError("the python package keyring is not installed beside handler")
    return (sys.executable, "-I", "-m", "keyring", "get", "--", service, user)


def _age(words: Mapping[str, str], root: Path) -> tuple[str, ...]:
    file, identity = (_path(word, root) for word in _both(words, "file", "identity"))
    try:
        fault = private_fault(identity.stat())
    except OSError:
        fault = "there is no such file"
    if fault:
        raise UnresolvedError(f"of the identity: {fault}")
    if not file.is_file():
        raise UnresolvedError("there is no such file")
    if program := shutil.which("age"):
        return (program, "--decrypt", "--identity", str(identity), str(file))
    if importlib.util.find_spec("pyrage") is not None:
        return (sys.executable, "-I", "-c", _PYRAGE, str(identity), str(file))
    raise UnresolvedError("neither the program age nor the python package pyrage is installed")


def _sops(words: Mapping[str, str], root: Path) -> tuple[str, ...]:
    name, path = _both(words, "file", "path")
    file, parts = _path(name, root), path.split(".")
    if not all(map(_KEY.fullmatch, parts)):
        raise UnresolvedError("path is not keys joined by dots, like 'mistral.key'")
    if not file.is_file():
        raise UnresolvedError("there is no such file")
    program = shutil.which("sops")
    if program is None:
        raise UnresolvedError("the program sops is not installed")
    extract = "".join(f"[{part}]" if part.isdecimal() else f'["{part}"]' for part in parts)
    return (program, "--decrypt", "--extract", extract, str(file))


def _both(words: Mapping[str, str], first: str, second: str) -> tuple[str, str]:
    if words.keys() != {first, second} or not all(words.values()):
        raise UnresolvedError(f"write {{ {first} = '…', {second} = '…' }}")
    return words[first], words[second]


def _path(word: str, root: Path) -> Path:
    return root / Path(word).expanduser()
