"""``policies/egress.toml``: what may leave this machine, of which class, to whom, and when a person is asked.

Three words of a verdict are kept strictly apart: ``deny`` beats ``ask`` beats ``allow``, whatever the order
of rules, so a file can be read from anywhere. Classes are listed from the lowest to the highest. Keys are
camelCase with a unit; a sum of money is its currency and an amount.
"""

from typing import Annotated, Literal

from reconciler.model.forms import Field
from reconciler.model.records import Bytes, InterfaceVersion, Name, Record, Seq, Text

Verdict = Literal["allow", "ask", "deny"]

Money = Annotated[
    str,
    Field(
        pattern=r"^[A-Z]{3} [0-9]{1,9}(\.[0-9]{1,4})?$",
        description="a currency and an amount, like EUR 0.50",
        examples=["EUR 0.50"],
    ),
]
Origin = Annotated[
    str,
    Field(
        pattern=r"^https?://(\[[0-9A-Fa-f:.]+\]|[^\s:*/?#@]+):[0-9]{1,5}$",
        max_length=270,
        description="an exact origin with its port, like https://api.example.com:443",
        examples=["https://api.example.com:443"],
    ),
]
PathPattern = Annotated[
    str,
    Field(
        pattern=r"^[^\x00-\x1f]+$",
        max_length=1024,
        description="a pattern of paths: `*` within a folder, `**` through folders; absolute, under ~/, or "
        "relative to a folder of the agent's scope",
        examples=["clients/**"],
    ),
]
FactDemand = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9-]*:(<=)?[A-Za-z0-9._-]+$",
        max_length=128,
        description="a stated fact and its value, or at most so many days",
        examples=["training:no", "retention:<=30d"],
    ),
]
Purpose = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$",
        max_length=64,
        description="a purpose as an interface declares it, like document-reading",
        examples=["document-reading"],
    ),
]


class DataClass(Record):
    """A class of data; the order of the list is their order, from the lowest."""

    name: Name
    """The word that labels, rules and agents use."""
    local_only: bool = False
    """Whether data of this class never leaves this machine, whatever a rule says."""
    never: Seq[InterfaceVersion] = ()
    """Interfaces that data of this class is never given to, local ones included."""
    description: Text = ""
    """What belongs to it."""


class Label(Record):
    """Which class files are of, by where they lie."""

    paths: Annotated[Seq[PathPattern], Field(min_length=1, examples=[["clients/**"]])]
    """Patterns of paths; a file that several labels match is of the highest class of them."""
    class_: Annotated[Name, Field(alias="class", examples=["internal"])]
    """The class."""


class Cost(Record):
    """How much a rule may spend."""

    per_call: Money | None = None
    """The most for one call; a call whose price is not known is counted as this much."""
    per_day: Money | None = None
    """The most for one day (UTC), of all that this rule lets go."""


class Ask(Record):
    """How a person is asked."""

    who: Literal["owner"] = "owner"
    """Who may answer: whoever may use the controller's socket."""
    timeout_seconds: Annotated[float, Field(gt=0, le=86_400, examples=[600])] = 600
    """How long an answer is waited for; without one it is a no."""
    remember: Literal["exact"] = "exact"
    """What a yes is for: exactly these bytes, once."""


class Rule(Record):
    """One rule. A key that is left out matches everything; all keys that are there must match."""

    id: Name
    """What records call it."""
    effect: Verdict
    """What it says: `deny` beats `ask`, `ask` beats `allow`."""
    description: Text = ""
    """Why it is there."""
    bindings: Seq[Name] = ()
    """Bindings that it speaks of."""
    interfaces: Seq[InterfaceVersion] = ()
    """Interface versions that it speaks of."""
    agents: Seq[Name] = ()
    """Agents that it speaks of."""
    origins: Seq[Origin] = ()
    """Exact origins that it speaks of."""
    purposes: Seq[Purpose] = ()
    """Purposes that it speaks of: those of `interface.toml`, without one the interface's name."""
    classes: Seq[Name] = ()
    """Classes of data that it speaks of, exactly."""
    max_class: Annotated[Name, Field(examples=["internal"])] | None = None
    """The highest class of data that it lets go."""
    max_bytes: Bytes | None = None
    """The largest request body that it lets go, and of a whole call the largest input."""
    cost: Cost = Cost()
    """How much it may spend."""
    require: Seq[FactDemand] = ()
    """Facts that the provider's profile must state; what it does not state is not fulfilled."""
    ttl_seconds: Annotated[float, Field(gt=0, le=3600, examples=[60])] = 60
    """How long a decision holds until it is used."""
    ask: Ask = Ask()
    """How a person is asked, for `ask`."""
    enforcement: Literal["boundary"] | None = None
    """`boundary`: effects with data above the usual class may go by a connector with TLS of its own, of which
    only the entry is decided on."""


class EgressPolicy(Record):
    """What may leave: `policies/egress.toml`. Without the file, what connectors list may be reached."""

    api_version: Literal["handler.egress-policy/v1"]
    """The format of this file."""
    name: Name = "default"
    """What records call the policy."""
    revision: Annotated[int, Field(ge=1, le=999_999_999)] = 1
    """A number for people; its digest is what counts."""
    description: Text = ""
    """What it is for."""
    remote: Verdict = "deny"
    """What is said where no rule matches and the destination is another machine."""
    local: Verdict = "allow"
    """What is said where no rule matches and the destination is this machine."""
    taint: Literal["session", "inputs"] = "session"
    """Whether a session that read data of a class keeps it (`session`), or only the call's inputs count."""
    class_: Annotated[Seq[DataClass], Field(alias="class", max_length=64)] = ()
    """The classes of data, from the lowest to the highest; the first is that of unlabelled data."""
    label: Annotated[Seq[Label], Field(max_length=10_000)] = ()
    """Which files are of which class."""
    rule: Annotated[Seq[Rule], Field(max_length=10_000)] = ()
    """The rules, in any order."""
