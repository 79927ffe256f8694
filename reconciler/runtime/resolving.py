"""From references to the secrets behind them: once per spawn, within a time, kept nowhere.

Seven forms. ``file`` and ``systemd`` are read here; ``env`` is what the controller was started with, taken
out of its environment when a binding names it, and held for its life (ruling 54); ``command`` is a program of
a person's, and ``keyring``, ``age`` and ``sops`` are programs that this module calls the same way. A program
runs without a shell, a terminal, an input or more of the environment than it needs to find a person's keys;
it and its process group are ended when it is late, and what it says on standard error is not read.

What is wrong is said by slot and form alone: neither the value nor the words of a reference, which may be a
path or a command of a person's, get into a condition.
"""

import asyncio
import os
import re
import secrets
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from reconciler.model.recipes import SecretUse
from reconciler.model.secrets import Filled, Resolved
from reconciler.model.status import Reason
from reconciler.runtime import unlocking
from reconciler.runtime.unlocking import UnresolvedError

LIMIT_S = 10.0
_GLANCE_S = 1.0  # for a file that may be of a network
MOST_BYTES = 64 * 1024
LEAST_BYTES = 8  # a shorter one cannot be told from other text, so it could not be kept out of logs
_GONE_S = 5.0  # after SIGKILL
_PASSED_ON = (  # what a password store or a keyring needs to find a person's keys
    "HOME", "USER", "LOGNAME", "PATH", "LANG", "LC_ALL", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
    "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "PASSWORD_STORE_DIR", "SSH_AUTH_SOCK",
)  # fmt: skip
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_MARK = b"\xef\xbb\xbf"  # what an editor of Windows begins a file with
T = TypeVar("T")
_LAYOUT = re.compile(rb"[\n\t]")  # within a key of several lines


class Unresolved(Exception):  # noqa: N818 - it is an answer: the instance cannot start now
    """A reference that does not resolve; ``reason`` is SecretUnresolved or SecretTimeout."""

    def __init__(self, use: SecretUse, reason: Reason, fault: str) -> None:
        super().__init__(f"the secret of slot '{use.slot}' ({use.form}) does not resolve: {fault}")
        self.use = use
        self.reason: Reason = reason
        self.fault = fault


@dataclass(slots=True)
class Resolver:
    """Resolves for one controller. ``root`` is where relative paths of encrypted files begin."""

    root: Path = field(default_factory=Path.cwd)
    limit_s: float = LIMIT_S
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _held: dict[str, bytes] = field(default_factory=dict, repr=False)

    def claim(self, uses: Iterable[SecretUse]) -> None:
        """Take the variables that are named out of the environment: no child of ours inherits them."""
        for use in uses:
            if use.form == "env":
                self._variable(use.reference[0])

    async def resolve(self, uses: tuple[SecretUse, ...]) -> tuple[Filled, ...]:
        """What fills each slot, all at the same time; raises Unresolved for the first that does not."""
        tasks = [asyncio.ensure_future(self.one(use)) for use in uses]
        try:
            return tuple([await task for task in tasks])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def one(self, use: SecretUse) -> Filled:
        """What fills one slot; raises Unresolved."""
        try:
            async with asyncio.timeout(self.limit_s):
                found = await self._found(use)
            return Filled(use, Resolved(_proper(found, use.via), key=self._key))
        except TimeoutError:
            fault = f"it took longer than {self.limit_s:g} s"
            raise Unresolved(use, "SecretTimeout", fault) from None
        except UnresolvedError as error:
            raise Unresolved(use, "SecretUnresolved", str(error)) from None
        except ValueError:
            raise Unresolved(use, "SecretUnresolved", "its path holds a NUL character") from None
        except RuntimeError:
            fault = "its path leads nowhere: '~' is nobody's home, or links lead round in a ring"
            raise Unresolved(use, "SecretUnresolved", fault) from None
        except OSError as error:
            fault = f"it cannot be read: {error.strerror or 'an input/output error'}"
            raise Unresolved(use, "SecretUnresolved", fault) from None

    async def unfound(self, use: SecretUse) -> str:
        """Why a start would find no secret here, as a clause, or ""; as far as that can be told quickly and
        without a program, which is not run.
        """
        if use.form == "command":
            return ""
        try:
            async with asyncio.timeout(_GLANCE_S):
                if use.form in ("env", "file", "systemd"):
                    await self.one(use)
                else:
                    await _aside(lambda: bool(unlocking.command(use, self.root)))
        except (TimeoutError, OSError, ValueError, RuntimeError):
            return ""  # not known: the start decides
        except UnresolvedError as error:
            return str(error)
        except Unresolved as fault:
            return fault.fault if fault.reason == "SecretUnresolved" else ""
        return ""

    async def _found(self, use: SecretUse) -> bytes:
        match use.form:
            case "env":
                if found := self._variable(use.reference[0]):
                    return found
                raise UnresolvedError(
                    "the controller was started without that variable, or with nothing in it"
                )
            case "file":
                return await _aside(lambda: _own_file(Path(use.reference[0]).expanduser(), self.root))
            case "systemd":
                return await _aside(lambda: _credential(use.reference[0]))
            case "command":
                return await self._said(use.reference)
            case _:
                return await self._said(unlocking.command(use, self.root))

    def _variable(self, name: str) -> bytes:
        """What the controller was started with; b"" when that was nothing."""
        if name not in self._held:
            value = os.environ.pop(name, None)
            if value is None:
                return b""
            self._held[name] = os.fsencode(value)
        return self._held[name]

    async def _said(self, argv: tuple[str, ...]) -> bytes:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return await _output(argv, environment)


def _proper(value: bytes, via: str) -> bytes:
    """The value without the one newline that programs and editors end a text with; UnresolvedError."""
    value = value.removesuffix(b"\n").removesuffix(b"\r")
    if len(value) > MOST_BYTES:
        raise UnresolvedError(f"it has more than {MOST_BYTES} bytes")
    if not value:
        raise UnresolvedError("there is nothing")
    if value.startswith(_MARK):
        raise UnresolvedError("it begins with a byte order mark: save it as plain UTF-8")
    if via == "gate" and value.strip(b" ") != value:
        raise UnresolvedError("it begins or ends with a space, which no header can")
    odd = value.endswith(b"\n") or _CONTROL.search(value)
    if odd or (via not in ("fd", "file") and _LAYOUT.search(value)):
        raise UnresolvedError("it has several lines, or control characters")
    if len(value) < LEAST_BYTES:
        raise UnresolvedError(f"it has fewer than {LEAST_BYTES} bytes, which no log could be kept free of")
    try:
        value.decode()
    except UnicodeDecodeError:
        raise UnresolvedError("it is not UTF-8 text") from None
    return value


def _own_file(path: Path, root: Path) -> bytes:
    """A file of ours that nobody else may read, and that lies in no configuration."""
    if not path.is_absolute():
        raise UnresolvedError("its path is not absolute: write it from '/' or '~/'")
    if path.resolve().is_relative_to(root.resolve()):
        raise UnresolvedError("it lies in the configuration, which is kept and shared: move it out")
    return _read(path, unlocking.private_fault)


def _credential(name: str) -> bytes:
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
    if not folder:
        raise UnresolvedError("the controller was not started by a unit of systemd with LoadCredential=")
    if name in ("", ".", "..") or "/" in name:
        raise UnresolvedError("a credential's name is a file's name")
    return _read(Path(folder) / name, lambda seen: "others may read it" if seen.st_mode & 0o007 else None)


def _read(path: Path, fault: Callable[[os.stat_result], str | None]) -> bytes:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        raise UnresolvedError("there is no such file") from None
    try:
        seen = os.fstat(number)
        if not stat.S_ISREG(seen.st_mode):
            raise UnresolvedError("it is not a regular file")
        if why := fault(seen):
            raise UnresolvedError(why)
        with open(number, "rb", closefd=False) as file:
            return file.read(MOST_BYTES + 2)
    finally:
        os.close(number)


async def _aside(work: Callable[[], T]) -> T:
    """Run what may hang (a file of a network) in a thread that nobody waits for at the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, fault: Exception | None) -> None:
        if done.done():
            return
        if fault is None:
            done.set_result(cast("T", result))
        else:
            done.set_exception(fault)

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            fault = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell, result, fault)

    threading.Thread(target=run, daemon=True, name="secret").start()
    return await done


async def _output(argv: tuple[str, ...], environment: Mapping[str, str]) -> bytes:
    """What a program prints until it ends; of a child that keeps its output open nothing is awaited."""
    with ExitStack() as held:
        read, write = os.pipe()
        held.callback(os.close, read)
        try:
            child = subprocess.Popen(  # noqa: S603, ASYNC220 - a person's own program, as an argument list
                argv, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.DEVNULL,
                start_new_session=True, cwd="/", env=environment,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else None
            raise UnresolvedError(f"its program cannot be run: {words or 'an argument is odd'}") from None
        finally:
            os.close(write)
        run = _Run(child, read)
        try:
            return await run.over
        finally:
            await run.end()


class _Run:
    """One program that prints a secret."""

    def __init__(self, child: "subprocess.Popen[bytes]", pipe: int) -> None:
        self._child, self._pipe, self._told = child, pipe, b""
        self._pidfd = os.pidfd_open(child.pid)
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self.over: asyncio.Future[bytes] = self._loop.create_future()
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._hear)
        self._loop.add_reader(self._pidfd, self._ended)

    async def end(self) -> None:
        """End it and its group, whatever it does."""
        self._loop.remove_reader(self._pipe)
        self.over.cancel()
        if not self._gone.is_set():
            self._kill()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), _GONE_S)

    def _hear(self) -> None:
        try:
            data = os.read(self._pipe, MOST_BYTES)
        except BlockingIOError:
            return
        self._told += data
        if not data:
            self._loop.remove_reader(self._pipe)
        elif len(self._told) > MOST_BYTES + 2 and not self.over.done():
            self.over.set_exception(UnresolvedError(f"it has more than {MOST_BYTES} bytes"))

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if not self.over.done():
            self._hear()
        self._kill()  # its group, before the number can be another's
        code = self._child.wait()
        self._gone.set()
        if self.over.done():
            return
        if code:
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            self.over.set_exception(UnresolvedError(f"its program ended with {how}"))
        else:
            self.over.set_result(self._told)

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
