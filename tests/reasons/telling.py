"""What a person is shown of a real state folder, with what differs between runs made one: the golden texts.

A state folder that real code wrote is copied, its instants, process ids and folders are replaced, and the
command is asked of the copy. ``HANDLER_GOLDEN=write`` rewrites the golden texts; `make docs` puts them into
``docs/reasons.md``.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.doors import fakes
from tests.doors.conftest import World

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "reasons"
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_HEX = re.compile(r"(?<=@)[0-9a-f]{12}\b|\b(?![0-9]+\b)[0-9a-f]{12,64}\b")  # one in 280 has no letter
_FOUGHT = re.compile(r"changed [0-9]+ times within a minute, [0-9]+ times")  # as the machine lets them
_COUNTED = re.compile(r"^(.*\bapplied) [0-9]+[sm] ago\b", re.MULTILINE)
_SHORT = re.compile(r"(?:(?<=@)|(?<=no git, )|(?<=sha256:)|(?<=sha1:))[0-9a-f]{7}\b")
_NAMES = ("4f2c1aa", "9b1d0c7", "c03e5d2", "71f8a46")  # of revisions, by the order in which they come
_DAY = re.compile(r"\b20\d\d-\d\d-\d\d\b(?!T)")
_FIXED = "2026-11-30T10:42:30.000Z"


class Shown:
    """Copies of state folders, and what the commands say of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = 0
        self.answers = False  # show that calls were answered too: that is heard of at some time after them

    def told(self, state: Path, words: str, places: Mapping[Path, str]) -> str:
        """What ``handler WORDS`` says of this state; ``places`` are folders, and what stands for them."""
        self._turn += 1
        world = World(self._folder / f"world-{self._turn}")
        world.config.mkdir(parents=True)
        names = {str(path): name for path, name in places.items()}
        for path in sorted(state.rglob("*")):
            part = path.relative_to(state)
            if path.is_file() and part.parts[0] in ("status", "logs", "events.jsonl"):
                target = world.state / part
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix in (".json", ".jsonl"):
                    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
                    texts = (_copied(line, names, answers=self.answers) for line in lines)
                    target.write_text("".join(f"{text}\n" for text in texts))
                else:
                    target.write_text(_plain(path.read_text(), names))
        ran = world.handler(*words.split(), "-c", "config")
        assert ran.err == "", ran.err
        text = _one_digest(ran.out.replace(str(world.root), "~"))
        shutil.rmtree(world.root)
        text = _FOUGHT.sub(r"changed 7 times within a minute, 5 times", text)
        return f"$ handler {words}\n" + _COUNTED.sub(r"\1 2m ago", text)


def golden(name: str, text: str) -> None:
    """Compare with the golden text of that name, a reason and perhaps a word more; the text shows it."""
    assert name.partition("-")[0] in text, text
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("HANDLER_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), text


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return Shown(tmp_path)


def _copied(text: str, names: Mapping[str, str], *, answers: bool) -> str:
    told = json.loads(text)
    if not answers and "observations" in told:
        told["observations"] = [one for one in told["observations"] if one["reason"] != "Answering"]
        told["conditions"] = [one for one in told["conditions"] if one["reason"] != "Answering"]
    return json.dumps(_alike(told, names))


def _alike(value: Any, names: Mapping[str, str], key: str = "") -> Any:
    """The same JSON with one instant, one process id and fixed folders."""
    match value:
        case dict():
            if value.get("phase") == "starting":  # it may be seen before its process is there, or after
                value = value | {"pid": None, "calls": 0}
            return {one: _alike(part, names, one) for one, part in value.items() if one != "controller"} | (
                {"controller": fakes.me()} if "controller" in value else {}
            )
        case list():
            parts = value
            if key in (
                "instances",
                "inventory",
            ):  # by name, and so by digest: another for each change of ours
                parts = sorted(value, key=lambda one: str(one["phase"]), reverse=True)
            return [_alike(part, names) for part in parts]
        case int() if key == "pid":
            return 4711
        case str() if _INSTANT.fullmatch(value) and key == "expiresAt":
            return (datetime.now(UTC) + timedelta(seconds=150)).isoformat().replace("+00:00", "Z")
        case str() if _INSTANT.fullmatch(value):
            return (datetime.now(UTC) - timedelta(seconds=150)).isoformat().replace("+00:00", "Z")
        case str():
            return _plain(value, names)
        case _:
            return value


def _plain(text: str, names: Mapping[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return _DAY.sub(_FIXED[:10], _INSTANT.sub(_FIXED, text))


def _one_digest(text: str) -> str:
    """Digests by the order in which they come: of the same length, so that columns stand."""
    found = list(dict.fromkeys(one[:12] for one in _HEX.findall(text)))
    marks = {one: f"{number + 1:x}" for number, one in enumerate(found)}
    names = dict(zip(dict.fromkeys(_SHORT.findall(text)), _NAMES, strict=False))
    text = _SHORT.sub(lambda one: names[one[0]], text)
    return _HEX.sub(lambda one: marks[one[0][:12]] * len(one[0]), text)
