"""A whole Handler in a temporary folder: a configuration, a controller, the commands, for whole-way tests."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from reconciler.doors import lines
from reconciler.runtime import leftovers
from tests.kit import hatched

Daemon = subprocess.Popen[bytes] | hatched.Hatched
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
FIXTURES = ROOT / "catalog" / "interfaces" / "ocr" / "v1" / "conformance"


class House:
    """One configuration with its own state and run folders. Files are written as a person would save them."""

    def __init__(self, folder: Path, run: Path) -> None:
        self.config = folder / "config"
        self.state = folder / "state"
        self.run = run
        self.inbox = folder / "inbox"
        for made in (self.config, self.inbox):
            made.mkdir()
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HANDLER_")},
            "HANDLER_CONFIG": str(self.config),
            "HANDLER_STATE": str(self.state),
            "HANDLER_RUN": str(run),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "NO_COLOR": "1",
        }
        self.daemon: Daemon | None = None

    def write(self, path: str, text: str) -> None:
        """Save a file by rename, as editors do."""
        target = self.config / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.swp")
        temporary.write_text(text)
        temporary.rename(target)

    def handler(self, *words: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        done = (
            self._run(list(words))
            if hatched.can(self.env) and not more
            else subprocess.run(
                [BIN / "handler", *words],
                env=self.env,
                cwd=self.inbox,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
                **more,
            )
        )
        assert "Traceback" not in done.stderr, done.stderr
        if check:
            assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """``subprocess.run`` of the command, begun by the worker's brooder."""
        args = [str(BIN / "handler"), *words]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = hatched.begun(args, self.env, self.inbox, out, err)
            try:
                code = process.wait(120)
            finally:
                process.kill()
            texts = []
            for said in (out, err):
                said.seek(0)
                texts.append(said.read())
        return subprocess.CompletedProcess(args, code, *texts)

    def start(self) -> Daemon:
        """Start the controller and wait until it answers."""
        daemon = self.launch()
        wait_for(self.answers, "the controller answers")
        return daemon

    def answers(self) -> bool:
        """Whether a controller answers, asked as the commands ask but without a process for each try."""
        line = None
        try:
            line = lines.Line(f"{self.run}/control.sock")
            line.ask("hello", {}, 30.0)
        except (OSError, lines.Fault, lines.Late, lines.Lost):
            return False
        finally:
            if line is not None:
                line.close()
        return True

    def launch(self, *before: str) -> Daemon:
        """Start the controller and do not wait for it; ``before`` is the command that becomes it."""
        with (self.state.parent / "handlerd.log").open("ab") as log:
            if not before and hatched.can(self.env):
                self.daemon = hatched.begun([str(BIN / "handlerd")], self.env, self.config, log, log)
            else:
                self.daemon = subprocess.Popen(
                    [*before, BIN / "handlerd"], env=self.env, cwd=self.config, stdout=log, stderr=log
                )
        return self.daemon

    def kill(self) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def stop(self) -> int:
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGTERM)
        return self.daemon.wait(timeout=30)

    def status(self, kind: str, name: str) -> dict[str, Any]:
        """One object's status file; {} when there is none."""
        path = self.state / "status" / kind / f"{name}.json"
        found: dict[str, Any] = orjson.loads(path.read_bytes()) if path.exists() else {}
        return found

    def condition(self, kind: str, name: str, wanted: str) -> dict[str, Any]:
        conditions = self.status(kind, name).get("conditions", [])
        return next((one for one in conditions if one["type"] == wanted), {})

    def calls(self, since: float = 0.0) -> list[dict[str, Any]]:
        """Every call's record, in the order of their ends; ``since`` (``time.time()``): of those that ended
        then or later. Records are written late: a count of those before cuts off what came between.
        """
        files = sorted((self.state / "calls").glob("*.jsonl"))
        found = [orjson.loads(line) for path in files for line in path.read_bytes().splitlines()]
        made = [one for one in found if datetime.fromisoformat(one["at"]).timestamp() >= since]
        return sorted(made, key=lambda one: (one["at"], one["call"]))

    def processes(self) -> list[str]:
        """Every process that belongs to this house: its controller, bridges and sandboxes."""
        owner = hashlib.sha256(os.fsencode(self.state.resolve())).hexdigest()[:12]
        marks = (str(self.run), str(self.state), leftovers.label(owner, ""))
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if any(mark in line for mark in marks):
                        found.append(f"{entry.name} {line[:120]}")
        return found


def wait_for(happened: Callable[[], bool], what: str, seconds: float = 90) -> None:
    """Wait until something is so; fails with the words of what was awaited."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def house(folder: Path) -> Iterator[House]:
    """A house that leaves nothing: whatever still runs at the end is stopped."""
    run = Path(f"/tmp/handler-t{os.getpid()}-{time.monotonic_ns() % 10**9}")
    made = House(folder, run)
    try:
        yield made
    finally:
        if made.daemon is not None and made.daemon.poll() is None:
            made.stop()
        shutil.rmtree(run, ignore_errors=True)
