"""Reads and sends over HTTP: the tools of http/v1, through the gate, which lets past only what is listed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import addresses
import bodies
from handler_connector import Failure, Unsent, opened, serve

if TYPE_CHECKING:
    from handler_connector import Call

_TIMEOUT_S = 30.0
_MOST_STEPS = 5  # redirects of one call
_REDIRECTS = (301, 302, 303, 307, 308)
_NEVER = ("unlisted", "denied", "address")  # the gate's words for what may not be reached
_OF_A_PERSON = ("authorization", "cookie")  # not taken along to another server
_CODES = {
    **dict.fromkeys((401, 403, 407), "no_access"),
    **dict.fromkeys((404, 410), "not_found"),
    429: "too_many",
}


def _read(method: str) -> Callable[[Mapping[str, Any], Call], dict[str, Any]]:
    def read(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
        """Without an effect: redirects are followed, each held to the same bounds as the first address."""
        ways = addresses.Ways.of(arguments)
        url, headers = addresses.whole(arguments), _headers(arguments)
        until = bodies.Deadline(float(arguments.get("timeout_seconds", _TIMEOUT_S)))
        steps = 0
        while True:
            ways.need(url)
            answer, wire = _sent((method, url), headers, b"", until)
            with answer:
                leads = answer.headers.get("location") if answer.status in _REDIRECTS else None
                follows = arguments.get("follow_redirects", True) and answer.status in _REDIRECTS
                if not follows:
                    return _told(arguments, (method, url), (answer, wire), until)
            steps += 1
            if not leads or steps > _MOST_STEPS:
                raise Failure("redirected", f"{steps} redirects" if leads else "a redirect without an aim")
            there = addresses.led(url, leads)
            if addresses.origin(there) != addresses.origin(url):
                headers = {key: one for key, one in headers.items() if key.lower() not in _OF_A_PERSON}
            url = there

    return read


def _send(method: str) -> Callable[[Mapping[str, Any], Call], dict[str, Any]]:
    def send(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
        """With an effect: sent once, and what comes back is told as it is."""
        ways = addresses.Ways.of(arguments)
        url, headers = addresses.whole(arguments), _headers(arguments)
        try:
            body = arguments.get("body", "").encode()
        except UnicodeEncodeError:
            raise Failure("refused", "half a letter is no text", nothing_happened=True) from None
        ways.need(url)
        if body and not any(key.lower() == "content-type" for key in headers):
            headers["content-type"] = "application/json"
        until = bodies.Deadline(float(arguments.get("timeout_seconds", _TIMEOUT_S)))
        answer, wire = _sent((method, url), headers, body, until)
        with answer:
            return _told(arguments, (method, url), (answer, wire), until)

    return send


def _headers(arguments: Mapping[str, Any]) -> dict[str, str]:
    given = dict(arguments.get("headers", {}))
    addresses.need_plain(given)
    if not any(key.lower() == "user-agent" for key in given):
        given["user-agent"] = os.environ.get("HTTP_USER_AGENT") or "handler-http-fetch"
    return given


def _sent(
    where: tuple[str, str], headers: Mapping[str, str], body: bytes, until: bodies.Deadline
) -> tuple[Any, Any]:
    """The answer, its body still to come, and the socket that it comes by. It is asked for once."""
    wires: list[Any] = []
    try:
        return opened(*where, headers, body, timeout=until.left(), begun=wires.append), wires[0]
    except Unsent as fault:
        if fault.cause in _NEVER:
            raise Failure("refused", f"the gate: {fault.why}", nothing_happened=True) from None
        proven = fault.cause in bodies.NOT_SENT
        raise Failure("unavailable", f"no answer: {fault.why}", nothing_happened=proven) from None
    except TimeoutError:
        raise Failure("unavailable", "no answer in time") from None


def _told(
    arguments: Mapping[str, Any], what: tuple[str, str], came: tuple[Any, Any], until: bodies.Deadline
) -> dict[str, Any]:
    """The answer as the interface has it; a code for a status that is none."""
    (method, url), (answer, wire) = what, came
    status = answer.status
    is_read = method in ("GET", "HEAD")
    stays = not is_read or not arguments.get("follow_redirects", True)
    is_answer = 200 <= status < 300 or (300 <= status < 400 and stays)
    if not is_answer and not arguments.get("any_status"):
        code = "unavailable" if status >= 500 or status < 200 else _CODES.get(status, "rejected")
        raise Failure("redirected" if 300 <= status < 400 else code, f"HTTP {status}")
    named = list(answer.headers.items())[:64]
    headers = {key.lower(): value[:8192] for key, value in named if value.isprintable()}
    told = {"status": status, "url": url, "headers": headers}
    return told | bodies.kept(answer, wire, until, arguments, may_break=not is_read)


TOOLS = {
    **{f"http_{method.lower()}": _read(method) for method in ("GET", "HEAD")},
    **{f"http_{method.lower()}": _send(method) for method in ("POST", "PUT", "PATCH", "DELETE")},
}

if __name__ == "__main__":
    serve(TOOLS)
