"""An interface that keeps state for a session: each session has a process of its own while it is open."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.doors import lines
from tests.kit import promised
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

COUNTS = """from handler_connector import serve

calls = 0


def count_words(arguments, call):
    global calls
    calls += 1
    return {"words": calls, "first": arguments["path"].read().decode().split()[0]}


serve({"count_words": count_words})
"""
POLICY = """apiVersion = "handler.egress-policy/v1"
[[class]]
name = "open"
[[rule]]
id = "no"
effect = "deny"
origins = ["https://far.example.test:443"]
"""
AGENT = 'apiVersion = "handler.agent/v1"\nscope = ["{inbox}"]\nservices = {{ count = "mine" }}\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("state")) as made:
        promised.lay(made.config, main=COUNTS, settings="[instance]\nidleStopSeconds = 1\n")
        stateful = promised.INTERFACE.replace("[limits]", 'state = "session"\n[limits]')
        made.write("interfaces/count/v1/interface.toml", stateful)
        made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox))
        made.handler("lock", "add", "count/v1", "--despite-warnings", "--reviewer", "ada")
        (made.inbox / "text.txt").write_text("one two")
        made.start()
        made.handler("apply", "--wait")
        yield made


def asked(socket: Path, method: str, **params: Any) -> Any:
    line = lines.Line(str(socket))
    try:
        return line.ask(method, params, 90.0)
    finally:
        line.close()


def opened(made: House) -> dict[str, Any]:
    found: dict[str, Any] = asked(made.run / "control.sock", "session.open", agent="clerk")
    return found


def count(session: dict[str, Any]) -> int:
    """How many calls the process that answers has had."""
    params = {"name": "count_words", "arguments": {"path": "text.txt"}}
    told = asked(session["services"], "tools/call", **params)
    return int(told["structuredContent"]["words"])


def running(made: House) -> set[str]:
    summary = json.loads((made.state / "status/summary.json").read_bytes())
    return {one["name"] for one in summary["instances"] if one["phase"] in ("ready", "idle")}


def test_each_session_has_a_process_of_its_own_which_ends_with_it(place: House) -> None:
    others = running(place)
    first, second = opened(place), opened(place)
    assert [count(first), count(first), count(second), count(first)] == [1, 2, 1, 3]
    wait_for(lambda: len(running(place) - others) == 2, "both are told")
    told = place.handler("describe", "binding/mine").stdout
    assert all(f"serves session {one['session']}" in told for one in (first, second))
    assert "sessions with a process of their own: " in told
    assert "first call starts it" not in told
    asked(place.run / "control.sock", "session.close", session=first["session"])
    wait_for(lambda: len(running(place) - others) == 1, "the first one's process is gone")
    assert count(second) == 2
    asked(place.run / "control.sock", "session.close", session=second["session"])
    wait_for(lambda: running(place) <= others, "so is the other's")


def test_it_outlives_its_idle_time_and_an_edit_and_not_its_controller(place: House) -> None:
    session = opened(place)
    assert count(session) == 1
    place.write("connectors/counter/main.py", COUNTS.replace("calls += 1", "calls += 10"))
    place.handler("apply", "--wait")
    after = opened(place)
    assert (count(after), count(session), count(after)) == (10, 2, 20)
    place.kill()
    place.start()
    assert count(session) == 1
    place.write("connectors/counter/main.py", COUNTS)
    place.handler("apply", "--wait")


def test_what_is_withdrawn_serves_no_session(place: House) -> None:
    session = opened(place)
    assert count(session) == 1
    place.write(
        "bindings/mine.toml", 'apiVersion = "handler.binding/v1"\nconnector = "counter"\nsuspend = true\n'
    )
    place.handler("apply", "--wait")
    told = asked(session["services"], "tools/call", name="count_words", arguments={"path": "text.txt"})
    assert told["isError"]
    place.write("bindings/mine.toml", 'apiVersion = "handler.binding/v1"\nconnector = "counter"\n')
    place.handler("apply", "--wait")
    assert count(session) == 2


def test_a_policy_decides_on_the_first_call_of_a_session_too(place: House) -> None:
    top, _, tables = promised.CONNECTOR.partition("\n")
    place.write("connectors/counter/PROVISIONING.md", "nothing\n")
    place.write("connectors/counter/connector.toml", f'{top}\negress = ["far.example.test:443"]\n{tables}')
    place.write("policies/egress.toml", POLICY)
    place.handler("apply", "--wait")
    session = opened(place)
    told = asked(session["services"], "tools/call", name="count_words", arguments={"path": "text.txt"})
    assert told.get("isError"), told
    place.write("connectors/counter/connector.toml", promised.CONNECTOR)
    (place.config / "policies/egress.toml").unlink()
    place.handler("apply", "--wait")
    assert count(opened(place)) == 1
