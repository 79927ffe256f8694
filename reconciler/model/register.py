"""The register of dialects: which wire protocols there are, and which operations each may have.

An entry is data that ships with the product, ``dialects/NAME@VERSION/dialect.toml``: a driver speaks each, so
a configuration adds profiles and never dialects. It bounds profiles from above: what is not listed here no
profile can state, and what is listed each profile states or refuses.
"""

from typing import Annotated, Literal

from reconciler.model.forms import Field
from reconciler.model.profilewords import OperationName
from reconciler.model.records import Record, Seq, Text

ResultType = Annotated[
    str, Field(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*@[1-9][0-9]*$", examples=["openai.images.result@1"])
]


class Registered(Record):
    """One operation that a dialect may have."""

    kind: Literal["call", "job", "session", "agent-model"] = "call"
    """How it is driven."""
    result: ResultType
    """The type of its result."""
    proves: Seq[str] = ()
    """What a suite must show before it may be claimed: the cases by their names."""
    description: Text = ""
    """What it does, in one sentence."""


class Dialect(Record):
    """One wire protocol that the product speaks: `dialects/NAME@VERSION/dialect.toml`."""

    api_version: Literal["handler.dialect/v1"]
    """The format of this file."""
    name: Annotated[
        str,
        Field(
            pattern=r"^[a-z][a-z0-9]*([.-][a-z0-9]+)*$",
            max_length=64,
            description="a dialect: lower-case letters, digits, single dashes and dots",
            examples=["openai.images"],
        ),
    ]
    """The dialect's name: that of its folder."""
    version: Annotated[int, Field(ge=1, le=9999, examples=[1])]
    """The version: that of its folder."""
    description: Text
    """What it is, in one sentence."""
    driver: Annotated[
        str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*@[1-9][0-9]*$", examples=["openai-images@1"])
    ]
    """The driver that speaks it."""
    operations: Annotated[dict[OperationName, Registered], Field(min_length=1)]
    """The operations that it may have, by name."""

    @property
    def ref(self) -> str:
        """``name@version``: how profiles name it."""
        return f"{self.name}@{self.version}"
