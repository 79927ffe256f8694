"""A second configuration on the folders of the first: nothing of it acts there, whoever is asked."""

from pathlib import Path

import pytest

from tests.kit.house import House, house

_AGENT = 'apiVersion = "handler.agent/v1"\ndescription = "Reads."\n'


@pytest.mark.flow
@pytest.mark.slow
def test_nothing_of_another_configuration_acts_on_a_state_that_is_in_use(tmp_path: Path) -> None:
    with house(tmp_path) as one:
        one.write("agents/reader.toml", _AGENT)
        one.start()
        other = tmp_path / "other"
        other.mkdir()
        for words in (
            ["status"],
            ["get", "agents"],
            ["describe", "agent/reader"],
            ["diff"],
            ["apply", "-y"],
            ["rollback"],
            ["reconcile"],
            ["wait", "agent/reader"],
            ["check", "agent/reader"],
            ["events"],
            ["history"],
            ["session", "list"],
            ["call", "ocr_extract", "--agent", "reader"],
            ["daemon", "status"],
            ["daemon", "stop"],
            ["daemon", "run"],
        ):
            _refused(one, other, *words)
        assert one.handler("daemon", "status").returncode == 0, "the first is served as before"
        held = one.handler("-c", str(other), "daemon", "adopt", check=False)
        assert held.returncode == 1
        assert "stop it" in held.stderr
        assert one.stop() == 0
        _refused(one, other, "daemon", "run")
        _refused(one, other, "apply", "-y")


def _refused(one: House, other: Path, *words: str) -> None:
    done = one.handler("-c", str(other), *words, check=False)
    assert done.returncode == 2, (words, done.returncode, done.stdout, done.stderr)
    assert f"belongs to the configuration {one.config}" in done.stderr, words
    assert done.stdout == ""


@pytest.mark.flow
@pytest.mark.slow
def test_a_configuration_that_was_moved_takes_its_state_over(tmp_path: Path) -> None:
    with house(tmp_path) as one:
        one.write("agents/reader.toml", _AGENT)
        one.handler("apply")
        moved = one.config.rename(tmp_path / "moved")
        one.env["HANDLER_CONFIG"] = str(moved)
        assert one.handler("status", check=False).returncode == 2
        one.handler("daemon", "adopt")
        assert "agent/reader" in one.handler("status", check=False).stdout
