"""Two controllers, each with a state folder of its own, on one ledger in PostgreSQL; and without it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import postgres
from tests.kit.house import House, house

pytestmark = [
    pytest.mark.flow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not os.environ.get("HANDLER_POSTGRES"), reason="`make flows-postgres` runs controllers on PostgreSQL"
    ),
]

AGENT = """apiVersion = "handler.agent/v1"
scope = [{{ path = "{scope}", access = "write" }}]

[services]
fs = "files"
"""
FILES = 'apiVersion = "handler.binding/v1"\nconnector = "fs-scope"\n'
LEDGER = '[ledger]\nurl = "{url}"\npassword = {{ file = "{secret}" }}\n'


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    if why := postgres.missing():
        pytest.skip(why)
    one = postgres.Server()
    yield one
    one.close()


def _write(made: House, name: str, content: str = "t") -> dict[str, Any]:
    words = json.dumps({"path": name, "content": content})
    told = made.handler(
        "call",
        "fs_write_file",
        "--json",
        words,
        "--agent",
        "clerk",
        "-o",
        "json",
        check=False,
    )
    assert told.stdout, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def _lay(made: House, url: str, secret: Path) -> None:
    made.write("handler.toml", LEDGER.format(url=url, secret=secret))
    made.write("bindings/files.toml", FILES)
    made.write("agents/clerk.toml", AGENT.format(scope=made.inbox))
    made.start()
    made.handler("apply", "--wait")


def _jobs(made: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(made.handler("jobs", "list", "--all", "-o", "json").stdout)[
        "jobs"
    ]
    return found


def test_two_controllers_share_a_ledger_and_one_that_is_away_refuses_effects_alone(
    server: postgres.Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url, secret = server.loopback(server.schema()), server.folder / "secret"
    secret.write_text(postgres.PASSWORD)
    secret.chmod(0o600)
    with house(tmp_path_factory.mktemp("one")) as one, house(tmp_path_factory.mktemp("two")) as two:
        _lay(one, url, secret)
        _lay(two, url, secret)
        assert _write(one, "a.txt")["new_bytes"] == 1
        assert _write(two, "b.txt")["new_bytes"] == 1
        assert not (one.state / "ledger.db").exists()
        assert len(_jobs(one)) == 2
        assert _jobs(one) == _jobs(two)
        assert "postgresql://handler@127.0.0.1" in one.handler("doctor", check=False).stdout

        server.kill()
        assert _write(one, "c.txt")["error"] == "unavailable"
        assert not (one.inbox / "c.txt").exists()
        words = json.dumps({"path": "a.txt"})
        read = ("call", "fs_read_file", "--json", words, "--agent", "clerk", "-o", "json")
        assert "error" not in json.loads(one.handler(*read).stdout)
        assert "cannot reach the ledger" in one.handler("jobs", "list", check=False).stderr
        doctor = one.handler("doctor", check=False)
        assert doctor.returncode == 1
        assert "calls with effects are refused: cannot reach the ledger" in doctor.stdout
        two.kill()
        two.start()  # without its ledger, it serves what has no effect
        assert _write(two, "d.txt")["error"] == "unavailable"

        server.start()
        deadline = 60
        while "error" in (told := _write(one, "c.txt")) and deadline:
            deadline -= 1
        assert told["new_bytes"] == 1
        assert _write(two, "d.txt")["new_bytes"] == 1
        assert {found["state"] for found in _jobs(two)} == {"succeeded"}
        said = "".join(path.read_text() for path in one.state.glob("*.json*"))
        assert postgres.PASSWORD not in said
        two.stop()
        assert len(json.loads(two.handler("jobs", "list", "-a", "-o", "json").stdout)["jobs"]) == 4
