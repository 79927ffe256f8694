"""Jobs by a dialect's driver, from the submit to the file, by the real relay, against a server."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.attempts import parcels
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import Attempt, State
from reconciler.control import sealedpaper
from reconciler.control.dialectjobs import NAME, RUNTIMES, DialectRunner
from reconciler.control.dialects import Dialects
from reconciler.control.effects import LedgerEffects
from reconciler.control.jobs import LedgerJobs
from reconciler.control.permitting import Permitting
from reconciler.control.runners import Registry
from reconciler.control.spoken import Mapped, Spoken
from reconciler.control.transmitting import Outside, Speaker
from reconciler.egress.permits import Permit, Permits
from reconciler.model.effects import Intent
from reconciler.model.jobs import JobSeen
from reconciler.model.names import InstanceName
from reconciler.model.recipes import Recipe, SandboxPolicy
from reconciler.model.sealed import Reply, Sealed
from reconciler.runtime.resolving import Resolver
from tests.control.test_jobs import film
from tests.kit import dialects, vendors
from tests.kit.vendors import Vendor, vendor
from tests.router import stage

pytestmark = pytest.mark.slow

RECIPE = Recipe("studio", "studio", NAME, "0" * 64, "", "", (), (), (), (), SandboxPolicy(), "none", "0" * 64)
FILM = replace(stage.route(film()), binding="studio", instance=RECIPE.name)
MAPPED = Mapped("create", "{prompt: text}", "{url: 'here'}", errors={"moderation_blocked": "blocked"})


class Way:
    """Sends to the server, where the permit is for that very request."""

    def __init__(self, permits: Permits) -> None:
        self.permits = permits

    async def send(self, sealed: Sealed, permit: Permit, *, timeout_s: float) -> Reply:
        self.permits.take(permit.id, RECIPE.name, sealed.wire_digest, time.monotonic())
        return await asyncio.to_thread(vendors.send, sealed)

    def close(self) -> None:
        pass


class Studio:
    """A controller's jobs over one server."""

    def __init__(self, root: Path, far: Vendor, server: str) -> None:
        profile = dialects.named(server, far.base)
        permits = Permits()
        permitting = Permitting(cast(Any, SimpleNamespace(policy=None)), permits, time.monotonic)
        outside = Outside(
            lambda recipe, gated, folder: cast(Any, Way(permits)), permits, permitting, Resolver(), root / "d"
        )
        spoken = Spoken(RECIPE, (profile,), {"film_make_submit": MAPPED}, far.base)
        self.outside = replace(outside, barred=lambda name: "" if self.recipes else "it is not declared")
        self.speaker: Speaker | None = Speaker(spoken, outside)
        speakers = cast(Dialects, SimpleNamespace(outside=self.outside, speaker=lambda name: self.speaker))
        self.at = 1_800_000_000.0
        self.effects = LedgerEffects(root, self.now)
        self.recipes: dict[InstanceName, Recipe] = {RECIPE.name: RECIPE}
        runners = Registry(self.recipes.get)
        self.jobs = LedgerJobs(self.effects, self.now, runners)
        runners.register(NAME, DialectRunner(speakers, root, self.jobs.staging, self.now), RUNTIMES)

    def now(self) -> float:
        self.at += 1.0  # time flies: whatever is due later is due
        return self.at

    async def ask(self, what: Any, **arguments: Any) -> Any:
        heard: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        tool = FILM.contract.tools[f"film_make_{'submit' if what == 'job' else what}"]
        self.jobs.ask(what, Intent("clerk", "s1", FILM, tool, arguments, (), 60.0), heard.set_result)
        return await asyncio.wait_for(heard, 30)

    async def until(self, handle: str, state: str) -> JobSeen:
        async with asyncio.timeout(90):
            while (seen := await self.ask("status", job=handle)).state != state:
                await asyncio.sleep(0.02)
        found: JobSeen = seen
        return found


def played(root: Path, far: Vendor, server: str, play: Callable[[Studio], Any]) -> None:
    async def run() -> None:
        studio = Studio(root, far, server)
        await studio.effects.start()
        tending = asyncio.create_task(studio.jobs.run())
        try:
            await play(studio)
        finally:
            tending.cancel()
            await asyncio.gather(tending, return_exceptions=True)
            await studio.effects.close()

    asyncio.run(run())


def newest(root: Path) -> Attempt:
    ledger = Ledger.read(root)
    try:
        return max(ledger.listing(100), key=lambda one: one.id)
    finally:
        ledger.close()


SERVER = dialects.VIDEO_SERVERS[0]


def test_a_film_is_submitted_once_and_collected_by_whoever_comes_later(tmp_path: Path) -> None:
    with vendor() as far:

        async def begin(studio: Studio) -> None:
            seen = await studio.ask("job", text="a lake")
            handles.append(seen.handle)
            async with asyncio.timeout(90):
                while newest(tmp_path).state is not State.RUNNING:
                    await asyncio.sleep(0.02)

        async def collect(studio: Studio) -> None:
            next(iter(far.jobs.values()))["status"] = "completed"
            await studio.until(handles[0], "succeeded")
            result = await studio.ask("result", job=handles[0])
            assert result.structured == b'{"url":"here"}'

        handles: list[str] = []
        played(tmp_path, far, SERVER, begin)
        played(tmp_path, far, SERVER, collect)  # another controller: all that is needed lies in the paper
        one = newest(tmp_path)
        assert (one.transmissions, one.provider.job_id, one.execution.executor) == (1, "video_1", NAME)
        assert len([sent for sent in far.received if sent.method == "POST"]) == 1
        kept = parcels.opened(tmp_path / "attempts" / "results" / one.ended.result_ref)
        assert kept.said == {"url": "here"}


@pytest.mark.parametrize("now_is", ["bumped", "gone"])
def test_a_job_is_asked_about_by_what_it_was_made_with(tmp_path: Path, now_is: str) -> None:
    """Its profile has another revision by now, with other routes; its binding is deleted."""
    with vendor() as far:

        async def begin(studio: Studio) -> None:
            handles.append((await studio.ask("job", text="a lake")).handle)
            async with asyncio.timeout(90):
                while newest(tmp_path).state is not State.RUNNING:
                    await asyncio.sleep(0.02)

        async def collect(studio: Studio) -> None:
            if now_is == "gone":
                studio.speaker = None
                studio.recipes.clear()
            else:
                elsewhere = "http://127.0.0.1:9/v2"
                newer = (dialects.named("videos.gateway", elsewhere),)
                studio.speaker = Speaker(Spoken(RECIPE, newer, {}, elsewhere), studio.outside)
            next(iter(far.jobs.values()))["status"] = "completed"
            await studio.until(handles[0], "succeeded")

        handles: list[str] = []
        played(tmp_path, far, SERVER, begin)
        played(tmp_path, far, SERVER, collect)
        assert newest(tmp_path).transmissions == 1


def test_what_may_have_been_taken_is_unknown_and_what_was_refused_is_over(tmp_path: Path) -> None:
    with vendor() as far:

        async def play(studio: Studio) -> None:
            far.manner = "status-400"
            seen = await studio.ask("job", text="a lake")
            await studio.until(seen.handle, "failed")
            assert newest(tmp_path).ended.effect == "none"
            far.manner = "garbage"
            seen = await studio.ask("job", text="a hill")
            await studio.until(seen.handle, "unknown")
            sent = [one for one in far.received if one.method == "POST"]
            assert len(sent) == 2
            assert (newest(tmp_path).state, newest(tmp_path).transmissions) == (State.INDETERMINATE, 1)

        played(tmp_path, far, SERVER, play)


def test_what_a_profile_does_not_state_makes_no_job(tmp_path: Path) -> None:
    with vendor() as far:

        async def play(studio: Studio) -> None:
            said = await studio.ask("job", text=None)
            assert said.code == "invalid_input"
            assert far.received == []

        played(tmp_path, far, SERVER, play)


def test_a_sealed_request_is_read_back_whole_or_not_at_all() -> None:
    sealed = Sealed("POST", "https://x.test:443", "/v1/x", (("a", "b"),), b'{"p":1}\n\x00', None, "sha256:0")
    with pytest.raises(ValueError, match="not the one"):
        sealedpaper.sealed_of(sealedpaper.packed(sealed))
    true = replace(sealed, wire_digest=vendors_digest(sealed))
    assert sealedpaper.sealed_of(sealedpaper.packed(true)) == true
    with pytest.raises((ValueError, KeyError, TypeError)):
        sealedpaper.job_of(sealedpaper.packed(true))


def vendors_digest(sealed: Sealed) -> str:
    from reconciler.model.sealed import wire_digest

    return wire_digest((sealed.method, sealed.origin, sealed.target), sealed.headers, sealed.body)
