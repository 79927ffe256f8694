"""Bounds on memory, processes and processors, by the best mechanism that this machine lets us use.

In this order: a cgroup v2 subtree that is delegated to us; the v1 memory, pids and cpu hierarchies; resource
limits. What only resource limits hold is told so: they count a connector's memory process by process, and
hold no processor back.
Each group carries the owner's label, so that what a killed controller left behind is found and ended.
"""

import os
import re
import resource
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from reconciler.model.recipes import SandboxPolicy

Shape = Literal["v2", "v1", "rlimit"]
_LABEL = "handler-"
_CONTROLLER_LEAF = "handlerd"  # where a v2 controller moves itself: a group with children holds no process
_MOUNT = re.compile(
    r"^\S+ \S+ \S+ (?P<root>\S+) (?P<at>\S+) .* - (?P<type>cgroup2?) \S+ (?P<options>\S+)$", re.M
)
# Since 5.14 RLIMIT_NPROC counts each user namespace for itself; before, all programs of a person.
_NPROC_BY_NAMESPACE = (5, 14)
_OPEN_FILES = 4096  # a process; event loops take some hundred, and the kernel's own table is everybody's
_NO_CORE = 1  # not 0: that bounds files, and a program that is piped cores (core(5)) gets them all the same
_PERIOD_US = 100_000  # the kernel's own
_LEAST_US = 1_000  # a quota below is refused
_V1 = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted cgroup tree, at our own place in it."""

    at: Path
    memory: bool
    pids: bool
    cpu: bool = False


class Limits:
    """The bounds of one controller's connectors. ``owner`` labels its groups; it has no "/" in it."""

    def __init__(self, owner: str, *, proc: Path = Path("/proc/self"), root: bool | None = None) -> None:
        self._label = f"{_LABEL}{owner}"
        self._root = os.geteuid() == 0 if root is None else root
        self.shape: Shape = "rlimit"
        self._trees: tuple[Hierarchy, ...] = ()
        for shape, trees in _found(proc):
            usable = tuple(tree for one in trees if (tree := self._opened(one, shape)) is not None)
            if usable:
                self.shape, self._trees = shape, usable
                break

    def walls(self) -> Mapping[str, str]:
        """How memory, processes and processors are bounded here, in words; "none": not at all."""
        by_group = f"cgroup {self.shape}"
        nproc = "resource limit of its user id" if self._root else "resource limit of its user namespace"
        counted = self._root or _kernel() >= _NPROC_BY_NAMESPACE
        return {
            "memory": by_group if self._has("memory") else "resource limit, each process for itself",
            "pids": by_group if self._has("pids") else nproc if counted else "none",
            "cpu": by_group if self._has("cpu") else "none",
        }

    def group(self, instance: str, policy: SandboxPolicy, sets_aside: int | None = None) -> "Group":
        """A fresh group with this policy's bounds, before its first process. ``sets_aside``: see
        ``resource_limits``.
        """
        trees = [one for one in self._trees if one.memory or one.pids or policy.cpu is not None]
        folders = tuple(tree.at / self._label / instance for tree in trees)
        group = Group(folders, self.shape, self.resource_limits(policy, sets_aside))
        group.kill()
        for tree in trees:
            self._opened(tree, self.shape)
        for tree, folder in zip(trees, folders, strict=True):
            _bound(tree, folder, self.shape, policy)
        return group

    def sweep(self) -> int:
        """End every process in groups that a controller of this owner left behind; how many there were."""
        ended: set[int] = set()  # of two hierarchies, the second may still count what died in the first
        for tree in self._trees:
            ended |= self._swept(tree.at / self._label)
        return len(ended)

    def sweep_dead(self, owners: str, lives: Callable[[str], bool]) -> None:
        """End and remove what owners of this beginning have left whose rest, a process's number, is gone."""
        for tree in self._trees:
            for base in tree.at.glob(f"{_LABEL}{owners}*"):
                if not lives(base.name.removeprefix(f"{_LABEL}{owners}")):
                    self._swept(base)
                    Group((base,), self.shape, ()).remove()

    def _swept(self, base: Path) -> set[int]:
        """End and remove the groups below an owner's; the processes that were in them."""
        ended: set[int] = set()
        for folder in [path for path in base.glob("*") if path.is_dir()]:
            group = Group((folder,), self.shape, ())
            ended |= group.pids()
            group.kill()
            group.remove()
        return ended

    def close(self) -> bool:
        """Remove the owner's own groups; False while the kernel still counts a dead process in one."""
        gone = True
        for tree in self._trees:
            base = tree.at / self._label
            folders = (*(path for path in base.glob("*") if path.is_dir()), base)
            gone &= Group(folders, self.shape, ()).remove()
        return gone

    def _has(self, what: Literal["memory", "pids", "cpu"]) -> bool:
        return any(getattr(tree, what) for tree in self._trees)

    def _opened(self, tree: Hierarchy, shape: Shape) -> Hierarchy | None:
        """Make the owner's group in a tree; the tree as it can be used, None where we may not."""
        base = tree.at / self._label
        try:
            if shape == "v2":
                _delegate(tree.at)
            base.mkdir(exist_ok=True)
            if shape == "v2":
                (base / "cgroup.subtree_control").write_text("+memory +pids")
        except OSError:
            return None
        if shape == "v2" and tree.cpu:
            return replace(tree, cpu=_also_cpu(tree.at) and _also_cpu(base))
        return tree

    def resource_limits(
        self, policy: SandboxPolicy, sets_aside: int | None = None
    ) -> tuple[tuple[int, int], ...]:
        """What each process inherits. Where no control group bounds memory, addresses are bounded; but for
        engines that reserve far more of them than they ever use (V8: 48 GiB), what they may write is, with
        the bytes that such an engine ``sets_aside``.
        """
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = _OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _OPEN_FILES)
        limits = [(resource.RLIMIT_CORE, _NO_CORE), (resource.RLIMIT_NOFILE, files)]
        if policy.memory_bytes is not None and not self._has("memory"):
            most = policy.memory_bytes + (sets_aside or 0)
            limits.append((resource.RLIMIT_AS if sets_aside is None else resource.RLIMIT_DATA, most))
        if not self._has("pids") and (self._root or _kernel() >= _NPROC_BY_NAMESPACE):
            limits.append((resource.RLIMIT_NPROC, policy.pids))
        return tuple(limits)


@dataclass(frozen=True, slots=True)
class Group:
    """The bounds of one process tree: its control groups, and what each process inherits."""

    folders: tuple[Path, ...]
    shape: Shape
    resource_limits: tuple[tuple[int, int], ...]

    def admit(self, pid: int) -> None:
        """Put a process, and all it will start, under the bounds. OSError when it is gone already."""
        for folder in self.folders:
            _write(folder / "cgroup.procs", str(pid))
        for kind, most in self.resource_limits:
            resource.prlimit(pid, kind, (most, most))

    def pids(self) -> set[int]:
        """Which processes are in it now."""
        found: set[int] = set()
        for folder in self.folders:
            with suppress(OSError):
                found |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
        return found - {0}  # one that our pid namespace does not show; to a signal, 0 is all of our own group

    def out_of_memory(self) -> bool:
        """Whether the kernel ended a process of it for want of memory."""
        name = "memory.events" if self.shape == "v2" else "memory.oom_control"
        for folder in self.folders:
            with suppress(OSError, ValueError):
                lines = dict(line.split() for line in (folder / name).read_text().splitlines())
                if int(lines.get("oom_kill", 0)):
                    return True
        return False

    def kill(self) -> None:
        """End everything in it; what forks meanwhile is met in the next round."""
        for folder in self.folders:
            with suppress(OSError):
                (folder / "cgroup.kill").write_text("1")
        for _ in range(64):
            pids = self.pids()
            if not pids:
                return
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self) -> bool:
        """Take the groups away, and the owner's with its last one; False while a dying process is in one."""
        gone = True
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
            if folder.parent.name.startswith(_LABEL):
                with suppress(OSError):  # another instance's group is in it
                    folder.parent.rmdir()
        return gone


def _found(proc: Path) -> list[tuple[Shape, list[Hierarchy]]]:
    """The hierarchies that this process is in, v2 first, by what the kernel says of mounts and places."""
    try:
        mounts = list(_MOUNT.finditer((proc / "mountinfo").read_text()))
        places = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
    except OSError:
        return []
    by_name = {name: path for _, names, path in places for name in names.split(",")}
    v2: list[Hierarchy] = []
    v1: list[Hierarchy] = []
    for mount in mounts:
        options = set(mount["options"].split(","))
        unified = mount["type"] == "cgroup2"
        name = "" if unified else next((one for one in _V1 if one in options), None)
        if name is None or name not in by_name:
            continue
        at = _place(Path(mount["at"]), mount["root"], by_name[name])
        if not unified:
            v1.append(Hierarchy(at, *(one in options for one in _V1)))
        elif {"memory", "pids"} <= (offered := _words(at / "cgroup.controllers")):
            v2.append(Hierarchy(at, memory=True, pids=True, cpu="cpu" in offered))
    return [("v2", v2), ("v1", v1)]


def _place(mount: Path, root: str, path: str) -> Path:
    """Our own group as seen through a mount that may show only a part of its tree; for who stands in the leaf
    of a controller, as what it started does, the group around it.
    """
    inner = path.removeprefix(root) if root != "/" else path
    at = mount / inner.lstrip("/")
    if at.name == _CONTROLLER_LEAF:
        at = at.parent
    return at if at.is_dir() else mount


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text().split())
    except OSError:
        return set()


def _delegate(at: Path) -> None:
    """Let groups below ours have controllers: we step into a leaf first, since v2 keeps inner groups empty.

    Raises OSError, with everything as it was, when the group is not ours alone.
    """
    if {"memory", "pids"} <= _words(at / "cgroup.subtree_control"):
        return
    leaf = at / _CONTROLLER_LEAF
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))
    try:
        (at / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError:
        (at / "cgroup.procs").write_text(str(os.getpid()))
        leaf.rmdir()
        raise


def _also_cpu(at: Path) -> bool:
    """Whether groups below one may be bound in processors, too; not where processes stand in it."""
    try:
        if "cpu" not in _words(at / "cgroup.subtree_control"):
            (at / "cgroup.subtree_control").write_text("+cpu")
    except OSError:
        return False
    return True


def _bound(tree: Hierarchy, folder: Path, shape: Shape, policy: SandboxPolicy) -> None:
    folder.mkdir(exist_ok=True)
    if tree.pids:
        _write(folder / "pids.max", str(policy.pids))
    if tree.cpu and policy.cpu is not None:
        quota = max(_LEAST_US, round(policy.cpu * _PERIOD_US))
        if shape == "v2":
            _write(folder / "cpu.max", f"{quota} {_PERIOD_US}")
        else:
            _write(folder / "cpu.cfs_period_us", str(_PERIOD_US))
            _write(folder / "cpu.cfs_quota_us", str(quota))
    if not tree.memory or policy.memory_bytes is None:
        return
    memory = str(policy.memory_bytes)
    if shape == "v2":
        _write(folder / "memory.max", memory)
        with suppress(OSError):  # a kernel without swap accounting
            _write(folder / "memory.swap.max", "0")
        return
    _write(folder / "memory.limit_in_bytes", memory)
    with suppress(OSError):
        _write(folder / "memory.memsw.limit_in_bytes", memory)


def _write(file: Path, text: str) -> None:
    """One write(2), which is what a control group's file takes; without the layers of a text file."""
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(number, text.encode())
    finally:
        os.close(number)


def _kernel() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(match[1]), int(match[2])) if match else (0, 0)
