"""Reasons that real calls and probes give of what is behind a binding."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.house import FIXTURES, House, house, wait_for
from tests.kit.vendors import Vendor, vendor
from tests.reasons.running import reason
from tests.reasons.telling import Shown, golden, shown

__all__ = ["shown"]

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
BINDING = """apiVersion = "handler.binding/v1"
connector = "{connector}"
models = {models}
[settings]
baseUrl = "{base}"
[probe]
link = "{link}"
"""
AGENT = """apiVersion = "handler.agent/v1"
[services]
llm = "{name}"
"""
_PORTS = 9  # discard: nobody listens there


@pytest.fixture
def far() -> Iterator[Vendor]:
    with vendor() as made:
        made.listed = ["small", "tiny"]
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    (tmp_path / "house").mkdir()
    with house(tmp_path / "house") as made:
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


def exact(made: House) -> None:
    """A connector like `llm-local` whose profile states that answers name their model."""
    profile = (ROOT / "catalog/profiles/local-chat.generic/1/profile.toml").read_text()
    profile = profile.replace('id = "local-chat.generic"', 'id = "exact-chat"')
    made.write("profiles/exact-chat/1/profile.toml", profile + '\n[echo]\nmodel = "exact"\n')
    connector = (ROOT / "catalog/connectors/llm-local/connector.toml").read_text()
    connector = connector.replace('"llm-local"', '"exact"').replace("local-chat.generic@2", "exact-chat@1")
    made.write("connectors/exact/connector.toml", connector)
    made.write("connectors/exact/PROVISIONING.md", "Nothing.\n")


def gold(made: House, shown: Shown, name: str, binding: str, base: str) -> None:
    places = {made.config: "~/config", made.state: "~/state", made.run: "~/run", made.inbox: "~/inbox"}
    port = base.rpartition(":")[2].partition("/")[0]
    text = shown.told(
        made.state, f"describe binding/{binding}", {**places, Path(f"127.0.0.1:{port}"): "127.0.0.1:8080"}
    )
    golden(name, re.sub(r"(stopped +- +0 +)\d", r"\g<1>0", text))  # the last call may not be let go of yet


def test_what_calls_and_probes_say(place: House, shown: Shown, far: Vendor) -> None:
    shown.answers = True
    exact(place)
    place.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
    rows = {
        "well": ("llm-local", '["small"]', far.base, "off"),
        "ill": ("llm-local", '["small"]', far.base, "off"),
        "linked": ("llm-local", '["small"]', far.base, "on"),
        "lost": ("llm-local", '["small"]', f"http://127.0.0.1:{_PORTS}/v1", "on"),
        "lacks": ("llm-local", '["large"]', far.base, "on"),
        "other": ("exact", '["small"]', far.base, "off"),
    }
    for name, (connector, models, base, link) in rows.items():
        words = {"connector": connector, "models": models, "base": base, "link": link}
        place.write(f"bindings/{name}.toml", BINDING.format(**words))
        place.write(f"agents/{name}-user.toml", AGENT.format(name=name))
    place.start()
    place.handler("apply", "--wait")

    def call(name: str) -> dict[str, object]:
        words = ("call", "llm_complete", "prompt=x", "--agent", f"{name}-user", "-o", "json")
        answer: dict[str, object] = json.loads(place.handler(*words, check=False).stdout)
        return answer

    assert call("well")["valid"]
    far.manner = "status-503"
    for _ in range(3):
        assert call("ill")["error"] == "unavailable"
    far.manner = "substitutes"
    assert call("other")["error"] == "unavailable"
    far.manner = ""
    wished = {
        "Answering": ("well", "ProfileReady"),
        "NotAnswering": ("ill", "Ready"),
        "Reachable": ("linked", "Linked"),
        "Unreachable": ("lost", "Ready"),
        "ModelMissing": ("lacks", "ProfileReady"),
        "ModelSubstituted": ("other", "Ready"),
    }
    for word, (name, kind) in wished.items():
        wait_for(lambda: reason(place, name, kind) == word, word)  # noqa: B023 - used at once
        gold(place, shown, word, name, far.base)
