"""import approvals: the file is written once, admitted, and nothing of a person's is written over."""

import json

import pytest

from tests.doors.conftest import World

pytestmark = pytest.mark.slow
_RULE = {"tools": "local_shell", "action": "approve"}


def test_a_policy_is_written_once_and_admitted(world: World) -> None:
    world.handler("init", "config")
    policy, made = world.root / "hitl.json", world.config / "policies/approval.toml"
    policy.write_text(json.dumps({"default_action": "deny", "rules": [_RULE], "compute": {}}))
    words = ("import", "approvals", str(policy), "-c", "config")
    shown = world.handler(*words, "--dry-run")
    assert (shown.code, made.exists()) == (1, False)
    ran = world.handler(*words)
    assert (ran.code, ran.out) == (1, "policies/approval.toml\n")
    assert "left out: compute" in ran.err
    assert made.read_text() == shown.out
    assert world.handler("validate", "config").code == 0
    assert world.handler(*words).out == ran.out
    policy.write_text(json.dumps({"rules": []}))
    again = world.handler(*words)
    assert (again.code, "is there already" in again.err) == (2, True)
    assert made.read_text() == shown.out


def test_what_no_policy_here_can_say_is_refused_with_its_place_and_nothing_is_written(world: World) -> None:
    world.handler("init", "config")
    policy = world.root / "hitl.json"
    policy.write_text(json.dumps({"rules": [_RULE | {"action": "shrug"}]}))
    ran = world.handler("import", "approvals", str(policy), "-c", "config")
    assert (ran.code, "shrug" in ran.err, "nothing was written" in ran.err) == (2, True, True)
    assert not (world.config / "policies").exists()
