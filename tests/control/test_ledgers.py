"""Which ledger a state folder uses, and what keeps a controller from beginning a second one by mistake."""

import json
import os
from pathlib import Path

import pytest

from reconciler.attempts.happenings import CancelAsked
from reconciler.attempts.ledger import Ledger
from reconciler.attempts.store import UnusableError
from reconciler.control.ledgers import Ledgers
from reconciler.model.settings import Ledger as Wanted
from tests.attempts.wishes import NOW, new

URL = "postgresql://handler@127.0.0.1:1/handler"
SHARED = f'[ledger]\nurl = "{URL}"\n'
MEMO = {"url": "postgresql://h@old:1/x", "home": "here-abc123/", "install": "i", "form": "", "words": []}


@pytest.fixture
def ledgers(tmp_path: Path) -> Ledgers:
    for name in ("state", "config"):
        (tmp_path / name).mkdir()
    return Ledgers(tmp_path / "state", tmp_path / "config")


def _says(ledgers: Ledgers, text: str) -> None:
    assert ledgers._config is not None
    (ledgers._config / "handler.toml").write_text(text)


def _remembers(ledgers: Ledgers) -> None:
    (ledgers.file.parent / "ledger.json").write_text(json.dumps(MEMO))


def test_without_a_word_it_is_the_file(ledgers: Ledgers) -> None:
    assert ledgers.shared() is None
    assert not ledgers.exists()
    assert ledgers.read() is None
    ledgers.open().close()
    assert ledgers.exists()
    assert (ledgers.used, ledgers.file.is_file()) == ("", True)


def test_the_settings_name_a_database_and_its_absence_is_said_without_a_password(ledgers: Ledgers) -> None:
    _says(ledgers, SHARED + 'password = { env = "NO_SUCH_VARIABLE" }\n')
    shared = ledgers.shared()
    assert shared is not None
    assert (shared.url, shared.form, shared.words) == (URL, "env", ("NO_SUCH_VARIABLE",))
    assert shared.home.endswith("/")
    assert ledgers.exists()
    with pytest.raises(UnusableError, match=r"slot 'ledger.password' \(env\) does not resolve"):
        ledgers.open()
    _says(ledgers, SHARED)
    with pytest.raises(UnusableError, match=f"cannot reach the ledger at {URL}"):
        ledgers.open()
    assert not ledgers.file.exists()  # no second ledger beside it


@pytest.mark.parametrize(
    "text", ["[ledger", '[ledger]\nurl = "mysql://x/y"\n', '[source]\nmode = "commit"\n' + SHARED]
)
def test_where_the_settings_cannot_be_read_the_last_ledger_counts(ledgers: Ledgers, text: str) -> None:
    """In mode commit, the work tree's own are nobody's word: they need not be signed."""
    _says(ledgers, text)
    assert ledgers.shared() is None
    _remembers(ledgers)
    shared = ledgers.shared()
    assert shared is not None
    assert shared.url == MEMO["url"]
    ledgers.settings = lambda: Wanted(url=URL)
    shared = ledgers.shared()
    assert shared is not None
    assert (shared.url, shared.home, shared.install) == (URL, MEMO["home"], "")


def test_a_database_that_only_the_memory_names_is_said(ledgers: Ledgers) -> None:
    _remembers(ledgers)
    assert "old:1/x was used last and stays the ledger" in ledgers.remembered()
    _says(ledgers, '[source]\nmode = "commit"\n')  # whose settings are known once a commit is read
    assert ledgers.remembered() == ""
    _says(ledgers, "")  # which says that it is the file
    assert (ledgers.remembered(), ledgers.shared()) == ("", None)


def test_a_file_with_something_open_is_not_left_for_a_database(ledgers: Ledgers) -> None:
    file = ledgers.open()
    one = file.prepare(new(), NOW).attempt
    _says(ledgers, SHARED)
    with pytest.raises(UnusableError, match=r"the file ledger\.db holds 1 that are not over"):
        ledgers.open()
    file.apply(one, NOW, CancelAsked("ada"))
    file.close()
    with pytest.raises(UnusableError, match="cannot reach the ledger"):  # so that is the next thing
        ledgers.open()


def test_a_database_that_cannot_be_asked_is_not_left_for_the_file(ledgers: Ledgers) -> None:
    _remembers(ledgers)
    _says(ledgers, "")
    with pytest.raises(UnusableError, match=r"if that ledger is gone for ever, remove .*ledger\.json"):
        ledgers.open()
    (ledgers.file.parent / "ledger.json").unlink()
    assert isinstance(ledgers.open(), Ledger)


@pytest.mark.parametrize("kind", ["fifo", "rubbish", "folder"])
def test_a_memory_that_is_none_is_refused_and_nothing_hangs(ledgers: Ledgers, kind: str) -> None:
    memo = ledgers.file.parent / "ledger.json"
    match kind:
        case "fifo":
            os.mkfifo(memo)
        case "folder":
            memo.mkdir()
        case _:
            memo.write_text('{"url": 3}')
    assert ledgers.exists()
    with pytest.raises(UnusableError, match="cannot be read, which says what ledger was used last"):
        ledgers.open()
