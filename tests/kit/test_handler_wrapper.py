"""What a wrapped server's answer becomes: a mapping that finds nothing in it says so."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reconciler import kit

_MODULES = ("handler_connector", "handler_wrapper")


@pytest.fixture
def wrapper(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    before = sys.path.copy()
    monkeypatch.syspath_prepend(str(Path(str(kit.__file__)).parent))
    yield importlib.import_module("handler_wrapper")
    sys.path[:] = before
    for name in _MODULES:
        sys.modules.pop(name, None)


class Server:
    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result

    def ask(self, *_: object) -> dict[str, Any]:
        return self.result


def answer(wrapper: ModuleType, output: str, **result: Any) -> Any:
    return wrapper.Tool(Server(result), "t", {"output": output})({}, None)


def test_an_answer_without_structured_content_is_said_where_the_mapping_reads_it(wrapper: ModuleType) -> None:
    content = [{"type": "text", "text": '{"city": "Brest"}'}]
    with pytest.raises(wrapper.Failure) as found:
        answer(wrapper, "{place: structured.city}", content=content)
    assert found.value.diagnostic == (
        "output gave null for place: the answer has no structuredContent; "
        "its text is JSON: use json instead of structured"
    )
    assert answer(wrapper, "{place: json.city}", content=content) == {"place": "Brest"}


def test_a_null_is_said_in_the_log_and_left_to_the_contract(
    wrapper: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"city": "Brest"}
    found = answer(wrapper, "{place: structured.city, at: structured.tyme}", structuredContent=given)
    assert found == {"place": "Brest", "at": None}
    assert capsys.readouterr().err == "output gave null for at\n"
    answer(wrapper, "{at: structured.at, text: text}", content=[])
    assert capsys.readouterr().err == "output gave null for at: the answer has no structuredContent\n"
