"""The catalogue's light connectors, the whole way: folder, server and mail as a person binds them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import engineside, mailserver
from tests.kit.engines import interface
from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.timeout(300)]

CORPUS = interface("web-search/v1") / "conformance" / "corpus"
_BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "{}"\n[settings]\n{}\n'
_AGENT = 'apiVersion = "handler.agent/v1"\ndescription = "Looks things up."\n[services]\nweb-search = "{}"\n'
TOKEN = "canary-7d1e-of-the-door"
ADA = ("web_search_query", "query=Ada Lovelace", "-o", "json")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, engineside.Served, Path]]:
    """One house for all tests of this file: two ways to search, one of them an agent's, and a mailbox."""
    folder = tmp_path_factory.mktemp("catalogue")
    folder.chmod(0o755)
    papers = folder / "papers"
    shutil.copytree(CORPUS, papers)
    with (
        house(folder) as made,
        engineside.serving(engineside.searxng) as server,
        mailserver.serving(None) as box,
    ):
        made.write(
            "bindings/papers.toml",
            _BINDING.format("search-local", f'documents = "{papers}"\nrescanSeconds = 0'),
        )
        made.write("bindings/web.toml", _web(server.origin, folder))
        made.write("bindings/gone.toml", _BINDING.format("search-local", f'documents = "{folder}/nothing"'))
        mail = (
            f'server = "127.0.0.1:{box.port}"\nsecurity = "none"\nsender = "a@example.test"\nrecipients = "*"'
        )
        made.write("bindings/mail.toml", _BINDING.format("email-smtp", mail))
        made.write("agents/finder.toml", _AGENT.format("papers"))
        made.start()
        wait_for(
            lambda: made.condition("binding", "mail", "Admitted").get("status") == "True", "all is looked at"
        )
        yield made, server, papers
        assert len(box.mails) == 1


def _web(origin: str, folder: Path) -> str:
    """An instance behind a door that asks for a token."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    bound = _BINDING.format("search-searxng", f'server = "{origin}"')
    return f'{bound}[secrets]\ntoken = {{ file = "{token}" }}\n'


def results(made: House, *words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(made.handler("call", *words).stdout)["results"]
    return answer


def test_an_agent_searches_a_folder_and_by_one_line_the_web(
    found: tuple[House, engineside.Served, Path],
) -> None:
    made, server, papers = found
    assert results(made, *ADA, "--agent", "finder")[0]["url"] == "document:lovelace.md"
    (papers / "new.txt").write_text("Ada Lovelace met Charles Babbage in 1833.\n")
    assert "document:new.txt" in [one["url"] for one in results(made, *ADA, "--agent", "finder")]
    assert server.asked == []
    made.handler("rebind", "finder", "web-search", "web")
    made.handler("wait", "agent/finder")
    assert results(made, *ADA, "--agent", "finder")[0]["url"] == "https://en.example.org/wiki/Ada_Lovelace"
    (asked,) = server.asked
    assert (asked.path, asked.words["q"]) == ("/search", "Ada Lovelace")
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"  # by the gate: the connector never has it
    # What a setting opens is shown before it is applied.
    made.write("handler.toml", '[reconcile]\nmode = "manual"\n')
    made.handler("apply", "-y")
    made.write("bindings/papers.toml", _BINDING.format("search-local", 'documents = "/srv/other"'))
    made.write("bindings/web.toml", _BINDING.format("search-searxng", 'server = "https://search.example"'))
    shown = made.handler("diff", check=False).stdout
    for words in ("/srv/other", str(papers), "search.example:443", server.origin.removeprefix("http://")):
        assert words in shown, shown


def test_a_folder_that_is_not_there_is_told_in_words(found: tuple[House, engineside.Served, Path]) -> None:
    made, _, _ = found
    done = made.handler("call", *ADA, "--binding", "gone", check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "unavailable"
    assert "nothing' is not on this machine" in done.stderr


def test_an_operator_sends_a_message_by_hand(found: tuple[House, engineside.Served, Path]) -> None:
    made, _, _ = found
    mail = '{"to": ["ada@example.test"], "subject": "s", "text": "t"}'
    done = made.handler("call", "send_email_message", "--json", mail, "--binding", "mail", "-o", "json")
    assert json.loads(done.stdout)["accepted"] == ["ada@example.test"]
