"""A secret that a binding's newest text takes back is not used on, also where that text is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.control.admitted import Admitted
from reconciler.control.looking import Look, Looker
from reconciler.control.place import Place
from reconciler.control.revoked import revoked
from reconciler.model.names import Kind, ObjectRef

HEAD = 'apiVersion = "handler.binding/v1"\nconnector = "search-brave"\n'
KEY = 'api_key = { file = "~/.secrets/brave" }\n'
GOOD = f"{HEAD}[secrets]\n{KEY}"
BRAVE = ObjectRef(Kind.BINDING, "brave")


@pytest.fixture
def looked(tmp_path: Path) -> Callable[[str], Look]:
    """One looker, asked again after the binding's file was written anew."""
    place = Place(tmp_path / "config", tmp_path / "state", tmp_path / "run")
    for folder in ("config/bindings", "state/admitted"):
        (tmp_path / folder).mkdir(parents=True)
    looker = Looker(place, Admitted(place.state / "admitted"))
    looker.first()

    def look(text: str) -> Look:
        (place.config / "bindings" / "brave.toml").write_text(text)
        found = looker.look(())
        assert isinstance(found, Look)
        return found

    return look


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [HEAD, f"{HEAD}[secrets]\n", f"{HEAD}nonsense = 1\n[settings]\nnone = 2\n"],
    ids=["the table is gone", "the table is empty", "and more is wrong, so that it is no object"],
)
def test_a_refused_text_that_empties_a_required_slot_takes_its_secret_back(
    looked: Callable[[str], Look], text: str
) -> None:
    before = looked(GOOD).desired.recipes
    after = looked(text)
    assert BRAVE in after.admission.retained  # the earlier form serves on, so to say
    ((name, why),) = revoked(after, before, ()).items()
    assert name.binding == "brave"
    assert why == (
        "its binding does not name the secret of slot 'api_key' any more: it is not used on; "
        "name another in [secrets], or remove the binding"
    )
    assert revoked(looked(GOOD), before, ()) == {}, "it is named again"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        f"{GOOD}[secrets\n",
        "<<<<<<< HEAD\n",
        f"{HEAD}nonsense = 1\n[secrets]\n{KEY}",
        f"{HEAD}[secrets]\n{KEY.replace('api_key', 'api_kye')}",
        f"{HEAD}[secret]\n{KEY}",
        f"{HEAD}[secrets]\n{KEY.replace('file', 'flie')}",
        f"{HEAD}secrets = 3\n",
        GOOD.replace("brave", "bravo", 1),
    ],
    ids=[
        "no TOML", "a merge's marks", "another key", "a slot misspelt", "a table misspelt", "a form misspelt",
        "no table", "another connector, which is none",
    ],
)  # fmt: skip
def test_any_other_refused_text_takes_nothing_back(looked: Callable[[str], Look], text: str) -> None:
    before = looked(GOOD).desired.recipes
    after = looked(text)
    assert BRAVE in after.admission.retained
    assert revoked(after, before, ()) == {}
