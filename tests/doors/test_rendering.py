"""render: what is printed, and that a person's files are whole, safe and as before."""

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from reconciler.harness.harnesses import HARNESSES

from . import fakes
from .conftest import World

pytestmark = pytest.mark.slow  # commands as people start them: a process each

_VSCODE = '{\r\n\t// the servers\r\n\t"servers": {\r\n\t\t"mine": {"command": "x"}, // why\r\n\t},\r\n}'
_CODEX = 'model = "x" # mine\n\n[mcp_servers.mine]\ncommand = "a"'


@pytest.fixture
def site(world: World) -> Path:
    assert world.handler("init", "config").code == 0
    (world.root / "documents").mkdir(exist_ok=True)
    folder = world.root / "site"
    folder.mkdir()
    return folder


def _render(world: World, *words: str, **env: str) -> tuple[int, str, str]:
    ran = world.handler("render", "-c", "config", "--into", "site", *words, **env)
    return ran.code, ran.out, ran.err


def _all(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_all_that_is_derived_is_printed_without_a_controller(world: World, site: Path) -> None:
    code, out, err = _render(world, "reader", "-o", "json")
    told = json.loads(out)
    assert (code, told["agent"], told["harness"], told["files"]) == (0, "reader", "none", {})
    assert "names no harness" in err
    (route,) = told["routes"]
    assert (route["interface"], route["tools"]) == ("ocr/v1", ["ocr_extract"])
    assert told["instances"] == [route["instance"]]
    assert told["tools"]["ocr"][0]["name"] == "ocr_extract"
    code, out, _ = _render(world, "--harness", "codex")
    assert code == 0
    assert "# tools.json of ocr as served" in out
    assert "# .codex/config.toml\n[mcp_servers.ocr]" in out
    assert not _all(site)
    assert not (world.state / "harness").exists()


def test_an_instance_that_a_controller_has_another_one_for_is_told(world: World, site: Path) -> None:
    code, out, err = _render(world, "-o", "json")
    (name,) = json.loads(out)["instances"]
    binding = name.partition("@")[0]
    for shown, told in ((name, False), (f"{binding}@d3220cfb6a37", True)):
        fakes.write_status(world.state, instances=[{"name": shown, "binding": binding, "phase": "idle"}])
        code, out, err = _render(world)
        assert (code, name in out) == (0, True)
        assert (f"the controller serves it by {shown} still" in err) is told


def test_the_agents_own_harness_is_the_one_that_is_written(world: World, site: Path) -> None:
    file = world.config / "agents" / "reader.toml"
    file.write_text(file.read_text() + 'harness = "cursor"\n')
    code, out, _ = _render(world, "--write")
    assert code == 0
    assert out.splitlines() == [
        ".cursor/mcp.json",
        ".agents/skills/ocr/SKILL.md",
        ".claude/skills/ocr/SKILL.md",
    ]
    entry = json.loads((site / ".cursor/mcp.json").read_bytes())["mcpServers"]["ocr"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"] == ["ocr", "--agent", "reader", "-c", str(world.config)]
    assert entry["env"] == {"HANDLER_RUN": str(world.run), "HANDLER_STATE": str(world.state)}


@pytest.mark.parametrize("word", HARNESSES)
def test_every_harness_is_written_once_and_removed_without_a_trace(
    world: World, site: Path, word: str
) -> None:
    code, out, _ = _render(world, "--harness", word, "--diff")
    assert code == 1
    assert "+++ b/" in out
    assert not _all(site)
    code, out, err = _render(world, "--harness", word, "--write")
    assert (code, "written" in err) == (0, True)
    after = _all(world.root)
    assert any(path.startswith(("site/", ".codeium/")) for path in after)
    assert _render(world, "--harness", word, "--write") == (0, "", "Everything is as it should be.\n")
    assert _render(world, "--harness", word, "--diff") == (0, "", "Everything is as it should be.\n")
    code, _, _ = _render(world, "--remove")
    assert code == 0
    assert list(site.iterdir()) == []
    assert not (world.root / ".codeium").exists()
    assert _render(world, "--remove")[0] == 0


@pytest.mark.parametrize(("word", "text"), [("vscode", _VSCODE), ("codex", _CODEX)])
def test_a_persons_own_file_keeps_its_bytes_and_its_mode(
    world: World, site: Path, word: str, text: str
) -> None:
    file = site / HARNESSES[word].file
    file.parent.mkdir()
    file.write_bytes(text.encode())
    file.chmod(0o640)
    assert _render(world, "--harness", word, "--write")[0] == 0
    written = file.read_bytes()
    assert b"mine" in written
    assert b"handler-service" in written
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    kept = list((world.state / "harness" / "before").iterdir())
    assert [one.read_bytes() for one in kept] == [text.encode()]
    assert _render(world, "--remove")[0] == 0
    assert file.read_bytes() == text.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(site.iterdir()) == [file.parent]


def test_the_program_of_a_plugin_can_be_run(world: World, site: Path) -> None:
    assert _render(world, "--harness", "plugin", "--write")[0] == 0
    home = site / ".agents/plugins/handler-reader"
    assert os.access(home / "bin/handler-service", os.X_OK)
    assert json.loads((home / "plugin.json").read_bytes())["name"] == "handler-reader"
    assert (home / "skills/ocr/SKILL.md").read_bytes().startswith(b"---")


def test_an_entry_that_a_person_edited_is_found_and_left(world: World, site: Path) -> None:
    file = site / ".codex/config.toml"
    _render(world, "--harness", "codex", "--write")
    edited = file.read_text().replace("tool_timeout_sec = 130", "tool_timeout_sec = 9")
    file.write_text(edited)
    for act in ("--write", "--diff", "--remove"):
        code, _, err = _render(world, "--harness", "codex", act)
        assert code == 1
        assert ".codex/config.toml: the server 'ocr' in it was changed since it was written" in err
        assert "--force" in err
        assert file.read_text() == edited
    assert _render(world, "--harness", "codex", "--write", "--force")[0] == 0
    assert tomllib.loads(file.read_text())["mcp_servers"]["ocr"]["tool_timeout_sec"] == 130
    assert _render(world, "--remove")[0] == 0
    assert not list(site.iterdir())


def test_where_one_file_is_in_the_way_nothing_is_written(world: World, site: Path) -> None:
    (site / ".mcp.json").write_text('{"mcpServers": {"ocr": {"command": "mine"}}}')
    before = _all(site)
    code, out, err = _render(world, "--harness", "claude-code", "--write", "-o", "json")
    assert code == 1
    assert json.loads(out)["refused"][0]["why"] == "the server 'ocr' in it is not ours"
    assert "the server 'ocr' in it is not ours" in err
    assert _all(site) == before


def test_a_broken_file_is_refused_with_its_place(world: World, site: Path) -> None:
    (site / ".vibe").mkdir()
    (site / ".vibe/config.toml").write_text("[[mcp_servers]\n")
    code, _, err = _render(world, "--harness", "vibe", "--write")
    assert code == 1
    assert "cannot change it: line 1, column" in err
    assert (site / ".vibe/config.toml").read_text() == "[[mcp_servers]\n"


def test_a_link_out_of_the_project_is_not_followed(world: World, site: Path) -> None:
    outside = world.root / "outside"
    outside.mkdir()
    (site / ".cursor").symlink_to(outside)
    ran = _render(world, "--harness", "cursor", "--write")
    assert ran[0] == 1
    assert "leads out of" in ran[2]
    assert not list(outside.iterdir())
    (site / ".cursor").unlink()
    (site / "real").mkdir()
    (site / ".cursor").symlink_to("real")
    assert _render(world, "--harness", "cursor", "--write")[0] == 0
    assert (site / "real/mcp.json").is_file()


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(world: World, site: Path) -> None:
    os.mkfifo(site / "opencode.json")
    code, _, err = _render(world, "--harness", "opencode", "--write")
    assert code == 1
    assert "is not a regular file" in err


def test_a_file_where_a_folder_is_needed_and_the_other_way_round_are_named_and_nothing_is_written(
    world: World, site: Path
) -> None:
    (site / ".claude").write_text("")
    code, out, err = _render(world, "--harness", "claude-code", "--write")
    assert (code, out) == (1, "")
    assert "site/.claude is a file, and a folder is needed there: nothing was written" in err
    assert set(_all(site)) == {".claude"}
    (site / ".claude").unlink()
    (site / ".mcp.json").mkdir()
    code, out, err = _render(world, "--harness", "claude-code", "--write")
    assert (code, out) == (1, "")
    assert "site/.mcp.json cannot be used: it is not a regular file" in err
    assert not _all(site)


def test_what_two_harnesses_share_goes_with_the_last_of_them(world: World, site: Path) -> None:
    for word in ("claude-code", "copilot"):
        assert _render(world, "--harness", word, "--write")[0] == 0
    assert _render(world, "--harness", "claude-code", "--remove")[0] == 0
    assert sorted(_all(site)) == [".agents/skills/ocr/SKILL.md", ".claude/skills/ocr/SKILL.md", ".mcp.json"]
    assert _render(world, "--harness", "copilot", "--remove")[0] == 0
    assert not list(site.iterdir())


def test_a_removal_for_all_harnesses_is_whole_or_not_at_all(world: World, site: Path) -> None:
    for word in ("claude-code", "copilot", "codex"):
        assert _render(world, "--harness", word, "--write")[0] == 0
    before = _all(site)
    code, out, err = _render(world, "--remove", "--diff")
    assert code == 1
    assert out.count("+++ /dev/null") == 4  # as a preview: two skills, and two files of harnesses
    assert "4 files would be removed" in err
    file = site / ".mcp.json"
    file.write_text(file.read_text().replace("130000", "9000"))
    before = _all(site)
    code, out, err = _render(world, "--remove")
    assert (code, out, _all(site)) == (1, "", before)
    assert err.count("was changed since") == 1
    assert err.endswith("Nothing was removed: 1 file is in the way.\n")
    assert _render(world, "--remove", "--keep")[0] == 0
    assert list(_all(site)) == [".mcp.json"]
    assert _render(world, "--remove")[2] == "Nothing of it is here.\n"


def test_the_difference_of_an_edited_entry_is_shown_and_keeping_it_ends_the_matter(
    world: World, site: Path
) -> None:
    _render(world, "--harness", "codex", "--write")
    file, skill = site / ".codex/config.toml", site / ".agents/skills/ocr/SKILL.md"
    edited = file.read_text().replace("tool_timeout_sec = 130", "tool_timeout_sec = 9")
    file.write_text(edited)
    skill.write_text("mine")
    code, out, err = _render(world, "--harness", "codex", "--diff")
    assert code == 1
    assert out.startswith("--- a/.codex/config.toml")
    assert "-tool_timeout_sec = 9\n" in out
    assert "+tool_timeout_sec = 130\n" in out
    assert "Nothing would be written: 2 files are in the way" in err
    assert _render(world, "--harness", "vibe", "--write", "--keep")[0] == 0
    assert (site / ".vibe/config.toml").is_file()
    assert _render(world, "--harness", "codex", "--write", "--keep")[0] == 0
    assert (file.read_text(), skill.read_text()) == (edited, "mine")
    assert _render(world, "--remove")[0] == 0
    assert sorted(_all(site)) == [".agents/skills/ocr/SKILL.md", ".codex/config.toml"]


def test_two_agents_in_one_project_do_not_share_a_name(world: World, site: Path) -> None:
    text = (world.config / "agents/reader.toml").read_text()
    (world.config / "agents/writer.toml").write_text(text)
    assert _render(world, "reader", "--harness", "zed", "--write")[0] == 0
    code, _, err = _render(world, "writer", "--harness", "zed", "--write")
    assert code == 1
    assert "the server 'ocr' in it is of agent 'reader'" in err
    code, _, err = _render(world, "--harness", "zed")
    assert (code, "name one of reader, writer" in err) == (2, True)


def test_removal_needs_no_agent_that_is_served(world: World, site: Path) -> None:
    assert _render(world, "reader", "--harness", "qwen", "--write")[0] == 0
    (world.config / "agents/reader.toml").unlink()
    assert _render(world, "reader", "--remove")[0] == 0
    assert not list(site.iterdir())


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("reader", "--harness", "claude"), 2, "did you mean 'claude-code'?"),
        (("raeder", "--harness", "codex"), 2, "did you mean 'reader'?"),
        (("reader", "--write"), 2, "names no harness"),
        (("reader", "--write", "--remove"), 2, "--write and --remove do not go together"),
        (("reader", "--write", "--force", "--keep"), 2, "--force and --keep do not go together"),
    ],
)
def test_a_wrong_command_line_is_told_with_the_way_out(
    world: World, site: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    ran = _render(world, *words)
    assert ran[0] == code
    assert told in ran[2]
    assert not _all(site)


def test_a_record_that_cannot_be_read_stops_everything(world: World, site: Path) -> None:
    (world.state / "harness").mkdir(parents=True)
    (world.state / "harness/written.json").write_text("{")
    code, _, err = _render(world, "--harness", "cursor", "--write")
    assert code == 1
    assert "written.json cannot be read" in err
    assert not _all(site)
