"""What a controller says when it cannot run here."""

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.control import daemon


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("config", "state", "run"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(f"HANDLER_{name.upper()}", str(tmp_path / name))
    short = Path(f"/tmp/handler-d{tmp_path.stat().st_ino}")
    short.symlink_to(tmp_path)
    monkeypatch.setenv("HANDLER_RUN", str(short / "run"))
    yield tmp_path
    short.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda place: (place / "run/control.sock").write_text("mine"),
            "is in the way of",
        ),
        (lambda place: (place / "state/admitted/journal").mkdir(parents=True), "Is a directory"),
        (lambda place: (place / "state/sessions").write_text(""), "File exists"),
    ],
)
def test_what_stands_in_the_way_is_said_in_a_sentence(
    place: Path, spoil: Callable[[Path], object], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(place)
    with caplog.at_level(logging.ERROR):
        assert daemon.run(place / "config") == 2
        assert daemon.run(place / "config") == 2, "it was not taken away either"
    assert len([line for line in caplog.messages if words in line]) == 2


def test_a_run_folder_that_cannot_be_made_says_where_it_can(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(daemon.CannotStart, match="set HANDLER_RUN"):
        daemon.lay_run_folder(place / "run")


@pytest.mark.parametrize(
    ("uid", "mode", "may"),
    [
        (None, 0o700, True),
        (None, 0o1777, True),
        (None, 0o777, False),
        (None, 0o775, True),
        (1234, 0o700, False),
    ],
)
def test_the_run_folder_lies_where_nobody_else_can_exchange_it(
    tmp_path: Path, uid: int | None, mode: int, *, may: bool
) -> None:
    above = Path(f"/tmp/handler-e{tmp_path.stat().st_ino}")
    above.mkdir()
    try:
        above.chmod(mode)
        if uid is not None:
            if os.geteuid() != 0:
                pytest.skip("only root gives a folder away")
            os.chown(above, uid, -1)
        with contextlib.nullcontext() if may else pytest.raises(daemon.CannotStart, match="others may"):
            daemon.lay_run_folder(above / "run")
        if may:
            assert (above / "run").stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(above)
