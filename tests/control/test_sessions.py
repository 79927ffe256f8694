"""Sessions: pinned for life, on disk before anybody relies on them, over when their opener is."""

import itertools
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from reconciler.control import processes
from reconciler.control.sessions import Sessions, routes_json
from reconciler.model.names import InstanceName
from tests.kit.values import recipe, routes, table

OCR = recipe("ocr-a")
TABLE = table(7, routes("clerk", OCR), recipes=(OCR,))
ROUTES = TABLE.agents["clerk"]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def _book(folder: Path, clock: Clock | None = None) -> Sessions:
    numbers = itertools.count()
    return Sessions(folder, now=clock or Clock(), token=lambda: f"{os.urandom(3).hex()}{next(numbers):06d}")


def _me() -> processes.Process:
    return processes.Process(os.getpid(), processes.start_time(os.getpid()) or 0)


def test_a_session_comes_back_as_it_was(tmp_path: Path) -> None:
    opened = _book(tmp_path).open(ROUTES, TABLE)
    (found,) = _book(tmp_path).load()
    assert found.id == opened.id
    assert found.agent == "clerk"
    assert found.generation == TABLE.generation
    assert found.recipes == {OCR.name: OCR}
    route, pinned = found.routes.routes["echo"], ROUTES.routes["echo"]
    assert (route.interface, route.binding, route.instance) == (
        pinned.interface,
        pinned.binding,
        pinned.instance,
    )
    assert route.contract.tools_json == pinned.contract.tools_json


def test_where_state_is_kept_each_session_has_an_instance_of_its_own(tmp_path: Path) -> None:
    kept = replace(recipe("ocr-a"), state="session")
    there = table(7, routes("clerk", kept), recipes=(kept,))
    book = _book(tmp_path)
    first, second = (book.open(there.agents["clerk"], there) for _ in range(2))
    mine, other = (one.serving.routes["echo"].instance for one in (first, second))
    assert len({mine, other, kept.name}) == 3
    assert book.recipes().keys() == {mine, other, kept.name}
    assert book.recipes()[mine] == replace(
        kept, session=first.id, idle_stop_s=book.recipes()[mine].idle_stop_s
    )
    assert {one.routes.routes["echo"].instance for one in (first, second)} == {
        kept.name
    }  # as it was selected
    assert (book.shared(mine), book.shared(kept.name)) == (kept.name, kept.name)
    again = _book(tmp_path)
    assert {one.serving.routes["echo"].instance for one in again.load()} == {mine, other}
    book.close(first.id)
    assert book.recipes().keys() == {other, kept.name}
    assert book.shared(mine) == mine
    within = replace(kept, runtime="builtin")  # no process: nothing that could be kept apart
    there = table(7, routes("clerk", within), recipes=(within,))
    assert _book(tmp_path / "within").open(there.agents["clerk"], there).own == {}


@pytest.mark.parametrize("models", [None, (), ("small", "large")])
def test_the_models_that_a_session_may_ask_for_come_back_and_their_want_in_an_older_file_means_any(
    tmp_path: Path, models: tuple[str, ...] | None
) -> None:
    pinned = {name: replace(route, models=models) for name, route in ROUTES.routes.items()}
    opened = _book(tmp_path).open(replace(ROUTES, routes=pinned), TABLE)
    (found,) = _book(tmp_path).load()
    assert found.routes.routes["echo"].models == models
    path = tmp_path / f"{opened.id}.json"
    value = orjson.loads(path.read_bytes())
    for route in value["agents"][0]["routes"]:
        del route["models"]
    path.write_bytes(orjson.dumps(value))
    (found,) = _book(tmp_path).load()
    assert found.routes.routes["echo"].models is None


def test_the_further_bindings_of_an_interface_come_back_with_their_models_in_order(tmp_path: Path) -> None:
    first = replace(ROUTES.routes["echo"], models=("a",))
    others = [
        replace(first, binding=name, instance=InstanceName(name, "ab" * 32), models=(name,))
        for name in ("y", "x")
    ]
    pinned = {"echo": replace(first, others=tuple(others))}
    _book(tmp_path).open(replace(ROUTES, routes=pinned), TABLE)
    (found,) = _book(tmp_path).load()
    assert [(one.binding, one.models) for one in found.routes.routes["echo"].each] == [
        (first.binding, ("a",)), ("y", ("y",)), ("x", ("x",)),
    ]  # fmt: skip


def test_a_session_whose_opener_is_gone_does_not_come_back(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    start = processes.start_time(child.pid) or 0
    child.wait()
    _book(tmp_path).open(ROUTES, TABLE, opener=processes.Process(child.pid, start))
    _book(tmp_path).open(ROUTES, TABLE, opener=_me())
    (found,) = _book(tmp_path).load()
    assert found.opener == _me()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_number_of_another_boot_or_of_a_later_process_names_no_opener(tmp_path: Path) -> None:
    """Both live, as far as their number goes: one belonged to another boot, one to somebody before it."""
    book = _book(tmp_path)
    moved, reused = (book.open(ROUTES, TABLE, opener=_me()) for _ in range(2))
    book.open(ROUTES, TABLE, opener=_me())
    for session, change in ((moved, {"bootId": "another"}), (reused, {"opener": {"pid": 1, "startTime": 1}})):
        path = tmp_path / f"{session.id}.json"
        path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | change))
    (found,) = _book(tmp_path).load()
    assert found.id not in (moved.id, reused.id)


def test_a_torn_file_is_no_session_and_stops_nobody(tmp_path: Path) -> None:
    kept = _book(tmp_path).open(ROUTES, TABLE)
    tmp_path.joinpath("torn.json").write_bytes(tmp_path.joinpath(f"{kept.id}.json").read_bytes()[:90])
    assert [one.id for one in _book(tmp_path).load()] == [kept.id]


def test_bridges_of_one_parent_share_a_session_and_the_last_one_ends_it(tmp_path: Path) -> None:
    book = _book(tmp_path)
    opened = book.open(ROUTES, TABLE, opener=_me(), standing=True)
    assert book.standing("clerk", _me()) is opened
    assert book.standing("clerk", processes.Process(1, 1)) is None
    book.joined(opened.id)
    book.joined(opened.id)
    assert not book.left(opened.id)
    assert book.left(opened.id)
    book.close(opened.id)
    assert book.standing("clerk", _me()) is None
    assert not list(tmp_path.iterdir())


def test_a_day_without_a_call_ends_an_opened_session(tmp_path: Path) -> None:
    clock = Clock()
    book = _book(tmp_path, clock)
    opened = book.open(ROUTES, TABLE)
    clock.now += 23 * 3600
    assert book.over() == ()
    book.called(opened.id)
    clock.now += 23 * 3600
    assert book.over() == ()
    clock.now += 2 * 3600
    assert book.over() == (opened.id,)


def test_a_restored_standing_session_waits_a_moment_for_its_bridges(tmp_path: Path) -> None:
    clock = Clock()
    _book(tmp_path, clock).open(ROUTES, TABLE, opener=_me(), standing=True)
    book = _book(tmp_path, clock)
    (found,) = book.load()
    assert book.over() == ()
    clock.now += 31
    assert book.over() == (found.id,)
    book.joined(found.id)
    assert book.over() == ()


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\xff", b"[]", b"{}", b'{"contracts": []}', b'{"contracts": {"ocr/v1": 3}}',
        b'{"contracts": {}, "agents": [{"agent": 3}], "recipes": []}',
        b'{"contracts": {}, "agents": [], "recipes": [{}]}',
        b'{"contracts": {}, "agents": [[]], "recipes": 3}',
    ],
)  # fmt: skip
def test_what_is_no_session_is_forgotten_and_holds_nothing_up(tmp_path: Path, text: bytes) -> None:
    opened = _book(tmp_path).open(ROUTES, TABLE)
    (tmp_path / "0.json").write_bytes(text)
    (tmp_path / "1.json").mkdir()
    assert [one.id for one in _book(tmp_path).load()] == [opened.id]
    assert not (tmp_path / "0.json").exists()


def test_on_a_full_disk_a_standing_session_serves_and_an_opened_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **how: object) -> bool:
        raise OSError(28, "No space left on device")

    book = _book(tmp_path)
    monkeypatch.setattr("reconciler.control.atomic.write", full)
    session = book.open(ROUTES, TABLE, opener=_me(), standing=True)
    assert book.standing("clerk", _me()) == session
    assert book.close(session.id) == session
    with pytest.raises(OSError, match="No space"):
        book.open(ROUTES, TABLE, opener=_me())
    assert book.all() == ()


def _leaves(value: object, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The place of every value of a JSON document."""
    found = [at]
    if isinstance(value, dict):
        for key, one in value.items():
            found += _leaves(one, (*at, key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            found += _leaves(one, (*at, number))
    return found


@pytest.mark.slow
def test_whatever_a_hand_puts_anywhere_into_a_session_file_stops_nobody(tmp_path: Path) -> None:
    opened = _book(tmp_path).open(ROUTES, TABLE, opener=_me())
    file = tmp_path / f"{opened.id}.json"
    text = file.read_bytes()
    places = _leaves(orjson.loads(text))
    assert len(places) > 40
    for place in places[1:]:
        for junk in (None, "x", -1, 1.5, True, [], {}, [[]], {"a": 1}):
            document = orjson.loads(text)
            inside = document
            for step in place[:-1]:
                inside = inside[step]
            inside[place[-1]] = junk
            file.write_bytes(orjson.dumps(document))
            book = _book(tmp_path)
            for session in book.load():
                assert set(session.recipes) <= {OCR.name}, (place, junk)
                assert all(recipe == OCR for recipe in session.recipes.values()), (place, junk)
                routes_json([session.routes], session.recipes)
            book.over()
            book.recipes()


@pytest.mark.parametrize("name", ["a b", "x" * 150, "..", "é", "-", "A" * 12])
def test_a_session_file_by_a_name_that_we_never_give_is_no_session(tmp_path: Path, name: str) -> None:
    opened = _book(tmp_path).open(ROUTES, TABLE)
    (tmp_path / f"{opened.id}.json").rename(tmp_path / f"{name}.json")
    assert _book(tmp_path).load() == ()
