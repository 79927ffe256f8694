"""Random edits of a small configuration in a git repository, as people and their tools make them.

An act is a name and two numbers, so that a random order shrinks and can be told in one line.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.kit.repos import Repo

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "own"
description = "{note}"
implements = ["ocr/v1"]
runtime = "python"
"""
MAIN = """# {note}
from handler_connector import serve
serve({{"ocr_extract": lambda args, call: {{"pages": [{{"text": "{note}"}}]}}}})
"""
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "{of}"\ndescription = "{note}"\n'
AGENT = (
    'apiVersion = "handler.agent/v1"\ndescription = "{note}"\nrequires = ["ocr/v1"]\n'
    'services = {{ ocr = "{of}" }}\nscope = ["{scope}"]\n'
)
PROJECT = 'apiVersion = "handler.project/v1"\ndescription = "{note}"\nservices = {{ ocr = "{of}" }}\n'
SETTINGS = 'apiVersion = "handler.config/v1"\n# {note}\n'

_SETTINGS_MORE = (
    "",
    "[prune]\nmaxFraction = 0.2\n",
    "[prune]\nallowEmpty = true\n",
    '[reconcile]\nmode = "manual"\n',
)
_BINDINGS = ("a", "b", "c")
FILES = (
    "handler.toml",
    *(f"bindings/{name}.toml" for name in _BINDINGS),
    "agents/x.toml",
    "agents/y.toml",
    "projects/p.toml",
    "connectors/own/connector.toml",
    "connectors/own/main.py",
)
_FOLDERS = ("bindings", "agents", "connectors/own", "projects")
_BROKEN = (
    "",
    "[half",
    "conector = 1\n",
    "<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n",
    'apiVersion = "handler.binding/v1"\nconnector = "ocr-mistrl"\n',
    "\ufeffx = 1\n\0",
)
_TIMES = (0, 1_000_000_000, 4_000_000_000)  # 1970, 2001, 2096
_MODES = (0o644, 0o755, 0o600, 0o444)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that happens: what, to which, how."""

    what: str
    which: int = 0
    how: int = 0


class Desk:
    """The configuration and who edits it. Every text that is written has a length of its own."""

    def __init__(self, root: Path, scope: str) -> None:
        self.root = root
        self.repo = Repo(root, "-b", "main")
        self.commits = 0
        self._scope = scope
        self._notes = 0

    def begin(self) -> None:
        """A configuration in which all is well, committed."""
        for path in FILES:
            self.save(path, self.good(path, 0))
        self.save("connectors/own/PROVISIONING.md", "Nothing.\n")
        self.commit()

    def good(self, path: str, how: int) -> str:
        """A text with which the file at ``path`` may be admitted."""
        self._notes += 1
        note, of = "n" * self._notes, _BINDINGS[how % 3]
        kind = path.partition("/")[0]
        if path.endswith("main.py"):
            return MAIN.format(note=note)
        if kind == "bindings":
            more = "suspend = true\n" if how % 7 == 6 else ""
            return BINDING.format(note=note, of=("own", "ocr-tesseract")[how % 2]) + more
        if kind == "agents":
            more = 'project = "p"\n' if how % 5 == 4 else ""
            return AGENT.format(note=note, of=of, scope=self._scope) + more
        if kind == "handler.toml":
            return SETTINGS.format(note=note) + _SETTINGS_MORE[how % 4]
        form = PROJECT if kind == "projects" else CONNECTOR
        return form.format(note=note, of=of)

    def save(self, path: str, text: str) -> None:
        """By rename, as editors do."""
        target = self.root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.swp")
        temporary.write_text(text)
        temporary.rename(target)

    def commit(self) -> None:
        self.commits += 1
        self.repo.git("add", "-A")
        self.repo.git("commit", "-q", "--allow-empty", "-m", str(self.commits))

    def do(self, act: Act) -> None:
        """Do one of ``EDITS``; what cannot be done just now is nothing."""
        with contextlib.suppress(OSError):
            EDITS[act.what](self, act.which, act.how)

    def tidy(self) -> None:
        """No lock is left, and the folder is where it belongs."""
        if self.aside.exists():
            self.put_back()
        (self.root / ".git/index.lock").unlink(missing_ok=True)

    def put_back(self) -> None:
        """The folder takes its place again, whatever was made there meanwhile."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.aside.rename(self.root)

    @property
    def aside(self) -> Path:
        return self.root.with_name("aside")


def _path(which: int) -> str:
    return FILES[which % len(FILES)]


def _write(desk: Desk, which: int, how: int) -> None:
    desk.save(_path(which), desk.good(_path(which), how))


def _in_place(desk: Desk, which: int, how: int) -> None:
    path = desk.root / _path(which)
    if path.is_file() and not path.is_symlink():
        path.write_text(desk.good(_path(which), how))


def _break(desk: Desk, which: int, how: int) -> None:
    desk.save(_path(which), _BROKEN[how % len(_BROKEN)])


def _remove(desk: Desk, which: int, how: int) -> None:
    (desk.root / _path(which)).unlink()


def _remove_folder(desk: Desk, which: int, how: int) -> None:
    shutil.rmtree(desk.root / _FOLDERS[which % 4])


def _rename(desk: Desk, which: int, how: int) -> None:
    kind = ("bindings", "agents")[which % 2]
    found = sorted((desk.root / kind).glob("*.toml"))
    if found:
        found[how % len(found)].rename(desk.root / kind / f"{'abcxyz'[which % 6]}.toml")


def _touch(desk: Desk, which: int, how: int) -> None:
    os.utime(desk.root / _path(which), (_TIMES[how % 3],) * 2)


def _chmod(desk: Desk, which: int, how: int) -> None:
    path = desk.root / _path(which)
    if not path.is_symlink():
        path.chmod(_MODES[how % 4])


def _link(desk: Desk, which: int, how: int) -> None:
    path = desk.root / _path(which)
    path.unlink()
    path.symlink_to(desk.root / _path(how))


def _folder(desk: Desk, which: int, how: int) -> None:
    path = desk.root / _path(which)
    path.unlink()
    path.mkdir()


def _commit(desk: Desk, which: int, how: int) -> None:
    git = desk.root / ".git"
    if git.exists() and not (git / "index.lock").exists():
        desk.commit()


def _checkout(desk: Desk, which: int, how: int) -> None:
    back, force = which % max(desk.commits, 1), ("-f",) if how % 2 else ()
    desk.repo.git("checkout", "-q", *force, f"HEAD~{back}", check=False)


def _reset(desk: Desk, which: int, how: int) -> None:
    desk.repo.git("reset", "-q", ("--hard", "--soft", "--mixed")[how % 3], f"HEAD~{which % 3}", check=False)


def _branch(desk: Desk, which: int, how: int) -> None:
    name = f"b{which % 2}"
    desk.repo.git("checkout", "-q", *(("-b",) if how % 2 else ()), name, check=False)


def _back(desk: Desk, which: int, how: int) -> None:
    desk.repo.git("checkout", "-q", "-f", "main", check=False)


def _lock(desk: Desk, which: int, how: int) -> None:
    (desk.root / ".git/index.lock").touch()


def _unlock(desk: Desk, which: int, how: int) -> None:
    (desk.root / ".git/index.lock").unlink()


def _vanish(desk: Desk, which: int, how: int) -> None:
    if desk.aside.exists():
        desk.put_back()
    else:
        desk.root.rename(desk.aside)


def _litter(desk: Desk, which: int, how: int) -> None:
    (desk.root / "bindings" / ("a.toml~", ".a.toml.swp", "4913", "notes.md")[how % 4]).write_text("[half")


EDITS: dict[str, Callable[[Desk, int, int], None]] = {
    "write": _write,
    "write in place": _in_place,
    "break": _break,
    "remove": _remove,
    "remove a folder": _remove_folder,
    "rename": _rename,
    "touch": _touch,
    "chmod": _chmod,
    "link": _link,
    "make a folder of": _folder,
    "commit": _commit,
    "checkout": _checkout,
    "reset": _reset,
    "branch": _branch,
    "back to main": _back,
    "lock": _lock,
    "unlock": _unlock,
    "vanish": _vanish,
    "litter": _litter,
}
