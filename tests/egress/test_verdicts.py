"""Each row of `make flows-egress`, as a test."""

from pathlib import Path

import pytest

from tests.egress import report


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, bool]]:
    folder: Path = tmp_path_factory.mktemp("verdicts")
    return {words: (said, held) for words, said, held in report.rows(folder)}


@pytest.mark.parametrize("words", [words for words, _, _ in report.ATTEMPTS])
def test_an_attempt_ends_as_it_should(rows: dict[str, tuple[str, bool]], words: str) -> None:
    said, held = rows[words]
    assert held, said
