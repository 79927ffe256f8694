"""The scope: what a path may name, and what comes of it. Forty odd paths, and an attacker who swaps."""

import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.routes import ScopeFolder
from reconciler.router import files
from reconciler.router.files import Denial, Denied


def always() -> bool:
    return True


def open_files() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A scope folder with things in it, beside things that are not."""
    scope = tmp_path / "work"
    (scope / "sub").mkdir(parents=True)
    (scope / "a.pdf").write_bytes(b"%PDF-1")
    (scope / "sub" / "b.txt").write_text("b")
    (scope / "täst 😀.txt").write_text("t")
    (scope / "new\nline").write_text("n")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "work-evil").mkdir()
    (tmp_path / "work-evil" / "x").write_text("x")
    (scope / "link").symlink_to("a.pdf")
    (scope / "out").symlink_to(tmp_path / "secret")
    (scope / "dangling").symlink_to("nowhere")
    (scope / "d").symlink_to("/etc")
    (scope / "loop").symlink_to("loop")
    os.mkfifo(scope / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(scope / "sock"))
    return scope


def scope(folder: Path, access: str = "create") -> tuple[ScopeFolder, ...]:
    return (ScopeFolder(str(folder), access),)


def content(folder: Path, text: str, limit: int = 1000) -> bytes:
    opened = files.read(scope(folder), text, limit)
    try:
        return os.read(opened.descriptor, limit)
    finally:
        os.close(opened.descriptor)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("a.pdf", b"%PDF-1"), ("./a.pdf", b"%PDF-1"), ("sub/b.txt", b"b"), ("täst 😀.txt", b"t")],
)
def test_a_file_of_the_scope_is_read(home: Path, text: str, wanted: bytes) -> None:
    assert content(home, text) == wanted


def test_an_absolute_path_inside_is_read(home: Path) -> None:
    assert content(home, f"{home}/sub/b.txt") == b"b"


OUTSIDE = [
    "", ".", "..", "/", "//", "./", "../secret", "sub/../a.pdf", "sub/../../secret", "./../secret",
    "sub/./b.txt", "sub//b.txt", "//etc/hostname", "a.pdf/", "sub/", "sub", "a.pdf/x", "missing", "sub/none",
    "missing/a", "/etc/hostname", "/proc/self/root/etc/hostname", "/proc/self/cmdline", "/dev/fd/0",
    "/dev/null", "/dev/zero", "~", "~/a.pdf", "~root/x", "link", "out", "dangling", "loop", "d/hostname", "d",
    "pipe", "sock", "a.pdf\0", "a.pdf\0x", "new\nline", "a\x7fb", "a\x85b", "x" * 5000, "y" * 256, "é" * 200,
    "a/" * 2000 + "b", "A.PDF", "{scope}/../secret", "{scope}-evil/x", "{scope}", "{scope}/", "{scope}/out",
    "{scope}//a.pdf",
]  # fmt: skip


@pytest.mark.parametrize("text", OUTSIDE, ids=lambda text: ascii(text)[:40])
def test_what_is_not_a_plain_file_inside_is_refused(home: Path, text: str) -> None:
    before = open_files()
    with pytest.raises(Denied) as denied:
        files.read(scope(home), text.replace("{scope}", str(home)), 1000)
    assert denied.value.denial is Denial.REFUSED
    assert str(home) not in denied.value.diagnostic
    assert open_files() == before


def test_the_table_is_long_enough_to_trust() -> None:
    assert len(OUTSIDE) >= 40


def test_without_a_scope_nothing_is_read_or_written() -> None:
    for ask in (lambda: files.read((), "a", 10), lambda: files.spot((), "a")):
        with pytest.raises(Denied) as denied:
            ask()
        assert denied.value.denial is Denial.REFUSED


def test_a_file_above_the_limit_is_too_large(home: Path) -> None:
    with pytest.raises(Denied) as denied:
        content(home, "a.pdf", 5)
    assert denied.value.denial is Denial.TOO_LARGE
    with (home / "sparse").open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(Denied) as denied:
        content(home, "sparse", 2**30)
    assert denied.value.denial is Denial.TOO_LARGE


def test_a_hard_link_to_somebody_else_s_file_is_refused(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can own a file as somebody else")
    foreign = home.parent / "foreign"
    foreign.write_text("theirs")
    os.chown(foreign, 12345, 12345)
    os.link(foreign, home / "hard")
    os.link(home / "a.pdf", home / "own")
    with pytest.raises(Denied) as denied:
        content(home, "hard")
    assert denied.value.denial is Denial.REFUSED
    assert content(home, "own") == b"%PDF-1"


def test_a_relative_path_is_of_the_first_folder_and_an_absolute_one_of_any(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    folders = (*scope(tmp_path / "one"), *scope(tmp_path / "two"))
    for text, wanted in (("f", b"one"), (f"{tmp_path}/two/f", b"two")):
        opened = files.read(folders, text, 10)
        assert os.read(opened.descriptor, 10) == wanted
        os.close(opened.descriptor)


def test_the_nearest_folder_s_grant_counts(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    folders = (ScopeFolder(str(tmp_path), "write"), ScopeFolder(str(tmp_path / "in"), "read"))
    with pytest.raises(Denied):
        files.spot(folders, f"{tmp_path}/in/new")
    os.close(files.spot(folders, f"{tmp_path}/new").folder)


def test_the_file_s_type_is_told_by_its_name(home: Path) -> None:
    opened = files.read(scope(home), "a.pdf", 100)
    assert (opened.name, opened.media_type) == ("a.pdf", "application/pdf")
    os.close(opened.descriptor)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[int]:
    """A hand-off folder of a connector, as a descriptor."""
    (tmp_path / "box").mkdir()
    descriptor = os.open(tmp_path / "box", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def hand_in(home: Path, box: int, limit: int = 1000) -> files.Copied:
    opened = files.read(scope(home), "a.pdf", 1000)
    try:
        blob = files.hand_in(opened, box, "c1-i0.pdf", max_bytes=limit, wanted=always)
    finally:
        os.close(opened.descriptor)
    try:
        return files.Copied(blob.size, files.digest(blob))
    finally:
        os.close(blob.descriptor)


def test_an_input_is_copied_and_counted_and_the_copy_cannot_be_changed(home: Path, box: int) -> None:
    copied = hand_in(home, box)
    assert copied == files.Copied(6, hashlib.sha256(b"%PDF-1").hexdigest())
    found = home.parent / "box" / "c1-i0.pdf"
    assert found.read_bytes() == b"%PDF-1"
    assert found.stat().st_mode & 0o777 == 0o440


def test_a_file_that_grows_meanwhile_stops_at_the_limit(home: Path, box: int) -> None:
    with pytest.raises(Denied) as denied:
        hand_in(home, box, limit=5)
    assert denied.value.denial is Denial.TOO_LARGE


def test_a_copy_that_nobody_waits_for_breaks_off(home: Path, box: int) -> None:
    opened = files.read(scope(home), "a.pdf", 1000)
    with pytest.raises(Denied) as denied:
        files.hand_in(opened, box, "b", max_bytes=1000, wanted=lambda: False)
    os.close(opened.descriptor)
    assert denied.value.denial is Denial.FAILED


@pytest.mark.parametrize(
    "text",
    [".bashrc", ".git/hooks/pre-commit", "sub/.hidden", "SKILL.md", "sub/skill.MD", "AGENTS.md", "CLAUDE.md",
     "QWEN.md", "sub/Agents.Override.md", "claude.local.md", "opencode.jsonc",
     "a.pdf", "sub", "link", "dangling", "out", "d/new", "pipe", "missing/new", "../new", "", "sub/", "new/",
     "/etc/new", "x\0y"],
)  # fmt: skip
@pytest.mark.parametrize("access", ["create", "read"])
def test_an_output_is_a_new_plain_file_in_a_folder_that_is_there(home: Path, text: str, access: str) -> None:
    before = open_files()
    with pytest.raises(Denied) as denied:
        files.spot(scope(home, access), text)
    assert denied.value.denial is Denial.REFUSED
    assert open_files() == before


@pytest.mark.parametrize("text", ["link", "dangling", "sub", "pipe", ".bashrc", "SKILL.md"])
def test_even_a_write_grant_replaces_plain_files_alone(home: Path, text: str) -> None:
    with pytest.raises(Denied):
        files.spot(scope(home, "write"), text)


def hand_out(home: Path, box: int, text: str, access: str = "create", limit: int = 1000) -> files.Copied:
    place = files.spot(scope(home, access), text)
    try:
        return files.hand_out(box, "c1-o0", place, max_bytes=limit, wanted=always)
    finally:
        os.close(place.folder)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_an_output_is_written_without_an_execute_bit(home: Path, box: int) -> None:
    left = home.parent / "box" / "c1-o0"
    left.write_bytes(b"RIFF")
    left.chmod(0o777)
    copied = hand_out(home, box, "sub/new.wav")
    assert copied == files.Copied(4, hashlib.sha256(b"RIFF").hexdigest())
    assert (home / "sub" / "new.wav").read_bytes() == b"RIFF"
    assert (home / "sub" / "new.wav").stat().st_mode & 0o111 == 0
    assert names(home / "sub") == {"b.txt", "new.wav"}


def test_a_write_grant_overwrites(home: Path, box: int) -> None:
    (home.parent / "box" / "c1-o0").write_bytes(b"new")
    hand_out(home, box, "a.pdf", "write")
    assert (home / "a.pdf").read_bytes() == b"new"


def test_the_first_comer_wins_even_when_it_comes_late(home: Path, box: int) -> None:
    (home.parent / "box" / "c1-o0").write_bytes(b"new")
    place = files.spot(scope(home), "sub/fresh")
    (home / "sub" / "fresh").write_text("theirs")
    with pytest.raises(Denied) as denied:
        files.hand_out(box, "c1-o0", place, max_bytes=100, wanted=always)
    os.close(place.folder)
    assert denied.value.denial is Denial.REFUSED
    assert (home / "sub" / "fresh").read_text() == "theirs"
    assert names(home / "sub") == {"b.txt", "fresh"}


def test_an_output_above_the_limit_leaves_nothing(home: Path, box: int) -> None:
    (home.parent / "box" / "c1-o0").write_bytes(b"x" * 20)
    with pytest.raises(Denied) as denied:
        hand_out(home, box, "sub/new", limit=10)
    assert denied.value.denial is Denial.TOO_LARGE
    assert names(home / "sub") == {"b.txt"}


def test_a_connector_s_output_is_one_plain_file_of_its_own(home: Path, box: int) -> None:
    left = home.parent / "box" / "c1-o0"
    for make in (
        lambda: None,
        lambda: left.symlink_to(home.parent / "secret"),
        lambda: os.link(home.parent / "secret", left),
        lambda: os.mkfifo(left),
        left.mkdir,
    ):
        make()
        with pytest.raises(Denied) as denied:
            hand_out(home, box, "sub/new")
        assert denied.value.denial is Denial.FAILED
        assert names(home / "sub") == {"b.txt"}
        if left.is_symlink() or left.exists():
            left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()


SWAPS_FOR_EVER = """
import ctypes, os, sys
inside, outside, libc = *map(os.fsencode, sys.argv[1:]), ctypes.CDLL(None)
while True:
    libc.renameat2(-100, inside, -100, outside, 2)
"""


@pytest.mark.slow
def test_no_swap_of_folders_and_links_leads_out(tmp_path: Path) -> None:
    """An attacker exchanges a folder and a link to one outside as fast as it can; reads and writes go on."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / "dir").mkdir(parents=True)
    outside.mkdir()
    (work / "dir" / "f").write_text("mine")
    (outside / "f").write_text("SECRET")
    (work / "trap").symlink_to(outside)
    attacker = subprocess.Popen([sys.executable, "-c", SWAPS_FOR_EVER, work / "dir", work / "trap"])
    try:
        seen = {"mine": 0, "refused": 0}
        deadline = time.monotonic() + 15
        end = None
        while end is None or time.monotonic() < end:
            assert time.monotonic() < deadline
            try:
                opened = files.read(scope(work), "dir/f", 100)
            except Denied:
                seen["refused"] += 1
            else:
                word = os.read(opened.descriptor, 100).decode()
                os.close(opened.descriptor)
                assert word == "mine"
                seen[word] += 1
            try:
                place = files.spot(scope(work), "dir/new")
            except Denied:
                pass
            else:
                os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=place.folder))
                os.unlink("new", dir_fd=place.folder)
                os.close(place.folder)
            assert names(outside) == {"f"}
            if end is None and seen["refused"]:
                end = time.monotonic() + 2.5  # the attacker is at work
    finally:
        attacker.kill()
        attacker.wait()
    assert min(seen.values()) > 100, seen
