"""Files that a connector hands over for a folder which a person's setting names and no connector sees.

By the law of an agent's output files (``files``): a name in a folder that is there, found beneath it by no
link, new, plain and whole or not there. Besides, a file that was added is on the disk before it counts,
is as readable as its folder, and belongs to whom the folder belongs, whoever the controller runs as. Blocks.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence

from reconciler.model.calls import Added
from reconciler.router import beneath, files
from reconciler.router.beneath import Denial, Denied

_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_-]{0,63}/){0,2}[A-Za-z0-9][A-Za-z0-9._,=+@-]{0,199}")
_MODE = 0o666  # less what the folder does not permit: never executable


class Broken(Exception):  # noqa: N818 - an answer, not an error of the program
    """Something was put in place already when the rest failed; the text names no path."""


def put(
    outbox: int,
    added: Sequence[Added],
    folders: Mapping[str, str],
    *,
    max_bytes: int,
    wanted: Callable[[], bool],
) -> None:
    """Put each file into the folder of its setting, in order. ``folders``: real paths by setting.

    Raises Denied while nothing was put anywhere, Broken afterwards.
    """
    places: list[files.Spot] = []
    done = 0
    try:
        places.extend(_spot(folders, one) for one in added)
        for place, one in zip(places, added, strict=True):
            files.hand_out(
                outbox, one.blob, place, max_bytes=max_bytes, wanted=wanted, settled=_settled(place.folder)
            )
            done += 1
            _sync(place.folder)
    except Denied as denied:
        if done:
            raise Broken(f"{done} of {len(added)} files were added; then {denied.diagnostic}") from None
        raise
    finally:
        for place in places:
            os.close(place.folder)
        for one in added:
            if "/" not in one.blob:
                files.discard(outbox, one.blob)


def _spot(folders: Mapping[str, str], one: Added) -> files.Spot:
    path = folders.get(one.setting)
    if path is None:
        raise Denied(Denial.FAILED, "the setting that it names is no folder that files are added to")
    if not _NAME.fullmatch(one.name) or "/" in one.blob or not one.blob:
        raise Denied(Denial.FAILED, "a file to be added has no plain name")
    parts = one.name.split("/")
    root = os.open("/", beneath.FOLDER)
    try:  # no link on the whole way: who put one there since would choose what we write
        return files.spot_beneath(root, [*path.strip("/").split("/"), *parts])
    except Denied as denied:
        below = "".join(f"{part}/" for part in parts[:-1])
        where = f"'{below}' of the folder" if below else "the folder"
        words = f"{where} of settings.{one.setting} takes no file: {denied.diagnostic}"
        raise Denied(denied.denial, words) from None
    finally:
        os.close(root)


def _settled(folder: int) -> Callable[[int], None]:
    """What is done with a file that is whole and has no name yet."""

    def settled(descriptor: int) -> None:
        around = os.fstat(folder)
        try:
            os.fchmod(descriptor, stat.S_IMODE(around.st_mode) & _MODE | stat.S_IRUSR | stat.S_IWUSR)
            if os.geteuid() == 0:
                os.fchown(descriptor, around.st_uid, around.st_gid)
            os.fsync(descriptor)
        except OSError as error:
            raise Denied(Denial.FAILED, f"the file cannot be kept: {beneath.short(error)}") from None

    return settled


def _sync(folder: int) -> None:
    """Have the folder know its new name, whatever happens to the power. Raises Denied."""
    try:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(listed)
        finally:
            os.close(listed)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EACCES):  # it cannot be synced, or is a box to drop into
            return
        raise Denied(Denial.FAILED, f"the folder cannot be synced: {beneath.short(error)}") from None
