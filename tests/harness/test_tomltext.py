"""Servers into a TOML text and out again: every other byte stays."""

from typing import Any

import pytest
import tomli
from hypothesis import given as over
from hypothesis import strategies as st

from reconciler.harness import tomltext

ENTRY: dict[str, Any] = {
    "command": "/bin/handler-service",
    "args": ["ocr", 'a "b"\x7f\u00e9'],
    "tool_timeout_sec": 130,
    "env": {"HANDLER_RUN": "/r"},
}
_TEXTS = [
    "",
    "# mine\n",
    'model = "x"',
    'model = "x"\n\n[mcp_servers.mine]\ncommand = "a" # why\n',
    '[mcp_servers]\nmine = {command = "a"}\n[other]\nx = 1\n# the end',
    'mcp_servers.mine.command = "a"\n',
    "mcp_servers = {}\nx = 1\n",
    'mcp_servers = { mine = {command = "a"} } # all\n',
    '[a]\r\nx = "é"\r\n\r\n[b]\r\n',
    '[["mcp_servers".mine.more]]\nx = 1\n\n\n',
]
_LISTS = [
    "",
    "mcp_servers = []\n",
    "mcp_servers = [ # none\n]\n",
    'mcp_servers = [{name = "mine", transport = "stdio"}]',
    'mcp_servers = [\n  # mine\n  {name = "mine"}, # x\n]\n[tools]\na = 1\n',
    '[[mcp_servers]]\nname = "mine"\n\n[mcp_servers.auth]\ntype = "static"\n\n[tools]\nx = 1\n',
    'a = 1\r\n[[mcp_servers]]\r\nname = "mine"',
]


def _read(text: bytes, named: str) -> dict[str, Any]:
    found = tomli.loads(text.decode())
    servers = found.pop("mcp_servers", [] if named else {})
    return {"rest": found, "servers": {one[named]: one for one in servers} if named else servers}


@pytest.mark.parametrize(("named", "text"), [("", t) for t in _TEXTS] + [("name", t) for t in _LISTS])
@pytest.mark.parametrize("names", [["ocr"], ["llm", "ocr"]])
def test_any_text_is_as_it_was_once_ours_is_out_again(named: str, text: str, names: list[str]) -> None:
    entries = dict.fromkeys(names, ENTRY)
    data = text.encode()
    made, before = tomltext.given(data, "mcp_servers", named, entries)
    was, after = _read(data, named), _read(made, named)
    expected = {name: {named: name, **ENTRY} if named else ENTRY for name in names}
    assert after == {"rest": was["rest"], "servers": was["servers"] | expected}
    assert tomltext.taken(made, "mcp_servers", named, before) == data


@over(
    st.lists(st.sampled_from(["ocr", "llm", "web"]), min_size=1, unique=True),
    st.sampled_from(_TEXTS),
    st.text("# \n", max_size=4),
)
def test_what_a_person_writes_behind_ours_stays(names: list[str], text: str, space: str) -> None:
    data = text.encode()
    made, before = tomltext.given(data, "mcp_servers", "", dict.fromkeys(names, ENTRY))
    added = f"\n{space}\n[zz]\nx = 1 # last\n".encode()
    left = tomltext.taken(made + added, "mcp_servers", "", before)
    assert tomli.loads(left.decode()) == {**tomli.loads(text), "zz": {"x": 1}} | (
        {"mcp_servers": {}} if "mcp_servers = {}" in text else {}
    )
    assert left.startswith(data.rstrip())
    assert left.endswith(added.lstrip())


def test_ours_moved_to_the_end_of_a_list_goes_with_the_comma_before_it() -> None:
    text = b'mcp_servers = [{name = "mine"}, {name = "ocr"}]\n'
    assert tomltext.taken(text, "mcp_servers", "name", {"ocr": ""}) == b'mcp_servers = [{name = "mine"}]\n'


def test_tables_below_ours_go_with_it() -> None:
    text = b'[mcp_servers.ocr]\ncommand = "a"\n\n[mcp_servers.ocr.env]\nA = "b"\n\n[x]\n'
    assert tomltext.taken(text, "mcp_servers", "", {"ocr": ""}).strip() == b"[x]"
