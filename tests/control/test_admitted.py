"""What was admitted last survives every crash, and a restart on a broken tree serves the same."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.admission.admit import Admission, admit
from reconciler.config import load
from reconciler.control import admitted as module
from reconciler.control.admitted import Admitted
from reconciler.model.inventory import Layer, Tree
from reconciler.plan.desired import desire
from tests.kit.effort import times
from tests.plan.build import HOME, KIT, SMALL, agent, binding
from tests.plan.build import admitted as judged

ROOT = Path(__file__).resolve().parents[2]


def restarted(folder: Path) -> Admission:
    """What a new controller has in force from the disk alone."""
    trees = {Layer.CATALOG: Tree("none", {}), Layer.CONFIG: Admitted(folder).load()}
    return admit(load.inventory(trees), {})


def serves(admission: Admission) -> object:
    found = desire(admission, generation=0, kit=KIT, home=HOME)
    return found.recipes, {name: str(one) for name, one in found.table.agents.items()} and {
        name: [(str(r.interface), r.binding, r.instance, r.suspended) for r in one.routes.values()]
        for name, one in found.table.agents.items()
    }


def test_the_first_time_there_is_nothing(tmp_path: Path) -> None:
    tree = Admitted(tmp_path / "admitted").load()
    assert tree.files == {}
    assert not (tmp_path / "admitted").exists()


def test_a_restart_serves_the_same(tmp_path: Path) -> None:
    admission = judged(SMALL)
    store = Admitted(tmp_path / "admitted")
    assert store.save(admission)
    tree = Admitted(tmp_path / "admitted").load()
    assert tree.files == admission.inventory.trees[Layer.CONFIG].files
    assert tree.revision == "r"
    again = restarted(tmp_path / "admitted")
    assert again.refused == {}
    assert serves(again) == serves(admission)


@pytest.mark.parametrize(
    "broken",
    [
        {"bindings/fast.toml": "<<<<<<< HEAD\n"},
        {"bindings/fast.toml": 'apiVersion = "handler.binding/v1"\nconector = "x"\n'},
        {"agents/clerk.toml": agent("clerk", {"ocr": "nowhere"})["agents/clerk.toml"]},
        {"interfaces/ocr/v1/tools.json": "[]"},
        {"connectors/ocr-fast/connector.toml": ""},
        {"handler.lock": "", "interfaces/ocr/v1/tools.json": "[]"},
    ],
)
def test_a_restart_on_a_broken_tree_serves_what_was_served_before_it(
    tmp_path: Path, broken: dict[str, str]
) -> None:
    store = Admitted(tmp_path)
    good = judged(SMALL)
    store.save(good)
    lock = {"handler.lock": good.inventory.trees[Layer.CONFIG].files["handler.lock"].decode()}
    bad = judged(SMALL | lock | broken, good, clean=False)
    assert bad.refused
    store.save(bad)
    assert serves(restarted(tmp_path)) == serves(bad) == serves(good)


def test_execute_bits_are_kept(tmp_path: Path) -> None:
    good = judged(SMALL)
    files = good.inventory.trees[Layer.CONFIG].files
    bits = frozenset({"connectors/ocr-fast/main.py"})
    tree = Tree("r", files, {}, bits)
    inventory = load.inventory({Layer.CATALOG: Tree("none", {}), Layer.CONFIG: tree})
    admission = admit(inventory, {})
    Admitted(tmp_path).save(admission)
    assert Admitted(tmp_path).load().executable == bits
    assert serves(restarted(tmp_path)) == serves(admission)


def test_what_ships_with_the_product_is_not_kept(tmp_path: Path) -> None:
    files = judged(SMALL).inventory.trees[Layer.CONFIG].files
    catalog = {path: data for path, data in files.items() if path.startswith(("interfaces", "handler.lock"))}
    config = {path: data for path, data in files.items() if path not in catalog}
    admission = admit(
        load.inventory({Layer.CATALOG: Tree("c", catalog), Layer.CONFIG: Tree("r", config)}), {}
    )
    assert not admission.refused
    Admitted(tmp_path).save(admission)
    assert Admitted(tmp_path).load().files == config


def test_saving_the_same_again_writes_nothing(tmp_path: Path) -> None:
    first = judged(SMALL)
    store = Admitted(tmp_path)
    assert store.save(first)
    before = (tmp_path / "journal").stat()
    assert not store.save(first)
    assert not store.save(judged(SMALL, first))
    assert not Admitted(tmp_path).save(judged(SMALL))
    assert (tmp_path / "journal").stat().st_mtime_ns == before.st_mtime_ns


def test_an_edit_appends_what_changed_and_what_is_gone(tmp_path: Path) -> None:
    first = judged(SMALL)
    store = Admitted(tmp_path)
    store.save(first)
    size = (tmp_path / "journal").stat().st_size
    edited = {path: text for path, text in SMALL.items() if "maid" not in path} | binding(
        "fast", "ocr-fast", "settings.speed = 9\n"
    )
    second = judged(edited, first)
    store.save(second)
    assert size < (tmp_path / "journal").stat().st_size < size + 700
    assert Admitted(tmp_path).load().files == second.inventory.trees[Layer.CONFIG].files


def test_outdated_batches_are_compacted_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLACK_BYTES", 2000)
    store = Admitted(tmp_path)
    admission = judged(SMALL)
    store.save(admission)
    whole = (tmp_path / "journal").stat().st_size
    for speed in range(40):
        admission = judged(SMALL | binding("fast", "ocr-fast", f"settings.speed = {speed}\n"), admission)
        store.save(admission)
        assert (tmp_path / "journal").stat().st_size <= 2 * (whole + 4 * 700) + 2000
    assert Admitted(tmp_path).load().files == admission.inventory.trees[Layer.CONFIG].files


def _two_states(folder: Path) -> tuple[dict[str, bytes], dict[str, bytes], int]:
    first = judged(SMALL)
    second = judged(SMALL | binding("fast", "ocr-fast", "settings.speed = 9\n"), first)
    store = Admitted(folder, lambda: 1e9)
    store.save(first)
    size = (folder / "journal").stat().st_size
    store.save(second)
    trees = [dict(one.inventory.trees[Layer.CONFIG].files) for one in (first, second)]
    return trees[0], trees[1], size


@pytest.mark.slow
@given(st.data())
@settings(max_examples=times(25))
def test_cut_or_spoilt_anywhere_the_whole_batches_before_it_count(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("admitted")
    old, new, size = _two_states(folder)
    path = folder / "journal"
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:place])
    else:
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
        )
    found = Admitted(folder).load().files
    assert found in ([old, new] if place >= size else [{}, old])
    assert found == ({} if place < size else old)
    third = judged(SMALL | binding("fast", "ocr-fast", "settings.speed = 1\n"))
    Admitted(folder).save(third)
    assert Admitted(folder).load().files == third.inventory.trees[Layer.CONFIG].files


_SAVER = """
import os, sys
from pathlib import Path
os.getpid = lambda: 1
from reconciler.control import admitted as module
from tests.plan.build import SMALL, admitted, binding
first = admitted(SMALL)
second = admitted(SMALL | binding("fast", "ocr-fast", "settings.speed = 9\\n"), first)
store = module.Admitted(Path(sys.argv[1]))
store.save(first)
print("first", flush=True)
store.save(second)
print("second", flush=True)
"""


def test_what_was_not_waited_for_is_written_down_and_settled_later(tmp_path: Path) -> None:
    store = Admitted(tmp_path)
    store.save(judged(SMALL))
    assert not store.unsettled
    edited = judged(SMALL | binding("fast", "ocr-fast", "settings.speed = 9\n"))
    assert store.save(edited, wait=False)
    assert store.unsettled
    assert serves(restarted(tmp_path)) == serves(edited), "a crash of ours loses nothing"
    store.settle()
    assert not store.unsettled


def test_where_the_disk_refuses_to_settle_everything_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Admitted(tmp_path)
    store.save(judged(SMALL))
    store.save(judged(SMALL | binding("fast", "ocr-fast", "settings.speed = 9\n")), wait=False)

    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as bad, pytest.raises(OSError, match="Input/output"):
        bad.setattr("os.fsync", broken)
        store.settle()
    before = (tmp_path / "journal").stat().st_ino
    last = judged(SMALL | binding("fast", "ocr-fast", "settings.speed = 4\n"))
    store.save(last)
    assert (tmp_path / "journal").stat().st_ino != before
    assert serves(restarted(tmp_path)) == serves(last)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no system call can be broken"
)
@pytest.mark.parametrize("call", ["openat", "write", "fsync", "rename", "ftruncate", "lseek", "mkdir"])
def test_killed_at_any_call_it_holds_what_was_said_to_be_saved_or_newer(tmp_path: Path, call: str) -> None:
    old, new, _ = _two_states(tmp_path / "model")
    folder = tmp_path / "admitted"
    touched = [folder, folder / "journal", folder / ".journal.1.~handler"]
    paths = [word for path in touched for word in ("-P", str(path))]
    killed = 0
    for number in range(1, 20):
        shutil.rmtree(folder, ignore_errors=True)
        inject = ["-e", f"inject={call}:signal=KILL:when={number}"]
        command = [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            *inject,
            *paths,
            sys.executable,
            "-c",
            _SAVER,
            str(folder),
        ]
        ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        found = Admitted(folder).load().files
        said = ended.stdout.split()
        allowed = {0: ({}, old), 1: (old, new), 2: (new,)}[len(said)]
        assert found in allowed
        if ended.returncode == 0:
            break
        killed += 1
    assert killed or call in ("mkdir",), "nothing was killed"
