"""What is known of what serves: link and readiness by instance, from real calls and from probes.

Readiness is heard of from real calls: of connectors that are processes through the router, of the others from
whoever sends for them, through ``heard_of_call``. ``let_in`` is asked before anything is sent. What is said
here is told in the status files, with its age; it is kept in memory alone: a new controller knows nothing and
says so. All methods are for the loop's own thread.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from reconciler.control import readiness
from reconciler.control.exposition import Family, counted
from reconciler.control.readiness import Course
from reconciler.model.calls import CallRecord, Refusal, Reply
from reconciler.model.hosts import Target
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.observations import (
    EVERY,
    Actor,
    Heard,
    Observation,
    Policy,
    Seen,
    Subject,
    compared,
    may,
)
from reconciler.model.recipes import Recipe
from reconciler.model.status import Reason

LOCAL_S, REMOTE_S = 60.0, 300.0  # for so long a word about readiness is worth something
LINK_LOCAL_S, LINK_REMOTE_S = 30.0, 300.0
STALL_S = 120.0  # without a byte, where nobody says otherwise
_NOT_ITS_OWN = ("unavailable", "outcome_unknown", "invalid_input", "refused", "limit", "cancelled")
_MOST_OPERATIONS = 512  # of one instance
DIALECT = "dialect"  # the runtime of what reports its own calls
_UP: tuple[str, Reason, str] = ("up", "Reachable", "Normal")
_DOWN: tuple[str, Reason, str] = ("down", "Unreachable", "Warning")

Tell = Callable[[str, str, Reason, str], None]


class Asks(Protocol):
    """Who can ask a service something on our behalf."""

    async def readiness(self, instance: InstanceName, operation: str) -> None:
        """Make the smallest call of an operation and report it; nothing where none is stated."""
        ...


@dataclass(slots=True)
class _Book:
    """What is known of one instance."""

    name: InstanceName
    recipe: Recipe | None
    remote: bool
    courses: dict[str, Course] = field(default_factory=dict)
    by: dict[str, Actor] = field(default_factory=dict)  # who last said something of an operation
    link: Observation | None = None
    missing: tuple[str, ...] = ()
    undeclared: int | None = None
    listed_at: float = 0.0  # when the server last listed its models
    told: tuple[Observation, ...] = ()

    @property
    def lasts_s(self) -> float:
        """For so long a word about readiness is worth something."""
        return REMOTE_S if self.remote else LOCAL_S

    @property
    def profile(self) -> tuple[str, str]:
        profiles = self.recipe.profiles if self.recipe is not None else ()
        return profiles[0] if len(profiles) == 1 else ("", "")


class Truths:
    """The observations of one controller."""

    def __init__(self, now: Callable[[], float], recipe: Callable[[InstanceName], Recipe | None]) -> None:
        """``now`` gives seconds since 1970; ``recipe`` that of a declared instance."""
        self.changed: Callable[[], None] = lambda: None  # told when something else is to be said
        self.event: Tell = lambda *_: None  # told of what was taken and given back: about, kind, reason…
        self.asks: Asks | None = None
        self.policy: Callable[[str], Policy | None] = lambda _: None  # what a binding says of readiness
        self.poor: set[InstanceName] = set()  # of these a call may not be sent without asking
        self.met: set[InstanceName] = set()  # whose records are understood
        self._told: Mapping[ObjectRef, Seen] = {}  # by binding; replaced whole, never edited
        self._now = now
        self.recipe = recipe
        self._books: dict[InstanceName, _Book] = {}
        self._names: dict[str, InstanceName] = {}

    # real calls

    def heard_of_call(
        self, instance: InstanceName, operation: str, heard: Heard, *, at: float = 0.0, why: str = ""
    ) -> None:
        """A real call of an operation ended so (``at``: when, else now). Only what the service itself did
        counts: not what was refused before it was sent, and nothing that an agent cancelled.
        """
        course = self._course(instance, operation)
        when = at or self._now()
        self._note(instance, operation, readiness.after(course, heard, when, why), "call")

    def called(self, record: CallRecord) -> None:
        """Take a record of the router: whatever closed error a connector answers with, it took the call."""
        name = self._names.get(record.instance)
        if name is None or record.code in _NOT_ITS_OWN:
            return
        book = self._book(name)
        course = book.courses.get(record.tool)
        is_well = course is not None and course.value == "ready" and not course.fails
        if is_well and course is not None and record.at < course.seen_at + book.lasts_s / 4:
            return  # the usual case: that is known well enough
        if book.recipe is not None and book.recipe.runtime != DIALECT:
            self.heard_of_call(name, record.tool, "answered", at=record.at)

    def unanswered(self, instance: InstanceName, tool: str, refusal: Refusal) -> None:
        """A connector said that it cannot, or a call's time ran out on it. Of one without a process the
        latter alone comes here: whoever speaks for it hears the rest.
        """
        recipe = self._book(instance).recipe
        if refusal.code == "unavailable" and recipe is not None:
            spoken = recipe.runtime == DIALECT
            self.heard_of_call(instance, tool, "stalled" if spoken else "unavailable")

    def watch(self, instance: InstanceName, operation: str, stall_s: float = STALL_S) -> "Watch":
        """Watch over a call that was sent: when no byte comes for so long, the operation is not ready."""
        return Watch(lambda: self.heard_of_call(instance, operation, "stalled"), stall_s)

    # before a call

    def let_in(self, instance: InstanceName, operation: str) -> Refusal | None:
        """Why a call of this operation is not to be sent now; None: it is, and is to be heard of."""
        book = self._books.get(instance)
        if book is None or instance not in self.poor:
            return None
        now = self._now()
        if book.link is not None and book.link.value == "down" and book.link.is_fresh(now):
            return Refusal("unavailable", f"the link is down: {book.link.message}", no_effect="unsent")
        course = book.courses.get(operation, readiness.FRESH)
        tried = readiness.tried(course, now)
        if tried is None:
            left = course.retry_at - now
            words = f"not ready ({course.reason}): {course.message}; one call is tried in {left:.0f} s"
            return Refusal("unavailable", words, no_effect="unsent")
        book.courses[operation] = tried
        return None

    async def before(self, instance: InstanceName, operation: str) -> Refusal | None:
        """As ``let_in``; where nothing is known, the service is local and its binding requires it, the
        smallest call that its profile states is made first.
        """
        asks = self.asks if self.policy(instance.binding) == "required" else None
        is_known = self._book(instance).remote or self._is_known(self._course(instance, operation))
        if asks is not None and not is_known:
            await asks.readiness(instance, operation)
        return self.let_in(instance, operation)

    def _is_known(self, course: Course) -> bool:
        return course.value in ("ready", "not-ready") and self._now() < course.seen_at + LOCAL_S

    @staticmethod
    def later(done: Callable[[Reply], None], refusal: Refusal) -> None:
        """Tell a sink in the loop's next round: not before its sender knows the call's number."""
        asyncio.get_running_loop().call_soon(done, refusal)

    # probes

    def heard_of_link(self, instance: InstanceName, *, up: bool, why: str = "", sent: int = 0) -> None:
        """Whether something answered where the service should be. Up raises nothing."""
        book, now = self._book(instance), self._now()
        lasts = LINK_REMOTE_S if book.remote else LINK_LOCAL_S
        value, reason, kind = _UP if up else _DOWN
        before, book.link = book.link, Observation(
            "link", self._subject(book, EVERY), value, reason, "link-probe", now, now + 2 * lasts, why,
            egress_bytes=sent,
        )  # fmt: skip
        was = before.value if before is not None else "up"
        if was != value:
            self.event(f"binding/{instance.binding}", kind, reason, why)
        self._say(book)

    def heard_of_probe(self, instance: InstanceName, operation: str, *, ready: bool, why: str = "") -> None:
        """How the profile's own smallest call of exactly this operation ended."""
        course, now = self._course(instance, operation), self._now()
        made = readiness.given(now) if ready else readiness.taken(course, "NotAnswering", now, why)
        self._note(instance, operation, made, "readiness-probe")

    def heard_of_models(
        self,
        instance: InstanceName,
        listed: frozenset[str],
        operations: Iterable[str],
        *,
        declared: tuple[str, ...],
    ) -> None:
        """What the server lists as its models: one of the binding's that is absent is told, and where all
        are, the operations are not ready. All others are a count. A list without fault says nothing.
        """
        book = self._book(instance)
        found = compared(declared, listed)
        was = (book.missing, book.undeclared)
        book.missing, book.undeclared, book.listed_at = found.missing, found.undeclared, self._now()
        for name in set(found.missing).difference(was[0]):
            self.event(f"binding/{instance.binding}", "Warning", "ModelMissing", f"{name!r} is not listed")
        for operation in operations if found.missing and found.missing == declared else ():
            course = self._course(instance, operation)
            if course.value == "ready" and self._is_known(course):
                continue  # a real call knows better than a list
            words = f"the server does not list {', '.join(map(repr, found.missing[:3]))}"
            self._note(
                instance, operation, readiness.taken(course, "ModelMissing", self._now(), words), "inventory"
            )
        if was != (found.missing, found.undeclared):
            self._publish(instance.binding)
        self._say(book)

    # upkeep

    def forget(self, binding: str) -> None:
        """A person asks: what was taken away by calls may be tried at once."""
        for name, book in self._books.items():
            if name.binding == binding:
                book.courses = {of: one for of, one in book.courses.items() if one.value == "ready"}
                book.link = None
                self._say(book)

    def meet(self, instance: InstanceName) -> None:
        """Calls go to this instance: what its records say is about it."""
        self._names[str(instance)] = instance
        self.met.add(instance)

    def sweep(self) -> None:
        """Of instances that are gone nothing is known any more."""
        for text, name in list(self._names.items()):
            if self.recipe(name) is None:
                del self._names[text]
                self.met.discard(name)
        for name in [name for name in self._books if self.recipe(name) is None]:
            book = self._books.pop(name)
            self.poor.discard(name)
            if book.told or book.undeclared is not None:
                self._publish(name.binding)
        for name in list(self.poor):
            self._say(self._books[name])

    def observations(self) -> Mapping[ObjectRef, Seen]:
        """What is to be told, by binding; the same mapping until something else is."""
        return self._told

    def families(self) -> Iterable[Family]:
        """How many operations stand how, by binding."""
        counts: dict[tuple[str, ...], float] = {}
        for name, book in self._books.items():
            for course in book.courses.values():
                key = (name.binding, course.value)
                counts[key] = counts.get(key, 0) + 1
        labels = ("binding", "value")
        yield counted("handler_operations", "Operations that were observed.", labels, counts, kind="gauge")

    # inside

    def _book(self, instance: InstanceName) -> _Book:
        book = self._books.get(instance)
        if book is None:
            recipe = self.recipe(instance)
            book = self._books[instance] = _Book(instance, recipe, is_remote(recipe))
        return book

    def _course(self, instance: InstanceName, operation: str) -> Course:
        return self._book(instance).courses.get(operation, readiness.FRESH)

    def _note(self, instance: InstanceName, operation: str, course: Course, by: Actor) -> None:
        book = self._book(instance)
        before = book.courses.get(operation, readiness.FRESH)
        if not may(by, "readiness", course.value) and course.value != before.value:
            return  # nobody says more than is his to say
        if operation not in book.courses and len(book.courses) >= _MOST_OPERATIONS:
            return
        book.courses[operation] = course
        if (before.value, before.seen_at) != (course.value, course.seen_at):
            book.by[operation] = by
        if (before.value, before.reason) != (course.value, course.reason):
            self._tell(book, operation, before, course)
        self._say(book)

    def _tell(self, book: _Book, operation: str, before: Course, course: Course) -> None:
        about = f"binding/{book.name.binding}"
        if course.value == "not-ready":
            self.event(about, "Warning", course.reason, f"{operation}: {course.message}")
        elif before.value == "not-ready":
            self.event(about, "Normal", course.reason, f"{operation} answers again")

    def _say(self, book: _Book) -> None:
        """Put what is to be told in its place: when it is something else, or about to lose its worth."""
        now = self._now()
        lasts = book.lasts_s
        found = [] if book.link is None else [book.link]
        is_poor = book.link is not None and book.link.value == "down"
        for operation, course in sorted(book.courses.items()):
            if course.value in ("unprobed", "unknown"):
                continue
            is_poor = is_poor or course.value == "not-ready"
            until = max(course.seen_at, course.retry_at) + lasts
            if until <= now:
                continue
            subject = self._subject(book, operation)
            found.append(
                Observation(
                    "readiness", subject, course.value, course.reason,
                    book.by.get(operation, "call"), course.seen_at, until, course.message,
                )
            )  # fmt: skip
        (self.poor.add if is_poor else self.poor.discard)(book.name)
        if _is_news(book.told, found, now, lasts / 2):
            book.told = tuple(found)
            self._publish(book.name.binding)

    def _publish(self, binding: str) -> None:
        books = [book for name, book in self._books.items() if name.binding == binding]
        said = tuple(one for book in books for one in book.told)
        lists = [book for book in books if book.undeclared is not None]
        listed = max(lists, key=lambda book: book.listed_at, default=None)
        ref = ObjectRef(Kind.BINDING, binding)
        told = {one: seen for one, seen in self._told.items() if one != ref}
        if said or listed:
            told[ref] = Seen(said, listed.missing if listed else (), listed.undeclared if listed else None)
        self._told = told
        self.changed()

    def _subject(self, book: _Book, operation: str) -> Subject:
        profile, digest = book.profile
        return Subject(book.name.binding, str(book.name), operation, profile, digest)


class Watch:
    """A call that was sent, until it ends: ``byte`` for each sign of life, ``end`` once."""

    def __init__(self, stalled: Callable[[], None], stall_s: float) -> None:
        self._stalled = stalled
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(stall_s, self._silent)

    def byte(self) -> None:
        """Something came."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(self._stall_s, self._silent)

    def end(self) -> None:
        """The call is over, however."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _silent(self) -> None:
        self._timer = None
        self._stalled()


def deaf() -> Truths:
    """One that nobody reads."""
    return Truths(lambda: 0.0, lambda _: None)


def is_remote(recipe: Recipe | None) -> bool:
    """Whether an instance's answers come from another machine: it lists one that it may reach."""
    for text in recipe.egress if recipe is not None else ():
        try:
            address = Target.parse(text).address
        except ValueError:
            continue
        if address is None or not address.is_loopback:
            return True
    return False


def _is_news(told: tuple[Observation, ...], found: list[Observation], now: float, soon_s: float) -> bool:
    """Whether something else is to be said, or the same anew since its end is near."""
    if len(told) != len(found):
        return True
    for old, new in zip(told, found, strict=True):
        same = replace(old, observed_at=new.observed_at, expires_at=new.expires_at) == new
        if not same or (new.expires_at > old.expires_at and old.expires_at < now + soon_s):
            return True
    return False
