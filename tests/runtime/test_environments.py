"""Environments: wheels only, checked by hash, built once, made of a real installer and a wheel of our own."""

import asyncio
import hashlib
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
import uvloop

from reconciler.runtime import environments
from reconciler.runtime.environments import Environments, NotBuiltError, plain, step

pytestmark = pytest.mark.slow


def wheel(folder: Path, name: str = "tinything", version: str = "1.0") -> tuple[Path, str]:
    """A wheel with one module, and its sha256."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", "answer = 42\n")
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr(f"{about}/RECORD", "")
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the person's own pip and uv are configured to install from, and nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for variable, value in {
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder), "UV_CACHE_DIR": str(tmp_path / "cache"),
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, value)
    return folder


def lock_of(version: str, digest: str) -> tuple[str, bytes]:
    lock = f"tinything=={version} --hash=sha256:{digest}\n".encode()
    return hashlib.sha256(lock).hexdigest(), lock


def test_a_lock_is_installed_once_however_many_ask(index: Path, tmp_path: Path) -> None:
    digest, lock = lock_of("1.0", wheel(index)[1])
    lines: list[str] = []

    async def story() -> None:
        made = Environments(tmp_path / "envs")
        assert made.path(digest) is None
        places = await asyncio.gather(*(made.build(digest, lock, lines.append) for _ in range(20)))
        assert len(set(places)) == 1
        assert (places[0] / "tinything.py").read_text() == "answer = 42\n"
        assert made.path(digest) == places[0]
        told = len(lines)
        assert await Environments(tmp_path / "envs").build(digest, lock, lines.append) == places[0]
        assert len(lines) == told
        assert list((tmp_path / "envs").glob(".*")) == []

    asyncio.run(story())
    assert any(": install" in line for line in lines)
    assert not any("/" in line for line in lines)


def test_a_wheel_that_is_not_the_locked_one_is_refused_and_leaves_nothing(
    index: Path, tmp_path: Path
) -> None:
    wheel(index)
    digest, lock = lock_of("1.0", "0" * 64)

    async def story() -> None:
        made = Environments(tmp_path / "envs")
        with pytest.raises(NotBuiltError) as refused:
            await made.build(digest, lock, lambda _: None)
        assert "://" not in str(refused.value)
        assert str(tmp_path) not in str(refused.value)
        assert list((tmp_path / "envs").iterdir()) == []

    asyncio.run(story())


def test_what_cannot_be_found_is_said_in_the_installers_last_words(index: Path, tmp_path: Path) -> None:
    digest, lock = lock_of("9.9", "0" * 64)

    async def story() -> None:
        with pytest.raises(NotBuiltError, match=r"tinything==9\.9"):
            await Environments(tmp_path / "envs").build(digest, lock, lambda _: None)

    asyncio.run(story())


def test_source_packages_are_never_built(index: Path, tmp_path: Path) -> None:
    (index / "tinything-1.0.tar.gz").write_bytes(b"anything")
    digest, lock = lock_of("1.0", hashlib.sha256(b"anything").hexdigest())

    async def story() -> None:
        with pytest.raises(NotBuiltError):
            await Environments(tmp_path / "envs").build(digest, lock, lambda _: None)

    asyncio.run(story())


def test_a_lock_that_is_not_the_named_one_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(NotBuiltError, match="digest"):
            await Environments(tmp_path / "envs").build("0" * 64, b"", lambda _: None)

    asyncio.run(story())


def test_a_closed_builder_leaves_nothing_half_made(index: Path, tmp_path: Path) -> None:
    digest, lock = lock_of("1.0", wheel(index)[1])

    async def story() -> None:
        made = Environments(tmp_path / "envs")
        building = asyncio.create_task(made.build(digest, lock, lambda _: None))
        await asyncio.sleep(0.05)  # somewhere inside the installer's run
        await made.close()
        with pytest.raises(asyncio.CancelledError):
            await building
        assert list((tmp_path / "envs").iterdir()) == []

    asyncio.run(story())


@pytest.mark.parametrize("which", ["uv", "ensurepip"])
def test_other_installers_do_the_same(
    which: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = environments.importlib.util.find_spec
    monkeypatch.setattr(
        environments.importlib.util, "find_spec", lambda name: None if name == "pip" else real(name)
    )
    if which == "ensurepip":
        monkeypatch.setattr(environments, "_uv", lambda: None)
        if environments._bundled_pip() is None:
            pytest.skip("this python comes without ensurepip's wheel (Debian: install python3-venv)")
    elif environments._uv() is None:
        pytest.skip("uv is not installed")
    digest, lock = lock_of("1.0", wheel(index)[1])

    async def story() -> None:
        place = await Environments(tmp_path / "envs").build(digest, lock, lambda _: None)
        assert (place / "tinything.py").is_file()

    asyncio.run(story())


def test_without_any_installer_a_person_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(environments, "_uv", lambda: None)
    with pytest.raises(NotBuiltError, match="neither pip nor ensurepip"):
        environments.installer(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting a==2 (from -r /x/y/requirements.lock (line 3))", "Collecting a==2 (from -r … (line 3))"),
        ("Downloading https://user:pw@index.test/a/numpy.whl (3.1 MB)", "Downloading … (3.1 MB)"),
        ("Could not fetch ../private/x", "Could not fetch …"),
        ("x" * 500, "x" * 200),
    ],
)  # fmt: skip
def test_urls_and_paths_are_not_shown(line: str, shown: str) -> None:
    assert plain(line) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting a==2 (from -r /x/y/requirements.lock (line 3))", "collecting a==2"),
        ("Collecting b<3,>=1 (from a==2->-r /x/requirements.lock (line 522))", "collecting b<3,>=1"),
        ("Downloading https://user:pw@index.test/a/numpy.whl (3.1 MB)", "downloading … (3.1 MB)"),
        ("Installing collected packages: a, b", "installing collected packages: a, b"),
    ],
)  # fmt: skip
def test_a_step_is_told_in_words_and_not_as_the_installer_prints_it(line: str, shown: str) -> None:
    assert step(line) == f"its packages are fetched and installed once: {shown}"


def test_the_controllers_own_event_loop_can_install(index: Path, tmp_path: Path) -> None:
    digest, lock = lock_of("1.0", wheel(index)[1])
    place = uvloop.run(Environments(tmp_path / "envs").build(digest, lock, print))
    assert (place / "tinything.py").stat().st_mode & 0o044 == 0o044


def test_a_changed_environment_is_seen_also_after_a_restart_and_built_anew(
    index: Path, tmp_path: Path
) -> None:
    digest, lock = lock_of("1.0", wheel(index)[1])

    async def story() -> None:
        made = Environments(tmp_path / "envs")
        assert not made.intact(digest), "it is not there yet"
        place = await made.build(digest, lock, lambda _: None)
        assert made.intact(digest)
        assert Environments(tmp_path / "envs").intact(digest)
        (place / "tinything.py").write_text("answer = 43\n")
        for later in (made, Environments(tmp_path / "envs")):
            assert not later.intact(digest)
        assert await made.rebuild(digest, lock, lambda _: None) == place
        assert made.intact(digest)
        assert (place / "tinything.py").read_text() == "answer = 42\n"
        assert [path.name for path in (tmp_path / "envs").iterdir()] == [place.name]
        (place / ".handler-seal").unlink()
        assert made.intact(digest), "one of an earlier release is taken as it is"
        (place / "more.py").write_text("")
        assert not made.intact(digest)

    asyncio.run(story())


def test_what_cannot_be_built_anew_leaves_what_was_there(index: Path, tmp_path: Path) -> None:
    path, sha256 = wheel(index)
    digest, lock = lock_of("1.0", sha256)

    async def story() -> None:
        made = Environments(tmp_path / "envs")
        place = await made.build(digest, lock, lambda _: None)
        (place / "more.py").write_text("")
        path.unlink()
        with pytest.raises(NotBuiltError):
            await made.rebuild(digest, lock, lambda _: None)
        assert (place / "tinything.py").exists()
        assert not made.intact(digest)

    asyncio.run(story())


def test_what_a_killed_builder_left_goes_and_what_another_builds_now_stays(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo $$"]
    ended = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    dead, alive = (tmp_path / f".making-{pid}-x" for pid in (ended, os.getppid()))
    aside = tmp_path / ".making-going-x"
    for folder in (dead, alive, aside):
        folder.mkdir()
    Environments(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [alive.name]
