"""The words that keys of dialect profiles hold: the provider's names, routes, headers, places in a body."""

from typing import Annotated, Literal

from reconciler.model.forms import Field

ProfileId = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*([.-][a-z0-9]+)*$",
        max_length=80,
        description="a profile's name: lower-case letters, digits, single dashes and dots",
        examples=["openai-images.gpt-image-2"],
    ),
]
DialectRef = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*([.-][a-z0-9]+)*@[1-9][0-9]{0,3}$",
        max_length=80,
        description="a dialect of the register and its version",
        examples=["openai.images@1"],
    ),
]
ProfileRef = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*([.-][a-z0-9]+)*@[1-9][0-9]{0,5}$",
        max_length=96,
        description="a profile and its revision",
        examples=["openai-images.gpt-image-2@1"],
    ),
]
OperationName = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$",
        max_length=40,
        description="an operation: lower-case letters, digits and single dashes",
        examples=["generate"],
    ),
]
ModelId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        pattern=r"^[!-~]+( [!-~]+)*$",
        description="a model's exact id, as the server spells it",
        examples=["gpt-image-2"],
    ),
]
Provided = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*(\[\])?$",
        max_length=80,
        description="a name as the provider spells it",
        examples=["prompt"],
    ),
]
BodyPath = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$",
        max_length=160,
        description="a place in a body: keys joined by dots",
        examples=["error.code"],
    ),
]
Header = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$",
        max_length=80,
        description="a header's name in lower case",
        examples=["authorization"],
    ),
]
Route = Annotated[
    str,
    Field(
        pattern=r"^/[A-Za-z0-9._~/-]*(\{(job|key|tag)\}[A-Za-z0-9._~/-]*)*(\?[A-Za-z0-9._~=&{}\[\]-]*)?$",
        max_length=512,
        description="a route that begins with /, whose only parameters are {job}, {key} and {tag}",
        examples=["/images/generations"],
    ),
]
ServerBase = Annotated[
    str,
    Field(
        pattern=r"^(binding|https://[a-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-])?|http://(127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-])?)$",
        max_length=512,
        description="an https address without a last slash, plain http of this machine, or the word binding",
        examples=["https://api.openai.com/v1", "binding"],
    ),
]
StatusClass = Annotated[
    str, Field(pattern=r"^[1-5]xx$", description="a status, or a class of them", examples=["5xx"])
]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Days = Annotated[float, Field(ge=0, le=36_500, examples=[30])]
RateLimitWord = Literal[
    "requestsLimit", "requestsRemaining", "requestsReset", "tokensLimit", "tokensRemaining", "tokensReset",
    "inputTokensLimit", "inputTokensRemaining", "inputTokensReset", "outputTokensLimit",
    "outputTokensRemaining", "outputTokensReset", "retryAfter", "retryAfterMs",
]  # fmt: skip
