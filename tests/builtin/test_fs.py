"""``fs/v1`` in a scope: what it reads, finds and writes, and everything that leads nowhere."""

import os
import re
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.builtin.asking import Ended
from reconciler.builtin.fslisting import _fitting
from reconciler.builtin.memory import Reads
from reconciler.model.routes import ScopeFolder
from tests.builtin.desk import Desk

READING = ("fs_read_file", "fs_count_stats", "fs_stat_file", "fs_list_dir", "fs_grep")
MORE = {
    "fs_grep": {"pattern": "x"},
    "fs_write_file": {"content": "x"},
    "fs_sed": {"pattern": "x", "replacement": "y"},
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret\n")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    return folder


@pytest.fixture
def desk(work: Path) -> Desk:
    return Desk(ScopeFolder(str(work), "write"))


# what leads nowhere


@pytest.mark.parametrize("tool", READING)
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "work/../../secret.txt", "/etc/passwd", "/proc/self/environ", "//etc/passwd",
        "a/../a.txt", "./../secret.txt", "link.txt", "folder/secret.txt", "here/a.txt", "a.txt\0.png",
        "a\n.txt", "missing", "x" * 4096, "y" * 256, "a//b", "/", "\ud800", "self/fd/0",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_scope(work: Path, desk: Desk, tool: str, path: str) -> None:
    (work / "link.txt").symlink_to(work.parent / "secret.txt")
    (work / "folder").symlink_to(work.parent)
    (work / "here").symlink_to(work)
    (work / "self").symlink_to("/proc/self")
    assert desk.ask(tool, path=path, **MORE.get(tool, {})) == {"error": "refused"}


@pytest.mark.parametrize("tool", [*READING, "fs_write_file", "fs_sed"])
def test_without_a_scope_everything_is_refused(tool: str) -> None:
    for path in (".", "a.txt", "/tmp"):
        assert Desk().ask(tool, path=path, **MORE.get(tool, {})) == {"error": "refused"}


def test_what_the_kernel_makes_up_is_no_file_even_inside_of_a_scope() -> None:
    desk = Desk(ScopeFolder("/", "read"))
    for path in ("/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled", "proc/version"):
        assert desk.ask("fs_read_file", path=path) == {"error": "refused"}
    assert desk.ask("fs_list_dir", path="/proc") == {"error": "refused"}


@pytest.mark.timeout(30)
def test_fifos_sockets_and_devices_are_never_waited_for(work: Path, desk: Desk) -> None:
    os.mkfifo(work / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(work / "sock")[:107])
        assert desk.ask("fs_read_file", path="fifo") == {"error": "wrong_kind"}
        assert desk.ask("fs_grep", path="fifo", pattern="x") == {"error": "wrong_kind"}
        assert desk.ask("fs_read_file", path="sock") == {"error": "refused"}
        assert desk.ask("fs_stat_file", path="fifo")["kind"] == "other"
        found = desk.ask("fs_grep", path=".", pattern="two")
        assert [one["path"] for one in found["matches"]] == ["a.txt"]
        kinds = {one["path"]: one["kind"] for one in desk.ask("fs_list_dir")["entries"]}
        assert kinds == {"a.txt": "file", "fifo": "other", "sock": "other"}
    for tool in ("fs_write_file", "fs_sed"):
        assert desk.ask(tool, path="fifo", **MORE[tool]) == {"error": "refused"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a file of another user's")
def test_a_hard_link_to_somebody_elses_file_is_refused(work: Path, desk: Desk) -> None:
    (work.parent / "theirs").write_text("two\n")
    os.chown(work.parent / "theirs", 12345, 12345)
    os.link(work.parent / "theirs", work / "theirs.txt")
    assert desk.ask("fs_read_file", path="theirs.txt") == {"error": "refused"}
    found = desk.ask("fs_grep", path=".", pattern="two")
    assert ([one["path"] for one in found["matches"]], found["skipped"]) == (["a.txt"], 1)


def test_links_are_named_and_never_followed(work: Path, desk: Desk) -> None:
    (work / "out").symlink_to(work.parent)
    (work / "loop").symlink_to(work)
    told = desk.ask("fs_list_dir", recursive=True)
    assert {one["path"]: one["kind"] for one in told["entries"]} == {
        "a.txt": "file",
        "loop": "link",
        "out": "link",
    }
    assert desk.ask("fs_find_files", pattern="**/secret.txt") == {"paths": [], "truncated": False}
    assert desk.ask("fs_grep", path=".", pattern="secret")["matches"] == []


@pytest.mark.slow
def test_folders_that_are_exchanged_for_links_meanwhile_lead_nowhere(work: Path, desk: Desk) -> None:
    inner, spare, stop = work / "inner", work / "spare", threading.Event()
    inner.mkdir()
    (inner / "secret.txt").write_text("mine\n")
    spare.symlink_to(work.parent)

    def swap() -> None:
        while not stop.is_set():
            inner.rename(work / "aside")
            spare.rename(inner)
            inner.rename(spare)
            (work / "aside").rename(inner)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(300):
            found = desk.ask("fs_grep", path=".", pattern="secret")
            assert [one for one in found["matches"] if one["text"] == "secret"] == []
            read = desk.ask("fs_read_file", path="inner/secret.txt")
            assert read.get("content", "mine\n") == "mine\n"
            written = desk.ask("fs_write_file", path="inner/new.txt", content="x")
            assert "error" in written or not (work.parent / "new.txt").exists()
    finally:
        stop.set()
        swapper.join()
    assert (work.parent / "secret.txt").read_text() == "secret\n"
    assert not (work.parent / "new.txt").exists()


def test_names_that_cannot_be_given_are_left_out(work: Path, desk: Desk) -> None:
    for name in (b"line\nfeed.txt", b"\xff\xfe.txt", b"bell\x07.txt"):
        (Path(os.fsdecode(os.fsencode(work) + b"/" + name))).write_text("two\n")
    (work / ("ü" * 127 + "x")).write_text("two\n")
    told = [one["path"] for one in desk.ask("fs_list_dir")["entries"]]
    assert told == ["a.txt", "ü" * 127 + "x"]
    assert [one["path"] for one in desk.ask("fs_grep", path=".", pattern="two")["matches"]] == told


# bounds


def test_more_than_an_answer_holds_is_told(work: Path, desk: Desk) -> None:
    many = work / "many"
    many.mkdir()
    for number in range(1005):
        (many / f"{number:04}.txt").write_text("hit\n")
    for told, key in (
        (desk.ask("fs_list_dir", path="many"), "entries"),
        (desk.ask("fs_find_files", pattern="*", path="many"), "paths"),
        (desk.ask("fs_grep", path="many", pattern="hit"), "matches"),
    ):
        assert (len(told[key]), told["truncated"]) == (1000, True)


def test_the_deepest_folders_end_a_walk_and_not_the_product(work: Path, desk: Desk) -> None:
    deep = work
    for _ in range(40):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "end.txt").write_text("hit")
    assert desk.ask("fs_find_files", pattern="end.txt") == {"paths": [], "truncated": True}
    short = desk.ask("fs_list_dir", recursive=True, max_depth=3)
    assert [one["path"] for one in short["entries"]] == ["a.txt", "d", "d/d", "d/d/d"]
    assert short["truncated"] is False


def test_huge_files_are_bounded_whatever_they_hold(work: Path, desk: Desk) -> None:
    with (work / "sparse").open("wb") as sparse:
        sparse.truncate(2**40)
    for tool in ("fs_read_file", "fs_read_file_range", "fs_count_stats"):
        more = {"start_line": 1} if tool.endswith("range") else {}
        assert desk.ask(tool, path="sparse", **more) == {"error": "too_large"}
    assert desk.ask("fs_grep", path="sparse", pattern="x") == {"error": "not_text"}
    assert desk.ask("fs_grep", path=".", pattern="two")["skipped"] == 1
    (work / "xy").write_bytes(b"x" * (3 * 2**20) + b"\nend\n")
    assert desk.ask("fs_read_file_range", path="xy", start_line=1, end_line=1) == {"error": "too_large"}
    assert desk.ask("fs_read_file_range", path="xy", start_line=2)["content"] == "end\n"
    found = desk.ask("fs_grep", path="xy", pattern="x")
    assert [len(one["text"]) for one in found["matches"]] == [501]


def test_a_search_that_takes_too_long_gives_what_it_found_and_says_that_there_is_more(
    work: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "many").write_bytes(b"hit\n" + b"\n" * 100_000 + b"hit\n")
    for regex in (False, True):
        assert len(desk.ask("fs_grep", path="many", pattern="hit", regex=regex)["matches"]) == 2
    monkeypatch.setattr("reconciler.builtin.fslisting._MOST_S", -1.0)
    for regex in (False, True):
        told = desk.ask("fs_grep", path="many", pattern="hit", regex=regex)
        assert ([one["line"] for one in told["matches"]], told["truncated"]) == ([1], True)


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.sampled_from("ab\n"), max_size=80), size=st.integers(1, 20))
def test_a_text_is_found_in_the_same_lines_however_a_file_falls_into_pieces(
    text: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("work")
    (folder / "t").write_text(text)
    desk = Desk(ScopeFolder(str(folder)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("reconciler.builtin.fsopening.PIECE", size)
        found = desk.ask("fs_grep", path="t", pattern="ab")["matches"]
    lines = text.split("\n")
    assert [(one["line"], one["text"]) for one in found] == [
        (number, line) for number, line in enumerate(lines, 1) if "ab" in line
    ]


def test_a_call_that_nobody_waits_for_stops(work: Path) -> None:
    desk = Desk(ScopeFolder(str(work)), wanted=lambda: False)
    for tool in ("fs_read_file", "fs_grep"):
        assert desk.ask(tool, path="a.txt", **MORE.get(tool, {})) == {"error": "unavailable"}
    assert desk.ask("fs_list_dir") == {"error": "unavailable"}
    assert desk.ask("fs_write_file", path="new.txt", content="x") == {"error": "unavailable"}
    assert not (work / "new.txt").exists()


# reading


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(st.sampled_from("aé€\n😀 \r\t"), max_size=60),
    start=st.integers(1, 12),
    length=st.integers(0, 12),
)
def test_any_lines_of_any_text_are_those_of_the_text(
    text: str, start: int, length: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("work")
    (folder / "t").write_bytes(text.encode())
    desk = Desk(ScopeFolder(str(folder)))
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    told = desk.ask("fs_read_file_range", path="t", start_line=start, end_line=start + length)
    if start > max(len(lines), 1):
        assert told == {"error": "no_such_lines"}
    else:
        assert told["content"] == "".join(lines[start - 1 : start + length])
        assert (told["lines"], told["size"]) == (len(lines), len(text.encode()))
    counted = desk.ask("fs_count_stats", path="t")
    assert counted == {
        "lines": len(lines), "words": len(text.split()), "characters": len(text), "size": len(text.encode())
    }  # fmt: skip


def test_characters_that_lie_across_two_pieces_are_whole(work: Path, desk: Desk) -> None:
    (work / "wide").write_text("é" * (2**20) + "\n" + "w€ " * 400_000)
    counted = desk.ask("fs_count_stats", path="wide")
    assert (counted["lines"], counted["words"]) == (2, 400_001)
    assert desk.ask("fs_stat_file", path="wide")["size"] == counted["size"]


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("*.py", ["a.py", "x/y/b.py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["lib/src/a.py"]),
        ("**/t/**", ["t/x", "a/t/b/c"], ["a/b"]),
        ("**", ["a", "a/b/c"], []),
        ("[ab]?.txt", ["a1.txt"], ["c1.txt", "a.txt"]),
        ("a" * 30 + "*" * 60 + "b", ["a" * 30 + "b"], ["a" * 200]),
        ("/".join(["**"] * 60) + "/x", ["/".join("abcdefgh" * 8) + "/x"], ["/".join("abcdefgh" * 8)]),
    ],
)
def test_name_patterns_mean_what_they_say(pattern: str, fits: list[str], misses: list[str]) -> None:
    matches = _fitting(pattern)
    assert [path for path in fits if not matches(path)] == []
    assert [path for path in misses if matches(path)] == []


@pytest.mark.parametrize("pattern", ["/abs", "a//b", "a/", "/".join("a" * 65)])
def test_a_name_pattern_with_an_empty_part_or_too_many_is_refused(pattern: str) -> None:
    with pytest.raises(Ended, match="invalid_pattern"):
        _fitting(pattern)


@pytest.mark.parametrize(
    "pattern", ["(", r"(a)\1", "(?=a)", "(?<!a)b", "a{1000000}", r"(\w{100}){50}", "[z-a]"]
)
def test_patterns_of_no_linear_engine_and_large_ones_are_refused(desk: Desk, pattern: str) -> None:
    assert desk.ask("fs_grep", path="a.txt", pattern=pattern, regex=True) == {"error": "invalid_pattern"}


def test_a_pattern_that_is_ruinous_elsewhere_takes_no_time(work: Path, desk: Desk) -> None:
    (work / "as.txt").write_text(("a" * 4000 + "\n") * 50)
    assert desk.ask("fs_grep", path="as.txt", pattern="^(a+)+$b", regex=True)["matches"] == []


# writing


def test_what_was_not_read_as_it_is_is_not_overwritten(work: Path, desk: Desk) -> None:
    new = {"path": "a.txt", "content": "mine\n"}
    assert desk.ask("fs_write_file", **new) == {"error": "stale_read"}
    desk.ask("fs_read_file_range", path="a.txt", start_line=2, end_line=2)
    assert desk.ask("fs_write_file", **new) == {"error": "stale_read"}
    desk.ask("fs_read_file", path="a.txt")
    other = Desk(*desk.asked.scope, session="s2")
    assert other.ask("fs_write_file", **new) == {"error": "stale_read"}
    (work / "a.txt").write_text("changed\n")
    assert desk.ask("fs_write_file", **new) == {"error": "stale_read"}
    assert (work / "a.txt").read_text() == "changed\n"
    desk.ask("fs_read_file", path="a.txt")
    assert desk.ask("fs_write_file", **new)["old_bytes"] == 8
    assert desk.ask("fs_write_file", path="a.txt", content="again\n")["new_bytes"] == 6
    assert (work / "a.txt").read_text() == "again\n"


def test_a_text_is_replaced_in_every_place_once_any_part_was_read(work: Path, desk: Desk) -> None:
    change = {"path": "a.txt", "pattern": "t", "replacement": "TT"}
    assert desk.ask("fs_sed", **change) == {"error": "stale_read"}
    desk.ask("fs_read_file_range", path="a.txt", start_line=1, end_line=1)
    told = desk.ask("fs_sed", **change)
    assert (told["replacements"], told["old_bytes"], told["new_bytes"]) == (2, 14, 16)
    assert (work / "a.txt").read_text() == "one\nTTwo\nTThree\n"
    large = desk.ask("fs_sed", path="a.txt", pattern="T", replacement="x" * 100_000)
    assert large["new_bytes"] == 400_012
    again = desk.ask("fs_sed", path="a.txt", pattern="x", replacement="x" * 20)
    assert again == {"error": "too_large"}


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "sub/.git",
        ".git/config",
        "AGENTS.md",
        "Claude.md",
        "skill.MD",
        "opencode.json",
        "a.txt/b",
        "no/b",
    ],
)
def test_hidden_and_instruction_files_and_new_folders_are_never_written(
    work: Path, desk: Desk, path: str
) -> None:
    (work / "sub").mkdir()
    (work / ".git").mkdir()
    assert desk.ask("fs_write_file", path=path, content="x") == {"error": "refused"}
    assert sorted(p.name for p in work.rglob("*")) == [".git", "a.txt", "sub"]


@pytest.mark.parametrize(
    ("access", "new", "old"), [("read", False, False), ("create", True, False), ("write", True, True)]
)
def test_the_scopes_word_is_kept(work: Path, access: str, new: bool, old: bool) -> None:
    desk = Desk(ScopeFolder(str(work), access))
    desk.ask("fs_read_file", path="a.txt")
    assert desk.ask("fs_stat_file", path="a.txt")["access"] == access
    made = desk.ask("fs_write_file", path="new.txt", content="x")
    assert ("error" not in made, (work / "new.txt").exists()) == (new, new)
    for tool in ("fs_write_file", "fs_sed"):
        told = desk.ask(tool, path="a.txt", **MORE[tool])
        assert ("error" not in told) == old
    assert ((work / "a.txt").read_text() == "one\ntwo\nthree\n") == (not old)


def test_the_nearest_folders_word_counts(work: Path) -> None:
    (work / "shut").mkdir()
    desk = Desk(ScopeFolder(str(work), "write"), ScopeFolder(str(work / "shut"), "read"))
    assert desk.ask("fs_write_file", path=f"{work}/shut/new.txt", content="x") == {"error": "refused"}


def test_a_written_file_is_whole_or_absent_and_leaves_nothing(work: Path, desk: Desk) -> None:
    (work / "link.txt").symlink_to(work.parent / "secret.txt")
    assert desk.ask("fs_write_file", path="link.txt", content="x") == {"error": "refused"}
    assert (work.parent / "secret.txt").read_text() == "secret\n"
    desk.ask("fs_write_file", path="new.txt", content="x" * 1_000_000)
    assert sorted(p.name for p in work.iterdir()) == ["a.txt", "link.txt", "new.txt"]
    assert (work / "new.txt").stat().st_mode & 0o111 == 0


def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    reads = Reads(most=2)
    found = tmp_path.stat()
    for session in "abc":
        reads.note(session, found, "d", whole=True)
    assert [reads.knows(one, found, "d", whole=True) for one in "abc"] == [False, True, True]
    reads.note("c", found, "d", whole=False)  # a part of what it read in whole
    assert reads.knows("c", found, "d", whole=True)
    reads.note("c", found, "e", whole=False)
    assert not reads.knows("c", found, "e", whole=True)
    assert reads.knows("c", found, "e", whole=False)


def test_whose_text_an_answer_gives_is_told_beside_it(work: Path, desk: Desk) -> None:
    (work / "clients").mkdir()
    for name in ("clients/a.txt", "b.txt", "c.txt"):
        (work / name).write_text(f"one {name}\n")
    desk.ask("fs_list_dir", path=".")
    desk.ask("fs_stat_file", path="c.txt")
    desk.ask("fs_grep", path=".", pattern="nothing")
    assert desk.asked.read == set()
    desk.ask("fs_read_file", path="./b.txt")
    found = desk.ask("fs_grep", path=".", pattern="one clients")
    assert [one["path"] for one in found["matches"]] == ["clients/a.txt"]
    assert desk.asked.read == {"./b.txt", "clients/a.txt"}
