"""A sandbox that cannot be built leaves nothing."""

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

from reconciler.runtime import shellrun
from reconciler.runtime.agentbox import Box
from reconciler.runtime.limits import Group
from reconciler.runtime.process import NotStartedError, Order, spawn


def test_a_sandbox_that_ends_before_it_has_a_process_takes_its_group_away(tmp_path: Path) -> None:
    group = tmp_path / "group"
    spare, output = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)

    def bounds() -> Group:
        group.mkdir()
        return Group((group,), "v2", ())

    order = Order("label", "/bin/false", (), lambda listener, runs: ("x",), b"", spare, output)
    try:
        with pytest.raises(NotStartedError):
            asyncio.run(spawn(order, bounds))
    finally:
        os.close(spare)
        os.close(output)
    assert not group.exists()


# Ends, and says which process it began once it has been buried.
_TELLS_LATE = """#!/bin/sh
me=$$
(while kill -0 $me; do :; done; echo '{"child-pid": 1}' > /dev/fd/$2) 2> /dev/null &
"""


def test_a_program_whose_sandbox_ended_while_it_was_built_takes_its_group_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shellrun.agentbox, "options", lambda box: ())
    group, bwrap = tmp_path / "group", tmp_path / "bwrap"
    bwrap.write_text(_TELLS_LATE)
    bwrap.chmod(0o755)

    def bounds() -> Group:
        group.mkdir()
        return Group((group,), "v2", ())

    order = shellrun.Order(str(bwrap), "label", cast(Box, None), lambda _: ("x",), b"", bounds)
    with pytest.raises(NotStartedError):
        asyncio.run(shellrun.run(order, 30, 1000))
    assert not group.exists()
