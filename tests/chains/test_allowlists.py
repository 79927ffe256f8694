"""Which tools a task may use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.chains import allowlists

ALL = ("a", "b", "x")


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (None, ()),
        ([], ()),
        (["*"], ALL),
        (["a", "zz"], ("a",)),
        (["*", "!x"], ("a", "b")),
        (["!x", "*"], ("a", "b")),  # C25
        (["!x"], ()),
        (["a", "!a"], ()),
    ],
)
def test_an_allowlist_names_takes_away_and_forgets_the_unknown(
    wanted: list[str] | None, allowed: tuple[str, ...]
) -> None:
    assert allowlists.allowed(wanted, ALL) == allowed


def test_a_caller_narrows_and_never_widens() -> None:
    assert allowlists.narrowed(["*"], ["a"], ALL) == ("a",)  # C26
    assert allowlists.narrowed(["a"], ["*"], ALL) == ("a",)
    assert allowlists.narrowed(["*"], None, ALL) == ALL
    assert allowlists.narrowed(["*"], [], ALL) == ()


def test_to_execute_an_absent_list_restricts_nothing_and_an_empty_one_everything() -> None:
    assert allowlists.executable(None, None, ALL) == ALL  # C24
    assert allowlists.executable([], None, ALL) == ()
    assert allowlists.executable(None, ["b"], ALL) == ("b",)


@given(
    st.lists(st.sampled_from(["*", "a", "b", "!a", "!x", "zz"])), st.lists(st.sampled_from(["*", "a", "!b"]))
)
def test_no_order_and_no_caller_ever_gives_more(wanted: list[str], caller: list[str]) -> None:
    own = set(allowlists.allowed(wanted, ALL))
    assert set(allowlists.allowed(wanted[::-1], ALL)) == own
    assert set(allowlists.narrowed(wanted, caller, ALL)) <= own


def test_a_tool_is_hidden_by_either_of_its_names() -> None:
    assert allowlists.hidden("fs.write_file", ["fs.write_file"])
    assert allowlists.hidden("fs.write_file", ["write_file"])
    assert not allowlists.hidden("fs.write_file", ["fs", "write"])


def test_of_two_policies_the_strictest_word_of_each_key_holds() -> None:
    asking = {
        "sh": {"_allowed_commands": "git, ls", "_denied_commands": "rm", "_allowed_dir": "/w"},
        "web": {"_max_response_bytes": "0", "_disallow_redirects": "true"},
    }
    running = {
        "sh": {"_allowed_commands": "ls,cat", "_denied_commands": "dd", "_allowed_dir": "/w/in"},
        "web": {"_max_response_bytes": "10", "_disallow_redirects": "false"},
        "fs": {"_max_read_bytes": "5"},
    }
    expected = {
        "fs": {"_max_read_bytes": "5"},
        "sh": {"_allowed_commands": "ls", "_allowed_dir": "/w/in"},
        "web": {"_max_response_bytes": "10", "_disallow_redirects": "true"},
    }
    for one, other in ((asking, running), (running, asking)):
        merged = allowlists.strictest(one, other)
        assert set(merged["sh"].pop("_denied_commands").split(",")) == {"rm", "dd"}
        assert merged == expected
    assert allowlists.strictest(asking, {}) == asking  # A7: the executing task says nothing, and it holds


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [("git", "ls", "_allowed_commands"), ("/a", "/b", "_allowed_dir"), ("a", "../b", "_allowed_dir")],
)
def test_permissions_with_nothing_in_common_permit_nothing(one: str, other: str, key: str) -> None:
    merged = allowlists.strictest({"p": {key: one}}, {"p": {key: other}})
    assert merged == {"p": {key: allowlists.NOWHERE}}


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [(".", "src", "src"), ("/a/b", "/a", "/a/b"), ("/ab", "/a", None), ("/", "/x", "/x")],
)
def test_of_two_folders_the_inner_one_holds(one: str, other: str, kept: str | None) -> None:
    merged = allowlists.strictest({"p": {"_allowed_dir": one}}, {"p": {"_allowed_dir": other}})
    assert merged["p"]["_allowed_dir"] == (kept or allowlists.NOWHERE)


def test_a_ceiling_that_is_no_number_stays_to_be_refused() -> None:
    merged = allowlists.strictest({"p": {"_max_read_bytes": "5"}}, {"p": {"_max_read_bytes": "many"}})
    assert merged["p"]["_max_read_bytes"] == "many"
