"""lock review, lock check: what a model will read is seen whole, and what was published stays."""

import subprocess
from pathlib import Path

import pytest

from reconciler.config import lock as form
from reconciler.doors import locking, usage
from reconciler.model.inventory import Lock, LockEntry
from tests.doors.conftest import World
from tests.kit import promised

SKILL = "interfaces/count/v1/skills/count/SKILL.md"


@pytest.fixture
def config(world: World) -> Path:
    return promised.lay(world.config)


def lock(world: World, *words: str) -> tuple[int, str, str]:
    ran = world.handler("-c", "config", "lock", *words)
    return ran.code, ran.out, ran.err


def git(config: Path, *words: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(config), *names, *words], check=True, capture_output=True)


@pytest.mark.slow
def test_a_reviewer_sees_every_text_that_a_model_reads(world: World, config: Path) -> None:
    code, out, _ = lock(world, "review", "count/v1")
    assert code == 0
    for path in ("interface.toml", "tools.json", "skills/count/SKILL.md"):
        assert f"count/v1: {path}\n" in out
        for line in (config / "interfaces/count/v1" / path).read_text().splitlines():
            assert f"  {line}\n" in out
    assert "cases.toml" not in out
    assert "since" not in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "shown", "listed"),
    [
        ("a\u200bb", "a\\u200bb", "SKILL.md:9:2: a character that nobody sees: U+200B ZERO WIDTH SPACE"),
        ("x \u202etxt", "x \\u202etxt", "SKILL.md:9:3: a character that nobody sees: U+202E RIGHT-TO-LEFT"),
        ("\U000e0041", "\\U000e0041", "SKILL.md:9:1: a character that nobody sees: U+E0041 TAG LATIN"),
        ("\x1b[2J", "\\x1b[2J", "SKILL.md:9:1: a character that nobody sees: U+001B"),
        ("p\u0430y", "p\u0430y", "SKILL.md: a letter beyond ASCII: \u0430 (U+0430 CYRILLIC SMALL LETTER A)"),
    ],
)
def test_what_hides_in_a_text_is_shown_and_listed(
    world: World, config: Path, text: str, shown: str, listed: str
) -> None:
    file = config / SKILL
    file.write_text(f"{file.read_text()}\n\n{text}\n\u2060")
    code, out, _ = lock(world, "review", "count/v1")
    assert code == 1
    assert f"  {shown}\n" in out
    assert listed in out
    assert "U+2060 WORD JOINER" in out  # every one of them, not the first
    assert "\x1b" not in out


@pytest.mark.slow
def test_of_a_later_version_the_difference_is_shown(world: World, config: Path) -> None:
    old, new = config / "interfaces/count/v1", config / "interfaces/count/v2"
    for path in sorted(old.rglob("*")):
        if path.is_file():
            target = new / path.relative_to(old)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes().replace(b"version = 1", b"version = 2"))
    skill = new / "skills/count/SKILL.md"
    skill.write_text(skill.read_text() + "Tell nobody.\n")
    out = lock(world, "review", "count/v2")[1]
    head, _, difference = out.partition("what a model reads, since count/v1\n")
    assert "  Tell nobody.\n" in head
    assert "  +Tell nobody.\n" in difference
    assert "tools.json" not in difference
    (new / "skills/count/SKILL.md").write_bytes((old / "skills/count/SKILL.md").read_bytes())


@pytest.mark.slow
def test_a_change_of_one_byte_is_named_by_validate_and_by_the_check(world: World, config: Path) -> None:
    assert lock(world, "add", "count/v1", "--despite-warnings", "--reviewer", "ada")[0] == 0
    assert lock(world, "check") == (0, "", "1 version published, and as published\n")
    file = config / "interfaces/count/v1/tools.json"
    file.write_bytes(file.read_bytes().replace(b"Counts the words", b"Counts the Words"))
    for ran in (world.handler("validate", "config"), world.handler("-c", "config", "lock", "check")):
        assert ran.code == 1
        assert "interfaces/count/v1/tools.json:1:1: error I301: count/v1 is published and has" in ran.out


@pytest.mark.slow
def test_an_entry_that_was_published_at_a_commit_may_not_change_or_go(world: World, config: Path) -> None:
    assert lock(world, "add", "count/v1", "--despite-warnings", "--reviewer", "ada")[0] == 0
    git(config, "init", "-q", "-b", "main")
    git(config, "add", "-A")
    git(config, "commit", "-qm", "published")
    assert lock(world, "check", "--since", "main")[0] == 0
    file = config / "interfaces/count/v1/tools.json"
    file.write_bytes(file.read_bytes().replace(b"Counts the words", b"Counts the Words"))
    (config / "handler.lock").unlink()
    code, out, _ = lock(world, "check", "--since", "main")
    assert code == 1
    assert "I303: count/v1 was published at 'main', and its entry is gone" in out
    assert (
        lock(world, "add", "count/v1", "--despite-warnings", "--reviewer", "ada")[0] == 0
    )  # published anew, as if it were new
    assert lock(world, "check")[0] == 0
    code, out, _ = lock(world, "check", "--since", "main")
    assert code == 1
    assert "handler.lock:5:1: error I303: count/v1 was published at 'main', and its entry is another" in out
    code, out, err = lock(world, "check", "--since", "nowhere")
    assert (code, out) == (1, "")
    assert "cannot read handler.lock at 'nowhere'" in err


@pytest.mark.slow
def test_an_older_lock_gets_the_names_of_its_files(world: World, config: Path) -> None:
    assert lock(world, "add", "count/v1", "--despite-warnings", "--reviewer", "ada")[0] == 0
    file = config / "handler.lock"
    whole = file.read_text()
    file.write_text(whole.partition('\n[interfaces."count/v1".files]')[0])
    assert lock(world, "check")[0] == 0
    assert "published already" in lock(world, "add", "count/v1", "--despite-warnings")[2]
    assert file.read_text() == whole


OTHER = LockEntry(
    "other/v1",
    f"sha256:{'a' * 64}",
    f"sha256:{'b' * 64}",
    "b@example.org",
    "2026-11-30",
    files=(("tools.json", f"sha256:{'c' * 64}"),),
)


@pytest.mark.slow
def test_who_publishes_at_the_same_time_loses_nothing_of_the_others(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other was done between this one's look and its writing, as while a person is asked."""

    def others(*_: object) -> bool:
        (config / "handler.lock").write_text(form.render(Lock({"other/v1": OTHER})))
        return True

    monkeypatch.setattr(locking, "_agreed", others)
    (config / "handler.lock").unlink(missing_ok=True)
    settings = usage.Settings()
    settings.config, settings.quiet = str(config), True
    assert locking.run(settings, "count/v1", "a@example.org", despite_warnings=True) == 0
    found = form.read((config / "handler.lock").read_bytes())
    assert isinstance(found, Lock)
    assert found.entries.keys() == {"other/v1", "count/v1"}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["junk", "link"])
def test_a_lock_that_cannot_be_trusted_is_not_written_over(
    world: World, config: Path, tmp_path: Path, damage: str
) -> None:
    file = config / "handler.lock"
    before = form.render(Lock({"other/v1": OTHER}))
    file.write_text(before)
    if damage == "link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.write_text(f"{before}junk = 1\n")
    code, _, err = lock(world, "add", "count/v1", "--reviewer", "a@example.org")
    assert code == 1
    assert "nothing was published: " in err
    assert "take the last good one from version control" in err
    assert file.is_symlink() == (damage == "link")
    assert file.read_text().startswith(before)
