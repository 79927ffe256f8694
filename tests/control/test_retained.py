"""Routes kept because newer ones are not proven are kept by a restart, too."""

from pathlib import Path

from reconciler.control.retained import Retained
from reconciler.plan import serving
from tests.kit.values import recipe, routes, table

OLD, NEW = recipe("ocr-a"), recipe("ocr-b")
BEFORE = table(3, routes("clerk", OLD), routes("reader", NEW), recipes=(OLD, NEW))
DESIRED = table(4, routes("clerk", NEW), BEFORE.agents["reader"], recipes=(NEW,))


def test_kept_routes_come_back_and_still_wait(tmp_path: Path) -> None:
    path = tmp_path / "retained.json"
    served = serving.serve(DESIRED, BEFORE, proven=())
    Retained(path).save(served, DESIRED)
    found = Retained(path).load()
    assert found.agents.keys() == {"clerk"}
    assert found.agents["clerk"].routes["echo"].instance == OLD.name
    assert found.recipes == {OLD.name: OLD}
    after = serving.serve(DESIRED, found, proven=())
    assert after.agents["clerk"].routes["echo"].instance == OLD.name
    assert after.agents["reader"] is DESIRED.agents["reader"]


def test_there_is_no_file_when_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "retained.json"
    kept = Retained(path)
    kept.save(serving.serve(DESIRED, BEFORE, proven=()), DESIRED)
    assert path.exists()
    kept.save(DESIRED, DESIRED)
    assert not path.exists()
    assert kept.load() is serving.NOTHING


def test_a_torn_file_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "retained.json"
    path.write_text('{"agents": [')
    assert Retained(path).load() is serving.NOTHING
    assert not path.exists()


def test_a_folder_in_the_place_of_the_file_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "retained.json"
    path.mkdir()
    kept = Retained(path)
    assert kept.load() is serving.NOTHING
    kept.save(serving.serve(DESIRED, BEFORE, proven=()), DESIRED)
    path.rmdir()
    kept.save(serving.serve(DESIRED, BEFORE, proven=()), DESIRED)
    assert Retained(path).load().agents.keys() == {"clerk"}
