"""init, rebind, lock add: what writes files writes the whole right thing, or nothing."""

import subprocess
from pathlib import Path

import pytest

from reconciler.config import lock as locks
from reconciler.control import folders
from reconciler.doors import editing, scaffolding
from reconciler.doors.usage import Stopped
from tests.doors.conftest import World

_AGENT = """\
# who reads
apiVersion = "handler.agent/v1"
requires = ["ocr/v1"]

[services]
ocr = "ocr-tesseract"  # the engine
"""


@pytest.fixture
def config(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    file = world.config / "bindings" / "ocr-other.toml"
    file.write_text('apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n')
    (world.config / "agents/clerk.toml").write_text(_AGENT)
    return world.config


@pytest.mark.slow
def test_one_value_is_edited_and_the_comments_stay(world: World, config: Path) -> None:
    ran = world.handler("rebind", "clerk", "ocr", "ocr-other", "-c", "config")
    assert ran.code == 0
    file = config / "agents/clerk.toml"
    assert file.read_text() == _AGENT.replace('ocr = "ocr-tesseract"', 'ocr = "ocr-other"')
    changed = [line for line in ran.out.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == ['-ocr = "ocr-tesseract"  # the engine', '+ocr = "ocr-other"  # the engine']
    again = world.handler("rebind", "clerk", "ocr", "ocr-other", "-c", "config")
    assert (again.code, again.out) == (0, "")


@pytest.mark.slow
def test_a_list_of_bindings_is_left_to_whoever_wrote_it(world: World, config: Path) -> None:
    file = config / "agents/clerk.toml"
    file.write_text(_AGENT.replace('"ocr-tesseract"', '["ocr-tesseract", "ocr-other"]'))
    ran = world.handler("rebind", "clerk", "ocr", "ocr-other", "-c", "config")
    assert ran.code == 1
    assert "edit the list in the agent's file" in ran.err
    assert '["ocr-tesseract", "ocr-other"]' in file.read_text()


@pytest.mark.slow
def test_the_long_form_and_the_projects_default_are_edited_where_they_belong(
    world: World, config: Path
) -> None:
    file = config / "agents/clerk.toml"
    file.write_text(
        _AGENT.replace(
            '"ocr-tesseract"', '{ binding = "ocr-tesseract", tools = ["ocr_extract"], version = 1 }'
        )
    )
    assert world.handler("rebind", "clerk", "ocr", "ocr-other", "-c", "config").code == 0
    assert '{ binding = "ocr-other", tools = ["ocr_extract"], version = 1 }' in file.read_text()
    project = (config / "projects/paperwork.toml").read_bytes()
    assert world.handler("rebind", "reader", "ocr", "ocr-other", "-c", "config").code == 0
    assert 'ocr = "ocr-other"' in (config / "agents/reader.toml").read_text()
    assert (config / "projects/paperwork.toml").read_bytes() == project


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["ocr-othr", "../x", 'a"b', "reader"])
def test_a_result_that_is_not_admitted_leaves_the_file_as_it_was(
    world: World, config: Path, binding: str
) -> None:
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in config.rglob("*") if path.is_file()
    }
    ran = world.handler("rebind", "clerk", "ocr", binding, "-c", "config")
    assert ran.code == 1
    assert "agents/clerk.toml:" in ran.out
    assert "  mend  " in ran.out
    assert "left as it was" in ran.err
    after = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in config.rglob("*") if path.is_file()
    }
    assert before == after


@pytest.mark.slow
def test_an_unknown_agent_names_the_nearest(world: World, config: Path) -> None:
    ran = world.handler("rebind", "clrk", "ocr", "ocr-other", "-c", "config")
    assert ran.code == 2
    assert "did you mean 'clerk'?" in ran.err


def test_an_agent_file_that_cannot_be_read_is_not_edited(world: World, config: Path) -> None:
    (config / "agents/clerk.toml").write_text("[services\n")
    ran = world.handler("rebind", "clerk", "ocr", "ocr-other", "-c", "config")
    assert (ran.code, ran.out) == (1, "")
    assert "cannot edit agents/clerk.toml:1:" in ran.err


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "clerk.toml"
    file.write_bytes(b"theirs")
    with pytest.raises(Stopped, match="changed in the meantime"):
        editing.write(file, b"ours before", b"ours after")
    assert file.read_bytes() == b"theirs"
    file.chmod(0o640)
    editing.write(file, b"theirs", b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o640)


def test_init_refuses_to_overwrite_and_writes_nothing_then(world: World) -> None:
    (world.config / "agents").mkdir()
    (world.config / "agents/reader.toml").write_text("mine")
    ran = world.handler("init", "config")
    assert (ran.code, ran.out) == (1, "")
    assert "agents/reader.toml is there already" in ran.err
    assert sorted(path.name for path in world.config.rglob("*")) == ["agents", "reader.toml"]


def test_init_gives_editors_what_they_need(world: World, config: Path) -> None:
    files = set(scaffolding.scaffold())
    assert files >= {"handler.toml", ".gitignore", ".gitattributes", ".taplo.toml", "tombi.toml"}
    for path in config.rglob("*.toml"):
        first = path.read_text().splitlines()[0]
        if first.startswith("#:schema "):
            assert (path.parent / first.removeprefix("#:schema ")).is_file()
    for settings in ("tombi.toml", ".taplo.toml"):
        for line in (config / settings).read_text().splitlines():
            if line.startswith("path = "):
                assert (config / line.removeprefix("path = ").strip('"')).is_file()


@pytest.mark.parametrize("settings", ["tombi.toml", ".taplo.toml"])
def test_an_editor_knows_the_schema_of_every_file_that_a_person_writes(settings: str) -> None:
    told = scaffolding.scaffold()[settings]
    text = told if isinstance(told, str) else told.decode()
    for kind, example in {
        "policy": "policies/egress.toml",
        "approval": "policies/approval.toml",
        "chain": "chains/*.toml",
        "profile": "profiles/*/*/profile.toml",
    }.items():
        assert f'path = "schemas/{kind}.schema.json"' in text
        assert f'include = ["{example}"]' in text


def test_what_init_says_to_do_next_can_be_done(world: World) -> None:
    """The folder of the scaffold's scope is made, since nobody has to have one of that name."""
    said = world.handler("init", "other").err
    there = next(line for line in said.splitlines() if "documents" in line)
    done = subprocess.run(
        ["/bin/sh", "-c", f"set -e; {there}; pwd"], env=world.env(), capture_output=True, check=True
    )
    assert done.stdout.decode().rstrip().endswith("/documents")


def copy_interface(config: Path) -> Path:
    """A draft of our own: the catalogue's interface under another name."""
    source, target = folders.catalog() / "interfaces/ocr/v1", config / "interfaces/scan/v1"
    for path in sorted(source.rglob("*")):
        if path.is_file():
            text = path.read_bytes()
            if path.suffix in (".toml", ".json", ".md"):
                text = text.replace(b"ocr_extract", b"scan_extract").replace(b'"ocr"', b'"scan"')
                text = text.replace(b"name: ocr\n", b"name: scan\n")
            place = Path(str(path.relative_to(source)).replace("skills/ocr/", "skills/scan/"))
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            (target / place).write_bytes(text)
    return target


@pytest.mark.slow
def test_publishing_freezes_a_version(world: World, config: Path) -> None:
    folder = copy_interface(config)
    ran = world.handler(
        "lock", "add", "scan/v1", "--despite-warnings", "--reviewer", "ada@example.org", "-c", "config"
    )
    assert ran.code == 0, ran.out + ran.err
    written = (config / "handler.lock").read_bytes()
    (entry,) = locks.read(written).entries.values()
    assert (entry.ref, entry.reviewed_by) == ("scan/v1", "ada@example.org")
    assert ran.out == f"scan/v1 {entry.digest}\n"
    assert world.handler("validate", "config").code == 0
    assert world.handler("lock", "add", "scan/v1", "--despite-warnings", "-c", "config").code == 0
    (folder / "interface.toml").write_bytes((folder / "interface.toml").read_bytes() + b"# edit\n")
    again = world.handler("lock", "add", "scan/v1", "--despite-warnings", "-c", "config")
    assert again.code == 1
    assert (config / "handler.lock").read_bytes() == written


@pytest.mark.slow
def test_what_is_warned_about_is_published_only_where_one_says_so_and_then_told_no_more(
    world: World, config: Path
) -> None:
    skill = copy_interface(config) / "skills/scan/SKILL.md"
    skill.write_text(
        skill.read_text().replace("unsupported_format", "other").replace("\n## ", "\n- When …\n\n## ", 1)
    )
    add = ("lock", "add", "scan/v1", "--reviewer", "ada@example.org", "-c", "config")
    ran = world.handler(*add)
    assert ran.code == 1
    assert "I233" in ran.out
    assert "I235" in ran.out
    assert "--despite-warnings" in ran.err
    assert not (config / "handler.lock").exists()
    assert world.handler(*add, "--despite-warnings").code == 0
    assert "I23" not in world.handler("validate", "config").out


@pytest.mark.slow
def test_nobody_publishes_without_a_name(world: World, config: Path) -> None:
    copy_interface(config)
    surroundings = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "USER": "somebody"}
    for name in ([], ["--reviewer", " "]):
        ran = world.handler(
            "lock", "add", "scan/v1", "--despite-warnings", "-c", "config", *name, **surroundings
        )
        assert (ran.code, ran.out) == (2, "")
        assert "add --reviewer NAME" in ran.err
    assert not (config / "handler.lock").exists()
    known = config / "gitconfig"
    known.write_text("[user]\nemail = ada@example.org\n")
    ran = world.handler(
        "lock", "add", "scan/v1", "--despite-warnings", "-c", "config", GIT_CONFIG_GLOBAL=str(known)
    )
    assert ran.code == 0
    assert "reviewed by ada@example.org" in ran.err


@pytest.mark.slow
def test_what_is_refused_or_not_ours_is_not_published(world: World, config: Path) -> None:
    folder = copy_interface(config)
    (folder / "tools.json").write_text("[]")
    for ref in ("scan/v1", "ocr/v1", "scan/v2"):
        ran = world.handler("lock", "add", ref, "-c", "config")
        assert ran.code == 1
    assert not (config / "handler.lock").exists()
