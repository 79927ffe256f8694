"""``handler-service``: carries the bytes between an agent's stdio and one socket of the router.

It starts once per interface and session, so it is the standard library and little else: nothing is stamped or
replayed. Two blocking threads copy, one each way. Of a message the two ends are looked at: a connection that
breaks off in the middle of one leaves half a message with nobody (the rest of it is dropped on the way in,
and held back on the way out), and the requests that it leaves without an answer are ended (``owed``). The
socket may be missing or full for two seconds, and for ten once it served, since a controller may be
restarting; then one sentence says why.
"""
# ruff: noqa: PTH112, PTH118, PTH119, PTH120, PTH208 - pathlib would be a third of the start

import _socket as socket  # the C half: the Python half costs as much as the whole bridge
import _thread
import os
import sys
import time

from reconciler.doors import owed, streams

_PATIENCE_S = 2.0  # for the first connection: whoever starts us waits for it
_RESTART_S = 10.0  # for the next ones: a controller that is restarted on a busy machine takes a while
_CHUNK = 1 << 16  # what a pipe holds; much larger buffers make small reads slow
_MAX_HELD = 16 * 2**20  # above any line a router sends: garbage is passed on rather than kept
_LINE_END = ord("\n")
_MAX_PATH = 107  # bytes of a Unix socket's path
_USAGE = """\
Usage: handler-service INTERFACE [--socket PATH] [--agent NAME] [-c DIR]

Relays MCP between stdin/stdout and the router: what an agent's configuration starts.

  INTERFACE      one interface of the agent, like ocr; 'services' for all of them on one socket
  --socket PATH  the socket to relay, instead of looking one up
  --agent NAME   whose services (default: those of the session around it, else the only agent's)
  -c, --config   the configuration directory (default: as 'handler' finds it)

  handler-service ocr --agent reviewer
"""


class Usage(Exception):  # noqa: N818 - a command line that cannot be followed
    """What is wrong with the command line, as one clause."""


class NoDoor(Exception):  # noqa: N818 - a fact, which may pass
    """There is nothing to connect to now; the text says why and what to do."""


class Ask:
    """What the command line and the environment ask for; ``door`` looks for it anew each time."""

    def __init__(self, arguments: list[str]) -> None:
        """Read the command line; raises ``Usage``."""
        options = {"--socket": "", "--agent": "", "--config": ""}
        words = []
        rest = list(arguments)
        while rest:
            word, given, value = rest.pop(0).partition("=")
            word = "--config" if word == "-c" else word
            if word in options:
                if not given and not rest:
                    raise Usage(f"{word} needs a value")
                options[word] = value if given else rest.pop(0)
            elif word.startswith("-"):
                raise Usage(f"'{word}' is not an option of handler-service")
            else:
                words.append(word)
        if len(words) != 1:
            raise Usage("name exactly one interface, like 'handler-service ocr'")
        self.interface = _plain(words[0], "an interface")
        self.agent = _plain(options["--agent"], "an agent") if options["--agent"] else ""
        self.socket = options["--socket"]
        self.config = options["--config"] or None

    def door(self) -> str:
        """The path of the socket to relay. Which agent's: that of ``--socket``, else of the session around
        us, else of ``--agent``, else the only one. Raises ``NoDoor`` while there is none, ``Usage`` when the
        agent has to be named.
        """
        if self.socket:
            return self.socket
        if services := os.environ.get("HANDLER_SERVICES"):
            return os.path.join(os.path.dirname(services), f"{self.interface}.sock")
        return standing_door(self.interface, self.agent, self.config)

    def why_not(self, path: str) -> str:
        """One sentence on why nothing answers at ``path``; looked up only when it has to be told."""
        if _is_of_session(path):
            return of_session(path)
        if self.socket:
            return f"nothing answers at {path}: 'handler daemon status' says whether its controller runs"
        return why_not(path, self.config)


def _is_of_session(path: str) -> bool:
    """Whether a socket lies in the folder of a session that was opened, and not at a standing door."""
    return os.path.basename(os.path.dirname(os.path.dirname(path))) == "s"


def standing_door(interface: str, agent: str, given: str | None) -> str:
    """The socket of an agent's standing door, or of the session in ``HANDLER_SESSION``, in the run folder of
    a configuration. Raises ``NoDoor`` and ``Usage`` as ``Ask.door`` does.
    """
    run = _run(given)
    if session := os.environ.get("HANDLER_SESSION"):
        return os.path.join(run, "s", _plain(session, "a session"), f"{interface}.sock")
    if not agent:
        agents = _names(os.path.join(run, "a"))
        if not agents:
            raise NoDoor("no agent has services here")
        if len(agents) > 1:
            raise Usage(f"several agents have services here: add --agent with one of {', '.join(agents)}")
        agent = agents[0]
    return os.path.join(run, "a", agent, f"{interface}.sock")


def why_not(path: str, given: str | None) -> str:
    """One sentence on why a configuration has nothing that answers at ``path``, and what to do."""
    if _is_of_session(path):
        return of_session(path)
    run = _run(given)
    folder, agent, interface = os.path.dirname(path), os.path.basename(os.path.dirname(path)), _stem(path)
    if not _lives(run):
        return _no_controller(_config(given))
    if not path:
        return "no agent is served here: 'handler status' says why"
    if not os.path.isdir(folder):
        return f"agent '{agent}' is not served: {_status(agent, given)}"
    offered = [_stem(name) for name in _names(folder) if name != "services.sock"]
    if interface != "services" and interface not in offered:
        return f"agent '{agent}' has no service '{interface}'; it has {', '.join(offered) or 'none'}"
    gone = f"{path} was removed: it is made anew within reconcile.resyncSeconds, or by 'handler apply'"
    silent = f"the controller does not answer at {path}: 'handler daemon status' says how it is"
    return silent if os.path.lexists(path) else gone


def of_session(path: str) -> str:
    """One sentence on why nothing answers at ``path`` in the folder of a session, and what to do."""
    from reconciler.doors import unserved  # noqa: PLC0415 - a road that is rarely taken

    return unserved.why(path, lives=_lives(os.path.dirname(os.path.dirname(os.path.dirname(path)))))


def _lives(run: str) -> bool:
    try:
        connect(os.path.join(run, "control.sock")).close()
    except BlockingIOError:
        return True  # with its hands full
    except OSError:
        return False
    return True


def _status(agent: str, given: str | None) -> str:
    """What the status file says of an agent without a door."""
    import json  # noqa: PLC0415 - a road that is rarely taken

    file = os.path.join(_places(given)[1], "status", "agent", f"{agent}.json")
    try:
        with open(file, "rb") as text:  # noqa: PTH123
            seen = json.loads(text.read())
        ready = next(one for one in seen["conditions"] if one["type"] == "Ready")
        return f"{ready['reason']}: {ready['message']} ({seen['source']['file']})"
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        known = ", ".join(_names(os.path.join(_run(given), "a"))) or "none"
        return f"there is no such agent; served are: {known}"


def _no_controller(config: str) -> str:
    from reconciler.control import folders  # noqa: PLC0415 - not needed where a socket is named

    return folders.absent(config) or f"no controller runs for {config}: start one with 'handlerd -c {config}'"


def _config(given: str | None) -> str:
    return _places(given)[0]


def _run(given: str | None) -> str:
    return _places(given)[2]


def _places(given: str | None) -> tuple[str, str, str]:
    """As ``folders.places``; raises ``Usage`` where a folder is another configuration's."""
    from reconciler.control import folders  # noqa: PLC0415 - not needed where a socket is named

    try:
        return folders.places(given)
    except folders.Foreign as fault:
        raise Usage(str(fault)) from None


def _plain(name: str, what: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise Usage(f"'{name}' does not name {what}")
    return name


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(".sock")


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def connect(path: str) -> socket.socket:
    """Connect to a Unix socket of any length of path, at once: a full one raises BlockingIOError, a missing
    or dead one another OSError.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(0)
        if len(os.fsencode(path)) <= _MAX_PATH:
            sock.connect(path)
        else:
            folder, name = os.path.split(path)
            fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                sock.connect(f"/proc/self/fd/{fd}/{name}")
            finally:
                os.close(fd)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return sock


class Relay:
    """Copies stdin to the socket and the socket to stdout, over as many connections as it takes.

    ``_sock`` is the connection in use, None while there is none. The main thread alone changes it, and
    releases ``_fresh`` when it does, which the thread of stdin waits on. ``_sending`` is held while bytes go
    out, so that a number that the kernel gives anew is never written to, and what is sent is remembered.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._sock: socket.socket | None = None
        self._ended = False  # stdin has ended: nothing new will be asked
        self._owed = owed.Owed()
        self._sending = _thread.allocate_lock()
        self._telling = _thread.allocate_lock()  # both threads may answer the agent
        self._fresh = _thread.allocate_lock()
        self._fresh.acquire()

    def run(self) -> None:
        """Relay until stdin and the answers have ended; raises ``NoDoor`` when the socket stays away."""
        patience = time.monotonic() + _PATIENCE_S
        started = False
        while (sock := self._dial(patience)) is not None:
            opened = time.monotonic()
            self._sock = sock
            if self._ended:  # while this was being made: nothing was asked on it, and nobody would end it
                self._close(sock)
                return
            if self._fresh.locked():
                self._fresh.release()
            if not started:
                _thread.start_new_thread(self._upstream, ())
                started = True
            served = self._downstream(sock)
            self._sock = None
            self._close(sock)
            lost = time.monotonic()
            # Connections that are closed at once share one patience; one that served starts it anew.
            if served or lost - opened > _PATIENCE_S:
                patience = lost + _RESTART_S
            elif lost > patience and not self._ended:
                raise NoDoor("the router closes every connection at once: 'handler status' says why")
            else:
                _pause()

    def _dial(self, until: float) -> socket.socket | None:
        """A new connection, or None when stdin has ended and nobody needs one."""
        while not self._ended:
            path = ""
            try:
                path = self._ask.door()
                return connect(path)
            except (OSError, NoDoor):
                if time.monotonic() >= until:
                    raise NoDoor(self._ask.why_not(path)) from None
            _pause()
        return None

    def _close(self, sock: socket.socket) -> None:
        """End a connection, and with it what it owes."""
        _shut(sock, socket.SHUT_RDWR)
        with self._sending:
            sock.close()
            ends = self._owed.ends() if self._owed else b""
        self._tell(ends)

    def _tell(self, lines: bytes) -> None:
        with self._telling:
            _write(lines)

    def _tell_of_lost(self, line: bytes) -> None:
        try:
            self._tell(owed.lost(line))
        except OSError:
            return  # the agent left: the main thread will see it, too

    def _downstream(self, sock: socket.socket) -> bool:
        """Copy whole lines until the connection ends, and drop a broken one; whether any came."""
        held: list[bytes] = []
        size = 0
        served = False
        while data := _received(sock):
            end = data.rfind(b"\n") + 1
            if not end and size < _MAX_HELD:
                held.append(data)
                size += len(data)
                continue
            end = end or len(data)
            lines = b"".join((*held, data[:end]))
            if self._owed:
                self._owed.settle(lines)
            self._tell(lines)
            served = True
            held, size = [data[end:]], len(data) - end
        return served

    def _upstream(self) -> None:
        """Copy stdin until it ends; a message goes out on one connection or, if that breaks, not at all."""
        used: socket.socket | None = None
        begun = b""  # of the message that we are in the middle of
        torn = False  # its beginning is lost
        while data := _read():
            while data:
                if torn:
                    rest, end, data = data.partition(b"\n")
                    torn, begun = not end, owed.begun(begun, rest)
                    if end:
                        self._tell_of_lost(begun)
                        begun = b""
                    continue
                sock = self._current()
                if begun and sock is not used:
                    torn = True
                    continue
                used, sent = sock, self._send(sock, data, owed.noted(begun, data))
                if sent:
                    begun = b"" if data[sent - 1] == _LINE_END else owed.begun(begun, data[:sent])
                data = data[sent:]
        self._ended = True
        if last := self._sock:  # where nothing was asked, no answer is due
            _shut(last, socket.SHUT_WR if last is used else socket.SHUT_RDWR)

    def _current(self) -> socket.socket:
        while (sock := self._sock) is None:
            self._fresh.acquire()
        return sock

    def _send(self, sock: socket.socket, data: bytes, noted: list[tuple[int, owed.Noted]]) -> int:
        """Send what the connection takes at once; a dead one takes 0 bytes and makes way for the next."""
        with self._sending:
            for _, one in noted:
                self._owed.note(one)
            try:
                sent = sock.send(data)
            except OSError:
                sent = 0
            for end, one in noted:
                if end > sent:
                    self._owed.forget(one)
        if not sent:
            _shut(sock, socket.SHUT_RDWR)
            while self._sock is sock:
                self._fresh.acquire()
        return sent


def _pause() -> None:
    time.sleep(0.01 + os.urandom(1)[0] / 2560)  # 10 to 110 ms: many bridges do not come back in step


def _shut(sock: socket.socket, how: int) -> None:
    try:
        sock.shutdown(how)
    except OSError:
        return  # it is gone already


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_CHUNK)
    except OSError:
        return b""


def _read() -> bytes:
    try:
        return os.read(0, _CHUNK)
    except OSError:
        return b""  # closed, or never open: nobody asks


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _say(text: str) -> None:
    os.write(2, f"handler-service: {' '.join(text.split())}\n".encode(errors="replace"))


def _blocking() -> None:
    for fd in (0, 1):
        try:
            os.set_blocking(fd, True)
        except OSError:
            continue


def _relay(arguments: list[str]) -> int:
    try:
        if "--help" in arguments or "-h" in arguments:
            _write(_USAGE.encode())
            return 0
        _blocking()
        Relay(Ask(arguments)).run()
    except Usage as fault:
        _say(f"{fault} (handler-service --help)")
        return 2
    except NoDoor as fault:
        _say(str(fault))
        return 1
    except BrokenPipeError:
        pass  # the agent left, which is how relaying ends
    except KeyboardInterrupt:
        return 130
    return 0


def main() -> None:
    """``handler-service``: 0 when the agent ended it, 1 when no router answers, 2 for a wrong command."""
    code = 1
    streams.ensure()
    try:
        code = _relay(sys.argv[1:])
    except OSError as fault:
        _say(f"cannot relay: {fault.strerror}")
    finally:
        os._exit(code)  # at once, whatever PYTHONINSPECT says and whichever thread still waits


if __name__ == "__main__":
    main()
