"""A chat history as templates see it: Go's names for fields, its JSON names for ``toJson``.

``.Messages``, ``.Model``, ``.InputTokens``, ``.OutputTokens``; of a message ``.ID .Role .Content .Images
.Thinking .ToolCallID .CallTools .Timestamp .RequestID .ChainRef``; of a call ``.ID .Type .Function.Name
.Function.Arguments .ProviderMeta``; of an image ``.Data .MimeType``. What a message lacks is empty.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from reconciler.templates.values import Record

_FIELDS = {
    "ID": "id",
    "Role": "role",
    "Content": "content",
    "Images": "images",
    "Thinking": "thinking",
    "ToolCallID": "tool_call_id",
    "CallTools": "callTools",
    "Timestamp": "timestamp",
    "RequestID": "requestId",
    "ChainRef": "chainRef",
}
_NO_TIME = datetime(1, 1, 1, tzinfo=UTC)


def history(chat: Mapping[str, object]) -> Record:
    """The record of a history from its JSON form (``messages``, ``model``, ``inputTokens``, …)."""
    fields = {
        "Messages": [_message(message) for message in _rows(chat.get("messages"))],
        "Model": chat.get("model", ""),
        "InputTokens": chat.get("inputTokens", 0),
        "OutputTokens": chat.get("outputTokens", 0),
    }
    return Record(fields, chat)


def _rows(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _message(message: Mapping[str, object]) -> Record:
    fields: dict[str, object] = {name: message.get(key, "") for name, key in _FIELDS.items()}
    fields["Images"] = [_image(image) for image in _rows(message.get("images"))]
    fields["CallTools"] = [_call(call) for call in _rows(message.get("callTools"))]
    fields["Timestamp"] = _moment(message.get("timestamp"))
    return Record(fields, message)


def _moment(text: object) -> datetime:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else _NO_TIME
    except ValueError:
        return _NO_TIME


def _image(image: Mapping[str, object]) -> Record:
    return Record({"Data": image.get("data", ""), "MimeType": image.get("mime_type", "")}, image)


def _call(call: Mapping[str, object]) -> Record:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else {}
    inner = Record({"Name": named.get("name", ""), "Arguments": named.get("arguments", "")}, named)
    fields = {
        "ID": call.get("id", ""),
        "Type": call.get("type", ""),
        "Function": inner,
        "ProviderMeta": call.get("provider_meta") or {},
    }
    return Record(fields, call)
