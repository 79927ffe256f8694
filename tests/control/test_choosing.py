"""From where a configuration is read: modes, refs, the gate, and what cannot switch it off."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.control import choosing
from reconciler.control.admitted import Admitted
from reconciler.control.looking import Look, Looker, settings_in_force
from reconciler.control.place import Place
from reconciler.control.source import Gone
from reconciler.model.inventory import Layer
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.status import Summary
from tests.control.test_signed import key, listed
from tests.kit.repos import Repo

pytestmark = pytest.mark.slow  # commands as people start them: a process each

HEAD = 'apiVersion = "handler.config/v1"\n'
COMMIT = HEAD + '[source]\nmode = "commit"\n'
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\ndescription = "{}"\n'
OCR = ObjectRef(Kind.BINDING, "ocr-a")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for folder in ("state/admitted", "run"):
        (tmp_path / folder).mkdir(parents=True)
    return Place(tmp_path / "config", tmp_path / "state", tmp_path / "run")


@pytest.fixture
def repo(place: Place) -> Repo:
    return Repo(place.config)


@pytest.fixture
def looker(place: Place) -> Callable[[], Looker]:
    def make() -> Looker:
        made = Looker(place, Admitted(place.state / "admitted"))
        made.first()
        return made

    return make


def says(looker: Looker) -> str:
    """Look, and what the binding that is in force says of itself; "" when there is none, or why nothing."""
    found = looker.look(())
    if not isinstance(found, Look):
        return str(found.detail)
    form = found.admission.in_force.get(OCR)
    return str(form.spec.description) if form is not None and hasattr(form.spec, "description") else ""


def binding(word: str, settings: str | None = COMMIT) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {"bindings/ocr-a.toml": BINDING.format(word)}
    return files | ({"handler.toml": settings} if settings is not None else {})


def revision(looker: Looker) -> str:
    assert looker.last is not None
    return looker.last.admission.inventory.trees[Layer.CONFIG].revision


def told(looker: Looker) -> Summary:
    return looker.told(Summary(configuration=""))


def test_in_mode_commit_an_edit_goes_live_with_its_commit(repo: Repo, looker: Callable[[], Looker]) -> None:
    first = repo.commit(binding("one"))
    one = looker()
    assert says(one) == "one"
    assert revision(one) == f"main@sha1:{first}"
    repo.write(binding("two"))
    assert says(one) == "one"
    assert told(one).dirty
    assert says(looker()) == "one"  # after a restart too
    second = repo.commit({})
    assert says(one) == "two"
    assert revision(one) == f"main@sha1:{second}"
    assert not told(one).dirty
    assert one.notes == ()


def test_locks_and_unfinished_merges_hold_up_files_and_no_commit(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    repo.commit(binding("one"))
    one = looker()
    assert says(one) == "one"
    for marker in ("MERGE_HEAD", "rebase-merge", "CHERRY_PICK_HEAD", "index.lock", "BISECT_LOG"):
        (repo.root / ".git" / marker).write_text("")
    repo.git("update-ref", "refs/heads/main", repo.git("commit-tree", "-m", "x", "HEAD^{tree}"))
    assert says(one) == "one"
    assert revision(one) == f"main@sha1:{repo.head()}"


def test_a_branch_a_tag_or_a_commit_is_read_whatever_is_checked_out(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    settings = HEAD + '[source]\nmode = "commit"\nref = "release"\n'
    first = repo.commit(binding("one", settings))
    repo.git("branch", "release")
    one = looker()
    assert says(one) == "one"
    assert revision(one) == f"release@sha1:{first}"
    second = repo.commit(binding("two", settings))
    assert says(one) == "one"
    repo.git("branch", "-f", "release", second)
    assert says(one) == "two"


def test_a_ref_that_is_gone_keeps_what_is_in_force_and_says_so(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    settings = HEAD + '[source]\nmode = "commit"\nref = "release"\n'
    repo.commit(binding("one", settings))
    repo.git("branch", "release")
    one = looker()
    assert says(one) == "one"
    repo.git("branch", "-D", "release")
    assert "source.ref = 'release'" in says(one)
    again = looker()
    assert again.last is not None
    assert OCR in again.last.admission.in_force


def test_a_switch_to_commits_waits_until_the_commit_says_so_too(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    repo.commit(binding("one", HEAD))
    one = looker()
    assert says(one) == "one"
    repo.write(binding("two", COMMIT))
    assert says(one) == "two"  # read as a file: that is what says it
    for again in (one, one, looker()):
        repo.write(binding("three", COMMIT))
        assert says(again) == "three"
        assert "is followed once handler.toml of 'HEAD' says so too" in again.notes[0]
    repo.commit({})
    assert says(one) == "three"
    assert says(one) == "three"
    assert revision(one) == f"main@sha1:{repo.head()}"
    repo.write(binding("four", COMMIT))
    assert says(one) == "three"
    assert one.notes == ()


def test_a_switch_back_to_files_waits_until_the_files_say_so_too(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    repo.commit(binding("one"))
    one = looker()
    assert says(one) == "one"
    repo.commit(binding("two", HEAD))
    repo.write(binding("dirty", COMMIT))
    assert says(one) == "two"
    for again in (one, one, looker()):
        assert says(again) == "two"
        assert "of the work tree says so too" in str(one.notes)
    repo.write({"handler.toml": HEAD})
    says(one)
    assert says(one) == "dirty"


def test_two_refs_that_name_each_other_do_not_take_turns(repo: Repo, looker: Callable[[], Looker]) -> None:
    def to(ref: str) -> str:
        return HEAD + f'[source]\nmode = "commit"\nref = "{ref}"\n'

    repo.commit(binding("main", to("main")))
    repo.git("branch", "other")
    one = looker()
    assert says(one) == "main"
    repo.commit(binding("main-2", to("other")))
    assert says(one) == "main-2"
    for again in (one, one, one, looker()):
        assert says(again) == "main-2"
        assert "is followed once handler.toml of 'other' says so too" in str(again.notes)
    repo.git("checkout", "-q", "other")
    repo.commit(binding("other", to("other")))
    says(one)
    assert says(one) == "other"


def test_a_commit_that_does_not_follow_the_last_one_is_applied_and_that_is_said(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    for settings in (HEAD, COMMIT):
        first = repo.commit(binding("one", settings))
        second = repo.commit(binding("two", settings))
        one = looker()
        says(one)
        assert says(one) == "two"
        repo.git("reset", "-q", "--hard", first)
        assert says(one) == "one"
        assert f"{first} is not a descendant of {second}" in str(one.notes)
        says(one)
        assert f"{first} is not a descendant of {second}" in str(one.notes)
        repo.commit(binding("three", settings))
        assert says(one) == "three"
        assert one.notes == ()


def test_the_first_commit_follows_on_files_without_one_and_nothing_is_said(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    repo.write(binding("one", HEAD))
    one = looker()
    assert says(one) == "one"
    repo.commit(binding("two", HEAD))
    assert says(one) == "two"
    assert one.notes == ()


def test_what_cannot_be_read_as_a_commit_concludes_nothing(repo: Repo, looker: Callable[[], Looker]) -> None:
    repo.write(binding("one"))
    assert "'HEAD' names no commit" in says(looker())
    (repo.root / ".git").rename(repo.root / ".not-git")
    assert "lies in no git repository" in says(looker())


def test_a_bare_repository_is_read_at_its_head(tmp_path: Path, repo: Repo) -> None:
    repo.commit(binding("one", None))
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.root), str(bare))
    (tmp_path / "state-2/admitted").mkdir(parents=True)
    one = Looker(Place(bare, tmp_path / "state-2", tmp_path / "run"), Admitted(tmp_path / "state-2/admitted"))
    one.first()
    assert says(one) == "one"
    repo.commit(binding("two", HEAD))
    repo.git("push", "-q", str(bare), "main")
    assert says(one) == "two"
    assert revision(one) == f"main@sha1:{repo.head()}"
    assert one.notes == ()


# the gate


class Gate:
    def __init__(self, repo: Repo, folder: Path) -> None:
        self.repo = repo
        self.mine, self.other = key(folder, "mine"), key(folder, "other")
        self.allowed = folder / "allowed"
        self.allowed.write_text(listed(self.mine))
        self.settings = COMMIT + f'verify = "signed"\nallowedSigners = "{self.allowed}"\n'
        repo.git("config", "gpg.format", "ssh")

    def commit(self, word: str, by: Path | None, settings: str | None = None) -> str:
        how = f"--gpg-sign={by}" if by else "--no-gpg-sign"
        return self.repo.commit(binding(word, self.settings if settings is None else settings), how)


@pytest.fixture
def gate(repo: Repo, tmp_path: Path) -> Gate:
    return Gate(repo, tmp_path)


def test_only_signed_commits_go_live_and_what_was_in_force_stays(
    gate: Gate, looker: Callable[[], Looker]
) -> None:
    gate.commit("one", gate.mine)
    one = looker()
    assert says(one) == "one"
    second = gate.commit("two", None)
    for again in (one, looker()):
        found = again.look(())
        assert isinstance(found, Gone)
        assert found.reason == "SourceRefused"
        assert found.detail.startswith(f"main@sha1:{second} is refused: it is not signed; sign it:")
        assert told(again).last_attempted == f"main@sha1:{second}"
        assert isinstance(again.look(None), Gone)  # an explicit apply is no way round
        assert isinstance(again.preview(), Gone)
        assert again.last is not None
        assert OCR in again.last.admission.in_force
    gate.commit("three", gate.other)
    assert "may not sign here" in says(one)
    gate.commit("four", gate.mine)
    assert says(one) == "four"


@pytest.mark.parametrize("settings", [HEAD, COMMIT, "", 'apiVersion = "nonsense'])
def test_no_unsigned_commit_and_no_edit_switches_the_gate_off(
    gate: Gate, looker: Callable[[], Looker], settings: str
) -> None:
    gate.commit("one", gate.mine)
    one = looker()
    assert says(one) == "one"
    gate.repo.write(binding("edited", settings))
    assert says(one) == "one"
    gate.commit("two", None, settings)
    for again in (one, looker()):
        assert "is refused" in says(again)
        assert again.last is not None
        assert settings_in_force(again.last.admission).source.verify == "signed"


def test_a_signed_commit_may_switch_the_gate_off(gate: Gate, looker: Callable[[], Looker]) -> None:
    gate.commit("one", gate.mine)
    one = looker()
    assert says(one) == "one"
    gate.commit("two", gate.mine, COMMIT)
    assert says(one) == "two"
    gate.commit("three", None, COMMIT)
    assert says(one) == "three"


def test_once_the_gate_is_in_force_no_file_as_it_lies_is_read(
    gate: Gate, looker: Callable[[], Looker]
) -> None:
    gate.commit("one", None, HEAD)
    one = looker()
    assert says(one) == "one"
    gate.repo.write(binding("two", gate.settings))
    assert says(one) == "two"
    gate.repo.write(binding("three", HEAD))
    assert "is in force" in says(one)
    gate.commit("four", gate.mine)
    assert says(one) == "four"


def test_the_gate_holds_on_the_first_look(gate: Gate, looker: Callable[[], Looker]) -> None:
    gate.commit("one", None)
    assert "is refused" in says(looker())


def test_a_signer_who_is_taken_out_no_longer_counts(gate: Gate, looker: Callable[[], Looker]) -> None:
    gate.commit("one", gate.mine)
    one = looker()
    assert says(one) == "one"
    gate.allowed.write_text(listed(gate.other))
    assert "may not sign here" in says(one)


def test_bytes_that_somebody_put_into_the_object_store_do_not_pass_as_signed(
    gate: Gate, looker: Callable[[], Looker]
) -> None:
    gate.commit("one", gate.mine)
    blob = gate.repo.git("rev-parse", "HEAD:bindings/ocr-a.toml")
    other = gate.repo.root / "evil"
    other.write_text(BINDING.format("evil"))
    stored = gate.repo.git("hash-object", "-w", str(other))
    objects = gate.repo.root / ".git/objects"
    place, evil = (objects / name[:2] / name[2:] for name in (blob, stored))
    place.unlink()
    place.write_bytes(evil.read_bytes())
    assert "damaged" in says(looker())


def test_a_rollback_to_before_the_gate_does_not_let_unsigned_commits_in(
    gate: Gate, looker: Callable[[], Looker]
) -> None:
    first = gate.commit("one", None, COMMIT)
    one = looker()
    assert says(one) == "one"
    gate.commit("two", gate.mine)
    assert says(one) == "two"
    one.roll_back(first[:12])
    assert one.last is not None
    assert settings_in_force(one.last.admission).source.verify == "none"
    gate.commit("three", None)
    for again in (one, looker()):
        assert "is refused" in says(again)
    gate.commit("four", gate.mine)
    assert says(one) == "four"


def test_a_first_handler_toml_that_is_refused_and_speaks_of_a_source_is_waited_for(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    repo.write(binding("one", COMMIT + "verify = 'sined'\n"))
    assert "nobody can say which source it means" in says(looker())
    repo.write(binding("one", "nonsense\n"))
    assert says(looker()) == "one"


@pytest.mark.parametrize("kind", ["inside", "link", "alias", "repository"])
def test_whoever_may_commit_cannot_list_themselves(
    gate: Gate, place: Place, tmp_path: Path, kind: str
) -> None:
    listing = gate.repo.root / "signers"
    if kind == "repository":
        place = Place(gate.repo.root / "deep", place.state, place.run)
        place.config.mkdir()
    if kind == "alias":
        (tmp_path / "alias").symlink_to(place.config)
    if kind == "link":
        (tmp_path / "link").symlink_to(listing)
    written = {"alias": tmp_path / "alias" / "signers", "link": tmp_path / "link"}.get(kind, listing)
    listing.write_text(listed(gate.mine))
    gate.settings = gate.settings.replace(str(gate.allowed), str(written))
    files = binding("one", gate.settings)
    below = {f"deep/{path}": text for path, text in files.items()} if kind == "repository" else files
    gate.repo.commit(below, f"--gpg-sign={gate.mine}")
    one = Looker(place, Admitted(place.state / "admitted"))
    one.first()
    refused = says(one)
    assert (
        "handler.toml is refused" in refused if kind == "inside" else "so a commit may change it" in refused
    )
    listing.write_text(listed(gate.other))
    gate.commit("evil", gate.other)
    assert says(one) != "evil"
    assert says(one).endswith(refused[-20:])


def test_a_first_handler_toml_that_cannot_be_read_is_waited_for(
    repo: Repo, looker: Callable[[], Looker], tmp_path: Path
) -> None:
    repo.commit(binding("one", None))
    (tmp_path / "real.toml").write_text(COMMIT + 'verify = "signed"\n')
    (repo.root / "handler.toml").symlink_to(tmp_path / "real.toml")
    assert "nobody can say which source it means" in says(looker())


def test_a_first_commit_that_would_drop_the_gate_is_not_taken(
    gate: Gate, looker: Callable[[], Looker]
) -> None:
    gate.commit("one", gate.mine, HEAD)
    gate.repo.write({"handler.toml": gate.settings})
    one = looker()
    assert "does not ask for these signatures" in says(one)
    gate.commit("two", None, HEAD)
    gate.repo.write({"handler.toml": gate.settings})
    assert "is not signed" in says(one)
    gate.commit("three", gate.mine)
    assert says(one) == "three"


def test_settings_that_were_refused_from_the_start_do_not_open_the_gate(
    gate: Gate, looker: Callable[[], Looker]
) -> None:
    """What the rules say may come to differ, with another version, from what a first look was judged by."""
    gate.commit("one", gate.mine)
    one = looker()
    assert says(one) == "one"
    assert one.last is not None
    ref = ObjectRef(Kind.CONFIG, "handler")
    forms = {name: form for name, form in one.last.admission.in_force.items() if name != ref}
    admission = replace(one.last.admission, in_force=forms, refused={ref: ()})
    one.last = replace(one.last, admission=admission)
    gate.commit("two", None)
    assert "is not signed" in says(one)


def test_a_branch_that_was_renamed_is_followed_once_it_is_made_again(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    settings = HEAD + '[source]\nmode = "commit"\nref = "{}"\n'
    repo.commit(binding("one", settings.format("main")))
    one = looker()
    assert says(one) == "one"
    repo.git("branch", "-m", "main", "trunk")
    repo.commit(binding("two", settings.format("trunk")))
    assert "make it again (`git branch main COMMIT`)" in says(one)
    repo.git("branch", "main", "trunk")
    assert says(one) == "two"
    repo.git("branch", "-D", "main")
    assert says(one) == "two"
    repo.commit(binding("three", settings.format("trunk")))
    assert says(one) == "three"


def test_no_branch_is_to_be_made_where_there_is_no_repository(
    repo: Repo, looker: Callable[[], Looker]
) -> None:
    repo.commit(binding("one"))
    one = looker()
    assert says(one) == "one"
    (repo.root / ".git").rename(repo.root.parent / "away")
    assert says(one).endswith("lies in no git repository")


def test_a_branch_with_a_plus_in_its_name_has_no_edits(repo: Repo, looker: Callable[[], Looker]) -> None:
    repo.git("checkout", "-q", "-b", "fix+dirty@v2")
    repo.commit(binding("one", HEAD))
    one = looker()
    assert says(one) == "one"
    assert not told(one).dirty


def test_looking_again_at_what_did_not_change_runs_nothing_and_writes_nothing(
    gate: Gate, looker: Callable[[], Looker], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.commit("one", gate.mine)
    one = looker()
    assert says(one) == "one"
    says(one)
    before = {path: path.stat().st_mtime_ns for path in place.state.rglob("*")}

    def no(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen", no)
    for _ in range(5):
        assert says(one) == "one"
    assert {path: path.stat().st_mtime_ns for path in place.state.rglob("*")} == before


def test_a_file_of_the_state_that_is_spoilt_counts_as_none(place: Place, repo: Repo) -> None:
    (place.state / "source.json").write_text("nonsense")
    source = choosing.Source(place.config, Layer.CONFIG)
    assert choosing.Chooser(source, place.config, place.state, place.surroundings()).kept.mode == "worktree"
