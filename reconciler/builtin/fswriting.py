"""``fs_write_file`` and ``fs_sed``: a new file, or one that was read before and is still as it was read.

A file is written beside its place without a name and gets it in one step (``router.outputs``); hidden files,
and those that harnesses obey, are never written. A folder of the scope without ``write`` takes new files
only. What somebody else writes between the last look at a file and its replacing is lost.
"""

import hashlib
import os
import secrets
from collections.abc import Mapping
from typing import Any

from reconciler.builtin import memory
from reconciler.builtin.asking import Asked, Ended
from reconciler.builtin.fsopening import MOST_BYTES, file_below, pieces
from reconciler.router import files, outputs
from reconciler.router.beneath import Denial, Denied
from reconciler.router.outputs import Spot

_MOST_EDITED = 4 * 2**20  # bytes of a file that is edited, before and after


def write_file(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """Make a file with a text, or replace all of one that this session has read in whole."""
    content = arguments["content"].encode()
    spot = files.spot(asked.scope, arguments["path"])
    try:
        old = _there(spot)
        if old is None:
            return _written(Spot(spot.folder, spot.name, overwrite=False), content, asked)
        try:
            found = os.fstat(old)
            hashed = hashlib.sha256()
            for piece in pieces(old, asked, MOST_BYTES):
                hashed.update(piece)
        finally:
            os.close(old)
        digest = hashed.hexdigest()
        _need_read(asked, found, digest, whole=True)
        answer = _written(spot, content, asked)
        return answer | {"old_bytes": found.st_size, "old_sha256": digest}
    finally:
        os.close(spot.folder)


def sed(arguments: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """Replace every place of a text in a file that this session has read, at least in part."""
    pattern, replacement = arguments["pattern"].encode(), arguments["replacement"].encode()
    spot = files.spot(asked.scope, arguments["path"])
    try:
        old = _there(spot)
        if old is None:
            raise Denied(Denial.REFUSED, "there is no such file")
        try:
            found = os.fstat(old)
            before = b"".join(pieces(old, asked, _MOST_EDITED))
        finally:
            os.close(old)
        digest = hashlib.sha256(before).hexdigest()
        _need_read(asked, found, digest, whole=False)
        count = before.count(pattern)
        facts = {"replacements": count, "old_bytes": len(before), "old_sha256": digest}
        if count == 0:
            return facts | {"new_bytes": len(before), "new_sha256": digest}
        if len(before) + count * (len(replacement) - len(pattern)) > _MOST_EDITED:
            raise Ended("too_large", f"it would have more than {_MOST_EDITED} bytes")
        return facts | _written(spot, before.replace(pattern, replacement), asked)
    finally:
        os.close(spot.folder)


def _there(spot: Spot) -> int | None:
    """The plain file at a place that may be overwritten, open; None where nothing is. Raises Denied."""
    try:
        os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return file_below(spot.folder, spot.name)


def _need_read(asked: Asked, found: os.stat_result, digest: str, *, whole: bool) -> None:
    if not memory.READS.knows(asked.session, found, digest, whole=whole):
        raise Ended("stale_read", "it was not read in this session, or has changed since")


def _written(spot: Spot, content: bytes, asked: Asked) -> dict[str, Any]:
    """Put a text at its place, all or nothing; whoever wrote it knows it."""
    blob = secrets.token_hex(8)
    asked.go_on()  # the last look: from here on it is done
    output = outputs.begin(spot, blob)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(output.descriptor, left) :]
        outputs.finish(output, spot, blob)
        digest = hashlib.sha256(content).hexdigest()
        memory.READS.note(asked.session, os.fstat(output.descriptor), digest, whole=True)
    finally:
        outputs.close(output, spot)
    return {"new_bytes": len(content), "new_sha256": digest}
