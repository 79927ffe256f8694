"""Link, readiness and conformance apart, the whole way: what a lying health path, a substitute and a list of
models do to a binding, and what a person is shown.
"""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.kit.house import House, house, wait_for
from tests.kit.vendors import Vendor, vendor

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

BINDING = """apiVersion = "handler.binding/v1"
connector = "llm-local"
models = {models}
[settings]
baseUrl = "{base}"
[probe]
link = "on"
"""
AGENT = """apiVersion = "handler.agent/v1"
scope = ["{inbox}"]
[services]
llm = "chat"
"""


_TURNS = count(600)


@pytest.fixture(scope="module")
def far() -> Iterator[Vendor]:
    with vendor() as made:
        made.listed = ["small", ".git", "Dockerfile", "LICENSE"]
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, far: Vendor) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("truths")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("bindings/chat.toml", BINDING.format(base=far.base, models='["small"]'))
        made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox))
        made.start()
        made.handler("apply", "--wait")
        yield made


@pytest.fixture
def place(shared: House, far: Vendor) -> House:
    """As at the start, whichever test went before: another instance, of which no call was heard."""
    far.manner = ""
    anew = f"[instance]\nidleStopSeconds = {next(_TURNS)}\n"
    shared.write("bindings/chat.toml", BINDING.format(base=far.base, models='["small"]') + anew)
    shared.handler("apply", "--wait")
    wait_for(lambda: "readiness" not in truths(shared), "what was known of the last one is forgotten")
    return shared


def call(made: House) -> dict[str, Any]:
    done = made.handler("call", "llm_complete", "prompt=x", "-o", "json", check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def told(made: House) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.handler("describe", "binding/chat", "-o", "json").stdout)
    return found


def truths(made: House) -> dict[str, tuple[str, str]]:
    return {one["kind"]: (one["value"], one["reason"]) for one in told(made)["observations"]}


def condition(made: House, kind: str) -> tuple[str, str]:
    found = {one["type"]: (one["status"], one["reason"]) for one in told(made)["conditions"]}
    return found.get(kind, ("Unknown", ""))


def test_health_that_lies_makes_nothing_ready(place: House, far: Vendor) -> None:
    """Reports 15, 16: health and the list of models answer, and every call fails."""
    wait_for(lambda: truths(place).get("link") == ("up", "Reachable"), "the link's probe")
    assert "readiness" not in truths(place)  # up raises nothing
    far.manner = "status-503"
    assert [call(place)["error"] for _ in range(3)] == ["unavailable"] * 3
    wait_for(lambda: truths(place).get("readiness") == ("not-ready", "NotAnswering"), "its readiness")
    sent = len(far.received)
    assert call(place)["error"] == "unavailable"
    assert len(far.received) == sent  # nothing was sent
    assert truths(place)["link"] == ("up", "Reachable")
    assert condition(place, "Ready") == ("False", "NotAnswering")
    assert condition(place, "ProfileReady") == ("False", "NotAnswering")
    assert condition(place, "Linked") == ("True", "Reachable")
    text = place.handler("describe", "binding/chat").stdout
    assert [row.split()[:3] for row in text.splitlines() if row.split()[:1] in (["link"], ["readiness"])] == [
        ["link", "*", "up"], ["readiness", "llm_complete", "not-ready"],
    ]  # fmt: skip
    assert "unproven" in text


def test_a_person_asks_and_what_is_mended_serves_at_once(place: House, far: Vendor) -> None:
    far.manner = "status-503"
    asked = place.handler("probe", "chat", check=False)
    assert asked.returncode == 1, asked.stdout + asked.stderr
    far.manner = ""
    asked = place.handler("probe", "chat", "-o", "json")
    report = json.loads(asked.stdout)
    assert {(one["kind"], one["value"]) for one in report["observations"]} == {
        ("link", "up"), ("readiness", "ready"),
    }  # fmt: skip
    assert report["models"] == {"missing": [], "undeclaredSeen": 3}
    assert call(place)["valid"]
    assert condition(place, "Ready")[0] == "True"


def test_an_unknown_model_is_refused_before_a_byte_is_sent(place: House, far: Vendor) -> None:
    """Report 18; what becomes of a substitute's answer is held with the reason ``ModelSubstituted``."""
    sent = len(far.received)
    done = place.handler("call", "llm_complete", "prompt=x", "model=smal", "-o", "json", check=False)
    assert json.loads(done.stdout)["error"] == "refused"
    assert len(far.received) == sent


def test_a_model_that_is_not_listed_is_not_ready_and_none_is_added(place: House, far: Vendor) -> None:
    """Report 17: what a list holds beside the declared models is a count."""
    place.write("bindings/chat.toml", BINDING.format(base=far.base, models='["small", "large"]'))
    place.handler("apply", "--wait")
    wait_for(lambda: (told(place)["models"] or {}).get("missing") == ["large"], "the list of models")
    assert told(place)["models"]["undeclaredSeen"] == 3
    done = place.handler("call", "llm_complete", "prompt=x", "model=Dockerfile", "-o", "json", check=False)
    assert json.loads(done.stdout)["error"] in ("refused", "unavailable")
    assert not [one for one in far.received if one.fields.get("model") == "Dockerfile"]
