"""A recipe's digest is that of its canonical form, and a recipe survives being written down."""

import hashlib
import json
from dataclasses import replace

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.recipes import Recipe, SandboxPolicy, SecretUse, folder_digest, recipe_digest

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_TEXTS = st.lists(_TEXT, max_size=3).map(tuple)
_SECONDS = st.integers(1, 86_400) | st.floats(1e-9, 86_400) | st.sampled_from([1e-4, 1e-5, 0.1, 5.0, 1 / 3])
_SECRETS = st.builds(SecretUse, _TEXT, _TEXT, _TEXTS, st.none() | _TEXT, _TEXT)
_POLICIES = st.builds(
    SandboxPolicy,
    programs=_TEXTS,
    read=_TEXTS,
    tmp_bytes=st.integers(1, 2**40),
    memory_bytes=st.none() | st.integers(1, 2**40),
    cpu=st.none() | _SECONDS,
    gpu=st.booleans(),
)
_RECIPES = st.builds(
    Recipe,
    **dict.fromkeys(
        ("binding", "connector", "runtime", "code", "entry", "environment", "state", "kit"), _TEXT
    ),
    settings=st.lists(st.tuples(_TEXT, _TEXT), max_size=3).map(tuple),
    secrets=st.lists(_SECRETS, max_size=2).map(tuple),
    models=_TEXTS,
    egress=_TEXTS,
    folders=st.lists(st.tuples(_TEXT, _TEXT), max_size=2).map(tuple),
    sandbox=_POLICIES,
    idle_stop_s=_SECONDS,
    ready_timeout_s=_SECONDS,
)


@given(_RECIPES)
def test_the_digest_is_sha256_over_rfc_8785(recipe: Recipe) -> None:
    canonical = rfc8785.dumps(json.loads(json.dumps(recipe.as_json())))
    assert recipe_digest(recipe) == hashlib.sha256(canonical).hexdigest()
    assert recipe.name.digest == recipe_digest(recipe)


@given(_RECIPES)
def test_a_recipe_written_down_and_read_is_the_same(recipe: Recipe) -> None:
    read = Recipe.from_json(json.loads(json.dumps(recipe.as_json())))
    assert read == recipe
    assert read.name == recipe.name


@given(
    _RECIPES,
    st.sampled_from(
        ["settings", "models", "egress", "folders", "secrets", "sandbox", "code", "kit", "idle_stop_s"]
    ),
)
def test_whatever_changes_the_running_thing_changes_the_digest(recipe: Recipe, field: str) -> None:
    other = {
        "settings": (*recipe.settings, ("A", "b")),
        "models": (*recipe.models, "m"),
        "folders": (*recipe.folders, ("d", "/srv/d")),
        "egress": (*recipe.egress, "a:1"),
        "secrets": (*recipe.secrets, SecretUse("s", "env", ("X",), "X", "env")),
        "sandbox": replace(recipe.sandbox, gpu=not recipe.sandbox.gpu),
        "code": recipe.code + "0",
        "kit": recipe.kit + "0",
        "idle_stop_s": recipe.idle_stop_s + 1,
    }[field]
    assert recipe_digest(replace(recipe, **{field: other})) != recipe_digest(recipe)


def test_a_folder_digest_counts_paths_bytes_and_modes() -> None:
    files = {"a": b"1", "b": b"2"}
    digests = {
        folder_digest(files),
        folder_digest({"a": b"2", "b": b"1"}),
        folder_digest({"a": b"1", "c": b"2"}),
        folder_digest(files, frozenset({"a"})),
        folder_digest({"a": b"1"}),
    }
    assert len(digests) == 5
    assert folder_digest(dict(reversed(files.items()))) == folder_digest(files)
