"""The ledger that the contract is held to: in a file, and with HANDLER_POSTGRES=1 in PostgreSQL, too."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.attempts.ledger import Ledger
from tests.kit import ledgers, postgres

_ENGINES = ["sqlite", "postgres"] if os.environ.get("HANDLER_POSTGRES") else ["sqlite"]


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    if why := postgres.missing():
        pytest.skip(why)
    one = postgres.Server()
    yield one
    one.close()


@pytest.fixture(params=_ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which one ``tests.kit.ledgers`` opens, in this process and in its children."""
    if request.param == "postgres":
        monkeypatch.setenv(ledgers.VARIABLE, request.getfixturevalue("server").url())
    return str(request.param)


@pytest.fixture
def ledger(engine: str, tmp_path: Path) -> Iterator[Ledger]:
    one = ledgers.opened(tmp_path)
    yield one
    one.close()
