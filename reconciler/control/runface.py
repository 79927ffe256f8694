"""What the control socket answers about runs of chains: begin one, follow it, cancel, list, show, resume.

``run.follow`` is how events and pieces of answers stream: it gives what came since a position, or waits for
more; a follower asks again with the position that it was given. Whoever leaves is simply not asked for any
more; a run goes on until ``run.cancel``.
"""

import asyncio
import platform
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from reconciler.chains import engine
from reconciler.chains.flow import Value
from reconciler.chains.state import Laws, Settings
from reconciler.control import runs, runwishes, scripted
from reconciler.control.loop import Controller
from reconciler.control.rpc import Attended, Caller, Method, Refused
from reconciler.control.runfiles import Head
from reconciler.control.runlive import place
from reconciler.control.runs import Runs, Unrunnable, Wish, tokens
from reconciler.model.approvalfile import ApprovalPolicy, document
from reconciler.model.chain import Chain
from reconciler.model.names import Kind, ObjectRef

_LONGEST_WAIT_S = 60.0
_RETRY_S = 0.2
_SETTLES_S = 0.5  # so long a run that is resumed may take to find that it still waits
_APPROVAL = ObjectRef(Kind.APPROVAL, "approval")
_ARCHS = {"x86_64": "amd64", "aarch64": "arm64"}
_MOST_LISTED = 200
_UNWRITABLE = "it holds half a character, a number over 64 bits, or brackets without end"


class RunFace:
    """The controller's answers about runs, by method name."""

    def __init__(self, controller: Controller, runs: Runs) -> None:
        self._controller, self._runs = controller, runs

    def table(self) -> Mapping[str, Method]:
        """The methods, by name."""
        return {
            "chain.run": self.run,
            "run.follow": self.follow,
            "run.stream": Attended(self.stream),
            "run.cancel": self.cancel,
            "run.resume": self.resume,
            "run.list": self.listed,
            "run.show": self.show,
            "model.list": self.models,
        }

    async def run(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Begin a run of ``chain`` (an id), or of ``model`` alone; it is on the disk when this answers.

        ``agent`` (the only one), ``input`` and ``inputType`` (string, chat, json, int, chat_history),
        ``vars``, ``allowlist``, ``temperature``, ``maxTokens`` and ``think`` (of a model alone),
        ``clientTools`` (name, description, parameters), ``script`` (answers of a scripted model).
        """
        params = runwishes.checked(params)
        wish = self.wish(params, self._agent(params.get("agent") or ""))
        try:
            live = await self._runs.start(wish)
        except Unrunnable as fault:
            raise Refused(str(fault)) from None
        except OSError as fault:
            raise Refused(f"the run cannot be written down: {fault.strerror or fault}") from None
        return live.head.as_json()

    def wish(self, params: Mapping[str, Any], agent: str, run: str = "") -> Wish:
        """The run that is asked for, under that name where there is one. Raises ``Refused``."""
        chain = self._chain(params)
        try:
            value = runwishes.input_value(params.get("input", ""), params.get("inputType") or "string")
            script = None if params.get("script") is None else scripted.read(params["script"])
            settings = self._settings(params, agent, chain)
            settings = replace(settings, run=run or settings.run)
            begun = begun_json(chain, value, settings)
            orjson.dumps([begun, script])  # halves of characters, or too deep: no file could hold it
        except orjson.JSONEncodeError:
            raise Refused(f"the run cannot begin: {_UNWRITABLE}") from None
        except ValueError as fault:
            raise Refused(f"the run cannot begin: {fault}") from None
        return Wish(begun | {"script": script, "policy": self._policy()}, chain.id, agent)

    async def follow(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """What was told of ``run`` since ``after`` ("": all), waiting at most ``waitSeconds`` for something,
        or for another state than ``state``; how the run stands; and its ``output`` once nothing more comes.
        """
        run, after = str(params.get("run") or ""), str(params.get("after") or "")
        until = time.monotonic() + min(_seconds(params.get("waitSeconds")), _LONGEST_WAIT_S)
        state = str(params.get("state") or "")
        while True:
            left = until - time.monotonic()
            if (live := self._runs.live.get(run)) is not None:
                told, position = live.since(after)
                if told or left <= 0 or live.head.state != (state or live.head.state):
                    return {"run": live.head.as_json(), "told": told, "after": position}
                state = live.head.state
                await live.changed(left)
                continue
            found = await asyncio.to_thread(self._kept, run, after)
            if "output" in found or left <= 0:
                return found
            await asyncio.sleep(min(_RETRY_S, left))  # a controller that has just begun resumes it soon

    async def stream(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """As ``follow``, to the run's end: each thing is told as it comes (``told``, ``after``), and the
        answer is how it ended. ``cancel``: a caller that leaves before takes the run along.
        """
        run, after = str(params.get("run") or ""), str(params.get("after") or "")
        try:
            while True:
                found = await self.follow(
                    {"run": run, "after": after, "waitSeconds": _LONGEST_WAIT_S}, caller
                )
                after = found["after"]
                if found["told"]:
                    await caller.tell({"told": found["told"], "after": after})
                if "output" in found:
                    return {**found, "told": []}
        except (asyncio.CancelledError, ConnectionError):
            if params.get("cancel") and run in self._runs.live:
                with suppress(Unrunnable, OSError):
                    await asyncio.shield(self._runs.cancel(run))
            raise

    def _kept(self, run: str, after: str) -> dict[str, Any]:
        """A run as its files have it; ``output`` is there where nothing more comes by itself."""
        head = self._runs.files.head(run)
        if head is None:
            raise Refused(f"there is no run {run[:40]!r}: 'handler runs list' lists them")
        events, pieces = place(after, "")
        epoch = after.partition(".")[0] or "0"
        told = self._runs.files.events(head.id, events)
        at = f"{epoch}.{events + len(told)}.{pieces}"
        found: dict[str, Any] = {"run": head.as_json(), "told": told, "after": at}
        if head.is_over or head.state == "stopped":
            found["output"] = self._runs.files.output(head.id)
        return found

    async def cancel(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """End ``run``. What it began that has an effect goes on to its end."""
        return (await self._tried(self._runs.cancel(str(params.get("run") or "")))).as_json()

    async def resume(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """Go on with ``run``, where something stopped it; the answer has what it waits for at once."""
        live = await self._tried(self._runs.resume(str(params.get("run") or "")))
        until = time.monotonic() + _SETTLES_S
        while live.head.state == "running" and (left := until - time.monotonic()) > 0:
            await live.changed(left)
        return live.head.as_json()

    async def listed(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """The newest runs."""
        heads: list[Head] = await asyncio.to_thread(self._runs.files.heads)
        return {"runs": [one.as_json() for one in heads[:_MOST_LISTED]]}

    async def show(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """One run with all that was told of it, and its output."""
        return await asyncio.to_thread(self._kept, str(params.get("run") or ""), "")

    async def models(self, params: Mapping[str, Any], caller: Caller) -> Any:
        """The models that ``agent`` may ask, in its order."""
        agent = self._agent(str(params.get("agent") or ""))
        found = self._runs.rooms.models.offered(agent)
        return {
            "agent": agent,
            "models": [
                {"model": one.model, "provider": one.provider, "vision": one.facts.vision} for one in found
            ],
        }

    async def _tried(self, doing: Any) -> Any:
        try:
            return await doing
        except Unrunnable as fault:
            raise Refused(str(fault)) from None
        except OSError as fault:
            raise Refused(f"the run's files: {fault.strerror or fault}") from None

    def _agent(self, named: str) -> str:
        agents = self._controller.table.agents
        known = ", ".join(sorted(agents)) or "none"
        if named:
            if named not in agents:
                raise Refused(f"there is no agent {named[:80]!r} to run for; agents: {known}")
            return named
        if len(agents) == 1:
            return next(iter(agents))
        raise Refused(f"say for which agent (--agent): a run calls and may do what its agent may: {known}")

    def _chain(self, params: Mapping[str, Any]) -> Chain:
        if model := params.get("model"):
            return runwishes.alone(model, params)
        name = params.get("chain") or ""
        look = self._controller.look
        admission = look.admission if look else None
        form = admission.in_force.get(ObjectRef(Kind.CHAIN, name)) if admission and name else None
        if form is None or not isinstance(form.spec, Chain):
            if admission and ObjectRef(Kind.CHAIN, name) in admission.refused:
                raise Refused(f"chain {name[:80]!r} is refused: 'handler chain vet {name[:80]}' says why")
            in_force = admission.in_force if admission else {}
            known = sorted(ref.name for ref in in_force if ref.kind is Kind.CHAIN)
            raise Refused(f"there is no chain {name[:80]!r}; chains: {', '.join(known[:12]) or 'none'}")
        return form.spec.model_copy(update={"id": name})

    def _policy(self) -> dict[str, Any] | str | None:
        """The policy of approvals in force; ``built-in`` where the one that there is, is refused; None."""
        look = self._controller.look
        if look is None:
            return runs.BUILT_IN
        form = look.admission.in_force.get(_APPROVAL)
        if form is not None and isinstance(form.spec, ApprovalPolicy):
            return document(form.spec)
        return runs.BUILT_IN if _APPROVAL in look.admission.refused else None

    def _settings(self, params: Mapping[str, Any], agent: str, chain: Chain) -> Settings:
        given = params.get("vars") or {}
        offered = self._runs.rooms.models.offered(agent)
        usual = {"chain": chain.id}
        if offered:
            model, provider = offered[0].model, offered[0].provider
            usual |= {"model": model, "provider": provider}
            usual |= {"default_model": model, "default_provider": provider}
        elif params.get("script") is not None:
            names = ("model", "provider", "default_model", "default_provider")
            usual |= dict.fromkeys(names, scripted.NAME)
        allowlist = params.get("allowlist")
        temperature = params.get("temperature")
        local = datetime.now(UTC).astimezone()
        offset = local.utcoffset()
        return Settings(
            secrets.token_hex(6),
            datetime.now(UTC),
            {**usual, **given, "chain": chain.id},
            None if allowlist is None else tuple(allowlist),
            temperature=None if temperature is None else float(temperature),
            client_tools=runwishes.client_tools(params),
            utc_offset_s=int(offset.total_seconds()) if offset else 0,
            host_os=platform.system().lower(),
            host_arch=_ARCHS.get(platform.machine(), platform.machine()),
        )


def _seconds(given: Any) -> float:
    if given is None:
        return 0.0
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise Refused("waitSeconds is a number")
    return float(given)


def begun_json(chain: Chain, value: Value, settings: Settings) -> dict[str, Any]:
    """What a run begins with, as its file has it; raises ValueError where it fails at once for want of a
    variable.
    """
    run = engine.begin(chain, value, settings, Laws(tokens))
    if isinstance(run.outcome, engine.Failed) and not run.events:
        raise ValueError(run.outcome.message)
    told = run.to_json()
    del told["answers"]
    return told
