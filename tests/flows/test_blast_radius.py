"""The blast radius the whole way: open sessions, their revisions, and no service lost unasked."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.config.differences import Difference
from tests.flows.test_cutover import SAYS, binding, connector, word
from tests.kit.house import FIXTURES, House, house
from tests.kit.repos import Repo

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

AGENT = 'apiVersion = "handler.agent/v1"\nservices = {{ ocr = "{of}" }}\nscope = ["{inbox}"]\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\nreconcile.mode = "manual"\n')
        connector(made, "says-one", SAYS.format(word="one"))
        binding(made, "one", "says-one")
        binding(made, "two", "says-one")
        for agent, of in (("clerk", "one"), ("maid", "two")):
            made.write(f"agents/{agent}.toml", AGENT.format(of=of, inbox=made.inbox))
        (made.inbox / "invoice.png").write_bytes((FIXTURES / "invoice.png").read_bytes())
        yield made


def diff(made: House, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.handler("diff", "-o", "json", *words, check=False).stdout)
    Difference.model_validate_json(json.dumps({"applied": False, "ready": False, **found}))
    return found


def test_an_edit_names_the_open_session_with_its_revision_and_a_removal_is_not_done_unasked(
    place: House,
) -> None:
    repo = Repo(place.config)
    first = repo.commit({})
    place.start()
    place.handler("apply", "--wait")
    session = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)
    assert word(place) == "one"

    repo.commit(
        {"bindings/one.toml": (place.config / "bindings/one.toml").read_text() + "instance.pids = 32\n"}
    )
    place.handler("apply", "--wait")
    place.write("bindings/one.toml", (place.config / "bindings/one.toml").read_text().replace("32", "16"))
    found = diff(place)
    (told,) = found["sessions"]
    assert (told["session"], told["agent"]) == (session["session"], "clerk")
    assert told["revision"] is not None
    assert told["revision"].endswith(f"@sha1:{first}")
    assert found["agents"] == {"reached": ["clerk"], "untouched": ["maid"]}

    (place.config / "bindings/one.toml").unlink()
    found = diff(place)
    (change,) = [one for one in found["changes"] if one["object"] == "binding/one"]
    assert (change["verb"], change["held"]["reason"]) == ("remove", "AwaitingApply")
    assert {one["sort"] for one in change["losses"]} >= {"session", "agent"}
    refused = place.handler("apply", check=False)
    assert refused.returncode == 2
    assert f"session {session['session']} of clerk: its calls to binding/one end" in refused.stderr
    assert "handler apply -y" in refused.stderr
    assert word(place) == "one"
    place.handler("apply", "-y", check=False)
    assert (
        json.loads(
            place.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk", check=False).stdout
            or "{}"
        ).get("pages")
        is None
    )
    assert diff(place, "--rev", f"{first}..HEAD")["sessions"] == []
    assert place.stop() == 0
    assert place.processes() == []
