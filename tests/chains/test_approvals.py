"""Which tool calls need a person: the policy, paths, addresses and command lines."""

from pathlib import Path

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from reconciler.chains import approvals, commands
from reconciler.model import globs
from reconciler.model.approvals import BUILT_IN, Action, Policy, PolicyError, policy

ALLOW, ASK, DENY = Action.ALLOW, Action.APPROVE, Action.DENY


def _rule(action: str, **when: str) -> Policy:
    condition = {"key": when.get("key", "x"), "op": when["op"], "value": when.get("value", "")}
    return policy(
        {"defaultAction": "approve", "rules": [{"tools": "p", "when": [condition], "action": action}]}
    )


def _said(read: Policy, argument: object) -> Action:
    return approvals.decided(read, "p", "t", {"x": argument}).action


def test_the_first_rule_that_fits_decides_and_says_which() -> None:
    read = policy(
        {
            "rules": [
                {"tools": "fs", "tool": "read_file", "action": "allow"},
                {"tools": "fs", "tool": "*", "action": "approve", "timeoutSeconds": 60},
                {"tools": "*", "action": "deny"},
            ]
        }
    )
    assert approvals.decided(read, "fs", "read_file", {}) == approvals.Decision(ALLOW, 0)
    assert approvals.decided(read, "fs", "write_file", {}) == approvals.Decision(ASK, 1, 60)
    assert approvals.decided(read, "web", "post", {}) == approvals.Decision(DENY, 2)


def test_a_policy_without_a_word_asks() -> None:
    assert approvals.decided(policy({}), "fs", "read_file", {}).action is ASK  # C55


@pytest.mark.parametrize(
    ("document", "path", "mend"),
    [
        ({"default_action": "deny"}, "default_action", "write 'defaultAction'"),
        ({"defaultAction": "ask"}, "defaultAction", "write one of allow, approve, deny"),
        ({"rules": [{"action": "alow"}]}, "rules[0].action", "write 'allow'"),
        ({"rules": [{"tools": "fs"}]}, "rules[0].action", "write one of allow, approve, deny"),
        (
            {"rules": [{"action": "allow", "onTimeout": "allow"}]},
            "rules[0].onTimeout",
            "write 'deny', or nothing",
        ),
        (
            {"rules": [{"action": "allow", "onTimeout": "approve"}]},
            "rules[0].onTimeout",
            "write 'deny', or nothing",
        ),
        (
            {"rules": [{"action": "allow", "timeoutSeconds": -1}]},
            "rules[0].timeoutSeconds",
            "write 0 to 604800",
        ),
        (
            {"rules": [{"action": "allow", "timeoutSeconds": True}]},
            "rules[0].timeoutSeconds",
            "write 0 to 604800",
        ),
        ({"rules": {"action": "allow"}}, "rules", "write a list of tables"),
        (
            {"rules": [{"action": "deny", "when": [{"key": "x", "op": "globb", "value": "a"}]}]},
            "rules[0].when[0].op",
            "write 'glob'",
        ),
        (
            {"rules": [{"action": "deny", "when": [{"key": "x", "op": "glob", "value": "a{b"}]}]},
            "rules[0].when[0].value",
            "mend the pattern",
        ),
        (
            {"rules": [{"action": "deny", "when": [{"op": "eq", "value": "a"}]}]},
            "rules[0].when[0].key",
            "write the argument's name",
        ),
        (
            {"rules": [{"action": "allow", "when": [{"op": "no_command_substitution"}]}]},
            "rules[0].when[0].op",
            "write 'approve' or 'deny'",
        ),
    ],
)
def test_a_policy_that_is_not_understood_whole_is_refused(document: dict, path: str, mend: str) -> None:
    with pytest.raises(PolicyError) as refused:
        policy(document)
    assert (refused.value.path, refused.value.mend) == (path, mend)


def test_a_missing_argument_fits_no_condition() -> None:
    assert approvals.decided(_rule("deny", op="eq", value=""), "p", "t", {}).action is ASK


def test_one_element_is_enough_to_deny_and_all_are_needed_to_allow() -> None:
    assert _said(_rule("deny", op="glob", value="secret/**"), ["a", "secret/b"]) is DENY
    assert _said(_rule("allow", op="glob", value="src/**"), ["src/a", "etc/b"]) is ASK
    assert _said(_rule("allow", op="glob", value="src/**"), ["src/a", "src/b"]) is ALLOW
    assert _said(_rule("allow", op="glob", value="src/**"), []) is ASK


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**/{.ssh,.aws}/**", "home/u/.ssh/id", True),  # C49
        ("**/{.ssh,.aws}/**", "/home/u/.ssh/id", True),
        ("**/{.ssh,.aws}/**", ".aws/x", True),
        ("**/{.ssh,.aws}/**", "a/../.ssh/./id", True),
        ("**/{.ssh,.aws}/**", "home/u/.sshx/id", False),
        ("**/*.{pem,k{ey,dbx}}", "a/b.kdbx", True),
        ("src/*", "src/a/b", False),
        ("src/**", "src", True),
        ("src/?.py", "src/a.py", True),
        ("src/[a-c]x", "src/bx", True),
        ("src/[!a-c]x", "src/bx", False),
        ("*", "a/b", False),
        ("**", "a/b/c", True),
        ("", "", True),
    ],
)
def test_patterns_stand_for_paths(pattern: str, path: str, *, fits: bool) -> None:
    assert globs.matches(globs.expanded(pattern), path, climbing=True) is fits


def test_a_rule_that_allows_never_lets_a_wildcard_climb() -> None:
    assert _said(_rule("allow", op="glob", value="**"), "../etc/passwd") is ASK
    assert _said(_rule("allow", op="glob", value="src/**"), "src/../../etc/passwd") is ASK
    assert _said(_rule("deny", op="glob", value="**/.ssh/**"), "../.ssh/id") is DENY


@pytest.mark.parametrize("pattern", ["a}", "{a", "{a,b}}", "[a", "{a,b}" * 13, "x" * 2000])
def test_a_pattern_that_cannot_be_read_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"braces|not closed|longer"):
        globs.expanded(pattern)


@given(st.text("ab*?/[]{},.!-", max_size=30), st.text("ab/.", max_size=60))
def test_no_pattern_takes_long_or_breaks(pattern: str, path: str) -> None:
    try:
        patterns = globs.expanded(pattern)
    except ValueError:
        return
    strict = globs.matches(patterns, path, climbing=False)
    assert globs.matches(patterns, path, climbing=True) or not strict


def test_many_stars_are_matched_at_once() -> None:
    assert not globs.matches(globs.expanded("*a" * 400 + "b"), "a" * 4000, climbing=True)
    assert not globs.matches(globs.expanded("**/" * 300 + "b"), "a/" * 2000, climbing=True)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://localhost:8080/x", ALLOW),  # C50
        ("http://notlocalhost/x", ASK),
        ("http://api.localhost/", ALLOW),
        ("http://LOCALHOST./", ALLOW),
        ("http://localhost@evil.com/", ASK),
        ("http://evil.com/localhost", ASK),
        ("localhost/x", ALLOW),
        ("", ASK),
        ("http://evil.com\\@localhost/", DENY),
        ("http://local\thost/", DENY),
        ("http://[bad/", DENY),
        ("http://2130706433/", DENY),
        ("http://127.1/", DENY),
    ],
)
def test_an_address_is_on_a_host_or_below_it_and_a_strange_one_is_denied(address: str, said: Action) -> None:
    assert _said(_rule("allow", op="host", value="localhost"), address) is said


def test_an_ip_address_is_that_very_one() -> None:
    read = _rule("allow", op="host", value="10.0.0.1")
    assert _said(read, "http://10.0.0.1:80/") is ALLOW
    assert _said(read, "http://[::ffff:10.0.0.1]/") is ALLOW
    assert _said(read, "http://x.10.0.0.1/") is ASK
    assert _said(read, "http://10.0.0.2/") is ASK


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf /home/x",  # A13
        "/bin/rm x",
        "ls; rm x",
        "ls && rm x",
        "ls |rm",
        "(rm x)",
        "echo $(rm x)",
        'echo "$(rm x)"',
        "echo `rm x`",
        "cat <(rm x)",
        "A=1 rm x",
        "sudo -u me rm x",
        "sh -c 'rm x'",
        "bash -lc 'ls; rm x'",
        "xargs rm",
        "\\rm x",
        "'r'm x",
        "r\\\nm x",
        "ls\nrm x",
        "if true; then rm x; fi",
        "eval 'rm x'",
        "find . -exec rm {} +",
    ],
)
def test_a_program_is_found_however_it_is_called(line: str) -> None:
    assert _said(_rule("deny", op="command_blacklist", value="dd, rm"), line) is DENY


@pytest.mark.parametrize("line", ["ls /bin/rm", "echo rm", "git rm x", "echo 'rm x; rm'", "rmdir x"])
def test_a_program_that_is_only_spoken_of_is_not_run(line: str) -> None:
    assert _said(_rule("deny", op="command_blacklist", value="dd,rm"), line) is ASK


@pytest.mark.parametrize("line", ["", "  ", "echo 'x", "$X -rf", "$'rm' x", "/bin/r? x", "{rm,-rf,x}", ";"])
def test_a_line_that_is_not_clear_is_denied(line: str) -> None:
    found = approvals.decided(_rule("allow", op="command_blacklist", value="rm"), "p", "t", {"x": line})
    assert found.action is DENY
    assert found.unclear


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("git status -s", ALLOW),
        ("ls && git status", ALLOW),
        ("git push", ASK),
        ("ls; rm x", ASK),
        ("ls $(rm x)", ASK),
        ("ls > x", ASK),
        ("lsx", ASK),
        ("sudo ls", ASK),
    ],
)
def test_only_lines_of_nothing_but_listed_beginnings_are_allowed(line: str, said: Action) -> None:
    assert _said(_rule("allow", op="command_prefix_allowlist", value="git status, ls"), line) is said


@pytest.mark.parametrize("text", ["$(x)", "`x`", "<(x)", ">(x)", "$[1]", "$((1))"])
def test_a_substitution_is_seen_in_any_argument(text: str) -> None:
    read = _rule("deny", op="no_command_substitution", key="")
    assert approvals.decided(read, "p", "t", {"a": ["b", {"c": f"x{text}"}]}).action is DENY
    assert approvals.decided(read, "p", "t", {"a": "plain $HOME (x)"}).action is ASK


@given(st.text("ab rm$()`'\"\\;|&<>{}\n=-", max_size=60))
def test_no_line_breaks_the_reader(text: str) -> None:
    try:
        found = commands.line(text)
        commands.programs(found)
    except commands.UnclearError:
        return
    assert found.commands


def test_the_policy_of_the_docs_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text()
    written = tomli.loads(page.partition("```toml\n")[2].partition("```")[0])
    assert written.pop("apiVersion") == "handler.approval-policy/v1"  # the file's, not the policy's
    read = policy(written)
    said = [
        approvals.decided(read, provider, tool, {"command": command})
        for provider, tool, command in (
            ("fs", "read_file", ""),
            ("shell", "run", "sudo rm x"),
            ("shell", "run", "ls"),
            ("web", "get", ""),
        )
    ]
    assert [(one.action, one.rule, one.timeout_s) for one in said] == [
        (ALLOW, 0, 0),
        (DENY, 1, 0),
        (ASK, 2, 600),
        (ASK, None, 0),
    ]


def test_without_a_policy_reading_is_allowed_secrets_are_denied_and_the_rest_is_asked() -> None:
    assert approvals.decided(BUILT_IN, "fs", "read_file", {"path": "notes.txt"}).action is ALLOW
    assert approvals.decided(BUILT_IN, "fs", "read_file", {"path": "a/.env"}).action is DENY
    assert approvals.decided(BUILT_IN, "fs", "fs_list_dir", {"path": ".ssh"}).action is DENY
    assert approvals.decided(BUILT_IN, "fs", "write_file", {"path": "notes.txt"}).action is ASK
    assert approvals.decided(BUILT_IN, "web", "web_post", {}).action is ASK
