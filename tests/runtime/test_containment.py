"""What a connector cannot do, tried from inside; as root, this file runs again as an ordinary user."""

import asyncio
import os
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import seccomp
from reconciler.runtime.identities import FIRST_UID
from tests.kit.processes import descendants
from tests.runtime.rig import rig, run

pytestmark = pytest.mark.slow

ROOT = os.geteuid() == 0


def inside(code: str, **changes: object) -> object:
    """Run code in a fresh connector; what it names ``answer``."""

    async def once() -> object:
        async with rig() as made:
            return await made.run(await made.declare(**changes), code)

    return asyncio.run(once())


def test_privileges_are_gone_for_good() -> None:
    status = inside(
        "answer = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines())"
    )
    assert isinstance(status, dict)
    for which in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[which], 16) == 0, which
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    uids = set(status["Uid"].split()) | set(status["Gid"].split())
    assert len(uids) == 1
    assert int(uids.pop()) >= FIRST_UID if ROOT else uids == {"65534"}
    assert status["Groups"].strip() in {"", "65534"}


def test_a_settings_folder_is_seen_at_its_place_and_cannot_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "away").symlink_to("/etc/passwd")
    code = """
import os
answer = {"names": sorted(os.listdir("/folders/docs")), "text": open("/folders/docs/a.txt").read()}
for name, word in (("write", "b"), ("away", "away")):
    try:
        open("/folders/docs/" + word, "w" if name == "write" else "r")
    except OSError as fault:
        answer[name] = fault.errno
"""
    seen = inside(code, folders=(("docs", str(tmp_path)),))
    assert seen == {"names": ["a.txt", "away"], "text": "hello", "write": 30, "away": 2}  # EROFS, ENOENT


def test_the_environment_is_exactly_what_is_listed() -> None:
    environment = inside("import os; answer = dict(os.environ)", settings=(("OCR_LANG", "deu"),))
    assert environment == {
        "HANDLER_CONNECTOR_FD": "3",
        "HANDLER_CONNECTOR_SOCKET": "/run/connector/connector.sock",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OCR_LANG": "deu",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PWD": "/app",
    }


def test_settings_do_not_show_in_a_process_list() -> None:
    async def once() -> None:
        async with rig() as made:
            name = await made.declare(settings=(("TOKEN_LIKE", "canary-4711"),))
            await made.open(name)
            shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants()]
            assert len(shown) >= 3
            assert not any(b"canary-4711" in line for line in shown)

    asyncio.run(once())


def test_no_descriptor_of_the_controller_is_inherited() -> None:
    leaked = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.dup2(leaked, 77, inheritable=True)
        os.set_inheritable(leaked, True)
        held = inside(
            "import os\n"
            "answer = {}\n"
            "for number in os.listdir('/proc/self/fd'):\n"
            "    try: answer[number] = os.readlink('/proc/self/fd/' + number)\n"
            "    except OSError: pass\n"  # the listing's own
        )
    finally:
        os.close(leaked)
        os.close(77)
    assert isinstance(held, dict)
    assert held.pop("0") == "/dev/null"
    assert held.pop("1").startswith("pipe:")
    assert held.pop("2").startswith("pipe:")
    assert held.pop("3").startswith("socket:")  # the listener
    assert [what for what in held.values() if not what.startswith("socket:")] == []
    assert len(held) == 1  # the one connection


def test_no_network_is_reachable_not_even_the_hosts_own() -> None:
    code = """
import socket
answer = {}
def tried(name, family, kind, address):
    try:
        with socket.socket(family, kind) as one:
            one.settimeout(2)
            one.connect(address)
            one.send(b"x")
        answer[name] = "reached"
    except OSError as fault:
        answer[name] = type(fault).__name__
tried("v4", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", args["v4"]))
tried("v6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", args["v4"]))
tried("outside", socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80))
tried("abstract", socket.AF_UNIX, socket.SOCK_STREAM, args["abstract"])
tried("udp outside", socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"hello", ("127.0.0.1", args["udp"]))
except OSError:
    pass
try:
    socket.getaddrinfo("example.org", 80)
    answer["name"] = "resolved"
except OSError:
    answer["name"] = "none"
"""

    async def once() -> None:
        async with rig() as made:
            with ExitStack() as stack:
                tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                udp.bind(("127.0.0.1", 0))
                hidden = stack.enter_context(socket.socket(socket.AF_UNIX))
                hidden.bind(f"\0handler-test-{os.getpid()}")
                hidden.listen()
                _, line = await made.open(await made.declare())
                where = {"v4": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
                found = await run(line, code, **where, abstract=f"\0handler-test-{os.getpid()}")
                tcp.setblocking(False)
                udp.setblocking(False)
                with pytest.raises(BlockingIOError):
                    tcp.accept()
                with pytest.raises(BlockingIOError):
                    udp.recv(10)
        assert "reached" not in found.values()
        assert found["name"] == "none"

    asyncio.run(once())


def test_only_three_families_of_sockets_exist() -> None:
    opened = inside(
        "import socket\n"
        "answer = []\n"
        "for family in range(1, 46):\n"
        "    try: socket.socket(family, socket.SOCK_DGRAM).close(); answer.append(family)\n"
        "    except OSError: pass\n"
    )
    assert opened == [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6]


def test_every_refused_system_call_is_refused() -> None:
    column = seccomp.architectures().index(os.uname().machine)
    refused = {name: pair[column] for name, pair in seccomp._REFUSED.items() if pair[column] is not None}
    absent = {name: pair[column] for name, pair in seccomp._UNHEARD_OF.items()}
    code = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def errno(*numbers):
    ctypes.set_errno(0)
    value = libc.syscall(*(ctypes.c_long(number) for number in numbers))
    return ctypes.get_errno() if value == -1 else 0
answer = {{
    "refused": {{name: errno(number, 0, 0, 0, 0, 0) for name, number in {refused!r}.items()}},
    "absent": {{name: errno(number, 0, 0, 0, 0, 0) for name, number in {absent!r}.items()}},
    "future": errno(5000, 0),
    "user namespace": errno({seccomp._WEIGHED["unshare"][column]}, 0x10000000),
    "mount namespace": errno({seccomp._WEIGHED["clone"][column]}, 0x20000 | 17, 0, 0, 0, 0),
    "inject": errno({seccomp._WEIGHED["ioctl"][column]}, 0, 0x5412, 0),
    "inject, high bits": errno({seccomp._WEIGHED["ioctl"][column]}, 0, 0x100005412, 0),
    "personality": errno({seccomp._WEIGHED["personality"][column]}, 0x0040000),
}}
"""
    found = inside(code)
    assert isinstance(found, dict)
    assert {name: errno for name, errno in found["refused"].items() if errno != 1} == {}
    assert {name: errno for name, errno in found["absent"].items() if errno != 38} == {}
    assert found["future"] == 38
    assert [found[name] for name in ("user namespace", "mount namespace", "inject", "inject, high bits")] == [
        1
    ] * 4
    assert found["personality"] == 1


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x32 is a second table of x86_64 alone")
def test_a_call_of_another_table_ends_the_process() -> None:
    status = inside(
        "import ctypes, os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))\n"
        "    os._exit(0)\n"
        "answer = os.waitpid(child, 0)[1]\n"
    )
    assert isinstance(status, int)
    assert os.WTERMSIG(status) == signal.SIGSYS


def test_other_processes_can_be_neither_seen_nor_signalled() -> None:
    found = inside(
        "import os\n"
        "pids = [int(name) for name in os.listdir('/proc') if name.isdigit()]\n"
        "answer = {'pids': pids, 'me': os.getpid()}\n"
        f"try: os.kill({os.getpid()}, 0); answer['signalled'] = True\n"
        "except OSError: answer['signalled'] = False\n"
        "try: os.kill(1, 9); answer['first'] = 'signalled'\n"
        "except OSError as fault: answer['first'] = 'no'\n"
        "answer['alive'] = True\n"
    )
    assert isinstance(found, dict)
    assert len(found["pids"]) == 2
    assert found["me"] in found["pids"]
    assert not found["signalled"]
    assert found["alive"]


def test_nothing_of_the_host_is_shown_but_what_runs_python() -> None:
    with tempfile.NamedTemporaryFile(prefix="handler-canary-") as canary:
        found = inside(
            "import os\n"
            "def names(path):\n"
            "    try: return sorted(os.listdir(path))\n"
            "    except OSError: return None\n"
            f"answer = {{'canary': os.path.exists({canary.name!r}),\n"
            "  'top': names('/'), 'etc': names('/etc'), 'run': names('/run'),\n"
            "  'connector': names('/run/connector'),\n"
            "  'tmp': names('/tmp'), 'programs': names('/usr/bin'), 'home': names('/home'),\n"
            "  'passwd': os.path.exists('/etc/passwd')}\n"
        )
    assert isinstance(found, dict)
    assert not found["canary"]
    assert not found["passwd"]
    prefix = Path(sys.base_prefix).resolve()
    assert found["tmp"] == ([prefix.parts[2]] if prefix.parts[1] == "tmp" else [])
    assert found["run"] == ["connector"]
    assert found["connector"] == ["in", "out"]
    assert set(found["etc"]) <= {"alternatives", "ld.so.cache"}
    assert found["home"] is None
    assert set(found["programs"] or ()) <= {"setpriv", Path(sys.executable).resolve().name, "python3.11"}
    assert set(found["top"]) <= {
        "app", "bin", "dev", "etc", "kit", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "tmp",
        "usr", prefix.parts[1],
    }  # fmt: skip


def test_another_instances_files_are_not_there() -> None:
    async def once() -> None:
        async with rig() as made:
            first, second = await made.declare("first"), await made.declare("second")
            (one, _), (two, line) = await made.open(first), await made.open(second)
            for endpoint, text in ((one, b"first"), (two, b"second")):
                number = os.open("blob", os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=endpoint.inbox)
                os.write(number, text)
                os.close(number)
            assert await run(line, "answer = open('/run/connector/in/blob').read()") == "second"
            walk = "import os; answer = [p for p, _, names in os.walk('/run') if 'blob' in names]"
            assert await run(line, walk) in (["/run/connector/in"], [])  # as root the inbox cannot be listed
            uids = {uid_of(endpoint.pid) for endpoint in (one, two)}
            assert len(uids) == (2 if ROOT else 1)

    asyncio.run(once())


def uid_of(bwrap: int) -> int:
    """The host's user id of the connector behind one bubblewrap."""
    deepest = max(descendants(bwrap))
    return Path(f"/proc/{deepest}").stat().st_uid


def test_nothing_can_be_written_but_scratch_and_the_outbox() -> None:
    found = inside(
        "import os\n"
        "answer = {}\n"
        "for folder in ('/', '/app', '/kit', '/usr', '/usr/lib', '/run', '/run/connector', '/dev', '/etc',\n"
        "               '/proc', '/tmp', '/dev/shm', '/run/connector/in', '/run/connector/out'):\n"
        "    try:\n"
        "        open(folder + '/made', 'w').close(); answer[folder] = True\n"
        "    except OSError: answer[folder] = False\n"
        "for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/app/main.py'):\n"
        "    try:\n"
        "        open(path, 'r+').close(); answer[path] = True\n"
        "    except OSError: answer[path] = False\n"
        "try: os.listdir('/run/connector/out'); answer['listed'] = True\n"
        "except OSError: answer['listed'] = False\n"
    )
    assert isinstance(found, dict)
    assert {path for path, written in found.items() if written} == {"/tmp", "/dev/shm", "/run/connector/out"}


@pytest.mark.parametrize("folder", ["/tmp", "/run/connector/out"])
def test_scratch_space_is_bounded(folder: str) -> None:
    written = inside(
        "import os\n"
        f"number = os.open('{folder}/big', os.O_CREAT | os.O_WRONLY)\n"
        "answer = 0\n"
        "try:\n"
        "    while answer < 2**24: answer += os.write(number, bytes(65536))\n"
        "except OSError as fault: answer = [answer, fault.errno]\n",
        sandbox=SandboxPolicy(tmp_bytes=2**20),
    )
    assert written == [2**20, 28]  # ENOSPC


def test_shared_memory_is_bounded() -> None:
    assert inside("import os; s = os.statvfs('/dev/shm'); answer = s.f_blocks * s.f_frsize") == 64 * 2**20


def test_a_fork_bomb_stays_small_and_goes_with_its_sandbox() -> None:
    code = (
        "import os, time\n"
        "answer = 0\n"
        "for _ in range(200):\n"
        "    try: child = os.fork()\n"
        "    except OSError: break\n"
        "    if child == 0:\n"
        "        os.setsid(); time.sleep(60); os._exit(0)\n"
        "    answer += 1\n"
    )

    async def once() -> int:
        async with rig() as made:
            walls = (await made.supervisor.walls()).standing
            if walls["pids"] == "none":
                pytest.skip("no wall of processes stands on this machine: the kernel is older than 5.14")
            made_children = await made.run(await made.declare(sandbox=SandboxPolicy(pids=40)), code)
            assert len(descendants()) >= made_children
            return int(made_children)

    before = descendants()
    made = asyncio.run(once())
    assert 10 < made < 40
    assert descendants() == before


def test_memory_is_bounded() -> None:
    async def once() -> None:
        async with rig() as made:
            name = await made.declare(sandbox=SandboxPolicy(memory_bytes=96 * 2**20))
            endpoint, line = await made.open(name)
            walls = made.phase(name).walls
            big = "big = bytearray(512 * 2**20); answer = len(big)"
            if walls["memory"].startswith("cgroup"):
                with pytest.raises(ConnectionResetError):
                    await run(line, big)
                await endpoint.ended
                await asyncio.sleep(0)
                assert made.phase(name).reason == "OutOfMemory"
            else:
                reply = await line.ask("tools/call", {"name": "run", "arguments": {"code": big}})
                told = reply["result"]["_meta"]["ai.handler/error"]["diagnostic"]
                assert told.startswith("MemoryError at ")

    asyncio.run(once())


def test_a_terminal_is_out_of_reach() -> None:
    found = inside(
        "import os\n"
        "answer = {'session': os.getsid(0)}\n"
        "try: open('/dev/tty'); answer['tty'] = True\n"
        "except OSError: answer['tty'] = False\n"
    )
    assert found == {"session": 1, "tty": False}


def test_named_programs_run_and_no_others() -> None:
    code = (
        "import os, subprocess\n"
        "ran = subprocess.run(['sort', '-r'], input='a\\nb\\n', capture_output=True, text=True)\n"
        "answer = {'named': ran.stdout, 'other': os.path.exists('/usr/bin/tac')}\n"
    )
    assert inside(code, sandbox=SandboxPolicy(programs=("sort",))) == {"named": "b\na\n", "other": False}


def test_named_data_is_readable_and_read_only() -> None:
    code = (
        "import os\n"
        "answer = {'doc': os.path.isdir('/usr/share/doc'), 'man': os.path.isdir('/usr/share/man')}\n"
        "try: open('/usr/share/doc/made', 'w'); answer['written'] = True\n"
        "except OSError: answer['written'] = False\n"
    )
    found = inside(code, sandbox=SandboxPolicy(read=("/usr/share/doc",)))
    assert found == {"doc": True, "man": False, "written": False}
