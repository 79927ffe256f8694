"""Other people's files on disk: links, modes, and several writers at the same time."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.control import harnessfiles
from reconciler.harness import wishes
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.ledger import Ledger, User
from reconciler.harness.wishes import Wish


def _do(state: Path, wish: Wish) -> None:
    with harnessfiles.remembered(state) as (ledger, remember):
        found = {path: harnessfiles.data(Path(path)) for path in wishes.touched(ledger, wish)}
        plan = wishes.plan(ledger, wish, found)
        assert not plan.refusals
        harnessfiles.done(plan, ledger, state, harnessfiles.Way(remember))


def test_many_writers_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    row, file = HARNESSES["cursor"], tmp_path / "site/.cursor/mcp.json"
    names = [f"s{number}" for number in range(12)]
    users = {name: User(name, "cursor", str(tmp_path / "site")) for name in names}
    (tmp_path / "site").mkdir()

    def write(name: str) -> None:
        entries = {name: row.entry(Service(name, ("/b", name), 1))}
        _do(tmp_path / "state", Wish(users[name], str(file), entries))

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(write, names))
    ledger = harnessfiles.read(tmp_path / "state")
    assert set(ledger.shared[str(file)].ours.entries) == set(names)
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: _do(tmp_path / "state", Wish(users[name])), names))
    assert harnessfiles.read(tmp_path / "state") == Ledger()
    assert not list((tmp_path / "site").iterdir())


def test_a_new_file_has_the_mode_that_others_of_the_person_have(tmp_path: Path) -> None:
    file = tmp_path / "x/opencode.json"
    entries = {"ocr": HARNESSES["opencode"].entry(Service("ocr", ("/b",), 1))}
    before = os.umask(0o027)
    try:
        _do(tmp_path / "state", Wish(User("a", "opencode", str(tmp_path)), str(file), entries))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "state/harness/written.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("target", ["..", "/", "../other", "/etc/passwd"])
def test_a_link_that_leads_out_is_no_place(tmp_path: Path, target: str) -> None:
    root = tmp_path / "site"
    root.mkdir()
    (root / "out").symlink_to(target)
    with pytest.raises(harnessfiles.Unfit, match="leads out of"):
        harnessfiles.place(root, "out/mcp.json" if not target.endswith("passwd") else "out")
    assert harnessfiles.place(root, "in/mcp.json") == root / "in/mcp.json"


def test_a_project_that_is_itself_a_link_is_the_folder_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert harnessfiles.place(tmp_path / "link", ".mcp.json") == tmp_path / "real/.mcp.json"


def test_a_file_too_large_to_be_a_configuration_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**24 + 1)
    with pytest.raises(harnessfiles.Unfit, match="more than 16,777,216 bytes"):
        harnessfiles.data(tmp_path / "huge")
    assert harnessfiles.data(tmp_path / "none") is None
    assert harnessfiles.data(tmp_path / "huge/below") is None
