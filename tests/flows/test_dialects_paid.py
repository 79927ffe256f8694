"""What a dialect's call costs is kept before it is sent, with its exact bytes, and never sent twice."""

import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempts.ledger import Ledger
from reconciler.attempts.records import Attempt, State
from tests.kit import vendors
from tests.kit.effort import times
from tests.kit.house import BIN, House, house, wait_for
from tests.kit.vendors import Vendor, vendor

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

CATALOG = Path(__file__).resolve().parents[2] / "catalog"
KEY = "sk-CANARY-dialect-01"
AGENT = """apiVersion = "handler.agent/v1"
scope = [{{ path = "{inbox}", access = "write" }}]
[services]
image-gen = "pictures"
tts = "voice"
transcribe = "words"
video-gen = "films"
embed = "vectors"
"""
OURS = {
    "pictures": ("image-openai", "openai-images.gpt-image-2"),
    "voice": ("tts-openai", "openai-speech.gpt-4o-mini-tts"),
    "words": ("transcribe-openai", "openai-audio.whisper-1"),
    "vectors": ("embed-openai", "openai-embeddings.text-embedding-3"),
    "router": ("video-openrouter", "openrouter-videos.generic"),
    "own": ("video-vllm", "vllm-omni-videos.generic"),
}
BASES = ("https://api.openai.com/v1", "https://openrouter.ai/api/v1")
FILMS = [("own", "makes"), ("router", "makes-pending")]  # the second where there is time
ADDRESS = '[settings.baseUrl]\ndescription = "the server"\nformat = "url"\nrequired = true\n'
INTERVAL = re.compile(r"minIntervalSeconds = \d+")


@pytest.fixture(scope="module")
def far() -> Iterator[Vendor]:
    with vendor() as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, far: Vendor) -> Iterator[House]:
    """The connectors that ship, at a server of our own: their profiles with another address."""
    with house(tmp_path_factory.mktemp("paid")) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        key = made.state.parent / "key"
        key.touch(mode=0o600)
        key.write_text(KEY)
        for name, (connector, profile) in OURS.items():
            facts = (CATALOG / "profiles" / profile / "1/profile.toml").read_text()
            for base in BASES:
                facts = facts.replace(base, "binding")
            facts = INTERVAL.sub("minIntervalSeconds = 0.1", facts.replace(profile, f"here-{name}"))
            made.write(f"profiles/here-{name}/1/profile.toml", facts)
            text = (CATALOG / "connectors" / connector / "connector.toml").read_text()
            text = text.replace(f"{profile}@1", f"here-{name}@1").replace(f'"{connector}"', f'"here-{name}"')
            if "settings.baseUrl" not in text:
                text = text.replace("[tool.", f"{ADDRESS}[tool.", 1)
            made.write(f"connectors/here-{name}/connector.toml", text)
            made.write(f"connectors/here-{name}/PROVISIONING.md", "nothing\n")
            bound = f'apiVersion = "handler.binding/v1"\nconnector = "here-{name}"\n'
            if "videos" in profile:
                bound += 'models = ["m-1"]\n'
            if "api_key" in text:
                bound += f'secrets.api_key = {{ file = "{key}" }}\n'
            made.write(f"bindings/{name}.toml", f'{bound}[settings]\nbaseUrl = "{far.base}"\n')
        made.write(
            "bindings/films.toml",
            'apiVersion = "handler.binding/v1"\nconnector = "video-vllm"\nmodels = ["m-1"]\n'
            f'[settings]\nbaseUrl = "{far.base}"\n',
        )
        made.write("agents/clerk.toml", AGENT.format(inbox=made.inbox))
        made.start()
        made.handler("apply", "--wait")
        yield made


def begun(made: House, tool: str, **arguments: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [BIN / "handler", "call", tool, "--json", json.dumps(arguments), "--agent", "clerk", "-o", "json"],
        env=made.env, cwd=made.inbox, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def called(made: House, tool: str, **arguments: Any) -> dict[str, Any]:
    out, err = begun(made, tool, **arguments).communicate(timeout=90)
    assert out, err
    answer: dict[str, Any] = json.loads(out)
    return answer


def attempts(made: House, tool: str) -> list[Attempt]:
    if not (made.state / "ledger.db").exists():
        return []
    ledger = Ledger.read(made.state)
    try:
        return [one for one in ledger.listing(1000) if one.tool == tool]
    finally:
        ledger.close()


def test_a_picture_is_made_paid_for_once_and_kept(place: House, far: Vendor) -> None:
    far.received.clear()
    answer = called(place, "image_gen_create", prompt="a lake", output="a.png", shape="portrait")
    assert (answer["width"], answer["height"]) == (1, 1)
    assert (place.inbox / "a.png").read_bytes() == vendors.PNG
    (sent,) = far.received
    assert (sent.headers["authorization"], sent.fields["size"]) == (f"Bearer {KEY}", "1024x1536")
    one = max(attempts(place, "image_gen_create"), key=lambda one: one.id)
    assert (one.state, one.grade, one.effect, one.transmissions) == (State.SUCCEEDED, "wire", "paid", 1)
    assert (one.request.destination, one.execution.profile) == (far.base[:-3], "here-pictures@1")
    assert one.request.wire_digest.startswith("sha256:")
    sealed = place.state / "sealed"
    assert not sealed.exists() or not [*sealed.rglob(one.id)]  # over: nothing is sent again


def test_sounds_become_words_and_words_sounds(place: House, far: Vendor) -> None:
    far.received.clear()
    called(place, "tts_speak", text="Good morning.", output="a.wav")
    assert (place.inbox / "a.wav").read_bytes() == vendors.WAV
    heard = called(place, "transcribe_audio", path="a.wav", language="en")
    assert heard["text"]
    spoken, written = far.received
    assert (spoken.fields["input"], spoken.fields["response_format"]) == ("Good morning.", "wav")
    ((name, data),) = written.files["file"]
    assert (name, data) == ("a.wav", vendors.WAV)
    called(place, "transcribe_audio_to_file", path="a.wav", output="a.vtt")
    assert (place.inbox / "a.vtt").read_text().startswith("WEBVTT\n")


def test_texts_are_compared_and_the_lines_of_a_file_become_vectors(place: House, far: Vendor) -> None:
    far.received.clear()
    ranked = called(place, "embed_compare", query="abcd", texts=["a", "abcde"])["ranking"]
    assert [one["index"] for one in ranked] == [1, 0]
    found = called(place, "embed_texts", texts=["abc"], kind="query")
    assert found == {"vectors": [[0.986394, 0.164399]], "dimensions": 2}
    (place.inbox / "texts.txt").write_text("one\n\nthree\n")
    asked = {"path": "texts.txt", "kind": "document"}
    assert called(place, "embed_lines", **asked, output="v.jsonl") == {"lines": 2, "dimensions": 2}
    rows = [json.loads(line) for line in (place.inbox / "v.jsonl").read_text().splitlines()]
    assert [one["line"] for one in rows] == [1, 3]
    sent = [one.fields["input"] for one in far.received]
    assert sent == [["abcd", "a", "abcde"], ["abc"], ["one", "three"]]
    assert {(one.fields["dimensions"], one.fields["model"]) for one in far.received} == {
        (512, "text-embedding-3-small")
    }
    (place.inbox / "texts.txt").write_text("x\n" * 2049)
    assert called(place, "embed_lines", **asked, output="w.jsonl")["error"] == "too_large"
    (place.inbox / "texts.txt").write_bytes(b"\xff")
    assert called(place, "embed_lines", **asked, output="w.jsonl")["error"] == "unsupported_format"
    assert len(far.received) == 3
    assert not (place.inbox / "w.jsonl").exists()


def test_a_film_is_made_while_the_controller_is_killed_and_comes_to_whoever_asks(
    place: House, far: Vendor
) -> None:
    far.received.clear()
    before = len(far.jobs)
    job = called(place, "video_gen_submit", prompt="a lake", output="a.mp4", shape="square")["job"]
    wait_for(
        lambda: any(one.provider.job_id for one in attempts(place, "video_gen_submit")), "its id is kept"
    )
    place.kill()
    place.start()
    place.handler("apply", "--wait")
    assert len(far.jobs) == before + 1
    film = list(far.jobs.values())[-1]
    film["status"] = "completed"

    def done() -> bool:
        return bool(called(place, "video_gen_status", job=job)["state"] == "succeeded")

    wait_for(done, "the film is made")
    assert called(place, "video_gen_result", job=job) == {"bytes": len(vendors.MP4)}
    assert (place.inbox / "a.mp4").read_bytes() == vendors.MP4
    assert len([one for one in far.received if one.method == "POST"]) == 1


def test_what_a_profile_does_not_state_is_neither_sent_nor_kept(place: House, far: Vendor) -> None:
    far.received.clear()
    before = len(attempts(place, "tts_speak"))
    assert called(place, "tts_speak", text="x" * 5000, output="b.wav")["error"] == "invalid_input"
    with zipfile.ZipFile(place.inbox / "archive.zip", "w") as archive:
        archive.writestr("total.wav", vendors.WAV)
    assert called(place, "transcribe_audio", path="archive.zip")["error"] == "unsupported_format"
    (place.inbox / "long.wav").write_bytes(vendors.WAV + bytes(26_300_000))
    assert called(place, "transcribe_audio", path="long.wav")["error"] == "too_large"
    unseen = "\u200b\u2060\u200b"
    assert called(place, "image_gen_create", prompt=unseen, output="b.png")["error"] == "unsupported_prompt"
    assert (far.received, len(attempts(place, "tts_speak"))) == ([], before)


@pytest.mark.parametrize(("name", "manner"), FILMS[: times(1)])
def test_connectors_of_films_keep_what_their_interface_promises(
    place: House, far: Vendor, name: str, manner: str
) -> None:
    far.manner = manner
    words = ("--binding", name, "--live", "--allow-effects", "-o", "json")
    try:
        done = place.handler("connector", "check", f"here-{name}", *words, check=False)
    finally:
        far.manner = ""
    verdicts = {one["name"]: one["verdict"] for one in json.loads(done.stdout)["results"]}
    assert (set(verdicts.values()), len(verdicts), done.returncode) == ({"passed"}, 5, 0), verdicts


@pytest.mark.parametrize(
    ("manner", "code", "state"),
    [
        ("status-400-moderation_blocked", "unsupported_prompt", State.FAILED),
        ("status-500", "unavailable", State.INDETERMINATE),
        ("garbage", "unavailable", State.INDETERMINATE),
        ("redirects", "unavailable", State.INDETERMINATE),
    ],
)
def test_how_it_ended_is_kept_as_far_as_it_is_proved(
    place: House, far: Vendor, manner: str, code: str, state: State
) -> None:
    far.manner = manner
    far.received.clear()
    try:
        assert called(place, "image_gen_create", prompt="a lake", output="c.png")["error"] == code
    finally:
        far.manner = ""
    newest = max(attempts(place, "image_gen_create"), key=lambda one: one.id)
    assert (newest.state, newest.transmissions, len(far.received)) == (state, 1, 1)
    answer = called(place, "image_gen_create", prompt="a lake", output=f"{manner}.png")
    assert answer["width"] == 1  # so that it counts as ready again


def test_a_controller_that_dies_after_it_sent_knows_that_it_does_not_know(place: House, far: Vendor) -> None:
    far.manner = "holds"
    far.received.clear()
    call = begun(place, "image_gen_create", prompt="a lake", output="d.png")
    wait_for(lambda: bool(far.received), "the request arrived")
    newest = max(attempts(place, "image_gen_create"), key=lambda one: one.id)
    assert newest.state is State.SUBMITTING
    kept = [path for path in place.state.rglob(f"*{newest.id}*") if path.is_file()]
    assert kept
    assert all(
        b'"prompt":"a lake"' in path.read_bytes() and KEY.encode() not in path.read_bytes() for path in kept
    )
    place.kill()
    call.communicate(timeout=90)
    far.manner = ""
    far.over.set()
    place.start()
    place.handler("apply", "--wait")

    def parked() -> bool:
        return max(attempts(place, "image_gen_create"), key=lambda one: one.id).state is State.INDETERMINATE

    wait_for(parked, "what was left is told to be unknown")
    assert len(far.received) == 1
    assert not [
        path for path in place.state.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
