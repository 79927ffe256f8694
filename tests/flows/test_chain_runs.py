"""Runs of chains, the whole way: real tools over the router, people who are asked, and any death between."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.doors import lines
from tests.kit import mailserver
from tests.kit.house import FIXTURES, ROOT, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]

AGENT = """apiVersion = "handler.agent/v1"
scope = [{{ path = "{scope}", access = "write" }}]

[services]
fs = "files"
ocr = {{ binding = "paper", version = 1 }}
send-email = "mail"
"""
MAIL = """apiVersion = "handler.binding/v1"
connector = "email-smtp"
[settings]
server = "127.0.0.1:{port}"
security = "none"
sender = "a@example.test"
recipients = "*"
"""
LOOP = {
    "id": "loop",
    "token_limit": 30000,
    "tasks": [
        {
            "id": "ask",
            "handler": "chat_completion",
            "system_instruction": "Read what is asked for.",
            "execute_config": {"tools": ["ocr", "fs", "send-email"]},
            "transition": {
                "branches": [
                    {"operator": "equals", "when": "tool_call", "goto": "act"},
                    {"operator": "default", "goto": "end"},
                ]
            },
        },
        {
            "id": "act",
            "handler": "execute_tool_calls",
            "execute_config": {"tools": ["ocr", "fs", "send-email"]},
            "transition": {
                "branches": [
                    {"operator": "edge_traversed_at_least", "edge": "ask->act", "when": "9", "goto": "end"},
                    {"operator": "default", "goto": "ask"},
                ]
            },
        },
    ],
}
MAIL_ARGUMENTS = {"to": ["ada@example.test"], "subject": "once", "text": "t"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, mailserver.Mailbox]]:
    with house(tmp_path_factory.mktemp("house")) as made, mailserver.serving(None) as box:
        made.write("bindings/files.toml", 'apiVersion = "handler.binding/v1"\nconnector = "fs-scope"\n')
        made.write("bindings/paper.toml", 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n')
        made.write("bindings/mail.toml", MAIL.format(port=box.port))
        made.write("agents/clerk.toml", AGENT.format(scope=made.inbox))
        made.write("chains/loop.json", json.dumps(LOOP))
        (made.inbox / "page.png").write_bytes((FIXTURES / "invoice.png").read_bytes())
        made.start()
        made.handler("apply", "--wait")
        yield made, box


def ask(made: House, method: str, **params: Any) -> dict[str, Any]:
    line = lines.Line(f"{made.run}/control.sock")
    try:
        told = line.ask(method, params, 90.0)
    finally:
        line.close()
    assert isinstance(told, dict)
    return told


def finished(made: House, run: str) -> dict[str, Any]:
    """Follow a run to its end: how it stands, its output, and all that was told."""
    told, after, until = [], "", time.monotonic() + 90
    while time.monotonic() < until:
        found = ask(made, "run.follow", run=run, after=after, waitSeconds=20)
        told, after = [*told, *found["told"]], found["after"]
        if "output" in found:
            return {**found, "told": told}
    raise AssertionError(f"no end of run {run}: {told[-3:]}")


def waiting(made: House) -> list[dict[str, Any]]:
    return [one for one in ask(made, "approvals")["approvals"] if one["state"] == "waiting"]


def kinds(done: dict[str, Any]) -> list[str]:
    return [one["kind"] for one in done["told"]]


def test_a_model_reads_a_page_over_the_router(place: tuple[House, mailserver.Mailbox]) -> None:
    made, _ = place
    script = [
        {"tools": [{"name": "ocr_ocr_extract", "arguments": {"path": "page.png"}}]},
        {"text": "It is an invoice."},
    ]
    begun = ask(made, "chain.run", chain="loop", input="What is on page.png?", script=script)
    assert (begun["agent"], begun["scripted"], begun["state"]) == ("clerk", True, "running")
    done = finished(made, begun["id"])
    assert done["run"]["state"] == "completed", done
    assert done["output"]["text"] == "It is an invoice."


def waited(made: House) -> list[dict[str, Any]]:
    wait_for(lambda: bool(waiting(made)), "somebody is asked")
    return waiting(made)


def mails(box: mailserver.Mailbox) -> list[str]:
    return [str(mail["Subject"]) for _, mail, _ in box.mails]


def mail_script(subject: str, last: str = "Done.") -> list[dict[str, Any]]:
    arguments = {**MAIL_ARGUMENTS, "subject": subject}
    return [{"tools": [{"name": "send-email.send_email_message", "arguments": arguments}]}, {"text": last}]


def test_an_effect_waits_for_a_person_and_the_wait_outlives_the_controller(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, box = place
    begun = ask(made, "chain.run", chain="loop", input="mail it", script=mail_script("approved"))
    (question,) = waited(made)
    assert question["about"]["arguments"]["to"] == ["ada@example.test"]
    assert begun["id"] in made.handler("runs", "list").stdout
    made.kill()
    made.start()
    assert [one["id"] for one in waited(made)] == [question["id"]]
    assert "approved" not in mails(box)
    made.handler("approve", question["id"])
    done = finished(made, begun["id"])
    assert (done["run"]["state"], done["output"]["text"]) == ("completed", "Done.")
    assert mails(box).count("approved") == 1
    assert "step_failed" not in kinds(done)


def test_a_controller_killed_during_an_approved_call_does_not_make_it_again(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, box = place
    box.holds = True
    begun = ask(made, "chain.run", chain="loop", input="mail it", script=mail_script("killed"))
    (question,) = waited(made)
    ask(made, "approve", id=question["id"], agreed=True)
    wait_for(lambda: "killed" in mails(box), "the message came")
    made.kill()
    box.holds = False
    made.start()
    done = finished(made, begun["id"])
    assert done["run"]["state"] == "completed"
    assert mails(box).count("killed") == 1
    assert [one["error"] for one in done["told"] if one["kind"] == "tool_call"] == ["outcome_unknown"]


def test_a_policy_of_approvals_says_which_calls_need_nobody(place: tuple[House, mailserver.Mailbox]) -> None:
    made, box = place
    rules = '[[rules]]\ntools = "send-email"\naction = "allow"\n'
    made.write("policies/approval.toml", f'apiVersion = "handler.approval-policy/v1"\n{rules}')
    ask(made, "apply", wait=True, timeoutSeconds=60)
    begun = ask(made, "chain.run", chain="loop", input="mail it", script=mail_script("by policy"))
    done = finished(made, begun["id"])
    assert (done["run"]["state"], waiting(made)) == ("completed", [])
    assert mails(box).count("by policy") == 1
    (made.config / "policies/approval.toml").unlink()
    ask(made, "apply", wait=True, timeoutSeconds=60)


@pytest.mark.parametrize(
    "odd",
    [
        {"chain": "nope"}, {"chain": 7}, {}, {"chain": "loop", "agent": "nobody"}, {"chain": "../loop"},
        {"chain": "loop", "vars": ["a"]}, {"chain": "loop", "vars": "ab"},
        {"chain": "loop", "inputType": "x"},
        {"chain": "loop", "input": [], "inputType": "chat_history"}, {"chain": "loop", "allowlist": 5},
        {"chain": "loop", "input": {"messages": [{"role": "nobody"}]}, "inputType": "chat_history"},
        {"chain": "loop", "input": "x", "inputType": "int"}, {"chain": "loop", "temperature": "hot"},
        {"chain": "loop", "clientTools": [1]}, {"chain": "loop", "clientTools": {"a": 1}},
        {"chain": "loop", "script": {}}, {"chain": "loop", "script": [{"tools": [{}]}]},
        {"chain": "loop", "script": [{"txt": ""}]}, {"chain": "loop", "script": [{"fail": "oddly"}]},
        {"chain": "loop", "script": [{"delaySeconds": -1}]}, {"chain": "loop", "script": [{"tools": 1}]},
        {"model": "m", "maxTokens": -1}, {"model": "m", "maxTokens": {}},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_begin_is_refused_in_words(
    place: tuple[House, mailserver.Mailbox], odd: dict[str, Any]
) -> None:
    before = list((place[0].state / "runs").glob("*"))
    with pytest.raises(lines.Fault) as told:
        ask(place[0], "chain.run", **odd)
    assert told.value.code == -31000, told.value
    assert list((place[0].state / "runs").glob("*")) == before


def test_what_is_not_granted_any_more_is_refused_though_a_person_agreed(
    place: tuple[House, mailserver.Mailbox],
) -> None:
    made, box = place
    begun = ask(made, "chain.run", chain="loop", input="mail it", script=mail_script("ungranted"))
    (question,) = waited(made)
    whole = (made.config / "agents/clerk.toml").read_text()
    made.write("agents/clerk.toml", whole.replace('send-email = "mail"\n', ""))
    ask(made, "apply", wait=True, timeoutSeconds=60)
    ask(made, "approve", id=question["id"], agreed=True)
    done = finished(made, begun["id"])
    assert [one["error"] for one in done["told"] if one["kind"] == "tool_call"] == ["refused"]
    assert "ungranted" not in mails(box)
    made.write("agents/clerk.toml", whole)
    ask(made, "apply", wait=True, timeoutSeconds=60)


def test_what_is_no_run_is_said(place: tuple[House, mailserver.Mailbox]) -> None:
    for method in ("run.follow", "run.show", "run.cancel", "run.resume", "run.stream"):
        for run in ("", "..", "../../etc", "zzzzzzzzzzzz", ["x"]):
            with pytest.raises(lines.Fault, match="there is no run"):
                ask(place[0], method, run=run)
    with pytest.raises(lines.Fault, match="is a number"):
        ask(place[0], "run.follow", run="x", waitSeconds="long")


def test_the_chain_of_tools_of_the_docs_runs_as_printed(place: tuple[House, mailserver.Mailbox]) -> None:
    made, _ = place
    page = (ROOT / "docs/chains.md").read_text().partition("### A chain of tools alone")[2]
    chain, policy = (part.partition("```")[0] for part in page.split("```toml\n")[1:3])
    made.write("chains/louder.toml", chain)
    made.write("policies/approval.toml", policy)
    (made.inbox / "notes.txt").write_text("hello\n")
    ask(made, "apply", wait=True, timeoutSeconds=60)
    assert made.handler("chain", "vet", "louder").returncode == 0
    for name, said in (("notes", "louder.txt has 6 bytes\n"), ("none", "There is nothing to read: ")):
        done = made.handler("chain", "run", "louder", "--text", f"{name}.txt", "-w")
        assert done.stdout.startswith(said), done.stderr
    assert (made.inbox / "louder.txt").read_text() == "HELLO\n"
    (made.config / "policies/approval.toml").unlink()
    ask(made, "apply", wait=True, timeoutSeconds=60)


def test_what_a_person_denies_is_not_done(place: tuple[House, mailserver.Mailbox]) -> None:
    made, box = place
    begun = ask(made, "chain.run", chain="loop", input="mail it", script=mail_script("denied"))
    (question,) = waited(made)
    made.handler("approve", question["id"], "--deny")
    done = finished(made, begun["id"])
    assert done["run"]["state"] == "completed"
    assert "denied" not in mails(box)
    assert "tool_call" not in kinds(done)


def test_the_command_line_follows_a_run_and_ends_one(place: tuple[House, mailserver.Mailbox]) -> None:
    made, _ = place
    (made.inbox / "script.json").write_text(json.dumps([{"text": "Hello back."}]))
    done = made.handler("chain", "run", "loop", "--text", "hello", "--script", "script.json", "-w")
    assert done.stdout == "Hello back.\n"
    assert "A script answers in the place of a model." in done.stderr
    (made.inbox / "slow.json").write_text(json.dumps([{"text": "late", "delaySeconds": 300}]))
    run = made.handler("chain", "run", "loop", "--text", "hello", "--script", "slow.json").stdout.strip()
    assert made.handler("runs", "cancel", run).stdout == f"{run}: cancelled\n"
    assert "cancelled" in made.handler("runs", "show", run).stdout
    assert made.handler("runs", "resume", run, check=False).returncode == 1
