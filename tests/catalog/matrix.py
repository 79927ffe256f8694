"""Every connector of the catalogue that needs no key, on this machine: interface, connector, how many cases.

``make flows-catalog`` runs it. Each is bound as its PROVISIONING.md says and examined by ``handler connector
check``: real router, real sandbox, real engine, packages installed by their hashes. What a service by key
would answer is not asked; what sends messages sends them to a server and to folders of the test's own.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.catalog import real_models, roundtrips
from tests.kit import engineside, maildirs, mailserver
from tests.kit.engines import CATALOG, interface, spec
from tests.kit.house import BIN, house
from tests.kit.tiny_gguf import gguf

Settings = dict[str, Any]
# Whose effects stay in a folder, or with a server, of the check's own.
_HERE = (
    "agent-local",
    "email-maildir",
    "email-smtp",
    "fs-scope",
    "http-fetch",
    "media-ffmpeg",
    "shell-scope",
)


@contextmanager
def _models(folder: Path) -> Iterator[Settings]:
    models = folder / "models"
    models.mkdir()
    folder.chmod(0o755)
    (models / "noise.gguf").write_bytes(gguf())
    yield {"settings": {"models": str(models), "contextTokens": 2048}, "models": ["noise"]}


@contextmanager
def _llama(folder: Path) -> Iterator[Settings]:
    with real_models.served(folder, "") as base:
        yield {"settings": {"baseUrl": f"{base}/v1"}, "models": ["tiny"]}


@contextmanager
def _chat(folder: Path) -> Iterator[Settings]:
    with engineside.serving(engineside.chat) as server:
        yield {"settings": {"server": f"{server.origin}/v1"}, "models": ["small-1"]}


@contextmanager
def _searxng(folder: Path) -> Iterator[Settings]:
    with engineside.serving(engineside.searxng) as server:
        yield {"settings": {"server": server.origin}}


@contextmanager
def _corpus(folder: Path) -> Iterator[Settings]:
    yield {"settings": {"documents": str(interface("web-search/v1") / "conformance" / "corpus")}}


@contextmanager
def _web(folder: Path) -> Iterator[Settings]:
    with engineside.suite_server("http/v1") as address:
        yield {"settings": {"hosts": address}}


@contextmanager
def _mail(folder: Path) -> Iterator[Settings]:
    with mailserver.serving(None) as box:
        server = {"server": f"127.0.0.1:{box.port}", "security": "none"}
        yield {"settings": {**server, "sender": "a@example.test", "recipients": "@example.test"}}
        assert box.mails


@contextmanager
def _boxes(folder: Path) -> Iterator[Settings]:
    with maildirs.boxes(folder / "mail") as settings:
        yield {"settings": settings}
        assert any((folder / "mail" / "ada" / "new").iterdir())


# How a connector that cannot run by its defaults is bound, and what it is led to.
BOUND: dict[str, Callable[[Path], AbstractContextManager[Settings]]] = {
    "http-fetch": _web,
    "email-maildir": _boxes,
    "email-smtp": _mail,
    "llm-llama-server": _llama,
    "llm-llamacpp": _models,
    "llm-openai": _chat,
    "search-local": _corpus,
    "search-searxng": _searxng,
}


def connectors() -> list[str]:
    every = sorted(path.parent.name for path in CATALOG.glob("connectors/*/connector.toml"))
    return [name for name in every if name in BOUND or not _is_elsewhere(name)]


def _is_elsewhere(connector: str) -> bool:
    """Whether it is asked at a service: by a key, or of what a test of its own plays."""
    described = spec(connector)
    return bool(described.egress or described.profiles)


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    print("\n\ninterface        connector            cases   seconds")
    print("\n".join(sorted(found)))


@pytest.mark.timeout(1800)  # engines are fetched the first time
@pytest.mark.parametrize("connector", connectors())
def test_every_case_passes(connector: str, lines: list[str], tmp_path: Path) -> None:
    bound = BOUND.get(connector, lambda folder: nullcontext({}))
    with house(tmp_path) as made, bound(tmp_path) as settings:
        words = ["connector", "check", connector, "-o", "json"]
        if settings:
            made.write("bindings/examined.toml", _binding(connector, settings))
            words += ["--binding", "examined"]
        if spec(connector).profiles:
            words.append("--live")
        if connector in _HERE:
            words.append("--allow-effects")
        done = subprocess.run(
            [BIN / "handler", *words], env=made.env, capture_output=True, text=True, check=False, timeout=1700
        )
        assert done.stdout, done.stderr
        evidence = json.loads(done.stdout)
        lines.extend(_rows(connector, evidence))
        left = [one for one in evidence["results"] if one["verdict"] != "passed"]
        assert not left
        assert done.returncode == 0, done.stdout


@pytest.mark.timeout(1800)
def test_what_one_connector_says_another_hears(lines: list[str]) -> None:
    heard = roundtrips.speech()
    lines.append(
        f"round trip       tts-espeak says {roundtrips.SENTENCE!r}, transcribe-sphinx hears {heard!r}"
    )
    assert roundtrips.HEARD in heard


def _binding(connector: str, made: Settings) -> str:
    head = f'apiVersion = "handler.binding/v1"\nconnector = "{connector}"\n'
    models = f"models = {json.dumps(made['models'])}\n" if "models" in made else ""
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in made["settings"].items())
    return f"{head}{models}[settings]\n{settings}"


def _rows(connector: str, evidence: dict[str, Any]) -> Iterator[str]:
    """One line for each interface version: how many of its cases passed, and in how many seconds."""
    for version in evidence["subject"]["suites"]:
        asked = [one for one in evidence["results"] if one["interface"] == version]
        passed = sum(one["verdict"] == "passed" for one in asked)
        seconds = sum(one["seconds"] for one in asked)
        yield f"{version:16} {connector:20} {passed:>2}/{len(asked):<4} {seconds:7.1f}"
