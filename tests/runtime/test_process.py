"""A sandbox that cannot be built leaves nothing."""

import asyncio
import os
from pathlib import Path

import pytest

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
