"""new, convert: what is written is commented, admitted as it stands and laid out; nothing is overwritten."""

import json
from pathlib import Path

import pytest
import tomli

from tests.doors.conftest import World

_EACH = [
    ("binding", "fast", ["--connector", "ocr-rapid"], ["bindings/fast.toml"]),
    ("b", "fast", ["--connector", "ocr-tesseract"], ["bindings/fast.toml"]),
    ("agent", "clerk", [], ["agents/clerk.toml"]),
    ("projects", "site", [], ["projects/site.toml"]),
    (
        "connector",
        "mine",
        ["--implements", "ocr/v2"],
        ["connectors/mine/connector.toml", "connectors/mine/main.py"],
    ),
    (
        "interface",
        "web-search/v3",
        [],
        [
            "interfaces/web-search/v3/interface.toml",
            "interfaces/web-search/v3/tools.json",
            "interfaces/web-search/v3/skills/web-search/SKILL.md",
            "interfaces/web-search/v3/conformance/cases.toml",
        ],
    ),
]


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    return world.config


def _files(config: Path) -> dict[str, bytes]:
    return {str(path.relative_to(config)): path.read_bytes() for path in config.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "of", "files"), _EACH)
def test_a_new_object_is_admitted_as_it_stands(
    world: World, config: Path, kind: str, name: str, of: list[str], files: list[str]
) -> None:
    before = _files(config)
    ran = world.handler("new", kind, name, *of, "-c", "config")
    assert (ran.code, ran.out.split()) == (0, files), ran.err
    assert "is admitted as it stands" in ran.err
    assert sorted(_files(config).keys() - before.keys()) == sorted(files)
    assert world.handler("validate", "config").code == 0
    checked = world.handler("fmt", "--check", "-c", "config")
    assert (checked.code, checked.out) == (0, "")
    for path in files:
        text = (config / path).read_text()
        if path.endswith(".toml"):
            assert tomli.loads(text)
            assert "# " in text
            first = text.splitlines()[0]
            if first.startswith("#:schema "):
                assert ((config / path).parent / first.removeprefix("#:schema ")).is_file()
    after = _files(config)
    again = world.handler("new", kind, name, *of, "-c", "config")
    assert (again.code, again.out) == (1, "")
    assert "is there already: nothing was written" in again.err
    assert _files(config) == after


_MORE = {
    **{
        f"connector mine-{runtime} --implements ocr/v1 --runtime {runtime}": [
            f"connectors/mine-{runtime}/{file}" for file in ("connector.toml", *code)
        ]
        for runtime, code in {
            "deno": ["main.ts"], "command": ["serve.py"], "mcp": ["server.py"], "remote": [], "image": [],
        }.items()
    },
    "chain triage": ["chains/triage.toml"],
    "policy egress": ["policies/egress.toml"],
    "policy approval": ["policies/approval.toml"],
    "profile acme-chat.small": ["profiles/acme-chat.small/1/profile.toml"],
}  # fmt: skip


@pytest.mark.slow
def test_chains_policies_profiles_and_every_runtime_are_admitted_as_they_stand(
    world: World, config: Path
) -> None:
    for words, files in _MORE.items():
        ran = world.handler("new", *words.split(), "-c", "config")
        assert (ran.code, ran.out.split()) == (0, files), ran.err
        assert "is admitted as it stands" in ran.err
    assert world.handler("validate", "config").code == 0
    assert world.handler("fmt", "--check", "-c", "config").code == 0
    assert world.handler("chain", "vet", "-c", "config").out == ""
    for code in ("connectors/mine-command/serve.py", "connectors/mine-mcp/server.py"):
        compile((config / code).read_text(), code, "exec")
    for runtime in ("attached", "dialect"):  # what only a person knows is left to fill in
        words = ["connector", f"mine-{runtime}", "--implements", "ocr/v1", "--runtime", runtime]
        ran = world.handler("new", *words, "-c", "config")
        assert ran.code == 0
        assert "is not admitted before that is filled in" in ran.err


@pytest.mark.slow
def test_what_only_a_person_knows_is_left_to_fill_in_and_said(world: World, config: Path) -> None:
    folder = config / "connectors/vendor"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("")
    (folder / "connector.toml").write_text(
        'apiVersion = "handler.connector/v1"\nname = "vendor"\ndescription = "A vendor."\n'
        'implements = ["ocr/v1"]\n[secretSlots.api_key]\nenv = "KEY"\nrequired = true\n'
        'description = "the key"\n'
        '[settings.region]\ndescription = "where"\nrequired = true\npattern = "^[a-z]+$"\n'
        '[settings.mode]\ndescription = "how"\nenum = ["a", "b"]\ndefault = "a"\n'
    )
    ran = world.handler("new", "binding", "mine", "--connector", "vendor", "-c", "config")
    assert (ran.code, ran.out) == (0, "bindings/mine.toml\n")
    assert "  mend  " in ran.err
    assert "binding/mine is not admitted before that is filled in" in ran.err
    text = (config / "bindings/mine.toml").read_text()
    values = tomli.loads(text)
    assert values["secrets"] == {"api_key": {"file": "~/.secrets/mine-api-key"}}
    assert values["settings"] == {"region": ""}
    assert '# mode = "a"' in text
    assert '(one of "a", "b")' in text


@pytest.mark.slow
def test_an_agent_is_shown_what_it_could_use(world: World, config: Path) -> None:
    assert world.handler("new", "binding", "fast", "--connector", "ocr-rapid", "-c", "config").code == 0
    assert world.handler("new", "agent", "clerk", "-c", "config").code == 0
    text = (config / "agents/clerk.toml").read_text()
    assert '# ocr = { binding = "fast", version = 2 }    or ocr-tesseract' in text
    assert '# project = "paperwork"' in text
    (config / "agents/clerk.toml").write_text(text.replace("# ocr =", "ocr =").replace("    or ", " # or "))
    assert world.handler("validate", "config").code == 0
    assert world.handler("rebind", "clerk", "ocr", "ocr-tesseract", "-c", "config").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["binding", "x"], ", ocr-rapid, ocr-tesseract, "),
        (["binding", "x", "--connector", "ocr-rapd"], "did you mean 'ocr-rapid'?"),
        (["connector", "x"], ", ocr/v1, ocr/v2, "),
        (["agent", "Clerk"], "is not a name"),
        (["agent", "../x"], "is not a name"),
        (["interface", "web/search"], "write NAME/vN"),
        (["interface", "an-interface-of-a-long-name"], "is not a name"),
        (["instance", "x"], "is no kind of file that can be written"),
        (["nonsense", "x"], "is not a kind of object"),
        (["interface", "services"], "it is reserved"),
        (["interface", "services/v2"], "it is reserved"),
        (["policy", "mine"], "a policy is egress or approval, not 'mine'"),
        (["profile", "Acme"], "is no profile's name"),
        (["profile", "acme", "--like", "local-chat.generik@2"], "did you mean 'local-chat.generic@2'?"),
        (
            ["connector", "x", "--implements", "ocr/v1", "--runtime", "ruby"],
            "there are attached, ",
        ),
        (["agent", "x", "--connector", "ocr-rapid"], "--connector says nothing about an agent"),
        (["binding", "x", "--implements", "ocr-rapid"], "--implements says nothing about a binding"),
        (
            ["binding", "x", "--connector", "ocr-rapid", "--implements", "ocr/v1"],
            "--implements says nothing about a binding: --connector does",
        ),
    ],
)
def test_a_wrong_command_line_writes_nothing(world: World, config: Path, words: list[str], said: str) -> None:
    before = _files(config)
    ran = world.handler("new", *words, "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert _files(config) == before


@pytest.mark.slow
def test_an_interface_that_is_refused_is_said_to_be_and_not_that_it_is_not_there(
    world: World, config: Path
) -> None:
    broken = config / "interfaces/tally/v1"
    broken.mkdir(parents=True)
    (broken / "interface.toml").write_text('apiVersion = "handler.interface/v1"\nname = 7\n')
    ran = world.handler("new", "connector", "mine", "--implements", "tally/v1", "-c", "config")
    assert ran.code == 2
    assert "tally/v1 is refused, and has to be mended first: interfaces/tally/v1/" in ran.err


def test_a_link_or_half_of_an_object_is_not_written_over(world: World, config: Path) -> None:
    (config / "agents/clerk.toml").symlink_to("nowhere")
    assert world.handler("new", "agent", "clerk", "-c", "config").code == 1
    folder = config / "connectors/mine"
    folder.mkdir(parents=True)
    (folder / "notes.md").write_text("mine")
    ran = world.handler("new", "connector", "mine", "--implements", "ocr/v1", "-c", "config")
    assert ran.code == 1
    assert [path.name for path in folder.iterdir()] == ["notes.md"]


@pytest.mark.slow
def test_there_is_nothing_to_convert_and_nothing_is_written(world: World, config: Path) -> None:
    before = _files(config)
    ran = world.handler("convert", "-c", "config")
    assert ran.code == 0
    assert "handler.agent/v1     1 file" in ran.out
    assert "there is nothing to convert" in ran.err
    told = json.loads(world.handler("convert", "config/agents", "-o", "json").out)
    assert (told["files"], told["converted"]) == ({"handler.agent/v1": 1}, 0)
    assert world.handler("convert", "--to", "handler.agent/v1", "-c", "config").code == 0
    ran = world.handler("convert", "--to", "handler.agent/v2", "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert "there are handler.config/v1" in ran.err
    ran = world.handler("convert", "config/nowhere", "-c", "config")
    assert (ran.code, ran.out) == (2, "")
    assert "there is nothing at" in ran.err
    assert _files(config) == before


@pytest.mark.slow
def test_the_words_of_an_empty_draft_are_warned_about_in_each_text_that_a_model_reads(
    world: World, config: Path
) -> None:
    assert world.handler("new", "interface", "web-search/v3", "-c", "config").code == 0
    said = world.handler("validate", "config").out
    folder = "interfaces/web-search/v3"
    for file in ("interface.toml", "tools.json", "skills/web-search/SKILL.md"):
        places = [
            line for line in said.splitlines() if line.startswith(f"{folder}/{file}:") and "I235" in line
        ]
        assert len(places) == (3 if file.endswith(".md") else 1), said  # each of them, at once


@pytest.mark.slow
def test_what_explain_shows_of_policies_is_admitted_as_printed(world: World, config: Path) -> None:
    for kind, name in (("policy", "egress"), ("approval", "approval")):
        told = world.handler("explain", kind).out.partition("For example:\n")[2]
        text, _, last = told.rstrip().rpartition("\n")
        assert last == f"'handler new policy {name}' writes one with comments."
        (config / "policies").mkdir(exist_ok=True)
        (config / f"policies/{name}.toml").write_text("".join(f"{line[2:]}\n" for line in text.splitlines()))
    assert world.handler("validate", "config").code == 0
    assert 'id = "ask-first"' in world.handler("explain", "policy.rule").out


@pytest.mark.slow
def test_a_new_binding_speaks_of_models_and_processes_where_there_are_some(
    world: World, config: Path
) -> None:
    for connector, models, process in (("llm-local", True, False), ("ocr-tesseract", False, True)):
        world.handler("new", "binding", "one", "--connector", connector, "-c", "config")
        text = (config / "bindings/one.toml").read_text()
        assert ('\n# models = ["…"]\n' in text, "idleStopSeconds" in text) == (models, process)
        (config / "bindings/one.toml").unlink()
