"""Looking at a real folder, with a real git, while others write in it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.control import walk
from reconciler.control.source import Busy, Gone, Source
from reconciler.model.inventory import Fault, Layer, Tree

Git = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    for name in ("bindings", "agents", "connectors/ocr-x"):
        (folder / name).mkdir(parents=True)
    (folder / "bindings/a.toml").write_bytes(b"a = 1\n")
    (folder / "agents/clerk.toml").write_bytes(b"c = 1\n")
    (folder / "connectors/ocr-x/main.py").write_bytes(b"print()\n")
    return folder


@pytest.fixture
def git(root: Path) -> Git:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "T",
        "GIT_AUTHOR_EMAIL": "t@t",
        "GIT_COMMITTER_NAME": "T",
        "GIT_COMMITTER_EMAIL": "t@t",
    }

    def run(*arguments: str, folder: Path = root, check: bool = True) -> str:
        command = ["git", "-c", "init.defaultBranch=main", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def repository(root: Path, git: Git) -> Path:
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    return root


def source(root: Path, **options: object) -> Source:
    return Source(root, Layer.CONFIG, **options)  # type: ignore[arg-type]


def tree(looked: Tree | Busy | Gone) -> Tree:
    assert isinstance(looked, Tree), looked
    return looked


def save(path: Path, data: bytes) -> None:
    """Save as editors do: beside it, then in one rename."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.rename(path)


# what is taken in


def test_every_file_of_a_kind_is_read_and_what_editors_leave_is_not(root: Path) -> None:
    for name in (
        ".b.toml.swp", "a.toml~", "4913", "#a.toml#", "a.toml.bak", "a.toml.orig", "sedAb12Cd", "x.tmp",
        ".hidden.toml",
    ):  # fmt: skip
        (root / "bindings" / name).write_bytes(b"x")
    for folder in (
        ".git",
        "connectors/ocr-x/node_modules",
        "connectors/ocr-x/__pycache__",
        "connectors/ocr-x/.venv",
    ):
        (root / folder).mkdir()
        (root / folder / "x.toml").write_bytes(b"x")
    (root / "handler.toml").write_bytes(b"")
    (root / "README.md").write_bytes(b"not ours")
    assert set(tree(source(root).scan()).files) == {
        "handler.toml", "bindings/a.toml", "agents/clerk.toml", "connectors/ocr-x/main.py",
    }  # fmt: skip


def test_toml_in_a_folder_of_no_kind_is_taken_in_so_that_it_can_be_said_to_lie_wrong(root: Path) -> None:
    (root / "binding/deep").mkdir(parents=True)
    (root / "binding/b.toml").write_bytes(b"b")
    (root / "binding/deep/c.toml").write_bytes(b"c")
    (root / "binding/photo.jpg").write_bytes(b"j")
    (root / "stray.toml").write_bytes(b"s")
    files = tree(source(root).scan()).files
    assert files["binding/b.toml"] == b"b"
    assert files["stray.toml"] == b"s"
    assert "binding/deep/c.toml" not in files
    assert "binding/photo.jpg" not in files


def test_execute_bits_are_seen(root: Path) -> None:
    looker = source(root)
    before = tree(looker.scan())
    assert before.executable == frozenset()
    (root / "connectors/ocr-x/main.py").chmod(0o755)
    after = tree(looker.scan())
    assert after.executable == {"connectors/ocr-x/main.py"}
    assert after is not before


# what cannot be taken in


def test_a_fifo_a_socket_and_a_folder_with_a_files_name_hold_nothing_up(
    root: Path,
) -> None:
    os.mkfifo(root / "bindings/fifo.toml")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root / "bindings")  # a socket's path is short
        try:
            listener.bind("sock.toml")
        finally:
            os.chdir(here)
    (root / "bindings/folder.toml").mkdir()
    found = tree(source(root).scan())
    assert found.faults["bindings/fifo.toml"] == Fault("special", "a FIFO")
    assert found.faults["bindings/sock.toml"] == Fault("special", "a socket")
    assert set(found.files) >= {"bindings/a.toml", "agents/clerk.toml"}


@pytest.mark.parametrize("target", ["/etc/hostname", "../agents/clerk.toml", "loop.toml", "nowhere"])
def test_a_symlink_is_a_fault_wherever_it_points(root: Path, target: str) -> None:
    (root / "bindings/loop.toml").symlink_to(target)
    found = tree(source(root).scan())
    assert found.faults == {"bindings/loop.toml": Fault("symlink", "symlinks are not followed")}
    assert "bindings/loop.toml" not in found.files


def test_a_folder_behind_a_symlink_is_not_entered(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.toml").write_bytes(b"secret")
    (root / "connectors/evil").symlink_to(tmp_path / "outside")
    found = tree(source(root).scan())
    assert found.faults["connectors/evil"].word == "symlink"
    assert not any(data == b"secret" for data in found.files.values())
    (root / "policies").symlink_to(tmp_path / "outside")
    assert isinstance(source(root).scan(), Gone)


def test_the_products_own_data_may_be_linked_by_a_package_manager(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cache.toml").write_bytes(b"cached")
    (root / "bindings/b.toml").symlink_to(tmp_path / "cache.toml")
    found = tree(Source(root, Layer.CATALOG).scan())
    assert found.files["bindings/b.toml"] == b"cached"
    assert found.revision.startswith("none@sha256:")


def test_a_huge_file_is_refused_by_its_size_and_not_read(root: Path) -> None:
    with (root / "bindings/big.toml").open("wb") as file:
        file.truncate(2**40)
    found = tree(source(root).scan())
    assert found.faults["bindings/big.toml"].word == "too_large"
    assert str(walk.MAX_TEXT_BYTES) in found.faults["bindings/big.toml"].detail
    (root / "connectors/ocr-x/model.bin").write_bytes(b"\0" * (walk.MAX_TEXT_BYTES + 1))
    assert "connectors/ocr-x/model.bin" in tree(source(root).scan()).files


def test_an_unreadable_file_is_a_fault_and_is_tried_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looker = source(root)
    real = os.open

    def refusing(path: object, flags: int, *rest: int, **more: int) -> int:
        if path == "a.toml":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    found = tree(looker.scan())
    assert found.faults == {"bindings/a.toml": Fault("unreadable", "Permission denied")}
    monkeypatch.undo()
    assert tree(looker.scan()).files["bindings/a.toml"] == b"a = 1\n"


def test_what_was_known_in_a_folder_that_cannot_be_opened_is_not_taken_for_deleted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looker = source(root)
    tree(looker.scan())
    real = os.open

    def refusing(path: object, flags: int, *rest: int, **more: int) -> int:
        if path == "ocr-x":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    found = tree(looker.scan())
    assert found.faults["connectors/ocr-x/main.py"] == Fault("unreadable", "Permission denied")
    assert found.faults["connectors/ocr-x"] == Fault("unreadable", "Permission denied")
    assert "bindings/a.toml" in found.files


def test_a_name_that_is_no_utf8_is_a_fault_shown_with_escapes(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/bindings/\xff.toml")).write_bytes(b"x")
    looker = source(root)
    found = tree(looker.scan())
    assert found.faults["bindings/\\xff.toml"].word == "name"
    assert tree(looker.scan()) is found


def test_a_folder_whose_name_is_no_utf8_is_a_fault_shown_with_escapes_and_not_entered(root: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(root) + b"/connectors/\xff"))
    (odd / "/".join("d" for _ in range(40))).mkdir(parents=True)
    (odd / "main.py").write_bytes(b"x")
    found = tree(source(root).scan())
    assert {path: fault.word for path, fault in found.faults.items()} == {"connectors/\\xff": "name"}


def test_folders_nested_without_end_are_a_fault(root: Path) -> None:
    deep = root / "connectors/ocr-x" / "/".join("d" * 1 for _ in range(40))
    deep.mkdir(parents=True)
    found = tree(source(root).scan())
    assert [fault.word for fault in found.faults.values()] == ["unreadable"]


# what is gone


def test_a_missing_folder_is_gone_and_never_empty(root: Path) -> None:
    looker = source(root)
    tree(looker.scan())
    root.rename(root.with_name("away"))
    looked = looker.scan()
    assert isinstance(looked, Gone)
    assert "No such file" in looked.detail
    root.write_bytes(b"a file")
    assert isinstance(looker.scan(), Gone)


def test_a_folder_replaced_by_an_empty_one_is_gone_and_by_a_full_one_is_read(root: Path) -> None:
    looker = source(root)
    tree(looker.scan())
    root.rename(root.with_name("away"))
    root.mkdir()
    assert isinstance(looker.scan(), Gone)
    assert isinstance(looker.hint(["bindings/a.toml"]), Gone)
    root.rmdir()
    shutil.copytree(root.with_name("away"), root)
    (root / "bindings/b.toml").write_bytes(b"b")
    assert set(tree(looker.scan()).files) >= {"bindings/a.toml", "bindings/b.toml"}


def test_a_folder_that_somebody_emptied_is_empty(root: Path) -> None:
    looker = source(root)
    tree(looker.scan())
    for name in ("bindings", "agents", "connectors"):
        shutil.rmtree(root / name)
    assert tree(looker.scan()).files == {}


# what did not change


def test_an_unchanged_folder_gives_the_same_tree_and_unchanged_files_the_same_bytes(root: Path) -> None:
    looker = source(root)
    first = tree(looker.scan())
    assert tree(looker.scan()) is first
    save(root / "bindings/a.toml", b"a = 2\n")
    second = tree(looker.scan())
    assert second is not first
    assert second.files["bindings/a.toml"] == b"a = 2\n"
    assert second.files["agents/clerk.toml"] is first.files["agents/clerk.toml"]
    assert second.revision != first.revision


def test_a_touched_file_with_the_same_bytes_changes_nothing(root: Path) -> None:
    looker = source(root)
    first = tree(looker.scan())
    save(root / "bindings/a.toml", b"a = 1\n")
    assert tree(looker.scan()) is first
    assert tree(looker.hint(["bindings/a.toml"])) is first


def test_a_file_of_the_same_size_and_time_is_still_seen_to_change(root: Path) -> None:
    looker = source(root)
    path = root / "bindings/a.toml"
    tree(looker.scan())
    status = path.stat()
    with path.open("r+b") as file:  # same inode, same size
        file.write(b"a = 9\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert tree(looker.scan()).files["bindings/a.toml"] == b"a = 9\n"


def test_the_revision_depends_on_the_content_and_not_on_the_way_to_it(root: Path) -> None:
    looker = source(root)
    first = tree(looker.scan()).revision
    assert first.startswith("none@sha256:")
    save(root / "bindings/b.toml", b"b")
    second = tree(looker.scan()).revision
    (root / "bindings/b.toml").unlink()
    assert tree(looker.scan()).revision == first
    assert second != first
    assert tree(source(root).scan()).revision == first


# hints


def test_a_hint_reads_the_named_path_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looker = source(root)
    first = tree(looker.scan())
    save(root / "bindings/a.toml", b"a = 3\n")
    save(root / "agents/clerk.toml", b"c = 3\n")
    monkeypatch.setattr(os, "scandir", None)  # a walk would break
    found = tree(looker.hint(["bindings/a.toml"]))
    assert found.files["bindings/a.toml"] == b"a = 3\n"
    assert found.files["agents/clerk.toml"] is first.files["agents/clerk.toml"]
    monkeypatch.undo()
    assert tree(looker.scan()).files["agents/clerk.toml"] == b"c = 3\n"


def test_hints_of_new_and_deleted_files_and_folders_are_believed_only_when_seen(root: Path) -> None:
    looker = source(root)
    tree(looker.scan())
    (root / "connectors/new/deep").mkdir(parents=True)
    (root / "connectors/new/deep/x.py").write_bytes(b"x")
    assert "connectors/new/deep/x.py" in tree(looker.hint(["connectors/new"])).files
    (root / "bindings/b.toml").write_bytes(b"b")
    (root / "bindings/a.toml").unlink()
    found = tree(looker.hint(["bindings/a.toml", "bindings/b.toml", "bindings/never.toml"]))
    assert "bindings/a.toml" not in found.files
    assert found.files["bindings/b.toml"] == b"b"
    shutil.rmtree(root / "connectors/new")
    assert "connectors/new/deep/x.py" not in tree(looker.hint(["connectors/new"])).files
    assert tree(looker.hint(["bindings/a.toml~", "README.md"])) is tree(looker.scan())


@pytest.mark.parametrize(
    "path", ["../outside.toml", "/etc/hostname", "bindings/../../outside.toml", "bindings//a.toml"]
)
def test_a_hint_cannot_lead_out_of_the_folder(root: Path, path: str) -> None:
    (root.parent / "outside.toml").write_bytes(b"outside")
    looker = source(root)
    before = tree(looker.scan())
    assert tree(looker.hint([path])) is before


def test_a_hint_that_meets_a_fault_says_so(root: Path) -> None:
    looker = source(root)
    tree(looker.scan())
    (root / "bindings/a.toml").unlink()
    (root / "bindings/a.toml").symlink_to("/etc/hostname")
    found = tree(looker.hint(["bindings/a.toml"]))
    assert found.faults["bindings/a.toml"].word == "symlink"
    assert "bindings/a.toml" not in found.files


def test_a_file_that_changes_under_the_reader_is_busy_or_read_whole(root: Path) -> None:
    looker = source(root)
    path = root / "bindings/a.toml"
    texts = [bytes([65 + n]) * 5000 for n in range(2)]
    path.write_bytes(texts[0])
    tree(looker.scan())
    script = (
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\n"
        "while True:\n  p.write_bytes(b'A' * 5000); p.write_bytes(b'B' * 5000)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)])
    try:
        for _ in range(200):
            for looked in (looker.scan(), looker.hint(["bindings/a.toml"])):
                if isinstance(looked, Tree):
                    data = looked.files["bindings/a.toml"]
                    assert data in (*texts, b"") or len(data) < 5000  # truncated, never mixed
                    assert len(set(data)) <= 1
                else:
                    assert isinstance(looked, Busy)
                    assert looked.reason == "changing"
    finally:
        writer.kill()
        writer.wait()


# git


def test_a_clean_checkout_is_named_by_branch_and_commit(repository: Path, git: Git) -> None:
    looker = source(repository)
    commit = git("rev-parse", "HEAD")
    assert tree(looker.scan()).revision == f"main@sha1:{commit}"
    git("pack-refs", "--all")
    assert tree(source(repository).scan()).revision == f"main@sha1:{commit}"
    git("checkout", "-q", "--detach")
    assert tree(looker.scan()).revision == f"detached@sha1:{commit}"
    git("checkout", "-qb", "feature/x")
    assert tree(looker.scan()).revision == f"feature/x@sha1:{commit}"


def test_a_branch_whose_name_is_no_utf8_is_shown_with_escapes(repository: Path, git: Git) -> None:
    (repository / ".git/HEAD").write_bytes(b"ref: refs/heads/br\xff\n")
    (repository / os.fsdecode(b".git/refs/heads/br\xff")).write_text(git("rev-parse", "main"))
    assert tree(source(repository).scan()).revision == f"br\\xff@sha1:{git('rev-parse', 'main')}"


def test_a_repository_of_sha256_is_named_by_it(root: Path, git: Git) -> None:
    git("init", "-q", "--object-format=sha256")
    git("add", ".")
    git("commit", "-qm", "one")
    assert tree(source(root).scan()).revision == f"main@sha256:{git('rev-parse', 'HEAD')}"


def test_a_work_tree_that_differs_is_dirty_and_clean_again_when_it_does_not(
    repository: Path, git: Git
) -> None:
    looker = source(repository)
    clean = tree(looker.scan()).revision
    save(repository / "bindings/a.toml", b"a = 2\n")
    dirty = tree(looker.scan()).revision
    assert dirty.startswith(f"{clean}+dirty:")
    save(repository / "bindings/a.toml", b"a = 3\n")
    assert tree(looker.hint(["bindings/a.toml"])).revision not in (dirty, clean)
    save(repository / "bindings/a.toml", b"a = 2\n")
    assert tree(looker.scan()).revision == dirty
    (repository / "bindings/new.toml").write_bytes(b"")
    assert tree(looker.scan()).revision.startswith(f"{clean}+dirty:")
    (repository / "bindings/new.toml").unlink()
    (repository / "connectors/ocr-x/main.py").chmod(0o755)
    assert "+dirty:" in tree(looker.scan()).revision
    git("checkout", "-q", "--", ".")
    assert tree(looker.scan()).revision == clean
    (repository / "agents/clerk.toml").unlink()
    assert "+dirty:" in tree(looker.scan()).revision


def test_a_commit_changes_the_revision_and_no_byte(repository: Path, git: Git) -> None:
    looker = source(repository)
    save(repository / "bindings/a.toml", b"a = 2\n")
    dirty = tree(looker.scan())
    git("commit", "-qam", "two")
    clean = tree(looker.scan())
    assert clean.revision == f"main@sha1:{git('rev-parse', 'HEAD')}"
    assert all(clean.files[path] is data for path, data in dirty.files.items())
    git("reset", "-q", "--hard", "HEAD~1")
    assert tree(looker.scan()).revision == f"main@sha1:{git('rev-parse', 'HEAD')}"
    assert tree(looker.scan()).files["bindings/a.toml"] == b"a = 1\n"


@pytest.mark.slow
def test_worktrees_submodules_subfolders_and_repositories_without_a_commit(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit = git("rev-parse", "HEAD")
    git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    assert tree(source(tmp_path / "tree").scan()).revision == f"side@sha1:{commit}"
    outer = tmp_path / "outer"
    outer.mkdir()
    git("init", "-q", folder=outer)
    assert tree(source(outer).scan()).revision.startswith("none@sha256:")
    git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(repository),
        "sub",
        folder=outer,
    )
    assert tree(source(outer / "sub").scan()).revision == f"main@sha1:{commit}"
    shutil.copytree(repository / "bindings", outer / "deep/conf/bindings")
    (outer / "elsewhere.txt").write_bytes(b"not ours")
    git("add", "deep", folder=outer)
    git("commit", "-qm", "outer", folder=outer)
    expected = f"main@sha1:{git('rev-parse', 'HEAD', folder=outer)}"
    assert tree(source(outer / "deep/conf").scan()).revision == expected


def test_a_git_at_work_is_waited_for_and_one_that_died_is_passed_with_a_warning(repository: Path) -> None:
    looker = source(repository)
    tree(looker.scan())
    lock = repository / ".git/index.lock"
    lock.touch()
    looked = looker.scan()
    assert isinstance(looked, Busy)
    assert looked.reason == "lock"
    assert isinstance(looker.hint(["bindings/a.toml"]), Busy)
    old = time.time() - 11
    os.utime(lock, (old, old))
    assert isinstance(looker.scan(), Tree)
    assert "index.lock" in looker.warnings[0]
    lock.unlink()
    tree(looker.scan())
    assert looker.warnings == ()


def test_a_lock_from_the_future_is_passed_when_it_was_seen_for_long_enough(repository: Path) -> None:
    seconds = [0.0]
    looker = Source(repository, Layer.CONFIG, clock=lambda: seconds[0])
    lock = repository / ".git/index.lock"
    lock.touch()
    os.utime(lock, (time.time() + 86_400,) * 2)
    assert isinstance(looker.scan(), Busy)
    seconds[0] = 11.0
    assert isinstance(looker.scan(), Tree)
    os.utime(lock, (time.time() + 86_401,) * 2)
    assert isinstance(looker.scan(), Busy)


@pytest.mark.parametrize(
    "marker",
    [
        "MERGE_HEAD",
        "rebase-merge",
        "rebase-apply",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "sequencer",
        "BISECT_LOG",
    ],
)
def test_an_unfinished_act_of_a_person_is_waited_for_however_long(repository: Path, marker: str) -> None:
    (repository / ".git" / marker).mkdir()
    old = time.time() - 1000
    os.utime(repository / ".git" / marker, (old, old))
    looked = source(repository).scan()
    assert isinstance(looked, Busy)
    assert looked.reason == "unfinished"
    assert marker in looked.detail


def test_a_real_merge_conflict_holds_until_it_is_settled(repository: Path, git: Git) -> None:
    looker = source(repository)
    git("checkout", "-qb", "side")
    save(repository / "bindings/a.toml", b"a = 2\n")
    git("commit", "-qam", "two")
    git("checkout", "-q", "main")
    save(repository / "bindings/a.toml", b"a = 3\n")
    git("commit", "-qam", "three")
    git("merge", "side", check=False)
    assert isinstance(looker.scan(), Busy)
    git("merge", "--abort")
    assert tree(looker.scan()).files["bindings/a.toml"] == b"a = 3\n"


def test_a_hostile_repository_makes_nothing_run(repository: Path, git: Git, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    script.chmod(0o755)
    keys = ("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.alternateRefsCommand")
    for key in (*keys, "diff.external", "filter.x.clean", "filter.x.smudge", "filter.x.process"):
        git("config", key, str(script))
    git("config", "core.hooksPath", str(tmp_path))
    (repository / ".gitattributes").write_text("* filter=x\n")
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        shutil.copy(script, repository / ".git/hooks" / hook)
    save(repository / "bindings/a.toml", b"a = 2\n")
    assert "+dirty:" in tree(source(repository).scan()).revision
    assert not canary.exists()


def test_without_a_git_program_the_revision_says_that_nobody_compared(
    repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, now = git("rev-parse", "HEAD"), [0.0]
    monkeypatch.setenv("PATH", "/nowhere")
    looker = source(repository, clock=lambda: now[0])
    found = tree(looker.scan())
    assert found.revision.startswith(f"main@sha1:{commit}+unchecked:")
    monkeypatch.undo()
    assert tree(looker.scan()) is found
    now[0] = 61.0
    assert tree(looker.scan()).revision == f"main@sha1:{commit}"


def test_git_settings_of_the_environment_lead_nowhere_else(
    repository: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    assert tree(source(repository).scan()).revision == f"main@sha1:{git('rev-parse', 'HEAD')}"


@pytest.mark.slow
def test_during_checkouts_no_tree_mixes_two_commits(root: Path, git: Git) -> None:
    for number in range(600):
        (root / f"bindings/b{number}.toml").write_bytes(b"side = 'A'\n" * 20)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "A")
    git("checkout", "-qb", "B")
    for number in range(600):
        (root / f"bindings/b{number}.toml").write_bytes(b"side = 'B'\n" * 20)
    git("commit", "-qam", "B")
    script = (
        "import subprocess\nfor n in range(12):\n"
        "  subprocess.run(['git', 'checkout', '-q', ('main', 'B')[n % 2]], check=True)\n"
    )
    looker, seen, accepted = source(root), set(), 0
    mover = subprocess.Popen([sys.executable, "-c", script], cwd=root)
    stopped = False
    try:
        while mover.poll() is None:
            looked = looker.scan()
            if isinstance(looked, Tree):
                sides = {data[8:9] for path, data in looked.files.items() if path.startswith("bindings/b")}
                assert len(sides) == 1
                assert sum(path.startswith("bindings/b") for path in looked.files) == 600
                seen |= sides
                accepted += 1
            elif isinstance(looked, Busy) and not stopped:  # paused half-way, two looks agree: the lock tells
                os.kill(mover.pid, signal.SIGSTOP)
                assert isinstance(looker.scan(), Busy | Tree)
                os.kill(mover.pid, signal.SIGCONT)
                stopped = True
    finally:
        mover.wait()
    assert accepted
    assert tree(looker.scan()).files
