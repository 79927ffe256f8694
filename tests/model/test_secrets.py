"""A resolved secret is never compared, printed or kept, and is never mistaken for a reference."""

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from reconciler.model.recipes import SecretUse
from reconciler.model.resources import SecretReference
from reconciler.model.secrets import Resolved

VALUE = b"sk-not-for-eyes"
KEY = b"k" * 32
ONE = Resolved(VALUE, key=KEY)
REFERENCE = SecretReference(env="API_KEY")
USE = SecretUse("slot", "env", ("API_KEY",), None, "env")


@pytest.mark.parametrize(
    "compare",
    [
        lambda: ONE == ONE,
        lambda: ONE != ONE,
        lambda: Resolved(VALUE, key=KEY) == ONE,
        lambda: ONE == REFERENCE,
        lambda: REFERENCE == ONE,
        lambda: USE == ONE,
        lambda: ONE != USE,
        lambda: VALUE == ONE,
        lambda: ONE == "sk-not-for-eyes",
        lambda: ONE in [REFERENCE],
        lambda: (1, REFERENCE) == (1, ONE),
        lambda: sorted([ONE, Resolved(b"b", key=KEY)]),
        lambda: hash(ONE),
        lambda: {ONE: 1},
        lambda: bool(ONE),
    ],
)
def test_comparing_a_resolved_secret_raises(compare: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        compare()


@pytest.mark.parametrize(
    "keep",
    [
        lambda: pickle.dumps(ONE),
        lambda: copy.copy(ONE),
        lambda: copy.deepcopy([ONE]),
        lambda: json.dumps(ONE),
        lambda: orjson.dumps(ONE),
        lambda: orjson.dumps({"a": [ONE]}),
    ],
)
def test_keeping_a_resolved_secret_raises(keep: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        keep()


def test_no_word_of_it_holds_the_value() -> None:
    words = [repr(ONE), str(ONE), f"{ONE}", f"{ONE!r:>40}", f"{ONE:>40}", repr([ONE])]
    assert not any("eyes" in word or "'sk" in word for word in words)
    assert all(ONE.fingerprint in word for word in words)
    assert ONE.reveal() == VALUE


def test_a_fingerprint_says_whether_two_are_the_same_and_nothing_without_its_key() -> None:
    assert ONE.fingerprint == Resolved(VALUE, key=KEY).fingerprint
    assert ONE.fingerprint != Resolved(b"another", key=KEY).fingerprint
    assert ONE.fingerprint != Resolved(VALUE, key=b"j" * 32).fingerprint


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        Resolved(VALUE, key=b"short")


SNIPPET = """\
from reconciler.model.recipes import SecretUse
from reconciler.model.resources import SecretReference
from reconciler.model.secrets import Resolved


def told(one: Resolved, reference: SecretReference, use: SecretUse) -> None:
    reference == reference
    use == use
    SecretUse("slot", "env", ("API_KEY",), None, "env")
    print(reference == one)
    print(one == reference)
    print(one == one)
    print(one != one)
    print(use == one)
    print(one == use)
    print(one < one)
    SecretUse("slot", "env", (one,), None, "env")
    refer(one)
    deliver(reference)


def refer(reference: SecretReference) -> None: ...


def deliver(one: Resolved) -> None: ...
"""


@pytest.mark.slow
def test_the_type_checker_refuses_to_take_one_for_the_other(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--no-error-summary", str(file)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    refused = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    first = SNIPPET.splitlines().index("    print(reference == one)") + 1
    assert refused == set(range(first, first + 10)), done.stdout + done.stderr
