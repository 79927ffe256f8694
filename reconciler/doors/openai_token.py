"""The token of the OpenAI-compatible door: shown when it is made, and never again.

``<state>/openai/AGENT.token`` (folder 0700, file 0600) holds its sha256 alone. Whoever has the token asks as
that agent. A new one takes the place of the one before at once, also for a door that runs.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from reconciler.control import atomic

_BEFORE = "handler-"  # so that a scanner of texts for secrets can know one
_MOST = 256  # bytes of the file


class Token:
    """The token of one agent's door."""

    def __init__(self, state: Path, agent: str) -> None:
        self.path = state / "openai" / f"{agent}.token"

    def make(self) -> str:
        """A new one, in place of any before. Raises OSError."""
        for folder in (self.path.parent.parent, self.path.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = _BEFORE + secrets.token_urlsafe(32)
        self.path.unlink(missing_ok=True)  # whatever mode somebody gave it
        atomic.write(self.path, f"{_digest(made)}\n".encode())
        return made

    def revoke(self) -> bool:
        """Let nobody in any more; False where nobody was. Raises OSError."""
        found = self.exists()
        if found:
            atomic.remove(self.path)
        return found

    def exists(self) -> bool:
        """Whether there is one."""
        return bool(self._kept())

    def allows(self, given: str) -> bool:
        """Whether that is the one, as the file has it now; takes as long for any other."""
        kept = self._kept()
        return bool(kept) and hmac.compare_digest(kept, _digest(given))

    def _kept(self) -> str:
        """What the file has; "" for none, and for one that another user could write."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return ""
        try:
            found = os.fstat(fd)
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                return ""
            return os.read(fd, _MOST).decode("ascii", "replace").strip()
        finally:
            os.close(fd)


def _digest(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
