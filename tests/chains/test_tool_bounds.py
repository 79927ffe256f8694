"""What a chain's ``tools_policies`` make of a call to ``shell`` and ``http``: a narrower one, or none."""

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.chains import bounds, shellbounds, toolnames, webbounds
from reconciler.chains.asks import ToolFace
from reconciler.model.approvals import Action, Rule

Policies = Mapping[str, str]
GIT: Policies = {"_allowed_commands": "git, grep"}


@pytest.mark.parametrize(
    ("arguments", "policies"),
    [
        ({"command": "id"}, GIT),
        ({"command": "./git status"}, GIT),
        ({"command": "/usr/bin/git"}, GIT),
        ({"command": "git; rm x"}, GIT),
        ({"command": "git", "args": ["log"]}, {"_denied_commands": "git"}),
        ({"command": "rm -rf /home/x"}, {"_denied_commands": "rm"}),
        ({"command": "/bin/rm", "args": ["-rf", "/home/x"]}, {"_denied_commands": "rm"}),
        ({"command": "rm"}, {"_denied_commands": "/bin/rm, rm"}),
        ({"command": "/bin/rm x"}, {"_denied_commands": "/bin/rm"}),
        ({"command": "rm x"}, {"_denied_commands": "/bin/rm"}),
        ({"command": "sh", "args": ["-c", "/usr/bin/rm x"]}, {"_denied_commands": "/bin/rm"}),
        ({"command": "sh", "args": ["-c", "ls && rm x"]}, {"_denied_commands": "rm"}),
        ({"command": "env A=1 rm x"}, {"_denied_commands": "rm"}),
        ({"command": "sh", "args": ["-c", "'"]}, {"_denied_commands": "rm"}),
        ({"command": "git", "args": []}, {**GIT, "_denied_commands": "git"}),
        ({"command": "/bin/git"}, {"_allowed_dir": "/usr/bin"}),
        ({"command": "/usr/bin/../../bin/sh"}, {"_allowed_dir": "/usr/bin"}),
        ({"command": "git"}, {"_allowed_dir": "/dev/null/nothing"}),
        ({"command": "git"}, {"_allowed_dir": "bin"}),
        ({"command": "git"}, {"_allowed_commands": "/dev/null/nothing"}),
        ({"command": "git"}, {"_max_output_bytes": "many"}),
        ({"command": "git"}, {"_max_output_bytes": "255"}),
        ({"command": "git"}, {"_allow_network": "true"}),
        ({"command": " "}, GIT),
        ({"args": ["x"]}, GIT),
    ],
)
def test_a_program_beyond_the_bounds_is_not_run(arguments: dict[str, Any], policies: Policies) -> None:
    assert isinstance(bounds.kept("shell", "shell_run", arguments, policies), str)


@pytest.mark.parametrize(
    ("arguments", "policies", "kept"),
    [
        ({"command": "git log"}, GIT, {"command": "git log"}),
        ({"command": "git", "args": ["log; rm x"]}, GIT, {"command": "git", "args": ["log; rm x"]}),
        ({"command": "grep rm x"}, {"_denied_commands": "rm"}, {"command": "grep rm x"}),
        (
            {"command": "git log -1"},
            {"_allowed_dir": "/usr/bin/"},
            {"command": "/usr/bin/git", "args": ["log", "-1"]},
        ),
        ({"command": "ls"}, {"_max_output_bytes": "1000"}, {"command": "ls", "max_output_bytes": 1000}),
        (
            {"command": "ls", "max_output_bytes": 500},
            {"_max_output_bytes": "1000"},
            {"command": "ls", "max_output_bytes": 500},
        ),
        (  # a whole number to a schema, however it is written
            {"command": "ls", "max_output_bytes": 500_000.0},
            {"_max_output_bytes": "1000"},
            {"command": "ls", "max_output_bytes": 1000},
        ),
        ({"command": "ls"}, {"_max_output_bytes": "0"}, {"command": "ls"}),
        ({"command": "ls"}, {"_max_output_bytes": "-1"}, {"command": "ls"}),
        (  # which the interface refuses: what it asks for is not made another wish
            {"command": "ls", "max_output_bytes": 5},
            {"_max_output_bytes": "1000"},
            {"command": "ls", "max_output_bytes": 5},
        ),
    ],
)
def test_a_program_within_the_bounds_is_run_as_it_is_said(
    arguments: dict[str, Any], policies: Policies, kept: dict[str, Any]
) -> None:
    assert bounds.kept("shell", "shell_run", arguments, policies) == kept


@pytest.mark.parametrize(
    ("arguments", "modern"),
    [
        ({"command": "git", "args": "log 'a b'"}, {"command": "git", "args": ["log", "a b"]}),
        ({"command": "ls", "timeout": "30s", "shell": "false"}, {"command": "ls", "timeout_seconds": 30}),
        ({"command": "ls", "timeout": "9000"}, {"command": "ls", "timeout_seconds": 110}),
        ({"command": "ls", "shell": "true"}, {"command": "ls", "shell": "true"}),  # no such argument
        ({"command": "ls", "args": "a; b"}, {"command": "ls", "args": "a; b"}),  # nor a text for a list
    ],
)
def test_arguments_as_other_engines_write_them(arguments: dict[str, Any], modern: dict[str, Any]) -> None:
    assert bounds.modern("shell", arguments) == modern
    assert bounds.modern("http", arguments) == arguments


def test_a_policy_judges_the_whole_line_of_a_program() -> None:
    assert bounds.judged("shell", {"command": "sh", "args": ["-c", "rm x"]})["command"] == "sh -c 'rm x'"
    assert bounds.judged("shell", {"command": "rm x"}) == {"command": "rm x"}
    assert bounds.judged("fs", {"command": "a", "args": ["b"]}) == {"command": "a", "args": ["b"]}


URL = "https://api.one.test/x"


@pytest.mark.parametrize(
    ("tool", "arguments", "policies", "kept"),
    [
        (
            "http_get",
            {},
            {"_allowed_hosts": "API.one.test, two.test"},
            {"allowed_hosts": ["api.one.test", "two.test"]},
        ),
        (
            "http_get",
            {"allowed_hosts": ["two.test", "three.test"]},
            {"_allowed_hosts": "two.test"},
            {"allowed_hosts": ["two.test"]},
        ),
        (
            "http_get",
            {"denied_hosts": ["a.test"]},
            {"_denied_hosts": "b.test"},
            {"denied_hosts": ["a.test", "b.test"]},
        ),
        ("http_get", {}, {"_max_response_bytes": "100"}, {"max_bytes": 100}),
        ("http_get", {"max_bytes": 50}, {"_max_response_bytes": "100"}, {"max_bytes": 50}),
        ("http_get", {"max_bytes": 9e5}, {"_max_response_bytes": "100"}, {"max_bytes": 100}),
        ("http_get", {}, {"_max_response_bytes": "0"}, {}),
        ("http_post", {}, {"_request_timeout_seconds": "9000"}, {"timeout_seconds": 50}),
        ("http_get", {}, {"_disallow_redirects": "true"}, {"follow_redirects": False}),
        ("http_post", {}, {"_disallow_redirects": "true"}, {}),
        ("http_post", {"body": "é"}, {"_max_request_body_bytes": "2"}, {"body": "é"}),
        ("http_get", {}, {"_max_attempts": "3", "_initial_backoff_ms": "250"}, {}),
        ("http_get", {}, {"_allowed_schemes": "https"}, {}),
    ],
)
def test_a_request_is_narrowed_by_its_own_arguments(
    tool: str, arguments: dict[str, Any], policies: Policies, kept: dict[str, Any]
) -> None:
    assert bounds.kept("http", tool, {"url": URL, **arguments}, policies) == {"url": URL, **arguments, **kept}


@pytest.mark.parametrize(
    ("arguments", "policies"),
    [
        ({"url": "http://one.test"}, {"_allowed_schemes": "https"}),
        ({"url": URL, "body": "é"}, {"_max_request_body_bytes": "1"}),
        ({"url": URL}, {"_max_attempts": "some"}),
        ({"url": URL}, {"_allowed_ports": "443"}),
        ({"url": URL}, {"_allowed_hosts": ",".join(f"h{n}.test" for n in range(65))}),
    ],
)
def test_a_request_beyond_the_bounds_is_not_sent(arguments: dict[str, Any], policies: Policies) -> None:
    assert isinstance(bounds.kept("http", "http_post", arguments, policies), str)


def test_a_bound_on_any_other_tool_refuses_it_and_none_lets_it_be() -> None:
    assert isinstance(bounds.kept("ocr", "ocr_extract", {}, {"_max_read_bytes": "1"}), str)
    assert bounds.kept("ocr", "ocr_extract", {"path": "a"}, {}) == {"path": "a"}
    assert bounds.kept("fs", "fs_read_file", {"path": "a"}, {"_allowed_dir": "."}) == {"path": "a"}


def face(provider: str, name: str) -> ToolFace:
    return ToolFace(provider, name, "", {})


FACES = {
    one.full_name: one
    for one in (face("shell", "shell_run"), face("http", "http_get"), face("http", "http_put"))
}


@pytest.mark.parametrize(
    ("word", "full"),
    [
        ("local_shell", "shell.shell_run"),
        ("local_shell.local_shell", "shell.shell_run"),
        ("shell.run", "shell.shell_run"),
        ("webtools.web_get", "http.http_get"),
        ("webtools.get", "http.http_get"),
        ("http_put", "http.http_put"),
        ("webtools", None),
        ("webtools.web_post", None),
    ],
)
def test_the_words_of_other_engines_mean_these_tools(word: str, full: str | None) -> None:
    found = toolnames.resolved(word, FACES)
    assert (found.full_name if found else None) == full


def test_a_rule_of_an_old_name_holds_of_the_tool() -> None:
    rules = [Rule("webtools", "web_post", Action.DENY), Rule("local_shell", "local_shell", Action.DENY)]
    named = {(one.provider, one.tool) for _, one in toolnames.modern_rules(rules)}
    assert {("http", "http_post"), ("shell", "shell_run")} <= named


@pytest.mark.parametrize("bound", ["--5", "-", "9" * 5000, "\u0663", "1_0", "5.0"])
def test_a_bound_that_is_no_number_lets_nothing_through(bound: str) -> None:
    web = {"_max_response_bytes": bound, "_allowed_schemes": "https"}
    assert "is no number" in webbounds.kept("http_get", {"url": "https://one.test/"}, web)
    assert "is no number" in shellbounds.kept({"command": "ls"}, {"_max_output_bytes": bound})


def test_an_address_that_cannot_be_read_and_a_time_without_end_are_no_fault() -> None:
    assert "this scheme" in webbounds.kept("http_get", {"url": "http://["}, {"_allowed_schemes": "https"})
    assert shellbounds.modern({"command": "x", "timeout": "9" * 5000 + "s"})["timeout_seconds"] == 110
