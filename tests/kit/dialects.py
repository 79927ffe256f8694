"""Profiles for tests of drivers: small ones, each with the facts that its tests are about, and no more."""

from typing import Any

import tomli

from reconciler.model.dialect import Profile

_HEAD = """
apiVersion = "handler.dialect-profile/v1"
[profile]
id = "{id}"
revision = 1
dialect = "{dialect}"
provider = "a vendor"
models = ["m-1"]
driver = "{driver}@1"
kind = "{kind}"
[auth]
scheme = "bearer"
secret = "api_key"
[transport]
base = "{base}"
requestIdHeader = "x-request-id"
maxResponseBytes = 1000000
[echo]
model = "{echo}"
[rateLimit]
resetFormat = "go-duration"
headers = {{ requestsRemaining = "x-left", requestsReset = "x-reset", retryAfter = "retry-after" }}
[[error]]
status = 400
when = {{ "error.code" = "moderation_blocked" }}
code = "refused"
effect = "none"
[[error]]
status = 400
code = "invalid_input"
effect = "none"
[[error]]
status = 429
effect = "none"
retry = "retry-after"
[[error]]
status = 200
when = {{ "error.type" = "overloaded_error" }}
retry = "backoff"
"""

_CHAT = """
[[operation]]
name = "complete"
method = "POST"
path = "/chat/completions"
effect = "none"
result = "openai.chat.completion@1"
required = ["model", "messages"]
rejected = ["user"]
[operation.field]
model = { type = "string" }
messages = { type = "array", roles = ["developer", "system", "user", "assistant", "tool"] }
max_completion_tokens = { type = "integer" }
temperature = { type = "number" }
stop = { type = "array" }
tools = { type = "array" }
tool_choice = { type = "string" }
response_format = { type = "object", types = ["json_schema"] }
reasoning_effort = { type = "string", enum = ["none", "low", "high"] }
[operation.stream]
meaning = "token-deltas"
ask = { stream = true, "stream_options.include_usage" = true }
events = { chunk = "text-delta" }
end = "[DONE]"
[[media.in]]
type = "image/png"
via = "data-url"
[[media.in]]
type = "audio/wav"
via = "base64"
"""

_PLAIN_CHAT = """
[[operation]]
name = "complete"
method = "POST"
path = "/chat/completions"
effect = "none"
result = "openai.chat.completion@1"
required = ["model", "messages"]
[operation.field]
model = { type = "string" }
messages = { type = "array", roles = ["system", "user", "assistant", "tool"] }
max_tokens = { type = "integer" }
tools = { type = "array" }
"""

_MESSAGES = """
[[operation]]
name = "create"
method = "POST"
path = "/messages"
effect = "none"
result = "anthropic.message@1"
required = ["model", "messages", "max_tokens"]
rejected = ["temperature"]
[operation.field]
model = { type = "string" }
messages = { type = "array", roles = ["user", "assistant"] }
max_tokens = { type = "integer" }
system = { type = "string" }
stop_sequences = { type = "array" }
tools = { type = "array" }
tool_choice = { type = "object" }
thinking = { type = "object", types = ["disabled"] }
output_config = { type = "object", keys = ["format", "effort"] }
[operation.stream]
meaning = "token-deltas"
ask = { stream = true }
events = { content_block_delta = "text-delta" }
end = "message_stop"
[[operation]]
name = "count-tokens"
method = "POST"
path = "/messages/count_tokens"
effect = "none"
result = "anthropic.token-count@1"
required = ["model", "messages"]
[operation.field]
model = { type = "string" }
messages = { type = "array" }
[[media.in]]
type = "image/png"
via = "base64"
[limits]
maxOutputTokens = 4096
"""

_RESPONSES = """
[[operation]]
name = "respond"
method = "POST"
path = "/responses"
effect = "none"
result = "openai.response@1"
required = ["model", "input"]
[operation.field]
model = { type = "string" }
input = { type = "array" }
max_output_tokens = { type = "integer" }
tools = { type = "array" }
tool_choice = { type = "string" }
reasoning = { type = "object" }
text = { type = "object", keys = ["format"] }
store = { type = "boolean" }
[operation.stream]
meaning = "token-deltas"
ask = { stream = true }
[operation.stream.events]
"response.created" = "start"
"response.output_item.added" = "part-start"
"response.output_text.delta" = "text-delta"
"response.function_call_arguments.delta" = "tool-call-delta"
"response.reasoning_summary_text.delta" = "reasoning"
"response.completed" = "finish"
"response.incomplete" = "finish"
"response.failed" = "error"
error = "error"
[[media.in]]
type = "image/png"
via = "data-url"
"""

_IMAGES = """
[[operation]]
name = "generate"
method = "POST"
path = "/images/generations"
effect = "paid"
result = "openai.images.result@1"
required = ["model", "prompt"]
[operation.field]
model = { type = "string" }
prompt = { type = "string" }
n = { type = "integer" }
output_format = { type = "string" }
[operation.stream]
meaning = "previews"
ask = { stream = true, partial_images = 1 }
events = { "image_generation.partial_image" = "preview", "image_generation.completed" = "artifact" }
[[operation]]
name = "edit"
method = "POST"
path = "/images/edits"
body = "multipart"
effect = "paid"
result = "openai.images.result@1"
required = ["model", "prompt", "image[]"]
[operation.field]
model = { type = "string" }
prompt = { type = "string" }
n = { type = "integer" }
mask = { type = "file" }
[operation.field."image[]"]
type = "array"
maxItems = 2
[[media.in]]
type = "image/png"
via = "multipart"
[[media.out]]
type = "image/png"
via = "b64_json"
[[media.out]]
type = "image/webp"
via = "url"
"""

_AUDIO = """
[[operation]]
name = "transcribe"
method = "POST"
path = "/audio/transcriptions"
body = "multipart"
effect = "paid"
result = "openai.audio.transcription@1"
required = ["file", "model"]
[operation.field]
file = { type = "file", maxBytes = 1000 }
model = { type = "string" }
language = { type = "string" }
response_format = { type = "string" }
temperature = { type = "number" }
"timestamp_granularities[]" = { type = "array" }
[operation.stream]
meaning = "token-deltas"
ask = { stream = "true" }
events = { "transcript.text.delta" = "text-delta", "transcript.text.done" = "finish" }
[[operation]]
name = "speak"
method = "POST"
path = "/audio/speech"
effect = "paid"
result = "openai.audio.speech@1"
required = ["model", "input", "voice"]
[operation.field]
model = { type = "string" }
input = { type = "string" }
voice = { type = "string" }
response_format = { type = "string", default = "mp3" }
[operation.stream]
meaning = "audio-frames"
ask = { stream_format = "sse" }
events = { "speech.audio.delta" = "audio", "speech.audio.done" = "finish" }
[[media.in]]
type = "audio/wav"
via = "multipart"
[[media.out]]
type = "audio/mpeg"
via = "raw"
[[media.out]]
type = "audio/wav"
via = "raw"
"""

_EMBEDDINGS = """
[[operation]]
name = "embed"
method = "POST"
path = "/embeddings"
effect = "none"
result = "openai.embeddings.result@1"
required = ["model", "input"]
[operation.field]
model = { type = "string" }
input = { type = "array" }
encoding_format = { type = "string" }
"""

# One for each of five servers that speak it, which no two do alike.
_VIDEOS = """
[[operation]]
name = "create"
method = "POST"
path = "/videos"
body = "{body}"
effect = "paid"
result = "openai.video@1"
required = ["prompt"]
[operation.field]
model = {{ type = "string" }}
prompt = {{ type = "string" }}
seconds = {{ type = "string" }}
fps = {{ type = "integer" }}
metadata = {{ type = "object" }}
[operation.idempotency]
{idempotency}
[operation.cancel]
{cancel}
[operation.lookup]
path = "/videos/{{job}}"
progressAt = "progress"
progressScale = 100
expiresAt = "expires_at"
pollAfterHeader = "x-poll-after"
{lookup}
[operation.lookup.status]
{statuses}
[operation.fetch]
path = "/videos/{{job}}/content"
parts = {{ video = "variant=video", thumbnail = "variant=thumbnail" }}
notReady = [409]
digestHeader = "x-sha256"
[[media.out]]
type = "video/mp4"
via = "raw"
[[media.out]]
type = "image/png"
via = "raw"
"""
_STATUSES = 'queued = "queued"\nin_progress = "running"\ncompleted = "succeeded"\nfailed = "failed"\n'
_VIDEO_SERVERS: dict[str, dict[str, str]] = {
    "as-openai": {},
    "omni": {"body": "multipart", "idempotency": 'mode = "none"'},  # its DELETE is no cancel
    "router": {"statuses": _STATUSES + 'cancelled = "cancelled"\nexpired = "expired"\n'},
    "inworld": {
        "statuses": _STATUSES + 'cancelled = "cancelled"\n',
        "cancel": 'mode = "proved"\npath = "/videos/{job}/cancel"\nproof = ["cancelled"]\nrefused = [409]',
    },
    "gateway": {
        "idempotency": 'mode = "client-key"\nheader = "idempotency-key"\nmaxChars = 64',
        "lookup": 'by = ["job-id", "key", "tag"]\nkeyPath = "/videos/by-key/{key}"\n'
        'listPath = "/videos?tag={tag}"\ntagField = "metadata.tag"\nabsenceIsProof = true',
    },
}


def profile(text: str, **changes: Any) -> Profile:
    """The profile of a text; ``changes`` replace whole tables of it."""
    return Profile.model_validate({**tomli.loads(text), **changes})


def _made(
    name: str, dialect: str, body: str, *, kind: str = "call", base: str = "https://api.x.com/v1"
) -> Profile:
    driver = name.partition(".")[0]
    echo = "unreliable" if driver in ("openai-images", "openai-audio") else "exact"
    return profile(
        _HEAD.format(id=name, dialect=dialect, driver=driver, kind=kind, base=base, echo=echo) + body
    )


def named(name: str, base: str = "https://api.x.com/v1") -> Profile:
    """The profile of that name: ``chat``, ``plain-chat``, ``messages``, ``responses``, ``images``, ``audio``,
    ``embeddings``, or ``videos.SERVER``.
    """
    if name.startswith("videos."):
        usual = {
            "body": "json",
            "idempotency": 'mode = "none"',
            "cancel": 'mode = "none"',
            "lookup": 'by = ["job-id"]',
            "statuses": _STATUSES,
        }
        body = _VIDEOS.format(**(usual | _VIDEO_SERVERS[name.removeprefix("videos.")]))
        return _made("openai-videos.test", "openai.videos-job@1", body, kind="job", base=base)
    driver, dialect, body, kind = {
        "chat": ("openai-chat", "openai.chat-completions@1", _CHAT, "agent-model"),
        "plain-chat": ("openai-chat", "openai.chat-completions@1", _PLAIN_CHAT, "agent-model"),
        "messages": ("anthropic-messages", "anthropic.messages@1", _MESSAGES, "agent-model"),
        "responses": ("openai-responses", "openai.responses@1", _RESPONSES, "agent-model"),
        "images": ("openai-images", "openai.images@1", _IMAGES, "call"),
        "audio": ("openai-audio", "openai.audio-batch@1", _AUDIO, "call"),
        "embeddings": ("openai-embeddings", "openai.embeddings@1", _EMBEDDINGS, "call"),
    }[name]
    return _made(f"{driver}.{name}", dialect, body, kind=kind, base=base)


VIDEO_SERVERS = tuple(f"videos.{name}" for name in _VIDEO_SERVERS)
NAMES = ("chat", "plain-chat", "messages", "responses", "images", "audio", "embeddings", *VIDEO_SERVERS)
