"""The model that reads from a script, in each of the four ways of speaking, streamed or not."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harnesses.model import GOODBYE, Case, Model, serve

CASES = (Case("first", {"path": "a.pdf"}), Case("second", {"path": "b.pdf"}))
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
NAME = "mcp__ocr__ocr_extract"


@pytest.fixture
def served() -> Iterator[tuple[Model, str]]:
    model = Model("ocr_extract", CASES)
    server = serve(model)
    try:
        yield model, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def post(url: str, body: Any) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def messages(ask: Callable[[Any], str]) -> list[Any]:
    """A conversation by Anthropic's messages: what was called, and the last words."""
    seen: list[Any] = []
    history: list[Any] = [{"role": "user", "content": "go"}]
    tools = [{"name": NAME, "description": "Read.", "input_schema": SCHEMA}]
    while True:
        (part,) = json.loads(ask({"messages": history, "tools": tools}))["content"]
        if part["type"] == "text":
            return [*seen, part["text"]]
        seen.append((part["name"], part["input"]))
        result = {
            "type": "tool_result",
            "tool_use_id": part["id"],
            "content": f"read {part['input']['path']}",
        }
        history += [{"role": "assistant", "content": [part]}, {"role": "user", "content": [result]}]


def chat(ask: Callable[[Any], str]) -> list[Any]:
    seen: list[Any] = []
    history: list[Any] = [{"role": "user", "content": "go"}]
    tools = [{"type": "function", "function": {"name": NAME, "description": "Read.", "parameters": SCHEMA}}]
    while True:
        message = json.loads(ask({"messages": history, "tools": tools}))["choices"][0]["message"]
        if message["content"]:
            return [*seen, message["content"]]
        (call,) = message["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        seen.append((call["function"]["name"], arguments))
        result = {"role": "tool", "tool_call_id": call["id"], "content": f"read {arguments['path']}"}
        history += [message, result]


def responses(ask: Callable[[Any], str]) -> list[Any]:
    """As Codex does it: the tool stands in a namespace, and the answer is streamed."""
    seen: list[Any] = []
    history: list[Any] = [{"type": "message", "role": "user", "content": "go"}]
    one = {"type": "function", "name": "ocr_extract", "description": "Read.", "parameters": SCHEMA}
    tools = [{"type": "namespace", "name": "mcp__ocr", "tools": [one]}]
    while True:
        last = events(ask({"input": history, "tools": tools, "stream": True}))[-1]
        (item,) = last["response"]["output"]
        if item["type"] == "message":
            return [*seen, item["content"][0]["text"]]
        arguments = json.loads(item["arguments"])
        seen.append((f"{item['namespace']}__{item['name']}", arguments))
        output = {
            "type": "function_call_output",
            "call_id": item["call_id"],
            "output": f"read {arguments['path']}",
        }
        history += [item, output]


def generate(ask: Callable[[Any], str]) -> list[Any]:
    seen: list[Any] = []
    history: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]
    declared = {"name": NAME, "description": "Read.", "parametersJsonSchema": SCHEMA}
    while True:
        (event,) = events(ask({"contents": history, "tools": [{"functionDeclarations": [declared]}]}))
        content = event["candidates"][0]["content"]
        (part,) = content["parts"]
        if "text" in part:
            return [*seen, part["text"]]
        call = part["functionCall"]
        seen.append((call["name"], call["args"]))
        response = {"id": call["id"], "name": call["name"], "response": f"read {call['args']['path']}"}
        history += [content, {"role": "user", "parts": [{"functionResponse": response}]}]


@pytest.mark.parametrize(
    ("path", "converse"),
    [
        ("/v1/messages", messages),
        ("/v1/chat/completions", chat),
        ("/v1/responses", responses),
        ("/v1beta/models/scripted:streamGenerateContent?alt=sse", generate),
    ],
)
def test_it_asks_for_each_case_once_and_keeps_what_came_back(
    served: tuple[Model, str], path: str, converse: Callable[[Callable[[Any], str]], list[Any]]
) -> None:
    model, url = served
    seen = converse(lambda body: post(url + path, body))
    assert seen == [(NAME, {"path": "a.pdf"}), (NAME, {"path": "b.pdf"}), GOODBYE]
    assert [*map(str, model.report()["results"])] == ["first", "second"]
    for case, file in (("first", "a.pdf"), ("second", "b.pdf")):
        assert f"read {file}" in str(model.report()["results"][case])
    assert model.report()["tool"]["schema"] == SCHEMA


def test_a_request_without_the_tool_gets_a_sentence_and_begins_nothing(served: tuple[Model, str]) -> None:
    model, url = served
    said = json.loads(post(f"{url}/v1/messages", {"messages": [{"role": "user", "content": "a title?"}]}))
    assert said["stop_reason"] == "end_turn"
    assert model.report()["tool"] is None


def test_a_tool_that_is_only_named_is_searched_for_once(served: tuple[Model, str]) -> None:
    model, url = served
    finder = {"name": "ToolSearch", "input_schema": {}}
    body = {"messages": [{"role": "user", "content": f"deferred:\n{NAME}\n"}], "tools": [finder]}
    (part,) = json.loads(post(f"{url}/v1/messages", body))["content"]
    assert part["input"] == {"query": f"select:{NAME}"}
    (part,) = json.loads(post(f"{url}/v1/messages", body))["content"]
    assert part["type"] == "text"
    assert model.report()["searched"]
