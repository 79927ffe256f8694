"""Agents that call one another: by a command in its sandbox, by a chain, and over any death."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.doors import lines
from reconciler.runtime.limits import Limits
from tests.flows.test_observing import CONFIG, page
from tests.kit.house import House, house
from tests.kit.house import wait_for as waited

pytestmark = [
    pytest.mark.flow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
HEAD = 'apiVersion = "handler.agent/v1"\n'
READS = (
    'handler call fs_read_file path=note.txt -o json; echo "told: $1"; echo aside >&2; ls "$2" 2>&1 || true'
)
SLOW = 'echo begun > "{inbox}/begun"; (setsid sleep 600 &) ; trap "" TERM; sleep 600'
MANY = """
import threading
held = threading.Event()
try:
    for _ in range(200): threading.Thread(target=held.wait, daemon=True).start()
except RuntimeError: print("no more", threading.active_count() < 40)
"""
POLICY = """apiVersion = "handler.approval-policy/v1"
defaultAction = "allow"
[[rules]]
tools = "fs"
action = "approve"
"""
LISTS = {
    "tasks": [
        {
            "id": "look",
            "handler": "tools",
            "tools": {"name": "fs", "tool_name": "fs_read_file"},
            "transition": {"branches": [{"operator": "default", "goto": "end"}]},
        }
    ],
}
CLASSES = """apiVersion = "handler.egress-policy/v1"
[[class]]
name = "open"
[[class]]
name = "private"
[[rule]]
id = "all"
effect = "allow"
"""
PASS_ON = {
    "tasks": [
        {
            "id": "on",
            "handler": "tools",
            "tools": {"name": "agent", "tool_name": "agent_run_submit", "args": {"agent": "OTHER"}},
            "output_template": "{{.text}}",
            "transition": {"branches": [{"operator": "default", "goto": "end"}]},
        }
    ],
}


def chain(other: str) -> str:
    return json.dumps(PASS_ON).replace("OTHER", other)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("house")) as made:
        theirs = made.inbox.parent / "theirs"
        theirs.mkdir()
        (theirs / "note.txt").write_text("low water at noon")
        calls = 'services = { agent = "agents" }\n'
        mine = f'scope = [{{ path = "{made.inbox}", access = "write" }}]\n'
        made.write("bindings/files.toml", 'apiVersion = "handler.binding/v1"\nconnector = "fs-scope"\n')
        made.write("bindings/agents.toml", 'apiVersion = "handler.binding/v1"\nconnector = "agent-local"\n')
        reads_too = f'services = {{ fs = "files" }}\nscope = ["{theirs}"]\nrun.chain = "looks"\n'
        made.write("agents/patient.toml", HEAD + reads_too)
        made.write("chains/looks.json", json.dumps(LISTS))
        listed = 'agents = ["reader", "many", "slow", "ping", "relay", "patient"]\n'
        made.write("agents/clerk.toml", HEAD + calls + mine + listed)
        made.write("agents/maid.toml", HEAD + calls + 'agents = ["slow"]\n')
        reads = json.dumps(["sh", "-c", READS, "sh", "{input}", str(made.inbox)])
        made.write(
            "agents/reader.toml",
            f'{HEAD}description = "reads notes"\nservices = {{ fs = "files" }}\n'
            f'scope = ["{theirs}"]\nrun = {{ command = {reads} }}\n',
        )
        slow = json.dumps(["sh", "-c", SLOW.format(inbox=made.inbox)])
        made.write("agents/slow.toml", f"{HEAD}{mine}run.command = {slow}\n")
        many = json.dumps([os.path.realpath(sys.executable), "-c", MANY])
        made.write("agents/many.toml", f"{HEAD}run.command = {many}\nsandbox.pids = 40\n")
        made.write("agents/ping.toml", HEAD + calls + 'agents = ["pong"]\nrun.chain = "to-pong"\n')
        made.write("agents/pong.toml", HEAD + calls + 'agents = ["ping"]\nrun.chain = "to-ping"\n')
        made.write("agents/relay.toml", HEAD + calls + 'agents = ["slow", "reader"]\nrun.chain = "to-slow"\n')
        for other in ("ping", "pong", "slow", "reader"):
            made.write(f"chains/to-{other}.json", chain(other))
        made.write("policies/approval.toml", POLICY)
        made.write("handler.toml", CONFIG + '[http]\nlisten = "127.0.0.1:0"\n')
        made.start()
        made.handler("apply", "--wait")
        yield made


class Agent:
    """What an agent says over a session of its own, by MCP lines and no process for each call."""

    def __init__(self, made: House, name: str) -> None:
        told = ask(made, "session.open", agent=name)
        self._services, self.session = told["services"], told["session"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": f"agent_{tool}", "arguments": arguments}
        told = asked(self._services, "tools/call", params)
        if told.get("isError"):
            return {"error": next(iter(told["_meta"].values()))["error"]}
        found: dict[str, Any] = told["structuredContent"]
        return found

    def submit(self, agent: str, text: str = "please", **more: Any) -> str:
        return str(self.call("run_submit", agent=agent, input=text, **more)["job"])

    def state(self, job: str) -> str:
        return str(self.call("run_status", job=job).get("state"))

    def ends(self, job: str, state: str) -> None:
        wait_for(lambda: self.state(job) != "working", "it is over")
        assert self.state(job) == state


def wait_for(happened: Callable[[], bool], what: str) -> None:
    """Wait, and ask seldom: what is waited for takes seconds, and each question costs the controller."""

    def asked_seldom() -> bool:
        if happened():
            return True
        time.sleep(0.3)
        return False

    waited(asked_seldom, what)


def ask(made: House, method: str, **params: Any) -> Any:
    return asked(f"{made.run}/control.sock", method, params)


def asked(socket: str, method: str, params: dict[str, Any]) -> Any:
    line = lines.Line(socket)
    try:
        return line.ask(method, params, 90.0)
    finally:
        line.close()


def marks(made: House) -> dict[str, str]:
    """The classes of what sessions have read."""
    path = made.state / "egress-classes.json"
    found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return found


def asked_of(made: House) -> list[str]:
    """What a person is asked now, by number."""
    told = ask(made, "approvals")["approvals"]
    return [one["id"] for one in told if one["state"] == "waiting"]


def sessions_of(made: House, agent: str) -> list[str]:
    return [one["session"] for one in ask(made, "run.list")["runs"] if one["agent"] == agent]


def sleepers() -> list[int]:
    """The processes of the agent that never ends."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                words = (one / "cmdline").read_bytes()
            except OSError:
                continue
            if words == b"sleep\0" + b"600\0":
                found.append(int(one.name))
    return found


def begun(made: House) -> bool:
    """Whether the agent that never ends has begun, which is forgotten when it was asked."""
    found = (made.inbox / "begun").exists() and len(sleepers()) > 1
    if found:
        (made.inbox / "begun").unlink()
    return found


def test_another_agent_works_with_its_own_files_and_services(place: House) -> None:
    began = time.time()
    clerk = Agent(place, "clerk")
    assert clerk.call("list")["agents"][0] == {"agent": "reader", "description": "reads notes"}
    job = clerk.submit("reader", "when is it low?", output="answer.txt")
    clerk.ends(job, "succeeded")
    later = Agent(place, "clerk")
    told = later.call("run_result", job=job)
    assert "low water at noon" in told["text"]
    assert "told: when is it low?" in told["text"]
    assert "No such file" in told["text"]  # the caller's folder is not there
    assert told["isWhole"]
    assert (place.inbox / "answer.txt").read_bytes() == told["text"].encode()
    assert "aside" in place.handler("logs", "agents").stdout

    def readers() -> set[str]:
        return {one["agent"] for one in place.calls(began) if one["tool"] == "fs_read_file"}

    wait_for(lambda: readers() == {"reader"}, "its call is recorded, and no other's")
    assert "agent_run_submit" in place.handler("jobs", "list", "-a").stdout


def test_a_command_has_no_more_processes_than_its_agents_file_says(place: House) -> None:
    probe = Limits(f"probe-{os.getpid()}")
    probe.close()
    if probe.shape == "rlimit" and os.geteuid() == 0:
        pytest.skip("nothing bounds root's processes here")
    clerk = Agent(place, "clerk")
    job = clerk.submit("many")
    clerk.ends(job, "succeeded")
    assert clerk.call("run_result", job=job)["text"] == "no more True\n"


def test_who_is_not_listed_is_not_called(place: House) -> None:
    maid = Agent(place, "maid")
    assert maid.call("run_submit", agent="reader", input="x")["error"] == "no_such_agent"
    assert maid.call("run_submit", agent="nobody", input="x")["error"] == "no_such_agent"
    assert [one["agent"] for one in maid.call("list")["agents"]] == ["slow"]


def test_a_cancel_ends_every_process_of_it(place: House) -> None:
    clerk, maid = Agent(place, "clerk"), Agent(place, "maid")
    job = clerk.submit("slow")
    wait_for(lambda: begun(place), "it runs")
    assert maid.call("run_cancel", job=job)["error"] == "refused"
    clerk.call("run_cancel", job=job)
    clerk.ends(job, "cancelled")
    assert not sleepers()
    assert clerk.call("run_result", job=job)["error"] == "cancelled"


def test_agents_that_call_one_another_come_to_an_end(place: House) -> None:
    clerk = Agent(place, "clerk")
    job = clerk.submit("ping", "round and round")
    clerk.ends(job, "failed")
    runs = [one for one in ask(place, "run.list")["runs"] if one["agent"] in ("ping", "pong")][:3]
    assert [(one["agent"], one["above"]) for one in reversed(runs)] == [
        ("ping", ["clerk"]),
        ("pong", ["clerk", "ping"]),
        ("ping", ["clerk", "ping", "pong"]),
    ]
    assert {one["state"] for one in runs} == {"failed"}
    assert "too_deep" in json.dumps(runs[0])
    assert clerk.call("run_result", job=job)["error"] == "failed"


def test_a_killed_controller_begins_no_agent_again_and_a_run_that_waited_hears_of_it(place: House) -> None:
    clerk = Agent(place, "clerk")
    job, asks = clerk.submit("relay", "by a chain, to a command"), clerk.submit("patient", "note.txt")
    wait_for(lambda: begun(place), "the command runs")
    wait_for(lambda: bool(asked_of(place)), "a person is asked")
    run = next(one for one in ask(place, "run.list")["runs"] if one["agent"] == "relay")
    wait_for(lambda: ask(place, "run.show", run=run["id"])["run"]["state"] == "waiting_service", "it waits")
    attempt = ask(place, "run.show", run=run["id"])["run"]["waits_for"]
    assert run["id"] in place.handler("runs", "list").stdout
    assert "waiting_service" in place.handler("runs", "show", run["id"]).stdout
    assert "1 for a person ('handler approve list'), 1 for a job" in place.handler("status").stdout
    told = page(place, "/metrics")[1].decode()
    assert 'handler_runs{state="waiting_approval"} 1\n' in told
    assert 'handler_runs{state="waiting_service"} 1\n' in told
    open_sessions = [one["agent"] for one in ask(place, "session.list")]
    assert "relay" not in open_sessions  # it waits by the attempt's id alone
    assert place.daemon is not None
    os.kill(place.daemon.pid, signal.SIGKILL)
    place.daemon.wait()
    wait_for(lambda: not sleepers(), "what ran ended with it")
    place.start()
    ask(place, "apply")
    clerk = Agent(place, "clerk")
    wait_for(lambda: clerk.state(job) != "working", "the run hears what became of its command")
    assert clerk.state(job) == "failed"
    assert "outcome_unknown" in json.dumps(ask(place, "run.show", run=run["id"]))
    assert "indeterminate" in place.handler("jobs", "get", attempt).stdout  # a person looks, and says so
    wait_for(lambda: "nobody knows what became: 1" in place.handler("status").stdout, "status says so")
    place.handler("jobs", "settle", attempt, "--as", "failed", "--evidence", "nothing was written")
    assert not begun(place)
    assert clerk.state(asks) == "working"  # the next controller goes on with a chain
    place.handler("approve", asked_of(place)[0])
    clerk.ends(asks, "succeeded")
    assert "low water at noon" in clerk.call("run_result", job=asks)["text"]


def test_a_run_that_waited_may_not_collect_what_its_agent_is_not_granted_any_more(place: House) -> None:
    clerk = Agent(place, "clerk")
    job = clerk.submit("relay", "again")
    wait_for(lambda: begun(place), "the command runs")
    run = next(one for one in ask(place, "run.list")["runs"] if one["agent"] == "relay")
    wait_for(lambda: ask(place, "run.show", run=run["id"])["run"]["state"] == "waiting_service", "it waits")
    whole = (place.config / "agents" / "relay.toml").read_text()
    place.write("agents/relay.toml", whole.replace('{ agent = "agents" }', '{ fs = "files" }'))
    ask(place, "apply", prune="all")
    attempt = ask(place, "run.show", run=run["id"])["run"]["waits_for"]
    ask(place, "jobs.cancel", job=attempt)
    clerk.ends(job, "failed")
    assert not sleepers()
    told = ask(place, "run.show", run=run["id"])
    assert "refused" in json.dumps(told)
    assert "of chains that wait" not in place.handler("status").stdout
    place.write("agents/relay.toml", whole)
    ask(place, "apply")


def test_what_was_read_makes_others_careful_too(place: House) -> None:
    place.write("policies/egress.toml", CLASSES)
    file = place.config / "agents" / "reader.toml"
    file.write_text(file.read_text().replace(HEAD, f'{HEAD}floorClass = "private"\n'))
    ask(place, "apply")
    clerk = Agent(place, "clerk")
    job = clerk.submit("reader", "what is it?")
    clerk.ends(job, "succeeded")
    assert clerk.session not in marks(place)
    clerk.call("run_result", job=job)
    assert marks(place)[clerk.session] == "private"
    clerk.submit("ping", "hear of it")
    wait_for(
        lambda: "private" in [marks(place).get(one) for one in sessions_of(place, "ping")], "so has ping"
    )
