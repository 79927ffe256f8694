"""A state folder with something in it that is no file: said at once, where opening it would wait for ever."""

import os
from pathlib import Path

import pytest

from reconciler.control import folders, lock
from reconciler.control.place import Place


@pytest.mark.parametrize("name", ["events.jsonl", "status/summary.md", "admitted/journal", "calls/ab.jsonl"])
def test_a_pipe_in_the_state_folder_is_named_and_no_controller_waits_for_it(
    tmp_path: Path, name: str
) -> None:
    pipe = tmp_path / "state" / name
    pipe.parent.mkdir(parents=True)
    (tmp_path / "state" / "ok.json").touch()
    (tmp_path / "state" / "link").symlink_to(tmp_path / "nowhere")
    place = Place(tmp_path / "config", tmp_path / "state", tmp_path / "run")
    place.claim()
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=rf"{pipe.name} is no file: remove it"):
        place.claim()


def test_a_pipe_in_the_place_of_the_lock_or_of_the_owners_name_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    assert lock.owner(tmp_path) is None
    with pytest.raises(OSError, match="lock is no file"), lock.held(tmp_path):
        pass
    os.mkfifo(tmp_path / "configuration")
    assert folders._owner(str(tmp_path)) == ("", "")
