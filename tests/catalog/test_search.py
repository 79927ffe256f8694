"""The connectors of web-search: every case of the interface, and every way in which servers fail."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.conformance import cases
from tests.catalog.calling import Call, failure, outcome
from tests.catalog.loading import CONNECTORS, modules
from tests.kit import engineside, gateside
from tests.kit.engines import contract, interface, suite
from tests.kit.engineside import Reply, Served

LOCAL, INDEX, PAGES = modules("search-local", "main", "index", "pages")
SEARXNG, RESULTS, ASKING = modules("search-searxng", "main", "results", "handler_asking")
(BRAVE,) = modules("search-brave", "main")
(TAVILY,) = modules("search-tavily", "main")
CORPUS = interface("web-search/v1") / "conformance" / "corpus"
ASKS = {"search-searxng": SEARXNG, "search-brave": BRAVE, "search-tavily": TAVILY}
SHAPES = {
    "search-searxng": engineside.searxng,
    "search-brave": engineside.brave,
    "search-tavily": engineside.tavily,
}
KEY = "a-key-that-nobody-may-see"


Lead = Callable[..., ModuleType]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that all three are led to; it answers whoever is asked of it in ``answer``."""
    with engineside.serving(lambda asked: Reply({})) as made:
        led(monkeypatch, made.origin)
        yield made


def led(monkeypatch: pytest.MonkeyPatch, origin: str) -> None:
    monkeypatch.setenv("SEARXNG_SERVER", origin)
    monkeypatch.setattr(BRAVE, "ORIGIN", origin)
    monkeypatch.setattr(TAVILY, "ORIGIN", origin)


@pytest.fixture
def lead(server: Served) -> Iterator[Lead]:
    """A connector's module, with its gate beside it, which reaches the server and ``more``."""
    with ExitStack() as gates:

        def beside(connector: str, *more: str, key: str = KEY) -> ModuleType:
            gates.enter_context(gateside.gated(connector, key, server.origin, *more))
            return ASKS[connector]

        yield beside


EACH = pytest.mark.parametrize("connector", sorted(ASKS))


@pytest.mark.parametrize("case", suite("web-search/v1"), ids=lambda case: case.name)
@EACH
def test_a_service_keeps_every_case(server: Served, lead: Lead, connector: str, case: cases.Case) -> None:
    server.answer = SHAPES[connector]
    main = lead(connector)
    found = outcome(contract("web-search/v1"), {"web_search_query": main.search}, case, CORPUS.parent)
    assert cases.judge(case, found) == ()


@pytest.mark.parametrize("case", suite("web-search/v1"), ids=lambda case: case.name)
def test_a_folder_keeps_every_case(monkeypatch: pytest.MonkeyPatch, case: cases.Case) -> None:
    monkeypatch.setenv("SEARCH_DOCUMENTS", str(CORPUS))
    LOCAL._made.clear()
    found = outcome(contract("web-search/v1"), {"web_search_query": LOCAL.search}, case, CORPUS.parent)
    assert cases.judge(case, found) == ()


def test_what_two_connectors_share_is_the_same_to_the_byte() -> None:
    assert len({path.read_bytes() for path in CONNECTORS.glob("search-*/results.py")}) == 1


# servers that fail

WRONG = [
    *(Reply({"error": "no"}, status) for status in (400, 401, 403, 404, 422, 429, 432, 500, 503)),
    *(Reply(value) for value in ([], 7, {"results": 7}, {"type": "x", "results": "y"})),
    *(Reply(raw=raw) for raw in (b"<html>sorry</html>", b"", b'{"results": [', b'{"a": "\xff"}')),
    Reply(raw=b"[" * 100_000),
    Reply(raw=b" " * 9 * 2**20),
    Reply(raw=b'{"results": []', headers={"Content-Length": "5000"}),
    Reply(raw=b" " * 100_000, headers={"Content-Length": "200000"}),
    Reply({"type": "search", "results": [], "for": KEY}),
    Reply({"error": KEY}, 401),
]


@EACH
@pytest.mark.parametrize("reply", WRONG, ids=lambda one: f"{one.status} {str(one.body or one.raw)[:20]}")
def test_whatever_else_a_server_says_is_unavailable_and_not_told(
    server: Served, lead: Lead, connector: str, reply: Reply
) -> None:
    server.answer = lambda asked: reply
    main = lead(connector)
    code, diagnostic = failure(lambda: main.search({"query": "Ada Lovelace"}, Call()))
    assert code == "unavailable"
    assert KEY not in diagnostic
    assert "sorry" not in diagnostic
    assert len(server.asked) == 1  # nothing is sent twice


@EACH
def test_no_redirect_is_followed_so_the_key_goes_nowhere_else(
    server: Served, lead: Lead, connector: str
) -> None:
    with engineside.serving(SHAPES[connector]) as other:
        server.answer = lambda asked: Reply({}, 302, {"Location": f"{other.origin}/search?format=json&q=x"})
        main = lead(connector, other.origin)
        assert failure(lambda: main.search({"query": "Ada"}, Call())) == ("unavailable", "HTTP 302")
        assert other.asked == []


@EACH
def test_a_server_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch, connector: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        origin = f"http://127.0.0.1:{taken.getsockname()[1]}"
        led(monkeypatch, origin)
        with gateside.gated(connector, KEY, origin):
            found = failure(lambda: ASKS[connector].search({"query": "Ada"}, Call()))
    words = f"no answer: {origin.removeprefix('http://')} takes no connection now"
    assert found == ("unavailable", words)


@EACH
def test_without_a_gate_nothing_is_sent(
    server: Served, monkeypatch: pytest.MonkeyPatch, connector: str
) -> None:
    monkeypatch.delenv(gateside.VARIABLE, raising=False)
    code, diagnostic = failure(lambda: ASKS[connector].search({"query": "Ada"}, Call()))
    assert (code, diagnostic) == ("unavailable", "no answer: the gate is not reached: OSError")
    assert server.asked == []


# The gate hands on the head of events at once, that of anything else with the first bytes of its body.
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_an_answer_that_drips_ends_at_the_deadline(kind: str) -> None:
    ended = threading.Event()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\n".encode()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(head)
            while not ended.wait(0.02):
                try:
                    connection.sendall(b" " * 100)
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        began = time.monotonic()
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            gateside.gated("search-brave", KEY, origin),
            pytest.raises(ASKING.Unanswered, match="no answer within 1 s"),
        ):
            ASKING.ask(f"{origin}/", timeout_s=1)
        assert time.monotonic() - began < 30
        ended.set()
        thread.join()


@pytest.mark.slow
def test_what_is_larger_than_the_gate_takes_is_not_sent(server: Served) -> None:
    with gateside.gated("search-brave", KEY, server.origin) as passed:
        with pytest.raises(ASKING.Unanswered, match="larger") as fault:
            ASKING.ask(server.origin, "x" * (64 * 2**20 - 1), timeout_s=30)
        assert (fault.value.status, passed, server.asked) == (413, [], [])


@pytest.mark.parametrize(
    ("connector", "method", "header", "most"),
    [
        ("search-searxng", "GET", ("authorization", f"Bearer {KEY}"), None),
        ("search-brave", "GET", ("x-subscription-token", KEY), "4"),
        ("search-tavily", "POST", ("authorization", f"Bearer {KEY}"), 4),
    ],
)
def test_what_is_asked_is_the_services_form_and_the_key_stands_in_its_header_alone(
    server: Served,
    lead: Lead,
    connector: str,
    method: str,
    header: tuple[str, str],
    most: Any,
) -> None:
    server.answer = SHAPES[connector]
    lead(connector).search({"query": "Severn & Söhne + 1", "maxResults": 4}, Call())
    (asked,) = server.asked
    assert asked.method == method
    assert asked.headers[header[0]] == header[1]
    words = asked.body or asked.words
    assert (words.get("query") or words.get("q")) == "Severn & Söhne + 1"
    assert words.get("max_results", words.get("count")) == most
    assert KEY not in str(words)
    assert asked.headers["accept-encoding"] == "identity"


def test_an_instance_without_a_door_is_asked_without_a_token(server: Served, lead: Lead) -> None:
    server.answer = SHAPES["search-searxng"]
    lead("search-searxng", key="").search({"query": "Ada"}, Call())
    assert "authorization" not in server.asked[0].headers


# results


def test_results_are_plain_text_plain_addresses_and_each_page_once() -> None:
    rows = [
        ("<b>Ada</b> &amp; Co", "https://a.example/ö?q=ä b", "x\n y <i>z</i>", "2024-02-03T04:05:06Z"),
        ("again", "https://a.example/ö?q=ä b", "", None),
        ("script", "javascript:alert(1)", "", None),
        (None, "https://b.example/", None, "yesterday"),
        ("a < b and c > d", "http://c.example/%C3%B6", "", "2024-13-01"),
        (7, ["https://d.example"], {}, 7),
        ("long", "https://e.example/" + "x" * 2000, "", None),
        ("t" * 400, "https://f.example/", "e" * 2000, "2024-02-30"),
    ]
    found = RESULTS.results(rows, 10)
    assert [one["url"] for one in found] == [
        "https://a.example/%C3%B6?q=%C3%A4%20b", "https://b.example/", "http://c.example/%C3%B6",
        "https://f.example/",
    ]  # fmt: skip
    assert found[0] == {
        "title": "Ada & Co", "url": found[0]["url"], "excerpt": "x y z", "published": "2024-02-03"
    }  # fmt: skip
    assert found[1] == {"title": "https://b.example/", "url": "https://b.example/", "excerpt": ""}
    assert found[2]["title"] == "a < b and c > d"
    assert (len(found[3]["title"]), len(found[3]["excerpt"])) == (300, 1000)
    assert len(RESULTS.results(rows, 2)) == 2


def test_no_sign_of_one_result_takes_the_others_away() -> None:
    rows = [
        (f"a&#{'9' * 5000};", "https://a.example/\ud800", "b\x1b[31m\u202ec\ud800", "2024-02-03"),
        ("x" * 10_000_000, "https://b.example/", "&lt;&#65;", None),
    ]
    found = RESULTS.results(rows, 10)
    assert [one["excerpt"] for one in found] == ["b[31mc?", "<A"]
    assert found[0]["url"] == "https://a.example/?"


def test_a_day_that_is_none_is_no_reason_to_lose_the_page() -> None:
    assert TAVILY._day("Mon, 01 May 2023 10:00:00 +" + "9" * 21).startswith("Mon")


_SIGNS = st.text() | st.text("\ud800\x1b&#x9;<a>\u202e \n", max_size=30)
_ANYTHING = st.none() | st.integers() | _SIGNS | st.lists(st.text(), max_size=2)
_ROWS = st.tuples(_ANYTHING, _ANYTHING | _SIGNS.map(lambda text: f"https://{text}"), _ANYTHING, _ANYTHING)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(_ROWS, max_size=12), st.integers(1, 20))
def test_whatever_an_engine_says_the_results_keep_the_contract(rows: list[Any], most: int) -> None:
    answer = {"results": RESULTS.results(rows, most)}
    assert contract("web-search/v1").tools["web_search_query"].output_fault(answer) is None


# the folder


def found(index: Any, query: str, most: int = 10) -> list[str]:
    return [one.path for one in index.search(INDEX.words(query), most, lambda: False)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "tea.md").write_text("---\ntitle: 'On tea'\ndate: 2021-03-04\n---\n# Tea\n\nTea is brewed.\n")
    (tmp_path / "deep" / "coffee.txt").write_text("Coffee\n\nCoffee is roasted, then brewed.\n")
    (tmp_path / "deep" / "er" / "cocoa.htm").write_text(
        "<title>Cocoa</title><p>Cocoa is ground.<script>tea()</script>"
    )
    return tmp_path


def test_changed_new_and_deleted_files_are_seen_by_the_next_search(folder: Path) -> None:
    index = INDEX.Index(str(folder), rescan_s=0)
    assert found(index, "brewed") == ["deep/coffee.txt", "tea.md"] or found(index, "brewed") == [
        "tea.md",
        "deep/coffee.txt",
    ]
    (folder / "tea.md").write_text("Tea\n\nTea is steeped.\n")
    (folder / "deep" / "coffee.txt").unlink()
    (folder / "mate.txt").write_text("Mate is brewed, too")
    assert found(index, "brewed") == ["mate.txt"]
    assert found(index, "steeped") == ["tea.md"]
    assert found(index, "roasted") == []


def test_a_list_that_is_new_enough_is_not_made_again(folder: Path) -> None:
    index = INDEX.Index(str(folder), rescan_s=3600)
    assert found(index, "ground") == ["deep/er/cocoa.htm"]
    (folder / "new.txt").write_text("ground")
    assert found(index, "ground") == ["deep/er/cocoa.htm"]


def test_links_hidden_binary_large_and_closed_files_are_left_out(folder: Path, tmp_path_factory: Any) -> None:
    away = tmp_path_factory.mktemp("away")
    (away / "secret.txt").write_text("brewed secretly")
    (folder / "link.txt").symlink_to(away / "secret.txt")
    (folder / "linked").symlink_to(away)
    (folder / ".hidden.txt").write_text("brewed")
    (folder / ".git").mkdir()
    (folder / ".git" / "x.txt").write_text("brewed")
    (folder / "binary.txt").write_bytes(b"brewed\0\1\2")
    (folder / "large.txt").write_bytes(b"brewed " * 700_000)
    (folder / "program.py").write_text("brewed")
    assert sorted(found(INDEX.Index(str(folder)), "brewed")) == ["deep/coffee.txt", "tea.md"]


def test_all_words_come_first_then_some(folder: Path) -> None:
    index = INDEX.Index(str(folder))
    assert found(index, "roasted brewed") == ["deep/coffee.txt", "tea.md"]
    assert found(index, "roasted brewed", most=1) == ["deep/coffee.txt"]


def test_a_title_says_more_than_a_text(folder: Path) -> None:
    (folder / "shop.txt").write_text("A shop\n\nIt sells cocoa, and other things that are sold in shops.\n")
    assert found(INDEX.Index(str(folder)), "cocoa")[0] == "deep/er/cocoa.htm"


def test_of_a_long_document_the_passage_that_fits_is_shown_once(folder: Path) -> None:
    filler = "Nothing of interest is said in this sentence.\n" * 200
    (folder / "long.txt").write_text(f"Long\n\n{filler}\nThe quokka smiles.\n\n{filler}\nA quokka again.\n")
    (one,) = INDEX.Index(str(folder)).search(["quokka"], 10, lambda: False)
    assert "quokka" in one.excerpt
    assert len(one.excerpt) < 500


@pytest.mark.slow
@given(st.text(max_size=60))
def test_no_query_speaks_the_syntax_of_the_engine(query: str) -> None:
    words = INDEX.words(query)
    if words:
        for one in _SHARED.search(words, 5, lambda: False):
            assert one.path


_SHARED = INDEX.Index(str(CORPUS), rescan_s=3600)


def test_a_search_that_nobody_waits_for_ends_and_the_next_goes_on(folder: Path) -> None:
    index = INDEX.Index(str(folder), rescan_s=0)
    with pytest.raises(INDEX.StoppedError):
        index.search(["tea"], 1, lambda: True)
    assert found(index, "steeped brewed tea")[0] == "tea.md"


def test_a_folder_that_is_gone_is_unavailable_and_its_place_is_not_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEARCH_DOCUMENTS", str(tmp_path / "nothing"))
    LOCAL._made.clear()
    code, diagnostic = failure(lambda: LOCAL.search({"query": "tea"}, Call()))
    assert code == "unavailable"
    assert str(tmp_path) not in diagnostic


def test_addresses_are_what_a_page_says_else_the_prefix_else_the_path(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "a b.txt").write_text("brewed")
    (folder / "own.html").write_text('<link rel="canonical" href="https://wiki.example/own"><p>brewed</p>')
    (folder / "bad.html").write_text('<link rel="canonical" href="javascript:x"><p>brewed</p>')
    monkeypatch.setenv("SEARCH_DOCUMENTS", str(folder))
    for prefix, start in (("", "document:"), ("https://docs.example/", "https://docs.example/")):
        LOCAL._made.clear()
        monkeypatch.setenv("SEARCH_ADDRESS_PREFIX", prefix)
        answer = LOCAL.search({"query": "brewed"}, Call())
        assert contract("web-search/v1").tools["web_search_query"].output_fault(answer) is None
        assert {one["url"] for one in answer["results"]} == {
            "https://wiki.example/own",
            *(start + name for name in ("a%20b.txt", "bad.html", "deep/coffee.txt", "tea.md")),
        }


@pytest.mark.parametrize(
    ("name", "data", "title", "published"),
    [
        ("a.md", b"# Head #\n\ntext", "Head", ""),
        ("a.rst", b"====\nHead\n====\n", "Head", ""),
        ("a.txt", b"\xef\xbb\xbf\r\nFirst line\r\nsecond", "First line", ""),
        ("a.txt", "Grüße".encode("utf-16"), "Grüße", ""),
        ("a.txt", b"caf\xe9", "caf\ufffd", ""),
        ("name.txt", b"", "name", ""),
        ("a.md", b"---\ntitle: T\ndate: 2020-01-02T03:04\n---\nbody", "T", "2020-01-02"),
        ("a.md", b"---\nno end of it", "no end of it", ""),
        ("a.html", b"<h1>H</h1><p>x", "H", ""),
        ("a.html", b"<title>T\n t</title><h1>H</h1>", "T t", ""),
        (
            "a.html",
            b'<meta property="article:published_time" content="2020-01-02T00:00Z"><p>x',
            "a",
            "2020-01-02",
        ),
        ("a.HTML", b"<p>&lt;b&gt;", "a", ""),
    ],
)
def test_a_page_says_its_title_and_day(name: str, data: bytes, title: str, published: str) -> None:
    page = PAGES.page(name, data)
    assert (page.title, page.published) == (title, published)


@pytest.mark.parametrize("odd", [b"<![foo[ x ]]>", b"<![1[", b"<![ x", b"<![if IE]>"])
def test_a_page_with_markup_that_nobody_knows_is_read_to_its_end(odd: bytes) -> None:
    page = PAGES.page("a.html", b"<p>before " + odd + b" <b>after</b>")
    assert "before" in page.text and "after" in page.text
    assert "<b>" not in page.text


@given(st.binary(max_size=300), st.sampled_from(["a.html", "a.md"]))
def test_no_file_whatever_its_bytes_breaks_the_reading(data: bytes, name: str) -> None:
    for tail in (data, b"<title>" + data, b"<![" + data, b"---\n" + data):
        page = PAGES.page(name, tail)
        assert page is None or isinstance(page.text, str)


@pytest.mark.slow
@pytest.mark.parametrize(
    "markup",
    [
        "<a ",
        "<!",
        "<!--",
        '<a x="',
        "<![CDATA[",
        "<![x[",
        "</a ",
        "<",
        "&",
        "<title><h1>",
        "<script>",
        "<svg/>",
    ],
)
def test_a_page_of_broken_markup_is_read_once_from_start_to_end(markup: str) -> None:
    page = PAGES.page("a.html", b"<p>brewed</p>" + markup.encode() * 200_000)  # minutes with a tree of tags
    assert page is not None
    assert "brewed" in page.text


def test_what_no_reader_shows_is_no_text_and_a_number_beyond_all_characters_is_none() -> None:
    text = (
        f"<h1>Tea\x1b[31m</h1><svg/>a<!-- b --><svg>c</svg>d<script>e</script>&lt;&#{'9' * 5000};\u202ef\x07"
    )
    page = PAGES.page("a.html", text.encode())
    assert (page.title, page.text) == ("Tea[31m", f"\nTea[31m\nad<&#{'9' * 5000};f")


def test_a_text_on_one_long_line_has_a_short_title() -> None:
    page = PAGES.page("a.txt", b"brewed tea " * 100_000)  # a title stands beside each of its passages
    assert len(page.title) == 300


def test_a_document_that_fits_in_many_passages_does_not_hide_the_others(folder: Path) -> None:
    (folder / "long.txt").write_text("\n\n".join(["Tea is brewed, brewed, brewed. " + "so " * 400] * 400))
    assert set(found(INDEX.Index(str(folder)), "brewed", 3)) == {"long.txt", "deep/coffee.txt", "tea.md"}


def test_what_became_a_pipe_or_a_link_since_it_was_listed_is_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe.txt")
    (folder / "link.txt").symlink_to(folder / "tea.md")
    listed = [(name, (1, 1)) for name in ("pipe.txt", "link.txt", "tea.md")]
    monkeypatch.setattr(INDEX, "_files", lambda _: iter(listed))
    assert found(INDEX.Index(str(folder)), "brewed") == ["tea.md"]


def test_a_document_whose_address_is_too_long_is_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = folder.joinpath(*["ü" * 120] * 3)
    deep.mkdir(parents=True)
    (deep / "far.txt").write_text("brewed")
    monkeypatch.setenv("SEARCH_DOCUMENTS", str(folder))
    LOCAL._made.clear()
    urls = [one["url"] for one in LOCAL.search({"query": "brewed"}, Call())["results"]]
    assert sorted(urls) == ["document:deep/coffee.txt", "document:tea.md"]
