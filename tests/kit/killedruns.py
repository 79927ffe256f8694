"""``make flows-runs``: the controller is killed after each answer of a run, and at odd moments.

A run reads a page, sends two messages and writes a file. Whenever its controller dies, the next one goes on;
no message may come twice, and what the model read of a call agrees with what happened.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.flows.test_chain_runs import AGENT, LOOP, MAIL, MAIL_ARGUMENTS, ask, finished, mails
from tests.kit import mailserver
from tests.kit.house import FIXTURES, House, house, wait_for

_ROUNDS = 12  # at odd moments
_ALLOWED = 'apiVersion = "handler.approval-policy/v1"\ndefaultAction = "allow"\n'


def script(name: str) -> list[dict[str, Any]]:
    """Four calls, three of them with an effect, and a last word."""

    def mail(subject: str) -> dict[str, Any]:
        return {"name": "send-email.send_email_message", "arguments": {**MAIL_ARGUMENTS, "subject": subject}}

    written = {"name": "fs.fs_write_file", "arguments": {"path": f"{name}.txt", "content": name}}
    return [
        {"tools": [{"name": "ocr.ocr_extract", "arguments": {"path": "page.png"}}]},
        {"tools": [mail(f"{name} one"), written]},
        {"tools": [mail(f"{name} two")]},
        {"text": "Done."},
    ]


def answers(made: House, run: str) -> list[dict[str, Any]]:
    """The answers that are whole on the disk."""
    path = made.state / "runs" / run / "answers.jsonl"
    raw = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]


def one(made: House, box: mailserver.Mailbox, name: str, moment: int | float) -> str:
    """A run whose controller is killed after so many answers (or seconds): what came of it, in a line."""
    begun = ask(made, "chain.run", chain="loop", input="go", script=script(name))
    if isinstance(moment, int):
        wait_for(lambda: len(answers(made, begun["id"])) >= moment, f"{moment} answers")
    else:
        time.sleep(moment)  # the moment itself is what is tried
    before = len(answers(made, begun["id"]))
    made.kill()
    made.start()
    done = finished(made, begun["id"])
    told = [line for line in answers(made, begun["id"]) if line["reply"].startswith("tool")]
    words = [line.get("code") or "ok" for line in told if line["reply"] != "tools"]
    counts = [
        mails(box).count(f"{name} one"),
        (made.inbox / f"{name}.txt").exists(),
        mails(box).count(f"{name} two"),
    ]
    for word, count in zip(words[1:], counts, strict=True):
        assert count == 1 if word == "ok" else word == "outcome_unknown" and count <= 1, (words, counts)
    assert words.count("outcome_unknown") <= 1, words
    assert done["run"]["state"] == "completed", done["run"]
    return f"after {before:2} answers ({moment}): {' '.join(words)}"


def main() -> int:
    """Print a line for each death; 0 where all is well."""
    with (
        tempfile.TemporaryDirectory() as folder,
        house(Path(folder)) as made,
        mailserver.serving(None) as box,
    ):
        made.write("bindings/files.toml", 'apiVersion = "handler.binding/v1"\nconnector = "fs-scope"\n')
        made.write("bindings/paper.toml", 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n')
        made.write("bindings/mail.toml", MAIL.format(port=box.port))
        made.write("agents/clerk.toml", AGENT.format(scope=made.inbox))
        made.write("chains/loop.json", json.dumps(LOOP))
        made.write("policies/approval.toml", _ALLOWED)
        (made.inbox / "page.png").write_bytes((FIXTURES / "invoice.png").read_bytes())
        made.start()
        made.handler("apply", "--wait")
        chance = random.Random(7)
        moments: list[int | float] = [*range(10), *(round(chance.uniform(0, 3), 2) for _ in range(_ROUNDS))]
        for number, moment in enumerate(moments):
            sys.stdout.write(f"{one(made, box, f'run{number:02}', moment)}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
