"""Reasons that running gives: real processes in real sandboxes, and what became of them."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.house import BIN, FIXTURES, House, house, wait_for
from tests.reasons import running
from tests.reasons.running import DIES, furnish, gold, instances, reason
from tests.reasons.telling import Shown, shown
from tests.runtime.test_environments import wheel

__all__ = ["shown"]

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    (tmp_path / "house").mkdir()
    with house(tmp_path / "house") as made:
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


def ask(made: House, name: str) -> str:
    """One call of the agent that uses this connector: what it was told."""
    words = ("call", "ocr_extract", "path=invoice.png", "--agent", f"{name}-user")
    return made.handler(*words, check=False).stdout


def said(log: Path) -> int:
    """How often the one that dies has said its word: once a start."""
    return log.read_text().count("the model is not there")


def test_processes_that_run_end_and_end_again(place: House, shown: Shown) -> None:
    furnish(place, "says", "dies")
    place.start()
    place.handler("apply")
    assert "a word" in ask(place, "says")
    wait_for(lambda: reason(place, "says") == "Running", "it runs")
    gold(place, shown, "Running", "describe binding/says")
    ask(place, "dies")
    wait_for(lambda: reason(place, "dies") == "ReconcileError", "it ended")
    gold(place, shown, "ReconcileError", "describe binding/dies")
    log = place.state / "logs/dies.log"
    while said(log) < 5:
        before = said(log)
        ask(place, "dies")  # starts it once more, or nothing while its back-off lasts
        with contextlib.suppress(AssertionError):
            wait_for(lambda: said(log) > before, "its word is written", seconds=1)  # noqa: B023 - used at once
    wait_for(lambda: reason(place, "dies") == "CrashLoop", "it ended five times")
    wait_for(lambda: said(log) == 5, "its last word is written")
    gold(place, shown, "CrashLoop", "describe binding/dies")


def test_a_process_that_starts_is_waited_for_and_one_that_never_answers_is_ended(
    place: House, shown: Shown
) -> None:
    furnish(place, "starts", "silent", "unwalled")
    place.start()
    place.handler("apply")
    with calling(place, "starts"):
        wait_for(lambda: reason(place, "starts") == "Starting", "its process runs")
        gold(place, shown, "Starting", "describe binding/starts")
    with calling(place, "silent"):
        wait_for(lambda: reason(place, "silent") == "StartTimeout", "it is ended")
    gold(place, shown, "StartTimeout", "describe binding/silent")
    assert "unavailable" in ask(place, "unwalled")
    wait_for(lambda: reason(place, "unwalled") == "SandboxUnavailable", "it does not start")
    gold(place, shown, "SandboxUnavailable", "describe binding/unwalled")


def test_a_secret_that_does_not_come_keeps_its_connector_from_starting(place: House, shown: Shown) -> None:
    furnish(place, "keyed")
    running.binding(place, "keyed", 'secrets = { api_key = { command = ["sleep", "600"] } }\n')
    place.start()
    place.handler("apply")
    assert "unavailable" in ask(place, "keyed")
    wait_for(lambda: reason(place, "keyed") == "SecretTimeout", "it was not waited for longer")
    gold(place, shown, "SecretTimeout", "describe binding/keyed")
    running.binding(place, "keyed", 'secrets = { api_key = { command = ["echo", "sk-good-0000"] } }\n')
    place.handler("apply", "--wait")
    assert "a word" in ask(place, "keyed")


def test_a_secret_that_a_connector_tells_goes_nowhere(place: House, shown: Shown) -> None:
    furnish(place, "tells")
    key = place.state.parent.parent / "key"
    key.touch(mode=0o600)
    key.write_text("sk-CANARY-4bd91f06\n")
    running.binding(place, "tells", f'secrets = {{ api_key = {{ file = "{key}" }} }}\n')
    place.start()
    place.handler("apply")
    assert "/tmp/asked" in ask(place, "tells")
    wait_for(lambda: reason(place, "tells") == "SecretEcho", "it printed its secret")

    def told_idle() -> bool:
        place.handler("reconcile")  # a call that ends is no news by itself
        summary = json.loads((place.state / "status/summary.json").read_bytes())
        return all(one["calls"] == 0 for one in summary["instances"])

    wait_for(told_idle, "its call is over")
    gold(place, shown, "SecretEcho", "describe binding/tells")
    said = place.handler("logs", "tells", "-q").stdout
    assert said == "starting with [secret] dXNlcjp[secret]Y=\n"
    told = json.loads(place.handler("secret", "check", "tells", "-o", "json").stdout)
    assert [(one["slot"], one["found"], one["length"], one["changed"]) for one in told] == [
        ("api_key", True, 18, False)
    ]
    key.write_text("sk-CANARY-another\n")
    whole = place.handler("secret", "check").stdout
    assert "what runs was started with another value" in whole
    assert "CANARY" not in whole
    key.chmod(0o644)
    asked = place.handler("secret", "check", "binding/tells", check=False)
    assert (asked.returncode, "others may read it: chmod 600 it" in asked.stdout) == (1, True)
    assert "there is no binding/nobody" in place.handler("secret", "check", "nobody", check=False).stderr
    key.chmod(0o600)
    assert "unavailable" in ask(place, "tells")
    wait_for(lambda: place.condition("binding", "tells", "Ready").get("status") == "False", "it is ended")
    assert place.condition("binding", "tells", "Ready")["reason"] == "SecretEcho"
    assert place.stop() == 0
    canaries = (b"sk-CANARY-4bd91f06", base64.b64encode(b"sk-CANARY-4bd91f06")[:16])
    files = [
        path for path in place.state.parent.rglob("*") if path.is_file() and place.config not in path.parents
    ]
    assert len(files) > 5
    assert not [path for path in files for canary in canaries if canary in path.read_bytes()]


def test_a_call_that_a_policy_does_not_let_in_is_refused(place: House, shown: Shown) -> None:
    furnish(place, "says")
    head = 'apiVersion = "handler.egress-policy/v1"\n'
    place.write("policies/egress.toml", f'{head}[[rule]]\nid = "not-yet"\neffect = "deny"\n')
    place.start()
    place.handler("apply")
    assert "what may be sent out does not allow this" in ask(place, "says")
    wait_for(lambda: events(place, "EgressDenied") == 1, "it is told")
    gold(place, shown, "EgressDenied", "events binding/says")


def test_a_process_that_needs_more_memory_than_it_may_have_is_ended(place: House, shown: Shown) -> None:
    furnish(place, "hungry")
    place.start()
    place.handler("apply")
    running.binding(place, "hungry", "[instance]\nmemoryBytes = 100663296\n")
    place.handler("apply", "--wait")
    ask(place, "hungry")
    whole = json.loads((place.state / "status/summary.json").read_bytes())["instances"]
    bounds = {one["walls"].get("memory", "") for one in whole if one["walls"]}
    if not any(one.startswith("cgroup") for one in bounds):
        pytest.skip(f"memory is not bounded by a cgroup on this machine: {bounds}")
    wait_for(lambda: reason(place, "hungry") == "OutOfMemory", "it is ended")
    gold(place, shown, "OutOfMemory", "describe binding/hungry")


def test_an_instance_that_is_replaced_ends_with_its_last_call(place: House, shown: Shown) -> None:
    furnish(place, "slow")
    place.start()
    place.handler("apply")
    with calling(place, "slow"):
        wait_for(lambda: reason(place, "slow") == "Running", "it is called")
        running.binding(place, "slow", "[instance]\nmaxConcurrentCalls = 2\n")
        wait_for(lambda: len(instances(place, "slow")) == 2, "there is another")
        wait_for(lambda: place.condition("binding", "slow", "Synced")["status"] == "True", "which serves")
    wait_for(lambda: reason(place, "slow", "Reconciling") == "Draining", "nobody waits for the first")
    gold(place, shown, "Draining", "describe binding/slow")


def test_an_edit_that_cannot_start_is_given_up_and_the_earlier_instance_serves(
    place: House, shown: Shown
) -> None:
    furnish(place, "says")
    place.start()
    place.handler("apply")
    assert "a word" in ask(place, "says")
    place.write("connectors/says/main.py", DIES)
    wait_for(lambda: place.condition("binding", "says", "Stalled") != {}, "it is known to be bad")
    gold(place, shown, "LastGoodRetained-stalled", "describe binding/says")
    assert "a word" in ask(place, "says")


@pytest.fixture
def drifting(place: House, tmp_path: Path) -> House:
    """A house in which drift is found within a second and only told."""
    index = tmp_path / "index"
    index.mkdir()
    _, digest = wheel(index)
    place.env |= {
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(index), "UV_CACHE_DIR": str(tmp_path / "cache"),
    }  # fmt: skip
    furnish(place, "says", resync=True)
    place.write("connectors/says/requirements.lock", f"tinything==1.0 --hash=sha256:{digest}\n")
    running.binding(place, "says", 'drift = "report"\n')
    agent = place.config / "agents/says-user.toml"
    place.write("agents/says-user.toml", f'{agent.read_text()}drift = "report"\n')
    place.start()
    place.handler("apply", "--wait")
    assert "a word" in ask(place, "says")
    return place


def test_what_is_changed_behind_the_controllers_back_is_told(drifting: House, shown: Shown) -> None:
    place = drifting
    code = running.only(place.state / "objects", "connector.toml") / "main.py"
    code.chmod(0o644)
    before = code.read_text()
    code.write_text("raise SystemExit(4)\n")
    drifted(place, shown, "binding", "says", "CodeChanged")
    code.write_text(before)
    wait_for(lambda: reason(place, "says", "Drifted") == "", "it is as it was")
    (place.run / "a/says-user/ocr.sock").unlink()
    drifted(place, shown, "agent", "says-user", "SocketMissing")
    os.kill(instances(place, "says")[0]["pid"], signal.SIGKILL)
    drifted(place, shown, "binding", "says", "ProcessVanished")
    assert "a word" in ask(place, "says")
    wait_for(lambda: reason(place, "says", "Drifted") == "", "it runs again")
    module = running.only(place.state / "envs", "tinything.py") / "tinything.py"
    module.chmod(0o644)
    module.write_text("answer = 43\n")
    drifted(place, shown, "binding", "says", "EnvironmentChanged")


def test_a_harness_file_that_somebody_changed_is_told_and_left(drifting: House, shown: Shown) -> None:
    place = drifting
    place.handler("render", "says-user", "--harness", "cursor", "--write", "--into", str(place.inbox))
    file = place.inbox / ".cursor/mcp.json"
    changed = file.read_text().replace("says-user", "another")
    file.write_text(changed)
    drifted(place, shown, "agent", "says-user", "HarnessEdited")
    place.handler("render", "says-user", "--remove", "--force", "--into", str(place.inbox))
    wait_for(lambda: place.condition("agent", "says-user", "Drifted") == {}, "it is over")
    assert not file.exists()


def drifted(made: House, shown: Shown, kind: str, name: str, reason: str) -> None:
    wait_for(lambda: made.condition(kind, name, "Drifted").get("reason") == reason, f"{reason} is told")
    gold(made, shown, reason, f"describe {kind}/{name}")


def test_records_that_somebody_else_changed_are_written_again_and_told(place: House, shown: Shown) -> None:
    furnish(place, "says", resync=True)
    place.start()
    place.handler("apply")
    (place.state / "status/agent/says-user.json").write_text("{}")
    wait_for(lambda: events(place, "DriftCorrected") == 1, "it is written again")
    gold(place, shown, "StatusEdited", "events agent/says-user")
    (place.state / "admitted/journal").write_bytes(b"broken")
    wait_for(lambda: events(place, "DriftCorrected") == 2, "it is written again")
    gold(place, shown, "StateEdited", "events configuration")
    gold(place, shown, "DriftCorrected", "events configuration")


def events(made: House, reason: str) -> int:
    lines = (made.state / "events.jsonl").read_text().splitlines()
    return sum(json.loads(line)["reason"] == reason for line in lines)


@contextlib.contextmanager
def calling(made: House, name: str) -> Iterator[None]:
    """While a call is under way."""
    words = [BIN / "handler", "call", "ocr_extract", "path=invoice.png", "--agent", f"{name}-user"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, env=made.env, cwd=made.inbox, stdout=quiet, stderr=quiet) as call:
        try:
            yield
        finally:
            call.kill()
