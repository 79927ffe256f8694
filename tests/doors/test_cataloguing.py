"""catalog: what is proven and what is not, told from files alone; taking over what somebody else made."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.conftest import Ran, World
from tests.harness.test_registry import PYPI, REMOTE, of
from tests.kit import promised

pytestmark = pytest.mark.slow  # commands as people start them: a process each


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    made.config.mkdir()
    promised.lay(made.config)
    yield made


def catalog(place: World, *words: str) -> Ran:
    return place.handler("-c", "config", "catalog", *words)


def names(place: World, *words: str) -> list[str]:
    ran = catalog(place, *words, "-o", "name")
    assert ran.code == 0, ran.err
    return [line.removeprefix("connector/") for line in ran.out.split()]


def test_what_is_proven_is_listed_and_the_rest_are_candidates(place: World) -> None:
    proven, rest = names(place, "list"), names(place, "list", "--candidates")
    assert {"ocr-rapid", "ocr-tesseract"} <= set(proven)
    assert "llm-llama-server" in proven  # of a connector without code, its profile's facts are part of it
    assert {"counter", "ocr-mistral"} <= set(rest)
    assert not set(proven) & set(rest)
    ran = catalog(place, "list")
    assert "--candidates lists them" in ran.err
    row = next(line for line in ran.out.splitlines() if line.startswith("ocr-tesseract"))
    assert "nothing" in row
    assert "certification (offline)" in row


def test_filters_narrow_the_list(place: World) -> None:
    assert "counter" in names(place, "list", "--candidates", "--interface", "count")
    assert names(place, "list", "--candidates", "--interface", "count/v1") == ["counter"]
    assert names(place, "list", "--candidates", "--egress", "api.mistral.ai") == ["ocr-mistral"]
    assert names(place, "list", "--candidates", "--runtime", "deno") == ["ocr-mistral"]
    assert "ocr-mistral" not in names(place, "list", "--candidates", "--local")
    assert "counter" not in names(place, "list", "--candidates", "--remote")
    assert names(place, "list", "--interface", "ocr", "--remote") == []
    assert "embed-openai" in names(place, "list", "--candidates", "--egress", "api.openai.com")
    assert names(place, "search", "MISTRAL ocr") == ["ocr-mistral"]
    ran = catalog(place, "list", "--interface", "cuont")
    assert ran.code == 2
    assert "there is no interface 'cuont'" in ran.err


def test_a_changed_connector_is_stale(place: World) -> None:
    assert json.loads(catalog(place, "search", "ocr-rapid", "-o", "json").out)[0]["tier"] == "certification"
    shipped = place.handler("-c", "config", "catalog", "show", "ocr-rapid")
    assert "tier: certification" in shipped.out
    from reconciler.control import folders

    own = place.config / "connectors/mine"
    source = folders.catalog() / "connectors/ocr-rapid"
    for path in source.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            target = own / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes().replace(b'"ocr-rapid"', b'"mine"'))
    (found,) = json.loads(catalog(place, "search", "mine", "-o", "json").out)
    assert (found["tier"], found["layer"]) == ("none", "configuration")  # its evidence is about another


def test_one_is_shown_whole(place: World) -> None:
    told = json.loads(catalog(place, "show", "ocr-mistral", "-o", "json").out)
    assert told["reaches"] == ["api.mistral.ai:443"]
    assert "api_key" in told["secrets"]
    assert told["provisioning"].startswith("# ")
    shown = catalog(place, "show", "ocr/v1")
    assert shown.code == 0
    for words in (
        "interface: ocr/v1",
        "ocr_extract: effect none",
        "unsupported_format:",
        "ocr-tesseract: cert",
    ):
        assert words in shown.out
    assert "published: no: a draft" in catalog(place, "show", "count/v1").out
    ran = catalog(place, "show", "cuonter")
    assert ran.code == 2
    assert "did you mean 'counter'?" in ran.err


def test_a_server_of_the_registry_becomes_a_candidate_with_its_slots(world: World) -> None:
    (world.root / "server.json").write_text(json.dumps(of(PYPI, remotes=(REMOTE,))))
    dry = catalog(world, "import", "server.json", "--dry-run")
    assert dry.code == 0
    assert list(world.config.iterdir()) == []
    ran = catalog(world, "import", "server.json")
    assert ran.code == 0, ran.err
    text = (world.config / "connectors/weather/connector.toml").read_text()
    assert 'command = ["mcp-weather", "serve", "--units", "metric"]' in text
    assert "[secretSlots.weather_key]" in text
    assert "implements = []" in text
    assert "~/.secrets/weather-weather-key" in (world.config / "bindings/weather.toml").read_text()
    assert "install mcp-weather==1.4.0 by hashes" in ran.err
    assert world.handler("validate", "config").code == 0
    assert names(world, "list", "--candidates", "--runtime", "mcp") == ["weather"]
    again = catalog(world, "import", "server.json")
    assert (again.code, "0 files written" in again.err) == (0, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "this is not JSON"),
        ("{}", "it is no server.json"),
        ('{"name":"a/b"}', "left out: the server 'b'"),
    ],
)
def test_a_file_that_is_none_is_said_and_nothing_is_written(world: World, text: str, said: str) -> None:
    (world.root / "server.json").write_text(text)
    ran = catalog(world, "import", "server.json")
    assert ran.code == 1
    assert said in ran.err
    assert list(world.config.iterdir()) == []


def test_an_interface_of_somebody_else_becomes_a_draft_that_was_shown(world: World) -> None:
    theirs = promised.lay(world.root / "theirs") / "interfaces/count/v1"
    ran = catalog(world, "import", str(theirs))
    assert ran.code == 0, ran.err
    assert "count/v1: tools.json" in ran.out
    assert "handler lock add count/v1" in ran.err
    own = world.config / "interfaces/count/v1"
    assert {path.relative_to(own): path.read_bytes() for path in own.rglob("*") if path.is_file()} == {
        path.relative_to(theirs): path.read_bytes() for path in theirs.rglob("*") if path.is_file()
    }
    assert "is there already" in catalog(world, "import", str(theirs)).err


def test_an_interface_that_hides_something_is_not_taken(world: World) -> None:
    theirs = promised.lay(world.root / "theirs") / "interfaces/count/v1"
    skill: Path = theirs / "skills/count/SKILL.md"
    skill.write_text(skill.read_text() + "Be\u200b quiet.\n")
    ran = catalog(world, "import", str(theirs))
    assert ran.code == 1
    assert "  Be\\u200b quiet.\n" in ran.out
    assert "U+200B ZERO WIDTH SPACE" in ran.out
    (theirs / "skills/count/SKILL.md").unlink()
    (theirs / "skills/count/SKILL.md").symlink_to("/etc/passwd")
    ran = catalog(world, "import", str(theirs))
    assert ran.code == 1
    assert "is no plain file" in ran.err
    assert list(world.config.iterdir()) == []
