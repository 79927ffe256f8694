"""The life of connectors as processes: one start for all, idle stop, back-off, drain, nothing left."""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from reconciler.model import loglines
from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import host
from reconciler.runtime.process import Process
from reconciler.runtime.supervisor import Altered, Unready
from tests.kit.processes import descendants
from tests.runtime.rig import OBEDIENT, PATIENCE_S, Rig, pinned, recipe, rig, run

pytestmark = pytest.mark.slow

DIES = pinned(b"import os; os._exit(3)")
SILENT = pinned(b"import time; time.sleep(60)")
STUBBORN = pinned(b"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + OBEDIENT)


def play(story: Callable[[Rig], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60):
            async with rig() as made:
                await story(made)

    asyncio.run(whole())


async def until(true: Callable[[], bool]) -> None:
    """Give the loop turns until something is true; there is no other signal for it."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)


def test_two_hundred_first_calls_start_one_process() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        assert made.phase(name).phase == "declared"
        endpoints = await asyncio.gather(*(made.supervisor.ready(name) for _ in range(200)))
        assert len({endpoint.pid for endpoint in endpoints}) == 1
        sandboxes = [one for one in descendants() if b"handler-sandbox" in cmdline(one)]
        assert len(sandboxes) == 2  # bubblewrap and the first process of its namespace
        assert made.phase(name).restarts == 0

    play(story)


def test_a_setting_reaches_no_folder_of_ours_through_a_link() -> None:
    async def story(made: Rig) -> None:
        for number, ours in enumerate(("state", "run", "state/objects")):
            link = made.base / f"documents{number}"
            link.symlink_to(made.base / ours)
            name = await made.declare(f"b{number}", folders=(("docs", str(link)),))
            with pytest.raises(Unready, match="Handler's own files lie there"):
                await made.supervisor.ready(name)

    play(story)


def test_what_is_observed_at_once_is_what_is_seen_of_each() -> None:
    async def story(made: Rig) -> None:
        kept, name = made.supervisor.observed(), await made.declare()
        seen = made.supervisor.observed()
        assert str(name) in seen
        assert not kept, "what was observed before is not edited"
        assert made.supervisor.lively() == ()
        await made.supervisor.ready(name)
        assert made.supervisor.observed() == {str(name): made.phase(name)}
        assert made.supervisor.lively() == (made.phase(name),)
        assert seen[str(name)].phase == "declared"
        await made.supervisor.retire(name)
        assert made.supervisor.observed() == {}
        assert made.supervisor.observe() == made.supervisor.lively() == ()

    play(story)


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_first_call_waits_in_the_backlog_while_the_interpreter_starts() -> None:
    async def story(made: Rig) -> None:
        slow = pinned(b"import time; time.sleep(0.3)\n" + OBEDIENT)
        name = await made.declare(code=slow)
        _, line = await made.open(name)
        assert await run(line, "answer = 1 + 1") == 2

    play(story)


def test_an_idle_process_stops_and_the_next_call_starts_another() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare(idle_stop_s=0.2)
        first, _ = await made.open(name)
        assert made.phase(name).phase == "idle"
        assert await asyncio.wait_for(asyncio.shield(first.ended), PATIENCE_S) == "signal 15"
        await until(lambda: made.phase(name).phase == "declared")
        assert made.phase(name).reason is None
        second, _ = await made.open(name)
        assert second.pid != first.pid

    play(story)


def test_a_held_process_does_not_stop_for_being_idle() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare(idle_stop_s=0.05)
        endpoint, line = await made.open(name)
        made.supervisor.hold(name)
        assert await run(line, "import time; time.sleep(0.3); answer = 'done'") == "done"
        assert made.phase(name).phase == "ready"
        assert made.phase(name).calls == 1
        made.supervisor.release(name)
        await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S)

    play(story)


def test_what_never_answers_is_ended_in_time_and_says_so() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare(code=SILENT, ready_timeout_s=0.3)
        endpoint = await made.supervisor.ready(name)
        await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S)
        await until(lambda: made.phase(name).phase == "failed")
        assert made.phase(name).reason == "StartTimeout"
        assert "0.3 s" in made.phase(name).message
        again = await made.supervisor.ready(name)  # the first back-off is waited for
        assert again.pid != endpoint.pid

    play(story)


def test_five_ends_within_a_minute_are_a_crash_loop() -> None:
    async def story(made: Rig) -> None:
        name, other = await made.declare("dies", code=DIES), await made.declare("lives")
        for _ in range(5):
            endpoint = await made.supervisor.ready(name)
            assert await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S) == "exit 3"
            await until(lambda: made.phase(name).phase == "failed")
        seen = made.phase(name)
        assert (seen.reason, seen.last_exit, seen.restarts) == ("CrashLoop", "exit 3", 4)
        with pytest.raises(Unready, match="may start again in") as refused:
            await made.supervisor.ready(name)
        assert refused.value.reason == "CrashLoop"
        assert await made.run(other, "answer = 'untouched'") == "untouched"

    play(story)


def test_what_our_own_program_in_front_says_of_a_start_that_failed_is_told() -> None:
    says = b"""import sys
print("handler: the server has no tool scan; it has say", file=sys.stderr, flush=True)
print("bye", file=sys.stderr, flush=True)
sys.exit(3)
"""

    async def story(made: Rig) -> None:
        for code, why in ((pinned(says), "the server has no tool scan; it has say; "), (DIES, "")):
            name = await made.declare("dies", code=code)
            endpoint = await made.supervisor.ready(name)
            await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S)
            await until(lambda name=name: made.phase(name).phase == "failed")  # type: ignore[misc]
            words = f"its process ended with exit 3: {why}`handler logs dies` says more"
            assert made.phase(name).message == words

    play(story)


def test_what_ends_before_it_is_looked_at_ended_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(made: Rig) -> None:
        name = await made.declare("dies", code=DIES)
        endpoint = await made.supervisor.ready(name)
        await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S)
        await until(lambda: made.phase(name).phase == "failed")
        assert made.phase(name).message == "its process ended with exit 3: `handler logs dies` says more"

    def gone(_: Process) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(Process, "outbox", gone)
    play(story)


def test_a_killed_connector_is_started_again_by_the_next_call() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        endpoint, _ = await made.open(name)
        os.kill(max(descendants(endpoint.pid)), signal.SIGKILL)
        assert await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S) == "signal 9"
        with pytest.raises(ConnectionRefusedError):
            endpoint.connect()
        assert await made.run(name, "answer = 'again'") == "again"
        assert made.phase(name).restarts == 1
        assert made.phase(name).last_exit == "signal 9"

    play(story)


def test_a_connector_that_others_kill_is_not_taken_for_one_in_a_crash_loop() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        for turn in range(6):
            endpoint, _ = await made.open(name)
            os.kill(endpoint.pid, signal.SIGKILL if turn % 2 else signal.SIGTERM)
            await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S)
            await until(lambda: made.phase(name).phase == "failed")
            seen = made.phase(name)
            assert (seen.reason, seen.killed, seen.vanished) == (None, True, True), seen
            assert "from outside, with signal" in seen.message
        assert await made.run(name, "answer = 'again'") == "again"
        assert (made.phase(name).restarts, made.phase(name).killed) == (6, False)

    play(story)


def test_starts_and_stops_leave_no_descriptor_and_no_process() -> None:
    async def story(made: Rig) -> None:
        async def once() -> None:
            name = await made.declare()
            await made.supervisor.ready(name)
            await made.supervisor.retire(name)

        await once()
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(10):
            await once()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        assert descendants() == set()
        assert list((made.base / "run" / "i").iterdir()) == []

    play(story)


def test_a_stubborn_connector_is_ended_after_its_grace() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare(code=STUBBORN)
        endpoint, _ = await made.open(name)
        await asyncio.wait_for(made.supervisor.retire(name), PATIENCE_S)
        assert endpoint.ended.result() == "signal 9"

    play(story)


def test_retiring_waits_for_the_call_that_runs_and_takes_no_new_one() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        _, line = await made.open(name)
        made.supervisor.hold(name)
        retired = asyncio.create_task(made.supervisor.retire(name))
        await asyncio.sleep(0)
        assert made.phase(name).phase == "draining"
        with pytest.raises(Unready) as refused:
            await made.supervisor.ready(name)
        assert refused.value.reason == "Draining"
        assert await run(line, "answer = 'finished'") == "finished"
        assert not retired.done()
        made.supervisor.release(name)
        await asyncio.wait_for(retired, PATIENCE_S)
        assert made.supervisor.observe() == ()
        assert list((made.base / "state" / "objects").glob("[0-9a-f]*")) == []

    play(story)


def test_what_is_declared_again_while_it_drains_stays() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        endpoint, line = await made.open(name)
        made.supervisor.hold(name)
        retired = asyncio.create_task(made.supervisor.retire(name))
        await asyncio.sleep(0)
        assert await made.declare() == name
        made.supervisor.release(name)
        assert (await made.supervisor.ready(name)).pid == endpoint.pid
        assert await run(line, "answer = 1") == 1
        retired.cancel()

    play(story)


def test_code_is_pinned_so_that_an_edit_changes_nothing_that_is_declared() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare(code=pinned(words=b"as it was"))
        newer = await made.declare(code=pinned(words=b"as it is"))
        assert name != newer
        read = "answer = open('/app/words').read()"
        assert [await made.run(one, read) for one in (name, newer)] == ["as it was", "as it is"]
        await made.supervisor.retire(newer)
        assert await made.run(name, read) == "as it was"

    play(story)


def test_pinned_code_serves_a_session_of_an_earlier_controller() -> None:
    async def story(made: Rig) -> None:
        code = pinned()
        name = await made.supervisor.declare(recipe(code=code.digest), None)
        with pytest.raises(Unready, match="pinned code is gone"):
            await made.supervisor.ready(name)
        made.supervisor._objects.pin(code.digest, code.files)
        await until(
            lambda: made.supervisor._units[name]._state.wait_s(asyncio.get_running_loop().time()) == 0
        )
        assert await made.run(name, "answer = 'served'") == "served"
        assert made.supervisor.prune() == ()

    play(story)


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"runtime": "builtin"}, "ReconcileError", "have no process here"),
        ({"settings": (("LD_PRELOAD", "/app/x.so"),)}, "ReconcileError", "LD_PRELOAD"),
        ({"sandbox": SandboxPolicy(programs=("no-such-program",))}, "SandboxUnavailable", "no-such-program"),
        ({"sandbox": SandboxPolicy(read=("/etc",))}, "SandboxUnavailable", "wider"),
    ],
)
def test_what_cannot_start_says_why(changes: dict[str, object], reason: str, words: str) -> None:
    async def story(made: Rig) -> None:
        name = await made.declare(**changes)
        with pytest.raises(Unready, match=words) as refused:
            await made.supervisor.ready(name)
        assert refused.value.reason == reason
        assert made.phase(name).phase == "failed"
        assert descendants() == set()

    play(story)


def test_without_a_sandbox_nothing_starts_and_with_one_again_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    found = host.survey()

    async def story(made: Rig) -> None:
        def lost() -> None:
            raise host.Missing("bubblewrap is not installed: install the package bubblewrap")

        monkeypatch.setattr(host, "survey", lost)
        name = await made.declare()
        with pytest.raises(Unready, match="bubblewrap") as refused:
            await made.supervisor.ready(name)
        assert refused.value.reason == "SandboxUnavailable"
        assert descendants() == set()
        monkeypatch.setattr(host, "survey", lambda: found)
        assert await made.run(name, "answer = 'contained'") == "contained"

    play(story)


def test_a_broken_connector_is_ended_with_the_reason_that_was_given() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        endpoint, _ = await made.open(name)
        made.supervisor.broken(name, "InternalError", "20 lines without meaning")
        await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S)
        await until(lambda: made.phase(name).phase == "failed")
        assert (made.phase(name).reason, made.phase(name).message) == (
            "InternalError",
            "20 lines without meaning",
        )

    play(story)


def test_what_a_connector_prints_is_kept_in_a_ring() -> None:
    async def story(made: Rig) -> None:
        loud = pinned(b"print('\\x1b[31mhello', flush=True)\nprint('x' * 3_000_000, flush=True)\n" + OBEDIENT)
        name = await made.declare(code=loud)
        assert await made.run(name, "answer = 'served all the same'") == "served all the same"
        logs = list((made.base / "state" / "logs").iterdir())
        assert sum(path.stat().st_size for path in logs) <= 2**20
        assert not any(b"\x1b" in path.read_bytes() for path in logs)

    play(story)


def test_what_a_connector_prints_is_in_its_log_while_it_runs() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare(code=pinned(b"print('a plain word')\n" + OBEDIENT))
        _, line = await made.open(name)
        await run(line, "print('another'); answer = 0")

        def told() -> list[tuple[str, bool, str]]:
            text = "".join(path.read_text() for path in (made.base / "state" / "logs").iterdir())
            return [(line.digest, line.begins, line.text) for line in loglines.lines(text)]

        digest = str(name).rpartition("@")[2]
        await until(lambda: told() == [(digest, True, "a plain word"), (digest, False, "another")])
        assert not made.seen[-1].last_exit, "it was not stopped for it"

    play(story)


def test_events_tell_each_phase_once() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        _, line = await made.open(name)
        for _ in range(5):
            made.supervisor.hold(name)
            await run(line, "answer = 0")
            made.supervisor.release(name)
        phases = [seen.phase for seen in made.seen]
        assert phases == ["starting", "starting", "idle"]
        assert made.seen[-1].walls["system calls"] == "filtered"
        assert made.seen[-1].pid is not None

    play(story)


def test_a_supervisor_lives_in_the_main_thread() -> None:
    async def elsewhere() -> None:
        async with rig():
            pass

    async def whole() -> None:
        with pytest.raises(Exception, match="main thread"):
            await asyncio.to_thread(lambda: asyncio.run(elsewhere()))

    asyncio.run(whole())


def test_it_runs_on_uvloop_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def whole() -> None:
        async with rig() as made:
            name = await made.declare(idle_stop_s=0.1)
            endpoint, line = await made.open(name)
            assert await run(line, "answer = 'fast'") == "fast"
            await asyncio.wait_for(asyncio.shield(endpoint.ended), PATIENCE_S)

    uvloop.run(whole())


def test_unknown_names_are_answered() -> None:
    async def story(made: Rig) -> None:
        unknown = recipe().name
        with pytest.raises(Unready, match="not declared"):
            await made.supervisor.ready(unknown)
        await made.supervisor.retire(unknown)

    play(story)


def test_what_was_changed_under_an_instance_is_found_and_its_process_replaced_between_calls() -> None:
    async def story(made: Rig) -> None:
        name = await made.declare()
        code = pinned()
        assert await made.supervisor.altered() == Altered()
        endpoint, line = await made.open(name)
        assert await made.supervisor.altered() == Altered()
        place = made.base / "state/objects" / code.digest
        (place / "main.py").chmod(0o644)
        (place / "main.py").write_bytes(b"evil")
        shutil.rmtree(made.base / "run/i" / str(name))
        found = await made.supervisor.altered()
        assert (found.code, found.cut_off) == ({code.digest}, {name})
        await made.supervisor.repin(code)
        assert (place / "main.py").read_bytes() == code.files["main.py"]
        made.supervisor.hold(name)
        made.supervisor.renew(name)
        assert await run(line, "answer = 1") == 1, "a call that runs is not cut off"
        made.supervisor.release(name)
        async with asyncio.timeout(PATIENCE_S):
            await endpoint.ended
        other, _ = await made.open(name)
        assert other.pid != endpoint.pid
        assert await made.supervisor.altered() == Altered()
        assert (made.phase(name).restarts, made.phase(name).vanished) == (0, False), "we ended it"
        os.kill(other.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            await other.ended
        assert made.phase(name).vanished
        await made.open(name)
        assert not made.phase(name).vanished

    play(story)
