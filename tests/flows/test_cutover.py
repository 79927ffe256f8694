"""Make before break, the whole way: what serves keeps serving until what replaces it has answered."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.house import FIXTURES, ROOT, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "{name}"
description = "for tests"
implements = ["ocr/v1"]
runtime = "python"
"""
SAYS = """from handler_connector import serve
serve({{"ocr_extract": lambda args, call: {{"pages": [{{"text": "{word}"}}]}}}})
"""


def connector(made: House, name: str, code: str) -> None:
    made.write(f"connectors/{name}/main.py", code)
    made.write(f"connectors/{name}/PROVISIONING.md", "Nothing.\n")
    made.write(f"connectors/{name}/connector.toml", CONNECTOR.format(name=name))


def binding(made: House, name: str, of: str) -> None:
    made.write(f"bindings/{name}.toml", f'apiVersion = "handler.binding/v1"\nconnector = "{of}"\n')


def word(made: House) -> str:
    """What the agent reads now."""
    said = made.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk", check=False).stdout
    found = json.loads(said)
    return str(found["pages"][0]["text"] if "pages" in found else found["error"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        connector(made, "says-one", SAYS.format(word="one"))
        connector(made, "dies", "raise SystemExit(3)\n")
        binding(made, "good", "says-one")
        binding(made, "bad", "dies")
        made.write(
            "agents/clerk.toml",
            f'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\nservices = {{ ocr = "good" }}\n'
            f'scope = ["{made.inbox}"]\n',
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


def test_a_rebind_to_what_cannot_start_keeps_the_old_one_serving_also_over_a_restart(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    assert word(place) == "one"
    place.handler("rebind", "clerk", "ocr", "bad")
    late = place.handler("apply", "--wait", "--timeout", "3", check=False)
    assert late.returncode == 3
    assert word(place) == "one"
    assert "handler logs bad" in late.stderr
    assert place.condition("binding", "bad", "Synced")["reason"] == "LastGoodRetained"
    agent = place.condition("agent", "clerk", "Ready")
    assert (agent["status"], agent["reason"]) == ("True", "LastGoodRetained")
    place.kill()
    place.start()
    assert word(place) == "one"
    connector(place, "dies", SAYS.format(word="two"))
    wait_for(lambda: word(place) == "two", "the mended connector serves")
    assert not (place.state / "retained.json").exists()


def test_an_edit_of_a_connector_reaches_the_next_session_once_it_answers(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    session = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)
    assert word(place) == "one"
    place.write("connectors/says-one/main.py", "raise SystemExit(3)\n")
    late = place.handler("apply", "--wait", "--timeout", "3", check=False)
    assert late.returncode == 3, late.stdout + late.stderr
    assert "does not serve yet" in late.stdout
    assert place.condition("binding", "good", "Ready")["reason"] == "LastGoodRetained"
    assert word(place) == "one"
    place.write("connectors/says-one/main.py", SAYS.format(word="edited"))
    place.handler("apply", "--wait")
    assert word(place) == "edited"
    env = {**place.env, "HANDLER_SERVICES": session["services"]}
    place.env = env
    assert (
        json.loads(place.handler("call", "ocr_extract", "path=invoice.png").stdout)["pages"][0]["text"]
        == "one"
    )


def test_a_binding_that_an_agent_needs_is_removed_by_an_apply_and_by_nothing_else(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    (place.config / "bindings" / "good.toml").unlink()
    wait_for(
        lambda: place.condition("binding", "good", "Synced").get("reason") == "AwaitingApply", "it waits"
    )
    assert word(place) == "one"
    assert place.handler("apply", check=False).returncode == 1
    assert word(place) == "unavailable"


def test_a_suspended_binding_serves_nobody_until_it_is_resumed(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    assert word(place) == "one"
    text = (place.config / "bindings" / "good.toml").read_text()
    place.write("bindings/good.toml", text + "suspend = true\n")
    wait_for(lambda: word(place) == "unavailable", "it is suspended")
    place.write("bindings/good.toml", text)
    wait_for(lambda: word(place) == "one", "it is resumed")


def test_the_connector_of_the_docs_works_as_written(place: House) -> None:
    page = (ROOT / "docs" / "connectors.md").read_text()
    toml, code = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("toml", "python"))
    assert toml and code
    place.write("connectors/ocr-shout/main.py", code[1])
    place.write("connectors/ocr-shout/PROVISIONING.md", "Nothing.\n")
    place.write("connectors/ocr-shout/connector.toml", toml[1])
    binding(place, "ocr-loud", "ocr-shout")
    shutil.copy(FIXTURES / "invoice.pdf", place.inbox)
    place.start()
    place.handler("apply", "--wait")
    for path, expected in (("invoice.pdf", "HELLO"), ("invoice.png", "unsupported_format")):
        said = place.handler("call", "ocr_extract", f"path={path}", "--binding", "ocr-loud", check=False)
        assert expected in said.stdout, said.stdout + said.stderr
