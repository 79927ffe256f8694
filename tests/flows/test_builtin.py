"""``fs/v1`` by a part of the product: an agent's files through the whole way, with no process anywhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.house import House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

READING = (
    "fs_read_file", "fs_read_file_range", "fs_list_dir", "fs_find_files", "fs_grep", "fs_count_stats",
    "fs_stat_file",
)  # fmt: skip
AGENT = """apiVersion = "handler.agent/v1"
scope = [{scope}]

[services.fs]
binding = "files"
tools = {tools}
"""
BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "fs-scope"\n'


def agent(made: House, tools: tuple[str, ...] = READING, scope: str = "") -> str:
    return AGENT.format(scope=scope or f'"{made.inbox}"', tools=json.dumps(tools))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("house")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.5\n')
        made.write("bindings/files.toml", BINDING)
        made.write("agents/clerk.toml", agent(made))
        made.write("agents/homeless.toml", agent(made).replace(f'scope = ["{made.inbox}"]', "scope = []"))
        (made.inbox / "minutes.txt").write_text("Ada opens.\nThe total is forty two.\n")
        (made.inbox / "out.txt").symlink_to("/etc/hostname")
        made.start()
        made.handler("apply", "--wait")
        yield made


def call(made: House, tool: str, *words: str, agent: str = "clerk") -> dict[str, Any]:
    done = made.handler("call", tool, *words, "--agent", agent, "-o", "json", check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_an_agent_reads_its_own_files_and_nothing_else(place: House) -> None:
    assert call(place, "fs_read_file", "path=minutes.txt")["content"].startswith("Ada opens.")
    found = call(place, "fs_grep", "path=.", "pattern=total")
    assert found["matches"] == [{"path": "minutes.txt", "line": 2, "text": "The total is forty two."}]
    for path in ("../config/handler.toml", f"{place.state}", "out.txt", "/proc/self/environ"):
        assert call(place, "fs_read_file", f"path={path}")["error"] == "refused"
    assert call(place, "fs_read_file", "path=minutes.txt", agent="homeless")["error"] == "refused"
    wait_for(lambda: [one for one in place.calls() if one["tool"] == "fs_grep"], "the call's record")
    record = next(one for one in place.calls() if one["tool"] == "fs_grep")
    assert (record["binding"], record["code"]) == ("files", "ok")
    assert "total" not in json.dumps(record)


def test_it_runs_in_the_controller_and_says_so(place: House) -> None:
    call(place, "fs_stat_file", "path=.")
    told = json.loads(place.handler("describe", "binding/files", "-o", "json").stdout)
    ready = next(one for one in told["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "Running")
    assert "part of the product" in ready["message"]
    assert place.daemon is not None
    daemon = Path(f"/proc/{place.daemon.pid}/task/{place.daemon.pid}/children")
    assert not [pid for pid in daemon.read_text().split() if b"bwrap" in words_of(pid)]


def words_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it ended meanwhile


def test_what_writes_is_served_to_who_is_granted_it_alone(place: House) -> None:
    listed = place.handler("call", "--list", "--agent", "clerk").stdout
    assert "fs_read_file" in listed
    assert "fs_sed" not in listed
    assert "fs_write_file" not in listed
    new = ("path=new.txt", "content=x")
    done = place.handler("call", "fs_write_file", *new, "--agent", "clerk", check=False)
    assert done.returncode != 0
    assert not (place.inbox / "new.txt").exists()
    place.write("agents/writer.toml", agent(place, (*READING, "fs_write_file")))
    place.handler("apply", "--wait")
    assert call(place, "fs_write_file", *new, agent="writer")["new_bytes"] == 1
    assert (place.inbox / "new.txt").read_text() == "x"
    read = place.handler("call", "fs_read_file", "path=minutes.txt", "--binding", "files", "-o", "json")
    assert json.loads(read.stdout)["lines"] == 2


def test_a_removed_binding_ends_the_service_and_leaves_nothing(place: House) -> None:
    place.write("bindings/more.toml", BINDING)
    place.write("agents/other.toml", agent(place).replace('"files"', '"more"'))
    place.handler("apply", "--wait")
    assert call(place, "fs_stat_file", "path=.", agent="other")["kind"] == "folder"
    (place.config / "agents/other.toml").unlink()
    (place.config / "bindings/more.toml").unlink()
    place.handler("apply", "--prune=all", "--wait")

    def gone() -> bool:
        told = json.loads(place.handler("status", "-o", "json", check=False).stdout)
        return "more@" not in json.dumps(told)

    wait_for(gone, "the instance is gone")


def test_its_check_runs_what_may_be_run_and_names_the_rest(place: House) -> None:
    done = place.handler("connector", "check", "fs-scope", check=False)
    assert done.returncode == 1
    assert "34 of 42 cases passed, 8 could not be run" in done.stdout
    skipped = [line[4:].rpartition("  ")[0] for line in done.stdout.splitlines() if line.startswith("  - ")]
    assert "a new file" in skipped
    assert "--allow-effects asks it for real" in done.stdout
    assert "✗" not in done.stdout
    done = place.handler("connector", "check", "fs-scope", "--allow-effects")
    assert "42 of 42 cases passed" in done.stdout
    assert "with the effect 'local', for real, in a folder of the check's own" in done.stderr
    newest = max((place.state / "evidence/fs-scope").glob("*.json"))
    assert json.loads(newest.read_text())["tiers"]["conformance"] == "passed"
