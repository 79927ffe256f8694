"""The sandbox of an agent's program, seen from inside; as root, this file runs again as an ordinary user."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.doors import boxing
from reconciler.egress.proxy import Proxy, Streams, dialled
from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import agenthost, limits
from reconciler.runtime.limits import Limits

pytestmark = pytest.mark.slow

PYTHON = os.path.realpath(sys.executable)
ROOT = os.geteuid() == 0
REPORT = "import json, os, sys\nfound = {}\n%s\njson.dump(found, open('report.json', 'w'))\n"
TRIED = """
def tried(name, attempt):
    try:
        found[name] = repr(attempt())
    except Exception as fault:
        found[name] = type(fault).__name__
"""


class Stage:
    """A configuration with state, run folder and one session, without a controller, and a scope."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.work = base / "work"
        self.config, self.state, self.run_folder = base / "config", base / "state", base / "run"
        self.session = self.run_folder / "s" / "abc"
        for folder in (self.work, self.config, self.state, self.session):
            folder.mkdir(parents=True)
        self.control = socket.socket(socket.AF_UNIX)
        self.control.bind(str(self.run_folder / "control.sock"))
        self.service = socket.socket(socket.AF_UNIX)
        self.service.bind(str(self.session / "services.sock"))
        for one in (self.control, self.service):
            one.listen(8)
        (self.state / "ledger").write_text("canary-4711")
        self.scope: list[dict[str, str]] = [{"path": str(self.work), "access": "create"}]
        self.egress: list[str] = []
        self.bounds: dict[str, Any] = {"memory_bytes": None, "pids": 4096, "cpu": None}
        self.quiet = True

    def close(self) -> None:
        self.control.close()
        self.service.close()

    def run(self, *words: str, read: Sequence[str] = (), kept: Sequence[str] = (), **given: str) -> int:
        shutil.rmtree(self.session / "etc", ignore_errors=True)
        opened = {
            "config": str(self.config),
            "folder": str(self.session),
            "scope": self.scope,
            "sandbox": {"egress": self.egress, "bounds": self.bounds},
        }
        program = shutil.which(words[0]) or words[0]
        wish = boxing.Wish(tuple(read), tuple(kept))
        return boxing.run(wish, opened, (program, words, given), quiet=self.quiet)

    def inside(self, code: str, **more: Any) -> dict[str, Any]:
        """What the code put into ``found``."""
        assert self.run(PYTHON, "-I", "-S", "-c", REPORT % (TRIED + code), **more) == 0
        found: dict[str, Any] = json.loads((self.work / "report.json").read_text())
        return found


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    base = Path(tempfile.mkdtemp(prefix="box-")).resolve()  # short: sockets lie below it
    made = Stage(base)
    monkeypatch.setenv("HANDLER_STATE", str(made.state))
    monkeypatch.setenv("HANDLER_RUN", str(made.run_folder))
    monkeypatch.setenv("HOME", str(base / "home"))
    monkeypatch.setenv("API_KEY", "canary-4711")
    (base / "home").mkdir()
    (base / "home" / ".netrc").write_text("canary-4711")
    monkeypatch.chdir(made.work)
    yield made
    made.close()
    monkeypatch.undo()
    shutil.rmtree(base)


def test_of_the_machines_files_it_sees_the_scope_the_system_and_itself(stage: Stage) -> None:
    (stage.work / "mine.txt").write_text("mine")
    (stage.base / "beside.txt").write_text("canary-4711")
    found = stage.inside(
        f"home, base = os.environ['HOME'], {str(stage.base)!r}\n"
        "found['cwd'], found['home'] = os.getcwd(), os.listdir(home)\n"
        "found['mine'] = open('mine.txt').read()\n"
        "found['base'] = sorted(os.listdir(base))\n"
        "found['run'] = sorted(os.listdir(base + '/run'))\n"
        "found['session'] = sorted(os.listdir(base + '/run/s/abc'))\n"
        "found['root'] = sorted(os.listdir('/'))\n"
        "found['there'] = [p for p in ('/etc/shadow', '/root/.ssh', '/var', '/sys', '/boot', '/etc/sudoers',"
        " '/etc/ssl/private', '/var/run', '/run/dbus', '/etc/machine-id') if os.path.exists(p)]\n"
        "open(home + '/made', 'w').close(); open('/tmp/made', 'w').close(); open('made', 'w').close()\n"
    )
    assert found["cwd"] == str(stage.work)
    assert found["home"] == []
    assert found["mine"] == "mine"
    assert set(found["base"]) == {"home", "run", "work"}
    assert found["run"] == ["s"]
    assert found["session"] == ["etc", "services.sock"]
    assert found["there"] == []
    assert {"dev", "etc", "proc", "tmp", "usr"} <= set(found["root"])
    made = (stage.work / "made").stat()
    assert (made.st_uid, made.st_gid) == (os.geteuid(), os.getegid())
    assert [path.name for path in (stage.base / "home").iterdir()] == [".netrc"]


def test_it_writes_where_the_scope_lets_it_and_nowhere_else(stage: Stage) -> None:
    (stage.base / "reads").mkdir()
    stage.scope.append({"path": str(stage.base / "reads"), "access": "read"})
    folders = [str(stage.base / "reads"), str(stage.session), "/", "/usr", "/etc", "/dev", "/proc/sys/kernel"]
    kernel = "('/proc/sys', '/proc/irq', '/proc/fs', '/proc/bus', '/proc/pressure')"
    before = sorted(path.name for path in stage.base.iterdir())
    found = stage.inside(
        f"for path in [*{folders!r}, os.path.dirname(os.__file__)]:\n"
        "    tried(path, lambda: open(path + '/made', 'w').close())\n"
        "for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/mtrr', '/etc/passwd'):\n"
        "    tried(path, lambda: open(path, 'r+').close())\n"
        f"walks = [walk for top in {kernel} for walk in os.walk(top)]\n"
        "files = [f'{at}/{name}' for at, _, names in walks for name in names]\n"
        "found['kernel'] = [path for path in files if os.access(path, os.W_OK)]\n"
        "found['kernels'] = len(files) > 100\n"
        f"tried('socket', lambda: os.unlink({str(stage.session / 'services.sock')!r}))\n"
        f"tried('scope', lambda: os.rename({str(stage.work)!r}, {str(stage.base)!r} + '/elsewhere'))\n"
        f"open({str(stage.base)!r} + '/made', 'w').close()\n"  # in its own memory
    )
    assert (found.pop("kernel"), found.pop("kernels")) == ([], True)
    assert len(found) == len(folders) + 1 + 4 + 2
    assert {word for word in found.values() if word == "None"} == set(), found
    assert sorted(path.name for path in stage.base.iterdir()) == before
    assert (stage.work / "report.json").stat().st_uid == os.geteuid()


def test_it_is_said_that_what_a_service_keeps_a_program_inside_can_delete(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    (stage.work / "original").touch()
    stage.quiet = False
    assert stage.run("rm", "original") == 0
    assert not (stage.work / "original").exists()
    said = capfd.readouterr().err
    assert f"files of {stage.work} can also be overwritten and deleted" in said
    assert 'access = "read"' in said
    stage.scope[0]["access"] = "read"
    assert stage.run("true") == 0
    assert capfd.readouterr().err == ""


def test_its_environment_is_what_is_listed_and_no_descriptor_comes_along(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LC_TIME", "C")
    leaked = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    os.dup2(leaked, 77, inheritable=True)
    try:
        found = stage.inside(
            "found['env'] = dict(os.environ)\n"
            "found['fds'] = [n for n in map(int, os.listdir('/proc/self/fd')) if n > 2 and n != 3]\n"
            "found['third'] = os.path.exists('/proc/self/fd/3') and os.readlink('/proc/self/fd/3')\n",
            kept=["ONE=1=1"],
            HANDLER_SESSION="abc",
        )
    finally:
        os.close(77)
        os.close(leaked)
    kept = found["env"]
    assert "API_KEY" not in kept
    assert "/" not in kept["PATH"].split(":")
    assert (kept.pop("ONE"), kept.pop("HANDLER_SESSION"), kept.pop("TERM")) == ("1=1", "abc", "xterm")
    assert kept["LC_TIME"] == "C"
    assert {name for name in kept if not name.startswith("LC_")} == {
        "HANDLER_SANDBOX", "HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER",
    }  # fmt: skip
    assert found["fds"] == []
    assert not found["third"] or found["third"].startswith("/proc/")


def test_a_variable_is_kept_by_name(stage: Stage) -> None:
    assert stage.inside("found = dict(os.environ)", kept=["API_KEY"])["API_KEY"] == "canary-4711"
    with pytest.raises(boxing.Unboxed, match="there is no such variable"):
        stage.run("true", kept=["NO_SUCH_VARIABLE"])


def test_no_network_of_any_family_is_reached(stage: Stage) -> None:
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0handler-test-{os.getpid()}")
    abstract.listen(1)
    with abstract, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = stage.inside(
            "import socket\n"
            "from socket import *\n"
            "def sent(family, kind, address, protocol=0):\n"
            "    with socket.socket(family, kind, protocol) as one:\n"
            "        one.settimeout(2)\n"
            "        one.connect(address)\n"
            "        one.send(b'x')\n"
            f"tried('v4', lambda: sent(AF_INET, SOCK_STREAM, ('127.0.0.1', {port})))\n"
            f"tried('v6', lambda: sent(AF_INET6, SOCK_STREAM, ('::1', {port})))\n"
            "tried('outside', lambda: sent(AF_INET, SOCK_STREAM, ('192.0.2.1', 80)))\n"
            "tried('udp', lambda: sent(AF_INET, SOCK_DGRAM, ('192.0.2.1', 53)))\n"
            "tried('udp6', lambda: sent(AF_INET6, SOCK_DGRAM, ('2001:db8::1', 53)))\n"
            "tried('raw', lambda: socket.socket(AF_INET, SOCK_RAW, 1))\n"
            "tried('packet', lambda: socket.socket(17, SOCK_RAW))\n"
            "tried('vsock', lambda: socket.socket(40, SOCK_STREAM))\n"
            "tried('audit', lambda: socket.socket(16, SOCK_RAW, 9))\n"
            "tried('alg', lambda: socket.socket(38, SOCK_SEQPACKET))\n"
            "tried('dns', lambda: getaddrinfo('example.com', 443))\n"
            f"abstract = '\\0handler-test-{os.getpid()}'\n"
            "tried('abstract', lambda: sent(AF_UNIX, SOCK_STREAM, abstract))\n"
            f"control = {str(stage.run_folder / 'control.sock')!r}\n"
            "tried('control', lambda: sent(AF_UNIX, SOCK_STREAM, control))\n"
        )
        routes = stage.inside(
            "import socket\n"
            "tried('routes', lambda: socket.socket(16, socket.SOCK_RAW, 0).close())\n"
            "found['names'] = [name for _, name in socket.if_nameindex()]\n"
            f"one = socket.socket(socket.AF_UNIX); one.connect({str(stage.session / 'services.sock')!r})\n"
        )
    assert not [name for name, word in found.items() if word.startswith(("None", "<", "["))], found
    assert routes == {"routes": "None", "names": ["lo"]}


def test_other_processes_are_out_of_sight_and_out_of_reach(stage: Stage) -> None:
    found = stage.inside(
        "import ctypes, signal\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(name, *words):\n"
        "    if getattr(libc, name)(*words) < 0: raise OSError(ctypes.get_errno(), name)\n"
        "found['pids'] = [int(n) for n in os.listdir('/proc') if n.isdigit()]\n"
        "found['me'] = os.getpid()\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines())\n"
        "found['status'] = [status[n].strip() for n in ('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp')]\n"
        "tried('ptrace', lambda: call('ptrace', 16, 1, 0, 0))\n"
        "tried('userns', lambda: call('unshare', 0x10000000))\n"
        "tried('mountns', lambda: call('unshare', 0x00020000))\n"
        "tried('mount', lambda: call('mount', b'none', b'/tmp', b'tmpfs', 0, None))\n"
        "tried('setuid', lambda: os.setuid(0))\n"
        "tried('chroot', lambda: os.chroot('/tmp'))\n"
        "tried('mknod', lambda: os.mknod('/tmp/disk', 0o60666, os.makedev(254, 0)))\n"
        f"tried('kill', lambda: os.kill({os.getpid()}, 0))\n"
        "tried('environ', lambda: open('/proc/1/environ', 'rb').read())\n"
    )
    assert len(found.pop("pids")) <= 4
    assert found.pop("me") < 10
    assert found.pop("status") == ["0000000000000000", "0000000000000000", "1", "2"]
    assert found.pop("environ") in {"b''", "PermissionError"}
    assert {word for word in found.values() if word == "None"} == set(), found


def test_root_is_nobody_special_inside(stage: Stage) -> None:
    found = stage.inside(
        "import pwd\nfound['ids'] = [os.getuid(), os.getgid(), pwd.getpwuid(os.getuid()).pw_name]"
    )
    assert found["ids"] == ([1000, 1000, "agent"] if ROOT else [os.geteuid(), os.getegid(), "agent"])


def test_it_cannot_type_into_the_terminal_that_it_shares(stage: Stage) -> None:
    code = (
        "import fcntl, termios\n"
        "found['tty'] = [os.isatty(n) for n in (0, 1, 2)]\n"
        "tried('sti', lambda: fcntl.ioctl(0, termios.TIOCSTI, b'x'))\n"
        "tried('linux', lambda: fcntl.ioctl(0, 0x541C, b'\\x02'))\n"
    )
    driver = (
        "import os, sys; os.setsid(); import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\nfrom reconciler.doors import boxing\n"
        f"opened = {{'config': {str(stage.config)!r}, 'folder': {str(stage.session)!r}}}\n"
        f"opened['scope'] = {stage.scope!r}\n"
        f"words = ({PYTHON!r}, '-I', '-S', '-c', {REPORT % (TRIED + code)!r})\n"
        f"sys.exit(boxing.run(boxing.Wish(), opened, ({PYTHON!r}, words, {{}}), quiet=True))\n"
    )
    master, slave = os.openpty()
    try:
        done = subprocess.run(
            [PYTHON, "-c", driver], stdin=slave, stdout=slave, stderr=slave, timeout=60, check=False
        )
        assert done.returncode == 0, os.read(master, 65536)
    finally:
        os.close(master)
        os.close(slave)
    found = json.loads((stage.work / "report.json").read_text())
    assert found == {"tty": [True] * 3, "sti": "PermissionError", "linux": "PermissionError"}


def test_exit_codes_and_signals_are_the_programs(stage: Stage) -> None:
    assert stage.run("sh", "-c", "exit 7") == 7
    assert stage.run("sh", "-c", "kill -SEGV $$") == 128 + 11
    (stage.work / "script").write_text("#!/bin/sh\nexit 5\n")
    (stage.work / "script").chmod(0o755)
    assert stage.run(str(stage.work / "script")) == 5
    (stage.work / "nothing").write_text("no program")
    (stage.work / "nothing").chmod(0o755)
    assert stage.run(str(stage.work / "nothing")) == 126


def test_what_is_shown_besides_is_read_only(stage: Stage) -> None:
    extra = stage.base / "extra"
    extra.mkdir()
    (extra / "one.txt").write_text("shown")
    found = stage.inside(
        f"found['read'] = open({str(extra / 'one.txt')!r}).read()\n"
        f"tried('write', lambda: open({str(extra / 'two.txt')!r}, 'w'))\n",
        read=[str(extra)],
    )
    assert found == {"read": "shown", "write": "OSError"}


def test_a_program_that_is_linked_into_the_scope_runs_and_leads_nowhere_else(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    (stage.base / "secret").write_text("canary-4711")
    script = stage.work / "script"
    script.write_text("#!/bin/sh\necho it runs\n")
    script.chmod(0o755)
    (stage.work / "link").symlink_to(script)
    (stage.base / "tool").symlink_to(stage.work / "link")
    assert stage.run(str(stage.base / "tool")) == 0
    assert "it runs" in capfd.readouterr().out
    script.unlink()
    script.symlink_to(stage.base / "secret")
    with pytest.raises(boxing.Unboxed, match="which is not shown: --ro"):
        stage.run(str(stage.base / "tool"))


@pytest.mark.parametrize(
    "path",
    ["/", "/etc", "/proc", "/proc/1", "{home}", "{base}", "{state}", "{run}/control.sock", "{base}/no"],
)
def test_what_would_show_too_much_is_refused_and_nothing_runs(stage: Stage, path: str) -> None:
    places = {"home": stage.base / "home", "base": stage.base, "state": stage.state, "run": stage.run_folder}
    with pytest.raises(boxing.Unboxed, match=r"^--ro "):
        stage.run("touch", "ran", read=[path.format(**places)])
    assert not (stage.work / "ran").exists()


def test_a_scope_that_holds_a_home_is_refused(stage: Stage) -> None:
    for path in (stage.base, stage.base / "home", Path("/")):
        stage.scope = [{"path": str(path), "access": "read"}]
        with pytest.raises(boxing.Unboxed, match=r"^the scope holds "):
            stage.run("true")
    stage.scope = [{"path": str(stage.base / "gone"), "access": "read"}]
    with pytest.raises(boxing.Unboxed, match="cannot be shown"):
        stage.run("true")


def test_a_link_that_the_program_could_have_made_is_not_followed(stage: Stage) -> None:
    (stage.work / "out").symlink_to(stage.state)
    stage.scope.append({"path": str(stage.work / "out"), "access": "create"})
    with pytest.raises(boxing.Unboxed, match="is a link that a program with this scope can change"):
        stage.run("true")


def test_a_folder_that_was_swapped_before_it_was_mounted_starts_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = agenthost.real_folder

    def swapped(path: str) -> tuple[str, int, int]:
        found = real(path)
        stage.work.rename(stage.base / "before")
        stage.work.symlink_to(stage.state)
        return found

    monkeypatch.setattr(agenthost, "real_folder", swapped)
    assert stage.run("cat", "ledger") == 126
    out, err = capfd.readouterr()
    assert "canary" not in out
    assert "was put in another's place" in err


def test_our_own_folders_inside_the_scope_are_shown_empty(stage: Stage) -> None:
    os.environ["HOME"] = "/home/nobody-here"  # so that the folder around everything may be the scope
    stage.scope = [{"path": str(stage.base), "access": "read"}, {"path": str(stage.work), "access": "create"}]
    found = stage.inside(
        f"os.chdir({str(stage.work)!r})\n"
        f"found['state'] = os.listdir({str(stage.state)!r})\n"
        f"found['run'] = os.listdir({str(stage.run_folder)!r})\n"
        f"found['session'] = os.path.exists({str(stage.session / 'services.sock')!r})\n"
        f"tried('control', lambda: open({str(stage.run_folder / 'control.sock')!r}))\n"
    )
    assert found == {"state": [], "run": ["s"], "session": True, "control": "FileNotFoundError"}


# the way out


@contextmanager
def echo() -> Iterator[int]:
    """A server on the host's loopback that sends back what it gets."""

    def serve() -> None:
        while True:
            try:
                one, _ = server.accept()
            except OSError:
                return
            with one:
                while data := one.recv(65536):
                    one.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(30)


ASKED = """
import socket
def asked(target, data):
    with socket.create_connection(("127.0.0.1", 3128), 20) as one:
        one.sendall(b"CONNECT %s HTTP/1.1\\r\\n\\r\\n" % target.encode())
        answer = b""
        while b"\\r\\n\\r\\n" not in answer:
            answer += one.recv(1)
        if b" 200 " in answer:
            one.sendall(data)
            return one.recv(65536).decode("latin-1")
        return answer.split(b"\\r\\n")[0].decode()
"""


def test_only_a_listed_host_is_reached_and_what_is_refused_is_told_at_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hello = _greeting("api.example.com")
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.216.34"] if host == "api.example.com" else ["127.0.0.1"]

    with echo() as port:

        async def dial(address: str, number: int) -> Streams:
            return await dialled("127.0.0.1", port)

        monkeypatch.setattr(boxing, "Proxy", partial(Proxy, resolve=resolve, dial=dial))
        stage.egress = ["api.example.com:443", f"127.0.0.1:{port}", "inside.example.com:443"]
        found = stage.inside(
            f"{ASKED}\nhello = bytes.fromhex({hello.hex()!r})\n"
            "found['listed'] = asked('api.example.com:443', hello) == hello.decode('latin-1')\n"
            f"found['literal'] = asked('127.0.0.1:{port}', b'plain')\n"
            "found['other name'] = asked('api.example.com:443', hello.replace(b'api.', b'evil'))\n"
            "found['inside'] = asked('inside.example.com:443', hello)\n"
            "found['unlisted'] = [asked('evil.example.com:443', hello) for _ in range(3)][0]\n"
            "found['proxy'] = [os.environ[n] for n in ('HTTPS_PROXY', 'https_proxy', 'NO_PROXY')]\n"
            "tried('direct', lambda: socket.create_connection(('93.184.216.34', 443), 2))\n"
        )
    assert found == {
        "listed": True,
        "literal": "plain",
        "other name": "",
        "inside": "HTTP/1.1 403 Forbidden",
        "unlisted": "HTTP/1.1 403 Forbidden",
        "proxy": ["http://127.0.0.1:3128"] * 2 + ["localhost,::1"],
        "direct": "OSError",
    }
    assert asked == ["api.example.com", "api.example.com", "inside.example.com"]
    told = capfd.readouterr().err
    assert "evil.example.com:443 is not on the list of what may be reached (3 times)" in told
    assert "inside.example.com leads to 127.0.0.1, a loopback address: list '127.0.0.1:443' too" in told


@contextmanager
def https(folder: Path, name: str) -> Iterator[int]:
    """A server of https on loopback that says "hello", with a certificate for a name in ``folder``."""
    words = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"))
    subprocess.run((*words, *files, "-addext", f"subjectAltName=DNS:{name}"), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")

    def serve() -> None:
        while True:
            try:
                one, _ = server.accept()
            except OSError:
                return
            with suppress(OSError), context.wrap_socket(one, server_side=True) as tunnel:
                tunnel.recv(65536)
                tunnel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(30)


CLIENTS = {
    "curl": ("curl", "-sS", "--cacert", "cert.pem", "https://api.example.com/"),
    "python": (
        PYTHON, "-I", "-c",
        ("import ssl, urllib.request as u; c = ssl.create_default_context(cafile='cert.pem')\n"
        "print(u.urlopen('https://api.example.com/', context=c, timeout=20).read().decode(), end='')"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_speak_https_through_it_as_they_are(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], client: str
) -> None:
    if missing := [one for one in ("openssl", CLIENTS[client][0]) if shutil.which(one) is None]:
        pytest.skip(f"{missing} is not on this machine")

    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    with https(stage.work, "api.example.com") as port:

        async def dial(address: str, number: int) -> Streams:
            return await dialled("127.0.0.1", port)

        monkeypatch.setattr(boxing, "Proxy", partial(Proxy, resolve=resolve, dial=dial))
        stage.egress = ["api.example.com:443"]
        assert stage.run(*CLIENTS[client]) == 0
    assert capfd.readouterr().out == "hello"


def test_without_a_list_nothing_listens_inside(stage: Stage) -> None:
    found = stage.inside(f"{ASKED}\ntried('proxy', lambda: asked('api.example.com:443', b'x'))")
    assert found == {"proxy": "ConnectionRefusedError"}


def _greeting(name: str) -> bytes:
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(inside, outside, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outside.read()


@pytest.mark.parametrize("by", ["group", "rlimit"])
def test_memory_and_processes_are_bounded_and_nothing_is_left_of_the_bounds(
    stage: Stage, by: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found_trees = limits._found(Path("/proc/self"))
    if by == "rlimit":
        monkeypatch.setattr(limits, "_found", lambda proc: [])
    elif not groups_may_be_made():
        by = "rlimit"  # an ordinary user's usual case
    if by == "group" or os.geteuid() != 0:  # no resource limit holds how many processes root has
        processes_are_bounded(stage)
    stage.bounds |= {"memory_bytes": 200 * 2**20}
    capfd.readouterr()
    assert stage.run(PYTHON, "-I", "-S", "-c", "kept = bytearray(400 * 2**20)") != 0
    said = capfd.readouterr().err
    assert ("want of memory" if by == "group" else "MemoryError") in said
    own = f"{limits._LABEL}run-{os.getpid()}"  # others may be at work beside us
    assert not [at for _, trees in found_trees for tree in trees if (at := tree.at / own).exists()]


def groups_may_be_made() -> bool:
    probe = Limits(f"probe-{os.getpid()}")
    probe.close()
    return probe.shape != "rlimit"


def processes_are_bounded(stage: Stage) -> None:
    """By their number alone: a bound on memory would end too many threads as well, by their stacks."""
    stage.bounds |= {"memory_bytes": None, "pids": 40}
    found = stage.inside(
        "import threading\n"
        "held = threading.Event()\n"
        "threads = [threading.Thread(target=held.wait, daemon=True) for _ in range(200)]\n"
        "def begin():\n"
        "    for one in threads: one.start()\n"
        "tried('threads', begin)\n"
        "found['begun'] = sum(one.is_alive() for one in threads)\n"
        "held.set()\n"
    )
    assert (found["threads"], 0 < found["begun"] < 40) == ("RuntimeError", True)


def test_what_a_killed_one_left_of_its_bounds_goes_with_the_next(stage: Stage) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    group = Limits(f"run-{gone.pid}", root=False).group("program", SandboxPolicy())
    assert all(folder.is_dir() for folder in group.folders)
    assert stage.run("true") == 0
    assert not any(folder.parent.exists() for folder in group.folders)
