"""Every profile that ships is spoken by its driver, and a driver reads nothing but facts of its profile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli

from reconciler.drivers import roll
from reconciler.drivers.asking import Call, Job
from reconciler.model.admitting import admit
from reconciler.model.dialect import Profile
from reconciler.model.forms import Record
from reconciler.model.outcome import Media
from reconciler.model.sealed import Reply
from reconciler.model.turns import Image, Message, Text, ToolResult, ToolSpec, ToolUse, Turn
from tests.kit import dialects
from tests.kit.vendors import PNG, WAV

CATALOG = Path(__file__).resolve().parents[2] / "catalog" / "profiles"
SHIPPED = sorted(CATALOG.glob("*/*/profile.toml"))
EVENTS = {"content-type": "text/event-stream"}


class Watched:
    """A record that is read as the real one is, and remembers which of its keys were."""

    def __init__(self, real: Any, seen: set[str], path: str = "") -> None:
        self._real, self._seen, self._path = real, seen, path

    def __getattr__(self, name: str) -> Any:
        keys = {key.field for key in type(self._real).record_keys}
        if name == "operation" and isinstance(self._real, Profile):
            return lambda wanted: next((one for one in self.operations if one.name == wanted), None)
        assert name in keys, f"{self._path}{name} is no fact"
        self._seen.add(f"{self._path}{name}")
        return self._shown(getattr(self._real, name), f"{self._path}{name}.")

    def _shown(self, value: Any, path: str) -> Any:
        if isinstance(value, Record):
            return Watched(value, self._seen, path)
        if isinstance(value, tuple):
            return tuple(self._shown(one, path) for one in value)
        if isinstance(value, dict):
            return {key: self._shown(one, path) for key, one in value.items()}
        return value


def _profiles() -> Iterator[Any]:
    for path in SHIPPED:
        yield pytest.param(Profile.model_validate(tomli.loads(path.read_text())), id=path.parts[-3])
    for name in dialects.NAMES:
        yield pytest.param(dialects.named(name), id=f"test {name}")


def _call(profile: Profile, name: str) -> Call:
    """The smallest call of an operation: its required fields, each with a value of its type."""
    operation = profile.operation(name)
    assert operation is not None
    fields: dict[str, object] = {}
    files: dict[str, tuple[Media, ...]] = {}
    kinds = [one.type for one in profile.media.in_ if not one.operations or name in one.operations]
    for field in operation.required:
        fact = operation.fields[field]
        if fact.type == "file" or field == "image[]":
            kind = kinds[0]
            files[field] = (Media(kind, WAV if kind.startswith("audio") else PNG),)
        elif field == "model":
            fields[field] = (profile.identity.models or ("any",))[0]
        elif fact.enum:
            fields[field] = fact.enum[0]
        else:
            fields[field] = {"string": "x", "integer": 1, "array": ["x"]}.get(fact.type, {})
    base = "http://127.0.0.1:9/v1" if profile.transport.base == "binding" else None
    return Call("c", name, fields, files, base, key="k" * 40, tag="t")


def _run(profile: Any, real: Profile) -> None:
    """Everything that its driver can do, with answers that it can and cannot read."""
    name = real.identity.driver
    replies = [Reply(status, {}, body) for status in (200, 404, 429, 500) for body in (b"{}", b"junk")]
    for operation in real.operations:
        call = _call(real, operation.name)
        if driver := roll.CALLS.get(name):
            assert driver.seal(call, profile).is_whole()
            for reply in replies:
                driver.read(reply, call, profile)
            if decoder := driver.decoder(Reply(200, EVENTS), call, profile):
                decoder.feed(b'event: error\ndata: {"error":{}}\n\n')
                decoder.close()
        if jobs := roll.JOBS.get(name):
            _run_job(jobs, profile, call, replies)
    if model := roll.MODELS.get(name):
        _run_turn(model, profile, real, replies)


def _run_job(jobs: Any, profile: Any, call: Call, replies: list[Reply]) -> None:
    assert jobs.seal_submit(call, profile).is_whole()
    job = Job("c", call.operation, "job-1", call.key, call.tag, call.base)
    assert jobs.seal_lookup(job, profile, "job-id").is_whole()
    jobs.seal_cancel(job, profile)
    assert jobs.seal_fetch(job, "video", profile).is_whole()
    for reply in replies:
        jobs.read_submit(reply, call, profile)
        jobs.read_cancel(reply, job, profile)
        jobs.read_fetch(reply, job, "video", profile)
        for by in ("job-id", "key", "tag"):
            jobs.read_lookup(reply, job, profile, by)


def _run_turn(model: Any, profile: Any, real: Profile, replies: list[Reply]) -> None:
    name = (real.identity.models or ("any",))[0]
    model.facts(profile, name)
    turn = Turn(name, (Message("system", (Text("a"),)), Message("user", (Text("b"),))), max_tokens=64)
    base = "http://127.0.0.1:9/v1" if real.transport.base == "binding" else None
    call = model.call_of(turn, "c", profile, base)
    assert model.seal(call, profile).is_whole()
    assert not admit(real, call.operation, call.fields)
    if model.facts(profile, name).stream:
        streamed = model.call_of(replace(turn, stream=True), "c", profile, base)
        assert model.seal(streamed, profile).stream is not None
        decoder = model.turn_decoder(Reply(200, EVENTS), turn, profile)
        decoder.feed(b"data: {}\n\n")
        decoder.close()
    for reply in replies:
        model.read_turn(reply, turn, profile)


@pytest.mark.parametrize("profile", list(_profiles()))
def test_a_driver_speaks_its_profile_and_reads_only_facts_of_it(profile: Profile) -> None:
    assert profile.identity.driver in {*roll.CALLS, *roll.JOBS, *roll.MODELS}
    seen: set[str] = set()
    _run(Watched(profile, seen), profile)
    assert {"transport.base", "transport.headers", "operations.fields", "operations.path"} <= seen


def test_what_is_no_fact_cannot_be_read() -> None:
    with pytest.raises(AssertionError, match="surprise"):
        _ = Watched(dialects.named("chat"), set()).surprise


@pytest.mark.parametrize("profile", list(_profiles()))
def test_a_turn_that_uses_all_that_is_stated_is_within_the_profile(profile: Profile) -> None:
    model = roll.MODELS.get(profile.identity.driver)
    if model is None:
        return
    name = (profile.identity.models or ("any",))[0]
    facts = model.facts(profile, name)
    shown = (Text("What is this?"), *((Image("image/png", PNG),) if facts.vision else ()))
    turn = Turn(
        name,
        (
            Message("developer", (Text("Be kind."),)),
            Message("user", shown),
            Message("assistant", (ToolUse("c1", "add", "{}"),)),
            Message("tool", (ToolResult("c1", "4"),)),
        ),
        tools=(ToolSpec("add", "Add", {"type": "object"}),) if facts.tools else (),
        tool_choice="auto",
        max_tokens=64,
        schema={"type": "object"} if facts.json_schema else None,
        think="low" if facts.think else None,
        stream=facts.stream,
    )
    call = model.call_of(turn, "c", profile, "http://127.0.0.1:9/v1")
    assert not admit(profile, call.operation, call.fields)
    assert model.seal(call, profile).is_whole()


def test_profiles_ship() -> None:
    assert len(SHIPPED) >= 9
    spoken = {tomli.loads(path.read_text())["profile"]["driver"] for path in SHIPPED}
    assert spoken == {*roll.CALLS, *roll.JOBS, *roll.MODELS}
