"""Make before break, the whole way: what serves keeps serving until what replaces it has answered."""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.house import FIXTURES, ROOT, House, house, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]

CONNECTOR = """apiVersion = "handler.connector/v1"
name = "{name}"
description = "for tests"
implements = ["ocr/v1"]
runtime = "python"
"""
SAYS = """from handler_connector import serve
serve({{"ocr_extract": lambda args, call: {{"pages": [{{"text": "{word}"}}]}}}})
"""


DIES_AT_A_CALL = """import os
from handler_connector import serve
serve({"ocr_extract": lambda args, call: os._exit(7)})
"""
SLOW = """import time
from handler_connector import serve
def extract(args, call):
    time.sleep(3)
    return {"pages": [{"text": "slowly"}]}
serve({"ocr_extract": extract})
"""
SMOKE = 'conformance.smoke = ["invoice as a picture"]\n'
EXPECTED = "INV-2024-0042 Total Northgate Veterinary Practice"


def connector(made: House, name: str, code: str) -> None:
    made.write(f"connectors/{name}/main.py", code)
    made.write(f"connectors/{name}/PROVISIONING.md", "Nothing.\n")
    made.write(f"connectors/{name}/connector.toml", CONNECTOR.format(name=name))


def binding(made: House, name: str, of: str, more: str = "") -> None:
    made.write(f"bindings/{name}.toml", f'apiVersion = "handler.binding/v1"\nconnector = "{of}"\n{more}')


def word(made: House) -> str:
    """What the agent reads now."""
    said = made.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk", check=False).stdout
    found = json.loads(said)
    return str(found["pages"][0]["text"] if "pages" in found else found["error"])


def phase(made: House, name: str) -> str:
    """How the newest instance of a binding stands."""
    seen = made.status("binding", name).get("inventory") or [{}]
    return str(seen[-1].get("phase", ""))


def synced(made: House, name: str) -> str:
    return str(made.condition("binding", name, "Synced").get("message", ""))


class Caller(threading.Thread):
    """A client that calls 50 times a second; with ``anew`` each call is a connection, and so a session."""

    def __init__(self, path: Path, *, anew: bool) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.anew = anew
        self.words: list[str] = []  # of each call: what it read, or how it failed
        self.over = threading.Event()

    def run(self) -> None:
        due = time.monotonic()
        with contextlib.ExitStack() as kept:
            held = None if self.anew else kept.enter_context(self.connection())
            while not self.over.is_set():
                try:
                    with contextlib.nullcontext(held) if held else self.connection() as made:
                        self.words.append(self.call(made))
                except (OSError, ValueError) as error:
                    self.words.append(f"failed: {error!r}")
                due = max(due + 0.02, time.monotonic() - 1)
                self.over.wait(max(0.0, due - time.monotonic()))

    def connection(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(60)
        made.connect(str(self.path))
        return made

    @staticmethod
    def call(made: socket.socket) -> str:
        params = {"name": "ocr_extract", "arguments": {"path": "invoice.png"}}
        line = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        made.sendall(json.dumps(line).encode() + b"\n")
        heard = b""
        while not heard.endswith(b"\n"):
            data = made.recv(65536)
            if not data:
                return "failed: the connection ended"
            heard += data
        result = json.loads(heard).get("result") or {}
        if result.get("isError") or "structuredContent" not in result:
            return f"failed: {heard[:200]!r}"
        return str(result["structuredContent"]["pages"][0]["text"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        connector(made, "says-one", SAYS.format(word="one"))
        connector(made, "dies", "raise SystemExit(3)\n")
        binding(made, "good", "says-one")
        binding(made, "bad", "dies")
        made.write(
            "agents/clerk.toml",
            f'apiVersion = "handler.agent/v1"\nrequires = ["ocr/v1"]\nservices = {{ ocr = "good" }}\n'
            f'scope = ["{made.inbox}"]\n',
        )
        shutil.copy(FIXTURES / "invoice.png", made.inbox)
        yield made


def test_a_rebind_to_what_cannot_start_keeps_the_old_one_serving_also_over_a_restart(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    assert word(place) == "one"
    place.handler("rebind", "clerk", "ocr", "bad")
    late = place.handler("apply", "--wait", "--timeout", "3", check=False)
    assert late.returncode == 3
    assert word(place) == "one"
    assert "handler logs bad" in late.stderr
    assert place.condition("binding", "bad", "Synced")["reason"] == "LastGoodRetained"
    agent = place.condition("agent", "clerk", "Ready")
    assert (agent["status"], agent["reason"]) == ("True", "LastGoodRetained")
    traced = place.handler("trace", "clerk", "ocr").stdout
    assert traced.startswith("ocr/v1 → binding/bad   agents/clerk.toml:")
    assert "binding/good, not what the files say now" in traced
    assert re.search(r"LastGoodRetained: .*bad@[0-9a-f]+ has to answer first", traced)
    place.kill()
    place.start()
    assert word(place) == "one"
    connector(place, "dies", SAYS.format(word="two"))
    wait_for(lambda: word(place) == "two", "the mended connector serves")
    assert not (place.state / "retained.json").exists()


def test_an_edit_of_a_connector_reaches_the_next_session_once_it_answers(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    session = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)
    assert word(place) == "one"
    place.write("connectors/says-one/main.py", "raise SystemExit(3)\n")
    late = place.handler("apply", "--wait", "--timeout", "3", check=False)
    assert late.returncode == 3, late.stdout + late.stderr
    assert "does not serve yet" in late.stdout
    assert place.condition("binding", "good", "Ready")["reason"] == "LastGoodRetained"
    assert word(place) == "one"
    place.write("connectors/says-one/main.py", SAYS.format(word="edited"))
    place.handler("apply", "--wait")
    assert word(place) == "edited"
    env = {**place.env, "HANDLER_SERVICES": session["services"]}
    place.env = env
    assert (
        json.loads(place.handler("call", "ocr_extract", "path=invoice.png").stdout)["pages"][0]["text"]
        == "one"
    )


def test_a_binding_that_an_agent_uses_is_removed_by_an_apply_and_by_nothing_else(place: House) -> None:
    agent = place.config / "agents" / "clerk.toml"
    agent.write_text(
        agent.read_text().replace('requires = ["ocr/v1"]\n', "")
    )  # then the flag would be needed
    place.start()
    place.handler("apply", "--wait")
    (place.config / "bindings" / "good.toml").unlink()
    wait_for(
        lambda: place.condition("binding", "good", "Synced").get("reason") == "AwaitingApply", "it waits"
    )
    assert word(place) == "one"
    assert place.handler("apply", check=False).returncode == 2  # nobody can be asked
    assert word(place) == "one"
    assert place.handler("apply", "-y", check=False).returncode == 1
    call = place.handler("call", "ocr_extract", "path=invoice.png", "--agent", "clerk", check=False)
    assert "there is no tool 'ocr_extract'" in call.stderr


def test_a_suspended_binding_serves_nobody_until_it_is_resumed(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    assert word(place) == "one"
    text = (place.config / "bindings" / "good.toml").read_text()
    place.write("bindings/good.toml", text + "suspend = true\n")
    wait_for(lambda: word(place) == "unavailable", "it is suspended")
    place.write("bindings/good.toml", text)
    wait_for(lambda: word(place) == "one", "it is resumed")


def test_the_connector_of_the_docs_works_as_written(place: House) -> None:
    page = (ROOT / "docs" / "connectors.md").read_text()
    toml, code = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("toml", "python"))
    assert toml and code
    place.write("connectors/ocr-shout/main.py", code[1])
    place.write("connectors/ocr-shout/PROVISIONING.md", "Nothing.\n")
    place.write("connectors/ocr-shout/connector.toml", toml[1])
    binding(place, "ocr-loud", "ocr-shout")
    shutil.copy(FIXTURES / "invoice.pdf", place.inbox)
    place.start()
    place.handler("apply", "--wait")
    for path, expected in (("invoice.pdf", "HELLO"), ("invoice.png", "unsupported_format")):
        said = place.handler("call", "ocr_extract", f"path={path}", "--binding", "ocr-loud", check=False)
        assert expected in said.stdout, said.stdout + said.stderr
    said = place.handler("call", "ocr_extract", "path=invoice.pdf", "--binding", "nobody", check=False)
    assert re.search(r"there is no binding 'nobody' to call; bindings: .*ocr-loud", said.stderr)
    said = place.handler(
        "call", "ocr_extract", "path=a", "languages=EN!", "--binding", "ocr-loud", check=False
    )
    assert "handler: languages[0] must match ^" in said.stderr, said.stdout + said.stderr


def test_nobody_who_calls_notices_a_rebind_that_fails_nor_one_that_works(place: House) -> None:
    connector(place, "says-two", SAYS.format(word="two"))
    binding(place, "better", "says-two")
    place.start()
    place.handler("apply", "--wait")
    session = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)
    old = Caller(Path(session["sockets"]["ocr"]), anew=False)
    new = Caller(place.run / "a" / "clerk" / "ocr.sock", anew=True)
    for caller in (old, new):
        caller.start()
    wait_for(lambda: len(new.words) > 50, "calls flow")
    place.handler("rebind", "clerk", "ocr", "bad")
    wait_for(lambda: "it failed" in synced(place, "bad"), "the new one cannot start")
    place.handler("rebind", "clerk", "ocr", "better")
    place.handler("apply", "--wait")
    wait_for(lambda: new.words[-1] == "two", "the next sessions are answered by the new one")
    seen = len(new.words)
    wait_for(lambda: len(new.words) > seen + 50, "calls flow on")
    for caller in (old, new):
        caller.over.set()
        caller.join(60)
    assert set(old.words) == {"one"}  # an open session keeps its table
    assert set(new.words) == {"one", "two"}
    assert new.words == sorted(new.words)  # and nobody is thrown back


def test_what_failed_is_known_to_be_bad_over_a_restart_until_it_is_edited(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    place.handler("rebind", "clerk", "ocr", "bad")
    wait_for(lambda: place.condition("binding", "bad", "Stalled").get("status") == "True", "it is given up")
    told = synced(place, "bad")
    assert "it failed 5 times since" in told
    assert "`handler apply`" in told
    late = place.handler("apply", "--wait", "--timeout", "100", check=False)
    assert late.returncode == 3
    assert "it failed 6 times since" in late.stderr
    assert "known to be bad" in late.stderr
    assert "within 100 s" not in late.stderr
    place.kill()
    place.write("handler.toml", 'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.1\n')
    place.start()
    settled(place)  # to look at what is known to be bad writes nothing
    assert place.condition("binding", "bad", "Stalled")["status"] == "True"
    since = told.removeprefix("it failed 5 times ").partition(",")[0]
    assert synced(place, "bad").startswith(f"it failed 6 times {since}, ")
    assert phase(place, "bad") == "declared"  # nothing was started
    assert word(place) == "one"
    connector(place, "dies", SAYS.format(word="mended"))
    wait_for(lambda: word(place) == "mended", "the mended one serves")
    assert place.condition("binding", "bad", "Stalled") == {}


def test_what_this_machine_lacks_is_not_the_connectors_fault_and_is_tried_on(place: House) -> None:
    connector(place, "says-two", SAYS.format(word="two"))
    text = (place.config / "connectors/says-two/connector.toml").read_text()
    place.write("connectors/says-two/connector.toml", text + '[sandbox]\nprograms = ["no-such-engine"]\n')
    binding(place, "lacking", "says-two")
    place.start()
    place.handler("apply", "--wait")
    place.handler("rebind", "clerk", "ocr", "lacking")
    wait_for(lambda: "no-such-engine" in synced(place, "lacking"), "it is said")
    late = place.handler("apply", "--wait", "--timeout", "3", check=False)
    assert late.returncode == 3
    assert word(place) == "one"
    assert place.condition("binding", "lacking", "Stalled") == {}
    assert not (place.state / "bad.json").exists()


def test_the_old_one_serves_while_the_new_one_fails_its_smoke_cases(place: House) -> None:
    connector(place, "says-two", SAYS.format(word="two"))
    binding(place, "careful", "says-two", SMOKE)
    place.start()
    place.handler("apply", "--wait")
    place.handler("rebind", "clerk", "ocr", "careful")
    wait_for(lambda: "it failed" in synced(place, "careful"), "its smoke case fails")
    assert "smoke case 'invoice as a picture' of ocr/v1" in synced(place, "careful")
    assert "two" not in synced(place, "careful").replace("two-", "")
    assert word(place) == "one"
    connector(place, "says-two", DIES_AT_A_CALL)
    wait_for(lambda: "'unavailable'" in synced(place, "careful"), "it dies at the first call")
    assert word(place) == "one"
    connector(place, "says-two", SAYS.format(word=EXPECTED))
    wait_for(lambda: word(place) == EXPECTED, "it passes")
    assert list((place.run / "p").iterdir()) == []
    wait_for(lambda: "smoke/careful" in {call["agent"] for call in place.calls()}, "its cases are recorded")


def test_without_a_smoke_case_an_answer_to_initialize_is_all_that_is_promised(place: House) -> None:
    connector(place, "says-two", DIES_AT_A_CALL)
    binding(place, "careless", "says-two")
    place.start()
    place.handler("apply", "--wait")
    place.handler("rebind", "clerk", "ocr", "careless")
    place.handler("apply", "--wait")
    assert word(place) == "unavailable"
    wait_for(
        lambda: place.condition("binding", "careless", "Linked").get("reason") == "ProcessVanished",
        "it is said",
    )


def test_a_call_in_flight_ends_well_though_its_instance_is_replaced(place: House) -> None:
    connector(place, "slow", SLOW)
    binding(place, "good", "slow")
    place.start()
    place.handler("apply", "--wait")
    call = subprocess.Popen(
        ["handler", "call", "ocr_extract", "path=invoice.png", "--agent", "clerk"],
        env=place.env, cwd=place.inbox, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: phase(place, "good") == "ready", "the call is in flight")
    (old,) = place.status("binding", "good")["inventory"]
    binding(place, "good", "says-one")
    place.handler("apply", "--wait")
    assert json.loads(call.communicate(timeout=60)[0])["pages"][0]["text"] == "slowly"
    assert word(place) == "one"
    wait_for(lambda: not Path(f"/proc/{old['pid']}").exists(), "the old one is drained and gone")


def test_a_flip_back_and_two_rebinds_in_a_row_end_where_the_file_says(place: House) -> None:
    connector(place, "says-two", SAYS.format(word="two"))
    connector(place, "never", "import time\ntime.sleep(600)\n")
    binding(place, "hangs", "never")
    binding(place, "better", "says-two")
    place.start()
    place.handler("apply", "--wait")
    place.handler("rebind", "clerk", "ocr", "hangs")
    wait_for(lambda: phase(place, "hangs") == "starting", "it is being proven")
    place.handler("rebind", "clerk", "ocr", "good")
    place.handler("apply", check=False)
    wait_for(lambda: place.condition("binding", "hangs", "Synced")["status"] == "True", "nothing waits")
    assert word(place) == "one"
    place.handler("rebind", "clerk", "ocr", "hangs")
    place.handler("rebind", "clerk", "ocr", "better")
    wait_for(lambda: word(place) == "two", "the last one serves")
    assert not (place.state / "bad.json").exists()


def everything(made: House) -> dict[str, tuple[int, int, int]]:
    """Every file and folder of state and run: its number, size and the moment of its last change."""
    found = {}
    for top in (made.state, made.run):
        for path in sorted([top, *top.rglob("*")]):
            seen = path.lstat()
            found[str(path)] = (seen.st_ino, seen.st_size, seen.st_ctime_ns)
    return found


def resyncs(made: House) -> int:
    return int(json.loads(made.handler("daemon", "status", "-o", "json").stdout)["looks"])


def settled(made: House) -> dict[str, tuple[int, int, int]]:
    """Everything, once three looks in a row changed nothing of it."""
    before = everything(made)
    for _ in range(50):
        looks = resyncs(made)
        wait_for(lambda: resyncs(made) >= looks + 3, "three more looks")  # noqa: B023 - called at once
        after = everything(made)
        if after == before:
            return after
        before = after
    raise AssertionError("something is written again and again")


def test_looking_again_and_again_starts_stops_and_writes_nothing(place: House) -> None:
    place.write("handler.toml", 'apiVersion = "handler.config/v1"\n[reconcile]\nscanSeconds = 0.1\n')
    place.start()
    place.handler("apply", "--wait")
    session = json.loads(place.handler("session", "open", "clerk", "-o", "json").stdout)
    place.env = {**place.env, "HANDLER_SERVICES": session["services"]}
    assert "one" in place.handler("call", "ocr_extract", "path=invoice.png").stdout
    wait_for(lambda: len(place.calls()) == 1 and phase(place, "good") == "idle", "it is all over")
    before, processes = settled(place), place.processes()
    looks = resyncs(place)
    wait_for(lambda: resyncs(place) >= looks + 10, "ten scans and more")
    assert everything(place) == before
    assert place.processes() == processes
    for _ in range(3):
        place.handler("apply", "--wait")
    assert everything(place) == before
    assert place.processes() == processes


def test_who_is_resumed_has_what_served_before_until_the_newest_answers(place: House) -> None:
    place.start()
    place.handler("apply", "--wait")
    assert word(place) == "one"
    place.handler("rebind", "clerk", "ocr", "bad")
    place.handler("apply")
    place.handler("suspend", "agent/clerk")
    place.handler("apply")
    refused = place.handler("session", "open", "clerk", check=False)
    assert refused.returncode == 1
    assert "is suspended" in refused.stderr
    place.kill()  # what is put aside outlives a controller
    place.start()
    wait_for(lambda: place.condition("agent", "clerk", "Ready").get("reason") == "Suspended", "it is")
    place.handler("resume", "agent/clerk")
    place.handler("apply")
    assert word(place) == "one"
    assert place.condition("agent", "clerk", "Synced")["reason"] == "LastGoodRetained"
    connector(place, "dies", SAYS.format(word="two"))
    wait_for(lambda: word(place) == "two", "the mended connector serves")
    assert not (place.state / "retained.json").exists()
