"""Secrets get into a sandbox by descriptor, file or variable, and nowhere else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.recipes import SecretUse
from reconciler.runtime.resolving import Resolver
from reconciler.runtime.rotation import ASK_AGAIN_S, Rotation
from reconciler.runtime.supervisor import Unready
from tests.kit.processes import descendants
from tests.runtime.rig import pinned, rig, run

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


VALUE = "sk-CANARY-4bd91f06/+z"
LOOK = """
import os
from handler_connector import secret
first, second = secret("api_key"), secret("api_key")
paths = ["/proc/self/fd/" + one for one in os.listdir("/proc/self/fd")]
memory = [one for one in paths if os.path.lexists(one) and "memfd" in os.readlink(one)]
try:
    files = {name: oct(os.stat("/run/secrets/" + name).st_mode & 0o777) for name in ("api_key",)}
except OSError:
    files = {}
answer = {"got": first, "again": second, "argv": open("/proc/self/cmdline").read(),
          "env": open("/proc/self/environ").read(), "memory": memory, "files": files}
"""


def use(tmp_path: Path, via: str, **more: Any) -> SecretUse:
    file = tmp_path / "key"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(VALUE + "\n")
    return SecretUse("api_key", "file", (str(file),), env="API_KEY", via=via)


@pytest.mark.parametrize("via", ["fd", "file", "env"])
async def test_a_secret_arrives_by_the_way_of_its_slot_and_by_no_other(tmp_path: Path, via: str) -> None:
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        name = await made.declare(secrets=(use(tmp_path, via),))
        seen = await made.run(name, LOOK)
        assert (seen["got"], seen["again"]) == (VALUE, VALUE)
        assert VALUE not in seen["argv"]
        assert (VALUE in seen["env"]) == (via == "env")
        assert seen["memory"] == []  # read once and closed; a file's is closed before any code runs
        assert seen["files"] == ({"api_key": "0o400"} if via == "file" else {})
        for pid in descendants():  # bubblewrap and what stands between: neither argument nor variable
            for part in ("cmdline", "environ"):
                try:
                    text = Path(f"/proc/{pid}/{part}").read_bytes()
                except OSError:
                    continue
                assert VALUE.encode() not in text or (via, part) == ("env", "environ")
        held = [one.readlink().name for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        assert not [one for one in held if "memfd:secret" in one]
        hits = [
            path for path in made.base.rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()
        ]
        assert hits == []


@pytest.mark.slow
async def test_a_program_that_the_connector_starts_does_not_get_the_descriptor(tmp_path: Path) -> None:
    code = """
import os
number = int(os.environ["HANDLER_SECRET_FD_API_KEY"])
answer = os.get_inheritable(number)
"""
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        assert await made.run(await made.declare(secrets=(use(tmp_path, "fd"),)), code) is False


SERVER = b"""
import json, os, sys
number = os.environ["HANDLER_SECRET_FD_API_KEY"]
with open(int(number)) as file:
    got = file.read()
for line in sys.stdin:
    asked = json.loads(line)
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
    if asked["method"] == "tools/list":
        result = {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
    if asked["method"] == "tools/call":
        memory = [one for one in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + one)
                  and "memfd" in os.readlink("/proc/self/fd/" + one)]
        result = {"content": [], "structuredContent": {"answer": [got, memory]}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_a_wrapped_server_reads_its_descriptor_as_any_program_does(tmp_path: Path) -> None:
    mapping = b'[tool.run]\noutput = "structured"\n'
    code = pinned(b"", **{"server.py": SERVER, "connector.toml": mapping})
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        more = {"runtime": "mcp", "command": ("python", "server.py"), "entry": ""}
        name = await made.declare("wrapped", code, secrets=(use(tmp_path, "fd"),), **more)
        assert await made.run(name, "") == [VALUE, []]


async def test_a_slot_that_is_not_filled_is_none() -> None:
    async with rig() as made:
        seen = await made.run(await made.declare(), LOOK)
        assert (seen["got"], seen["memory"], seen["files"]) == (None, [], {})


async def test_each_start_resolves_anew_and_what_no_longer_resolves_stops_what_runs(tmp_path: Path) -> None:
    code = 'from handler_connector import secret\nanswer = secret("api_key")'
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        slot = use(tmp_path, "env")
        first = await made.declare("first", secrets=(slot,))
        second = await made.declare("second", pinned(extra=b"x"), secrets=(slot,))
        endpoint, line = await made.open(first)
        assert await run(line, code) == VALUE
        Path(slot.reference[0]).write_text("sk-rotated-0000\n")
        assert await run(line, code) == VALUE  # what runs keeps what it was started with
        Path(slot.reference[0]).unlink()
        with pytest.raises(Unready) as refused:
            await made.supervisor.ready(second)
        assert refused.value.reason == "SecretUnresolved"
        assert refused.value.message.startswith(
            "the secret of slot 'api_key' (file) does not resolve: there is no"
        )
        assert await endpoint.ended == "signal 9"
        assert made.phase(first).reason == "SecretUnresolved"
        slot = use(tmp_path, "env")
        Path(slot.reference[0]).write_text("sk-rotated-0000\n")
        made.supervisor.forgive(first)
        assert await made.run(first, code) == "sk-rotated-0000"


@pytest.mark.slow
async def test_a_reference_that_was_taken_back_ends_its_process_and_starts_none_until_it_is_back(
    tmp_path: Path,
) -> None:
    code = 'from handler_connector import secret\nanswer = secret("api_key")'
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        name = await made.declare("first", secrets=(use(tmp_path, "fd"),))
        other = await made.declare("other", pinned(extra=b"x"), secrets=(use(tmp_path, "fd"),))
        endpoint, line = await made.open(name)
        assert await run(line, code) == VALUE
        _, beside = await made.open(other)
        made.supervisor.revoke({name: "it was taken back"})
        assert await endpoint.ended == "signal 9"
        for _ in range(2):
            with pytest.raises(Unready) as refused:
                await made.supervisor.ready(name)
            assert (refused.value.reason, refused.value.message) == ("SecretUnresolved", "it was taken back")
        assert made.phase(name).pid is None
        idle = await made.declare("third", pinned(extra=b"y"), secrets=(use(tmp_path, "fd"),))
        made.supervisor.revoke({name: "it was taken back", idle: "it was never started"})
        told = made.phase(idle)
        assert (told.phase, told.reason) == ("failed", "SecretUnresolved")
        assert told.message == "it was never started"
        assert await run(beside, code) == VALUE
        made.supervisor.revoke({})
        assert await made.run(name, code) == VALUE


async def test_what_is_taken_back_while_it_starts_does_not_run(tmp_path: Path) -> None:
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        name = await made.declare("first", secrets=(use(tmp_path, "fd"),))
        starting = asyncio.ensure_future(made.supervisor.ready(name))
        await asyncio.sleep(0)
        made.supervisor.revoke({name: "it was taken back"})
        endpoint = await starting
        assert await endpoint.ended == "signal 9"


@pytest.mark.slow
async def test_a_hundred_looks_at_secrets_start_nothing_anew_and_ask_no_program_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = tmp_path / "store"
    program.write_text(f"#!/bin/sh\necho asked >> {count}\necho sk-from-a-program\n")
    program.chmod(0o755)
    file = use(tmp_path, "fd")
    asks = SecretUse("other", "command", (str(program),), env="OTHER", via="fd")
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        name = await made.declare("first", secrets=(file, asks))
        _, line = await made.open(name)
        pid = made.phase(name).pid
        for _ in range(100):
            assert await made.supervisor.follow_rotation() == ()
            await made.supervisor.altered()
        seen = made.phase(name)
        assert (seen.pid, seen.restarts, seen.phase) == (pid, 0, "idle")
        assert count.read_text() == "asked\n"
        assert await run(line, "answer = 1") == 1


@pytest.mark.slow
async def test_a_changed_value_replaces_the_process_after_its_calls(tmp_path: Path) -> None:
    code = 'from handler_connector import secret\nanswer = secret("api_key")'
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        slot = use(tmp_path, "fd")
        name = await made.declare("first", secrets=(slot,))
        endpoint, line = await made.open(name)
        made.supervisor.hold(name)
        Path(slot.reference[0]).write_text("sk-rotated-0000\n")
        assert await made.supervisor.follow_rotation() == (name,)
        assert await made.supervisor.follow_rotation() == ()  # told once
        assert await run(line, code) == VALUE  # a call that runs is not cut
        made.supervisor.release(name)
        await endpoint.ended
        assert await made.run(name, code) == "sk-rotated-0000"
        Path(slot.reference[0]).unlink()  # on its way, or gone: the next start decides
        assert await made.supervisor.follow_rotation() == ()
        assert made.phase(name).pid is not None


async def test_a_program_is_asked_again_after_an_hour(tmp_path: Path) -> None:
    program = tmp_path / "store"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/value\n")
    program.chmod(0o755)
    (tmp_path / "value").write_text("sk-first-value\n")
    asks = SecretUse("api_key", "command", (str(program),), env="API_KEY", via="fd")
    now = [asyncio.get_running_loop().time()]
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        made.supervisor._rotation = Rotation(made.supervisor._shop.secrets, lambda: now[0])
        name = await made.declare("first", secrets=(asks,))
        await made.open(name)
        (tmp_path / "value").write_text("sk-second-value\n")
        now[0] += ASK_AGAIN_S - 60
        assert await made.supervisor.follow_rotation() == ()
        now[0] += 120
        assert await made.supervisor.follow_rotation() == (name,)


async def test_a_secret_that_is_not_there_is_told_before_any_start_and_that_it_came_by_itself(
    tmp_path: Path,
) -> None:
    async with rig(secrets=Resolver(tmp_path / "config")) as made:
        slot = use(tmp_path, "fd")
        Path(slot.reference[0]).unlink()
        name = await made.declare(secrets=(slot,))
        told = made.phase(name)
        assert (told.phase, told.reason, told.pid) == ("failed", "SecretUnresolved", None)
        assert told.message == "the secret of slot 'api_key' (file) does not resolve: there is no such file"
        with pytest.raises(Unready):
            await made.supervisor.ready(name)
        use(tmp_path, "fd")
        await made.supervisor.follow_rotation()
        told = made.phase(name)
        assert (told.phase, told.reason, told.message) == ("declared", None, "")
        await made.open(name)
        Path(slot.reference[0]).unlink()
        await made.supervisor.follow_rotation()
        told = made.phase(name)
        assert (told.phase, told.reason) == ("idle", "SecretUnresolved")
        assert told.pid is not None, "what runs goes on"
        use(tmp_path, "fd")
        await made.supervisor.follow_rotation()
        assert made.phase(name).reason is None
        Path(slot.reference[0]).unlink()
        other = await made.declare("other", pinned(extra=b"x"), secrets=(slot,))
        use(tmp_path, "fd")
        made.supervisor.forgive(other)  # as `handler reconcile` does
        async with asyncio.timeout(30):
            while made.phase(other).phase == "failed":
                await asyncio.sleep(0.01)
