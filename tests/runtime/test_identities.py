"""One user id a connector, for ever."""

from pathlib import Path

import pytest

from reconciler.runtime.identities import FIRST_UID, Identities


def test_each_connector_keeps_its_own_id_across_controllers(tmp_path: Path) -> None:
    path = tmp_path / "uids.json"
    first = Identities(path)
    assert [first.uid("a"), first.uid("b"), first.uid("a")] == [FIRST_UID, FIRST_UID + 1, FIRST_UID]
    again = Identities(path)
    assert [again.uid("c"), again.uid("b")] == [FIRST_UID + 2, FIRST_UID + 1]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"a": "x"}', '{"a": 0}', '{"a": 900000, "b": 900000}', '{"a": true}']
)
def test_a_file_that_cannot_be_trusted_is_begun_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "uids.json"
    path.write_text(text)
    identities = Identities(path)
    assert len({identities.uid("a"), identities.uid("b")}) == 2
    assert identities.uid("a") >= FIRST_UID
