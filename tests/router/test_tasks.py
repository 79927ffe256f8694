"""The tasks extension on the wire: who is answered with a task, what each method says, what abuse meets."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.calls import Refusal
from reconciler.model.effects import Intent
from reconciler.model.jobs import JobSeen, What
from reconciler.model.routes import ScopeFolder
from reconciler.router import connection, tasks
from reconciler.router.mcp import AskTask, Call, Face
from tests.router import stage
from tests.router.stage import FakeLane
from tests.router.test_abuse import INVALID, METHOD, MODERN, PARAMS, RESULT, TASKS, VERSION, call, heard, note
from tests.router.test_abuse import ask as line_of
from tests.router.test_effects import film
from tests.router.test_mcp import answered, ask
from tests.router.test_server import Agent, Set, run, stage_set

MISSING, INTERNAL = -32021, -32603
MINE, THEIRS, FOREIGN = "a" * 32, "b" * 32, "c" * 32
NAME = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
AT = 1_800_000_000.0
Heard = Callable[[JobSeen | Refusal], None]


class Films:
    """Keeps one job of the clerk's, that stands as the test wants; refuses or is silent on demand."""

    def __init__(self) -> None:
        self.job = JobSeen(
            "a1", MINE, "working", tool=("film/v1", "film_make_submit"), made_at=AT, changed_at=AT
        )
        self.asked: list[What] = []
        self.refusal: Refusal | None = None
        self.is_silent = False
        self.waiting: list[Heard] = []
        self.folders: tuple[int, ...] = ()  # for files, in and out
        self.film = b""  # what its file holds

    def stands(self, state: Any, **more: Any) -> None:
        self.job = replace(self.job, state=state, **more)

    def _say(self, seen: JobSeen | Refusal, heard: Heard) -> None:
        if self.is_silent:
            self.waiting.append(heard)
        else:
            heard(self.refusal or seen)

    def ask(self, what: What, intent: Intent, heard: Heard) -> None:
        self.asked.append(what)
        for laid in intent.handed.values() if what == "files" else ():
            new = os.open(laid["blob"], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.folders[1])
            os.write(new, self.film)
            os.close(new)
        self._say(self.job, heard)

    def find(self, handle: str, agent: str, heard: Heard) -> None:
        known = {MINE: self.job, FOREIGN: replace(self.job, tool=("song/v1", "film_make_submit"))}
        self._say(known.get(handle, Refusal("refused", "no such job")), heard)

    def staging(self) -> tuple[int, int]:
        into, out = self.folders
        return into, out


@asynccontextmanager
async def filming(
    films: Films, scope: tuple[ScopeFolder, ...] = (), **changes: Any
) -> AsyncIterator[tuple[Set, Agent]]:
    routes = stage.routes(stage.route(film(), **changes), stage.route(stage.echo()), scope=scope)
    async with stage_set(FakeLane(stage.echoing), routes) as play, play.agent() as agent:
        play.router.keep_jobs(films)
        yield play, agent


def method(verb: str, handle: Any = MINE, meta: Any = TASKS, ident: Any = 1, **more: Any) -> bytes:
    more |= {"inputResponses": {}} if verb == "update" and "inputResponses" not in more else {}
    params = {"taskId": handle, "_meta": meta} | more
    return line_of(f"tasks/{verb}", ident, params={k: v for k, v in params.items() if v is not ...})


async def told(agent: Agent, line: bytes) -> dict[str, Any]:
    agent.send(line)
    message = await agent.message()
    found: dict[str, Any] = message.get("result") or message["error"]
    return found


SUBMIT = call({"text": "a cat"}, "film_make_submit", TASKS)


def test_a_job_is_a_task_to_who_declares_the_extension_and_a_handle_to_who_does_not() -> None:
    async def test() -> None:
        films = Films()
        async with filming(films) as (_, agent):
            assert await told(agent, SUBMIT) == {
                "resultType": "task", "taskId": MINE, "status": "working", "ttlMs": None,
                "pollIntervalMs": 1000,
                "createdAt": "2027-01-15T08:00:00.000Z", "lastUpdatedAt": "2027-01-15T08:00:00.000Z",
            }  # fmt: skip
            for meta in (MODERN, ...):
                plain = await told(agent, call({"text": "a cat"}, "film_make_submit", meta))
                assert plain["structuredContent"] == {"job": MINE, "state": "working"}
                assert plain.get("resultType") != "task"
            assert films.asked == ["job"] * 3

    run(test)


def test_only_jobs_become_tasks_and_what_is_refused_before_is_a_tools_error() -> None:
    async def test() -> None:
        films = Films()
        async with filming(films) as (_, agent):
            status = await told(agent, call({"job": MINE}, "film_make_status", TASKS))
            assert status["structuredContent"]["state"] == "working"
            assert (await told(agent, call({"text": "x"}, meta=TASKS)))["structuredContent"] == {"text": "x"}
            bad = await told(agent, call({"text": 5}, "film_make_submit", TASKS))
            films.refusal = Refusal("limit", "of units")
            full = await told(agent, SUBMIT)
            assert [one["resultType"] for one in (bad, full)] == ["complete"] * 2
            assert [one["_meta"]["ai.handler/error"]["error"] for one in (bad, full)] == [
                "invalid_input",
                "limit",
            ]

    run(test)


def test_a_task_that_is_under_way_says_how_far_it_is_and_when_to_ask_again() -> None:
    async def test() -> None:
        films = Films()
        async with filming(films) as (play, agent):
            for age_s, poll_ms in ((0, 1000), (60, 6000), (86_400, 15_000)):
                films.stands("working", progress=0.42, changed_at=AT + age_s)
                task = await told(agent, method("get"))
                assert (task["resultType"], task["status"], task["statusMessage"]) == (
                    "complete",
                    "working",
                    "42% done",
                )
                assert (task["pollIntervalMs"], task["ttlMs"]) == (poll_ms, None)
            assert (films.asked, play.records) == ([], [])

    run(test)


def test_the_result_of_a_task_is_what_the_tool_of_the_result_gives() -> None:
    async def test() -> None:
        films = Films()
        async with filming(films) as (play, agent):
            films.stands("succeeded", structured=b'{"url":"f"}', kept_until=AT + 0.5, progress=1.0)
            task = await told(agent, method("get"))
            tool = await told(agent, call({"job": MINE}, "film_make_result", TASKS))
            assert (task["status"], task["ttlMs"], task["result"]) == ("completed", 500, tool)
            assert "statusMessage" not in task
            assert tool["structuredContent"] == {"url": "f"}
            assert {(one.tool, one.code, one.attempt) for one in await play.recorded(2)} == {
                ("film_make_result", "ok", "a1")
            }

    run(test)


@pytest.mark.parametrize(
    ("state", "error", "code"),
    [
        ("failed", "blocked", "blocked"),
        ("failed", "a_vendors_word", "unavailable"),
        ("unknown", "outcome_unknown", "outcome_unknown"),
    ],
)
def test_a_tools_error_is_the_result_of_a_completed_task(state: str, error: str, code: str) -> None:
    async def test() -> None:
        films = Films()
        films.stands(state, error=error)
        async with filming(films) as (_, agent):
            task = await told(agent, method("get"))
            assert (task["status"], task["result"]["isError"]) == ("completed", True)
            assert task["result"]["_meta"]["ai.handler/error"]["error"] == code
            assert task["result"] == await told(agent, call({"job": MINE}, "film_make_result", TASKS))

    run(test)


def test_what_is_done_and_cannot_be_given_names_the_tool_that_will_give_it() -> None:
    async def test() -> None:
        films = Films()
        films.stands("succeeded", structured=b'{"vendor":1}')
        async with filming(films) as (_, agent):
            task = await told(agent, method("get"))
            assert task["status"] == "completed"
            words = task["result"]["content"][0]["text"]
            assert f"the job is done; ask film_make_result with the job {MINE} for its result" in words

    run(test)


def test_a_file_that_is_asked_for_twice_at_once_or_after_a_death_is_put_in_place_once(tmp_path: Path) -> None:
    """Nobody is ever told that it is there: as if each time the controller had died just before."""
    for name in ("work", "in", "out"):
        (tmp_path / name).mkdir()
    made = tmp_path / "work" / "f.mp4"

    async def test() -> None:
        films = Films()
        films.film = b"a film"
        films.folders = tuple(os.open(tmp_path / one, os.O_RDONLY) for one in ("in", "out"))
        films.stands("succeeded", structured=b'{"url":"f"}', files={"output": "f.mp4"})
        scope = (ScopeFolder(str(tmp_path / "work"), "create"),)
        try:
            async with filming(films, scope) as (_, agent):
                agent.send(*(method("get", ident=n) for n in range(8)))
                found = [(await agent.message())["result"]["result"] for _ in range(8)]
                assert [one.get("isError") for one in found] == [None] * 8
                assert made.read_bytes() == b"a film"
                made.write_bytes(b"a cat!")  # as long, and not it
                assert (await told(agent, method("get")))["result"]["isError"]
                made.unlink()
                made.symlink_to("elsewhere")
                assert (await told(agent, method("get")))["result"]["isError"]
                assert not (tmp_path / "work" / "elsewhere").exists()
        finally:
            for one in films.folders:
                os.close(one)

    run(test)


def test_a_cancel_is_acknowledged_and_the_task_says_what_came_of_it() -> None:
    async def test() -> None:
        films = Films()
        async with filming(films) as (_, agent):
            assert await told(agent, method("cancel")) == {"resultType": "complete"}
            assert films.asked == ["cancel"]
            assert (await told(agent, method("get")))["status"] == "working"
            films.stands("cancelled", kept_until=AT + 86_400)
            task = await told(agent, method("get"))
            assert (task["status"], task["ttlMs"]) == ("cancelled", 86_400_000)
            assert "result" not in task
            assert await told(agent, method("cancel")) == {"resultType": "complete"}

    run(test)


def test_a_task_may_end_between_two_looks_of_one_request() -> None:
    async def test() -> None:
        films = Films()
        done = replace(films.job, state="succeeded", structured=b'{"url":"f"}')
        films.find = lambda handle, agent, heard: heard(done)  # type: ignore[method-assign]
        async with filming(films) as (_, agent):
            assert (await told(agent, method("get")))["status"] == "working"

    run(test)


def test_what_is_told_to_a_task_that_asks_for_nothing_is_acknowledged() -> None:
    async def test() -> None:
        films = Films()
        async with filming(films) as (_, agent):
            for responses in ({}, {"name": {"action": "accept", "content": {"x": 1}}}):
                update = method("update", inputResponses=responses)
                assert await told(agent, update) == {"resultType": "complete"}
            assert films.asked == []

    run(test)


def test_asking_after_a_task_counts_as_no_call_of_the_session() -> None:
    async def test() -> None:
        films = Films()
        films.stands("succeeded", structured=b'{"url":"f"}')
        async with filming(films, max_calls=1) as (_, agent):
            assert (await told(agent, SUBMIT))["resultType"] == "task"
            for _ in range(5):
                assert (await told(agent, method("get")))["status"] == "completed"
            assert await told(agent, method("cancel")) == {"resultType": "complete"}
            assert (await told(agent, SUBMIT))["_meta"]["ai.handler/error"]["error"] == "limit"

    run(test)


def declared(extensions: Any) -> dict[str, Any]:
    return MODERN | {CAPABILITIES: {"extensions": extensions}}


ABUSE = (
    ("undeclared", method("get", meta=MODERN), (1, MISSING)),
    ("undeclared update", method("update", meta=MODERN), (1, MISSING)),
    ("undeclared cancel", method("cancel", meta=MODERN), (1, MISSING)),
    ("undeclared, and of nobody", method("get", "x", meta=MODERN), (1, MISSING)),
    ("declared as false", method("get", meta=declared({NAME: False})), (1, MISSING)),
    ("declared as null", method("get", meta=declared({NAME: None})), (1, MISSING)),
    ("declared as a list", method("get", meta=declared([NAME])), (1, MISSING)),
    ("declared before, not now", method("get") + method("get", MINE, MODERN, 2), (1, RESULT), (2, MISSING)),
    ("in the legacy era", method("get", meta=...), (1, METHOD)),
    ("in the legacy era, declared", method("get", meta={CAPABILITIES: TASKS[CAPABILITIES]}), (1, METHOD)),
    ("in an era to come", method("get", meta=TASKS | {VERSION: "2027-07-28"}), (1, -32022)),
    ("another agent's", method("get", THEIRS), (1, PARAMS)),
    ("another agent's update", method("update", THEIRS), (1, PARAMS)),
    ("another agent's cancel", method("cancel", THEIRS), (1, PARAMS)),
    ("of an interface that is not served here", method("get", FOREIGN), (1, PARAMS)),
    *((f"the id {ident!r:.20}", method("get", ident), (1, PARAMS)) for ident in (
        ..., None, 5, 1.5, True, [], {}, [MINE], {"taskId": MINE}, "", MINE[:-1], MINE + "a", MINE + "\n",
        MINE.upper(), f" {MINE}", "a" * 31 + "\x00", "x" * 2**20, "../" + MINE, "' OR 1=1 --",
        "\u0661" * 32)),
    *((f"responses of {what!r:.20}", method("update", inputResponses=what), (1, PARAMS))
      for what in (..., None, [], "x", 1, True)),
    ("a task's id of the wrong case", method("cancel", MINE.upper()), (1, PARAMS)),
    ("what tasks once were", line_of("tasks/list", params={"_meta": TASKS})
     + line_of("tasks/result", 2, params={"_meta": TASKS, "taskId": MINE}), (1, METHOD), (2, METHOD)),
    ("a method in capitals", line_of("tasks/Get", params={"_meta": TASKS, "taskId": MINE}), (1, METHOD)),
    ("told and not asked", note("tasks/cancel", taskId=MINE, _meta=TASKS)),
    ("params of a list", line_of("tasks/get", params=[MINE]), (1, PARAMS)),
    ("an id that is no id", method("get", ident=None), (None, INVALID)),
    ("an id twice", method("get") + method("get"), (1, RESULT), (1, RESULT)),
    ("a submit without arguments", call(..., "film_make_submit", TASKS), (1, RESULT)),
    ("a submit that asks for a task undeclared", call({"text": "x"}, "film_make_submit", MODERN, task={}),
     (1, RESULT)),
    ("a submit that asks for a task", call({"text": "x"}, "film_make_submit", TASKS, task=5), (1, RESULT)),
    ("listening to tasks undeclared", line_of("subscriptions/listen",
     params={"_meta": MODERN, "notifications": {"taskIds": [MINE]}}), (1, MISSING)),
)  # fmt: skip


@pytest.mark.parametrize("row", ABUSE, ids=lambda row: row[0])
def test_what_is_asked_wrongly_about_tasks_is_refused_and_asks_nobody(row: tuple[Any, ...]) -> None:
    _, sent, *wanted = row

    async def test() -> None:
        films = Films()
        async with filming(films) as (_, agent):
            agent.send(sent, line_of("ping", "the end"))
            found = []
            while (one := heard(await agent.line())) != ("the end", RESULT):
                found.append(one)
            assert found == wanted
            assert set(films.asked) <= {"job"}

    run(test)


def test_a_ledger_that_cannot_be_asked_is_an_error_of_the_server_and_not_of_the_task() -> None:
    async def test() -> None:
        films = Films()
        async with filming(films) as (_, agent):
            films.refusal = Refusal("unavailable", "the ledger: a disk that is gone")
            for verb in ("get", "update", "cancel"):
                error = await told(agent, method(verb))
                assert error["code"] == INTERNAL
                assert "disk" not in error["message"]

    run(test)


def test_a_request_about_a_task_ends_with_its_time_its_cancel_its_session_and_its_connection() -> None:
    async def test() -> None:
        films = Films()
        films.is_silent = True
        async with filming(films) as (play, agent):
            agent.send(method("get"), method("get", ident=1), method("get", ident="2"))
            assert heard(await agent.line()) == (None, INVALID)  # its id is in use
            agent.send(note("notifications/cancelled", requestId="2"), line_of("ping", 3))
            assert heard(await agent.line()) == (3, RESULT)
            play.ahead[0] += 61
            assert heard(await agent.line()) == (1, INTERNAL)
            for late in films.waiting:
                late(films.job)
            async with play.agent() as leaving:
                leaving.send(method("get", ident=4), line_of("ping", 5))
                assert heard(await leaving.line()) == (5, RESULT)
            agent.send(method("get", ident=6), line_of("ping", 7))
            assert heard(await agent.line()) == (7, RESULT)
            play.router.forget("s1")
            assert heard(await agent.line()) == (6, INTERNAL)
            assert await agent.line() == b""

    run(test)


def test_nobody_asks_after_more_tasks_at_once_than_a_connection_may() -> None:
    async def test() -> None:
        films = Films()
        films.is_silent = True
        async with filming(films) as (_, agent):
            most = connection._MAX_FINDINGS
            agent.send(*(method("get", ident=n) for n in range(most + 1)))
            assert heard(await agent.line()) == (most, INTERNAL)
            for waits in films.waiting:
                waits(films.job)
            assert {heard(await agent.line()) for _ in range(most)} == {(n, RESULT) for n in range(most)}

    run(test)


def test_the_extension_is_advertised_where_a_tool_may_become_a_task_and_nowhere_else() -> None:
    def faced(tools: tuple[str, ...] | None = None) -> Face:
        return Face("film", "1", [stage.route(film(), tools=tools)])

    def advertised(at: Face) -> Any:
        return answered("server/discover", TASKS, at)["result"]["capabilities"].get("extensions")

    assert advertised(faced()) == {NAME: {}}
    assert answered("initialize", at=faced())["result"]["capabilities"] == {"tools": {}}
    # What an agent may not ask by a tool, it may not ask by a task.
    some = faced(("film_make_submit", "film_make_status", "film_make_result"))
    assert advertised(some) is None
    assert answered("tasks/get", TASKS, some, taskId=MINE)["error"]["code"] == METHOD
    made = ask("tools/call", TASKS, some, name="film_make_submit", arguments={"text": "x"})
    assert isinstance(made, Call)
    assert made.task == ""
    assert advertised(Face("echo", "1", [stage.route(stage.echo())])) is None


def test_a_client_that_has_tasks_is_told_of_the_answer_that_it_gets_in_the_end() -> None:
    at = Face("film", "1", [stage.route(film())])

    def listed(meta: Any = ...) -> dict[str, Any]:
        tools = answered("tools/list", meta, at)["result"]["tools"]
        return {one["name"]: one for one in tools}

    contract = {one["name"]: one for one in orjson.loads(film().tools_json)}
    assert listed() == listed(MODERN) == contract
    with_tasks = listed(TASKS)
    result = contract["film_make_result"]["outputSchema"]
    assert with_tasks.pop("film_make_submit") == contract.pop("film_make_submit") | {"outputSchema": result}
    assert with_tasks == contract


def test_a_request_is_about_a_job_only_once_its_form_is_right() -> None:
    at = Face("film", "1", [stage.route(film())])
    assert ask("tasks/get", TASKS, at, taskId=MINE) == AskTask(7, "get", MINE, "")
    finding = tasks.Finding(lambda: 0.0, AskTask(7, "get", MINE, ""), lambda *_: None)
    assert not finding.is_late()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
EXTENSIONS = JSON | st.dictionaries(st.sampled_from([NAME, "x"]), JSON, max_size=2) | st.just({NAME: {}})


@given(
    method=st.sampled_from(["tasks/get", "tasks/update", "tasks/cancel"]),
    version=st.sampled_from([MODERN[VERSION]] * 5 + ["2027-01-01", 5, None]),
    capabilities=JSON | st.builds(lambda one: {"extensions": one}, EXTENSIONS),
    handle=JSON | st.just(MINE),
    responses=JSON,
)
@settings(max_examples=300, deadline=None)
def test_only_a_whole_request_reaches_a_job(
    method: str, version: Any, capabilities: Any, handle: Any, responses: Any
) -> None:
    meta = {VERSION: version, CAPABILITIES: capabilities}
    got = ask(method, meta, FILM_FACE, taskId=handle, inputResponses=responses)
    is_ours = version == MODERN[VERSION] and type(capabilities) is dict
    extensions = capabilities.get("extensions") if is_ours else None
    has_tasks = type(extensions) is dict and type(extensions.get(NAME)) is dict
    is_right = handle == MINE and (method != "tasks/update" or type(responses) is dict)
    assert isinstance(got, AskTask) is (has_tasks and is_right)
    if isinstance(got, bytes):
        code = orjson.loads(got)["error"]["code"]
        wanted = PARAMS if has_tasks else MISSING
        assert code == wanted if is_ours else code in (PARAMS, -32022)


FILM_FACE = Face("film", "1", [stage.route(film())])


def test_an_answer_that_comes_after_the_connection_has_closed_is_nobodys() -> None:
    async def test() -> None:
        films = Films()
        films.is_silent = True
        async with filming(films) as (play, agent):
            async with play.agent() as leaving:
                leaving.send(method("get"), line_of("ping", 2))
                assert heard(await leaving.line()) == (2, RESULT)
            while not play.left:
                await asyncio.sleep(0.005)
            for late in films.waiting:
                late(films.job)
            assert (await agent.ask("ping", "ping"))["id"] == "ping"

    run(test)
