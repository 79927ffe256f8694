"""The example configuration on its cassettes: both engines answer where there is none, and no network."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.kit.house import FIXTURES, ROOT, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]
CLOSED = ("unshare", "--map-root-user", "--net")  # the controller has no way out, and nobody below it


def edited(place: House) -> None:
    """The example, edited as its README says."""
    shutil.copytree(ROOT / "examples" / "config", place.config, dirs_exist_ok=True)
    for path in place.config.glob("bindings/*.toml"):
        text, lines = re.subn(r"(?m)^# cassette = ", "cassette = ", path.read_text())
        assert lines == 1, path
        path.write_text(text)
    for path in place.config.glob("agents/*.toml"):
        path.write_text(path.read_text().replace("~/handler-demo/inbox", str(place.inbox)))
    for name in ("invoice.pdf", "invoice.png", "two-pages.pdf"):
        shutil.copy(FIXTURES / name, place.inbox)


def asked(place: House, tool: str, agent: str, **words: str) -> tuple[int, Any]:
    given = [f"{name}={value}" for name, value in words.items()]
    ran = place.handler("call", tool, *given, "--agent", agent, check=False)
    return ran.returncode, json.loads(ran.stdout)


def test_the_example_answers_from_its_cassettes_with_the_network_closed(tmp_path: Path) -> None:
    with house(tmp_path) as place:
        edited(place)
        daemon = place.launch(*CLOSED)
        wait_for(place.answers, "the controller answers")
        links = Path(f"/proc/{daemon.pid}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in links] == ["lo"], "the network is closed"
        for binding in ("ocr-tesseract", "ocr-rapid"):
            wait_for(
                lambda name=binding: place.condition("binding", name, "Ready").get("reason") == "Playing",
                f"{binding} plays",
            )
        for agent in ("clerk", "archivist"):
            for scan in ("invoice.pdf", "invoice.png"):
                code, answer = asked(place, "ocr_extract", agent, path=scan)
                assert code == 0, answer
                assert "INV-2024-0042" in "".join(page["text"] for page in answer["pages"])
        code, answer = asked(place, "ocr_extract_to_file", "archivist", path="invoice.pdf", output="told.txt")
        assert code == 0, answer
        assert "INV-2024-0042" in (place.inbox / "told.txt").read_text()
        assert asked(place, "ocr_extract", "clerk", path="two-pages.pdf")[1]["error"] == "unavailable"
        assert not [one for one in place.processes() if "i/ocr-" in one], "no engine ran"
        place.stop()
