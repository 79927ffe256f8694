"""``make demo``: the main job on real input, told as it happens.

A controller watches a copy of ``examples/config`` (a git repository). An agent's client, the official MCP
client over
``handler-service``, reads a scanned invoice through ``ocr/v1``. One value is edited; the session that is
open still
answers from the first engine, a new one from the second, with byte-identical tools. An agent whose
``requires`` is
not met is refused with file, line and mend. Everything is real: engines, sandbox, sockets. It stops clean.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".demo"
BIN = Path(sys.executable).parent
WANTED = ("INV-2024-0042", "Total")
_START_S = 180  # the first start compiles what it imports, perhaps on a machine that has other work
_DEADLINE_S = 900  # the second engine's packages may have to be fetched the first time


def say(text: str = "") -> None:
    print(text, flush=True)


def step(text: str) -> None:
    say(f"\n\033[1m▸ {text}\033[0m" if sys.stdout.isatty() else f"\n▸ {text}")


def handler(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command as a person would, and show what it prints while it prints it."""
    say(f"$ handler {' '.join(words)}")
    running = subprocess.Popen(
        [BIN / "handler", *words], cwd=WORK / "config",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    told = []
    with running:
        assert running.stdout is not None
        for line in running.stdout:
            say(f"  {line.rstrip()}")
            told.append(line)
    if check and running.returncode:
        raise SystemExit(f"demo: handler {words[0]} ended with {running.returncode}")
    return subprocess.CompletedProcess(words, running.returncode, "".join(told), "")


def git(*words: str) -> None:
    who = ["-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=WORK / "config", check=True, capture_output=True)


def lay_out() -> Path:
    """A fresh copy of the example configuration as a git repository, and the invoice in the agents' scope."""
    for old in ("config", "inbox"):
        shutil.rmtree(WORK / old, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / "config", WORK / "config")
    inbox = WORK / "inbox"
    inbox.mkdir()
    fixtures = ROOT / "catalog" / "interfaces" / "ocr" / "v1" / "conformance"
    for name in ("invoice.pdf", "invoice.png"):
        shutil.copy(fixtures / name, inbox)
    for path in (WORK / "config" / "agents").glob("*.toml"):
        path.write_text(path.read_text().replace("~/handler-demo/inbox", str(inbox)))
    git("init", "--quiet", "--initial-branch=main")
    git("add", "-A")
    git("commit", "--quiet", "-m", "The example configuration")
    return inbox


@contextlib.contextmanager
def controller() -> Iterator[None]:
    """``handlerd`` on the copy; stopped by SIGTERM, and it must end clean."""
    log = (WORK / "handlerd.log").open("w")
    daemon = subprocess.Popen([BIN / "handlerd"], cwd=WORK / "config", stdout=log, stderr=log)
    say("$ handlerd &")
    code = 0
    try:
        until_it_answers(daemon)
        yield
    finally:
        daemon.send_signal(signal.SIGTERM)
        code = daemon.wait(timeout=60)
        log.close()
        say(f"handlerd stopped with {code}")
    if code:  # not above, where it would hide why the demo itself ended
        raise SystemExit((WORK / "handlerd.log").read_text()[-2000:])


def until_it_answers(daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while subprocess.run([BIN / "handler", "daemon", "status"], capture_output=True, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > deadline:
            why = "has ended" if daemon.poll() is not None else f"did not answer within {_START_S} s"
            raise SystemExit(f"demo: handlerd {why}\n" + (WORK / "handlerd.log").read_text()[-2000:])
        time.sleep(0.1)


@contextlib.asynccontextmanager
async def agent(name: str) -> AsyncIterator[ClientSession]:
    """What an agent's harness does: start ``handler-service ocr`` and speak MCP to it. A harness is one
    process,
    and so is one session; this one stands for several by opening its own session for each.
    """
    opened = subprocess.run(
        [BIN / "handler", "session", "open", name, "-o", "json"],
        cwd=WORK / "config", capture_output=True, text=True, check=True,
    )  # fmt: skip
    session = json.loads(opened.stdout)
    server = StdioServerParameters(
        command=str(BIN / "handler-service"),
        args=["ocr", "--socket", session["sockets"]["ocr"]],
        env=dict(os.environ),
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        yield client
    subprocess.run(
        [BIN / "handler", "session", "close", session["session"]],
        cwd=WORK / "config", check=True, capture_output=True,
    )  # fmt: skip


async def tools_digest(client: ClientSession) -> str:
    """sha256 over the tools exactly as the agent sees them."""
    listed = await client.list_tools()
    text = json.dumps(
        [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
    )
    return hashlib.sha256(text.encode()).hexdigest()


async def read_invoice(client: ClientSession, who: str) -> str:
    """One call; prints what the model would receive, and who really answered (operators see that, agents
    do not).
    """
    begun = time.monotonic()
    result: Any = await client.call_tool("ocr_extract", {"path": "invoice.pdf"})
    took = time.monotonic() - begun
    structured = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
    if structured is None:
        raise SystemExit(f"demo: the call failed: {result.content}")
    text = "\n".join(page["text"] for page in structured["pages"])
    missing = [word for word in WANTED if word not in text]
    if missing:
        raise SystemExit(f"demo: {missing} not in the reading:\n{text}")
    lines = [line for line in text.splitlines() if any(word in line for word in WANTED)]
    say(f"  {who} read in {took:.1f} s:")
    for line in lines[:4]:
        say(f"    | {line}")
    return last_binding()


def last_binding() -> str:
    """Which binding answered last, from the call records."""
    state = Path(os.environ["HANDLER_STATE"])
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        lines = [
            line
            for path in sorted((state / "calls").glob("*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        if len(lines) > last_binding.seen:  # type: ignore[attr-defined]
            last_binding.seen = len(lines)  # type: ignore[attr-defined]
            newest = max(map(json.loads, lines), key=lambda one: (one["at"], one["call"]))
            binding = str(newest["binding"])
            say(f"    answered by {binding} (only operators see this)")
            return binding
        time.sleep(0.05)
    raise SystemExit("demo: no call record was written")


last_binding.seen = 0  # type: ignore[attr-defined]


async def main_job() -> None:
    step("An agent reads a scanned invoice through ocr/v1")
    say(f"  the scan: {WORK / 'inbox' / 'invoice.pdf'} (a picture of a page, no text inside)")
    async with agent("clerk") as first:
        tools_before = await tools_digest(first)
        say(f"  tools as the model sees them: sha256 {tools_before[:16]}…")
        assert await read_invoice(first, "session 1") == "ocr-tesseract"

        step("The engine behind it is swapped: one value in one file")
        handler("rebind", "clerk", "ocr", "ocr-rapid")
        git("commit", "--quiet", "-am", "clerk: read with the other engine")
        say(
            "  (the new engine is started and must answer before it serves; meanwhile the earlier one serves)"
        )
        handler("apply", "--wait", "--timeout", str(_DEADLINE_S))

        step("The session that is open keeps its engine")
        assert await read_invoice(first, "session 1") == "ocr-tesseract"

        step("The next session uses the new one, with the same tools")
        async with agent("clerk") as second:
            tools_after = await tools_digest(second)
            same = "identical" if tools_after == tools_before else "DIFFERENT"
            say(f"  tools as the model sees them: sha256 {tools_after[:16]}… ({same})")
            assert tools_after == tools_before
            assert await read_invoice(second, "session 2") == "ocr-rapid"


def refusal() -> None:
    step("An agent whose requirement is not met is refused, with the place and the mend")
    path = WORK / "config" / "agents" / "auditor.toml"
    path.write_text(
        'apiVersion = "handler.agent/v1"\ndescription = "checks what the clerk read"\nrequires = ["ocr/v1"]\n'
    )
    said = handler("apply", check=False)
    assert said.returncode == 1
    refused = handler("session", "open", "auditor", check=False)
    assert refused.returncode == 1
    assert "agents/auditor.toml:3:" in said.stdout + said.stderr
    handler("status", check=False)


def main() -> None:
    WORK.mkdir(exist_ok=True)
    os.environ |= {
        "HANDLER_CONFIG": str(WORK / "config"),
        "HANDLER_STATE": str(WORK / "state"),
        "HANDLER_RUN": f"/tmp/handler-demo-{os.getuid()}",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    for old in ("sessions", "calls", "admitted", "status", "events.jsonl"):
        target = WORK / "state" / old
        shutil.rmtree(target, ignore_errors=True) if target.is_dir() else target.unlink(missing_ok=True)
    step("A configuration: a small git repository of TOML")
    lay_out()
    handler("validate")
    with controller():
        say("  (the first time, the second engine's packages are fetched now: about 150 MB)")
        handler("apply", "--wait", "--timeout", str(_DEADLINE_S))
        handler("status")
        asyncio.run(main_job())
        refusal()
        step("Clean stop")
    say("\nThe agent's client, its tools and its prompt never changed; one line of TOML did.")


if __name__ == "__main__":
    main()
