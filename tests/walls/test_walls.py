"""A representative of `make flows-sandbox`: all attempts by one runtime, and all spellings."""

from pathlib import Path

import pytest

from reconciler.runtime import seccomp
from tests.walls import escapes, report, spellings, world


@pytest.mark.slow
def test_every_attempt_of_a_connector_is_stopped_by_the_wall_that_is_meant_to() -> None:
    found = world.run(("python",))
    through = [row for rows in found.values() for row in rows if not row.stopped]
    assert through == []
    assert len(found["python"]) == len(world.INSIDE) > 140
    assert len(found[escapes.OUT]) == len(world.THROUGH) >= 23


def test_the_same_attempts_pass_where_there_is_no_wall(tmp_path: Path) -> None:
    """So that a wall is what stops them, and no fault of the attempt."""
    passing = [
        "TCP over IPv4 to a server of this machine",
        "an abstract Unix socket of this machine",
        "the control socket of the controller",
        "a descriptor that the controller forgot to close",
        "the state folder of the controller",
        "a secret of the controller's user",
        "/etc/passwd",
        "a signal to the controller",
        "a pidfd of the controller",
        "the environment of the controller",
    ]
    with world.targets(tmp_path, watched=False) as given:
        found = {words: escapes.ventured(words, given) for words in passing}
    assert {words for words, said in found.items() if "passed" not in said} == set()


def test_what_the_filter_is_said_to_stop_is_in_it() -> None:
    known = seccomp._REFUSED.keys() | seccomp._UNHEARD_OF.keys()
    assert {name for names in escapes.CALLS.values() for name in names} <= known


@pytest.mark.parametrize("one", spellings.SPELLINGS, ids=lambda one: spellings.shown(one.text)[:40])
def test_a_spelling_of_a_host_is_admitted_or_not(one: spellings.Spelling) -> None:
    assert spellings.listable(one.text) is one.listable


def test_a_proxy_decides_every_spelling_right() -> None:
    answers = spellings.statuses()
    through = {text for text, status in answers.items() if status == "200"}
    assert through == {one.text for one in spellings.SPELLINGS if one.through}
    assert len(answers) == len(spellings.SPELLINGS) >= 30


@pytest.mark.parametrize("name", report.TABLES)
def test_the_tables_of_the_docs_are_those_of_the_code(name: str) -> None:
    begin, end = report.marks(name)
    told = report.DOCS.read_text().partition(begin)[2].partition(end)[0]
    assert told == report.TABLES[name](), "make docs writes it"
