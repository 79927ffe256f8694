"""Whether somebody else wrote to our files, at one lstat a file; each owner writes its own anew."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.control import seals
from reconciler.control.admitted import Admitted
from reconciler.control.errands import Errands
from reconciler.control.retained import Retained
from reconciler.control.sessions import Sessions
from reconciler.control.status import SUMMARY, Board
from reconciler.model.status import Summary
from reconciler.plan import serving
from tests.control.test_retained import BEFORE, DESIRED
from tests.control.test_sessions import ROUTES, TABLE
from tests.control.test_status import status
from tests.plan.build import SMALL, agent
from tests.plan.build import admitted as judged


def _edit(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def _exchange(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"{}")
    other.rename(path)


HARMS = [_edit, _exchange, Path.unlink]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every file that is looked at."""
    seen: list[str] = []

    def lstat(path: Path) -> os.stat_result:
        seen.append(str(path))
        return os.lstat(path)

    monkeypatch.setattr(seals, "lstat", lstat)
    yield seen


def test_an_untouched_file_costs_one_look(tmp_path: Path, looks: list[str]) -> None:
    board = Board(tmp_path, lambda: 1e9)
    board.publish([status(f"b{number}") for number in range(50)])
    board.summary(Summary(configuration="c"))
    looks.clear()
    assert board.altered() == ()
    assert len(looks) == len(set(looks)) == 51


@pytest.mark.parametrize("harm", HARMS)
def test_a_status_file_that_was_changed_is_found_and_written_again(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    board = Board(tmp_path, lambda: 1e9)
    board.publish([status("a"), status("b")])
    board.summary(Summary(configuration="c"))
    paths = (tmp_path / "binding/a.json", tmp_path / "summary.json")
    before = [path.read_bytes() for path in paths]
    for path in paths:
        harm(path)
    assert set(board.altered()) == {("binding", "a"), SUMMARY}
    board.rewrite(board.altered())
    board.summary(Summary(configuration="c"))
    assert [path.read_bytes() for path in paths] == before
    assert board.altered() == ()


def test_a_file_that_is_removed_the_moment_it_was_written_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(tmp_path, lambda: 1e9)
    board.publish([status("a")])

    def gone(path: Path) -> os.stat_result:
        path.unlink(missing_ok=True)
        return os.lstat(path)

    with monkeypatch.context() as swift:
        swift.setattr(seals, "lstat", gone)
        board.publish([status("a"), status("b")])
    assert board.altered() == (("binding", "b"),)
    board.rewrite(board.altered())
    assert (tmp_path / "binding/b.json").exists()
    assert board.altered() == ()


def test_a_file_that_was_only_touched_is_as_it_was(tmp_path: Path) -> None:
    board = Board(tmp_path, lambda: 1e9)
    board.publish([status("a")])
    board.summary(Summary(configuration="c"))
    for path in (tmp_path / "binding/a.json", tmp_path / "summary.json"):
        os.utime(path, (1, 1))
    assert board.altered() == ()
    admitted = Admitted(tmp_path / "admitted")
    admitted.save(judged(SMALL))
    os.utime(tmp_path / "admitted/journal", (1, 1))
    assert not admitted.altered()


@pytest.mark.parametrize("harm", HARMS)
def test_a_journal_that_was_changed_is_written_again_with_what_it_still_tells(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    admitted = Admitted(tmp_path)
    first = judged(SMALL)
    admitted.save(first)
    second = judged(SMALL | agent("later", {"ocr": "fast"}))
    admitted.save(second)
    kept = admitted.history
    harm(tmp_path / "journal")
    assert admitted.altered()
    admitted.rewrite()
    assert not admitted.altered()
    again = Admitted(tmp_path)
    assert again.load().files.keys() >= {path for path in SMALL if path.startswith(("agents", "bindings"))}
    assert "agents/later.toml" in again.load().files
    assert again.history[0].digest == kept[0].digest
    assert {one.digest for one in again.history} <= {one.digest for one in kept}


def test_an_edit_after_a_harm_does_not_build_on_it(tmp_path: Path) -> None:
    admitted = Admitted(tmp_path)
    admitted.save(judged(SMALL))
    (tmp_path / "journal").write_bytes(b"broken\n" * 1000)
    admitted.save(judged(SMALL | agent("later", {"ocr": "fast"})))
    assert Admitted(tmp_path).load().files.keys() >= {"agents/later.toml", "bindings/fast.toml"}


@pytest.mark.parametrize("harm", HARMS)
def test_a_session_and_kept_routes_that_were_changed_are_written_again(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    sessions = Sessions(tmp_path / "s", now=lambda: 1e9, token=lambda: "one")
    session = sessions.open(ROUTES, TABLE)
    kept = Retained(tmp_path / "retained.json")
    served = serving.serve(DESIRED, BEFORE, proven=())
    kept.save(served, DESIRED)
    paths = (tmp_path / "s/one.json", tmp_path / "retained.json")
    before = [path.read_bytes() for path in paths]
    assert (sessions.altered(), kept.altered()) == ((), False)
    for path in paths:
        harm(path)
    assert (sessions.altered(), kept.altered()) == ((session,), True)
    sessions.rewrite(session)
    kept.rewrite(served)
    assert [path.read_bytes() for path in paths] == before
    assert (sessions.altered(), kept.altered()) == ((), False)
    sessions.close("one")
    assert sessions.altered() == ()


def test_an_errand_is_done_once_and_tells_why_it_was_in_vain() -> None:
    async def story() -> None:
        ended, go, done = asyncio.Event(), asyncio.Event(), []
        tasks: list[asyncio.Future[object]] = []
        errands = Errands(lambda work: tasks.append(asyncio.ensure_future(work())), ended.set)

        async def work() -> str:
            await go.wait()
            done.append(1)
            return "there is no disk"

        assert errands.send("a", work, "under way") == "under way"
        assert errands.send("a", work, "under way") == "under way"
        go.set()
        await ended.wait()
        assert len(done) == 1
        assert errands.send("a", work, "under way") == "there is no disk"
        ended.clear()
        assert errands.send("a", work, "under way") == "under way"
        await ended.wait()
        await asyncio.gather(*tasks)

    asyncio.run(story())


def test_a_fault_of_ours_in_an_errand_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        ended = asyncio.Event()
        errands = Errands(lambda work: asyncio.ensure_future(work()), ended.set)

        async def broken() -> str:
            raise LookupError("ours")

        errands.send("a", broken, "")
        await ended.wait()
        assert "a fault of the controller itself" in errands.send("a", broken, "")

    asyncio.run(story())
    assert "an errand broke off" in caplog.text


@pytest.mark.parametrize("what", ["status", "summary", "session", "routes", "journal"])
def test_an_edit_the_moment_a_file_was_read_or_written_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Between our reading or writing a file and our looking at it, somebody else's hand is quicker."""
    board, sessions = (
        Board(tmp_path, lambda: 1e9),
        Sessions(tmp_path / "s", now=lambda: 1e9, token=lambda: "one"),
    )
    admitted, kept = Admitted(tmp_path / "admitted"), Retained(tmp_path / "retained.json")
    served = serving.serve(DESIRED, BEFORE, proven=())
    acts: dict[str, tuple[str, Callable[[], object], Callable[[], object]]] = {
        "status": ("binding/a.json", lambda: board.publish([status("a")]), board.altered),
        "summary": ("summary.json", lambda: board.summary(Summary(configuration="c")), board.altered),
        "session": ("s/one.json", lambda: sessions.open(ROUTES, TABLE), sessions.altered),
        "routes": ("retained.json", lambda: kept.save(served, DESIRED), kept.altered),
        "journal": ("admitted/journal", lambda: admitted.save(judged(SMALL)), admitted.altered),
    }
    place, write, altered = acts[what]
    path = tmp_path / place

    def quick(looked: Path) -> os.stat_result:
        if looked == path and path.exists():
            _edit(path)
        return os.lstat(looked)

    with monkeypatch.context() as swift:
        swift.setattr(seals, "lstat", quick)
        write()
    assert altered()


@pytest.mark.parametrize("what", ["session", "routes", "journal"])
def test_an_edit_right_after_a_start_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """What an earlier controller left is edited when it was read, and before it was looked at."""
    Sessions(tmp_path / "s", now=lambda: 1e9, token=lambda: "one").open(ROUTES, TABLE)
    Admitted(tmp_path / "admitted").save(judged(SMALL))
    Retained(tmp_path / "retained.json").save(serving.serve(DESIRED, BEFORE, proven=()), DESIRED)
    sessions = Sessions(tmp_path / "s", now=lambda: 1e9, token=lambda: "two")
    kept, admitted = Retained(tmp_path / "retained.json"), Admitted(tmp_path / "admitted")
    acts: dict[str, tuple[str, Callable[[], object], Callable[[], object]]] = {
        "session": ("s/one.json", sessions.load, sessions.altered),
        "routes": ("retained.json", kept.load, kept.altered),
        "journal": ("admitted/journal", admitted.load, admitted.altered),
    }
    place, read, altered = acts[what]
    read_bytes = Path.read_bytes

    def slow(self: Path) -> bytes:
        data = read_bytes(self)
        if self == tmp_path / place:
            self.write_bytes(data[:-2])
        return data

    with monkeypatch.context() as swift:
        swift.setattr(Path, "read_bytes", slow)
        read()
    assert altered()
