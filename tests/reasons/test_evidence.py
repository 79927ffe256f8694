"""Evidence of conformance that a binding asks for: nobody is served without, and a check brings it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import promised
from tests.kit.house import House, house, wait_for
from tests.reasons.running import HANDLER, gold
from tests.reasons.telling import Shown, shown

__all__ = ["shown"]

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

DEMANDS = '[conformance]\nrequire = "offline"\n'
CALL = ("call", "count_words", "path=text.txt", "--agent", "user")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    (tmp_path / "house").mkdir()
    with house(tmp_path / "house") as made:
        promised.lay(made.config, settings=DEMANDS)
        made.write("handler.toml", HANDLER)
        made.write("bindings/idle.toml", (made.config / "bindings/mine.toml").read_text())
        made.write(
            "agents/user.toml",
            'apiVersion = "handler.agent/v1"\nservices = { count = "mine" }\n'
            f'scope = [{{ path = "{made.inbox}", access = "write" }}]\n',
        )
        made.handler("lock", "add", "count/v1", "--despite-warnings", "--reviewer", "ada")
        (made.inbox / "text.txt").write_text("a few words")
        yield made


def conformant(made: House, binding: str = "mine") -> tuple[str, str]:
    found = made.condition("binding", binding, "Conformant")
    return str(found.get("status")), str(found.get("reason"))


def answer(made: House) -> str:
    return made.handler(*CALL, check=False).stdout


def test_a_binding_serves_nobody_until_a_check_of_it_has_passed_and_again_once_its_code_changed(
    place: House, shown: Shown
) -> None:
    place.start()
    place.handler("apply")
    wait_for(lambda: conformant(place) == ("False", "Withheld"), "no check is known")
    gold(place, shown, "Withheld", "describe binding/mine")
    assert "unavailable" in answer(place)
    assert not list((place.state / "logs").glob("*.log"))  # it was not even started
    place.handler("connector", "check", "counter", "--binding", "mine", "--record")
    wait_for(lambda: conformant(place) == ("True", "Proven"), "the controller sees it")
    gold(place, shown, "Proven", "describe binding/mine")
    assert '"words":3' in answer(place).replace(" ", "")
    shutil.rmtree(place.state / "evidence")
    place.handler("reconcile")
    assert conformant(place) == ("True", "Proven")  # what is committed beside the connector counts
    place.write("connectors/counter/main.py", promised.MAIN + "# another digest\n")
    wait_for(lambda: conformant(place) == ("False", "Stale"), "its code changed")
    ready = place.condition("binding", "mine", "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "LastGoodRetained")
    assert '"words":3' in answer(place).replace(" ", "")  # of the code that was proven
    wait_for(lambda: conformant(place, "idle") == ("False", "Stale"), "likewise where nobody calls")
    gold(place, shown, "Stale", "describe binding/idle")
    events = [one["reason"] for one in told_events(place)]
    assert events == ["Withheld", "Proven", "Stale"]
    (file,) = (place.config / "connectors/counter/evidence").iterdir()
    told = json.loads(file.read_text())
    assert told["tiers"] == {"conformance": "passed", "certification": "never"}


def told_events(made: House) -> list[dict[str, str]]:
    """What the journal says of the evidence of one binding, in order."""
    whole = json.loads(made.handler("events", "binding/idle", "-o", "json").stdout)
    return [one for one in whole if one["reason"] in ("Withheld", "Proven", "Stale")]
