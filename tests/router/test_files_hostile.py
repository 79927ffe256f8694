"""Files against those who mean harm: kernels without openat2, made-up file systems, crashes, races."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.routes import ScopeFolder
from reconciler.router import beneath, files, outputs
from reconciler.router.files import Denial, Denied
from tests.kit import race


def always() -> bool:
    return True


def granted(folder: Path | str, access: str = "create") -> tuple[ScopeFolder, ...]:
    return (ScopeFolder(str(folder), access),)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "o").write_bytes(b"whole")
    descriptor = os.open(tmp_path / "box", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def put(box: int, folder: Path, name: str, access: str = "create") -> files.Copied:
    place = files.spot(granted(folder, access), name)
    try:
        return files.hand_out(box, "o", place, max_bytes=1000, wanted=always)
    finally:
        os.close(place.folder)


# machines

WITHOUT_OPENAT2 = """
import ctypes, struct, sys
def step(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)
program = step(0x20, 0, 0, 0) + step(0x15, 0, 1, 437) + step(6, 0, 0, 0x50000 | int(sys.argv[2]))
program += step(6, 0, 0, 0x7FFF0000)
kept = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("steps", ctypes.c_void_p))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(kept))), 0, 0) == 0, ctypes.get_errno()
from reconciler.model.routes import ScopeFolder
from reconciler.router import files
scope = (ScopeFolder(sys.argv[1], "write"),)
for ask in (lambda: files.read(scope, "a", 10), lambda: files.spot(scope, "new")):
    try:
        ask()
    except files.Denied as denied:
        print(denied.denial.value, "|", denied.diagnostic)
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", [errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_or_a_container_lacks_openat2_files_are_refused_in_words(
    work: Path, fault: int
) -> None:
    (work / "a").write_text("a")
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENAT2, work, str(fault)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    words = (
        f"unavailable | openat2 is missing here ({errno.errorcode[fault]}): files are opened by no other"
        " road; Linux 5.6 or newer has it"
    )
    assert run.stdout.splitlines() == [words, words], run.stderr
    assert beneath.missing() is None


@pytest.mark.parametrize(
    "text", ["self/environ", "self/cmdline", "1/status", "version", "sys/kernel/hostname"]
)
def test_what_the_kernel_makes_up_is_no_file_even_inside_of_the_scope(text: str) -> None:
    for scope, path in ((granted("/proc", "write"), text), (granted("/", "write"), f"proc/{text}")):
        with pytest.raises(Denied) as denied:
            files.read(scope, path, 10**6)
        assert denied.value.denial is Denial.REFUSED


def test_nothing_is_written_into_what_the_kernel_makes_up() -> None:
    for folder in ("/proc/self", "/sys/kernel"):
        with pytest.raises(Denied) as denied:
            files.spot(granted(folder, "write"), "new")
        assert denied.value.denial is Denial.REFUSED


def test_devices_are_no_files() -> None:
    for text in ("null", "zero", "full", "tty", "random", "fd/0", "stdin", "shm"):
        with pytest.raises(Denied) as denied:
            files.read(granted("/dev"), text, 10**6)
        assert denied.value.denial is Denial.REFUSED


# names


@pytest.mark.parametrize("text", ["\ud800", "a\udcff", "ok/\udc80"])
def test_half_a_character_names_no_file(work: Path, text: str) -> None:
    for ask in (lambda: files.read(granted(work), text, 10), lambda: files.spot(granted(work), text)):
        with pytest.raises(Denied) as denied:
            ask()
        assert denied.value.denial is Denial.REFUSED


def test_a_file_whose_name_is_not_utf_8_is_there_for_nobody(work: Path) -> None:
    (Path(os.fsdecode(os.fsencode(work) + b"/caf\xe9"))).write_text("latin")
    for text in ("café", "caf\udce9"):
        with pytest.raises(Denied):
            files.read(granted(work), text, 10)


@pytest.mark.parametrize(
    "name", ["x" * 255, "é" * 127, "a b", "a\\b", "-rf", "…", "e\u0301", "con.", "a:b", "%2e%2e"]
)
def test_odd_names_are_names(work: Path, box: int, name: str) -> None:
    put(box, work, name)
    opened = files.read(granted(work), name, 10)
    assert os.read(opened.descriptor, 10) == b"whole"
    os.close(opened.descriptor)


# what moves while it is read


def test_a_file_that_grows_for_ever_ends_at_the_limit(work: Path, tmp_path: Path, box: int) -> None:
    """A log that somebody writes: the copy ends after the limit, whatever is written meanwhile."""
    growing = work / "log"
    growing.write_bytes(b"x" * 1000)
    opened = files.read(granted(work), "log", 10**6)
    asked = 0

    def grow() -> bool:
        nonlocal asked
        asked += 1
        with growing.open("ab") as log:
            log.write(b"x" * 300_000)
        return asked < 1000

    with pytest.raises(Denied) as denied:
        files.hand_in(opened, box, "i", max_bytes=10**6, wanted=grow)
    os.close(opened.descriptor)
    assert denied.value.denial is Denial.TOO_LARGE
    assert (tmp_path / "box" / "i").stat().st_size <= 10**6
    assert asked < 10


def test_a_file_that_shrinks_is_what_is_left_of_it(work: Path, tmp_path: Path, box: int) -> None:
    shrinking = work / "a"
    shrinking.write_bytes(b"x" * 600_000)
    opened = files.read(granted(work), "a", 10**6)

    def shrink() -> bool:
        os.truncate(shrinking, 10)
        return True

    copied = files.hand_in(opened, box, "i", max_bytes=10**6, wanted=shrink)
    os.close(opened.descriptor)
    os.close(copied.descriptor)
    assert copied.size == (tmp_path / "box" / "i").stat().st_size < 600_000


def test_a_file_that_is_renamed_and_replaced_is_still_the_one_that_was_opened(work: Path, box: int) -> None:
    (work / "a").write_text("first")
    opened = files.read(granted(work), "a", 10)
    (work / "b").write_text("second")
    (work / "b").rename(work / "a")
    copied = files.hand_in(opened, box, "i", max_bytes=10, wanted=always)
    os.close(opened.descriptor)
    os.close(copied.descriptor)
    assert copied.size == len("first")


def test_an_output_that_is_a_sparse_giant_is_refused_before_a_byte_is_copied(
    work: Path, tmp_path: Path, box: int
) -> None:
    os.truncate(tmp_path / "box" / "o", 2**40)
    with pytest.raises(Denied) as denied:
        put(box, work, "new")
    assert denied.value.denial is Denial.TOO_LARGE
    assert names(work) == set()


def test_a_folder_of_the_scope_inside_of_another_is_not_followed_when_it_became_a_link(
    work: Path, tmp_path: Path
) -> None:
    """Whoever may write the outer folder could turn the inner one into a link to anywhere."""
    (work / "inner").mkdir()
    (work / "inner" / "f").write_text("mine")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "f").write_text("secret")
    scope = (*granted(work, "write"), *granted(work / "inner", "read"))
    os.close(files.read(scope, f"{work}/inner/f", 10).descriptor)
    (work / "inner").rename(work / "was")
    (work / "inner").symlink_to(tmp_path / "secret")
    with pytest.raises(Denied) as denied:
        files.read(scope, f"{work}/inner/f", 10)
    assert denied.value.denial is Denial.REFUSED


# crashes

CRASHES = """
import os, sys
from reconciler.model.routes import ScopeFolder
from reconciler.router import outputs, files
folder, name, step = sys.argv[1:]
if step == "named":
    real = os.rename
    os.rename = lambda *a, **k: os.kill(os.getpid(), 9)
box = os.open(sys.argv[1] + "/../box", os.O_RDONLY | os.O_DIRECTORY)
place = files.spot((ScopeFolder(folder, "write"),), name)
asked = 0
def wanted():
    if step == "copying":
        os.kill(os.getpid(), 9)
    return True
files.hand_out(box, "o", place, max_bytes=1000, wanted=wanted)
"""


def killed_at(step: str, folder: Path, name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CRASHES, folder, name, step],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.slow
def test_a_crash_while_a_new_file_is_written_leaves_nothing(work: Path, box: int) -> None:
    killed_at("copying", work, "new")
    assert names(work) == set()


def test_what_a_crash_left_while_a_file_was_replaced_is_swept_and_the_file_is_the_old_one(
    work: Path, box: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "a").write_text("old")
    killed_at("named", work, "a")
    assert names(work) == {"a", ".handler-o.part"}
    assert (work / "a").read_text() == "old"
    monkeypatch.setattr(outputs, "_STALE_S", -1)
    put(box, work, "b")
    assert names(work) == {"a", "b"}


def test_the_sweep_leaves_what_a_living_writer_holds_and_what_is_not_ours(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "_STALE_S", -1)
    for name in ("held", "left"):
        (work / f".handler-{name}.part").write_text("half")
    (work / "mine.part").write_text("mine")
    (work / ".handler-link.part").symlink_to("mine.part")
    (work / ".handler-folder.part").mkdir()
    os.mkfifo(work / ".handler-pipe.part")
    with (work / ".handler-held.part").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        folder = os.open(work, beneath.FOLDER)
        outputs.sweep(folder)
        os.close(folder)
    assert names(work) == {
        ".handler-held.part", "mine.part", ".handler-link.part", ".handler-folder.part", ".handler-pipe.part",
    }  # fmt: skip


def test_a_young_temporary_file_is_left_to_its_writer(work: Path) -> None:
    (work / ".handler-young.part").write_text("half")
    folder = os.open(work, beneath.FOLDER)
    outputs.sweep(folder)
    os.close(folder)
    assert names(work) == {".handler-young.part"}


# file systems that know no nameless files, and machines that run full


@pytest.fixture
def no_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refusing(path: object, flags: int, *args: int, **more: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no nameless files here")
        return real(path, flags, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.usefixtures("no_tmpfile")
@pytest.mark.parametrize(("access", "name"), [("create", "new"), ("write", "new"), ("write", "a")])
def test_without_nameless_files_an_output_is_whole_all_the_same(
    work: Path, box: int, access: str, name: str
) -> None:
    (work / "a").write_text("old")
    put(box, work, name, access)
    assert (work / name).read_text() == "whole"
    assert (work / name).stat().st_nlink == 1
    assert names(work) == {"a", name}
    with pytest.raises(Denied):
        put(box, work, "a")
    assert names(work) == {"a", name}


def test_a_new_file_has_one_name_and_the_mode_that_the_umask_leaves(work: Path, box: int) -> None:
    before = os.umask(0o027)
    try:
        put(box, work, "new")
    finally:
        os.umask(before)
    found = (work / "new").stat()
    assert (found.st_mode & 0o7777, found.st_nlink) == (0o640, 1)


def test_a_replaced_file_is_another_one_and_its_other_names_keep_what_they_had(work: Path, box: int) -> None:
    """A hard link elsewhere is not written through."""
    (work / "a").write_text("old")
    os.link(work / "a", work / "b")
    put(box, work, "a", "write")
    assert ((work / "a").read_text(), (work / "b").read_text()) == ("whole", "old")
    assert (work / "a").stat().st_nlink == 1


FULL = """
import os, sys
from reconciler.model.routes import ScopeFolder
from reconciler.router import files
folder = sys.argv[1]
box = os.open(folder + "/../box", os.O_RDONLY | os.O_DIRECTORY)
for name in ("new", "a"):
    place = files.spot((ScopeFolder(folder, "write"),), name)
    try:
        files.hand_out(box, "o", place, max_bytes=10**7, wanted=lambda: True)
    except files.Denied as denied:
        print(denied.denial.value, denied.diagnostic)
print(sorted(os.listdir(folder)), open(folder + "/a").read())
"""


@pytest.mark.slow
def test_a_full_disk_is_unavailable_and_leaves_what_was_there(work: Path, tmp_path: Path, box: int) -> None:
    (tmp_path / "box" / "o").write_bytes(b"x" * 10**6)
    script = (
        f'mount -t tmpfs -o size=64k none "{work}" && printf old > "{work}/a" && exec "$0" -c "$1" "{work}"'
    )
    run = subprocess.run(
        ["unshare", "-U", "-r", "-m", "sh", "-c", script, sys.executable, FULL],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if run.returncode and ("unshare" in run.stderr or "mount:" in run.stderr):
        pytest.skip(f"no mounts in a user namespace here: {run.stderr.strip()[:80]}")
    wanted = ["unavailable the copy broke off: ENOSPC"] * 2 + ["['a'] old"]
    assert run.stdout.splitlines() == wanted, run.stderr


# races


def test_of_many_that_write_one_name_at_once_the_first_wins_and_the_others_are_refused(
    work: Path, tmp_path: Path, box: int
) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def one(number: int) -> None:
        (tmp_path / "box" / f"o{number}").write_bytes(b"%d" % number)
        place = files.spot(granted(work), "same")
        start.wait(30)
        try:
            files.hand_out(box, f"o{number}", place, max_bytes=10, wanted=always)
            outcomes.append(str(number))
        except Denied as denied:
            outcomes.append(denied.denial.value)
        finally:
            os.close(place.folder)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    winners = [outcome for outcome in outcomes if outcome != "refused"]
    assert len(outcomes) == 8
    assert winners == [(work / "same").read_text()]
    assert names(work) == {"same"}


@pytest.mark.slow
def test_no_attacker_who_swaps_what_it_can_gets_in_or_out() -> None:
    with tempfile.TemporaryDirectory(dir=race.FAST) as base:
        outcomes = race.race(Path(base), 3)
    assert outcomes["escapes"] == 0, outcomes
    assert outcomes["tries"] > 200, outcomes
    assert min(outcomes[way] for way in ("read", "read refused", "write", "write refused")) > 0, outcomes
