"""One user id a connector, for ever."""

from pathlib import Path

import pytest

from reconciler.runtime.identities import FIRST_UID, Identities


def test_each_connector_keeps_its_own_id_across_controllers(tmp_path: Path) -> None:
    path = tmp_path / "uids.json"
    first = Identities(path)
    one = first.uid("a")
    assert one >= FIRST_UID
    assert [first.uid("b"), first.uid("a")] == [one + 1, one]
    again = Identities(path)
    assert [again.uid("c"), again.uid("b")] == [one + 2, one + 1]


def test_two_state_folders_draw_from_blocks_of_their_own(tmp_path: Path) -> None:
    drawn = [Identities(tmp_path / name / "uids.json").uid("a") for name in "abcdefgh"]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"a": "x"}', '{"a": 0}', '{"a": 900000, "b": 900000}', '{"a": true}']
)
def test_a_file_that_cannot_be_trusted_is_begun_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "uids.json"
    path.write_text(text)
    identities = Identities(path)
    assert len({identities.uid("a"), identities.uid("b")}) == 2
    assert identities.uid("a") >= FIRST_UID
