"""handler profile, and handler lock for profiles: what is stated is seen, judged and frozen."""

import json
from pathlib import Path

import pytest

from tests.admission.test_profiles import GOOD
from tests.doors.conftest import World
from tests.kit import promised

# Facts of the register's own dialect, so that the catalogue that ships is enough.
OWN = GOOD.replace('refuses = ["edit"]', 'refuses = ["edit", "vary"]')
NAME = "acme.pictures@1"


@pytest.fixture
def config(world: World) -> Path:
    config = promised.lay(world.config)
    file = config / "profiles/acme.pictures/1/profile.toml"
    file.parent.mkdir(parents=True)
    file.write_text(OWN)
    return config


def handler(world: World, *words: str) -> tuple[int, str, str]:
    ran = world.handler("-c", "config", *words)
    return ran.code, ran.out, ran.err


@pytest.mark.slow
def test_profiles_are_listed_shown_and_judge_a_call_without_sending_it(world: World, config: Path) -> None:
    code, out, _ = handler(world, "profile", "list", "--dialect", "openai.images", "-o", "json")
    listed = {one["profile"]: one for one in json.loads(out)}
    assert code == 0
    assert listed[NAME]["layer"] == "config"
    assert listed[NAME]["state"] == "draft"
    assert listed["openai-images.gpt-image-2@1"]["layer"] == "catalog"
    code, out, _ = handler(world, "profile", "show", NAME)
    assert code == 0
    assert "generate  POST /images/generations" in out
    assert "keeps requests   unstated" in out
    code, out, _ = handler(world, "profile", "admit", NAME, "generate", "model=acme-1", "prompt=4", "seed=1")
    assert code == 1
    assert out.splitlines() == [
        "invalid_input  field.prompt: prompt is not of type string",
        "refused  field.seed: seed is not stated",
    ]
    assert handler(world, "profile", "admit", NAME, "generate", "model=acme-1", "prompt=lake")[0] == 0
    assert handler(world, "apply", "--yes")[0] in (0, 1)
    code, out, _ = handler(world, "describe", f"profile/{NAME}")
    assert (code, "profiles/acme.pictures/1/profile.toml" in out) == (0, True)
    code, _, err = handler(world, "profile", "show", "acme.picture@1")
    assert code == 1
    assert f"did you mean '{NAME}'?" in err


@pytest.mark.slow
def test_a_profile_is_published_and_then_states_the_same_for_ever(world: World, config: Path) -> None:
    code, out, err = handler(world, "lock", "add", NAME, "--reviewer", "ada")
    assert (code, out.split()[0]) == (0, NAME), err
    assert f'[profiles."{NAME}"]' in (config / "handler.lock").read_text()
    assert handler(world, "lock", "check")[0] == 0
    file = config / "profiles/acme.pictures/1/profile.toml"
    file.write_text(f"# a comment is no fact\n{OWN}")
    assert handler(world, "lock", "check")[0] == 0
    file.write_text(OWN.replace('effect = "none"', 'effect = "paid"'))
    code, out, _ = handler(world, "lock", "check")
    assert code == 1
    assert "D301" in out
    later = config / "profiles/acme.pictures/2/profile.toml"
    later.parent.mkdir()
    later.write_text(file.read_text().replace("revision = 1", "revision = 2"))
    code, out, _ = handler(world, "lock", "review", "acme.pictures@2")
    assert code == 0
    assert f"what it states, since {NAME}" in out
    assert '-effect = "none"' in out or "-revision = 1" in out
