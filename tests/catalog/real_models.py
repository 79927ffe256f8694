"""``make flows-models``: a real llama.cpp decides where a chain goes, and its tools go over the router.

The weights are noise and a grammar forces the label, so what is tried is the whole way: the route, the gate,
llama.cpp's server, its answer, and the page that is read in a loop until the chain's own budget ends it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.model import turnlines
from reconciler.model.turns import Message, Text, Turn
from tests.flows.test_chain_runs import ask, finished, kinds
from tests.kit.engines import ROOT, environment
from tests.kit.house import FIXTURES, House, house, wait_for
from tests.kit.tiny_gguf import gguf

pytestmark = [pytest.mark.flow, pytest.mark.timeout(600)]

BINDING = """apiVersion = "handler.binding/v1"
connector = "llm-local"
models = ["tiny"]
[settings]
baseUrl = "{base}/v1"
"""
AGENT = """apiVersion = "handler.agent/v1"
scope = ["{inbox}"]
[services]
llm = "chat"
ocr = {{ binding = "paper", version = 1 }}
"""
CHAIN = {
    "id": "reader",
    "tasks": [
        {
            "id": "choose",
            "handler": "route",
            "system_instruction": "Is there more to read?",
            "execute_config": {"model": "tiny", "max_tokens": 16},
            "transition": {
                "branches": [
                    {
                        "operator": "edge_traversed_at_least",
                        "edge": "read->choose",
                        "when": "2",
                        "goto": "end",
                    },
                    {"operator": "equals", "when": "read", "goto": "read"},
                    {"operator": "equals", "when": "stop", "goto": "end"},
                    {"operator": "default", "goto": "lost"},
                ]
            },
        },
        {
            "id": "read",
            "handler": "tools",
            "prompt_template": "{{.input}}",
            "tools": {"name": "ocr", "tool_name": "ocr_extract", "args": {"path": "page.png"}},
            "output_template": "{{ len .pages }} page",
            "transition": {"branches": [{"operator": "default", "goto": "choose"}]},
        },
        {"id": "lost", "handler": "raise_error"},
    ],
}


@contextmanager
def served(folder: Path, grammar: str) -> Iterator[str]:
    """The address of a llama.cpp that says what the grammar forces."""
    model = folder / "tiny.gguf"
    model.write_bytes(gguf())
    with subprocess.Popen(
        [sys.executable, str(ROOT / "tests/kit/llamaserver.py"), str(model), *filter(None, [grammar])],
        env={"PYTHONPATH": environment("llm-llamacpp")},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def laid(made: House, base: str) -> None:
    """The configuration, in force."""
    made.write("bindings/chat.toml", BINDING.format(base=base))
    made.write("bindings/paper.toml", 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n')
    made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox))
    made.write("chains/reader.json", json.dumps(CHAIN))
    (made.inbox / "page.png").write_bytes((FIXTURES / "invoice.png").read_bytes())
    made.start()
    made.handler("apply", "--wait")


def test_llama_cpp_keeps_every_promise_of_llm_v1_and_counts_what_it_streams(tmp_path: Path) -> None:
    with served(tmp_path, "") as base, house(tmp_path) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        words = ("connector", "check", "llm-llama-server", "--set", f"baseUrl={base}/v1", "--model", "tiny")
        told = made.handler(*words, "--live").stdout
        assert "11 of 11 cases passed" in told
        for connector in ("llm-llama-server", "llm-local"):
            made.write("bindings/chat.toml", BINDING.format(base=base).replace("llm-local", connector))
            made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox).replace("ocr =", "# ocr ="))
            if made.daemon is None:
                made.start()
            made.handler("apply", "--wait")
            turn = Turn("tiny", (Message("user", (Text("Say something."),)),), max_tokens=8, stream=True)
            answer = ask(made, "llm.turn", agent="clerk", turn=turnlines.turn(turn))["answer"]
            usage = turnlines.answer_from(answer).usage
            assert 0 < usage.output_tokens <= 8 < usage.input_tokens


def test_a_real_model_routes_and_its_chain_reads_in_a_loop(tmp_path: Path) -> None:
    with served(tmp_path, 'root ::= "read"') as base, house(tmp_path) as made:
        laid(made, base)
        begun = ask(made, "chain.run", chain="reader", input="Is there a page?")
        done = finished(made, begun["id"])
        assert (done["run"]["state"], done["run"]["scripted"]) == ("completed", False), done["run"]
        asked = [one["model_name"] for one in done["told"] if one["kind"] == "model_call"]
        assert asked == ["tiny", "tiny", "tiny"]
        assert kinds(done).count("tool_call") == 2
        assert done["output"]["text"] == "1 page"

        def read() -> int:
            return len([one for one in made.calls() if one["tool"] == "ocr_extract"])

        wait_for(lambda: read() == 2, "both calls are recorded")


def test_a_real_model_that_says_what_is_no_label_takes_the_default(tmp_path: Path) -> None:
    with served(tmp_path, 'root ::= "perhaps"') as base, house(tmp_path) as made:
        laid(made, base)
        done = finished(made, ask(made, "chain.run", chain="reader", input="?")["id"])
        assert (done["run"]["state"], done["run"]["code"]) == ("failed", "raised")
