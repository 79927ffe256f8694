"""What ``handler doctor`` says of the machine's own means: control groups, user namespaces, further programs.

Each row says what stands, what is narrower without it, and how to mend that. What nothing in a configuration
needs is told, and is no fault.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reconciler.runtime import host, walls
from reconciler.runtime.limits import Limits

State = Literal["stands", "narrow", "missing", "unneeded"]
_MEANS: Mapping[str, tuple[str, str]] = {  # program → the runtime that needs it, and how it is had
    "podman": ("image", "apt-get install podman"),
    "deno": ("deno", "pip install deno, into Handler's environment"),
}
_AS_USER = "have systemd delegate them: systemd-run --user --scope -p Delegate=yes handlerd"
_AS_ROOT = "mount a control group tree: mount -t cgroup2 none /sys/fs/cgroup"
_TO_V2 = "none is needed; for v2: boot with systemd.unified_cgroup_hierarchy=1"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``state`` is ``stands``, ``narrow`` (works, with less), ``missing``, or
    ``unneeded`` (not here, and nothing wants it).
    """

    thing: str
    state: State
    told: str
    mend: str = ""


def groups(limits: Limits) -> Finding:
    """By what connectors are bounded here: a delegated cgroup v2, v1, or resource limits."""
    none = [wall for wall, how in limits.walls().items() if how == "none"]
    lacking = f"; nothing bounds {' and '.join(none)}" if none else ""
    if limits.shape == "v2":
        told = f"cgroup v2, delegated{lacking}"
        return Finding("control groups", "narrow" if none else "stands", told, _AS_USER if none else "")
    if limits.shape == "v1":
        told = f"cgroup v1; there is no cgroup v2 with memory and pids for us{lacking}"
        return Finding("control groups", "narrow" if none else "stands", told, _TO_V2)
    told = f"no cgroup v2 or v1 that we may write: resource limits alone{lacking}"
    return Finding("control groups", "narrow", told, _AS_ROOT if os.geteuid() == 0 else _AS_USER)


def namespaces(proc: Path = Path("/proc")) -> Finding:
    """Whether ordinary users may make user namespaces: what their connectors stand on; root needs none."""
    mend = walls.forbidden(proc / "sys")
    if mend is None and (proc / "self/ns/user").exists():
        return Finding("user namespaces", "stands", "ordinary users may make them")
    told = "ordinary users may make none, and have no sandbox then"
    root = os.geteuid() == 0
    told += "; root needs none" if root else ""
    mend = mend or "use a kernel with CONFIG_USER_NS"
    return Finding("user namespaces", "unneeded" if root else "missing", told, mend)


def programs(runtimes: Collection[str]) -> Iterator[Finding]:
    """The programs that single runtimes need, with those that bindings of this configuration use."""
    for name, (runtime, mend) in _MEANS.items():
        if (where := _found(name)) is not None:
            yield Finding(name, "stands", f"{where}, for connectors of runtime {runtime}")
        elif runtime in runtimes:
            yield Finding(name, "missing", f"not found: no connector of runtime {runtime} starts", mend)
        else:
            told = f"not found; only connectors of runtime {runtime} need it, and no binding here uses one"
            yield Finding(name, "unneeded", told, mend)


def lacking(runtime: str | None) -> str | None:
    """The program that a runtime needs and this machine has not, or None."""
    needed = next((name for name, (one, _) in _MEANS.items() if one == runtime), None)
    return needed if needed is not None and _found(needed) is None else None


def _found(name: str) -> str | None:
    try:
        need = host.deno("/usr/bin/deno") if name == "deno" else host.program(name)
    except host.Missing:
        return None
    return need.mounts[0][0]
