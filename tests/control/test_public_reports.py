"""Public reports about what left, and how, from comparable systems; each told by its number in our own list.

23 and 24 (redirects, rebinding, keys sent on to another origin) are rows of ``tests.egress.report``; 21 (keys
in the arguments of a container) is held by the tests of secrets.
"""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from reconciler.control.approvals import Refused
from reconciler.egress.gate import Ask
from reconciler.model.calls import Refusal
from reconciler.model.hosts import Allow, Target
from tests.control.test_policing import ALLOW, ASK, World, recipe, told
from tests.egress import report

CANARY = "CANARY-5d1e-payload"


def everything(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "install.key"]
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def test_20_a_key_in_an_address_reaches_no_record(tmp_path: Path) -> None:
    """litellm#15799: a provider's key in the query stood in logs and spend rows."""

    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        entry = cast(str, await made.enter(recipe()))
        await made.request(recipe(), entry)
        ask = Ask("", "https://api.example.com:443", "GET", "0f" * 8, "cd", 0, "sha256:" + "3" * 64)
        assert made.policing.request(recipe(), ask)
        assert all("?" not in json.dumps(one) for one in made.receipts())

    told(story)


def test_22_arguments_are_in_nothing_that_is_written_down(tmp_path: Path) -> None:
    """docker/mcp-gateway PR 512: tool arguments were logged before the check for secrets."""

    async def story() -> None:
        made = World(tmp_path)
        made.follow(ASK)
        mail = recipe("mail", gate=False)
        said = await made.enter(mail, arguments={"text": CANARY}, left_s=1.01)
        assert isinstance(said, Refusal)
        assert CANARY not in everything(tmp_path)
        assert CANARY not in said.diagnostic
        assert "approvals" in {path.name for path in tmp_path.iterdir()}

    told(story)


def test_23_and_24_are_rows_of_the_report() -> None:
    """open-connector#94, holmesgpt PR 2414: redirects, rebinding, keys sent on to a second origin."""
    words = {words for words, _, _ in report.ATTEMPTS}
    assert "a redirect to another origin" in words
    assert "a name that leads to the cloud's own address" in words


def test_25_an_empty_list_allows_nothing(tmp_path: Path) -> None:
    """toolhive#1008: an empty allow-list became "allow all"."""

    async def story() -> None:
        assert Target("api.example.com", 443) not in Allow(())
        made = World(tmp_path)
        made.follow("")  # a policy without a rule
        assert isinstance(await made.enter(recipe()), Refusal)
        assert not (await made.request(recipe())).go
        assert await made.policing.tunnel(recipe(gate=False), Target("api.example.com", 443))

    told(story)


def test_26_a_consent_is_for_what_was_asked_and_for_once(tmp_path: Path) -> None:
    """ai-gateway#2073, atomic-agent#132: an approval was bound to a tool's name, or never looked at."""

    async def story() -> None:
        made = World(tmp_path)
        made.follow(ASK)
        mail = recipe("mail", gate=False)
        entering = asyncio.create_task(made.enter(mail, arguments={"to": "ada"}))
        number = await made.waiting()
        made.policing.approvals.answer(number, "ada", agreed=True)
        assert isinstance(await entering, str)
        for arguments in ({"to": "eve"}, {"to": "ada"}):  # another argument; a replay
            assert isinstance(await made.enter(mail, arguments=arguments, left_s=1.01), Refusal)
        with pytest.raises(Refused):
            made.policing.approvals.answer(number, "eve", agreed=True)

    told(story)
