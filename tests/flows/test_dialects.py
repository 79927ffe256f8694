"""Runtime ``dialect``, the whole way: an agent's call, the router, a profile's facts, the gate, a server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.test_chain_runs import ask, finished
from tests.kit.house import House, house, wait_for
from tests.kit.vendors import Vendor, vendor

CHECK = ("connector", "check", "strict", "--binding", "strict", "--live")
CATALOG = Path(__file__).resolve().parents[2] / "catalog"
pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

BINDING = """apiVersion = "handler.binding/v1"
connector = "llm-local"
models = ["small", "large"]
[settings]
baseUrl = "{base}"
"""
AGENT = """apiVersion = "handler.agent/v1"
scope = ["{inbox}"]
[services]
llm = "chat"
"""


@pytest.fixture(scope="module")
def far() -> Iterator[Vendor]:
    with vendor() as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, far: Vendor) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("dialects")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("bindings/chat.toml", BINDING.format(base=far.base))
        made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox))
        made.start()
        made.handler("apply", "--wait")
        yield made


def call(made: House, *words: str, agent: str = "clerk") -> dict[str, Any]:
    done = made.handler("call", "llm_complete", *words, "--agent", agent, "-o", "json", check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_server_answers_without_code_or_process(place: House, far: Vendor) -> None:
    far.received.clear()
    answer = call(place, "prompt=Say hello.", "system=Be brief.")
    assert (answer["text"], answer["valid"]) == ("Hello, wörld.", True)
    assert answer["usage"] == {"inTokens": 5, "outTokens": 7}
    (sent,) = far.received
    assert sent.fields["model"] == "small"  # the first of the binding's
    assert [one["role"] for one in sent.fields["messages"]] == ["system", "user"]
    assert sent.fields["max_tokens"] == 2048
    assert not [one for one in place.processes() if "bwrap" in one]
    told = json.loads(place.handler("describe", "binding/chat", "-o", "json").stdout)
    ready = next(one for one in told["conditions"] if one["type"] == "Ready")
    assert (ready["status"], "no process" in ready["message"]) == ("True", True)


def test_models_are_exact_and_pictures_are_refused_where_nobody_sees(place: House, far: Vendor) -> None:
    far.received.clear()
    assert call(place, "prompt=x", "model=large")["valid"]
    assert call(place, "prompt=x", "model=larg")["error"] == "refused"
    (place.inbox / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    assert call(place, "prompt=x", 'images=["a.png"]')["error"] == "unsupported_image"
    assert [one.fields["model"] for one in far.received] == ["large"]


def test_an_answer_that_does_not_fit_is_asked_for_once_more(place: House, far: Vendor) -> None:
    far.received.clear()
    answer = call(place, "prompt=x", 'schema={"type": "object"}')
    assert (answer["valid"], "value" in answer) == (False, False)
    first, second = far.received  # no fact says that a schema is taken: it is told in words
    assert "response_format" not in first.fields
    assert "JSON Schema" in first.fields["messages"][0]["content"]
    assert second.fields["messages"][:2] == first.fields["messages"]
    assert answer["usage"] == {"inTokens": 10, "outTokens": 14}


def test_a_server_that_is_gone_is_unavailable_and_the_record_says_why(place: House) -> None:
    place.write("bindings/lost.toml", BINDING.format(base="http://127.0.0.1:9/v1"))
    place.write("agents/lost.toml", AGENT.format(inbox=place.inbox).replace('"chat"', '"lost"'))
    place.handler("apply", "--wait")
    assert call(place, "prompt=a-canary", agent="lost")["error"] == "unavailable"
    wait_for(lambda: bool([one for one in place.calls() if one["agent"] == "lost"]), "the record")
    record = next(one for one in place.calls() if one["agent"] == "lost")
    assert "unreachable" in record["diagnostic"]
    assert "a-canary" not in json.dumps(record)


def test_a_policy_decides_on_each_turn(place: House, far: Vendor) -> None:
    head = 'apiVersion = "handler.egress-policy/v1"\n[[class]]\nname = "open"\n'
    place.write(
        "policies/egress.toml", f'{head}[[rule]]\nid = "no"\neffect = "deny"\norigins = ["{far.base[:-3]}"]\n'
    )
    place.handler("apply", "--wait")
    far.received.clear()
    try:
        assert call(place, "prompt=x")["error"] == "refused"
        assert far.received == []
        place.write(
            "policies/egress.toml",
            f'{head}[[rule]]\nid = "yes"\neffect = "allow"\norigins = ["{far.base[:-3]}"]\n',
        )
        place.handler("apply", "--wait")
        assert call(place, "prompt=x")["valid"]
        assert len(far.received) == 1
        again_and_again(place, far)
    finally:
        Path(place.config, "policies/egress.toml").unlink()
        place.handler("apply", "--wait")
        wait_for(lambda: "text" in call(place, "prompt=hi"), "it answers again, whatever failed")


def again_and_again(place: House, far: Vendor) -> None:
    """Report 2 (changedetection.io PR 4384): two layers that each tried three times made nine requests. The
    chain alone tries again, and each time is decided on anew.
    """
    before = receipts(place)
    retried = {"max_attempts": 3, "initial_backoff": "1ms", "max_backoff": "1ms"}
    task = {"id": "say", "handler": "chat_completion", "execute_config": {"retry_policy": retried}}
    task |= {"transition": {"branches": [{"operator": "default", "goto": "end"}]}}
    place.write("chains/thrice.json", json.dumps({"id": "thrice", "token_limit": 30000, "tasks": [task]}))
    place.handler("apply", "--wait")
    far.received.clear()
    far.manner = "status-503"
    try:
        done = finished(place, ask(place, "chain.run", chain="thrice", input="x", agent="clerk")["id"])
    finally:
        far.manner = ""
    assert done["run"]["state"] == "failed"
    assert (len(far.received), receipts(place) - before) == (3, 3)


def receipts(place: House) -> int:
    """How often something was allowed to leave."""
    days = (place.state / "receipts").glob("*.jsonl")
    lines = [json.loads(line) for day in days for line in day.read_text().splitlines()]
    return sum(one.get("verdict") == "allow" for one in lines)


def test_a_chain_asks_a_model_by_a_dialect_in_pieces(place: House, far: Vendor) -> None:
    task = {
        "id": "say",
        "handler": "chat_completion",
        "transition": {"branches": [{"operator": "default", "goto": "end"}]},
    }
    chain = {"id": "hello", "token_limit": 30000, "tasks": [task]}
    place.write("chains/hello.json", json.dumps(chain))
    place.handler("apply", "--wait")
    far.received.clear()
    begun = ask(place, "chain.run", chain="hello", input="Say hello.", agent="clerk")
    done = finished(place, begun["id"])
    assert (done["run"]["state"], done["output"]["text"]) == ("completed", "Hello, wörld."), done
    (sent,) = far.received
    assert (sent.fields["model"], sent.fields["stream"]) == ("small", True)


def test_report_19_a_server_that_ignores_the_schema_fails_its_check_and_is_withheld(
    place: House, far: Vendor
) -> None:
    """fabrice-ai PR 118, RouteLLM PR 72: ``response_format`` was taken, and ignored."""
    facts = (CATALOG / "profiles/local-chat.generic/1/profile.toml").read_text()
    form = '[operation.field.response_format]\ntype = "object"\ntypes = ["json_schema"]\n\n[operation.stream]'
    facts = facts.replace("[operation.stream]", form).replace('id = "local-chat.generic"', 'id = "strict"')
    place.write("profiles/strict/1/profile.toml", facts)
    text = (CATALOG / "connectors/llm-local/connector.toml").read_text()
    text = text.replace("local-chat.generic@2", "strict@1").replace('"llm-local"', '"strict"')
    place.write("connectors/strict/connector.toml", text)
    place.write("connectors/strict/PROVISIONING.md", "nothing\n")
    bound = BINDING.format(base=far.base).replace("llm-local", "strict")
    place.write("bindings/strict.toml", f'{bound}[conformance]\nrequire = "live"\n')
    place.write("agents/strict.toml", AGENT.format(inbox=place.inbox).replace('"chat"', '"strict"'))
    far.manner = "ignores-schema"
    try:
        done = place.handler(*CHECK, "-o", "json", check=False)
        place.handler("apply", "--wait", check=False)
        assert call(place, "prompt=x", agent="strict")["error"] == "unavailable"
    finally:
        far.manner = ""
    failed = {one["name"] for one in json.loads(done.stdout)["results"] if one["verdict"] != "passed"}
    assert failed == {"a value that fits a schema", "a value with words from a list"}
    told = place.handler("describe", "binding/strict").stdout
    assert "2 of its cases did not pass" in " ".join(told.split())
