"""The OpenAI-compatible door itself: who may come in, how much at once, an answer whole or as it comes.

ASGI over whoever answers (``openai_far``). Every request but one for the way in itself needs the token. A
client that leaves ends what it asked for. Errors are JSON and say to clients that asking again is not safe,
since a run may have had effects; an error that comes after the first word is a frame of the stream.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from reconciler.doors import openai_asked, openai_kept, openai_said
from reconciler.doors.openai_asked import Asked, BadRequest
from reconciler.doors.openai_far import FarError, Known, Piece
from reconciler.doors.openai_kept import Conversation, Conversations
from reconciler.doors.openai_said import Faulted, Head, Said, Stream
from reconciler.doors.openai_stops import Cut
from reconciler.model.turns import Message, Text, TextDelta, Turn

_LOG = logging.getLogger("handler.openai")
_MOST_BYTES = 16 * 2**20  # of one request
_BODY_S = 30.0  # for a request's body to come in
_AT_ONCE = 16  # answers
_SEND_S = 30.0  # for one piece to be taken
_QUIET_S = 10.0  # until a stream that has no word yet begins all the same; and between two signs of life
_AHEAD = 256  # pieces that wait for a slow client
_LAST_S = 1.0  # for the last word when the door ends
_SESSION = "x-session-id"
_ENDS = Faulted("unavailable", message="the door ends")


class Answering(Protocol):
    """Who answers."""

    async def known(self) -> Known: ...

    def turn(self, turn: Turn) -> AsyncGenerator[Piece, None]: ...

    def chain(self, chain: str, asked: Asked, known: Known) -> AsyncGenerator[Piece, None]: ...


@dataclass(frozen=True, slots=True)
class Way:
    """How a request goes: what it is, where it leads, the conversation that it belongs to."""

    asked: Asked
    head: Head
    pieces: Callable[[], AsyncGenerator[Piece, None]]
    kept: Conversation | None = None


class Door:
    """One door. ``allowed`` says whether a token is the right one."""

    def __init__(self, far: Answering, allowed: Callable[[str], bool]) -> None:
        self._far, self._allowed = far, allowed
        self.conversations = Conversations(lambda: secrets.token_urlsafe(18))
        self.busy = 0

    def application(self) -> Starlette:
        """The pages."""
        routes = []
        for prefix in ("/v1", "/openai/v1", "/openai/{chain}/v1"):
            routes += [
                Route(f"{prefix}/chat/completions", self.chat, methods=["POST"]),
                Route(f"{prefix}/models", self.models, methods=["GET"]),
                Route(f"{prefix}/models/{{model:path}}", self.model, methods=["GET"]),
            ]
        handlers: dict[Any, Any] = {HTTPException: _no_page, Exception: _broke}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def models(self, request: Request) -> Response:
        """What can be asked; ``?limit=`` as many."""
        try:
            self._let_in(request)
            listed = (await self._far.known()).listed()
        except FarError as error:
            return refused(error.fault)
        limit = request.query_params.get("limit", "")
        return JSONResponse(openai_said.models(listed[: int(limit)] if limit.isdecimal() else listed))

    async def model(self, request: Request) -> Response:
        """One of them."""
        try:
            self._let_in(request)
            listed = (await self._far.known()).listed()
        except FarError as error:
            return refused(error.fault)
        found = next((one for one in listed if one.id == request.path_params["model"]), None)
        return (
            refused(Faulted("model_not_found", param="model"))
            if found is None
            else JSONResponse(openai_said.model(found))
        )

    async def chat(self, request: Request) -> Response:
        """One answer."""
        try:
            self._let_in(request)
            if self.busy >= _AT_ONCE:
                raise FarError(Faulted("limit", retry_after_s=1))
        except FarError as error:
            return refused(error.fault)
        self.busy += 1
        answer: _Answer | None = None
        try:
            asked = openai_asked.read(await _body(request))
            if "chain" in request.path_params:
                asked = replace(asked, chain=request.path_params["chain"])
            way = await self._way(asked, request.headers.get(_SESSION, ""))
            answer = _Answer(self, way)
        except BadRequest as bad:
            return refused(Faulted(bad.code or "invalid_input", message=bad.message, param=bad.param))
        except FarError as error:
            return refused(error.fault)
        finally:
            if answer is None:
                self.busy -= 1
        return answer

    def _let_in(self, request: Request) -> None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")
        if not given or not self._allowed(given):
            words = "a token is needed: 'handler openai token' makes one"
            raise FarError(Faulted("invalid_api_key", message=words))

    async def _way(self, asked: Asked, session: str) -> Way:
        known = await self._far.known()
        kept = self._conversation(session)
        if kept is not None:
            messages = openai_kept.joined(kept, asked.turn.messages)
            asked = replace(asked, turn=replace(asked.turn, messages=messages))
        named = asked.turn.model
        head = Head(
            f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), named or known.first(asked.turn.messages)
        )
        if not asked.chain:
            if named and named not in known.models:
                raise FarError(Faulted("model_not_found", param="model"))
            turn = replace(asked.turn, model=head.model)
            return Way(asked, head, lambda: self._far.turn(turn), kept)
        if asked.chain not in known.chains:
            raise FarError(Faulted("chain_not_found"))
        if asked.turn.schema is not None:
            raise BadRequest("a chain says itself what it answers: no 'response_format'", "response_format")
        head = replace(head, model=f"{openai_asked.CHAIN}{asked.chain}")
        return Way(asked, head, lambda: self._far.chain(asked.chain, asked, known), kept)

    def _conversation(self, name: str) -> Conversation | None:
        if not name:
            return None
        found = self.conversations.begin() if name == "new" else self.conversations.find(name)
        if found is None:
            words = "there is no such session (any more): 'X-Session-ID: new' begins one"
            raise FarError(Faulted("session_not_found", message=words))
        if found.busy:
            words = "the session answers another request: one at a time"
            raise FarError(Faulted("session_busy", message=words))
        return found


def refused(fault: Faulted, more: dict[str, str] | None = None) -> Response:
    """An error as a whole answer; the log has what the client is not told."""
    if fault.detail:
        _LOG.warning("%s: %s", fault.code, fault.detail)
    headers = fault.headers | ({"www-authenticate": "Bearer"} if fault.status == 401 else {})
    return JSONResponse(fault.body(), fault.status, headers | (more or {}))


async def _no_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    code = "method_not_allowed" if status == 405 else "not_found"
    return refused(Faulted(code, message=f"there is no {request.method} {request.url.path} here"))


async def _broke(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s broke", request.method, request.url.path, exc_info=error)
    return refused(
        Faulted("internal_error", message="the door met a fault of its own; its log has the details")
    )


async def _body(request: Request) -> bytes:
    """The body; raises ``FarError`` where it is too large, comes too slowly, or does not come."""
    found = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for piece in request.stream():
                found += piece
                if len(found) > _MOST_BYTES:
                    words = f"a request has {_MOST_BYTES // 2**20} MiB at most"
                    raise FarError(Faulted("too_large", message=words))
    except (TimeoutError, ClientDisconnect):
        raise FarError(Faulted("too_slow", message="the request did not come in whole in time")) from None
    return bytes(found)


class _Answer(Response):
    """An answer that is made while it is sent."""

    def __init__(self, door: Door, way: Way) -> None:
        super().__init__()
        self._door, self._way = door, way
        self._more = {"x-request-id": way.head.id, "cache-control": "no-store"}
        if way.kept is not None:
            self._more[_SESSION] = way.kept.id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        way, door = self._way, self._door
        if way.kept is not None:
            way.kept.busy = True
        pieces: asyncio.Queue[Piece] = asyncio.Queue(_AHEAD)
        pump = asyncio.ensure_future(_pumped(way.pieces, pieces))
        streams = way.asked.turn.stream
        work = asyncio.ensure_future((self._stream if streams else self._whole)(scope, send, pieces))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        except TimeoutError:
            _LOG.info("a client took nothing for %g s", _SEND_S)
            raise
        except asyncio.CancelledError:  # the door ends: say so, where it can still be heard
            pump.cancel()
            while not pieces.empty():
                pieces.get_nowait()
            pieces.put_nowait(_ENDS)
            await asyncio.wait((work,), timeout=_LAST_S)
            raise
        finally:
            door.busy -= 1
            if way.kept is not None:
                way.kept.busy = False
            for one in (work, gone, pump):
                one.cancel()
            await asyncio.gather(work, gone, pump, return_exceptions=True)

    async def _whole(self, scope: Scope, send: Send, pieces: asyncio.Queue[Piece]) -> None:
        while not isinstance(piece := await pieces.get(), Said | Faulted):
            pass
        await _sent(self._ended(piece)(scope, _nothing, send))

    def _ended(self, end: Said | Faulted) -> Response:
        if isinstance(end, Faulted):
            return refused(end, self._more)
        cut = Cut(self._way.asked.turn.stop)
        text = cut.feed(end.text) + cut.flush()
        said = replace(end, text=text, finish="stop" if cut.ended else end.finish)
        self._keep(said)
        head = replace(self._way.head, mark=end.mark)
        return JSONResponse(openai_said.whole(head, said), headers=self._more)

    async def _stream(self, scope: Scope, send: Send, pieces: asyncio.Queue[Piece]) -> None:
        stream = Stream(self._way.head, with_usage=self._way.asked.with_usage)
        first = await _next(pieces)
        if isinstance(first, Faulted):
            await _sent(self._ended(first)(scope, _nothing, send))
            return
        headers = {"content-type": "text/event-stream; charset=utf-8", **self._more}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await _sent(send({"type": "http.response.start", "status": 200, "headers": raw}))
        await _write(send, stream.begin())
        cut = Cut(self._way.asked.turn.stop)
        piece: Piece | None = first
        shown = ""
        while not isinstance(piece, Said | Faulted):
            if isinstance(piece, TextDelta):
                piece = TextDelta(cut.feed(piece.text))
                shown += piece.text
            await _write(send, openai_said.WAITING if piece is None else stream.piece(piece))
            piece = await _next(pieces)
        await self._last(send, stream, piece, (cut, shown))

    async def _last(self, send: Send, stream: Stream, end: Said | Faulted, shown: tuple[Cut, str]) -> None:
        if isinstance(end, Faulted):
            _LOG.warning("%s: %s", end.code, end.detail)
            await _write(send, openai_said.frame(end.body()), more=False)
            return
        cut, text = shown
        rest = cut.flush()
        said = replace(end, text=text + rest, finish="stop" if cut.ended else end.finish)
        self._keep(said)
        refusal = stream.refusal(end.refusal) if end.refusal else b""
        await _write(send, stream.piece(TextDelta(rest)) + refusal + stream.end(said), more=False)

    def _keep(self, said: Said) -> None:
        way = self._way
        if way.kept is None:
            return
        text = (Text(said.text),) if said.text else ()
        asked = way.asked.turn.messages
        told = sum(one.role in ("system", "developer") for one in asked)
        new = asked[told + len(way.kept.messages) :]
        self._door.conversations.keep(way.kept, new, Message("assistant", (*text, *said.tools)))


async def _pumped(begin: Callable[[], AsyncGenerator[Piece, None]], pieces: asyncio.Queue[Piece]) -> None:
    """Put the pieces where they are taken from; an answer that ends without an end is one that broke off."""
    try:
        async with aclosing(begin()) as coming:
            async for piece in coming:
                await pieces.put(piece)
                if isinstance(piece, Said | Faulted):
                    return
    except Exception:  # noqa: BLE001 - told to the client, and the door lives on
        _LOG.exception("an answer broke")
    await pieces.put(
        Faulted("internal_error", message="the door met a fault of its own; its log has the details")
    )


async def _next(pieces: asyncio.Queue[Piece]) -> Piece | None:
    """The next piece; None where none comes for a while."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_QUIET_S):
            return await pieces.get()
    return None


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> Any:
    return {"type": "http.disconnect"}


async def _write(send: Send, body: bytes, *, more: bool = True) -> None:
    if body or not more:
        await _sent(send({"type": "http.response.body", "body": body, "more_body": more}))


async def _sent(sending: Any) -> None:
    """Wait until it is taken; raises TimeoutError for a client that does not read."""
    async with asyncio.timeout(_SEND_S):
        await sending
