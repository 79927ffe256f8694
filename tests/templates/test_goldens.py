"""What Go's own engine made of each template, with its own Sprig: the same text here, or a reason why not.

``goldens.json`` holds templates, what they were rendered over, and the text that Go 1.19 and Sprig 3.2.3
gave, or that they refused.
"""

import json
from pathlib import Path

import pytest

from reconciler.templates import histories, rendering
from reconciler.templates.lexing import TemplateError

_READ = json.loads((Path(__file__).parent / "goldens.json").read_text())
_CASES = _READ["cases"]

WHOLE_STAY_WHOLE = {  # numbers of JSON that are whole stay whole, and numbers compare across their kinds
    "102": "true false",
    "103": "true",
    "j3": "12345678",
    "j6": "356136738",
    "j7": "356136738",
    "j10": "356136738",
    "j12": "true",
    "j15": "",
}
NEWER_GO = {"49": "012", "51": "01234"}  # Go goes through whole numbers since 1.24
LEFT_OUT = {  # environment, network, chance and keys are out of reach
    "192": "randAlpha",
    "205": "env",
    "207": "getHostByName",
    "210": "genPrivateKey",
    "211": "shuffle",
    "220": "bcrypt",
    "222": "derivePassword",
    "223": "encryptAES",
}
NO_CLOCK = "208"


def _data(case: dict) -> dict:
    on = _READ["on"][case["on"]]
    return {**on["data"], **{name: histories.history(chat) for name, chat in on["histories"].items()}}


def _rendered(case: dict) -> str:
    return rendering.rendered(rendering.parsed(case["template"]), _data(case))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
def test_a_template_gives_the_text_that_go_gives(case: dict) -> None:
    name = case["id"]
    if name in LEFT_OUT:
        with pytest.raises(TemplateError, match=f"there is no function '{LEFT_OUT[name]}'"):
            _rendered(case)
    elif name == NO_CLOCK:
        with pytest.raises(TemplateError, match="there is no clock here"):
            _rendered(case)
    elif (ours := {**WHOLE_STAY_WHOLE, **NEWER_GO}.get(name)) is not None:
        assert _rendered(case) == ours
    elif case.get("refused"):
        with pytest.raises(TemplateError):
            _rendered(case)
    else:
        assert _rendered(case) == case["text"]


def test_the_goldens_are_all_there_and_most_of_them_give_texts() -> None:
    assert len(_CASES) == 196
    assert sum("text" in case for case in _CASES) > 150


_FUNCTIONS = json.loads((Path(__file__).parent / "functions.json").read_text())


def _given(template: str) -> str | None:
    try:
        return rendering.rendered(rendering.parsed(template), _FUNCTIONS["on"])
    except TemplateError:
        return None


def test_every_function_gives_what_go_and_sprig_give() -> None:
    cases = _FUNCTIONS["cases"]
    assert len(cases) > 900
    wanted = {case["template"]: case.get("text") for case in cases}
    given = {template: _given(template) for template in wanted}
    assert given == wanted
