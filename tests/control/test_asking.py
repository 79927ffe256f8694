"""A rollback and a reconcile, asked of a running controller."""

from pathlib import Path
from typing import Any, cast

import anyio
import orjson
import pytest

from reconciler.control import asking
from reconciler.control.loop import Controller
from reconciler.control.methods import Methods
from reconciler.control.rpc import Caller, Refused
from reconciler.control.status import Board
from tests.control.test_loop import BINDING, House

_ANYBODY = cast("Caller", None)


@pytest.fixture
def made(tmp_path: Path) -> House:
    return House(tmp_path)


def asked(controller: Controller, method: str, **params: Any) -> Any:
    cast("Any", controller.parts.doorkeeper).sessions = lambda: ()
    return Methods(controller, pid=1, stop=anyio.Event()).table()[method](params, _ANYBODY)


def events(made: House) -> list[tuple[str, str, str]]:
    lines = (made.place.state / "events.jsonl").read_bytes().splitlines()
    return [(one["object"], one["reason"], one["severity"]) for one in map(orjson.loads, lines)]


async def edited(made: House, number: int) -> None:
    """Save another form of the binding, and wait until it is in force."""
    before = len(made.summary()["history"])
    made.write("bindings/a.toml", f'{BINDING}description = "{number}"\n')
    await made.until(lambda: len(made.summary()["history"]) > before)


@pytest.mark.slow
def test_a_rollback_is_said_everywhere_and_the_next_edit_ends_it(made: House) -> None:
    async def story(controller: Controller) -> None:
        await edited(made, 1)
        newest, previous = (one["revision"] for one in made.summary()["history"])
        told = await asked(controller, "rollback")
        assert [one["object"] for one in told["changes"]] == ["binding/a"]
        assert told["rollback"]["revision"] == previous
        summary = made.summary()
        assert (summary["lastAttemptedRevision"], summary["lastAppliedRevision"]) == (newest, previous)
        assert summary["rollback"]["insteadOf"] == newest
        assert made.synced()[:2] == ("False", "RolledBack")
        assert previous in made.synced()[2]
        assert ("configuration", "RolledBack", "Warning") in events(made)
        made.write("bindings/a.toml", f'{BINDING}description = "2"\n')
        await made.until(lambda: made.synced()[:2] == ("True", "ReconcileSuccess"))
        assert made.summary()["rollback"] is None

    made.live(story)


@pytest.mark.slow
def test_a_revision_that_is_not_kept_is_refused_and_changes_nothing(made: House) -> None:
    async def story(controller: Controller) -> None:
        look = controller.look
        with pytest.raises(Refused, match="is not kept; kept are"):
            await asked(controller, "rollback", to="main@beef")
        assert controller.look is look
        assert made.synced()[0] == "True"

    made.live(story)


@pytest.mark.slow
def test_a_rollback_that_cannot_be_written_down_is_refused(made: House) -> None:
    async def story(controller: Controller) -> None:
        await edited(made, 1)
        (made.place.state / "rollback.json").mkdir()
        with pytest.raises(Refused, match="cannot be written down"):
            await asked(controller, "rollback")
        assert made.synced()[0] == "True"

    made.live(story)


@pytest.mark.slow
def test_a_reconcile_looks_tries_again_and_is_answered_for_by_name(made: House) -> None:
    async def story(controller: Controller) -> None:
        tried: list[str] = []
        controller.try_again = lambda binding="": tried.append(binding) or ()  # type: ignore[method-assign,func-returns-value]
        made.write("bindings/b.toml", BINDING)
        told = await asked(controller, "reconcile", object="b/a")
        assert "binding/b" in made.objects()
        assert told["retried"] == told["waiting"] == []
        document = orjson.loads((made.place.state / "status/binding/a.json").read_bytes())
        assert document["lastHandledRequestAt"] == "2001-09-09T01:46:40.000Z"
        other = orjson.loads((made.place.state / "status/binding/b.json").read_bytes())
        assert other["lastHandledRequestAt"] == ""
        await asked(controller, "reconcile", object="connector/ocr-tesseract")
        await asked(controller, "reconcile")
        assert tried == ["a", ""]
        assert made.summary()["lastHandledRequestAt"]

    made.live(story)


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["binding/none", "nothing", "robot/x"])
def test_a_reconcile_of_what_there_is_not_is_refused(made: House, subject: str) -> None:
    async def story(controller: Controller) -> None:
        with pytest.raises(Refused):
            await asking.reconcile(controller, subject)

    made.live(story)


@pytest.mark.slow
def test_a_configuration_that_is_away_can_not_be_looked_at(made: House) -> None:
    async def story(controller: Controller) -> None:
        made.place.config.rename(made.place.config.with_name("away"))
        for method in ("reconcile", "rollback"):
            with pytest.raises(Refused, match=r"cannot be read now|no earlier revision"):
                await asked(controller, method)

    made.live(story)


@pytest.mark.slow
def test_a_restart_keeps_the_answer_to_a_request_and_the_history(made: House) -> None:
    async def first(controller: Controller) -> None:
        await asked(controller, "reconcile", object="binding/a")
        await edited(made, 1)

    made.live(first)
    path = made.place.state / "status/binding/a.json"
    before = orjson.loads(path.read_bytes())
    assert [one["status"] for one in before["history"]] == ["Applied", "Applied"]
    made.board = Board(made.place.state / "status", lambda: 2e9)

    async def second(controller: Controller) -> None:
        return

    made.live(second)
    after = orjson.loads(path.read_bytes())
    assert (after["history"], after["lastHandledRequestAt"]) == (
        before["history"],
        before["lastHandledRequestAt"],
    )
