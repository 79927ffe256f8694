"""Unpacking an image takes no more memory for more entries."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from reconciler.runtime import unpacking


def test_entries_that_are_written_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for number in range(100):
            entry = tarfile.TarInfo(f"a/{number}")
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"x"))
        link = tarfile.TarInfo("a/link")
        link.type, link.linkname = tarfile.LNKTYPE, "a/7"
        archive.addfile(link)
    packed.seek(0)
    kept, write = [], unpacking._write

    def noted(archive: Any, entry: tarfile.TarInfo, root: int) -> None:
        kept.append(len(archive.members))
        write(archive, entry, root)

    monkeypatch.setattr(unpacking, "_write", noted)
    unpacking.unpack(packed, tmp_path / "root")
    assert len(list((tmp_path / "root/a").iterdir())) == 101
    assert (len(kept), max(kept)) == (101, 1)
