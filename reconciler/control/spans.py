"""Calls as spans of OpenTelemetry: records in, one OTLP/HTTP request in JSON out. Pure: ids are handed in.

The span of a call is ``tools/call TOOL``, of kind server, a child of the ``traceparent`` that the request
named in its ``_meta`` (W3C trace context); a parent that is not sampled has no children. Its attributes are
those of the record: who, what, how long, how large, how it ended (``error.type``: the code). Never an
argument.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from reconciler.model.calls import CallRecord

_PARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_SERVER, _ERROR = 2, 2  # of SpanKind, of StatusCode
_NO_ERRORS = ("ok", "cancelled")

Hexes = Callable[[int], str]  # so many random bytes as hexadecimal digits


def request(records: Iterable[CallRecord], hexes: Hexes, version: str) -> bytes | None:
    """The body of ``POST /v1/traces`` for these calls; None when none of them is to be told."""
    spans = [span for record in records if (span := _span(record, hexes)) is not None]
    if not spans:
        return None
    who = {"service.name": "handler", "service.version": version}
    scope = {"scope": {"name": "handler.router", "version": version}, "spans": spans}
    return orjson.dumps({"resourceSpans": [{"resource": {"attributes": _pairs(who)}, "scopeSpans": [scope]}]})


def _span(record: CallRecord, hexes: Hexes) -> dict[str, Any] | None:
    parent = _PARENT.fullmatch(record.trace)
    if parent is not None and not int(parent[3], 16) & 1:
        return None
    well = record.code in _NO_ERRORS
    ended = round(record.at * 1e6) * 1000  # a clock's float has no more than microseconds
    return {
        "traceId": parent[1] if parent else hexes(16),
        "spanId": hexes(8),
        **({"parentSpanId": parent[2]} if parent else {}),
        "name": f"tools/call {record.tool}",
        "kind": _SERVER,
        "startTimeUnixNano": str(ended - round(record.ms * 1e3) * 1000),
        "endTimeUnixNano": str(ended),
        "attributes": _pairs(_told(record) | ({} if well else {"error.type": record.code})),
        "status": {} if well else {"code": _ERROR},
    }


def _told(record: CallRecord) -> dict[str, str | int]:
    return {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": record.tool,
        "mcp.session.id": record.session,
        "handler.call": record.call,
        "handler.agent": record.agent,
        "handler.interface": record.interface,
        "handler.binding": record.binding,
        "handler.instance": record.instance,
        "handler.code": record.code,
        "handler.in_bytes": record.in_bytes,
        "handler.out_bytes": record.out_bytes,
    }


def _pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(one)} if isinstance(one, int) else {"stringValue": one}}
        for key, one in values.items()
    ]
