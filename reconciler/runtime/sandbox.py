"""The sandbox of one connector as bubblewrap's arguments: a pure function of policy, host and place.

Two forms. As root: no user namespace, and inside it setpriv changes to a user id that only this connector
has. As a person: a user namespace in which no further one can be made. Both: own process, network, IPC,
host-name and mount namespaces, no capability, a cleared environment, everything read-only but ``/tmp``,
``/dev/shm`` and the outbox, which are bounded and live in memory.

Of the host only this is mounted: the interpreter (its whole prefix, unless that is ``/usr`` or
``/usr/local``: then the executable and its library), the directories of shared libraries, time zones and the
C locale, and what ``sandbox.programs`` and ``sandbox.read`` name. No other program, nothing of ``/etc`` but
the loader's cache and Debian's links to alternatives, no home, no ``/run``.

Text of a connector or a person never stands where an option can start: every value follows its option, and
paths are absolute. No mounted path lies where a connector can write, so none can be swapped under us.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from reconciler.model.places import FOLDERS
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.secrets import Filled
from reconciler.runtime import wayout

SECRETS = "/run/secrets"  # one file a slot, for those that are delivered by file
LISTENER_FD = 3  # where the connector finds its listening socket, whatever the number outside
_RUN = "/run/connector"
GATE = f"{_RUN}/gate.sock"
_SECRETS_BYTES = 4 * 2**20
_SHM_BYTES = 64 * 2**20  # what container engines give /dev/shm; multiprocessing wants some
_PATH = "/usr/local/bin:/usr/bin:/bin"
_INSIDE = ("/app", "/kit", "/env", "/run", "/tmp", "/proc", "/dev", "/sys", FOLDERS)  # noqa: S108 - in the sandbox
_TOO_WIDE = ("/", "/etc", "/home", "/root", "/var", "/boot", "/mnt", "/media")
# A setting under such a name would steer the programs that build the sandbox, before it stands.
_STEERING = ("LD_", "GLIBC_", "MALLOC_", "HANDLER_")
_OWN_NAMES = ("PATH", "HOME", "LANG", "PWD", "GCONV_PATH", "LOCPATH", "NLSPATH")

# Runs before the connector's own code: says that the sandbox stands, gives the socket its number, and finds
# the code. The standard library comes first, so that no file of a connector can stand in for a module of it.
# What is printed is in the log with its line's end: a connector never ends by itself, and nothing flushes.
_BOOT = """
import posix, sys
_started, *_secrets = sys.argv[2].split(",")
_listener, _started, _entry = int(sys.argv[1]), int(_started), sys.argv[3]
posix.write(_started, b"1")
posix.close(_started)
if _listener != 3:
    posix.dup2(_listener, 3, False)
    posix.close(_listener)
for _one in _secrets:
    _number, _, _slot = _one.partition(":")
    _number = int(_number)
    _file = posix.open("/run/secrets/" + _slot, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o400)
    posix.write(_file, posix.read(_number, 65536))
    posix.close(_file)
    posix.close(_number)
sys.stdout.reconfigure(line_buffering=True)
sys.path += ["/kit", "/app", "/env"]
sys.argv[:] = sys.argv[3:]
__file__ = _entry if _entry[0] == "/" else "/app/" + _entry
with open(__file__, "rb") as _file:
    _code = compile(_file.read(), __file__, "exec")
del posix, _listener, _started, _entry, _file
exec(_code)
"""


@dataclass(frozen=True, slots=True)
class Host:
    """What the machine offers, surveyed once (``host.survey``). All paths are absolute and real."""

    bwrap: str
    setpriv: str  # "" when missing; only the root form needs it
    root: bool
    interpreter: str  # the executable that runs python connectors
    mounts: tuple[str, ...]  # files and directories shown read-only at their own place
    links: tuple[tuple[str, str], ...]  # (path, target): the links of a merged /usr, like ("/lib", "usr/lib")
    hidden: tuple[str, ...] = ()  # directories below a mount that are shown empty
    by_loader: tuple[str, ...] = ()  # what calls our programs where the system inside is another one


@dataclass(frozen=True, slots=True)
class Need:
    """One ``sandbox.programs`` or ``sandbox.read`` entry, found on the host.

    ``mounts`` are (path on the host, path inside); ``link`` is (path inside, target) or None.
    """

    mounts: tuple[tuple[str, str], ...]
    link: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where one instance's own parts lie on the host, and what it gets to see besides."""

    app: str  # "" where an image brings its own
    entry: str  # relative to app; absolute: a path inside
    kit: str
    environment: str  # "" when it needs nothing installed
    inbox: str
    uid: int  # whom it runs as in the root form
    variables: tuple[tuple[str, str], ...]
    needs: tuple[Need, ...] = ()
    words: tuple[str, ...] = ()  # behind the entry
    secrets: tuple[Filled, ...] = ()
    gate: str = ""  # the socket of its gate, where it has one
    folder: str = "/app"  # where it starts


def variables(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """The whole environment of a connector; ValueError when a setting's name would steer the sandbox."""
    own = {
        "HANDLER_CONNECTOR_FD": str(LISTENER_FD),
        "HANDLER_CONNECTOR_SOCKET": f"{_RUN}/connector.sock",
        "HOME": "/tmp",  # noqa: S108 - in the sandbox
        "LANG": "C.UTF-8",
        "PATH": _PATH,
    }
    for name in (*(name for name, _ in recipe.settings), *(use.env or "" for use in recipe.secrets)):
        if name in _OWN_NAMES or name.startswith(_STEERING):
            raise ValueError(f"the variable '{name}' belongs to the sandbox")
    own |= wayout.variables(recipe.egress) | {"HANDLER_GATE_SOCKET": GATE} if recipe.egress else {}
    return tuple(sorted((dict(recipe.settings) | own).items()))


def steers(name: str) -> bool:
    """Whether a variable would steer the programs that build a sandbox, or what it sets itself but PATH."""
    return name.startswith(_STEERING) or name in set(_OWN_NAMES) - {"PATH"}


def readable_fault(path: str) -> str | None:
    """Why a ``sandbox.read`` path cannot be shown to a connector, as a clause, or None when it can."""
    parts = PurePosixPath(path)
    if not parts.is_absolute() or ".." in parts.parts:
        return "it is not an absolute path without '..'"
    if str(parts) in _TOO_WIDE:
        return "it is wider than one engine's data"
    inside = next((own for own in _INSIDE if parts.is_relative_to(own)), None)
    return f"'{inside}' is the sandbox's own" if inside else None


def options(host: Host, policy: SandboxPolicy, place: Place) -> tuple[str, ...]:
    """The options of bubblewrap for one instance, without the descriptors that only a spawn knows."""
    out_mode = "0733" if host.root else "0333"  # write by name, never list
    return (
        *_walls(host),
        *(part for name, value in place.variables for part in ("--setenv", name, value)),
        *("--proc", "/proc", "--dev", "/dev"),
        *_memory("/dev/shm", "1777", _SHM_BYTES),  # noqa: S108 - in the sandbox
        *_memory("/tmp", "1777", policy.tmp_bytes),  # noqa: S108 - in the sandbox
        *_files(host, place),  # after /tmp: an interpreter may lie below it
        *_memory(f"{_RUN}/out", out_mode, policy.tmp_bytes),
        *(_memory(SECRETS, out_mode, _SECRETS_BYTES) if _has_files(place) else ()),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", place.folder),
    )


def command(
    host: Host, place: Place, listener: int, started: int, *, secrets: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """What runs inside: the interpreter without site packages, behind setpriv in the root form.

    ``listener`` is the connector's socket, ``started`` a pipe that gets one byte once the sandbox stands;
    ``secrets`` are the words of ``handing`` for what becomes a file inside.
    """
    said = ",".join((str(started), *secrets))
    program = (*host.by_loader, host.interpreter, "-I", "-S", "-c", _BOOT, str(listener), said, place.entry)
    return (*privileges(host, place.uid), *program, *place.words)


def privileges(host: Host, uid: int) -> tuple[str, ...]:
    """The step down to ``uid`` inside the root form; nothing as a person, who has nothing to give up."""
    if not host.root:
        return ()
    number = str(uid)
    return (
        *(*host.by_loader, host.setpriv, "--reuid", number, "--regid", number, "--clear-groups"),
        *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
    )


def _has_files(place: Place) -> bool:
    return any(one.use.via == "file" for one in place.secrets)


def _walls(host: Host) -> tuple[str, ...]:
    both = (
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
        "--hostname",
        "connector",
    )
    if not host.root:
        alone = ("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534")
        return (*alone, *both)
    spaces = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
    step_down = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # what setpriv needs, and gives up
    return (*spaces, *both, *(part for name in step_down for part in ("--cap-add", name)))


def _files(host: Host, place: Place) -> tuple[str, ...]:
    found = {inside: outside for need in place.needs for outside, inside in need.mounts}
    shown = _outermost({path: path for path in host.mounts} | found)
    shown |= {"/kit": place.kit, f"{_RUN}/in": place.inbox}
    if place.app:
        shown["/app"] = place.app
    if place.environment:
        shown["/env"] = place.environment
    if place.gate:
        shown[GATE] = place.gate
    links = dict(host.links) | dict(need.link for need in place.needs if need.link)
    links = {path: links[path] for path in sorted(links) if path not in shown and not _within(path, shown)}
    above = _parents((*shown, *links, f"{_RUN}/out"), shown)
    return (
        *(part for path in above for part in ("--dir", path)),
        *(part for path in sorted(shown) for part in ("--ro-bind", shown[path], path)),
        *(part for path, target in links.items() for part in ("--symlink", target, path)),
        *(part for path in host.hidden for part in (*_memory(path, "0755", 4096), "--remount-ro", path)),
    )


def _memory(path: str, mode: str, size_bytes: int) -> tuple[str, ...]:
    return ("--perms", mode, "--size", str(size_bytes), "--tmpfs", path)


def _outermost(shown: Mapping[str, str]) -> dict[str, str]:
    """Leave out what lies at its own place inside another mount that also stands at its own place."""
    plain = {path for path, outside in shown.items() if path == outside}
    return {
        path: outside
        for path, outside in shown.items()
        if path not in plain or not _within(path, plain - {path})
    }


def _within(path: str, mounts: Collection[str]) -> bool:
    return any(parent in mounts for parent in _above(path))


def _above(path: str) -> Iterator[str]:
    """The directories above an absolute path, without the root. As text: this runs at every start."""
    parent = path.rpartition("/")[0]
    while parent:
        yield parent
        parent = parent.rpartition("/")[0]


def _parents(paths: Iterable[str], mounts: Collection[str]) -> list[str]:
    """Every directory above a mount that no mount brings along: made by hand, since bwrap makes them 0700."""
    wanted = {parent for path in paths for parent in _above(path)}
    return sorted(path for path in wanted if path not in mounts and not _within(path, mounts))
