"""A world of its own for each test: configuration, state and run folder, and the command run in it."""

import io
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.doors import entry

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cli"
_AGES = re.compile(r"\b[0-9]+s(?= ago\b)")


@dataclass(frozen=True)
class Ran:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class World:
    """Folders of one test; ``handler`` runs the installed command's entry in a process of its own."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def run(self) -> Path:
        return self.root / "run"

    def env(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HANDLER_", "XDG_", "PYTHON"))}
        own = {"HANDLER_STATE": str(self.state), "HANDLER_RUN": str(self.run), "HOME": str(self.root)}
        return kept | own | {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.root)} | more

    def handler(
        self, *arguments: str, stdin: str = "", program: Callable[[], int] = entry.main, **env: str
    ) -> Ran:
        """Run ``handler`` here, as its entry point does, with this world's surroundings."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with pytest.MonkeyPatch.context() as patch:
            for name in os.environ.keys() - self.env(**env).keys():
                patch.delenv(name)
            for name, value in self.env(**env).items():
                patch.setenv(name, value)
            patch.chdir(self.root)
            patch.setattr(sys, "argv", ["handler", *arguments])
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = program()
        return Ran(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.config.mkdir()
    return made


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the golden one of that name; ``HANDLER_GOLDEN=write`` rewrites it."""

    def compare(name: str, text: str) -> None:
        text = _AGES.sub("12s", text)
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("HANDLER_GOLDEN") == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()

    return compare
