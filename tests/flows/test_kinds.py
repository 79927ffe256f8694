"""One interface, every kind of connector: each of the example against its whole suite, in a real sandbox.

Two of them wrap servers of other people, unchanged, as PyPI and npm have them. These are fetched once for a
checkout (their digests stand in their locks) and kept below ``.demo`` and ``.clients``; where no registry
answers, their tests are skipped and say so.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli

from reconciler.conformance import cases
from reconciler.runtime.environments import Environments, NotBuiltError
from tests.flows.test_hostile import Agent
from tests.kit import strangers
from tests.kit.house import ROOT, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(600)]

EXAMPLE = ROOT / "examples" / "connectors"
CACHE = ROOT / ".demo" / "envs"
IMPLEMENTS = {
    "clock-python": "clock/v1",
    "clock-program": "clock/v1",
    "clock-deno": "clock/v1",
    "clock-wrapped": "clock/v1",
    "clock-attached": "clock/v1",
    "trial-everything": "trial/v1",
}
AGENT = 'apiVersion = "handler.agent/v1"\nservices = {{ {} = "{}" }}\nscope = ["{}"]\n'
deno_is_here = (Path(sys.executable).parent / "deno").exists() or shutil.which(
    "deno", path="/usr/local/bin:/usr/bin"
)


def missing(made: House, connector: str) -> str:
    """Lay down what a connector needs besides its folder; why not, where that cannot be had."""
    folder = made.config / "connectors" / connector
    if connector == "clock-deno" and not deno_is_here:
        return "no deno: pip install deno"
    if (lock := folder / "requirements.lock").exists():
        return packages(made, lock.read_bytes())
    if (lock := folder / "package-lock.json").exists():
        return modules(folder, lock)
    return ""


def packages(made: House, lock: bytes) -> str:
    """The environment as the product builds it, from the one that this checkout keeps."""

    async def build() -> Path:
        return await Environments(CACHE).build(hashlib.sha256(lock).hexdigest(), lock, print)

    try:
        built = asyncio.run(build())
    except NotBuiltError as why:
        return str(why)
    shutil.copytree(built, made.state / "envs" / built.name, symlinks=True)
    return ""


def modules(folder: Path, lock: Path) -> str:
    """What PROVISIONING.md has a person install below /opt."""
    try:
        there = strangers.node_environment(lock, "everything")
    except strangers.Missing as why:
        return str(why)
    path = folder / "connector.toml"
    path.write_text(path.read_text().replace("/opt/server-everything", str(there)))
    return ""


class Kinds:
    """The example as it stands, with an agent for each connector, named as that."""

    def __init__(self, place: House) -> None:
        self.place = place
        self.missing = {name: missing(place, name) for name in IMPLEMENTS}
        for name, version in IMPLEMENTS.items():
            interface = version.partition("/")[0]
            place.write(f"agents/{name}.toml", AGENT.format(interface, name, place.inbox))

    def agent(self, connector: str) -> Agent:
        if why := self.missing[connector]:
            pytest.skip(f"{connector}: {why}")
        return Agent(self.place, connector, IMPLEMENTS[connector].partition("/")[0])


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    with house(tmp_path_factory.mktemp("kinds")) as made:
        shutil.copytree(EXAMPLE, made.config, dirs_exist_ok=True)
        found = Kinds(made)
        attached = made.config / "connectors/clock-attached/connector.toml"
        there = str(made.inbox.parent / "standing")
        attached.write_text(attached.read_text().replace("/tmp/handler-clock", there))
        with standing(made) as running:
            made.start()
            made.handler("apply")
            yield found
            assert made.stop() == 0
            assert running.poll() is None, "what is attached is left alone"
        assert made.processes() == []


@contextlib.contextmanager
def standing(place: House) -> Iterator[subprocess.Popen[bytes]]:
    """What PROVISIONING.md of the attached connector has a person run, at the place that it names."""
    folder = place.inbox.parent / "standing"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "connector.sock"
    path.unlink(missing_ok=True)
    program = EXAMPLE / "connectors" / "clock-program" / "serve.py"
    env = {**os.environ, "HANDLER_CONNECTOR_SOCKET": str(path)}
    with subprocess.Popen([sys.executable, program], env=env) as running:
        wait_for(path.exists, "it listens")
        yield running
        running.terminate()


def outcome(agent: Agent, case: cases.Case, scope: Path) -> cases.Outcome:
    answer = agent.ask(case.tool, **case.input)
    if not isinstance(answer, dict):
        return cases.Outcome(None, answer.split(":")[0].rpartition(" ")[2], 0)
    files = {key: scope / str(value) for key, value in case.input.items() if key == "path"}
    return cases.Outcome(answer, None, 0, {key: path.read_bytes() for key, path in files.items()})


@pytest.mark.parametrize("connector", IMPLEMENTS)
def test_each_kind_passes_the_whole_suite_of_its_interface(kinds: Kinds, connector: str) -> None:
    version = IMPLEMENTS[connector]
    suite = tomli.loads((EXAMPLE / "interfaces" / version / "conformance/cases.toml").read_text())
    found, problems = cases.read(suite, version)
    assert not problems
    faults = {}
    with contextlib.closing(kinds.agent(connector)) as agent:
        for case in found:
            if said := cases.judge(case, outcome(agent, case, kinds.place.inbox)):
                faults[case.name] = said
    assert faults == {}


def test_an_agent_of_a_wrapped_server_sees_our_tools_and_none_of_its(kinds: Kinds) -> None:
    with contextlib.closing(kinds.agent("trial-everything")) as agent:
        agent.send(id="list", method="tools/list")
        listed = agent.hear()["result"]["tools"]
        agent.send(
            id="theirs", method="tools/call", params={"name": "get-sum", "arguments": {"a": 1, "b": 2}}
        )
        refused = agent.hear()
    published = json.loads((EXAMPLE / "interfaces/trial/v1/tools.json").read_text())
    assert [tool["name"] for tool in listed] == [tool["name"] for tool in published]
    assert [tool["description"] for tool in listed] == [tool["description"] for tool in published]
    assert refused["error"]["code"] == -32602


def test_the_example_is_valid_and_its_published_interfaces_are_locked(kinds: Kinds) -> None:
    said = kinds.place.handler("validate")
    assert "0 errors" in said.stderr + said.stdout


def test_what_is_attached_is_told_to_be_uncontained(kinds: Kinds) -> None:
    with contextlib.closing(kinds.agent("clock-attached")) as agent:
        assert agent.ask("clock_now", zone="Etc/UTC")["zone"] == "Etc/UTC"
    wait_for(
        lambda: (
            kinds.place.condition("binding", "clock-attached", "Contained").get("reason") == "Uncontained"
        ),
        "the condition says it",
    )
