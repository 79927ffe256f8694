"""The command of a connector: which program its first word can be inside the sandbox.

Whether a program of the system is installed is the machine's matter and said when it starts; what files alone
tell is said here: a program of the folder is there and executable, an absolute one lies in what the sandbox
shows, and a launcher that would fetch its program from a registry cannot, without a network.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from reconciler.admission.slots import Words, problem
from reconciler.admission.view import View, inside, nearest
from reconciler.model.inventory import Resource
from reconciler.model.problems import Problem, quoted
from reconciler.model.resources import Connector

_FETCHERS = ("npx", "uvx", "pipx", "bunx", "docker", "podman")
_WHY = "only the connector's folder, its environment and what sandbox lists are inside"


def program_is_inside(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """The first word names what the sandbox can show."""
    command = connector.spec.command
    if not command or not connector.spec.implements:
        return  # a wrapped server that waits for its interface is not started
    first = command[0]
    words = None
    if any("\0" in word for word in command):
        words = Words("the command holds a NUL character", "no argument of a program can", "delete it")
    elif first in _FETCHERS:
        words = Words(
            f"{quoted(first)} fetches what it runs, or needs a daemon",
            "a connector has no registry and no daemon: what it runs is fixed beside it",
            "name the program itself; for one from PyPI add requirements.lock",
        )
    elif first.startswith("/"):
        words = _absolute(connector, first)
    elif "/" in first:
        words = _of_the_folder(connector, first.removeprefix("./"))
    elif not first.strip() or first.startswith("-"):
        words = Words(
            f"{quoted(first)} is no program", "the first word is what runs", "write a program's name"
        )
    if words is not None:
        yield problem(connector, ("command", 0), "C218", words)


def _absolute(connector: Resource[Connector], first: str) -> Words | None:
    path, shown = PurePosixPath(first), connector.spec.sandbox.read
    if ".." not in path.parts and any(path.is_relative_to(folder) for folder in shown):
        return None
    folder = str(path.parent)
    return Words(f"the program {quoted(first)} is not inside", _WHY, f"add {quoted(folder)} to sandbox.read")


def _of_the_folder(connector: Resource[Connector], name: str) -> Words | None:
    files = inside(connector)
    whole = f"{connector.file.rpartition('/')[0]}/{name}"
    if name not in files:
        near = nearest(name, files)
        mend = f"write {quoted('./' + near)}" if near else "write the path of a file of this folder"
        return Words(f"the program {quoted(name)} is not in the folder", _WHY, mend)
    if name not in connector.executable:
        return Words(
            f"the program {quoted(name)} is not executable",
            "the kernel runs only files that say so",
            f"chmod +x {whole}",
        )
    return None


RULES = (program_is_inside,)
