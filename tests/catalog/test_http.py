"""``http-fetch``: every case of http/v1 against the suite's own server, and what may never be reached."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.conformance import cases
from tests.catalog.calling import Call, failure, outcome
from tests.catalog.loading import modules
from tests.kit import engineside, gateside
from tests.kit.engines import contract, suite
from tests.kit.engineside import Asked, Reply

MAIN, ADDRESSES, BODIES = modules("http-fetch", "main", "addresses", "bodies")
TOOLS: Mapping[str, Any] = MAIN.TOOLS


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    """The suite's server, and the gate that lets through to it alone."""
    with engineside.suite_server("http/v1") as address, gateside.gated("http-fetch", "", f"http://{address}"):
        yield


# What only the router knows: that a sent request without an answer is a known unknown.
AS_SAID = {"the server hangs up on what is sent": "unavailable"}


@pytest.mark.parametrize("case", suite("http/v1"), ids=lambda case: case.name)
def test_every_case(case: cases.Case, tmp_path: Path) -> None:
    promised = contract("http/v1")
    if "output" in case.input:
        found = into_a_file(case, tmp_path / "blob")
    else:
        found = outcome(promised, TOOLS, case, tmp_path)
    if said := AS_SAID.get(case.name):
        assert found.error == said
    else:
        assert cases.judge(case, found) == ()


def into_a_file(case: cases.Case, blob: Path) -> cases.Outcome:
    given = {**case.input, "output": BODIES.OutputFile("picture.png", "blob", str(blob))}
    answer = TOOLS[case.tool](given, Call())
    assert contract("http/v1").tools[case.tool].output_fault(answer) is None
    return cases.Outcome(answer, None, 0.0, {"output": blob.read_bytes()})


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1:8725@example.test/", "bad_address"),
        ("http://example.test:8725\\@127.0.0.1/", "bad_address"),
        ("http://[::1:8725/", "bad_address"),
        ("http://2130706433:8725/", "refused"),
        ("http://127.1:8725/", "refused"),
        ("http://0177.0.0.1:8725/", "refused"),
        ("http://[::ffff:127.0.0.1]:8725/", "refused"),
        ("http://localhost:8725/", "refused"),
        ("https://127.0.0.1:8725/", "unavailable"),
        ("http://127.0.0.1:8726/", "refused"),
        ("http://127.0.0.1.:8725/", "refused"),
    ],
)
def test_no_spelling_reaches_another_server(url: str, code: str) -> None:
    assert failure(lambda: TOOLS["http_get"]({"url": url}, Call()))[0] == code


@pytest.mark.parametrize(
    ("leads", "there"),
    [
        ("/a b", "https://one.test/a%20b"),
        ("../x?y=1#z", "https://one.test/x?y=1"),
        ("//two.test/x", "https://two.test/x"),
        ("https://two.test:8443/", "https://two.test:8443/"),
        ("http://one.test/", "refused"),
        ("javascript:alert(1)", "refused"),
        ("https://ada@two.test/", "bad_address"),
        ("https://two.test:x/", "bad_address"),
    ],
)
def test_where_a_redirect_leads(leads: str, there: str) -> None:
    try:
        found = ADDRESSES.led("https://one.test/p/q", leads)
    except Exception as fault:  # noqa: BLE001 - the connector's own class
        found = getattr(fault, "code", "")
    assert found == there


@pytest.mark.parametrize(
    ("url", "allowed", "denied", "may"),
    [
        ("https://api.one.test/", ["api.one.test"], [], True),
        ("https://api.one.test/", ["one.test"], [], False),
        ("https://api.one.test/", [".one.test"], [], True),
        ("https://one.test/", ["*.one.test"], [], False),
        ("https://notone.test/", [".one.test"], [], False),
        ("https://api.one.test/", ["api.one.test:443"], [], True),
        ("https://api.one.test:8443/", ["api.one.test:443"], [], False),
        ("https://API.one.test/", ["api.ONE.test"], [], True),
        ("https://api.one.test/", None, ["one.test"], False),
        ("https://one.test/", None, [".one.test"], False),
        ("https://notone.test/", None, ["one.test"], True),
        ("https://one.test/", [], [], False),
        ("https://one.test/", ["one.test"], ["one.test"], False),
        ("http://[::1]:8080/", ["[::1]:8080"], [], True),
        ("http://[::1]:8080/", None, ["::1"], False),
        ("http://[0:0::1]:8080/", None, ["[::1]:8080"], False),
        ("http://[::1]:8080/", None, ["0::1"], False),
        ("https://one.test/", None, ["two.test."], True),
        ("https://one.test./", None, ["ONE.test."], False),
        ("https://one.test/", None, ["*"], False),
        ("https://one.test/", None, ["https://one.test"], False),
        ("https://one.test/", None, ["two.test:"], False),
        ("https://one.test/", None, ["one.test/x"], False),
        ("https://one.test/", None, ["two.test:²"], False),
    ],
)
def test_a_call_narrows_what_may_be_reached(
    url: str, allowed: list[str] | None, denied: list[str], may: bool
) -> None:
    ways = ADDRESSES.Ways(allowed, denied)
    if may:
        ways.need(url)
    else:
        assert failure(lambda: ways.need(url))[0] == "refused"


def test_half_a_letter_is_refused_before_anything_is_sent() -> None:
    url = "http://127.0.0.1:8725/"
    assert (
        failure(lambda: TOOLS["http_get"]({"url": url, "query": {"a": "\ud800"}}, Call()))[0] == "bad_address"
    )
    assert failure(lambda: TOOLS["http_post"]({"url": url, "body": "\ud800"}, Call()))[0] == "refused"


def test_what_knows_a_person_is_not_taken_to_another_server() -> None:
    with engineside.serving(lambda asked: Reply({})) as other:
        other_origin = other.origin
        leads = engineside.serving(lambda asked: Reply({}, 302, {"Location": f"{other_origin}/x"}))
        with leads as first, gateside.gated("http-fetch", "", first.origin, other_origin):
            headers = {"Authorization": "Bearer mine", "cookie": "a=1", "accept": "text/plain"}
            TOOLS["http_get"]({"url": f"{first.origin}/", "headers": headers}, Call())
    assert first.asked[0].headers["authorization"] == "Bearer mine"
    assert {"authorization", "cookie"}.isdisjoint(other.asked[0].headers)
    assert other.asked[0].headers["accept"] == "text/plain"


def test_a_text_is_read_by_its_letters_and_a_cut_one_ends_at_a_whole_letter() -> None:
    def answer(asked: Asked) -> Reply:
        named = {"/latin": "text/plain; charset=ISO-8859-1", "/odd": "text/plain; charset=martian"}
        raw = "Grüße".encode("latin-1" if asked.path == "/latin" else "utf-8")
        return Reply(raw=raw, headers={"Content-Type": named.get(asked.path, "text/plain")})

    with engineside.serving(answer) as one, gateside.gated("http-fetch", "", one.origin):
        for path in ("/latin", "/odd", "/plain"):
            assert TOOLS["http_get"]({"url": one.origin + path}, Call())["body"] == "Grüße"
        assert TOOLS["http_get"]({"url": one.origin, "max_bytes": 3}, Call())["body"] == "Gr"
