"""Asking what may be asked besides real calls: the link, a local server's list of models, its smallest call.

By itself only the link is probed, where a binding says ``probe.link = "on"``; a remote one by a handshake
alone, from time to time. A person's ``handler probe`` asks once, whatever the binding says. What is learnt is
for ``truths``: nothing here lets a call through, adds a model or vouches for conformance.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from reconciler.builtin.lane import RUNTIME as BUILTIN
from reconciler.control import hearing, truths
from reconciler.control.looking import Look
from reconciler.control.permitting import Sending
from reconciler.control.proving import Starts, started
from reconciler.control.rpc import Caller, Method, Refused
from reconciler.control.sending import MaybeSent, NotSent
from reconciler.control.spoken import NotSpokenError
from reconciler.control.transmitting import Leave, Speaker
from reconciler.control.truths import DIALECT, Truths
from reconciler.drivers import roll
from reconciler.drivers.asking import Unsealable
from reconciler.egress import knocking
from reconciler.model.dialect import Profile
from reconciler.model.hosts import Target, of_address
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.recipes import Recipe
from reconciler.model.resources import Binding
from reconciler.model.turns import Message, Text, Turn

_LOG = logging.getLogger("handler.probes")
_TICK_S = 5.0
_AT_ONCE = 8
_PATIENCE_S = 30.0
_TLS_PORT = 443
_MOST_MODELS = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Of whom a prober asks: what is in force, who speaks for an instance, who starts one."""

    look: Callable[[], Look | None]
    recipe: Callable[[InstanceName], Recipe | None]
    speaker: Callable[[InstanceName], Speaker | None]
    starts: Starts


class Prober:
    """The probes of one controller. All methods are for the loop's own thread."""

    def __init__(self, known: Truths, asked: Asked) -> None:
        self._known, self._asked = known, asked
        self._due: dict[InstanceName, float] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._of: Look | None = None
        self._wanted: tuple[InstanceName, ...] = ()
        self._tasks: set[asyncio.Task[None]] = set()

    def table(self) -> Mapping[str, Method]:
        """What the control socket answers."""
        return {"probe": self.probe}

    async def run(self) -> None:
        """Probe the links of those who ask for it; until cancelled."""
        while True:
            self._known.sweep()
            for name in self._follow():
                if self._due.get(name, 0.0) <= time.monotonic():
                    recipe = self._asked.recipe(name)
                    remote = truths.is_remote(recipe)
                    self._due[name] = time.monotonic() + (
                        truths.LINK_REMOTE_S if remote else truths.LINK_LOCAL_S
                    )
                    task = asyncio.get_running_loop().create_task(self._quietly(name))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(_TICK_S)

    def _follow(self) -> tuple[InstanceName, ...]:
        look = self._asked.look()
        if look is not self._of and look is not None:
            self._of = look
            asking = {
                ref.name
                for ref, form in look.admission.in_force.items()
                if isinstance(form.spec, Binding) and form.spec.probe.link == "on" and not form.spec.suspend
            }
            self._wanted = tuple(name for name in look.desired.recipes if name.binding in asking)
            self._due = {name: at for name, at in self._due.items() if name in self._wanted}
        return self._wanted

    async def _quietly(self, name: InstanceName) -> None:
        try:
            await self._link(name)
        except Exception:  # noqa: BLE001 - a probe that breaks off says nothing, and ends nothing
            _LOG.exception("the probe of %s broke off", name)

    # what a person asks

    async def probe(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Ask now: the link of ``binding``, and of a local server its models and its smallest call."""
        binding = str(params.get("binding") or "")
        look = self._asked.look()
        names = [one for one in look.desired.recipes if one.binding == binding] if look else []
        if not names:
            known = ", ".join(sorted({one.binding for one in look.desired.recipes})) if look else ""
            raise Refused(
                f"binding/{binding[:80]} serves nothing that could be probed; there are: {known or 'none'}"
            )
        self._known.forget(binding)
        name = names[0]
        recipe = self._asked.recipe(name)
        if recipe is not None and recipe.runtime != DIALECT:
            refusal = await started(self._asked.starts, name)
            if refusal is not None or not recipe.egress:
                whose = "the controller answers" if recipe.runtime == BUILTIN else "its process answered"
                why = (refusal.diagnostic or refusal.code) if refusal else whose
                self._known.heard_of_link(name, up=refusal is None, why=why)
        await self._link(name)
        await self._smallest(name)
        seen = self._known.observations().get(ObjectRef(Kind.BINDING, binding))
        return {
            "binding": binding,
            "observations": [one.as_json() for one in (seen.observations if seen else ())],
            "models": {"missing": list(seen.missing), "undeclaredSeen": seen.undeclared}
            if seen and seen.undeclared is not None
            else None,
        }

    # the link

    async def _link(self, name: InstanceName) -> None:
        recipe = self._asked.recipe(name)
        if recipe is None:
            return
        async with self._room:
            if recipe.socket:
                why = await knocking.attached(recipe.socket)
                self._known.heard_of_link(name, up=not why, why=why or "its socket takes connections")
            elif recipe.runtime == DIALECT:
                await self._servers(name)
            elif recipe.egress:
                targets = [(one, one.port == _TLS_PORT) for one in _targets(recipe.egress)]
                await self._knock(name, targets)

    async def _knock(self, name: InstanceName, targets: list[tuple[Target, bool]]) -> None:
        """Down when none of them answers."""
        whys = [await knocking.knock(target, tls=tls) for target, tls in targets]
        up = not all(whys)
        there = ", ".join(str(one) for (one, _), why in zip(targets, whys, strict=True) if not why)
        self._known.heard_of_link(name, up=up, why=f"{there} answers" if up else whys[0])

    async def _servers(self, name: InstanceName) -> None:
        speaker = self._speaker(name)
        if speaker is None:
            return
        for profile, base in _bases(speaker):
            target = of_address(base)
            address = target.address
            if address is None or not address.is_loopback:
                await self._knock(name, [(target, base.startswith("https:"))])
            else:
                await self._local(name, speaker, profile, (target, urlsplit(base).path.rstrip("/")))

    async def _local(
        self, name: InstanceName, speaker: Speaker, profile: Profile, where: tuple[Target, str]
    ) -> None:
        """A server of this machine may be asked its own health, and for its models."""
        target, under = where
        facts = profile.probe
        if facts.link is None:
            await self._knock(name, [(target, False)])
        else:
            found = await knocking.asked(target, f"{under}{facts.link.path}")
            up = not isinstance(found, str)
            words = f"{target} answered with status {found[0]}" if not isinstance(found, str) else found
            self._known.heard_of_link(name, up=up, why=words)
        if facts.inventory is not None:
            route = facts.inventory
            found = await knocking.asked(target, f"{under}{route.path}")
            ids = _ids(found[1], route.ids_at or "data") if not isinstance(found, str) else None
            if ids is not None:
                tools = [
                    tool for tool, one in speaker.spoken.tools.items() if profile.operation(one.operation)
                ]
                self._known.heard_of_models(name, ids, tools, declared=speaker.spoken.models)

    def _speaker(self, name: InstanceName) -> Speaker | None:
        try:
            return self._asked.speaker(name)
        except (OSError, ValueError):
            return None

    # the smallest call

    async def readiness(self, instance: InstanceName, operation: str) -> None:
        """As ``truths.Asks`` has it; ``operation`` is the tool's name."""
        speaker = self._speaker(instance)
        mapped = speaker.spoken.tools.get(operation) if speaker is not None else None
        if speaker is None or mapped is None or truths.is_remote(speaker.spoken.recipe):
            return
        try:
            profile, model = speaker.spoken.chosen(mapped.operation, "")
            fields = profile.probe.readiness.get(mapped.operation)
            driver = roll.MODELS.get(profile.identity.driver)
            if fields is None or driver is None:
                return
            most = fields.get("max_tokens")
            turn = Turn(
                model, (Message("user", (Text("ping"),)),), max_tokens=most if isinstance(most, int) else 1
            )
            sealed = driver.seal(driver.call_of(turn, "probe", profile, speaker.spoken.base), profile)
            leave = Leave(Sending("", "probe", ""), _PATIENCE_S)
            said: object = driver.read_turn(await speaker.whole(sealed, leave), turn, profile)
        except (NotSpokenError, Unsealable):
            return
        except (NotSent, MaybeSent) as fault:
            said = fault
        heard = hearing.of(said)
        if heard is not None:
            ready, words = heard == "answered", "its smallest call was not answered"
            self._known.heard_of_probe(instance, operation, ready=ready, why=words)

    async def _smallest(self, name: InstanceName) -> None:
        speaker = self._speaker(name)
        for tool in speaker.spoken.tools if speaker is not None else ():
            await self.readiness(name, tool)


def _targets(egress: tuple[str, ...]) -> Iterator[Target]:
    for text in egress:
        try:
            yield Target.parse(text)
        except ValueError:
            continue


def _bases(speaker: Speaker) -> Iterator[tuple[Profile, str]]:
    """Each server that it speaks to, once, with the first profile that names it."""
    told: dict[str, Profile] = {}
    for profile in speaker.spoken.profiles:
        base = profile.transport.base
        told.setdefault(speaker.spoken.base or "" if base == "binding" else base, profile)
    for base, profile in told.items():
        if base:
            yield profile, base


def _ids(body: bytes, at: str) -> frozenset[str] | None:
    """The ids of a list of models; None where there is no such list."""
    try:
        found: Any = orjson.loads(body)
        for key in at.split("."):
            found = found[key]
        return frozenset(str(one["id"]) for one in found[:_MOST_MODELS])
    except (ValueError, TypeError, KeyError, IndexError):
        return None
