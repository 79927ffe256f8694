"""Whether a commit is signed by somebody who may: SSH signatures, offline, against a file of allowed signers.

The raw commit, already checked against its name, is taken apart here; ``ssh-keygen -Y verify`` judges it. No
git runs, so no ``gpg.program`` of a repository can, and nothing asks an agent or a network. A commit names
its whole tree, and the reader checks every object against its name, so what is read is what was signed. Who
lets an older signed commit be checked out rolls back to it: that is said (not a descendant), not refused.

As git does, a key's validity is judged at the time that the commit gives: to revoke a key, take it out.
"""

import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_ASK_S = 10.0
_MAX_BYTES = 2**20  # of the file of signers: a hundred times a large team's
_NAMESPACE = "git"  # what git signs commits under; a signature made for something else does not count
_WHEN = re.compile(rb"^committer .*> (\d{1,11}) [+-]\d{4}$", re.MULTILINE)
_KEY = re.compile(r"key (SHA256:[A-Za-z0-9+/=]+)")
_SSH = b"-----BEGIN SSH SIGNATURE-----"
_ARMOURED = {b"-----BEGIN PGP": "OpenPGP", b"-----BEGIN SIGNED MESSAGE": "X.509"}


@dataclass(frozen=True, slots=True)
class Signed:
    """A commit that counts, and who signed it, as the file of signers names them."""

    signer: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A commit that does not count, and what a person can do."""

    why: str
    mend: str

    def __str__(self) -> str:
        return f"{self.why}; {self.mend}"


def judged(commit: bytes, algorithm: str, signers: Path) -> Signed | Refused:
    """Judge a raw commit of a ``sha1`` or ``sha256`` repository by the signers that the file lists."""
    allowed = _allowed(signers)
    if isinstance(allowed, Refused):
        return allowed
    parts = _parts(commit, "gpgsig-sha256" if algorithm == "sha256" else "gpgsig")
    if parts is None:
        return Refused(
            "it is not signed", "sign it: `git commit --amend --no-edit -S`, with gpg.format = ssh"
        )
    payload, signature = parts
    if not signature.startswith(_SSH):
        kind = next(
            (word for start, word in _ARMOURED.items() if signature.startswith(start)), "something else"
        )
        return Refused(f"it is signed with {kind}", "sign it with an SSH key: gpg.format = ssh")
    when = _WHEN.search(payload)
    if when is None:
        return Refused("it does not say when it was made", "commit it anew")
    return _verified(payload, signature, allowed, datetime.fromtimestamp(int(when[1]), UTC))


def _parts(commit: bytes, header: str) -> tuple[bytes, bytes] | None:
    """What was signed, and the signature; None when there is not exactly one. All ``gpgsig`` headers are
    outside of what was signed, as git has it.
    """
    head, blank, message = commit.partition(b"\n\n")
    kept, found, inside = [], [], b""
    for line in head.split(b"\n"):
        if not line.startswith(b" "):
            name = line.partition(b" ")[0]
            inside = name if name.startswith(b"gpgsig") else b""
            if inside == header.encode():
                found.append([line.partition(b" ")[2]])
        elif inside == header.encode():
            found[-1].append(line[1:])
        if not inside:
            kept.append(line)
    if len(found) != 1:
        return None
    return b"\n".join(kept) + blank + message, b"\n".join(found[0]) + b"\n"


def _allowed(signers: Path) -> bytes | Refused:
    mend = "`source.allowedSigners` of handler.toml names the file, in the form of ssh-keygen(1)"
    try:
        fd = os.open(signers, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Refused(f"{signers} cannot be read: {error.strerror}", mend)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return Refused(f"{signers} is no regular file of at most {_MAX_BYTES} bytes", mend)
        if status.st_mode & 0o002:
            return Refused(f"everybody may write to {signers}", f"`chmod o-w {signers}`")
        return os.read(fd, _MAX_BYTES)
    except OSError as error:
        return Refused(f"{signers} cannot be read: {error.strerror}", mend)
    finally:
        os.close(fd)


def _verified(payload: bytes, signature: bytes, allowed: bytes, when: datetime) -> Signed | Refused:
    with tempfile.TemporaryDirectory(prefix="handler-signed-", ignore_cleanup_errors=True) as folder:
        sign, list_of = Path(folder, "signature"), Path(folder, "signers")
        sign.write_bytes(signature)
        list_of.write_bytes(allowed)
        at = f"-Overify-time={when:%Y%m%d%H%M%S}"
        files = {"-s": str(sign), "-f": str(list_of)}
        try:
            names = _asked("find-principals", files, at)
            for name in names.stdout.splitlines() if names.returncode == 0 else ():
                words = files | {"-n": _NAMESPACE, "-I": name.strip()}
                if name.strip() and _asked("verify", words, at, payload).returncode == 0:
                    return Signed(name.strip())
            whole = _asked("check-novalidate", {"-s": str(sign), "-n": _NAMESPACE}, None, payload)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Refused(f"ssh-keygen cannot be asked: {error}", "install OpenSSH")
    if whole.returncode != 0:
        return Refused(
            "its signature does not fit what it says", "sign it anew: `git commit --amend --no-edit -S`"
        )
    key = _KEY.search(whole.stdout)
    return Refused(
        f"it is signed with the key {key[1] if key else 'of somebody'}, which may not sign here",
        "let somebody sign it whom the allowed signers list, or list the key",
    )


def _asked(
    act: str, words: Mapping[str, str], at: str | None, payload: bytes = b""
) -> "subprocess.CompletedProcess[str]":
    command = [
        "ssh-keygen",
        "-Y",
        act,
        *(word for pair in words.items() for word in pair),
        *filter(None, [at]),
    ]
    done = subprocess.run(  # noqa: S603 - fixed words; a name is the value of -I
        command,
        input=payload,
        capture_output=True,
        timeout=_ASK_S,
        check=False,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
    )
    text = done.stdout.decode(errors="replace")
    return subprocess.CompletedProcess(command, done.returncode, text, "")
