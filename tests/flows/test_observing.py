"""Observing a whole Handler: its metrics, its health, its log, and the supervisor that is told."""

import json
import queue
import shutil
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.control.test_exposition import read
from tests.control.test_tracing import Collector
from tests.kit.house import FIXTURES, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]
CONFIG = 'apiVersion = "handler.config/v1"\n'


class Supervisor:
    """Reads what it is told all the time, as systemd does: a socket holds ten messages that nobody reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: queue.Queue[bytes] = queue.Queue()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        while words := self.sock.recv(4096):
            self.told.put(words)

    def heard(self, words: bytes) -> None:
        while words not in self.told.get(timeout=60):
            pass

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", str(self.path))
        self.thread.join(30)
        self.sock.close()


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path_factory.mktemp("sup") / "n")
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, supervisor: Supervisor) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("obs")) as made:
        made.env |= {"NOTIFY_SOCKET": str(supervisor.path), "WATCHDOG_USEC": "200000"}
        made.write(
            "handler.toml", CONFIG + '[reconcile]\nscanSeconds = 0.2\n[http]\nlisten = "127.0.0.1:0"\n'
        )
        made.write("bindings/fine.toml", 'apiVersion = "handler.binding/v1"\nconnector = "ocr-tesseract"\n')
        made.write(
            "agents/clerk.toml",
            'apiVersion = "handler.agent/v1"\nservices = { ocr = "fine" }\n'
            f'requires = ["ocr/v1"]\nscope = ["{made.inbox}"]\n',
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        made.start()
        wait_for(lambda: address(made) != "", "an address")
        yield made


def address(place: House) -> str:
    return str(json.loads(place.handler("daemon", "status", "-o", "json").stdout)["http"])


def page(place: House, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(address(place) + path, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as fault:
        return fault.code, fault.read()


def follows(place: House, asked: bool) -> bool:
    return (address(place) != "") is asked


def settled(place: House, http: str = 'listen = "127.0.0.1:0"', more: str = "") -> None:
    """The address as a file without one, then with this one, gives it: nothing is left of other tests."""
    for line in ("", http):
        place.write("handler.toml", CONFIG + f"[reconcile]\nscanSeconds = 0.2\n[http]\n{line}\n{more}")
        wait_for(partial(follows, place, bool(line)), "the address follows the file")


def test_the_supervisor_is_told_how_it_stands_from_the_beginning_to_the_end(
    place: House, supervisor: Supervisor
) -> None:
    supervisor.heard(b"WATCHDOG=1")
    supervisor.heard(b"WATCHDOG=1")
    assert place.daemon is not None
    place.daemon.send_signal(1)
    supervisor.heard(b"RELOADING=1\nMONOTONIC_USEC=")
    supervisor.heard(b"READY=1")
    assert place.stop() == 0
    supervisor.heard(b"STOPPING=1")
    place.start()
    supervisor.heard(b"READY=1")
    log = (place.state.parent / "handlerd.log").read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"handler", "handler.loop"} <= {line["logger"] for line in lines}
    assert all(line["level"] in ("info", "warning") for line in lines)


def test_a_call_is_counted_without_a_word_of_what_was_in_it(place: House) -> None:
    settled(place)
    place.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk")
    place.handler("call", "ocr_extract", "path=missing.png", "--agent", "clerk", check=False)
    told: list[tuple[str, dict[str, str], float]] = []

    def counted() -> bool:
        status, text = page(place, "/metrics")
        assert status == 200
        assert b"INV-2024" not in text
        assert b"missing.png" not in text
        told[:] = read(text)
        return sum(value for name, _, value in told if name == "handler_calls_total") == 2

    wait_for(counted, "both calls")
    calls = {labels["code"]: value for name, labels, value in told if name == "handler_calls_total"}
    assert calls == {"ok": 1, "refused": 1}
    names = {name for name, _, _ in told}
    assert names >= {
        "handler_call_duration_seconds_bucket",
        "handler_reconcile_total",
        "handler_workqueue_depth",
        "handler_instance_up",
        "handler_config_last_reload_successful",
        "handler_objects",
        "handler_sessions",
        "process_resident_memory_bytes",
    }
    ups = {labels["binding"]: value for name, labels, value in told if name == "handler_instance_up"}
    assert ups == {"fine": 1}


def test_health_is_told_by_name_and_says_when_the_source_is_gone(place: House) -> None:
    settled(place)
    assert page(place, "/livez") == (200, b"ok\n")
    status, text = page(place, "/readyz?verbose")
    assert (status, b"[+]source ok" in text) == (200, True)
    away = place.config.with_name("away")
    place.config.rename(away)
    wait_for(lambda: page(place, "/readyz")[0] == 503, "not ready")
    assert b"[-]source failed: SourceUnavailable\n" in page(place, "/readyz")[1]
    assert page(place, "/livez")[0] == 200
    away.rename(place.config)
    wait_for(lambda: page(place, "/readyz")[0] == 200, "ready again")


def test_the_address_follows_the_file_and_a_taken_one_is_said(place: House) -> None:
    def listen(line: str) -> None:
        place.write("handler.toml", CONFIG + f"[reconcile]\nscanSeconds = 0.2\n[http]\n{line}\n")

    def stalled() -> str:
        found = json.loads((place.state / "status/summary.json").read_bytes())["conditions"]
        return next((one["message"] for one in found if one["type"] == "Stalled"), "")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        listen(f'listen = "127.0.0.1:{port}"')
        wait_for(lambda: "Address already in use" in stalled(), "it says that the port is taken")
        assert address(place) == ""
        assert f"cannot listen on 127.0.0.1:{port}" in place.handler("status").stdout
    listen('listen = "unix"')
    wait_for(lambda: address(place) == f"unix:{place.run}/http.sock", "the socket")
    wait_for(lambda: stalled() == "", "nothing is wrong any more")
    assert (place.run / "http.sock").stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(place.run / "http.sock"))
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
        assert sock.makefile("rb").read().endswith(b"ok\n")
    listen("")
    wait_for(lambda: address(place) == "", "nowhere")
    assert not (place.run / "http.sock").exists()
    summary = place.state / "status/summary.json"
    wait_for(lambda: json.loads(summary.read_bytes())["controller"]["http"] is None, "its file says so")


def test_a_call_is_a_span_of_the_trace_that_its_caller_names(place: House) -> None:
    collector = Collector()
    try:
        settled(place, more=f'[telemetry]\notlpEndpoint = "{collector.address}"\n')
        place.env["TRACEPARENT"] = f"00-{'c' * 32}-{'d' * 16}-01"
        place.handler("call", "ocr_extract", "path=missing.png", "--agent", "clerk", check=False)
        wait_for(lambda: collector.spans() == 1, "the span")
    finally:
        del place.env["TRACEPARENT"]
        collector.close()
    (_, _, body) = collector.heard[0]
    span = json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert (span["traceId"], span["parentSpanId"]) == ("c" * 32, "d" * 16)
    assert span["name"] == "tools/call ocr_extract"
    assert {"key": "error.type", "value": {"stringValue": "refused"}} in span["attributes"]
    assert b"missing.png" not in body
