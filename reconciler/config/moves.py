"""One change of a blast radius, as shapes; ``config.differences`` shapes the whole."""

from typing import Literal

from pydantic import Field

from reconciler.config.objectfile import Document
from reconciler.model.status import Reason


class FieldMoved(Document):
    """A key, or a bound, before and after."""

    key: str
    """The key as people write it: `settings.model`."""
    from_: str | float | bool | None = Field(alias="from")
    """What it was, as TOML or as a number; null: not set. Of a secret, a fingerprint of its reference."""
    to: str | float | bool | None
    """What it becomes."""


class SetMoved(Document):
    """What a set loses and gains."""

    removed: list[str]
    """What is in it no more."""
    added: list[str]
    """What comes into it."""


class RouteSeen(Document):
    """What answers an interface of an agent."""

    binding: str
    """The binding."""
    version: str
    """The interface version: `ocr/v1`."""
    instance: str
    """The binding's instance, by the digest of all that it is made from."""
    tools: list[str] | None
    """The tools that are granted; null: all."""
    max_calls: int | None
    """The calls that a session may make; null: no limit of the agent's."""
    unavailable: str | None
    """Why new calls end `unavailable`, or null."""


class RouteMoved(Document):
    """One interface of an agent, before and after."""

    interface: str
    """The interface's name."""
    from_: RouteSeen | None = Field(alias="from")
    """What answered it; null: nothing."""
    to: RouteSeen | None
    """What answers it; null: nothing."""


class InstanceMoved(Document):
    """The instance of a binding, before and after."""

    from_: str | None = Field(alias="from")
    """The one that ends; null: there was none."""
    to: str | None
    """The one that begins; null: there is none."""
    making: list[FieldMoved]
    """What the two are made of, where that differs and no key of the binding says so."""


class LossSeen(Document):
    """One who is served no more: `apply` asks before that."""

    sort: Literal["session", "agent", "instance"]
    """Who: an open session, an agent, a running instance."""
    name: str
    """Its name."""
    why: str
    """What becomes of it."""


class HeldSeen(Document):
    """Why an object's last form is kept."""

    reason: Reason
    """One word."""
    message: str
    """The same for people."""


class ChangeSeen(Document):
    """One object that differs, and whom that reaches."""

    verb: Literal["add", "change", "remove", "hold", "refuse"]
    """What an apply does with it; `hold`: nothing, for now; `refuse`: nothing, until it is mended."""
    object: str
    """The object, as KIND/NAME."""
    effect: str
    """What happens, in two or three words."""
    file: str
    """Where it is, or was, defined."""
    fields: list[FieldMoved]
    """The keys of its file that differ; for an interface version also its entry in `handler.lock`."""
    files: list[str]
    """The files of its folder that differ."""
    instance: InstanceMoved | None
    """Of a binding: the instance that takes another's place."""
    bounds: list[FieldMoved]
    """Of that instance: its bounds (memory, processes, processor, idle stop), where they differ."""
    routes: list[RouteMoved]
    """Of an agent: what answers its interfaces, where that differs."""
    egress: SetMoved
    """Hosts within reach: of a binding's instance, or of an agent's next session."""
    secrets: SetMoved
    """Filled secret slots, each with the form of its reference and a fingerprint of it."""
    programs: SetMoved
    """Programs of the machine that may be run."""
    read: SetMoved
    """Paths of the machine that may be read."""
    adds: SetMoved
    """Folders of the machine that files are added to."""
    cost: SetMoved
    """Effects of the tools, as `paid (ocr/v1 ocr_extract)`: the class, and the version that states it."""
    copies: SetMoved
    """Shadows that get copies of its calls, each with the hosts it reaches: `binding/trial (a.test:443)`."""
    agents: list[str]
    """Agents whose next session gets something else."""
    chains: list[str]
    """Chains that are touched; none can be in this release."""
    users: list[str]
    """Of an interface version: who selects, requires or implements it, on either side."""
    sessions: list[str]
    """Open sessions that go on with what they were opened with."""
    losses: list[LossSeen]
    """Whom it stops serving."""
    held: HeldSeen | None
    """Why it is kept, or waits for an explicit apply; null: neither."""
    last_good: bool
    """Whether it is refused and its last admitted form goes on."""
