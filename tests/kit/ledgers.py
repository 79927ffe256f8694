"""A ledger for tests, in a file; with HANDLER_TEST_LEDGER, in the schema of PostgreSQL that it names."""

import os
from pathlib import Path

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.papers import Papers

VARIABLE = "HANDLER_TEST_LEDGER"


def opened(state: Path) -> Ledger:
    """The ledger of a state folder."""
    if not (url := os.environ.get(VARIABLE)):
        return Ledger.at(state)
    from reconciler.attempts.postgres import PostgresStore

    return Ledger(PostgresStore(url, lambda: ""), Papers(state / "attempts"))
