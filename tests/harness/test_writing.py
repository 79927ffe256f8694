"""Texts of objects: always TOML that admission takes, laid out, and without a secret of the source."""

import re
import string

import pytest
import tomli
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.config import tomlform
from reconciler.harness import naming, secrecy, writing
from reconciler.harness.formats import Left, Server
from reconciler.model.names import MAX_NAME, name_fault
from tests.admission import build
from tests.kit.effort import times

ORIGIN = writing.Origin("claude", "~/.claude.json")
_SENDERS_OWN = ["Host", "connection", "Accept", "MCP-Session-Id", "proxy-authorization", "X-Forwarded-For"]
NOT_HTTPS = "its address is not an https one, and a connector reaches no other"
CANARY = "c4NaRyS3cr3tVaLu3x9"


def _written(server: Server, name: str = "s") -> writing.Written:
    found = writing.written(server, name, ORIGIN)
    assert isinstance(found, writing.Written), found
    return found


def _values(server: Server) -> tuple[dict[str, object], dict[str, object]]:
    texts = list(_written(server).files.values())
    return tomli.loads(texts[0]), tomli.loads(texts[1])


def _admitted(files: dict[str, str]) -> None:
    admission = build.judge(dict(files), build.interface())
    assert build.errors(admission) == []
    for text in files.values():
        assert tomlform.canonical(text.encode()) == text.encode()


_TEXTS = st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30)
_NAMES = st.text(alphabet=string.ascii_letters + string.digits + "_-. é", min_size=1, max_size=50)


@pytest.mark.slow
@settings(deadline=None, max_examples=times(25))
@given(
    name=_TEXTS.filter(bool),
    command=st.lists(_TEXTS, min_size=1, max_size=5),
    env=st.dictionaries(
        st.one_of(_NAMES, st.from_regex(r"[A-Z_]{1,12}", fullmatch=True)), _TEXTS, max_size=6
    ),
    headers=st.dictionaries(_NAMES, _TEXTS, max_size=4),
    untaken=st.lists(_TEXTS, max_size=3),
)
@example(name="x", command=["\u202e\U000e0041\x7f\n"], env={"A": "\u2028"}, headers={}, untaken=["\u202e"])
@example(
    name="x",
    command=["a"],
    env={"A_B": "debug", "A__B": "debug", "AB": "x"},
    headers={"a": "", "A": ""},
    untaken=[],
)
def test_whatever_a_server_is_called_and_given_its_objects_are_admitted(
    name: str, command: list[str], env: dict[str, str], headers: dict[str, str], untaken: list[str]
) -> None:
    server = Server(name, tuple(command), env=env, headers=headers, untaken=tuple(untaken))
    ours = naming.objects([name], {"taken"})[name]
    _admitted(_written(server, ours).files | writing.agent("claude", [ours], ORIGIN))


@settings(deadline=None, max_examples=times(25))
@given(_TEXTS, _TEXTS)
@example("\x08", "")
@example("\x1b", "")
@example("mcp/é", "a=b")
def test_whatever_an_address_is_it_is_admitted_or_left_out(path: str, query: str) -> None:
    found = writing.written(Server("x", url=f"https://h.example.com/{path}?{query}"), "s", ORIGIN)
    if isinstance(found, writing.Written):
        _admitted(found.files)


@settings(deadline=None, max_examples=times(15))
@given(st.dictionaries(st.one_of(_NAMES, st.sampled_from(_SENDERS_OWN)), _TEXTS, max_size=5))
@example({"a": "", "A": ""})
@example(dict.fromkeys(_SENDERS_OWN, "x"))
def test_whatever_headers_a_remote_server_is_sent_it_is_admitted(headers: dict[str, str]) -> None:
    _admitted(_written(Server("x", url="https://h.example.com/mcp", headers=headers)).files)


def test_a_header_is_a_slot_of_a_remote_server_alone_and_once() -> None:
    both = {"X-Key": "hunter2-canary", "x-key": "hunter2-canary", "Host": "h"}
    connector, binding = _values(Server("x", url="https://h.example.com/mcp", headers=both))
    assert (list(connector["secretSlots"]), list(binding["secrets"])) == (["x_key"], ["x_key"])  # type: ignore[call-overload]
    made = _written(Server("x", ("a",), headers=both))
    assert "secretSlots" not in tomli.loads(made.files["connectors/s/connector.toml"])
    assert 'The header "X-Key": a program on its pipes is sent none' in "".join(made.files.values())


_HIDDEN_IN = [
    Server("x", ("a", CANARY)),
    Server("x", ("a", f"--token={CANARY}")),
    Server("x", ("a", "--api-key", CANARY)),
    Server("x", ("a", "--password", "hunter2-canary")),
    Server("x", ("a", "-p", "hunter2-canary")),
    Server("x", ("a", "--header", "X-Any: hunter2-canary")),
    Server("x", ("a", "-H", f"Authorization:Bearer {CANARY}")),
    Server("x", ("a", "--header=X-Any: hunter2-canary")),
    Server("x", ("docker", "run", "-e", "ANY=hunter2-canary", "x")),
    Server("x", ("env", "ANY=hunter2-canary", "x")),
    Server("x", ("a", "--user", "me:canary")),
    Server("x", ("a", "-p", "canary")),
    Server("x", ("sh", "-c", "TOKEN=hunter2-canary exec x")),
    Server("x", ("a", f"postgres://u:{CANARY}@h/db")),
    Server("x", ("a", "https://h/?api_key=hunter2-canary")),
    Server("x", ("a", "${A:-hunter2-canary}")),
    Server("x", ("a", "--password", "${A:-hunter2-canary}")),
    Server("x", ("a", "${A:-${B:-hunter2-canary}}")),
    Server("x", ("a", "${A:-hunter2{canary}")),
    Server("x", (CANARY, "b")),
    Server("x", ("a",), env={"API_TOKEN": "hunter2-canary"}),
    Server("x", ("a",), env={"ANY": CANARY}),
    Server("x", ("a",), env={"ANY": "${A:-hunter2-canary}"}),
    Server("x", ("a",), env={"ANY": "hunter2-canary ${A}"}),
    Server("x", ("a",), env={"ANY": "{file:/x} hunter2-canary"}),
    Server("x", ("a",), env={"lower": "hunter2-canary", "NODE_OPTIONS": "hunter2-canary"}),
    Server("x", url=f"https://h.io/m?k={CANARY}"),
    Server("x", url="https://h.io/m?user=hunter2-canary"),
    Server("x", url="https://me:hunter2-canary@h.io/m"),
    Server("x", url=f"https://h.io/s/{CANARY}/mcp"),
    Server("x", url="https://h.io/m#hunter2-canary"),
    Server("x", url="https://h.io/${A:-hunter2-canary}"),
    Server("x", url="https://h.io/", headers={"Authorization": "Bearer hunter2-canary"}),
    Server("x", url="https://h.io/", headers={"X-Any": "hunter2-canary", "Accept": "hunter2-canary"}),
    Server("x", url="https://h.io/", headers={"no name": "hunter2-canary"}),
]


@pytest.mark.parametrize("server", _HIDDEN_IN, ids=lambda one: str(one)[:60])
def test_no_secret_of_the_source_stands_in_a_text_or_in_what_is_left_to_do(server: Server) -> None:
    made = _written(server)
    everything = " ".join((*made.files.values(), *made.todo)).lower()
    assert "canary" not in everything
    assert CANARY.lower() not in everything
    _admitted(made.files)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.from_regex(r"[A-Z][A-Z0-9_]{0,10}(KEY|TOKEN|SECRET|PASSWORD)", fullmatch=True),
    st.text("xyz0189-/", min_size=6),
)
def test_what_is_called_a_secret_is_one_whatever_it_looks_like(name: str, value: str) -> None:
    value = f"Q{value}Q"
    made = _written(Server("s", ("a",), env={name: value}))
    assert value not in " ".join((*made.files.values(), *made.todo))


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (Server("x", ("a",), disabled=True), "it was switched off where it was imported from"),
        (Server("x", ("a", CANARY)), "it was imported in part: its connector says what to mend"),
        (Server("x", ("a", "${DIR}")), "it was imported in part: its connector says what to mend"),
        (
            Server("x", url="https://h.io/sse", sse=True),
            "it was imported in part: its connector says what to mend",
        ),
    ],
)
def test_what_is_off_or_not_whole_is_suspended_and_says_why(server: Server, reason: str) -> None:
    _, binding = _values(server)
    assert (binding["suspend"], binding["suspendReason"]) == (True, reason)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "-u", "server.py"),
        ("npx", "-y", "-p", "@scope/pkg", "run", "-p", "3000", "-t", "stdio"),
        ("docker", "run", "-i", "--rm", "-e", "GITHUB_TOKEN", "-e", "LEVEL=debug", "ghcr.io/a/b:1"),
        ("uvx", "--from", "git+https://github.com/a/b", "b", "--db", "/srv/data/x.db", "--user", "me"),
    ],
)
def test_plain_arguments_are_taken_as_they_are(command: tuple[str, ...]) -> None:
    connector, binding = _values(Server("x", command))
    assert connector["command"] == list(command)
    assert "suspend" not in binding


def test_references_become_references() -> None:
    env = {
        "A_KEY": "${ONE}", "B_KEY": "${env:TWO}", "C_KEY": "{env:THREE}", "D_KEY": "{file:~/.keys/d}",
        "E_KEY": "${input:key-e}", "F_KEY": "literal", "G_KEY": "Bearer ${SEVEN}", "LEVEL": "debug",
    }  # fmt: skip
    connector, binding = _values(Server("x", ("a",), env=env))
    assert binding["secrets"] == {
        "a_key": {"env": "ONE"},
        "b_key": {"env": "TWO"},
        "c_key": {"env": "THREE"},
        "d_key": {"file": "~/.keys/d"},
        "e_key": {"file": "~/.secrets/s-e-key"},
        "f_key": {"file": "~/.secrets/s-f-key"},
        "g_key": {"file": "~/.secrets/s-g-key"},
    }
    assert binding["settings"] == {"level": "debug"}
    slots = connector["secretSlots"]
    assert isinstance(slots, dict)
    assert slots["a_key"] == {"env": "A_KEY", "description": "the variable A_KEY", "required": True}


def test_a_remote_server_reaches_its_own_host_alone() -> None:
    connector, _ = _values(Server("x", url="https://mcp.example.com:8443/mcp"))
    assert connector["url"] == "https://mcp.example.com:8443/mcp"
    assert (connector["runtime"], connector["egress"], connector["implements"]) == (
        "remote",
        ["mcp.example.com:8443"],
        [],
    )


_NO_CONNECTOR = [
    (Server("x", url="http://localhost:3000/mcp"), NOT_HTTPS),
    (Server("x", url="${URL}"), NOT_HTTPS),
    (Server("x", url="https://h:port/"), "its address cannot be read"),
    (Server("x", url=f"https://{CANARY}.example.com/"), "its address holds what does not belong into one"),
    (Server("x", image="x:latest"), "its image has no digest: write it as NAME@sha256:DIGEST in the source"),
]  # fmt: skip


@pytest.mark.parametrize(("server", "why"), _NO_CONNECTOR, ids=lambda one: str(one)[:40])
def test_what_no_connector_could_be_is_left_out(server: Server, why: str) -> None:
    assert writing.written(server, "s", ORIGIN) == Left("x", why)


@settings(deadline=None)
@given(
    st.lists(st.text(min_size=1, max_size=60), unique=True, max_size=8),
    st.sets(st.sampled_from(["a", "b", "mcp"])),
)
def test_names_are_legal_their_own_and_stay_when_others_come(originals: list[str], taken: set[str]) -> None:
    names = naming.objects(originals, taken)
    assert len(set(names.values())) == len(originals)
    for original, name in names.items():
        assert name_fault(name) is None
        assert len(name) <= MAX_NAME
        assert name not in taken
        if name_fault(original) is None and original not in taken:
            assert name == original


def test_names_that_would_meet_carry_their_originals_digest() -> None:
    names = naming.objects(["GitHub", "git.hub", "git-hub", "github", "Ünï", "1st"], {"ocr-rapid"})
    assert (names["github"], names["git-hub"]) == ("github", "git-hub")
    assert re.fullmatch(r"github-[0-9a-f]{6}", names["GitHub"])
    assert re.fullmatch(r"git-hub-[0-9a-f]{6}", names["git.hub"])
    assert (names["Ünï"], names["1st"]) == ("uni", "mcp-1st")
    assert naming.objects(["ocr-rapid"], {"ocr-rapid"})["ocr-rapid"].startswith("ocr-rapid-")


def test_what_is_public_in_a_setting_is_what_secrecy_calls_public() -> None:
    _, binding = _values(Server("x", ("a",), env={"LEVEL": "debug", "OTHER": "x9y8z7"}))
    assert list(binding.get("settings", {})) == ["level"]  # type: ignore[call-overload]
    assert not secrecy.public("x9y8z7")
