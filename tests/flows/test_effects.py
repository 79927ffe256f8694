"""Effects, the whole way: what was sent once is never sent again, whoever dies in between."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.papers import Papers
from reconciler.attempts.records import Attempt, State
from reconciler.attempts.store import SqliteStore
from tests.kit import maildirs, mailserver
from tests.kit.house import BIN, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

AGENT = """apiVersion = "handler.agent/v1"
scope = [{{ path = "{scope}", access = "write" }}]

[services]
fs = "files"
send-email = "mail"
"""
MAIL = """apiVersion = "handler.binding/v1"
connector = "email-smtp"
[settings]
server = "127.0.0.1:{port}"
security = "none"
sender = "a@example.test"
recipients = "@example.test"
"""
FILES = 'apiVersion = "handler.binding/v1"\nconnector = "fs-scope"\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, mailserver.Mailbox]]:
    with house(tmp_path_factory.mktemp("house")) as made, mailserver.serving(None) as box:
        made.write("bindings/files.toml", FILES)
        made.write("bindings/mail.toml", MAIL.format(port=box.port))
        made.write("agents/clerk.toml", AGENT.format(scope=made.inbox))
        made.start()
        made.handler("apply", "--wait")
        yield made, box


def send(made: House, subject: str, to: str = "ada@example.test") -> subprocess.Popen[str]:
    words = json.dumps({"to": [to], "subject": subject, "text": "t"})
    return subprocess.Popen(
        [BIN / "handler", "call", "send_email_message", "--json", words, "--agent", "clerk", "-o", "json"],
        env=made.env, cwd=made.inbox, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def answer(call: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = call.communicate(timeout=90)
    assert out, err
    told: dict[str, Any] = json.loads(out)
    return told


def subjects(box: mailserver.Mailbox) -> list[str]:
    return [str(mail["Subject"]) for _, mail, _ in box.mails]


def attempts(made: House) -> list[Attempt]:
    """The newest first, read beside the controller."""
    store = SqliteStore(made.state / "ledger.db", only_read=True)
    try:
        return Ledger(store, Papers(made.state / "attempts")).listing()
    finally:
        store.close()


def states(made: House) -> tuple[State, str]:
    newest = attempts(made)[0]
    return newest.state, newest.ended.effect


def test_a_message_is_sent_once_and_its_attempt_is_kept(place: tuple[House, mailserver.Mailbox]) -> None:
    made, box = place
    before = subjects(box)
    assert answer(send(made, "one"))["accepted"] == ["ada@example.test"]
    assert subjects(box) == [*before, "one"]
    assert states(made) == (State.SUCCEEDED, "happened")
    newest = attempts(made)[0]
    wait_for(lambda: [one for one in made.calls() if one.get("attempt") == newest.id], "the call's record")
    kept = json.dumps([str(one) for one in attempts(made)])
    assert "ada@example.test" not in kept


def test_what_a_server_refuses_has_not_happened(place: tuple[House, mailserver.Mailbox]) -> None:
    made, box = place
    before = subjects(box)
    assert answer(send(made, "two", "nobody@example.test"))["error"] == "invalid_recipient"
    assert states(made) == (State.FAILED, "none")
    assert (
        answer(send(made, "two", "eve@elsewhere.test"))["error"] == "refused"
    )  # its operator permits it not
    assert states(made) == (State.FAILED, "none")
    box.reply = "451 4.3.0 not now"
    assert answer(send(made, "two"))["error"] == "unavailable"
    box.reply = None
    assert states(made) == (State.FAILED, "none")
    assert answer(send(made, "two"))["accepted"]
    assert subjects(box) == [*before, "two"]


def test_a_connection_lost_after_the_message_leaves_it_unknown(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, _ = place
    told = answer(send(made, "three", "dropped@example.test"))
    assert told["error"] == "outcome_unknown"
    assert "look before you send it again" in told["message"]
    assert states(made) == (State.INDETERMINATE, "unknown")
    wait_for(
        lambda: bool((made.status("binding", "mail").get("jobs") or {}).get("indeterminate")), "it is told"
    )
    assert (
        "nobody knows whether it happened: handler jobs list"
        in made.handler("describe", "binding/mail").stdout
    )


def test_a_person_says_what_became_of_it_and_the_count_follows(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, _ = place
    told = answer(send(made, "settled", "dropped@example.test"))
    assert told["error"] == "outcome_unknown"
    (newest, *_) = json.loads(made.handler("jobs", "list", "-o", "json").stdout)["jobs"]
    assert (newest["state"], newest["parked"], newest["agent"]) == ("indeterminate", True, "clerk")
    assert "handler jobs settle" in made.handler("jobs", "get", newest["job"]).stdout
    for one in json.loads(made.handler("jobs", "list", "-o", "json").stdout)["jobs"]:
        made.handler("jobs", "settle", one["job"], "--as", "failed", "--evidence", "the server lost it")
    assert states(made) == (State.FAILED, "none")
    wait_for(
        lambda: (made.status("binding", "mail").get("jobs") or {}).get("indeterminate") == 0, "it is counted"
    )
    assert made.handler("jobs", "prune", "--dry-run").returncode == 0


def test_an_agent_writes_and_edits_its_files(place: tuple[House, mailserver.Mailbox]) -> None:
    made, _ = place

    def call(tool: str, *words: str) -> dict[str, Any]:
        done = made.handler("call", tool, *words, "--agent", "clerk", "-o", "json", check=False)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    assert call("fs_write_file", "path=new.txt", "content=ab")["new_bytes"] == 2
    assert (made.inbox / "new.txt").read_text() == "ab"
    assert states(made) == (State.SUCCEEDED, "happened")
    assert call("fs_write_file", "path=new.txt", "content=cd")["error"] == "stale_read"
    assert states(made) == (State.FAILED, "none")
    assert (made.inbox / "new.txt").read_text() == "ab"


def test_a_connector_killed_after_the_message_leaves_it_unknown_and_is_not_asked_again(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, box = place
    before = subjects(box)
    box.holds = True
    call = send(made, "four")
    wait_for(lambda: subjects(box) == [*before, "four"], "the message came")
    for pid in json_pids(made):
        os.kill(pid, signal.SIGKILL)
    assert answer(call)["error"] == "outcome_unknown"
    box.holds = False
    assert states(made) == (State.INDETERMINATE, "unknown")
    assert answer(send(made, "five"))["accepted"]  # the next call starts it anew
    assert subjects(box) == [*before, "four", "five"]


def json_pids(made: House) -> list[int]:
    told = made.status("binding", "mail")["inventory"]
    return [one["pid"] for one in told if one["pid"]]


def test_a_controller_killed_after_the_message_leaves_it_unknown_and_the_next_one_says_so(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, box = place
    before = subjects(box)
    box.holds = True
    call = send(made, "six")
    wait_for(lambda: subjects(box) == [*before, "six"], "the message came")
    assert states(made)[0] is State.SUBMITTING
    made.kill()
    call.communicate(timeout=90)
    box.holds = False
    made.start()
    assert states(made) == (State.INDETERMINATE, "unknown")
    assert answer(send(made, "seven"))["accepted"]
    assert subjects(box) == [*before, "six", "seven"]


def test_a_caller_that_leaves_takes_nothing_back_and_gets_the_outcome_when_it_asks_again(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, box = place
    before = subjects(box)
    box.holds = True
    call = send(made, "eight")
    wait_for(lambda: subjects(box) == [*before, "eight"], "the message came")
    call.kill()
    call.communicate()
    again = send(made, "eight")
    wait_for(lambda: len(made.processes()) > 0, "it runs")
    box.holds = False
    assert answer(again)["accepted"] == ["ada@example.test"]
    assert subjects(box) == [*before, "eight"]
    assert states(made) == (State.SUCCEEDED, "happened")


@pytest.mark.slow
def test_every_case_of_the_suite_comes_to_lie_in_boxes_that_the_connector_never_sees(
    place: tuple[House, mailserver.Mailbox], tmp_path: Path
) -> None:
    made, _ = place
    with maildirs.boxes(tmp_path / "mail") as settings:
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        made.write(
            "bindings/boxes.toml",
            f'apiVersion = "handler.binding/v1"\nconnector = "email-maildir"\n[settings]\n{lines}',
        )
        words = ("connector", "check", "email-maildir", "--binding", "boxes", "--allow-effects")
        done = made.handler(*words, check=False)
        assert done.returncode == 0, done.stdout
        lying = [len([*(tmp_path / "mail" / box / "new").iterdir()]) for box in ("ada", "bob", "small")]
        assert lying == [7, 1, 0]


@pytest.mark.slow
def test_every_case_of_the_suite_is_sent_for_real_where_that_is_allowed(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, box = place
    before = len(box.mails)
    words = ("connector", "check", "email-smtp", "--binding", "mail")
    assert "--allow-effects asks it for real" in made.handler(*words, check=False).stdout
    assert len(box.mails) == before
    done = made.handler(*words, "--allow-effects", check=False)
    assert done.returncode == 0, done.stdout
    assert "with the effect 'external', for real, by the account that it is bound to" in done.stderr
    assert len(box.mails) > before
    assert {one.request.purpose for one in attempts(made) if one.owner.agent == "check/mail"} == {
        "conformance"
    }
