"""Bounds: which mechanism is chosen, what it writes, what is swept. The v2 tree is a picture of one."""

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import programs
from reconciler.runtime.limits import Group, Limits

POLICY = SandboxPolicy(memory_bytes=100 * 2**20, pids=17, cpu=0.25)
FILES = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
ALWAYS = {(resource.RLIMIT_CORE, 1), (resource.RLIMIT_NOFILE, FILES)}
V1 = """\
35 31 0:32 / {root}/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / {root}/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / {root}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
40 31 0:37 / {root}/systemd rw,relatime - cgroup cgroup rw,name=systemd
"""
V2 = "41 31 0:38 / {root}/unified rw,relatime - cgroup2 cgroup2 rw\n"


def picture(base: Path, mounts: str, places: str) -> Path:
    """A /proc/self and a control group tree that look like a kernel's."""
    proc = base / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(mounts.format(root=base))
    (proc / "cgroup").write_text(places)
    for name in ("memory/own", "pids/own", "cpu/own", "unified/own"):
        (base / name).mkdir(parents=True)
    return proc


def v2(base: Path, controllers: str, enabled: str = "") -> Path:
    proc = picture(base, V2, "0::/own\n")
    (base / "unified/own/cgroup.controllers").write_text(controllers)
    (base / "unified/own/cgroup.subtree_control").write_text(enabled)
    (base / "unified/own/cgroup.procs").write_text("")
    return proc


def test_a_delegated_v2_tree_is_used_first(tmp_path: Path) -> None:
    limits = Limits("abc", proc=v2(tmp_path, "cpu memory pids", "memory pids"))
    assert limits.shape == "v2"
    assert limits.walls() == dict.fromkeys(("memory", "pids", "cpu"), "cgroup v2")
    group = limits.group("x@1", POLICY)
    folder = tmp_path / "unified/own/handler-abc/x@1"
    assert group.folders == (folder,)
    assert (folder / "memory.max").read_text() == str(100 * 2**20)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "17"
    assert (folder / "cpu.max").read_text() == "25000 100000"
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.out_of_memory()


def test_the_controller_steps_into_a_leaf_before_v2_gives_controllers_to_children(tmp_path: Path) -> None:
    limits = Limits("abc", proc=v2(tmp_path, "memory pids"))
    own = tmp_path / "unified/own"
    assert limits.shape == "v2"
    assert (own / "handlerd/cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_who_is_in_the_leaf_already_works_in_the_group_around_it(tmp_path: Path) -> None:
    proc = v2(tmp_path, "memory pids", "memory pids")
    own = tmp_path / "unified/own"
    (own / "handlerd").mkdir()
    (proc / "cgroup").write_text("0::/own/handlerd\n")
    assert Limits("abc", proc=proc).group("x@1", POLICY).folders == (own / "handler-abc/x@1",)
    assert list((own / "handlerd").iterdir()) == []


def test_a_v2_tree_without_processors_says_that_they_are_not_bounded(tmp_path: Path) -> None:
    limits = Limits("abc", proc=v2(tmp_path, "memory pids", "memory pids"))
    assert limits.walls() == {"memory": "cgroup v2", "pids": "cgroup v2", "cpu": "none"}
    assert not (limits.group("x@1", POLICY).folders[0] / "cpu.max").exists()


def test_a_v2_tree_without_the_controllers_is_not_used(tmp_path: Path) -> None:
    assert Limits("abc", proc=v2(tmp_path, "cpu")).shape == "rlimit"


def test_v1_memory_and_pids_are_used_where_they_are(tmp_path: Path) -> None:
    proc = picture(tmp_path, V1 + V2, "8:pids:/own\n4:memory:/own\n3:cpu,cpuacct:/own\n0::/own\n")
    limits = Limits("abc", proc=proc)
    assert limits.shape == "v1"
    group = limits.group("x@1", POLICY)
    assert (tmp_path / "memory/own/handler-abc/x@1/memory.limit_in_bytes").read_text() == str(100 * 2**20)
    assert (tmp_path / "pids/own/handler-abc/x@1/pids.max").read_text() == "17"
    cpu = tmp_path / "cpu/own/handler-abc/x@1"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "25000"
    assert (cpu / "cpu.cfs_period_us").read_text() == "100000"
    assert set(group.resource_limits) == ALWAYS
    assert limits.walls() == dict.fromkeys(("memory", "pids", "cpu"), "cgroup v1")
    unasked = limits.group("y@1", SandboxPolicy())
    assert [folder.parents[2].name for folder in unasked.folders] == ["memory", "pids"]  # costs no start


def test_half_of_v1_is_completed_by_resource_limits(tmp_path: Path) -> None:
    proc = picture(tmp_path, V1, "8:pids:/own\n")
    limits = Limits("abc", proc=proc, root=True)
    each = "resource limit, each process for itself"
    assert limits.walls() == {"memory": each, "pids": "cgroup v1", "cpu": "none"}
    assert (resource.RLIMIT_AS, 100 * 2**20) in limits.group("x@1", POLICY).resource_limits


def test_without_control_groups_resource_limits_hold_and_are_told_as_such(tmp_path: Path) -> None:
    limits = Limits("abc", proc=tmp_path / "nothing", root=True)
    assert limits.shape == "rlimit"
    assert limits.walls()["pids"] == "resource limit of its user id"
    assert limits.walls()["cpu"] == "none"
    assert set(limits.group("x@1", POLICY).resource_limits) == {
        *ALWAYS,
        (resource.RLIMIT_AS, 100 * 2**20),
        (resource.RLIMIT_NPROC, 17),
    }


@pytest.mark.parametrize(
    ("release", "wall"), [("6.1.0", "resource limit of its user namespace"), ("5.10.1", "none")]
)
def test_an_older_kernel_counts_a_persons_other_programs_so_no_wall_is_claimed(
    tmp_path: Path, release: str, wall: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((real[0], real[1], release, real[3], real[4])))
    limits = Limits("abc", proc=tmp_path / "nothing", root=False)
    assert limits.walls()["pids"] == wall
    kinds = [kind for kind, _ in limits.group("x@1", POLICY).resource_limits]
    assert (resource.RLIMIT_NPROC in kinds) == (wall != "none")


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: control groups belong to root here")
def test_real_groups_hold_kill_and_go() -> None:
    limits = Limits(f"test{os.getpid()}x{time.monotonic_ns()}")
    if limits.shape == "rlimit":
        pytest.skip("no control group tree can be written on this machine")
    group = limits.group("x@1", POLICY)
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as two:
        group.admit(one.pid)
        group.admit(two.pid)
        assert group.pids() == {one.pid, two.pid}
        assert not group.remove()
        assert limits.sweep() == 2
        assert (one.wait(5), two.wait(5)) == (-9, -9)
    assert group.remove()
    limits.close()
    assert not any(folder.parent.exists() for folder in group.folders)


def found_deno() -> str | None:
    beside = Path(sys.executable).parent / "deno"
    return str(beside) if beside.exists() else shutil.which("deno", path="/usr/local/bin:/usr/bin")


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["deno", "command"])
def test_where_no_group_bounds_memory_engines_that_reserve_addresses_start_and_stay_bounded(
    tmp_path: Path, runtime: str
) -> None:
    limits = Limits("abc", proc=tmp_path)
    policy = SandboxPolicy(memory_bytes=512 * 2**20)
    sets_aside = programs.SET_ASIDE[runtime]
    kinds = dict(limits.group("x@1", policy, sets_aside).resource_limits)
    assert resource.RLIMIT_AS not in kinds
    assert kinds[resource.RLIMIT_DATA] == 512 * 2**20 + sets_aside
    told = "const kept = []; for (let i = 0; i < SIZE; i++) kept.push(new Uint8Array(2 ** 20).fill(1));"
    tool = found_deno() if runtime == "deno" else shutil.which("node", path="/usr/bin")
    if tool is None:
        pytest.skip(f"no engine for {runtime}")
    codes = []
    for size in ("8", "2000"):
        bound = ("prlimit", f"--data={kinds[resource.RLIMIT_DATA]}", "--core=0")
        script = ("eval" if runtime == "deno" else "-e", told.replace("SIZE", size))
        environment = {"DENO_DIR": str(tmp_path), "HOME": str(tmp_path)}
        ran = subprocess.run([*bound, tool, *script], capture_output=True, env=environment, check=False)
        codes.append(ran.returncode)
    assert codes[0] == 0
    assert codes[1] != 0


def test_a_process_that_is_not_shown_to_us_is_no_process_of_ours(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("0\n4711\n")  # a signal to 0 would end whoever asks
    assert Group((tmp_path,), "v2", ()).pids() == {4711}
