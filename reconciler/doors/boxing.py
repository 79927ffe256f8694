"""``handler run --sandbox``: the command in a sandbox that shows the agent's scope and little else.

Here it is put together: from the controller's answer (scope, sockets, what may be reached), from the command
line (``--ro``, ``--env``), and from what the program needs of this machine. Whatever would show too much is
refused before anything starts, and where the sandbox cannot be built nothing runs: there is no fallback.
"""
# ruff: noqa: PTH100, PTH110, PTH111, PTH120 - paths are compared as text, links and all

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reconciler.control import folders
from reconciler.doors import client, unserved, usage
from reconciler.doors.attempts import Attempts
from reconciler.egress.proxy import Proxy
from reconciler.model.hosts import Allow
from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import agentbounds, agentbox, agenthost, agentrun, host, netns, scoped, seccomp
from reconciler.runtime.agentbox import Box, Mount, Start

_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_IDENTITY = "etc"  # the folder below the session's own; it also keeps that one while a controller restarts
_HARNESS = "harness"
_POST_S = 2.0
_NOBODY_SHOWN = 1000  # the number that root is shown as: inside there is no root


class Unboxed(Exception):  # noqa: N818 - nothing ran
    """The sandbox cannot be what was asked for; the text says why, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for: ``read`` are ``--ro`` paths, ``kept`` are ``--env`` words."""

    read: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def run(
    wish: Wish,
    opened: Mapping[str, object],
    outfitted: tuple[str, Sequence[str], Mapping[str, str]],
    *,
    quiet: bool = False,
) -> int:
    """Run a command in a sandbox to its end; its exit code. ``outfitted`` are program, words and variables.

    ``opened`` is the controller's answer to ``session.open``, with ``config``. Raises Unboxed.
    """
    program, words, given = outfitted
    try:
        machine, filters = host.survey(), seccomp.program(os.uname().machine, routes=True)
    except host.Missing as fault:
        raise Unboxed(str(fault)) from None
    except KeyError:
        raise Unboxed("there is no system call filter for this machine") from None
    listed = _listed(opened)
    box, scope, program = _box(wish, opened, (program, given), egress=listed)
    if not quiet:
        _say_where(box)
        sys.stderr.write(_writable(opened.get("scope")))
    attempts = Attempts(partial(_post, str(opened["config"]), str(opened.get("session"))))
    proxy = Proxy(Allow(listed), attempts.note)

    async def close() -> None:
        await proxy.close()
        await attempts.flush()

    def command(own: tuple[int, ...], word: int) -> tuple[str, ...]:
        ends = tuple({*own, *_PYTHONS})
        start = Start(program, tuple(words), tuple(scope.seen), ends)
        return agentbox.command(machine.interpreter, start, word)

    with agentbounds.kept(_bounds(opened)) as group:
        order = agentrun.Order(machine.bwrap, agentbox.options(box), command, filters, group)
        try:
            return agentrun.run(order, proxy.start if listed else None, close)
        except (agentrun.NotStartedError, netns.NoListenerError, OSError) as fault:
            raise Unboxed(f"{fault}: 'handler doctor' says which walls stand on this machine") from None
        finally:
            attempts.tell()
            if group.out_of_memory():
                sys.stderr.write(_OUT_OF_MEMORY)


_PYTHONS = (13, 25)  # SIGPIPE and SIGXFSZ, which every Python ignores


_PIDS = 4096  # where no agent's file says anything
_OUT_OF_MEMORY = "handler: a process of it was ended for want of memory: sandbox.memoryBytes of the agent\n"


def _bounds(opened: Mapping[str, object]) -> SandboxPolicy:
    """What the agent's file says of memory, processes and processors."""
    sandbox = opened.get("sandbox")
    said = sandbox.get("bounds") if isinstance(sandbox, dict) else None
    return SandboxPolicy(**said) if isinstance(said, dict) else SandboxPolicy(pids=_PIDS)


def _listed(opened: Mapping[str, object]) -> tuple[str, ...]:
    sandbox = opened.get("sandbox")
    egress = sandbox.get("egress") if isinstance(sandbox, dict) else None
    return tuple(map(str, egress)) if isinstance(egress, list) else ()


def _box(
    wish: Wish, opened: Mapping[str, object], start: tuple[str, Mapping[str, str]], *, egress: Sequence[str]
) -> tuple[Box, scoped.Shown, str]:
    """The box, the scope in it, and the absolute path of the program."""
    home = _home()
    _, state, run_folder = folders.places(str(opened["config"]))
    ours = tuple(os.path.realpath(one) for one in (state, run_folder))
    scope = _scope(opened.get("scope"), home)
    program = os.path.abspath(start[0])
    kept_out = (home, *scope.folders, *ours)
    found = agenthost.system()
    agenthost.add_ours(found, kept_out)
    search = [one for one in os.get_exec_path() if one.startswith("/")]
    agenthost.add_program(found, program, search, kept_out, scope=scope.folders)
    read = [_readable(path, home, ours) for path in wish.read]
    session = Path(str(opened["folder"]))
    user = (_NOBODY_SHOWN, _NOBODY_SHOWN) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    mounts = (*found.as_mounts(), *read, *scope.mounts, *_identity(session, user, home))
    visible = (*scope.folders, *(mount.inside for mount in read))
    paths = [one for one in search if found.shows(one) or agenthost.within(one, visible)]
    paths += [os.path.dirname(link) for link in found.links if link not in agenthost.SYSTEM]
    paths = list(dict.fromkeys((*paths, *_PATH)))
    if hidden := agenthost.hidden_step(found, program, paths, visible):
        raise Unboxed(_hidden(program, hidden))
    own = {"PATH": ":".join(paths), unserved.SANDBOXED: "1"}
    given = {**own, **start[1], **_kept(wish.kept)}
    box = Box(
        home=home,
        cwd=_cwd(scope, visible, home),
        user=user,
        mounts=mounts,
        links=tuple(found.links.items()),
        covered=tuple(one for one in dict.fromkeys(ours) if agenthost.within(one, visible)),
        session=_session(session),
        variables=tuple(agentbox.variables(os.environ, given, home, egress=egress).items()),
    )
    return box, scope, program


def _hidden(program: str, step: str) -> str:
    """Why a program cannot run inside: what it needs is not followed from a place that agents write to."""
    if not os.path.exists(step):
        return f"{program} leads to {step}, which is not there"
    folder = os.path.dirname(step)
    whole = os.path.dirname(folder) if folder.endswith("/bin") else step
    return f"{program} leads to {step}, which is not shown: --ro {whole} shows it"


def _home() -> str:
    home = os.path.realpath(os.path.expanduser("~"))
    return home if home.count("/") and home not in {"/", "/usr", "/tmp"} else "/home/agent"  # noqa: S108


def _scope(given: object, home: str) -> scoped.Shown:
    """The folders of a scope; a plain entry is writable inside, since nothing there could only make files."""
    folders = [(str(one["path"]), str(one["access"])) for one in given] if isinstance(given, list) else []
    try:
        return scoped.shown(folders, home, writable=("create", "write"))
    except scoped.Unshown as fault:
        raise Unboxed(str(fault)) from None


def _readable(word: str, home: str, ours: Iterable[str]) -> Mount:
    """One ``--ro`` path."""
    path = os.path.abspath(os.path.expanduser(word))
    real = os.path.realpath(path)
    if not os.path.exists(real):
        raise Unboxed(f"--ro {word}: there is no such file or folder")
    if real in scoped.NEVER or agenthost.within(home, (real,)):
        raise Unboxed(
            f"--ro {word}: that would show all of a home or of the system; name what is needed in it"
        )
    if agenthost.within(real, ("/proc",)):
        raise Unboxed(f"--ro {word}: what other processes are is nobody's to read inside")
    if agenthost.within(real, ours) or any(agenthost.within(one, (real,)) for one in ours):
        raise Unboxed(f"--ro {word}: Handler's own sockets and state lie there")
    return Mount(real, path)


def _identity(session: Path, user: tuple[int, int], home: str) -> tuple[Mount, ...]:
    """Files that say who one is inside, in the session's folder."""
    folder = session / _IDENTITY
    try:
        folder.mkdir(mode=0o700)
        for name, text in agentbox.identity(*user, home).items():
            (folder / name).write_text(text)
    except OSError as error:
        raise Unboxed(f"the session's folder cannot be written: {error.strerror}") from None
    return tuple(Mount(str(path), f"/etc/{path.name}") for path in sorted(folder.iterdir()))


def _session(session: Path) -> tuple[Mount, ...]:
    """Its sockets, which it cannot put others in the place of, and its harness's files, which are its own."""
    shown = [Mount(str(session), str(session))]
    if (session / _HARNESS).is_dir():
        shown.append(Mount(str(session / _HARNESS), str(session / _HARNESS), writable=True))
    return tuple(shown)


def _kept(words: Iterable[str]) -> dict[str, str]:
    """The variables of ``--env NAME`` (as it is here) and ``--env NAME=VALUE``."""
    kept: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and name not in os.environ:
            raise Unboxed(f"--env {name}: there is no such variable here")
        kept[name] = value if equals else os.environ[name]
    return kept


def _cwd(scope: scoped.Shown, visible: Sequence[str], home: str) -> str:
    here = os.path.realpath(".")
    if agenthost.within(here, visible):
        return here
    return scope.mounts[0].inside if scope.mounts else home


def _say_where(box: Box) -> None:
    if box.cwd != os.path.realpath("."):
        shown = usage.path_shown(box.cwd, anywhere=True)
        sys.stderr.write(f"handler: it starts in {shown}, since here is not in its sandbox\n")


def _writable(given: object) -> str:
    """What a person should know of a scope that lets files be made: tools keep to that, a sandbox cannot."""
    folders = (
        [str(one["path"]) for one in given if one["access"] == "create"] if isinstance(given, list) else []
    )
    shown = ", ".join(usage.path_shown(one, anywhere=True) for one in dict.fromkeys(folders))
    if not shown:
        return ""
    return (
        f"handler: inside, files of {shown} can also be overwritten and deleted; what must stay as it is "
        'needs access = "read" in the agent\'s scope\n'
    )


def _post(config: str, session: str, attempts: Sequence[Mapping[str, object]]) -> None:
    """Give attempts to the controller, which keeps the record of them."""
    asked: dict[str, object] = {"session": session, "attempts": list(attempts)}
    client.Client(config).ask("session.egress", asked, _POST_S)
