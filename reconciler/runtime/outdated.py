"""What nothing declared uses any more and nobody will miss: environments and logs of removed bindings.

Only what a supervisor itself laid is looked at. It is kept for two weeks, since a removed binding may come
back and its log may be what a person needs; pinned code goes at once, for the admitted files make it again.
"""

import contextlib
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

KEPT_S = 14 * 86_400.0
GOING = ".making-going-"  # swept at the next start, should this one end before it is gone


def environments(root: Path, keep: Collection[str], now_s: float) -> list[Path]:
    """Put aside every environment older than two weeks whose folder is none of ``keep``; where they are now.

    ``now_s`` is the wall clock. A folder put aside is found by nobody: ``erase`` may take its time.
    """
    aside = []
    for place in sorted(root.iterdir()):
        if place.name.startswith(".") or place.name in keep or not _is_old(place, now_s):
            continue
        target = root / f"{GOING}{place.name}"
        with contextlib.suppress(OSError):  # a disk that cannot be written: another start will do it
            place.rename(target)
            aside.append(target)
    return aside


def erase(aside: Iterable[Path]) -> None:
    """Remove what was put aside; on any thread."""
    for place in aside:
        shutil.rmtree(place, ignore_errors=True)


def logs(folder: Path, keep: Collection[str], now_s: float) -> list[str]:
    """Remove the logs of all bindings but these that nothing was written to for two weeks; whose went."""
    gone = []
    for file in sorted(folder.iterdir()):
        binding = file.name.removesuffix(".1").removesuffix(".log")
        if ".log" in file.name and binding not in keep and _is_old(file, now_s):
            with contextlib.suppress(OSError):
                file.unlink()
                gone.append(binding)
    return gone


def _is_old(place: Path, now_s: float) -> bool:
    return now_s - place.lstat().st_mtime > KEPT_S
