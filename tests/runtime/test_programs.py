"""Which program a command is, and what is said where there is none."""

from pathlib import Path

import pytest

from reconciler.runtime import host, programs
from tests.runtime.rig import recipe


def test_a_misspelt_script_of_a_lock_is_looked_for_in_both_places_and_said_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mcp-server-time").touch()
    plain = recipe(runtime="mcp", command=("mcp-server-tme",))
    with pytest.raises(host.Missing, match=r"not installed on this machine$"):
        programs._program(plain, tmp_path, None)
    with pytest.raises(host.Missing) as found:
        programs._program(plain, tmp_path, tmp_path)
    assert str(found.value) == (
        "the program 'mcp-server-tme' is not installed on this machine, and no package of requirements.lock "
        "has a script of that name: did you mean 'mcp-server-time'?"
    )
    launched, _ = programs._program(recipe(runtime="mcp", command=("mcp-server-time",)), tmp_path, tmp_path)
    assert launched[-1] == "/env/bin/mcp-server-time"
