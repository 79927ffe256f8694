"""Signatures made by the real git and the real ssh-keygen, judged without git."""

import os
import subprocess
from pathlib import Path

import pytest

from reconciler.control import gitstore, signed
from reconciler.control.signed import Refused, Signed
from tests.kit.repos import Repo, canary


def key(folder: Path, name: str) -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)], check=True
    )
    return folder / f"{name}.pub"


def listed(public: Path, who: str = "ann@example.invalid", options: str = "") -> str:
    return f"{who} {options} {public.read_text()}"


class Place:
    """A repository whose commits are signed by ``mine``, and the file of those who may."""

    def __init__(self, folder: Path, *init: str) -> None:
        self.repo = Repo(folder / "config", *init)
        self.algorithm = "sha256" if init else "sha1"
        self.mine, self.other = key(folder, "mine"), key(folder, "other")
        self.allowed = folder / "allowed"
        self.allowed.write_text(listed(self.mine))
        self.repo.git("config", "gpg.format", "ssh")

    def commit(self, by: Path | None, *options: str) -> bytes:
        how = (f"--gpg-sign={by}",) if by else ("--no-gpg-sign",)
        self.repo.commit({"a": os.urandom(4)}, *how, *options)
        return self.raw()

    def raw(self) -> bytes:
        store = gitstore.Store(f"{self.repo.root}/.git/objects", self.algorithm)
        name = self.repo.head()
        with gitstore.opened(store) as reader:
            return reader.read([name])[name].data

    def judged(self, commit: bytes) -> Signed | Refused:
        return signed.judged(commit, self.algorithm, self.allowed)

    def why(self, commit: bytes) -> str:
        found = self.judged(commit)
        assert isinstance(found, Refused), found
        return str(found)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("init", [(), ("--object-format=sha256",)])
def test_a_commit_signed_by_somebody_listed_counts(tmp_path: Path, init: tuple[str, ...]) -> None:
    place = Place(tmp_path, *init)
    commit = place.commit(place.mine, "-m", "second line\n\n gpgsig in the text\n")
    assert place.judged(commit) == Signed("ann@example.invalid")
    place.allowed.write_text("# nobody else\n\n" + listed(place.other, "bob") + listed(place.mine, "a@x,b@x"))
    assert place.judged(commit) == Signed("a@x")


def test_an_unsigned_commit_is_refused_with_how_to_sign_it(place: Place) -> None:
    assert "not signed" in place.why(place.commit(None))
    assert "commit --amend" in place.why(place.commit(None))


def test_another_key_is_refused_and_its_fingerprint_shown(place: Place) -> None:
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(place.other)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split()[1] in place.why(place.commit(place.other))


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"one", b"two"), (b"tree ", b"tree 0"), (b"T <t@", b"U <t@"), (b" +0000", b" +0100")],
)
def test_a_commit_that_was_changed_after_it_was_signed_is_refused(
    place: Place, old: bytes, new: bytes
) -> None:
    commit = place.commit(place.mine)
    assert old in commit
    assert "does not fit" in place.why(commit.replace(old, new, 1))


def test_a_header_that_was_put_in_later_is_refused(place: Place) -> None:
    commit = place.commit(place.mine)
    assert "does not fit" in place.why(commit.replace(b"\ngpgsig ", b"\nmore header\ngpgsig ", 1))


def test_two_signatures_count_as_none(place: Place) -> None:
    commit, other = place.commit(place.mine), place.commit(place.other)
    start, end = other.index(b"gpgsig "), other.index(b"-----END SSH SIGNATURE-----\n") + 28
    assert "not signed" in place.why(commit.replace(b"gpgsig ", other[start:end] + b"gpgsig ", 1))


def test_a_signature_made_for_something_else_is_refused(place: Place, tmp_path: Path) -> None:
    commit = place.commit(None)
    command = ["ssh-keygen", "-Y", "sign", "-n", "file", "-f", str(tmp_path / "mine")]
    made = subprocess.run(command, input=commit, capture_output=True, check=True).stdout
    header = b"\ngpgsig " + made.strip().replace(b"\n", b"\n ")
    head, _, message = commit.partition(b"\n\n")
    assert "does not fit" in place.why(head + header + b"\n\n" + message)


def test_what_the_file_of_signers_restricts_holds(place: Place) -> None:
    commit = place.commit(place.mine)
    place.allowed.write_text(listed(place.mine, options='namespaces="file"'))
    assert "may not sign here" in place.why(commit)
    place.allowed.write_text(listed(place.mine, options='valid-before="20010101"'))
    assert "may not sign here" in place.why(commit)
    place.allowed.write_text(listed(place.mine, options='namespaces="git",valid-after="20010101"'))
    assert isinstance(place.judged(commit), Signed)


def test_a_pgp_signature_is_refused_by_name(place: Place) -> None:
    commit = place.commit(place.mine)
    assert "OpenPGP" in place.why(commit.replace(b"-----BEGIN SSH SIGNATURE", b"-----BEGIN PGP SIGNATURE"))
    assert "something else" in place.why(commit.replace(b"-----BEGIN SSH SIGNATURE", b"-----BEGIN NOTHING"))


def test_a_file_of_signers_that_cannot_be_trusted_lets_nobody_pass(place: Place, tmp_path: Path) -> None:
    commit = place.commit(place.mine)
    place.allowed.chmod(0o666)
    assert "everybody may write" in place.why(commit)
    place.allowed.unlink()
    assert "cannot be read" in place.why(commit)
    os.mkfifo(place.allowed)
    assert "no regular file" in place.why(commit)
    place.allowed.unlink()
    place.allowed.write_text("")
    assert "may not sign here" in place.why(commit)


def test_without_ssh_keygen_nobody_passes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = place.commit(place.mine)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "ssh-keygen cannot be asked" in place.why(commit)


def test_no_program_that_the_repository_names_for_signatures_runs(place: Place, tmp_path: Path) -> None:
    commit = place.commit(place.mine)
    program, trace = canary(tmp_path)
    for setting in ("gpg.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "gpg.x509.program"):
        place.repo.git("config", setting, str(program))
    place.repo.git("config", "gpg.ssh.allowedSignersFile", "/dev/null")
    assert isinstance(place.judged(commit), Signed)
    assert not trace.exists()


@pytest.mark.parametrize(
    "commit", [b"", b"\n\n", b"gpgsig \n\n", b"tree 1\ngpgsig -----BEGIN SSH SIGNATURE-----", b" \n \n"]
)
def test_what_is_no_commit_is_refused(place: Place, commit: bytes) -> None:
    assert isinstance(place.judged(commit), Refused)
