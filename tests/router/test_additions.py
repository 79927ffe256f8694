"""Files that a connector hands over for a folder of a person's: where they come to lie, and when not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.calls import Added
from reconciler.router import additions, outputs
from reconciler.router.additions import Broken
from reconciler.router.beneath import Denied


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    """A folder with a box, one that is a link to elsewhere, and a hidden one."""
    folder = tmp_path / "mail"
    for name in ("new", "box/new", ".git/hooks"):
        (folder / name).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "new" / "there").write_text("theirs")
    return folder


@pytest.fixture
def box(tmp_path: Path) -> Iterator[int]:
    """An outbox in which a connector left two files."""
    folder = tmp_path / "outbox"
    folder.mkdir()
    for blob in ("a", "b"):
        (folder / blob).write_bytes(blob.encode() * 10)
        (folder / blob).chmod(0o755)
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    yield number
    os.close(number)


def put(box: int, mail: Path, *names: str, most: int = 1000, wanted: bool = True) -> None:
    added = [Added("maildir", name, blob) for name, blob in zip(names, "ab", strict=False)]
    additions.put(box, added, {"maildir": str(mail)}, max_bytes=most, wanted=lambda: wanted)


def lying(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_file_lies_whole_where_it_was_meant_and_leaves_the_outbox(mail: Path, box: int) -> None:
    put(box, mail, "new/1.x", "box/new/2.y=z")
    assert lying(mail) == {"new/there": b"theirs", "new/1.x": b"a" * 10, "box/new/2.y=z": b"b" * 10}
    assert os.listdir(box) == []


@pytest.mark.parametrize(
    ("folder", "file"), [(0o700, 0o600), (0o750, 0o640), (0o2775, 0o664), (0o500, 0o600)]
)
def test_a_file_is_as_readable_as_its_folder_and_never_a_program(
    mail: Path, box: int, folder: int, file: int
) -> None:
    if folder == 0o500 and os.geteuid() != 0:
        pytest.skip("an ordinary user cannot write there, which is another test's")
    (mail / "new").chmod(folder)
    put(box, mail, "new/1")
    assert (mail / "new" / "1").stat().st_mode & 0o7777 == file


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_adds_belongs_to_whom_the_folder_belongs(mail: Path, box: int) -> None:
    os.chown(mail / "new", 12345, 54321)
    put(box, mail, "new/1")
    found = (mail / "new" / "1").stat()
    assert (found.st_uid, found.st_gid) == (12345, 54321)


@pytest.mark.parametrize(
    "name",
    [
        "", "/new/1", "new/../1", "../1", "new//1", "new/", ".hidden", "new/.hidden", ".git/hooks/1",
        "new/1\n", "new/\0", "new/ä", "new/x y", "x" * 201, "a/b/c/1", "AGENTS.md", "new/claude.md",
        "new/there", "link/1", "missing/1", "new/there/1",
    ],
)  # fmt: skip
def test_no_other_name_is_written(mail: Path, box: int, name: str, tmp_path: Path) -> None:
    before = lying(mail)
    with pytest.raises(Denied):
        put(box, mail, name)
    assert lying(mail) == before
    assert not any((tmp_path / "elsewhere").iterdir())


def test_one_bad_name_of_two_and_nothing_is_added(mail: Path, box: int) -> None:
    with pytest.raises(Denied, match=r"'missing/new/' of the folder of settings\.maildir takes no file"):
        put(box, mail, "new/1", "missing/new/2")
    assert lying(mail) == {"new/there": b"theirs"}


def test_what_fails_after_something_was_added_is_no_proof_of_nothing(mail: Path, box: int) -> None:
    os.unlink("b", dir_fd=box)
    with pytest.raises(Broken, match="1 of 2 files were added"):
        put(box, mail, "new/1", "new/2")
    assert lying(mail).keys() == {"new/there", "new/1"}


def test_a_folder_that_became_a_link_since_it_was_found_gets_nothing(mail: Path, box: int) -> None:
    mail.rename(mail.with_name("moved"))
    mail.symlink_to("elsewhere")
    (mail.parent / "elsewhere" / "new").mkdir()
    with pytest.raises(Denied, match="ELOOP"):
        put(box, mail, "new/1")
    assert lying(mail.parent / "elsewhere") == {}


@pytest.mark.parametrize("left", ["link", "hard", "pipe", "folder", "large", "other", "unwanted"])
def test_only_one_plain_file_of_the_connectors_own_is_taken(
    mail: Path, box: int, tmp_path: Path, left: str
) -> None:
    at = tmp_path / "outbox" / "a"
    (tmp_path / "secret").write_text("secret")
    if left in ("link", "hard", "pipe", "folder"):
        at.unlink()
    match left:
        case "link":
            at.symlink_to(tmp_path / "secret")
        case "hard":
            os.link(tmp_path / "secret", at)
        case "pipe":
            os.mkfifo(at)
        case "folder":
            at.mkdir()
        case "other":
            with pytest.raises(Denied):
                additions.put(
                    box, [Added("maildir", "new/1", "../secret")], {"maildir": str(mail)},
                    max_bytes=99, wanted=lambda: True,
                )  # fmt: skip
            return
    with pytest.raises(Denied):
        put(box, mail, "new/1", most=5 if left == "large" else 1000, wanted=left != "unwanted")
    assert lying(mail) == {"new/there": b"theirs"}


def test_a_setting_that_opens_no_such_folder_gets_nothing(mail: Path, box: int) -> None:
    with pytest.raises(Denied, match="no folder that files are added to"):
        additions.put(box, [Added("other", "new/1", "a")], {"maildir": str(mail)}, max_bytes=9, wanted=bool)


def test_a_file_and_its_name_are_on_the_disk_before_it_counts(
    mail: Path, box: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    fsync, finish = os.fsync, outputs.finish

    def synced(number: int) -> None:
        seen.append("folder" if Path(f"/proc/self/fd/{number}").is_dir() else "file")
        fsync(number)

    def named(*words: object) -> None:
        seen.append("name")
        finish(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(outputs, "finish", named)
    put(box, mail, "new/1")
    assert seen == ["file", "name", "folder"]
