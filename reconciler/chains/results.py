"""What a model reads of a tool's result: its text, or, where that is too long, what it would have been.

The room is what the window has left for the whole history, not for the last answer alone; a chain without a
``token_limit`` has a fixed one.
"""

import hashlib
import json

from reconciler.chains import window
from reconciler.chains.history import History
from reconciler.chains.state import USUAL_RESULT_BYTES, State

_MARGIN = 500  # tokens that the next answer needs at least
_BYTES_A_TOKEN = 3
_SMALLEST_WITH_PREVIEW = 512
_PREVIEW = 4096


def error(message: str) -> str:
    """A result that says what went wrong."""
    return json.dumps({"error": message}, ensure_ascii=False, separators=(",", ":"))


def budget(state: State, history: History) -> int:
    """How many bytes the next result may have."""
    limit = window.limit_tokens(state.chain.token_limit, state.settings.context_length)
    if limit is None:
        return USUAL_RESULT_BYTES
    used = sum(state.laws.tokens(one.content) for one in history.messages)
    return max(0, limit - used - _MARGIN) * _BYTES_A_TOKEN


def capped(content: str, tool: str, most_bytes: int) -> str:
    """The content where it fits, else an object that tells its size and digest, and shows its head."""
    raw = content.encode("utf-8", "replace")
    if len(raw) <= most_bytes:
        return content
    told: dict[str, object] = {
        "error": "tool_result_too_large",
        "tool": tool,
        "original_bytes": len(raw),
        "max_bytes": most_bytes,
        "truncated": True,
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    if most_bytes > _SMALLEST_WITH_PREVIEW:
        head = raw[: min(_PREVIEW, most_bytes // 2)]
        told |= {"preview": head.decode("utf-8", "ignore"), "preview_kind": "head"}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))
