"""The OpenAI-compatible door, the whole way: its official client, the door, a controller, a server."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.flows.test_chain_runs import ask, finished
from tests.kit.house import BIN, House, house, wait_for
from tests.kit.vendors import Vendor, vendor

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
llm = ["chat", "coded"]
"""
# A connector with code of its own: it says what it was asked.
CODED = """apiVersion = "handler.connector/v1"
name = "coded"
description = "says what it was asked"
implements = ["llm/v1"]
runtime = "python"
"""
CODED_BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "coded"\nmodels = ["own"]\n'
CODE = """from handler_connector import Failure, serve


def complete(arguments, call):
    if "busy" in arguments["prompt"]:
        raise Failure("unavailable", "busy")
    said = "|".join(f"{key}={arguments[key]}" for key in ("system", "prompt", "input") if key in arguments)
    if "schema" in arguments:
        return {"text": "x", "valid": True, "value": {"a": 1}, "usage": USAGE, "ms": 1}
    return {"text": said, "valid": True, "usage": USAGE, "ms": 1}


USAGE = {"inTokens": 3, "outTokens": 4}
serve({"llm_complete": complete})
"""
_HI: Any = [{"role": "user", "content": "Say hello."}]
_TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
_PICTURE: Any = [{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]  # fmt: skip


def _task(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "handler": "chat_completion", **more}


def _to(target: str) -> dict[str, Any]:
    return {"branches": [{"operator": "default", "goto": target}]}


PICK = {
    "id": "pick",
    "tasks": [
        {
            "id": "choose",
            "handler": "route",
            "execute_config": {"model": "own"},
            "transition": {
                "branches": [
                    {"operator": "equals", "when": "yes", "goto": "own"},
                    {"operator": "default", "goto": "own"},
                ]
            },
        },
        _task("own", transition=_to("end"), execute_config={"model": "own"}),
    ],
}


@dataclass
class Served:
    """A house with a door before it."""

    house: House
    url: str
    token: str

    def client(self, **more: Any) -> openai.OpenAI:
        return openai.OpenAI(
            **{"base_url": self.url, "api_key": self.token, "max_retries": 0, "timeout": 90} | more
        )


@pytest.fixture(scope="module")
def far() -> Iterator[Vendor]:
    with vendor() as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, far: Vendor) -> Iterator[Served]:
    with house(tmp_path_factory.mktemp("door")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        made.write("bindings/chat.toml", BINDING.format(base=far.base))
        made.write("connectors/coded/connector.toml", CODED)
        made.write("connectors/coded/main.py", CODE)
        made.write(
            "bindings/coded.toml",
            'apiVersion = "handler.binding/v1"\nconnector = "coded"\nmodels = ["own"]\n',
        )
        made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox))
        answer = _task("answer", transition=_to("end"), execute_config={"pass_clients_tools": True})
        chain = {
            "id": "twice",
            "token_limit": 30000,
            "tasks": [_task("draft", transition=_to("answer")), answer],
        }
        made.write("chains/twice.json", json.dumps(chain))
        made.write("chains/pick.json", json.dumps(PICK))
        made.start()
        made.handler("apply", "--wait")
        without = made.handler("openai", "serve", "--listen", "127.0.0.1:0", check=False)
        assert (without.returncode, "handler openai token --agent clerk" in without.stderr) == (1, True)
        token = made.handler("openai", "token").stdout.strip()
        words = [BIN / "handler", "openai", "serve", "--listen", "127.0.0.1:0", "-o", "json"]
        log = (made.state.parent / "door.log").open("wb")
        door = subprocess.Popen(
            words, env=made.env, cwd=made.config, stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert door.stdout is not None
        try:
            told = json.loads(door.stdout.readline())
            assert told["agent"] == "clerk"
            yield Served(made, told["url"], token)
        finally:
            door.terminate()
            assert door.wait(30) == 0
            log.close()
            door.stdout.close()
            said = Path(log.name).read_text()
        assert "Traceback" not in said, said
        assert token not in said


def test_the_official_client_talks_to_a_model_whole_and_in_pieces(served: Served, far: Vendor) -> None:
    far.received.clear()
    with served.client() as client:
        listed = [one.id for one in client.models.list()]
        assert listed == ["small", "large", "own", "chain:pick", "chain:twice"]
        whole = client.chat.completions.create(model="large", messages=_HI, max_tokens=50)
        chunks = list(
            client.chat.completions.create(
                model="small", messages=_HI, stream=True, stream_options={"include_usage": True}
            )
        )
    assert whole.choices[0].message.content == "Hello, wörld."
    assert whole.usage is not None and (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (5, 7)
    words = [choice.delta.content for one in chunks for choice in one.choices if choice.delta.content]
    assert "".join(words) == "Hello, wörld."
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None and chunks[-1].usage.total_tokens == 12
    assert [one.fields["model"] for one in far.received] == ["large", "small"]
    assert (far.received[0].fields["max_tokens"], far.received[1].fields["stream"]) == (50, True)


def test_a_model_of_a_connector_with_code_is_asked_by_its_prompt(served: Served, far: Vendor) -> None:
    far.received.clear()
    began = time.time()
    talk: Any = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "Me."},
        {"role": "user", "content": "Why?"},
    ]
    shape: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    with served.client() as client:
        ask = client.chat.completions.create
        whole = ask(model="own", messages=talk)
        streamed = ask(model="own", messages=_HI, stream=True)
        words = "".join(choice.delta.content or "" for one in streamed for choice in one.choices)
        shaped = ask(model="own", messages=_HI, response_format=shape)
        refused = []
        for more in ({"tools": [_TOOL]}, {"seed": 7}, {"messages": _PICTURE}, {"stop": "hello"}):
            asked: Any = {"model": "own", "messages": _HI} | more
            try:
                refused.append(ask(**asked).choices[0].message.content)
            except openai.APIStatusError as error:
                told: Any = error.body
                refused.append((error.status_code, told["code"], told["param"]))
        with pytest.raises(openai.InternalServerError):
            ask(model="own", messages=[{"role": "user", "content": "busy"}])
    said = "system=Be kind.|prompt=Why?|input=The conversation so far:\n\nuser: Who?\n\nassistant: Me."
    assert whole.choices[0].message.content == said
    assert whole.usage is not None and (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (3, 4)
    assert words == "prompt=Say hello."
    assert shaped.choices[0].message.content == '{"a":1}'
    assert refused == [
        (400, "invalid_input", "tools"), (400, "invalid_input", "seed"),
        (400, "no_vision_model", None), "prompt=Say ",
    ]  # fmt: skip
    assert not far.received

    def kept_calls() -> list[dict[str, Any]]:
        return [one for one in served.house.calls(began) if one["binding"] == "coded"]

    wait_for(lambda: len(kept_calls()) == 5, "the calls are recorded")
    kept = kept_calls()
    assert {(one["tool"], one["agent"]) for one in kept} == {("llm_complete", "clerk")}
    assert [one["code"] for one in kept] == ["ok", "ok", "ok", "ok", "unavailable"]


def test_a_script_has_a_model_complete_a_prompt(served: Served, far: Vendor, tmp_path: Path) -> None:
    made = served.house
    (made.inbox / "ask.txt").write_text("What is it?")
    (made.inbox / "kind.txt").write_text("@plain")
    (made.inbox / "shape.json").write_text('{"type": "object"}')

    program = "import sys; from reconciler.doors.llmclient import main; sys.exit(main())"

    def llm(*words: str, given: str = "") -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-c", program, *words], env=made.env, cwd=made.inbox, input=given,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    words = (sys.executable, "-c", program, "--model=own", "--prompt=ask.txt", "--input=kind.txt")
    inside = made.handler("run", "clerk", "--", *words)
    assert inside.stdout == "prompt=What is it?|input=@plain\n"
    asked = ("--model", "own", "--system", "kind.txt", "--prompt", "ask.txt")
    assert llm(*asked, given="A page.") == (0, "system=@plain|prompt=What is it?|input=A page.\n", "")
    assert llm("--model=own", "--prompt=-", given="Why?") == (0, "prompt=Why?\n", "")
    assert llm("--model=own", "--prompt=ask.txt", "--schema=shape.json") == (0, '{"a": 1}\n', "")
    code, told, _ = llm("--model=own", "--prompt=ask.txt", "-o", "json", "--agent", "clerk")
    assert (code, json.loads(told)["usage"]) == (0, {"inTokens": 3, "outTokens": 4})
    for words, wanted in (
        (("--model=own", "--prompt=-"), (1, "unavailable: ")),
        (("--model=other", "--prompt=-"), (1, "small, large, own")),
        (("--prompt=nowhere.txt",), (2, "nowhere.txt")),
        (("--model=own",), (2, "--prompt FILE")),
    ):
        code, told, why = llm(*words, given="busy")
        assert (code, told, wanted[1] in why) == (wanted[0], "", True), why
    assert not [one for one in far.received if one.fields["model"] == "other"]


def test_a_chain_asks_a_connector_with_code_and_a_call_goes_where_its_model_is(
    served: Served, far: Vendor
) -> None:
    far.received.clear()
    begun = ask(served.house, "chain.run", chain="pick", input="Which?")
    done = finished(served.house, begun["id"])
    assert done["run"]["state"] == "completed", done
    assert done["output"]["text"] == "prompt=Which?"
    assert not far.received
    call = ("call", "--agent", "clerk", "llm_complete", "prompt=Hi.", "-o", "json")
    words = ((), ("model=own",), ("model=large",))
    told = [json.loads(served.house.handler(*call, *more).stdout) for more in words]
    assert [one["text"] for one in told] == ["Hello, wörld.", "prompt=Hi.", "Hello, wörld."]
    assert [one.fields["model"] for one in far.received] == ["small", "large"]
    unknown = served.house.handler(*call, "model=other", check=False)
    assert unknown.returncode == 1
    assert "small, large, own" in unknown.stdout + unknown.stderr
    shown = json.loads(served.house.handler("describe", "agent/clerk", "-o", "json").stdout)
    assert [one["binding"] for one in shown["services"]] == ["chat", "coded"]


def test_a_chain_answers_through_the_door_and_leaves_a_run(served: Served, far: Vendor) -> None:
    far.received.clear()
    before = {one["id"] for one in ask(served.house, "run.list")["runs"]}
    with served.client(base_url=served.url.replace("/v1", "/openai/twice/v1")) as client:
        whole = client.chat.completions.create(model="default", messages=_HI, temperature=0.3)
        chunks = client.chat.completions.create(model="default", messages=_HI, stream=True, stop="wör")
        words = "".join(choice.delta.content or "" for one in chunks for choice in one.choices)
    assert (whole.model, whole.choices[0].message.content) == ("chain:twice", "Hello, wörld.")
    assert words == "Hello, "  # of the task that may be the last; the draft is not the answer
    assert whole.usage is not None and whole.usage.total_tokens == 24  # of both tasks
    assert [one.fields.get("temperature") for one in far.received] == [0.3, 0.3, None, None]
    runs = [one for one in ask(served.house, "run.list")["runs"] if one["id"] not in before]
    assert [one["state"] for one in runs] == ["completed", "completed"]


def test_the_client_s_tools_are_asked_for_and_answered(served: Served, far: Vendor) -> None:
    far.received.clear()
    with served.client() as client:
        for model in ("small", "chain:twice"):
            said = client.chat.completions.create(model=model, messages=_HI, tools=[_TOOL]).choices[0]
            calls = said.message.tool_calls
            assert said.finish_reason == "tool_calls" and calls is not None
            assert (calls[0].type, calls[0].id != "") == ("function", True)
            assert [one.function.name for one in calls if one.type == "function"] == ["look"]
            result: Any = {"role": "tool", "tool_call_id": calls[0].id, "content": "seen"}
            more = [*_HI, said.message.to_dict(), result]
            assert client.chat.completions.create(model=model, messages=more).choices[0].message.content
    told = [one.fields["messages"][-1]["role"] for one in far.received]
    assert "tool" in told


def test_errors_have_the_protocol_s_form(served: Served, far: Vendor) -> None:
    far.received.clear()
    with served.client() as client:
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="larg", messages=_HI)
        for model in ("small", "chain:twice"):  # C46
            with pytest.raises(openai.BadRequestError) as told:
                client.chat.completions.create(model=model, messages=_PICTURE)
            assert told.value.code == "no_vision_model"
        assert far.received == []
        far.manner = "error-midway"
        try:
            with pytest.raises(openai.APIError):
                list(client.chat.completions.create(model="small", messages=_HI, stream=True))
        finally:
            far.manner = ""
    with served.client(api_key="handler-guess") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_the_door_outlives_its_controller(served: Served, far: Vendor) -> None:
    served.house.kill()
    with served.client() as client:
        with pytest.raises(openai.InternalServerError) as told:
            client.chat.completions.create(model="small", messages=_HI)
        assert told.value.status_code == 503
        served.house.start()
        served.house.handler("apply", "--wait")
        wait_for(lambda: bool(ask(served.house, "llm.models")["models"]), "the models are back")
        assert client.chat.completions.create(model="small", messages=_HI).choices[0].message.content
