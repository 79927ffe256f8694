"""The policy asked at every way out: entries, requests, tunnels, people, money; and what is kept of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tomli

from reconciler.attempts.holdings import Decision
from reconciler.control.approvals import Refused
from reconciler.control.evidence import Evidence, decision_id
from reconciler.control.journal import Journal
from reconciler.control.permitting import Permitting, Sending
from reconciler.control.policing import POLICY, Policing
from reconciler.control.receipts import Receipts, verified
from reconciler.control.sending import NotSent
from reconciler.egress.gate import Ask, Verdicted
from reconciler.egress.permits import Permits
from reconciler.model.calls import Refusal
from reconciler.model.entries import AWAITS, Entering
from reconciler.model.hosts import Target
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.policies import EgressPolicy
from reconciler.model.recipes import Recipe, SandboxPolicy, SecretUse
from reconciler.model.resources import Agent
from reconciler.model.routes import ScopeFolder
from tests.control.test_sending import sealed_of

HEAD = """apiVersion = "handler.egress-policy/v1"
[[class]]
name = "public"
[[class]]
name = "internal"
[[class]]
name = "private"
localOnly = true
[[label]]
paths = ["clients/**"]
class = "private"
[[label]]
paths = ["notes/**"]
class = "internal"
"""
ALLOW = '[[rule]]\nid = "goes"\neffect = "allow"\norigins = ["https://api.example.com:443"]\n'
ASK = '[[rule]]\nid = "asks"\neffect = "ask"\nask = { timeoutSeconds = 30 }\n'
SLOT = SecretUse("key", "file", (), None, "gate", "x-api-key")


def recipe(
    name: str = "far", *, gate: bool = True, egress: tuple[str, ...] = ("api.example.com:443",)
) -> Recipe:
    secrets = (SLOT,) if gate else ()
    box = SandboxPolicy()
    return Recipe(name, name, "python", "0" * 64, "", "", (), secrets, (), egress, box, "none", "0" * 64)


@dataclass
class World:
    state: Path
    now: float = 1_000_000.0
    recipes: dict[Any, Recipe] = field(default_factory=dict)
    calls: dict[tuple[Any, int], Any] = field(default_factory=dict)
    kept: list[Decision] = field(default_factory=list)
    watched: list[bool] = field(default_factory=list)
    scope: tuple[ScopeFolder, ...] = (ScopeFolder("/work"),)
    policing: Policing = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A controller of this state folder."""
        journal = Journal(self.state, lambda: self.now)
        book = Receipts(self.state, lambda: self.now)
        evidence = Evidence(journal, book, now=lambda: self.now, token=decision_id)
        evidence.keep = self.kept.append
        self.policing = Policing(self.state, evidence, lambda: self.now)
        self.policing.recipe = self.recipes.get
        self.policing.sink = lambda name, number: self.calls.get((name, number))
        self.policing.followed = self.watched.append

    def follow(self, text: str | None, *, floor: str = "", refused: bool = False) -> None:
        forms: dict[Any, Any] = {}
        if text is not None:
            spec = EgressPolicy.model_validate(tomli.loads(HEAD + text))
            forms[POLICY] = SimpleNamespace(spec=spec)
        if floor:
            spec = Agent.model_validate({"apiVersion": "handler.agent/v1", "floorClass": floor})
            forms[ObjectRef(Kind.AGENT, "clerk")] = SimpleNamespace(spec=spec)
        gone = {POLICY: ()} if refused else {}
        self.policing.follow(cast(Any, SimpleNamespace(in_force=forms, refused=gone)))

    async def enter(self, made: Recipe, path: str = "", session: str = "s1", **more: Any) -> str | Refusal:
        self.recipes[made.name] = made
        spec = SimpleNamespace(purpose=None, name="ocr")
        route = SimpleNamespace(
            binding=made.binding, instance=made.name, interface="ocr/v1", contract=SimpleNamespace(spec=spec)
        )
        tool = SimpleNamespace(name="ocr_extract", effect=more.get("effect", "none"))
        paths = (path,) if path else ()
        entering = Entering(
            "clerk", session, cast(Any, route), cast(Any, tool), more.get("arguments", {"a": 1}),
            self.scope, paths, tuple(("path", 5, "ab" * 32) for _ in paths),
            more.get("left_s", 20.0),
        )  # fmt: skip
        heard: asyncio.Future[str | Refusal] = asyncio.get_running_loop().create_future()
        self.policing.enter(entering, heard.set_result)
        return await heard

    async def request(self, made: Recipe, entry: str | None = None, **more: Any) -> Verdicted:
        call = ""
        if entry is not None:
            call = str(len(self.calls) + 1)
            self.calls[made.name, int(call)] = SimpleNamespace(entry=entry)
        wire = more.get("wire", "sha256:" + "1" * 64)
        origin = more.get("origin", "https://api.example.com:443")
        said = self.policing.request(made, Ask(call, origin, "POST", "ab", "cd", more.get("size", 7), wire))
        return said if isinstance(said, Verdicted) else await said

    async def waiting(self) -> str:
        """The one question that waits for a person."""
        async with asyncio.timeout(30):
            while not (found := [one for one in self.policing.approvals.listed() if one.state == "waiting"]):
                await asyncio.sleep(0)
        return found[0].id

    def receipts(self) -> list[Mapping[str, Any]]:
        found = sorted((self.state / "receipts").glob("*.jsonl"))
        return [json.loads(line) for path in found for line in path.read_text().splitlines()]


def told(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


def test_without_a_policy_everything_enters_and_leaves_and_nothing_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(None)
        assert await made.enter(recipe(), "clients/a.pdf") == ""
        assert (await made.request(recipe())).go
        assert await made.policing.tunnel(recipe(), Target("api.example.com", 443)) == ""
        assert list(tmp_path.iterdir()) == []
        assert made.watched == []

    told(story)


def test_a_refused_policy_lets_nothing_go_elsewhere_and_here_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW, refused=True)
        assert isinstance(await made.enter(recipe()), Refusal)
        assert not (await made.request(recipe())).go
        assert await made.policing.tunnel(recipe(gate=False), Target("api.example.com", 443))
        assert isinstance(await made.enter(recipe("here", egress=())), str)
        assert isinstance(await made.enter(recipe("local", egress=("127.0.0.1:8080",))), str)
        assert made.watched == [True]
        made.follow(None)
        assert made.watched == [True, False]

    told(story)


def test_a_private_file_enters_what_is_here_and_then_nothing_of_its_session_leaves(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        assert isinstance(await made.enter(recipe()), str)
        said = await made.enter(recipe(), "clients/acme.pdf")
        assert isinstance(said, Refusal)
        assert (said.code, said.reason) == ("refused", "EgressDenied")
        assert isinstance(await made.enter(recipe()), str)  # it was not read: the session keeps its class
        assert isinstance(await made.enter(recipe("here", egress=()), "clients/acme.pdf"), str)
        assert isinstance(await made.enter(recipe()), Refusal)  # its later text is private
        assert isinstance(await made.enter(recipe(), session="s2"), str)
        made.begin()  # and a restart changes nothing
        made.follow(ALLOW)
        assert isinstance(await made.enter(recipe()), Refusal)

    told(story)


def test_an_agent_has_a_floor(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW, floor="private")
        assert isinstance(await made.enter(recipe()), Refusal)
        made.follow(ALLOW, floor="internal")
        assert isinstance(await made.enter(recipe()), str)

    told(story)


def test_each_request_is_judged_by_the_call_that_it_serves(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW.replace("effect", 'maxBytes = 100\nmaxClass = "public"\neffect'))
        entry = await made.enter(recipe())
        assert isinstance(entry, str)
        assert (await made.request(recipe(), entry)).go
        assert not (await made.request(recipe(), entry, size=101)).go
        assert not (await made.request(recipe(), entry, origin="https://evil.example.com:443")).go
        assert not (await made.request(recipe(), "")).go  # nobody decided on that call
        assert (await made.request(recipe())).go  # a greeting, before there is a call
        made.policing.left(entry)
        assert not (await made.request(recipe(), entry)).go

    told(story)


def test_a_person_agrees_to_exact_bytes_once(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ASK)
        entry = await made.enter(recipe())
        assert isinstance(entry, str)
        asking = asyncio.create_task(made.request(recipe(), entry))
        number = await made.waiting()
        text = (tmp_path / "approvals" / f"{number}.json").read_text()
        assert "1" * 64 not in text
        assert "ev:" in text
        assert not asking.done()
        made.policing.approvals.answer(number, "ada", agreed=True)
        assert (await asking).go
        with pytest.raises(Refused, match="used"):
            made.policing.approvals.answer(number, "ada", agreed=True)
        # another byte, and the same bytes again, are other questions
        for wire in ("sha256:" + "2" * 64, "sha256:" + "1" * 64):
            asking = asyncio.create_task(made.request(recipe(), entry, wire=wire))
            other = await made.waiting()
            assert other != number
            made.policing.approvals.answer(other, "ada", agreed=False)
            assert not (await asking).go

    told(story)


def test_no_answer_in_time_is_a_no_and_a_late_yes_is_for_the_same_call_again(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ASK)
        mail = recipe("mail", gate=False, egress=("smtp.example.com:465",))
        said = await made.enter(mail, effect="external", left_s=1.01)
        assert isinstance(said, Refusal)
        assert (said.code, said.reason) == ("refused", AWAITS)
        number = await made.waiting()
        made.policing.approvals.answer(number, "ada", agreed=True)
        assert isinstance(await made.enter(mail, effect="external", arguments={"a": 2}, left_s=1.01), Refusal)
        entry = await made.enter(mail, effect="external")
        assert isinstance(entry, str)
        assert await made.policing.tunnel(mail, Target("smtp.example.com", 465)) == ""
        made.policing.left(entry)
        assert "asked" in await made.policing.tunnel(mail, Target("smtp.example.com", 465))
        assert isinstance(await made.enter(mail, effect="external", left_s=1.01), Refusal)  # once
        made.now += 31
        assert {one.state for one in made.policing.approvals.listed()} == {"expired", "used"}

    told(story)


def test_what_a_day_may_cost_survives_a_restart(tmp_path: Path) -> None:
    cost = ALLOW.replace("effect", 'cost = { perCall = "EUR 1", perDay = "EUR 2" }\neffect')

    async def story() -> None:
        made = World(tmp_path)
        made.follow(cost)
        for _ in range(2):
            entry = await made.enter(recipe())
            assert isinstance(entry, str)
            assert (await made.request(recipe(), entry)).go
            assert (await made.request(recipe(), entry)).go  # of one call: counted once
        made.begin()
        made.follow(cost)
        assert isinstance(await made.enter(recipe()), Refusal)
        made.now += 86_400
        assert isinstance(await made.enter(recipe()), str)

    told(story)


def test_of_each_decision_there_is_a_receipt_and_a_record_and_the_receipt_tells_no_digest(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        entry = await made.enter(recipe(), "notes/a.pdf")
        assert isinstance(entry, str)
        await made.request(recipe(), entry)
        await made.request(recipe(), entry, origin="https://evil.example.com:443")
        first, second = made.receipts()
        assert (first["verdict"], first["rule"], first["class"]) == ("allow", "goes", "internal")
        assert (second["verdict"], second["origin"]) == ("deny", "https://evil.example.com:443")
        assert first["wire"].startswith("ev:")
        assert "1" * 20 not in json.dumps(first)
        record = made.kept[0]
        assert record.wire_digest == "sha256:" + "1" * 64
        assert record.basis["v"] == "handler.egress-decision/v1"
        assert record.id == first["decision"]
        assert verified(tmp_path).broken is None

    told(story)


def test_what_cannot_be_written_down_does_not_leave(tmp_path: Path) -> None:
    async def story() -> None:
        made = World(tmp_path)
        made.follow(ALLOW)
        entry = await made.enter(recipe())
        (tmp_path / "receipts").write_text("a file where the folder belongs")
        said = await made.request(recipe(), cast(str, entry))
        assert (said.go, said.why.startswith("nothing can be decided")) == (False, True)

    told(story)


def test_a_sealed_request_gets_a_permit_for_its_bytes_or_none(tmp_path: Path) -> None:
    async def story() -> None:
        made, permits = World(tmp_path), Permits()
        giving = Permitting(made.policing, permits, lambda: made.now)
        sealed = sealed_of("https://api.example.com:443")
        sending = Sending("llm/v1", "llm", "clerk", "s1", facts={"training": "no"})
        made.follow(None)
        assert (await giving.permit(recipe(), sealed, sending)).wire_digest == sealed.wire_digest
        made.follow(ALLOW.replace("effect", 'require = ["training:no"]\nttlSeconds = 5\neffect'))
        permit = await giving.permit(recipe(), sealed, sending)
        assert (permit.until_s, permit.decision) == (made.now + 5, made.receipts()[-1]["decision"])
        with pytest.raises(NotSent, match=r"denied: .*training"):
            await giving.permit(recipe(), sealed, replace(sending, facts={}))
        with pytest.raises(NotSent, match="denied"):
            await giving.permit(recipe(), sealed_of("https://evil.example.com:443"), sending)
        assert isinstance(await made.enter(recipe("here", egress=()), "clients/a.pdf"), str)
        with pytest.raises(NotSent, match="private never leaves"):  # what the session says is private now
            await giving.permit(recipe(), sealed, sending)
        made.follow(ASK)
        asking = asyncio.create_task(
            giving.permit(recipe(), sealed, replace(sending, session="s2", wait_s=20))
        )
        made.policing.approvals.answer(await made.waiting(), "ada", agreed=True)
        assert (await asking).id in permits
        control = replace(sending, session="s2", is_control=True)
        assert (await giving.permit(recipe(), sealed, control)).id in permits

    told(story)
