"""Removals and fights, the whole way: a real controller over a real repository."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.house import FIXTURES, House, house, wait_for
from tests.kit.repos import Repo

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "says"
description = "for tests"
implements = ["ocr/v1"]
runtime = "python"
"""
SAYS = """from handler_connector import serve
serve({"ocr_extract": lambda args, call: {"pages": [{"text": "a word"}]}})
"""
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "says"\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.2\n')
        made.write("connectors/says/main.py", SAYS)
        made.write("connectors/says/PROVISIONING.md", "Nothing.\n")
        made.write("connectors/says/connector.toml", CONNECTOR)
        made.write("bindings/one.toml", BINDING)
        made.write("bindings/two.toml", BINDING)
        made.write(
            "agents/clerk.toml",
            f'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\nservices = {{ ocr = "one" }}\n'
            f'scope = ["{made.inbox}"]\n',
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


def summary(made: House) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((made.state / "status/summary.json").read_text())
    return found


def reason(made: House) -> str:
    return str((summary(made)["conditions"] or [{}])[0].get("reason"))


def answers(made: House) -> bool:
    done = made.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk", check=False)
    return "a word" in done.stdout


def test_git_rm_of_every_binding_is_refused_with_the_flag_named_and_everything_serves(place: House) -> None:
    repo = Repo(place.config)
    repo.git("add", "-A")
    repo.git("commit", "-qm", "one")
    place.start()
    place.handler("apply", "--wait")
    assert answers(place)
    repo.git("rm", "-rq", "bindings")
    repo.git("commit", "-qm", "two")
    wait_for(lambda: reason(place) == "PruneBlocked", "the removal is blocked")
    assert "handler apply --prune=all" in summary(place)["conditions"][0]["message"]
    for name in ("one", "two"):
        assert place.condition("binding", name, "Synced")["reason"] == "PruneBlocked"
    assert answers(place)
    refused = place.handler("apply", check=False)
    assert refused.returncode == 1
    assert "handler apply --prune=all" in refused.stdout
    assert answers(place)
    place.kill()
    place.start()
    wait_for(lambda: reason(place) == "PruneBlocked", "a new controller blocks it too")
    assert answers(place)
    place.stop()
    assert place.handler("apply", check=False).returncode == 1
    place.start()
    assert answers(place)
    place.handler("apply", "--prune=all", check=False)
    assert not place.status("binding", "two")
    assert not answers(place)
    events = (place.state / "events.jsonl").read_text()
    assert events.count('"reason":"PruneBlocked"') >= 1


def test_two_programs_that_write_one_binding_are_slowed_down_and_the_other_edits_are_not(
    place: House,
) -> None:
    place.start()
    place.handler("apply", "--wait")

    turns = 0

    def fight() -> bool:
        nonlocal turns
        turns += 1
        place.write("bindings/two.toml", f'{BINDING}description = "{"left" if turns % 2 else "right"}"\n')
        return place.condition("binding", "two", "Flapping").get("status") == "True"

    wait_for(fight, "it flaps")
    place.write("bindings/one.toml", BINDING + 'description = "news"\n')
    wait_for(
        lambda: place.status("binding", "one")["declared"]["description"] == "news", "the other is changed"
    )
    place.write("bindings/two.toml", BINDING + 'description = "mine"\n')
    place.handler("apply")
    assert place.status("binding", "two")["declared"]["description"] == "mine"
    assert answers(place)
