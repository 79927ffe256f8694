"""``shell/v1``: one program of the machine in a sandbox of its own, over the agent's scope.

A program is given as words and is no shell's line. It sees the system's own programs, and the folders of the
scope at their places: those that are granted ``write`` it may change, all others it reads. It has no network,
no home but an empty one, no secret, and bounds of memory, processes and time; when its call is over, no
process of it is left.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from reconciler.builtin.asking import Ended
from reconciler.builtin.lane import BuiltinLane, Holder, threads
from reconciler.model import commandline
from reconciler.model.calls import Refusal, Reply, Result, Sink
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe
from reconciler.model.routes import ScopeFolder
from reconciler.router import beneath, scopes
from reconciler.router.beneath import Denied
from reconciler.runtime import agentbox, agenthost, host, scoped, seccomp, shellrun
from reconciler.runtime.agentbox import Box, Start
from reconciler.runtime.limits import Limits
from reconciler.runtime.process import NotStartedError

IMPLEMENTS = "shell/v1"
_COMMANDS = "SHELL_COMMANDS"  # the setting, as its connector names it
_ANY = "*"
_HOME = "/home/agent"
_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_INSIDE = 1000  # the number that root is shown as
_TIMEOUT_S, _USUAL_BYTES = 60, 128 * 2**10
_PYTHONS = (13, 25)  # SIGPIPE and SIGXFSZ, which every Python ignores
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LONGEST_WORD, _MOST_BYTES = 2**17 - 1, 2**20  # bytes: the kernel's for one word, and well below its for all
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Grounds:
    """What sandboxes are made with: the controller's bounds, and its own folders, which none shows."""

    limits: Limits
    ours: tuple[str, ...]


class ShellLane(BuiltinLane):
    """The lane of a binding that runs programs. Each call is a task of the loop, and a process."""

    is_contained = True

    def __init__(self, name: InstanceName, holder: Holder, recipe: Recipe, grounds: Grounds) -> None:
        super().__init__(name, holder, recipe.max_concurrent_calls)
        self._commands = frozenset(dict(recipe.settings).get(_COMMANDS, _ANY).split())
        self._policy = recipe.sandbox
        self._grounds = grounds
        self._tasks: dict[int, asyncio.Task[Reply]] = {}

    def _counted(self, sink: Sink) -> str:
        return ""  # processes: the binding's bound is for all agents together

    def cancel(self, number: int) -> bool:
        """As of any lane; every process of a call that runs is ended."""
        had_begun = super().cancel(number)
        if (task := self._tasks.get(number)) is not None:
            task.cancel()
        return had_begun

    def _begin(self, number: int, tool: str, arguments: Mapping[str, Any]) -> None:
        self._running[self._whose[number]] += 1
        task = asyncio.get_running_loop().create_task(self._reply(self._calls[number], arguments))
        self._tasks[number] = task
        task.add_done_callback(lambda done: self._over(number, done))

    def _over(self, number: int, task: "asyncio.Task[Reply]") -> None:
        self._tasks.pop(number, None)
        self._done(number, task)

    async def _reply(self, sink: Sink, arguments: Mapping[str, Any]) -> Reply:
        try:
            planned = threads().submit(sink.caller, self._order, sink.scope, arguments)  # a folder may hang
            order = cast(shellrun.Order, await asyncio.wrap_future(planned))
        except Ended as ended:
            return Refusal(ended.code, ended.diagnostic, no_effect="said")
        except Denied as denied:
            return Refusal(denied.denial.value, denied.diagnostic, no_effect="said")
        except (host.Missing, KeyError, OSError) as fault:
            return Refusal("unavailable", f"no sandbox can be built here: {fault}", no_effect="said")
        seconds = float(arguments.get("timeout_seconds", _TIMEOUT_S))
        most = int(arguments.get("max_output_bytes", _USUAL_BYTES))
        try:
            ran = await shellrun.run(order, seconds, most)
        except NotStartedError as fault:
            return Refusal("unavailable", str(fault), no_effect="said")
        told = {
            "exit_code": ran.code,
            "success": ran.ended == "exit" and ran.code == 0,
            "ended": ran.ended,
            "stdout": ran.stdout,
            "stderr": ran.stderr,
            "cut": ran.cut,
            "duration_seconds": round(ran.seconds, 3),
        }
        return Result(told, {})

    def _order(self, scope: tuple[ScopeFolder, ...], arguments: Mapping[str, Any]) -> shellrun.Order:
        words = _words(arguments)
        folder, _, name = words[0].rpartition("/")
        listed = {words[0]} if not folder else {name} if folder in _PATH else set()
        if _ANY not in self._commands and not listed & self._commands:
            raise Ended("refused", "the binding does not list this program")
        folders = _shown(scope)
        cwd = _cwd(scope, str(arguments.get("cwd", ".")))
        machine = host.survey()
        found = agenthost.system()
        agenthost.add_program(found, machine.interpreter, (), (_HOME, *folders.folders, *self._grounds.ours))

        def is_inside(path: str) -> bool:
            is_shown = found.shows(path) or agenthost.within(path, folders.folders)
            return is_shown and not agenthost.within(path, self._grounds.ours)

        program = _program(words[0], cwd, is_inside)
        box = Box(
            home=_HOME,
            cwd=cwd,
            user=(_INSIDE, _INSIDE) if os.geteuid() == 0 else (os.geteuid(), os.getegid()),
            mounts=(*found.as_mounts(), *folders.mounts),
            links=tuple(found.links.items()),
            covered=tuple(one for one in self._grounds.ours if agenthost.within(one, folders.folders)),
            session=(),
            variables=tuple(agentbox.variables({}, {"PATH": ":".join(_PATH)}, _HOME, egress=()).items()),
        )
        start = Start(program, words, tuple(folders.seen), _PYTHONS)
        unit = f"shell-{self._name.binding}-{next(_NUMBERS)}"
        return shellrun.Order(
            machine.bwrap,
            "handler-shell",
            box,
            partial(agentbox.command, machine.interpreter, start),
            seccomp.program(os.uname().machine),
            lambda: self._grounds.limits.group(unit, self._policy),
            _encoded(str(arguments.get("stdin", ""))),
        )


def _words(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    command = arguments["command"]
    if "args" in arguments:
        words = (command, *arguments["args"])
    else:
        try:
            words = commandline.words(command)
        except ValueError as fault:
            raise Ended("bad_command", str(fault)) from None
    if any("\0" in word for word in words):
        raise Ended("bad_command", "a word holds NUL")
    sizes = [len(_encoded(word)) for word in words]
    if max(sizes) > _LONGEST_WORD or sum(sizes) > _MOST_BYTES:
        raise Ended("bad_command", "its words are longer than a program can be given")
    return words


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Ended("bad_command", "half a letter is no text") from None


def _shown(scope: tuple[ScopeFolder, ...]) -> scoped.Shown:
    try:
        found = [(one.path, one.access) for one in scope]
        return scoped.shown(found, str(Path.home().resolve()), writable=("write",))
    except scoped.Unshown as fault:
        raise Ended("refused", str(fault)) from None


def _cwd(scope: tuple[ScopeFolder, ...], path: str) -> str:
    """The folder that it starts in, which is one of the scope; raises Denied."""
    folder, parts = scopes.within_or_at(scope, path)
    root = scopes.open_root(scope, folder)
    try:
        os.close(beneath.open_beneath(root, "/".join(parts) or ".", _FOLDER))
    finally:
        os.close(root)
    return "/".join((folder.path.rstrip("/"), *parts)) or "/"


def _program(word: str, cwd: str, is_inside: Callable[[str], bool]) -> str:
    """The absolute path of a program: a bare name is one of the system's. What the sandbox would not show, or
    is a link to such, is not there: whether this machine has it is nobody's business.
    """
    found = [f"{one}/{word}" for one in _PATH] if "/" not in word else [os.path.normpath(f"{cwd}/{word}")]
    if word.startswith("/"):
        found = [word]
    for path in found:
        with suppress(OSError):  # a name may be longer than any file's
            seen = all(map(is_inside, agenthost.way_to(path)))
            if seen and Path(path).is_file() and os.access(path, os.X_OK):
                return path
    raise Ended("no_such_program", "there is no such program")
