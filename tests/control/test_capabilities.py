"""What agents are told of how their interfaces stand: true, since when, and of nothing behind them."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from reconciler.config.capabilities import Capabilities
from reconciler.control.capabilities import Sheet, Standings
from reconciler.model.routes import AgentRoutes
from reconciler.model.status import InstanceSeen
from tests.kit.values import recipe, routes

OCR = recipe("vendor-x")
ROUTES = routes("clerk", OCR)
ROUTE = ROUTES.routes["echo"]
NAME = str(OCR.name)


class Told:
    """Standings, with a clock that goes one second a question and a count of what they told."""

    def __init__(self) -> None:
        self.now, self.changes = 1_000.0, 0
        self.standings = Standings(self._tick)
        self.standings.changed = self._count

    def _tick(self) -> float:
        self.now += 1
        return self.now

    def _count(self) -> None:
        self.changes += 1

    def heard(self, phase: str, **more: object) -> tuple[str, float]:
        self.standings.heard(InstanceSeen(NAME, phase, **more))  # type: ignore[arg-type]
        return self.stands()

    def stands(self) -> tuple[str, float]:
        stand = self.standings.stand(ROUTE)
        return stand.state, stand.since


def test_what_cannot_be_started_is_degraded_from_its_first_failure_until_it_answers() -> None:
    told = Told()
    assert told.heard("starting") == ("bound", 0.0)
    assert told.heard("failed", reason="CrashLoop") == ("degraded", 1_001.0)
    for phase in ("starting", "failed", "building", "starting"):
        assert told.heard(phase, reason="CrashLoop") == ("degraded", 1_001.0)
    assert told.changes == 1
    assert told.heard("ready") == ("bound", 1_002.0)
    assert told.heard("idle") == ("bound", 1_002.0)
    assert told.changes == 2


def test_a_process_that_ended_and_is_started_by_the_next_call_is_no_trouble() -> None:
    assert Told().heard("failed", vanished=True) == ("bound", 0.0)
    assert Told().heard("failed", vanished=True, reason="OutOfMemory")[0] == "degraded"


def test_what_was_withdrawn_is_missing_until_it_is_back() -> None:
    told = Told()
    why = {"vendor-x": "the binding is suspended"}
    told.standings.follow(why, {})
    since = told.now
    told.standings.follow(why | {"other": "the binding was removed"}, {})
    assert told.stands() == ("missing", since)
    told.standings.follow({}, {})
    assert told.stands() == ("bound", told.now)
    told.standings.follow({}, {})
    assert told.changes == 3


def test_since_when_it_is_missing_outlives_the_controller(tmp_path: Path) -> None:
    told = Told()
    told.standings.follow({"vendor-x": "the binding is suspended"}, {})
    sheet(tmp_path).write(told.standings.stand)
    again = Told()
    again.now += 5_000
    again.standings.remember(ROUTES, sheet(tmp_path).read())
    again.standings.follow({"vendor-x": "the binding is suspended"}, {})
    assert again.stands() == told.stands() == ("missing", 1_001.0)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"interfaces": [1]}',
        b'{"interfaces": [{"interface": "echo/v1", "state": "missing", "since": "soon"}]}',
        b'{"interfaces": [{"interface": "echo/v1", "state": "missing", "since": "9999-01-01T00:00:00Z"}]}',
        b'{"interfaces": [{"interface": "other/v1", "state": "missing", "since": "2026-01-01T00:00:00Z"}]}',
    ],
)
def test_anything_else_than_a_sheet_says_nothing(text: bytes) -> None:
    told = Told()
    told.standings.remember(ROUTES, text)
    told.standings.follow({"vendor-x": "the binding is suspended"}, {})
    state, since = told.stands()
    assert state == "missing"
    assert since >= 1_001.0


def test_what_was_pinned_closed_stays_missing_whatever_became_of_its_binding() -> None:
    assert Told().standings.stand(replace(ROUTE, suspended="unpaid")).state == "missing"


def test_instances_that_are_gone_are_forgotten() -> None:
    told = Told()
    told.heard("failed", reason="CrashLoop")
    told.standings.follow({}, {NAME: InstanceSeen(NAME, "failed")})
    assert told.stands()[0] == "degraded"
    told.standings.follow({}, {})
    assert told.stands()[0] == "bound"
    assert not told.standings._troubled


def sheet(folder: Path, pinned: AgentRoutes = ROUTES, session: str = "abc") -> Sheet:
    return Sheet(folder, pinned, session, 1_767_225_600.0)


def test_a_sheet_says_what_there_is_and_names_nobody_behind_it(tmp_path: Path) -> None:
    told = Told()
    sheet(tmp_path).write(told.standings.stand)
    text = (tmp_path / "capabilities.json").read_bytes()
    found = Capabilities.model_validate(orjson.loads(text))
    (one,) = found.interfaces
    assert (found.agent, found.session, one.interface, one.tools) == ("clerk", "abc", "echo/v1", ["echo_say"])
    assert (one.state, one.since, one.means) == ("bound", "2026-01-01T00:00:00Z", "")
    assert one.socket == f"{tmp_path}/echo.sock"
    assert b"vendor" not in text
    assert b"connector" not in text


@pytest.mark.parametrize("granted", [(), ("echo_say",)])
def test_a_sheet_lists_the_tools_that_are_granted(tmp_path: Path, granted: tuple[str, ...]) -> None:
    route = replace(ROUTE, tools=granted)
    sheet(tmp_path, AgentRoutes("clerk", {"echo": route}), "").write(Told().standings.stand)
    found = orjson.loads((tmp_path / "capabilities.json").read_bytes())
    assert found["interfaces"][0]["tools"] == list(granted)
    assert found["session"] is None


def test_a_sheet_is_written_where_it_changed_and_not_where_its_session_is_over(tmp_path: Path) -> None:
    told = Told()
    one = sheet(tmp_path)
    one.write(told.standings.stand)
    first = one.path.stat()
    one.write(told.standings.stand)
    assert one.path.stat().st_ino == first.st_ino
    told.heard("failed", reason="CrashLoop")
    one.write(told.standings.stand)
    found = orjson.loads(one.path.read_bytes())["interfaces"][0]
    assert (found["state"], found["means"]) == ("degraded", "calls may answer unavailable")
    gone = sheet(tmp_path / "gone")
    gone.write(told.standings.stand)
    gone.remove()
    assert not (tmp_path / "gone").exists()
    one.remove()
    assert list(tmp_path.iterdir()) == []
