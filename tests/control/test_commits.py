"""A commit read from the object store: which one a name means, what its tree is, and what never happens."""

import os
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from reconciler.control import checkouts, commits, gitstore, walk
from reconciler.control.commits import Commit, Taken
from reconciler.control.source import Gone, Source
from reconciler.model.inventory import Layer, Tree
from tests.kit.repos import Repo, canary

FILES = {
    "handler.toml": "",
    "bindings/a.toml": "a = 1\n",
    "agents/clerk.toml": "c = 1\n",
    "connectors/x/main.py": "print()\n",
    "connectors/x/connector.toml": "x = 1\n",
    "README.md": "not taken in",
    "bindings/.gitkeep": "",
    "typo/one.toml": "t = 1\n",
}
TAKEN = {"handler.toml", "bindings/a.toml", "agents/clerk.toml", "connectors/x/main.py",
         "connectors/x/connector.toml", "typo/one.toml"}  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "config")
    made.commit(FILES)
    return made


def commit(root: Path, rev: str = "HEAD") -> Commit:
    found = commits.resolve(root, rev)
    assert isinstance(found, Commit), found
    return found


def tree(root: Path, rev: str = "HEAD") -> Tree:
    found = commits.tree(commit(root, rev))
    assert isinstance(found, Tree), found
    return found


def why(root: Path, rev: str = "HEAD") -> str:
    found = commits.resolve(root, rev)
    if isinstance(found, Commit):
        read = commits.tree(found)
        assert isinstance(read, Gone), read
        return read.detail
    return found.detail


def test_a_commit_gives_the_tree_that_a_clean_checkout_of_it_gives(repo: Repo) -> None:
    (repo.root / "connectors/x/main.py").chmod(0o755)
    repo.commit({})
    committed, scanned = tree(repo.root), Source(repo.root, Layer.CONFIG).scan()
    assert isinstance(scanned, Tree)
    assert set(committed.files) == TAKEN
    assert dict(committed.files) == dict(scanned.files)
    assert committed.revision == scanned.revision == f"main@sha1:{repo.head()}"
    assert committed.executable == scanned.executable == {"connectors/x/main.py"}
    assert not committed.faults


def test_the_work_tree_is_not_looked_at(repo: Repo) -> None:
    repo.write({"bindings/a.toml": "a = 2\n", "bindings/new.toml": ""})
    (repo.root / "agents/clerk.toml").unlink()
    found = tree(repo.root)
    assert set(found.files) == TAKEN
    assert found.files["bindings/a.toml"] == b"a = 1\n"


@pytest.mark.slow
def test_every_name_that_people_write_means_the_commit_that_git_means(repo: Repo) -> None:
    first = repo.head()
    second = repo.commit({"bindings/a.toml": "a = 2\n"})
    repo.git("tag", "light", first)
    repo.git("tag", "-a", "-m", "note", "v1", first)
    repo.git("update-ref", "refs/remotes/origin/main", first)
    repo.git("branch", "feature/x", first)
    wanted = {
        "HEAD": f"main@sha1:{second}", "@": f"main@sha1:{second}", "main": f"main@sha1:{second}",
        "refs/heads/main": f"main@sha1:{second}", "HEAD~1": f"detached@sha1:{first}",
        "main^": f"detached@sha1:{first}", "@~": f"detached@sha1:{first}", first: f"detached@sha1:{first}",
        first[:8]: f"detached@sha1:{first}", f"{second[:10]}^1": f"detached@sha1:{first}",
        "light": f"light@sha1:{first}", "v1": f"v1@sha1:{first}", "tags/v1": f"v1@sha1:{first}",
        "origin/main": f"origin/main@sha1:{first}", "feature/x": f"feature/x@sha1:{first}",
    }  # fmt: skip
    loose = {rev: commit(repo.root, rev).revision for rev in wanted}
    assert loose == wanted
    repo.git("pack-refs", "--all")
    repo.git("gc", "-q")
    assert {rev: commit(repo.root, rev).revision for rev in wanted} == wanted
    repo.git("checkout", "-q", "--detach")
    assert commit(repo.root).revision == f"detached@sha1:{second}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "rev",
    ["nope", "HEAD~5", "0" * 40, "../../etc/passwd", "-rf", "--help", "main:bindings", "@{u}", "", "a..b",
     "HEAD^{/x}", "refs/heads/../../HEAD", "main\n", "\0", ":/one", "HEAD^{tree}"],
)  # fmt: skip
def test_what_names_no_commit_is_said_and_not_run(repo: Repo, rev: str) -> None:
    assert "names no commit" in why(repo.root, rev)


def test_a_blob_or_a_tree_is_no_commit(repo: Repo) -> None:
    assert "names no commit" in why(repo.root, repo.git("rev-parse", "HEAD:bindings"))
    repo.git("tag", "tree", repo.git("rev-parse", "HEAD^{tree}"))
    assert "names no commit" in why(repo.root, "tree")


def test_what_did_not_change_keeps_its_bytes_from_one_commit_to_the_next(repo: Repo) -> None:
    first = commits.taken(commit(repo.root))
    assert isinstance(first, Taken)
    repo.write({"bindings/b.toml": "b = 1\n", "bindings/a.toml": "a = 2\n"})
    (repo.root / "agents/clerk.toml").unlink()
    repo.commit({})
    second = commits.taken(commit(repo.root), first)
    assert isinstance(second, Taken)
    assert set(second.tree.files) == (TAKEN | {"bindings/b.toml"}) - {"agents/clerk.toml"}
    assert second.tree.files["bindings/a.toml"] == b"a = 2\n"
    same = second.tree.files["connectors/x/main.py"]
    assert same is first.tree.files["connectors/x/main.py"]


def test_a_configuration_deep_in_a_repository_is_read_from_there(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "all")
    repo.commit({f"deep/conf/{path}": text for path, text in FILES.items()} | {"bindings/other.toml": ""})
    assert set(tree(repo.root / "deep/conf").files) == TAKEN
    (repo.root / "fresh").mkdir()
    assert "has no folder 'fresh'" in why(repo.root / "fresh")


def test_sha256_worktrees_and_alternates_are_read_and_no_repository_is_said(
    tmp_path: Path, repo: Repo
) -> None:
    modern = Repo(tmp_path / "modern", "--object-format=sha256")
    assert "names no commit" in why(modern.root)
    name = modern.commit(FILES)
    assert tree(modern.root).revision == f"main@sha256:{name}"
    assert commit(modern.root, name[:9]).name == name
    repo.git("worktree", "add", "-q", str(tmp_path / "side"), "-b", "side")
    assert tree(tmp_path / "side").revision == f"side@sha1:{repo.head()}"
    repo.git("clone", "-q", "--shared", str(repo.root), str(tmp_path / "shared"))
    assert set(tree(tmp_path / "shared").files) == TAKEN
    (tmp_path / "plain").mkdir()
    assert "lies in no git repository" in why(tmp_path / "plain")


def test_of_a_shallow_clone_its_commit_is_read_and_nothing_is_fetched(tmp_path: Path, repo: Repo) -> None:
    first = repo.head()
    second = repo.commit({"bindings/a.toml": "a = 2\n"})
    repo.git("clone", "-q", "--depth=1", f"file://{repo.root}", str(tmp_path / "shallow"))
    assert set(tree(tmp_path / "shallow").files) == TAKEN
    assert "names no commit" in why(tmp_path / "shallow", "HEAD~1")
    there = commit(tmp_path / "shallow").where.repository
    assert there is not None
    assert gitstore.is_ancestor(checkouts.store(there), first, second) is None


@pytest.mark.parametrize(("left_out", "words"), [("blob:none", "partial clone"), ("tree:0", "partial clone")])
def test_of_a_partial_clone_nothing_is_fetched_and_what_lacks_is_said(
    tmp_path: Path, repo: Repo, left_out: str, words: str
) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "partial"
    repo.git("clone", "-q", "--no-checkout", f"--filter={left_out}", f"file://{repo.root}", str(clone))
    before = sorted(clone.rglob("*"))
    found = commits.tree(commit(clone))
    said = found.detail if isinstance(found, Gone) else found.faults["bindings/a.toml"].detail
    assert words in said
    assert sorted(clone.rglob("*")) == before


def test_links_huge_files_and_lfs_pointers_are_faults_at_their_path(repo: Repo) -> None:
    (repo.root / "bindings/link.toml").symlink_to("/etc/passwd")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"
    odd = os.fsdecode(b"bindings/\xff.toml")
    repo.commit(
        {"bindings/huge.toml": "#" * (walk.MAX_TEXT_BYTES + 1), "connectors/x/model.bin": pointer, odd: ""}
    )
    faults = {path: fault.word for path, fault in tree(repo.root).faults.items()}
    assert faults == {
        "bindings/link.toml": "symlink",
        "bindings/huge.toml": "too_large",
        "connectors/x/model.bin": "lfs",
        "bindings/\\xff.toml": "name",
    }
    scanned = Source(repo.root, Layer.CONFIG).scan()
    assert isinstance(scanned, Tree)
    assert {path: fault.word for path, fault in scanned.faults.items()} == faults


def test_a_kind_that_is_a_link_or_a_file_concludes_nothing(repo: Repo) -> None:
    shutil.rmtree(repo.root / "bindings")
    (repo.root / "bindings").symlink_to("agents")
    repo.commit({})
    assert "bindings is a symlink" in why(repo.root)
    (repo.root / "bindings").unlink()
    repo.commit({"bindings": "a file"})
    assert "bindings is not a folder" in why(repo.root)


@pytest.mark.slow
def test_submodules_are_read_at_their_commit_and_said_when_it_is_not_here(tmp_path: Path, repo: Repo) -> None:
    part = Repo(tmp_path / "part")
    part.commit({"main.py": "one\n", "connector.toml": "y = 1\n"})
    repo.git("submodule", "--quiet", "add", str(part.root), "connectors/y")
    repo.commit({})
    (repo.root / "connectors/y/main.py").write_text("changed\n")
    assert tree(repo.root).files["connectors/y/main.py"] == b"one\n"
    repo.git("checkout", "-q", "--", ".", folder=repo.root / "connectors/y")
    scanned = Source(repo.root, Layer.CONFIG).scan()
    assert isinstance(scanned, Tree)
    assert scanned.revision == f"main@sha1:{repo.head()}"
    shutil.rmtree(repo.root / "connectors/y")
    assert tree(repo.root).files["connectors/y/main.py"] == b"one\n"
    shutil.rmtree(repo.root / ".git/modules")
    assert tree(repo.root).faults["connectors/y"].word == "submodule"
    outer = Repo(tmp_path / "outer")
    outer.git("submodule", "--quiet", "add", str(repo.root), "sub")
    assert tree(outer.root / "sub").revision == f"main@sha1:{repo.head()}"


def test_what_git_converts_on_a_checkout_is_read_as_it_is_stored(repo: Repo) -> None:
    repo.commit({".gitattributes": "*.toml eol=crlf\n"})
    (repo.root / "bindings/a.toml").unlink()
    repo.git("checkout", "-q", "--", "bindings/a.toml")
    assert (repo.root / "bindings/a.toml").read_bytes() == b"a = 1\r\n"
    assert repo.git("status", "--porcelain") == ""
    assert tree(repo.root).files["bindings/a.toml"] == b"a = 1\n"
    scanned = Source(repo.root, Layer.CONFIG).scan()
    assert isinstance(scanned, Tree)
    assert "+dirty:" in scanned.revision  # the bytes in force would be others than the commit's


def loose(root: Path, name: str) -> Path:
    return root / ".git/objects" / name[:2] / name[2:]


def test_an_object_that_is_not_what_its_name_says_is_not_believed(repo: Repo) -> None:
    place = loose(repo.root, repo.git("rev-parse", "HEAD:bindings/a.toml"))
    place.chmod(0o644)
    place.write_bytes(zlib.compress(b"blob 6\0a = 9\n"))
    assert "damaged" in why(repo.root)


def test_a_missing_tree_and_a_spoilt_object_are_said(repo: Repo) -> None:
    place = loose(repo.root, repo.git("rev-parse", "HEAD:bindings"))
    kept = place.read_bytes()
    place.chmod(0o644)
    place.write_bytes(kept[: len(kept) // 2])
    assert repo.head() in why(repo.root)
    place.unlink()
    assert "is not in this repository" in why(repo.root)


@pytest.mark.parametrize(
    "place",
    [
        "tree",
        "file",
        "objects/pack/pack-x.idx",
        "objects/info/alternates",
        "HEAD",
        "packed-refs",
        "config",
        "shallow",
    ],
)
def test_a_pipe_among_the_files_of_a_repository_holds_up_nothing(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr("reconciler.control.gitstore._READ_S", 5.0)
    names = {"tree": "HEAD:bindings", "file": "HEAD:bindings/a.toml"}
    path = (
        loose(repo.root, repo.git("rev-parse", names[place]))
        if place in names
        else repo.root / ".git" / place
    )
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    words = {
        "HEAD": "lies in no git repository",
        "packed-refs": "names no commit",
        "config": "",
        "shallow": "",
    }
    if place in ("config", "shallow"):
        assert tree(repo.root).files  # neither is needed
    else:
        assert words.get(place, "is no file") in why(repo.root, "v1" if place == "packed-refs" else "HEAD")


def test_a_repository_that_is_damaged_or_strange_never_gives_an_empty_tree(repo: Repo) -> None:
    (repo.root / ".git/HEAD").write_text("nonsense\n")
    assert "names no commit" in why(repo.root)
    (repo.root / ".git/HEAD").write_text("ref: refs/heads/.invalid\n")
    (repo.root / ".git/reftable").mkdir()
    assert "reftable" in why(repo.root)


def test_without_a_git_program_that_is_said(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "git" in why(repo.root)


HOSTILE = (
    "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.alternateRefsCommand",
    "core.askPass", "core.gitProxy", "diff.external", "diff.x.textconv", "diff.x.command", "filter.x.clean",
    "filter.x.smudge", "filter.x.process", "credential.helper", "gpg.program", "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand", "alias.cat-file", "alias.rev-parse", "uploadpack.packObjectsHook",
    "trace2.eventTarget", "sequence.editor", "merge.x.driver", "remote.origin.uploadpack",
)  # fmt: skip
HOOKS = ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman", "pre-auto-gc")


@pytest.mark.parametrize("setting", HOSTILE)
def test_no_setting_of_a_repository_makes_anything_run(repo: Repo, tmp_path: Path, setting: str) -> None:
    program, trace = canary(tmp_path)
    repo.commit({".gitattributes": "* filter=x diff=x merge=x\n"})
    repo.git("config", setting, str(program))
    assert set(tree(repo.root).files) == TAKEN
    commit(repo.root, "HEAD~1")
    repo.write({"bindings/a.toml": "a = 2\n"})
    assert isinstance(Source(repo.root, Layer.CONFIG).scan(), Tree)
    assert not trace.exists()


def test_no_hook_include_remote_or_replacement_of_a_repository_counts(repo: Repo, tmp_path: Path) -> None:
    program, trace = canary(tmp_path)
    evil = tmp_path / "evil.config"
    evil.write_text(
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {tmp_path}\n[include]\n\tpath = {tmp_path}/fifo\n"
    )
    os.mkfifo(tmp_path / "fifo")  # whoever reads it waits for ever
    blob = repo.git("rev-parse", "HEAD:bindings/a.toml")
    other = repo.git("rev-parse", "HEAD:agents/clerk.toml")
    repo.git("update-ref", f"refs/replace/{blob}", other)
    for hook in HOOKS:
        shutil.copy(program, repo.root / ".git/hooks" / hook)
    with (repo.root / ".git/config").open("a") as file:
        file.write(f'[include]\n\tpath = {evil}\n[includeIf "gitdir:/**"]\n\tpath = {evil}\n')
        file.write(f'[remote "origin"]\n\turl = ext::{program}\n\tpromisor = true\n\tvcs = evil\n')
        file.write("[extensions]\n\tpartialClone = origin\n\tworktreeConfig = true\n\tfromTheFuture = true\n")
    found = tree(repo.root)
    assert found.files["bindings/a.toml"] == b"a = 1\n"
    loose(repo.root, blob).unlink()
    assert tree(repo.root).faults["bindings/a.toml"].word == "unreadable"
    assert isinstance(Source(repo.root, Layer.CONFIG).scan(), Tree)
    assert not trace.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to somebody else")
def test_root_reads_the_repository_of_another_user_as_git_itself_would_not(repo: Repo) -> None:
    name = repo.head()
    subprocess.run(["chown", "-R", "12345:12345", str(repo.root)], check=True)
    assert repo.git("status", check=False) == ""  # "dubious ownership"
    assert tree(repo.root).revision == f"main@sha1:{name}"
    scanned = Source(repo.root, Layer.CONFIG).scan()
    assert isinstance(scanned, Tree)
    assert scanned.revision == f"main@sha1:{name}"


def test_history_tells_whether_one_commit_follows_another(repo: Repo) -> None:
    first = repo.head()
    second = repo.commit({"bindings/a.toml": "a = 2\n"})
    repo.git("checkout", "-q", "-b", "side", first)
    other = repo.commit({"bindings/a.toml": "a = 3\n"})
    where = commit(repo.root).where.repository
    assert where is not None
    store = checkouts.store(where, first)
    pairs = [(first, second), (first, first), (second, first), (second, other), ("1" * 40, first)]
    found = [gitstore.is_ancestor(store, older, newer) for older, newer in pairs]
    assert found == [True, True, False, False, None]


def test_reading_leaves_no_process_and_no_file_behind(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    place = repo.root.parent / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    before = sorted(repo.root.rglob("*"))
    tree(repo.root)
    assert list(place.iterdir()) == []
    assert sorted(repo.root.rglob("*")) == before
