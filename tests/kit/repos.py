"""Real git repositories for tests: made anew in a temporary folder, with no setting of the machine."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "T",
    "GIT_AUTHOR_EMAIL": "t@example.invalid",
    "GIT_COMMITTER_NAME": "T",
    "GIT_COMMITTER_EMAIL": "t@example.invalid",
}


class Repo:
    """A repository at ``root``; ``git`` runs there, ``commit`` writes files and commits all."""

    def __init__(self, root: Path, *init: str) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", *init)

    def git(self, *words: str, folder: Path | None = None, check: bool = True) -> str:
        command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *words]
        done = subprocess.run(
            command,
            cwd=folder or self.root,
            env=ENVIRONMENT | {"HOME": str(self.root.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for path, text in files.items():
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text if isinstance(text, bytes) else text.encode())

    def commit(self, files: Mapping[str, str | bytes], *options: str, message: str = "one") -> str:
        self.write(files)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", message, *options)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


def canary(folder: Path) -> tuple[Path, Path]:
    """A program that leaves a trace when it runs, and the trace."""
    trace, program = folder / "canary", folder / "evil"
    program.write_text(f"#!/bin/sh\ntouch {trace}\ncat\n")
    program.chmod(0o755)
    return program, trace
