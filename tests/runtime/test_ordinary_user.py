"""The same walls and the same life for an ordinary user, who has user namespaces and not root's powers."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.nobody import as_nobody, place, user_namespaces
from tests.walls import world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other files already ran as an ordinary user"),
]


@pytest.fixture
def base() -> Iterator[Path]:
    with place() as folder:
        yield folder


@pytest.mark.timeout(300)
def test_the_whole_suite_of_walls_and_life_holds_for_an_ordinary_user(base: Path) -> None:
    if not user_namespaces(base):
        pytest.skip("this machine gives ordinary users no user namespaces: no connector could start for them")
    names = ("test_containment.py", "test_supervisor.py", "test_death.py", "test_netns.py")
    names += ("test_secret_delivery.py",)
    files = [*(f"tests/runtime/{name}" for name in names), "tests/doors/test_boxing.py"]
    files += ["tests/control/test_leaving.py"]
    ran = as_nobody(base, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", *files)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "skipped" not in ran.stdout.splitlines()[-1], ran.stdout


@pytest.mark.timeout(300)
def test_programs_and_wrapped_servers_of_an_ordinary_user_serve_and_get_out_nowhere(base: Path) -> None:
    """Every attempt of `make flows-sandbox`, from inside of each runtime."""
    if not user_namespaces(base):
        pytest.skip("this machine gives ordinary users no user namespaces: no connector could start for them")
    ran = as_nobody(base, "-m", "tests.walls.world")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found.keys() >= set(world.RUNTIMES)
    assert [row for rows in found.values() for row in rows if not row["stopped"]] == []
