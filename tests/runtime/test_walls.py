"""What a trial's report means, and what is said when a wall is missing."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import host, walls
from reconciler.runtime.limits import Limits
from reconciler.runtime.sandbox import Host

HOST = Host("/usr/bin/bwrap", "/usr/bin/setpriv", True, "/usr/bin/python3", (), ())
GOOD = {
    "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
    "Uid": "899999\t899999\t899999\t899999", "first": "2", "interfaces": ["lo"], "vsock": False,
    "netlink": False, "namespace": False, "host": [], "writable": [],
}  # fmt: skip


def test_a_good_report_names_every_wall_with_how_it_stands() -> None:
    standing = walls.judged(GOOD, HOST, {"memory": "cgroup v2", "pids": "none"}).standing
    assert standing["network"] == "empty network namespace"
    assert standing["identity"] == "a user id of its own"
    assert standing["pids"] == "none"
    assert walls.judged(GOOD, replace(HOST, root=False), {}).standing["identity"].startswith("your own")


def test_every_wall_is_closed_or_told_and_a_bound_that_is_not_asked_for_does_not_stand() -> None:
    standing = walls.judged(GOOD, HOST, Limits("x", proc=Path("/nowhere")).walls()).standing
    assert list(standing) == [*walls.CLOSED, *walls.TOLD]
    asked = walls.told(standing, SandboxPolicy(memory_bytes=2**20, cpu=1))
    assert asked == standing
    assert asked["cpu"] == "none"  # which the condition Uncontained tells of
    unasked = walls.told(standing, SandboxPolicy())
    assert (unasked["memory"], unasked["cpu"]) == ("no bound is asked for",) * 2
    assert unasked["pids"] == standing["pids"]


@pytest.mark.parametrize(
    ("change", "wall"),
    [
        ({"first": "4711"}, "processes"),
        ({"interfaces": ["eth0", "lo"]}, "network"),
        ({"vsock": True}, "sockets"),
        ({"netlink": True}, "sockets"),
        ({"host": ["/etc/passwd"]}, "files"),
        ({"writable": ["/app"]}, "files"),
        ({"CapEff": "0000000000000001"}, "privileges"),
        ({"CapBnd": "000001ffffffffff"}, "privileges"),
        ({"NoNewPrivs": "0"}, "new privileges"),
        ({"Seccomp": "0"}, "system calls"),
        ({"namespace": True}, "new namespaces"),
        ({"Uid": "0\t0\t0\t0"}, "identity"),
    ],
)
def test_a_wall_that_does_not_stand_is_named_with_a_remedy(change: dict[str, object], wall: str) -> None:
    with pytest.raises(walls.SandboxUnavailable, match=wall) as missing:
        walls.judged({**GOOD, **change}, HOST, {})
    assert "; " in str(missing.value)


@pytest.mark.slow
def test_a_bubblewrap_that_fails_is_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    broken = replace(host.survey(), bwrap=str(fake))
    monkeypatch.setattr(host, "survey", lambda: broken)

    async def story() -> None:
        limits = Limits(f"walls{os.getpid()}")
        try:
            with pytest.raises(walls.SandboxUnavailable) as missing:
                await walls.probe(tmp_path / "run", limits)
            assert "exit 1" in str(missing.value)
            assert "bwrap: No permissions to create new namespace" in str(missing.value)
            assert list((tmp_path / "run").iterdir()) == []
        finally:
            limits.close()

    asyncio.run(story())


@pytest.mark.slow
def test_an_unknown_machine_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*real[:4], "riscv64")))

    async def story() -> None:
        limits = Limits(f"walls{os.getpid()}")
        try:
            with pytest.raises(walls.SandboxUnavailable, match="no system call filter"):
                await walls.probe(tmp_path, limits)
        finally:
            limits.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("file", "value", "words"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces"),
        ("none", "none", "unshare -U true"),
    ],
)
def test_the_remedy_fits_what_the_kernel_says(
    file: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walls, "_kernel_says", lambda _, name, what: (name, what) == (file, value))
    assert words in walls._remedy(replace(HOST, root=False))
    assert "CAP_SYS_ADMIN" in walls._remedy(HOST)
