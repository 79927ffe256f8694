"""The sandbox of an agent's own program as bubblewrap's arguments: a pure function of what it is to see.

Unlike a connector's, this one holds a person's tools: all of ``/usr``, a terminal, a home folder (private,
empty, in memory) and the agent's scope at its own place. It has an empty network, no process but its own, no
capability, a cleared environment and a system call filter. Of the machine's ``/etc`` it gets what programs
need to speak to others safely (certificates, time zone, the loader's cache); of ours it gets the folder of
its one session, and whatever else of ours lies under something shown is covered by an empty folder.

As root and as a person alike it runs in a user namespace, as the same user outside, whom the files of the
scope belong to and whom the session's sockets know; as root it is shown another number, for inside there is
no root. Paths are absolute, every value follows its option, and no text of a program stands where an option
can start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.runtime import wayout

HOST_NAME = "sandbox"
_SHM_BYTES = 64 * 2**20
_HOME_BYTES = 2 * 2**30  # a harness unpacks itself there
_TMP_BYTES = 2 * 2**30
_KEPT = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "LANG", "LANGUAGE", "TZ")
_KEPT_STARTS = ("LC_",)

# Runs first inside: sees that what is shown is what was meant (a path may have been swapped before it was
# mounted) and that whoever built the sandbox lives and says so by one byte (it may have died before the
# sandbox could hear of that), gives the program its signals back as they were for them, and becomes it.
_BOOT = """
import posix, sys, _signal
fsencode = lambda text: text.encode(sys.getfilesystemencoding(), "surrogateescape")
word, seen, numbers, path, *arguments = sys.argv[1:]
if not posix.read(int(word), 1):
    posix._exit(126)
posix.close(int(word))
for _ in range(int(seen)):
    place, device, inode, *arguments = arguments
    found = posix.stat(place)
    if (found.st_dev, found.st_ino) != (int(device), int(inode)):
        posix.write(2, b"handler: '%s' was put in another's place meanwhile\\n" % fsencode(place))
        posix._exit(126)
numbers = list(map(int, filter(None, numbers.split(","))))
for number in numbers:
    _signal.signal(number, _signal.SIG_DFL)
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, numbers)
try:
    posix.execve(path, arguments, posix.environ)
except OSError as fault:
    posix.write(2, b"handler: cannot run '%s': %s\\n" % (fsencode(path), fault.strerror.encode()))
    posix._exit(126)
"""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the host (``outside``) and where it is shown."""

    outside: str
    inside: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """What one sandbox shows. All paths are absolute; those outside are real."""

    home: str
    cwd: str
    user: tuple[int, int]  # the user and group id that it is shown as its own
    mounts: tuple[Mount, ...]
    links: tuple[tuple[str, str], ...]  # (path, target): those of a merged /usr, and of program names
    covered: tuple[str, ...]  # folders that are shown empty, though something shown holds them
    session: tuple[Mount, ...]  # what of our own it sees, be that inside something covered
    variables: tuple[tuple[str, str], ...]


def options(box: Box) -> tuple[str, ...]:
    """The options of bubblewrap for one box, without the descriptors that only a spawn knows."""
    uid, gid = map(str, box.user)
    shown = sorted(box.mounts, key=lambda mount: mount.inside.count("/"))  # what lies inside comes later
    return (
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", uid, "--gid", gid),
        *("--die-with-parent", "--clearenv", "--cap-drop", "ALL", "--hostname", HOST_NAME),
        *(part for name, value in box.variables for part in ("--setenv", name, value)),
        *("--proc", "/proc", "--dev", "/dev"),
        *_memory("/dev/shm", "1777", _SHM_BYTES),  # noqa: S108 - in the sandbox
        *_memory("/tmp", "1777", _TMP_BYTES),  # noqa: S108 - in the sandbox
        *_memory(box.home, "0700", _HOME_BYTES),
        *(part for mount in shown for part in _mounted(mount)),
        *(part for path, target in box.links for part in ("--symlink", target, path)),
        *(part for path in box.covered for part in _memory(path, "0700", 4096)),
        *(part for mount in box.session for part in _mounted(mount)),
        *(part for path in box.covered for part in ("--remount-ro", path)),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", box.cwd),
    )


@dataclass(frozen=True, slots=True)
class Start:
    """What runs inside: ``program``, with ``words`` (its own name first). ``seen`` are folders, each with the
    device and inode that it must have there; ``signals`` are to be its own again.
    """

    program: str
    words: tuple[str, ...]
    seen: tuple[tuple[str, int, int], ...] = ()
    signals: tuple[int, ...] = ()


def command(interpreter: str, start: Start, word: int) -> tuple[str, ...]:
    """The command line inside; a byte from the descriptor ``word`` lets it begin, its end forbids it."""
    seen = (str(part) for one in start.seen for part in one)
    numbers = ",".join(str(int(number)) for number in start.signals)
    counted = (str(len(start.seen)), numbers, start.program)
    return (interpreter, "-I", "-S", "-c", _BOOT, str(word), *counted, *seen, *start.words)


def variables(
    outer: Mapping[str, str], given: Mapping[str, str], box_home: str, *, egress: Sequence[str]
) -> dict[str, str]:
    """The whole environment inside: of ``outer`` the words of terminal and language alone, then what is
    ``given``; ``egress`` is what may be reached, if anything.
    """
    kept = {name: value for name, value in outer.items() if name in _KEPT or name.startswith(_KEPT_STARTS)}
    own = {
        "HOME": box_home,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/sh",
        "TMPDIR": "/tmp",  # noqa: S108 - in the sandbox
    }
    return {"LANG": "C.UTF-8"} | kept | own | dict(given) | (wayout.variables(egress) if egress else {})


def identity(uid: int, gid: int, home: str) -> Mapping[str, str]:
    """The files of ``/etc`` that say who and where one is inside, by name."""
    return {
        "passwd": f"agent:x:{uid}:{gid}:agent:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "group": f"agent:x:{gid}:\nnogroup:x:65534:\n",
        "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "resolv.conf": "",
    }


def _mounted(mount: Mount) -> tuple[str, str, str]:
    return ("--bind" if mount.writable else "--ro-bind", mount.outside, mount.inside)


def _memory(path: str, mode: str, size_bytes: int) -> tuple[str, ...]:
    return ("--perms", mode, "--size", str(size_bytes), "--tmpfs", path)
