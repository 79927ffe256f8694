"""Revisions are taken apart whatever a branch is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import revisions

SHA = "4f2c1aa0" * 5
BRANCHES = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=" ~^:?*[\\"), min_size=1)


@given(BRANCHES, st.sampled_from(["", "+dirty:0123456789ab", "+unchecked:0123456789ab"]))
def test_every_part_comes_back_whatever_the_branch_is_called(branch: str, edits: str) -> None:
    found = revisions.parts(f"{branch}@sha1:{SHA}{edits}")
    assert (found.branch, found.commit, found.edits) == (branch, SHA, edits[1:])
    assert found.dirty == edits.startswith("+dirty")


def test_without_git_there_is_a_name_and_no_commit() -> None:
    found = revisions.parts(f"none@sha256:{SHA}")
    assert (found.name, found.commit) == (SHA, "")
    assert revisions.parts(f"none@sha1:{SHA}").commit == SHA  # a branch may be called so


@pytest.mark.parametrize(
    ("branch", "word", "meant"),
    [
        ("main", "4f2c", True),
        ("main", "4f2", False),
        ("main", f"main@sha1:{SHA}", True),
        ("main", "main@4f2c1", True),
        ("main", "other@4f2c1", False),
        ("fix+dirty@v2", "4f2c1", True),
        ("fix+dirty@v2", "fix+dirty@v2@4f2c1", True),
        ("v2+main", "main@4f2c1", False),
    ],
)
def test_a_persons_word_means_a_revision(branch: str, word: str, *, meant: bool) -> None:
    assert revisions.is_meant(f"{branch}@sha1:{SHA}", word) is meant


def test_edits_are_named_whole() -> None:
    edited = f"main@sha1:{SHA}+dirty:0123456789ab"
    assert not revisions.is_meant(edited, "4f2c1aa")
    assert revisions.is_meant(edited, edited)
