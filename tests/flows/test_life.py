"""One instance a binding, however many ask, and none that outlives its controller: of each runtime."""

import json
import os
import re
import signal
import threading
from contextlib import closing, suppress

import pytest

from tests.flows.test_hostile import Agent
from tests.flows.test_runtimes import MAPPING, PYTHON, SERVER, connect, deno_is_here, place
from tests.kit.house import House, wait_for

__all__ = ["place"]

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

BORN = "import sys\nprint('born', file=sys.stderr, flush=True)\n"
KIT = (
    BORN
    + """from handler_connector import serve
serve({"probe_do": lambda args, call: {"text": "kit"}, "probe_file": lambda args, call: {"text": "kit"}})
"""
)
SCRIPT = """import { serve } from "handler_connector";
console.error("born");
serve({ probe_do: () => ({ text: "script" }), probe_file: () => ({ text: "script" }) });
"""
COMMAND = 'command = ["python3", "serve.py", "words"]'
# Of each: its runtime, the more of its connector, its files, and what it answers.
FIVE = {
    "kit-one": ("python", "", {"main.py": KIT}, "kit"),
    "kit-two": ("python", "", {"main.py": KIT}, "kit"),
    "words": ("command", COMMAND, {"serve.py": BORN + PYTHON}, "words"),
    "script": (
        ("deno", "", {"main.ts": SCRIPT}, "script")
        if deno_is_here
        else ("command", COMMAND, {"serve.py": BORN + PYTHON}, "words")
    ),
    "wrapped": ("mcp", MAPPING, {"server.py": BORN + SERVER}, "in text"),
}
CLIENTS = 20


def born(made: House, name: str) -> int:
    return (made.state / f"logs/acme-{name}.log").read_text().count("born")


def instances(made: House) -> list[str]:
    """Of every instance that runs: its binding, as the labels of its processes say."""
    found = {match[0] for line in made.processes() if (match := re.search(r"acme-[a-z-]+@\w+", line))}
    return sorted(one.split("@")[0] for one in found)


def test_twenty_clients_of_five_bindings_are_five_processes_and_a_killed_controller_leaves_none(
    place: House,
) -> None:
    for name, (runtime, more, files, _) in FIVE.items():
        connect(place, name, runtime, more, **files)
    heard: list[tuple[str, object]] = []
    ready = threading.Barrier(CLIENTS)

    def client() -> None:
        agents = {name: Agent(place, name) for name in FIVE}
        ready.wait(60)
        for name, agent in agents.items():
            with closing(agent):
                heard.append((name, agent.ask(mode="json")))

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    wanted = [(name, {"text": said}) for name, (*_, said) in FIVE.items() for _ in range(CLIENTS)]
    assert sorted(heard, key=str) == sorted(wanted, key=str)
    assert {name: born(place, name) for name in FIVE} == dict.fromkeys(FIVE, 1)
    five = sorted(f"acme-{name}" for name in FIVE)
    assert [one for one in instances(place) if one in five] == five  # a test before may have one of its own
    place.kill()
    wait_for(lambda: place.processes() == [], "none of any runtime outlives its controller", 5)
    place.start()
    with closing(Agent(place, "wrapped")) as agent:
        assert agent.ask(mode="json") == {"text": "in text"}
    assert instances(place) == ["acme-wrapped"]


def test_an_open_session_holds_no_process_and_what_others_kill_is_started_again_and_counted(
    place: House,
) -> None:
    connect(place, "rests", "python", "", **{"main.py": KIT})
    text = (place.config / "bindings/acme-rests.toml").read_text()
    place.write("bindings/acme-rests.toml", f"{text}[instance]\nidleStopSeconds = 1\n")
    place.handler("apply", "--wait")
    with closing(Agent(place, "rests")) as agent:
        assert agent.ask(mode="json") == {"text": "kit"}
        wait_for(lambda: "acme-rests" not in instances(place), "it rests while its session is open")
        before = born(place, "rests")
        for turn in range(1, 7):
            assert agent.ask(mode="json") == {"text": "kit"}
            wait_for(lambda: born(place, "rests") == before + turn, "it is started again")  # noqa: B023
            wait_for(lambda: killed(pid(place, "acme-rests")), "its process is told")
            wait_for(lambda: phase(place, "acme-rests") == "failed", "its end is told")
    described = place.handler("describe", "binding/acme-rests").stdout
    (row,) = [line.split() for line in described.splitlines() if line.startswith("acme-rests@")]
    assert (row[1], row[3]) == ("failed", "5"), described  # the last is not started again yet
    assert "CrashLoop" not in described
    assert "from outside, with signal 9" in described
    assert place.condition("agent", "rests", "Ready")["status"] == "True"


def killed(number: int) -> bool:
    """Kill a process, unless what was told is of an earlier one."""
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)
        return True
    return False


def phase(made: House, binding: str) -> str:
    summary = json.loads((made.state / "status/summary.json").read_bytes())
    return next((one["phase"] for one in summary["instances"] if one["binding"] == binding), "")


def pid(made: House, binding: str) -> int:
    """The process of the one instance of a binding, as the summary tells it."""
    found: list[int] = []

    def told() -> bool:
        summary = json.loads((made.state / "status/summary.json").read_bytes())
        found[:] = [one["pid"] for one in summary["instances"] if one["binding"] == binding and one["pid"]]
        return bool(found)

    wait_for(told, "its process is told")
    return found[0]
