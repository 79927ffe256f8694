"""The OpenAI-compatible door on a real socket, asked by the official client; who answers is played."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
import orjson
import pytest
from openai import OpenAI

from reconciler.doors import http, openai_app, openai_serving
from reconciler.doors.openai_app import Door
from reconciler.doors.openai_asked import Asked
from reconciler.doors.openai_far import FarError, Known, Piece
from reconciler.doors.openai_said import Faulted, Said
from reconciler.doors.openai_token import Token
from reconciler.model.outcome import Usage
from reconciler.model.turns import Image, TextDelta, ToolCallDelta, ToolUse, Turn

pytestmark = pytest.mark.slow

_HI: Any = [{"role": "user", "content": "hi"}]


@dataclass
class Player:
    """Answers what a test says, and remembers what it was asked."""

    pieces: list[Piece] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    chains: list[tuple[str, Asked]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)  # set: answers come to their end
    begun: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    absent: bool = False

    async def known(self) -> Known:
        if self.absent:
            raise FarError(Faulted("unavailable", message="no controller answers now"))
        return Known(("tiny", "large"), {"triage": frozenset({"answer"})}, frozenset({"large"}))

    async def turn(self, turn: Turn) -> AsyncGenerator[Piece, None]:
        self.turns.append(turn)
        async for piece in self._played():
            yield piece

    async def chain(self, chain: str, asked: Asked, known: Known) -> AsyncGenerator[Piece, None]:
        self.chains.append((chain, asked))
        async for piece in self._played():
            yield piece

    async def _played(self) -> AsyncGenerator[Piece, None]:
        pieces, hold, left = self.pieces, self.hold, self.left
        self.begun.set()
        try:
            for piece in pieces[:-1]:
                yield piece
            while not hold.is_set():
                await asyncio.sleep(0.01)
            yield pieces[-1]
        finally:
            left.set()


@dataclass
class Stand:
    url: str
    token: str
    door: Door
    player: Player
    tokens: Token
    http: httpx2.Client

    def client(self, **more: Any) -> OpenAI:
        usual = {"base_url": self.url, "api_key": self.token, "max_retries": 0, "timeout": 60}
        return OpenAI(**(usual | more))

    def plays(self, *pieces: Piece, held: bool = False) -> Player:
        found = self.player
        found.pieces, found.absent = list(pieces), False
        # Not the events of before: whoever then asked may leave late.
        found.begun, found.left, found.hold = (threading.Event() for _ in range(3))
        found.turns.clear()
        found.chains.clear()
        if not held:
            found.hold.set()
        return found

    def post(self, **more: Any) -> httpx2.Response:
        found = {"headers": {"authorization": f"Bearer {self.token}"}, "timeout": 60, **more}
        return self.http.post(f"{self.url}/chat/completions", **found)

    def line(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").removesuffix("/v1").split(":")
        return socket.create_connection((host, int(port)))

    def head(self, body: bytes) -> bytes:
        host = self.url.removeprefix("http://").removesuffix("/v1")
        return (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\n"
            f"authorization: Bearer {self.token}\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    tokens = Token(tmp_path_factory.mktemp("state"), "clerk")
    player = Player()
    door = Door(player, tokens.allows)
    listener = openai_serving.listening("127.0.0.1:0")
    app = http.OwnHost(door.application(), http.own_hosts(listener))
    loop = asyncio.new_event_loop()
    server = openai_serving.server(app)

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(server.serve(sockets=[listener]))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    host, port = listener.getsockname()[:2]
    with httpx2.Client(verify=False) as plain:  # one, and no store of certificates: both cost a client most
        try:
            yield Stand(f"http://{host}:{port}/v1", tokens.make(), door, player, tokens, plain)
        finally:
            loop.call_soon_threadsafe(server.leave)
            thread.join(60)
            listener.close()


@pytest.fixture(autouse=True)
def _present(stand: Stand) -> None:
    """Whichever test went before."""
    stand.player.absent = False


def _until(held: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not held():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_official_client_reads_a_whole_answer(stand: Stand) -> None:
    player = stand.plays(Said("hello you", usage=Usage(3, 2)))
    with stand.client() as client:
        said = client.chat.completions.create(model="large", messages=_HI, temperature=0.5, max_tokens=7)
    assert said.choices[0].message.content == "hello you" and said.choices[0].finish_reason == "stop"
    assert said.usage is not None and said.usage.total_tokens == 5
    assert said.model == "large" and said.id.startswith("chatcmpl-") and said.created > 1_700_000_000
    assert player.turns[0].temperature == 0.5 and player.turns[0].max_tokens == 7


def test_the_official_client_streams_each_piece_as_it_comes(stand: Stand) -> None:
    player = stand.plays(TextDelta("hel"), TextDelta("lo"), Said("hello", usage=Usage(3, 2)), held=True)
    with stand.client() as client:
        stream = client.chat.completions.create(
            model="tiny", messages=_HI, stream=True, stream_options={"include_usage": True}
        )
        words, usage, reason = "", None, None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                words += choice.delta.content or ""
                reason = choice.finish_reason or reason
            if words == "hello":
                player.hold.set()  # the end comes only once its pieces were read: they were not kept back
    assert (words, reason) == ("hello", "stop")
    assert usage is not None and usage.prompt_tokens == 3


def test_the_official_client_s_own_stream_helper_puts_it_together(stand: Stand) -> None:
    uses = (ToolUse("c1", "look", '{"at": 1}'),)
    stand.plays(
        TextDelta("well"), ToolCallDelta(0, "c1", "look", '{"at"'), ToolCallDelta(0, arguments=": 1}"),
        Said("well", "tools", uses),
    )  # fmt: skip
    tool: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    with (
        stand.client() as client,
        client.chat.completions.stream(model="tiny", messages=_HI, tools=[tool]) as told,
    ):
        said = told.get_final_completion()
    message = said.choices[0].message
    assert message.content == "well" and message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"at": 1}'
    assert said.choices[0].finish_reason == "tool_calls"
    assert stand.player.turns[0].tools[0].name == "look"


def test_stops_cut_whole_answers_and_streams_alike(stand: Stand) -> None:
    with stand.client() as client:
        stand.plays(Said("one END two", "length"))
        whole = client.chat.completions.create(model="tiny", messages=_HI, stop="END")
        stand.plays(TextDelta("one E"), TextDelta("ND two"), Said("one END two", "length"))
        stream = client.chat.completions.create(model="tiny", messages=_HI, stop=["END", "zzz"], stream=True)
        chunks = [one.choices[0] for one in stream]
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("one ", "stop")
    assert "".join(one.delta.content or "" for one in chunks) == "one "
    assert chunks[-1].finish_reason == "stop"


def test_models_and_chains_are_listed_and_found_by_name(stand: Stand) -> None:
    with stand.client() as client:
        assert [one.id for one in client.models.list()] == ["tiny", "large", "chain:triage"]
        assert client.models.retrieve("chain:triage").owned_by == "handler"
        with pytest.raises(openai.NotFoundError) as told:
            client.models.retrieve("gpt-99")
    assert told.value.code == "model_not_found"
    few = stand.http.get(f"{stand.url}/models?limit=1", headers={"x-api-key": stand.token})
    assert [one["id"] for one in few.json()["data"]] == ["tiny"]


def test_a_chain_is_a_model_or_an_address(stand: Stand) -> None:
    player = stand.plays(Said("done"))
    with stand.client() as client:
        said = client.chat.completions.create(model="chain:triage", messages=_HI, temperature=0.2)
    at = stand.url.replace("/v1", "/openai/triage/v1")
    with stand.client(base_url=at) as client:
        client.chat.completions.create(model="large", messages=_HI)
    assert said.model == "chain:triage"
    assert [name for name, _ in player.chains] == ["triage", "triage"]
    assert [asked.turn.model for _, asked in player.chains] == ["", "large"]
    assert player.chains[0][1].turn.temperature == 0.2


@pytest.mark.parametrize("model", ["gpt-99", "chain:none"])
def test_a_model_that_is_not_there_is_404(stand: Stand, model: str) -> None:
    stand.plays(Said("never"))
    with stand.client() as client, pytest.raises(openai.NotFoundError) as told:
        client.chat.completions.create(model=model, messages=_HI)
    assert told.value.code == ("model_not_found" if model == "gpt-99" else "chain_not_found")
    assert not stand.player.begun.is_set()


def test_c46_pictures_without_eyes_are_an_error_of_their_own(stand: Stand) -> None:
    stand.plays(Faulted("no_vision_model"))
    shown: Any = [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}]  # fmt: skip
    with stand.client() as client:
        with pytest.raises(openai.BadRequestError) as told:
            client.chat.completions.create(model="tiny", messages=shown)
        assert told.value.code == "no_vision_model"
        assert isinstance(stand.player.turns[0].messages[0].parts[0], Image)
        stand.plays(Said("a lake"))
        assert client.chat.completions.create(model="default", messages=shown).model == "large"
    assert stand.player.turns[0].model == "large"


def test_nothing_is_tried_again_by_a_client_that_would(stand: Stand) -> None:
    player = stand.plays(Faulted("unavailable", "a vendor's words"))
    with stand.client(max_retries=2) as client, pytest.raises(openai.InternalServerError) as told:
        client.chat.completions.create(model="tiny", messages=_HI)
    assert told.value.status_code == 503 and "vendor's" not in str(told.value)
    assert len(player.turns) == 1


def test_what_fails_before_its_first_word_is_a_plain_error_also_of_a_stream(stand: Stand) -> None:
    stand.plays(Faulted("rate_limit", retry_after_s=3.0))
    with stand.client() as client, pytest.raises(openai.RateLimitError) as told:
        client.chat.completions.create(model="tiny", messages=_HI, stream=True)
    assert told.value.response.headers["retry-after"] == "3"


def test_what_fails_later_is_a_frame_of_the_stream(stand: Stand) -> None:
    stand.plays(TextDelta("hel"), Faulted("unavailable"))
    words = ""
    with stand.client() as client:
        stream = client.chat.completions.create(model="tiny", messages=_HI, stream=True)
        with pytest.raises(openai.APIError) as told:
            for chunk in stream:
                words += chunk.choices[0].delta.content or ""
    assert words == "hel" and told.value.code == "unavailable"
    raw = stand.post(json={"model": "tiny", "messages": _HI, "stream": True})
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert "[DONE]" not in raw.text and '"error"' in raw.text


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_ends_what_it_asked_for(stand: Stand, streams: bool) -> None:
    player = stand.plays(TextDelta("hel"), Said("hello"), held=True)
    asked = {"model": "tiny", "messages": _HI, "stream": streams}
    body = orjson.dumps(asked)
    with stand.line() as line:
        line.sendall(stand.head(body) + body)
        assert player.begun.wait(30) and not player.left.is_set()
    assert player.left.wait(30)
    _until(lambda: stand.door.busy == 0)


def test_only_the_token_lets_in_and_the_newest_one_alone(stand: Stand) -> None:
    stand.plays(Said("hi"))
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": stand.token}, {"x-api-key": ""}):
        found = stand.post(json={"model": "tiny", "messages": _HI}, headers=headers)
        assert (found.status_code, found.json()["error"]["type"]) == (401, "auth_error")
        assert stand.http.get(f"{stand.url}/models", headers=headers).status_code == 401
    assert not stand.player.begun.is_set()
    old, stand.token = stand.token, stand.tokens.make()
    with stand.client(api_key=old) as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    with stand.client() as client:
        assert client.models.list().data


def test_errors_are_json_for_every_address(stand: Stand) -> None:
    at = stand.url.removesuffix("/v1")
    for method, path, status in (
        ("GET", "/", 404), ("POST", "/v1/completions", 404), ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/fim/completions", 404),
    ):  # fmt: skip
        found = stand.http.request(method, at + path, headers={"x-api-key": stand.token})
        assert (found.status_code, found.headers["content-type"]) == (status, "application/json")
        assert found.json()["error"]["type"] == "invalid_request_error"
    wrong = stand.http.get(f"{stand.url}/models", headers={"x-api-key": stand.token, "host": "evil.example"})
    assert wrong.status_code == 421


def test_bodies_have_bounds(stand: Stand) -> None:
    stand.plays(Said("hi"))
    large = stand.post(content=b'{"messages":"' + b"x" * (17 * 2**20) + b'"}')
    assert (large.status_code, large.json()["error"]["code"]) == (413, "too_large")
    assert stand.post(content=b"{").json()["error"]["code"] == "invalid_input"
    assert stand.door.busy == 0


def test_so_many_answers_at_once_and_no_more(stand: Stand) -> None:
    player = stand.plays(Said("hi"), held=True)
    found: list[int] = []

    def ask() -> None:
        found.append(stand.post(json={"model": "tiny", "messages": _HI}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for one in threads:
        one.start()
    _until(lambda: stand.door.busy == 16)
    over = stand.post(json={"model": "tiny", "messages": _HI})
    assert (over.status_code, over.json()["error"]["code"]) == (429, "limit")
    player.hold.set()
    for one in threads:
        one.join(60)
    assert found == [200] * 16


def test_a_stream_without_a_word_shows_that_it_lives(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_app, "_QUIET_S", 0.05)
    player = stand.plays(Said("hello"), held=True)
    threading.Timer(0.5, player.hold.set).start()
    raw = stand.post(json={"messages": _HI, "stream": True})
    assert ": waiting" in raw.text and '"role":"assistant"' in raw.text.split("\n\n")[0]
    assert raw.text.endswith("data: [DONE]\n\n")


def test_a_client_that_takes_nothing_is_dropped(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_app, "_SEND_S", 0.3)
    player = stand.plays(*([TextDelta("x" * 65_536)] * 1000), Said("hello"))
    body = b'{"messages":[{"role":"user","content":"hi"}],"stream":true}'
    with stand.line() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(stand.head(body) + body)
        assert player.begun.wait(30) and player.left.wait(30)
        _until(lambda: stand.door.busy == 0)


def test_a_body_that_does_not_come_is_not_waited_for(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_app, "_BODY_S", 0.2)
    with stand.line() as line:
        line.sendall(stand.head(b"x" * 100))
        line.settimeout(30)
        assert line.recv(65_536).startswith(b"HTTP/1.1 408 ")
    _until(lambda: stand.door.busy == 0)


def test_a_session_keeps_what_was_said_for_whoever_names_it(stand: Stand) -> None:
    player = stand.plays(Said("ho"))
    begun = stand.post(
        json={"messages": [{"role": "system", "content": "brief"}, *_HI]},
        headers={"x-api-key": stand.token, "x-session-id": "new"},
    )
    name = begun.headers["x-session-id"]
    assert name not in ("", "new")
    headers = {"x-api-key": stand.token, "x-session-id": name}
    for number in range(2):
        more = stand.post(
            json={"messages": [{"role": "user", "content": f"more {number}"}], "stream": True},
            headers=headers,
        )
        assert more.headers["x-session-id"] == name
    roles = [[one.role for one in turn.messages] for turn in player.turns]
    assert roles == [["system", "user"], ["user", "assistant", "user"], ["user", "assistant"] * 2 + ["user"]]
    gone = stand.post(json={"messages": _HI}, headers={"x-api-key": stand.token, "x-session-id": "guess"})
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "session_not_found")
    assert "x-session-id" not in stand.post(json={"messages": _HI}).headers


def test_without_a_controller_it_says_so(stand: Stand) -> None:
    stand.plays(Said("hi")).absent = True
    found = stand.post(json={"model": "tiny", "messages": _HI})
    assert (found.status_code, found.json()["error"]["message"]) == (503, "no controller answers now")


def test_a_door_that_ends_says_so_to_whoever_still_listens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "uvicorn.error")
    player = Player([TextDelta("hel"), Said("hello")])
    listener = openai_serving.listening("127.0.0.1:0")
    server = openai_serving.server(Door(player, lambda token: True).application(), grace_s=0)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    asked = {"messages": _HI, "stream": True}
    host, port = listener.getsockname()[:2]
    heard = b""
    url = f"http://{host}:{port}/v1/chat/completions"
    with (
        httpx2.Client(verify=False, headers={"x-api-key": "any"}, timeout=60) as client,
        client.stream("POST", url, json=asked) as told,
    ):
        for piece in told.iter_raw():
            heard += piece
            server.should_exit = b"hel" in heard
    thread.join(60)
    listener.close()
    assert player.left.is_set() and b'"message":"the door ends"' in heard and b"[DONE]" not in heard


def test_the_file_of_a_token_has_its_digest_alone_and_is_its_owner_s(tmp_path: Path) -> None:
    token = Token(tmp_path / "state", "clerk")
    assert not token.exists() and not token.allows("") and not token.revoke()
    made = token.make()
    assert made not in token.path.read_text() and token.allows(made) and not token.allows(made + "x")
    assert [one.stat().st_mode & 0o777 for one in (token.path, token.path.parent)] == [0o600, 0o700]
    token.path.chmod(0o666)
    assert not token.allows(made)
    token.path.chmod(0o600)
    assert token.revoke() and not token.allows(made)
    with contextlib.suppress(FileNotFoundError):
        token.path.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_text("sha256:0")
    assert not token.exists()
