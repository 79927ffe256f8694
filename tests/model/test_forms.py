"""What the plain checks take, pydantic takes too, with the same values; what they do not take, it judges."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model import twins
from reconciler.model.checks import Unfit, reading
from reconciler.model.forms import Record
from reconciler.model.register import Dialect
from reconciler.model.resources import KINDS, Agent, Binding, Config, Interface, KindRow
from tests.kit.effort import times

_ROOT = Path(__file__).resolve().parents[2]
_FULL: dict[str, dict[str, Any]] = {
    "config": {
        "apiVersion": "handler.config/v1",
        "reconcile": {"mode": "manual", "scanSeconds": 1},
        "prune": {"maxFraction": 0.5, "allowEmpty": True},
        "http": {"listen": "127.0.0.1:0"},
        "telemetry": {"otlpEndpoint": "http://127.0.0.1:4318"},
    },
    "interface": {
        "apiVersion": "handler.interface/v1",
        "name": "ocr",
        "version": 1,
        "description": "Words.",
        "limits": {"timeoutSeconds": 120, "maxFileBytes": 1},
        "errors": {"too_large": "It is too large."},
        "operations": {"ocr_say": {"effect": "local"}},
    },
    "connector": {
        "apiVersion": "handler.connector/v1",
        "name": "ocr-x",
        "description": "Speaks.",
        "implements": ["ocr/v1"],
        "runtime": "python",
        "command": ["a", "b"],
        "egress": ["api.example.com:443"],
        "secretSlots": {"api_key": {"env": "API_KEY", "required": True}},
        "settings": {"language": {"env": "L", "description": "Which.", "default": 1, "enum": ["a", 1.5]}},
        "tool": {"ocr_say": {"from": "say", "errors": {"a": "b"}}},
        "sandbox": {"programs": ["tesseract"], "read": ["/usr"], "cpu": 2},
    },
    "binding": {
        "apiVersion": "handler.binding/v1",
        "connector": "ocr-x",
        "secrets": {"api_key": {"command": ["pass", "show"]}, "other": {"keyring": {"a": "b"}}},
        "settings": {"a": 1, "b": "x", "c": 1.5, "d": True},
        "models": ["m"],
        "instance": {"idleStopSeconds": 5, "pids": 3},
        "conformance": {"require": "offline", "smoke": ["a word"]},
    },
    "project": {
        "apiVersion": "handler.project/v1",
        "services": {"ocr": "ocr-x", "llm": ["a", "b"]},
        "requires": ["ocr/v1"],
    },
    "agent": {
        "apiVersion": "handler.agent/v1",
        "services": {"ocr": {"binding": "ocr-x", "version": 2, "tools": ["a"]}, "llm": ["a"], "x": "y"},
        "scope": ["/data", {"path": "~/x", "access": "read"}],
        "run": {"command": ["a"]},
        "sandbox": {"egress": ["a:1"]},
    },
    "approval": {
        "apiVersion": "handler.approval-policy/v1",
        "defaultAction": "deny",
        "rules": [
            {
                "tools": "fs",
                "tool": "read_file",
                "action": "allow",
                "timeoutSeconds": 5,
                "onTimeout": "deny",
                "when": [{"key": "path", "op": "glob", "value": "a/**"}],
            }
        ],
    },
    "policy": {
        "apiVersion": "handler.egress-policy/v1",
        "name": "default",
    },
    "profile": {
        "apiVersion": "handler.dialect-profile/v1",
        "profile": {
            "id": "acme.films",
            "revision": 1,
            "dialect": "openai.videos-job@1",
            "provider": "acme",
            "models": ["film-1"],
            "driver": "openai-videos@1",
            "kind": "job",
            "refuses": ["edit"],
        },
        "auth": {"scheme": "bearer", "header": "authorization", "secret": "api_key"},
        "transport": {"base": "https://api.acme.example/v1", "headers": {"x-version": "1"}},
        "operation": [
            {
                "name": "create",
                "method": "POST",
                "path": "/videos",
                "effect": "paid",
                "result": "openai.video@1",
                "required": ["prompt"],
                "field": {"prompt": {"type": "string", "max": 1, "enum": ["a", 1.5]}},
                "rule": [{"if": {"present": ["prompt"]}, "then": {"enum": {"prompt": ["a"]}}}],
                "stream": {"meaning": "previews", "ask": {"stream": True}, "events": {"a.b": "preview"}},
                "lookup": {"by": ["job-id"], "path": "/videos/{job}", "status": {"done": "succeeded"}},
                "fetch": {"path": "/videos/{job}/content", "parts": {"video": ""}},
            }
        ],
        "media": {"in": [{"type": "image/png", "via": "base64"}], "out": [{"type": "a/b", "via": "raw"}]},
        "error": [{"status": 429, "when": {"error.code": "a"}}, {"status": "5xx", "effect": "unknown"}],
        "rateLimit": {"headers": {"retryAfter": "retry-after"}, "resetFormat": "seconds"},
        "retention": {"requestDays": 30, "training": "no"},
        "probe": {"link": {"path": "/models"}, "readiness": {"create": {"prompt": "a"}}},
    },
    "dialect": {
        "apiVersion": "handler.dialect/v1",
        "name": "openai.videos-job",
        "version": 1,
        "description": "Films.",
        "driver": "openai-videos@1",
        "operations": {"create": {"kind": "job", "result": "openai.video@1", "proves": ["V1"]}},
    },
    "chain": {
        "$schema": "x",
        "id": "a",
        "tasks": [
            {
                "id": "a",
                "handler": "chat_completion",
                "execute_config": {
                    "models": ["m"],
                    "temperature": 0.5,
                    "tools": ["*"],
                    "tools_policies": {"fs": {"k": "v"}},
                    "max_tokens": "{{var:m|5}}",
                    "retry_policy": {"initial_backoff": "1s", "max_backoff": 5, "jitter": 0.2},
                },
                "timeout": "3s",
                "transition": {"branches": [{"operator": "default", "goto": "b"}], "on_failure": "b"},
            },
            {"id": "b", "handler": "tools", "tools": {"name": "ocr", "args": {"path": "x"}}},
        ],
        "max_steps": 7,
    },
}
_WORDS = [
    "",
    "a",
    "ocr-x",
    "ocr-x\n",
    "ocr/v1",
    "ocr/v1\n",
    "/a",
    "/a\n",
    "~/a",
    "A",
    "A_B\n",
    "é",
    "\x1f",
    "none",
]
_WORDS += ["a:1", "a\x1f:1", "a:1\n", "\u2028", "x" * 65, "x" * 4097, "https://a", "sha256:" + "0" * 64]
_NUMBERS = [0, 1, -1, 2**53, 2**53 + 1, 2**70, 10**400, 0.0, 0.5, 1.0, -0.0, 1e308]
_NUMBERS += [float("nan"), float("inf"), float("-inf"), True, False]
_LISTS: list[Any] = [[], ["a"], [1], ["a", None], ("a",), [[]]]
_TABLES: list[Any] = [{}, {"a": "b"}, {"a": 1}, {1: "a"}, {"path": "/a"}, None, b"a"]
_ODD = st.sampled_from([*_WORDS, *_NUMBERS, *_LISTS, *_TABLES]).map(copy.deepcopy)


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, one in inside for place in _places(one, (*way, key)))]


@st.composite
def _tables(draw: st.DrawFn) -> tuple[KindRow, Any]:
    """A full table of a kind with up to three odd values, odd keys, and keys that are gone."""
    row = draw(st.sampled_from(KINDS))
    table: Any = copy.deepcopy(_FULL[row.kind.value])
    for _ in range(draw(st.integers(0, 3))):
        way = draw(st.sampled_from(_places(table)))
        holder: Any = table
        for part in way[:-1]:
            holder = holder[part]
        act = draw(st.sampled_from(["put", "add", "drop"]))
        if not way:
            table[draw(st.text(max_size=3))] = draw(_ODD)
        elif act == "put":
            holder[way[-1]] = draw(_ODD)
        elif act == "add" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["name", "a", "A", "a.b", "é", "ocr\n"]))] = draw(_ODD)
        else:
            del holder[way[-1]]
    return row, table


@pytest.mark.slow
@settings(max_examples=times(240), deadline=None)
@given(_tables())
def test_what_the_checks_take_pydantic_takes_with_the_same_values(case: tuple[KindRow, Any]) -> None:
    row, table = case
    before = repr(table)
    try:
        found = reading(row.model)(table)
    except Unfit:
        return
    judged = twins.judged(row.model, table)
    assert repr(found) == repr(judged)  # the types too: 1 is not 1.0
    assert found == judged or "nan" in repr(found)
    assert found.model_dump(by_alias=True) == twins.twin(row.model).model_validate(table).model_dump(
        by_alias=True
    )
    assert repr(table) == before


@pytest.mark.parametrize("row", KINDS, ids=lambda row: row.kind.value)
def test_a_table_that_is_right_needs_no_pydantic(row: KindRow) -> None:
    table = _FULL[row.kind.value]
    found = reading(row.model)(table)
    twin = twins.twin(row.model).model_validate(table)
    for way in ({"by_alias": True}, {"exclude_none": True}, {"exclude_defaults": True}, {"mode": "json"}):
        assert found.model_dump(**way) == twin.model_dump(**way)
    assert json.loads(found.model_dump_json(by_alias=True)) == json.loads(twin.model_dump_json(by_alias=True))
    assert (
        row.model.model_validate_json(twin.model_dump_json(by_alias=True, exclude_none=True).encode())
        == found
    )


def test_all_that_the_project_ships_is_read_without_pydantic() -> None:
    read = 0
    for row in KINDS:
        pattern = row.pattern.replace("<name>", "*").replace("<N>", "*")
        for file in (*_ROOT.glob(f"catalog/{pattern}"), *_ROOT.glob(f"examples/*/{pattern}")):
            assert isinstance(reading(row.model)(tomli.loads(file.read_text())), row.model), file
            read += 1
    assert read > 5


def test_what_the_checks_do_not_take_may_still_be_right() -> None:
    """A check may be narrower: a large number is pydantic's to read."""
    table = {"apiVersion": "handler.config/v1", "reconcile": {"scanSeconds": 5}}
    assert Config.model_validate(table) == Config.model_validate({**table})
    many = {"apiVersion": "handler.agent/v1", "requires": {"ocr/v1"}}  # a set is no list of TOML
    with pytest.raises(Unfit):
        reading(Agent)(many)
    assert Agent.model_validate(many).requires == ("ocr/v1",)


def test_a_table_that_must_not_be_empty_is_not_taken_empty() -> None:
    table = {
        "apiVersion": "handler.dialect/v1",
        "name": "a",
        "version": 1,
        "description": "A.",
        "driver": "a@1",
    }
    with pytest.raises(Unfit):
        reading(Dialect)({**table, "operations": {}})


def test_a_record_is_equal_hashed_copied_and_kept_by_its_values() -> None:
    one, same = (Binding.model_validate(_FULL["binding"]) for _ in range(2))
    assert one == same
    assert one is not same
    assert one != Config()
    assert Config() == Config.model_validate({})
    assert hash(Config()) == hash(Config.model_validate({}))
    assert len({type(one): 1, Config(): 2, Config.model_validate({}): 3}) == 2
    other = one.model_copy(update={"connector": "other"})
    assert (other.connector, one.connector, other.settings) == ("other", "ocr-x", one.settings)
    assert other != one
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    with pytest.raises(TypeError):
        hash(one)  # it holds tables


def test_a_record_inside_values_is_taken_as_it_is() -> None:
    limits = Interface.model_validate(_FULL["interface"]).limits
    again = Interface.model_validate({**_FULL["interface"], "limits": limits})
    assert again.limits is limits
    odd = {**_FULL["interface"], "limits": limits, "errors": {"A": "b"}}
    with pytest.raises(ValueError, match="errors"):
        Interface.model_validate(odd)
    assert issubclass(Interface, Record)
