"""Where a path that an agent gave lies in its scope: by its letters first, then beneath an open folder.

Nothing is opened by a path as it was given: the lexical check names a folder of the scope and plain names
below it, and everything after that goes through ``beneath``. Missing and forbidden look alike.
"""

import os
import re
from collections.abc import Sequence

from reconciler.model.routes import ScopeFolder
from reconciler.router import beneath
from reconciler.router.beneath import Denial, Denied

MAX_PATH = 4096  # characters
_MAX_PART = 255  # bytes
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def within(scope: Sequence[ScopeFolder], text: str) -> tuple[ScopeFolder, list[str]]:
    """The scope's folder that a path lies in, and the names below it; by its letters alone. Raises Denied."""
    folder, rest = _folder(scope, text)
    parts = rest.split("/")
    if not all(map(is_name, parts)):
        raise Denied(Denial.REFUSED, "the path has empty, dotted or overlong parts, or is not UTF-8")
    return folder, parts


def within_or_at(scope: Sequence[ScopeFolder], text: str) -> tuple[ScopeFolder, list[str]]:
    """The same for what may be a folder: no names below it where the path is a folder of the scope, as ``.``
    is, and one slash at its end changes nothing. Raises Denied.
    """
    if text in (".", "./") and scope:
        return scope[0], []
    bare = text.removesuffix("/") or text
    for one in scope:
        if bare == (one.path.rstrip("/") or "/"):
            return one, []
    return within(scope, bare)


def is_name(part: str) -> bool:
    """Whether a part of a path may be a file's name: plain, short, and UTF-8 (half a character is not)."""
    if part in ("", ".", "..") or _CONTROL.search(part):
        return False
    try:
        return len(part.encode()) <= _MAX_PART
    except UnicodeEncodeError:
        return False


def open_root(scope: Sequence[ScopeFolder], folder: ScopeFolder) -> int:
    """Open a folder of the scope: by its path as it was granted, links and all; but where it lies inside of
    another folder of the scope, beneath that one, since who may write there could put a link in its place.
    """
    around = [one for one in scope if folder.path.startswith(one.path.rstrip("/") + "/")]
    outer = min(around, key=lambda one: len(one.path), default=folder)
    try:
        root = os.open(outer.path, beneath.FOLDER)
    except OSError as error:
        raise Denied(
            Denial.REFUSED, f"a folder of the scope cannot be opened: {beneath.short(error)}"
        ) from None
    if outer.path == folder.path:
        return root
    try:
        rest = folder.path.removeprefix(outer.path.rstrip("/")).strip("/")
        return beneath.open_beneath(root, rest, beneath.FOLDER)
    finally:
        os.close(root)


def _folder(scope: Sequence[ScopeFolder], text: str) -> tuple[ScopeFolder, str]:
    """The nearest folder of the scope around a path, whose grant counts, and the rest of the path."""
    if not text or len(text) > MAX_PATH or _CONTROL.search(text):
        raise Denied(Denial.REFUSED, "the path is empty, too long, or holds control characters")
    if not scope:
        raise Denied(Denial.REFUSED, "the agent has no scope")
    if not text.startswith("/"):
        return scope[0], text.removeprefix("./")
    inside = [one for one in scope if text.startswith(one.path.rstrip("/") + "/")]
    if not inside:
        raise Denied(Denial.REFUSED, "the path lies outside of the scope")
    folder = max(inside, key=lambda one: len(one.path))
    return folder, text[len(folder.path.rstrip("/")) + 1 :]
