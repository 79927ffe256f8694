"""Which walls stand: asked of a trial run of the very sandbox that connectors get, once per controller.

A machine may lack user namespaces, forbid them by policy, or have a kernel without seccomp. Without the walls
of files, network, processes, privileges and system calls (``CLOSED``) no connector starts; bounds on memory,
processes and processors (``TOLD``) are told as they are. The probe is a connector of one file that tries to
leave, and prints what happened.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import host, leftovers, sandbox, seccomp, sockets
from reconciler.runtime.limits import Limits
from reconciler.runtime.process import NotStartedError, Order, Process, spawn

CLOSED: Mapping[str, str] = {  # wall → what stands behind it; one that is missing lets nothing start
    "processes": "it sees its own processes alone, and they end with it",
    "network": "it has a loopback of its own, and no way out but its proxy",
    "sockets": "no family of sockets but UNIX, INET and INET6: no vsock, no netlink, no packets",
    "files": "it sees what runs it and what its `sandbox` names, and writes scratch space alone",
    "privileges": "it has no capability",
    "new privileges": "no program that it starts has more than it",
    "system calls": "a filter refuses the kernel's rarely used doors",
    "new namespaces": "it can make no sandbox of its own, in which it would be root",
    "identity": "as root: a user id of its own; as an ordinary user: yours, which is nobody inside",
}
TOLD: Mapping[str, str] = {  # bounds: one that is missing is told, and its connector runs
    "memory": "`sandbox.memoryBytes`, of all its processes together",
    "pids": "`sandbox.pids`, how many processes it may have",
    "cpu": "`sandbox.cpu`, how many processors it may keep busy",
}
_UNASKED = "no bound is asked for"
_TRIAL_UID = 899_999  # below those of connectors
_TRIAL_S = 10.0
_MAX_REPORT = 65536
_PROBE = """
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def opened(family, kind):
    try:
        socket.socket(family, kind).close()
    except OSError:
        return False
    return True
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
shown = {name: status.get(name, "").strip() for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Uid")}
print(json.dumps(shown | {
    "first": status["NSpid"].split()[-1],
    "interfaces": sorted(line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]),
    "vsock": opened(40, 1), "netlink": opened(16, 3),
    "namespace": libc.unshare(0x10000000) == 0,
    "host": sorted(path for path in ("/etc/passwd", "/home", "/root/.ssh", "/sys") if os.path.exists(path)),
    "writable": sorted(path for path in ("/", "/app", "/usr", "/dev") if os.access(path, os.W_OK)),
}))
"""


class SandboxUnavailable(Exception):  # noqa: N818 - the reason of the condition that it becomes
    """A wall does not stand, or the sandbox cannot be built; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls that stand, by name, each with how."""

    standing: Mapping[str, str]


async def probe(run: Path, limits: Limits) -> Walls:
    """Run the trial; raises SandboxUnavailable. ``run`` is a folder for it, of the caller's own."""
    try:
        machine = host.survey()
        filters = seccomp.program(os.uname().machine)
    except host.Missing as missing:
        raise SandboxUnavailable(str(missing)) from None
    except KeyError:
        known = ", ".join(seccomp.architectures())
        raise SandboxUnavailable(
            f"there is no system call filter for this machine, only for {known}"
        ) from None
    folder = _folder(run)
    try:
        report = await _trial(machine, filters, folder, limits)
    except NotStartedError as fault:
        raise SandboxUnavailable(f"{fault}; {_remedy(machine)}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return judged(report, machine, limits.walls())


def judged(report: Mapping[str, Any], machine: sandbox.Host, bounds: Mapping[str, str]) -> Walls:
    """What the trial's report means; raises SandboxUnavailable that names every wall that is missing."""
    standing = {
        "processes": "own pid namespace" if int(report["first"]) < 16 else "",
        "network": "empty network namespace" if set(report["interfaces"]) <= {"lo"} else "",
        "sockets": "" if report["vsock"] or report["netlink"] else "UNIX, INET and INET6 only",
        "files": "" if report["host"] or report["writable"] else "own mounts, read-only",
        "privileges": "no capability" if int(report["CapEff"], 16) == int(report["CapBnd"], 16) == 0 else "",
        "new privileges": "none" if report["NoNewPrivs"] == "1" else "",
        "system calls": "filtered" if report["Seccomp"] == "2" else "",
        "new namespaces": "" if report["namespace"] else "none",
        "identity": _identity(report, machine),
    }
    missing = [name for name in CLOSED if not standing[name]]
    if missing:
        raise SandboxUnavailable(f"these walls do not stand: {', '.join(missing)}; {_remedy(machine)}")
    return Walls({**standing, **bounds})


def told(standing: Mapping[str, str], policy: SandboxPolicy) -> Mapping[str, str]:
    """The walls of one connector: a bound that it does not ask for does not stand around it."""
    asked = {"memory": policy.memory_bytes, "cpu": policy.cpu}
    return {
        wall: _UNASKED if wall in asked and asked[wall] is None else how for wall, how in standing.items()
    }


def _identity(report: Mapping[str, Any], machine: sandbox.Host) -> str:
    if not machine.root:
        return "your own, in a user namespace"
    return "a user id of its own" if set(report["Uid"].split()) == {str(_TRIAL_UID)} else ""


def _folder(run: Path) -> Path:
    """What the trial mounts: the probe as a connector, an empty kit and an empty inbox."""
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=run))
    for name in ("app", "in", "kit"):
        (folder / name).mkdir()
        (folder / name).chmod(0o755)
    (folder / "app" / "main.py").write_text(_PROBE)
    (folder / "app" / "main.py").chmod(0o644)
    return folder


async def _trial(machine: sandbox.Host, filters: bytes, folder: Path, limits: Limits) -> Mapping[str, Any]:
    place = sandbox.Place(
        app=str(folder / "app"),
        entry="main.py",
        kit=str(folder / "kit"),
        environment="",
        inbox=str(folder / "in"),
        uid=_TRIAL_UID,
        variables=(("LANG", "C.UTF-8"), ("PATH", "/usr/bin")),
    )
    policy = SandboxPolicy()
    at = sockets.folder(folder)
    read, write = os.pipe()
    try:
        with sockets.listen(at, "trial.sock") as listener:
            order = Order(
                label=leftovers.label(folder.parent.name, "trial"),
                bwrap=machine.bwrap,
                options=sandbox.options(machine, policy, place),
                command=partial(sandbox.command, machine, place),
                seccomp=filters,
                listener=listener.fileno(),
                output=write,
            )
            try:
                how = await _ended(await spawn(order, partial(limits.group, folder.name, policy)))
            except NotStartedError as fault:
                raise NotStartedError(f"{fault}: {_printed(read)}") from None
        return _report(_printed(read), how)
    finally:
        for number in (at, read, write):
            os.close(number)


async def _ended(process: Process) -> str:
    try:
        return await asyncio.wait_for(asyncio.shield(process.ended), timeout=_TRIAL_S)
    except TimeoutError:
        raise NotStartedError(f"its trial took longer than {_TRIAL_S:.0f} s") from None
    finally:
        await process.kill()


def _printed(pipe: int) -> str:
    """What a trial that has ended left in its pipe."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, _MAX_REPORT).decode("utf-8", "replace").strip()
    except BlockingIOError:
        return ""


def _report(printed: str, how: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(printed)
    except ValueError:
        raise NotStartedError(f"its trial ended with {how} and no report") from None
    return found


def _remedy(machine: sandbox.Host) -> str:
    """What to do about it, by what the kernel says of itself."""
    if machine.root:
        return "as root it needs CAP_SYS_ADMIN: give it to the container, or run Handler as an ordinary user"
    return (
        forbidden() or "check that this user may make user namespaces (unshare -U true), in a container too"
    )


def forbidden(settings: Path = Path("/proc/sys")) -> str | None:
    """What to do where the kernel's ``settings`` forbid ordinary users user namespaces; None: they do not."""
    if _kernel_says(settings, "kernel/apparmor_restrict_unprivileged_userns", "1"):
        return "AppArmor forbids user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _kernel_says(settings, "kernel/unprivileged_userns_clone", "0"):
        return "user namespaces are switched off: sysctl kernel.unprivileged_userns_clone=1"
    if _kernel_says(settings, "user/max_user_namespaces", "0"):
        return "user namespaces are switched off: sysctl user.max_user_namespaces=10000"
    return None


def _kernel_says(settings: Path, name: str, value: str) -> bool:
    try:
        return (settings / name).read_text().strip() == value
    except OSError:
        return False
