"""What the shipped profiles state, their drivers can say: each operation has bytes, and no others."""

from pathlib import Path

import orjson
import pytest
import tomli

from reconciler.drivers import roll
from reconciler.drivers.asking import Call, Unsealable
from reconciler.model.admitting import admit
from reconciler.model.dialect import Operation, Profile
from reconciler.model.outcome import Media
from reconciler.model.register import Dialect
from reconciler.model.sealed import Sealed
from reconciler.model.turns import Image, Message, Text, ToolSpec, Turn
from tests.kit.recorded import recorded

CATALOG = Path(__file__).resolve().parents[2] / "catalog"
PROFILES = [
    Profile.model_validate(tomli.loads(file.read_text()))
    for file in sorted(CATALOG.glob("profiles/*/*/profile.toml"))
]
DIALECTS = {
    one.ref: one
    for file in CATALOG.glob("dialects/*/dialect.toml")
    for one in [Dialect.model_validate(tomli.loads(file.read_text()))]
}
BASE = "http://127.0.0.1:8080/v1"
PNG, WAV = b"\x89PNG\r\n", b"RIFF\x00\x00\x00\x00WAVE"
EACH = [(profile, operation) for profile in PROFILES for operation in profile.operations]
IDS = [f"{profile.ref} {operation.name}" for profile, operation in EACH]


def base(profile: Profile) -> str | None:
    return BASE if profile.transport.base == "binding" else None


def model(profile: Profile) -> str:
    return (profile.identity.models or ("some-model",))[0]


def smallest(profile: Profile, operation: Operation) -> Call:
    """The call with what is required and nothing else."""
    fields: dict[str, object] = {}
    files: dict[str, tuple[Media, ...]] = {}
    for name in operation.required:
        fact = operation.fields[name]
        if name == "model":
            fields[name] = model(profile)
        elif fact.type == "file":
            files[name] = (Media("audio/wav", WAV),)
        elif name == "image[]":
            files[name] = (Media("image/png", PNG),)
        elif fact.type == "string":
            fields[name] = (fact.enum or ("a lake",))[0]
        else:
            fields[name] = ["a lake"]
    return Call("c", operation.name, fields, files, base=base(profile), key="k" * 16, tag="t" * 16)


def sealed(profile: Profile, call: Call, operation: Operation) -> Sealed:
    name = profile.identity.driver
    if profile.identity.kind == "job":
        return roll.JOBS[name].seal_submit(call, profile)
    if profile.identity.kind == "agent-model":
        turn = Turn(model(profile), (Message("user", (Text("Hello"),)),), max_tokens=100)
        asked = roll.MODELS[name].call_of(turn, "c", profile, base(profile))
        return roll.MODELS[name].seal(asked, profile)
    return roll.CALLS[name].seal(call, profile)


def test_nine_profiles_ship_and_every_dialect_of_the_register_has_one() -> None:
    assert len(PROFILES) >= 9
    assert {one.identity.dialect for one in PROFILES} == set(DIALECTS)
    assert len(DIALECTS) == 7


@pytest.mark.parametrize(("profile", "operation"), EACH, ids=IDS)
def test_the_smallest_call_of_each_operation_is_within_it_and_has_bytes(
    profile: Profile, operation: Operation
) -> None:
    watched, read = recorded(profile)
    call = smallest(profile, operation)
    request = sealed(watched, call, operation)
    if profile.identity.kind != "agent-model":
        fields = {**call.fields, **{name: list(files) for name, files in call.files.items()}}
        fields |= {name: files[0] for name, files in call.files.items() if name != "image[]"}
        assert admit(profile, operation.name, fields) == ()
    assert (request.method, request.target.rpartition("/v1")[2]) == (operation.method, operation.path)
    stated = {*profile.transport.headers, "content-type", "accept", "content-length", "user-agent"}
    assert {name for name, _ in request.headers} <= stated
    assert f"operation[{profile.operations.index(operation)}].path" in read  # by its facts, and no others


@pytest.mark.parametrize("profile", PROFILES, ids=lambda one: one.ref)
def test_a_field_that_is_not_stated_has_no_bytes(profile: Profile) -> None:
    operation = profile.operations[0]
    call = smallest(profile, operation)
    odd = Call(call.id, call.operation, {**call.fields, "extra_body": 1}, call.files, base=call.base)
    seal = roll.JOBS[profile.identity.driver].seal_submit if profile.identity.kind == "job" else None
    with pytest.raises(Unsealable) as told:
        (seal or roll.CALLS[profile.identity.driver].seal)(odd, profile)
    assert told.value.fact == "field.extra_body"
    assert admit(profile, operation.name, {"extra_body": 1})[0].fact == "field.extra_body"


MODELS = [one for one in PROFILES if one.identity.kind == "agent-model"]


@pytest.mark.parametrize("profile", MODELS, ids=lambda one: one.ref)
def test_a_model_is_asked_for_what_its_profile_states_and_for_nothing_else(profile: Profile) -> None:
    driver, name = roll.MODELS[profile.identity.driver], model(profile)
    facts = driver.facts(profile, name)
    assert facts.tools
    assert facts.stream
    spec = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
    plain = Turn(name, (Message("user", (Text("Hello"),)),), tools=(spec,), max_tokens=100, stream=True)
    body = driver.seal(driver.call_of(plain, "c", profile, base(profile)), profile).body
    assert isinstance(body, bytes)
    sent = orjson.loads(body)
    assert sent["model"] == name
    assert sent["stream"] is True
    operation = profile.operations[0]
    assert sent.keys() <= operation.fields.keys() | {path.partition(".")[0] for path in operation.stream.ask}
    picture = Turn(name, (Message("user", (Image("image/png", PNG),)),), max_tokens=100)
    if facts.vision:
        driver.call_of(picture, "c", profile, base(profile))
    else:
        with pytest.raises(Unsealable):
            driver.call_of(picture, "c", profile, base(profile))
