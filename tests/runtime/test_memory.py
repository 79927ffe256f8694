"""Options of bubblewrap, packed: no value can become an option."""

import pytest

from reconciler.runtime import memory


def test_each_option_is_ended_by_a_nul() -> None:
    assert memory.packed(("--setenv", "A", "ö")) == b"--setenv\0A\0\xc3\xb6\0"


@pytest.mark.parametrize("value", ["x\0--bind", "\0", "a\0"])
def test_a_value_with_a_nul_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        memory.packed(("--chdir", value))
