"""Reasons that the files and their source alone give: a real configuration and controller, no connector."""

import errno
from pathlib import Path
from typing import Any

import orjson
import pytest

from reconciler.control import inotify
from reconciler.control.loop import Controller
from reconciler.model.recipes import SandboxPolicy
from reconciler.model.status import InstanceSeen
from reconciler.runtime import limits
from reconciler.runtime.walls import told
from tests.control.test_loop import BINDING, CONFIG, House
from tests.control.test_signed import key, listed
from tests.kit.repos import Repo
from tests.reasons.telling import Shown, golden, shown

__all__ = ["shown"]

pytestmark = pytest.mark.slow

AGENT = 'apiVersion = "handler.agent/v1"\n'
VENDOR = """apiVersion = "handler.connector/v1"
name = "vendor"
description = "for tests"
implements = ["ocr/v1"]
runtime = "python"
[secretSlots.api_key]
env = "VENDOR_KEY"
required = true
"""
SPEAKS = """apiVersion = "handler.connector/v1"
name = "speaks"
description = "for tests"
implements = ["embed/v1"]
runtime = "dialect"
profiles = ["openai-embeddings.text-embedding-3@1"]
[secretSlots.api_key]
header = "Authorization: Bearer {}"
[tool.embed_compare]
operation = "embed"
needs = ["lookup.by=job-id"]
[tool.embed_lines]
operation = "embed"
[tool.embed_texts]
operation = "embed"
"""
VECTORS = """apiVersion = "handler.dialect-profile/v1"
[profile]
id = "acme.vectors"
revision = 1
dialect = "openai.embeddings@1"
provider = "acme"
models = ["acme-1"]
driver = "openai-embeddings@1"
[auth]
scheme = "none"
[transport]
base = "https://api.acme.example/v1"
[[operation]]
name = "embed"
method = "POST"
path = "/embeddings"
effect = "none"
result = "openai.embeddings.result@1"
required = ["model", "input"]
[operation.field.model]
type = "string"
[operation.field.input]
type = "array"
"""
LOCK = f"""apiVersion = "handler.lock/v1"
[profiles."acme.vectors@1"]
digest = "sha256:{"0" * 64}"
reviewedBy = "ada"
published = "2026-11-30"
"""
GATED = VENDOR.replace("vendor", "gated") + "[sandbox]\ngpu = true\n"
FILES = {
    "agents/clerk.toml": AGENT + 'requires = ["ocr/v1"]\nservices = { ocr = "a" }\n',
    "agents/bare.toml": AGENT + 'requires = ["ocr/v1"]\n',
    "agents/follower.toml": AGENT + 'services = { ocr = "nowhere" }\n',
    "bindings/typed.toml": BINDING + '[instance]\nidleStopSeconds = "long"\n',
    "bindings/misspelt.toml": BINDING + "suspendd = true\n",
    "bindings/nowhere.toml": BINDING.replace("tesseract", "tesserakt"),
    "bindings/pinned.toml": BINDING + f'connectorDigest = "sha256:{"0" * 64}"\n',
    "bindings/quiet.toml": BINDING + 'suspend = true\nsuspendReason = "until the invoices are in"\n',
    "bindings/merged.toml": f"<<<<<<< HEAD\n{BINDING}=======\n{BINDING}>>>>>>> theirs\n",
    "bindings/keyless.toml": BINDING.replace("ocr-tesseract", "vendor"),
    "bindings/keyed.toml": BINDING.replace("ocr-tesseract", "gated")
    + '[secrets]\napi_key = { env = "VENDOR_KEY" }\n',
    "bindings/played.toml": BINDING + 'cassette = { mode = "replay", path = "cassettes/ocr.jsonl" }\n',
    "bindings/taped.toml": BINDING + 'cassette = { mode = "record", path = "cassettes/ocr.jsonl" }\n',
    "bindings/shadowed.toml": BINDING + 'shadow = "a"\n',
    "bindings/letters.toml": BINDING,
    "bindings/Letters.toml": BINDING,
    "connectors/vendor/connector.toml": VENDOR,
    "connectors/vendor/main.py": "import handler_connector\n",
    "connectors/vendor/PROVISIONING.md": "Nothing.\n",
    "bindings/unstated.toml": BINDING.replace("ocr-tesseract", "speaks")
    + '[secrets]\napi_key = { env = "VENDOR_KEY" }\n',
    "connectors/speaks/connector.toml": SPEAKS,
    "connectors/speaks/PROVISIONING.md": "Nothing.\n",
    "profiles/acme.vectors/1/profile.toml": VECTORS,
    "handler.lock": LOCK,
    "connectors/gated/connector.toml": GATED,
    "connectors/gated/main.py": "import handler_connector\n",
    "connectors/gated/PROVISIONING.md": "Nothing.\n",
}
OBJECTS = {
    "Admitted": "connector/ocr-tesseract",
    "Idle": "binding/a",
    "Playing": "binding/played",
    "Recording": "binding/taped",
    "Shadowed": "binding/shadowed",
    "ReconcileSuccess": "agent/clerk",
    "SchemaInvalid": "binding/typed",
    "UnknownField": "binding/misspelt",
    "UnresolvedReference": "binding/nowhere",
    "WaitsFor": "agent/follower",
    "MissingRequirement": "agent/bare",
    "FrozenModified": "binding/pinned",
    "ProfileMutated": "profile/acme.vectors@1",
    "UnsupportedFact": "binding/unstated",
    "DuplicateName": "binding/letters",
    "MergeConflict": "binding/merged",
    "SecretUnresolved": "binding/keyless",
    "NotBuilt": "binding/keyed",
    "Suspended": "binding/quiet",
}


class Place(House):
    """A house whose texts are compared."""

    def __init__(self, folder: Path, shown: Shown) -> None:
        super().__init__(folder)
        self.shown = shown

    def gold(self, name: str, words: str) -> None:
        places = {self.place.config: "~/config", self.place.state: "~/state", self.place.run: "~/run"}
        golden(name, self.shown.told(self.place.state, words, places))

    def condition(self, kind: str, name: str, wanted: str) -> dict[str, Any]:
        path = self.place.state / f"status/{kind}/{name}.json"
        found = orjson.loads(path.read_bytes())["conditions"] if path.exists() else []
        return next((one for one in found if one["type"] == wanted), {})

    async def until_reason(self, reason: str) -> None:
        await self.until(lambda: self.synced()[1] == reason)


@pytest.fixture
def made(tmp_path: Path, shown: Shown) -> Place:
    (tmp_path / "home").mkdir()
    return Place(tmp_path / "home", shown)


def test_what_the_rules_say_of_a_text(made: Place) -> None:
    for path, text in FILES.items():
        made.write(path, text)

    async def story(controller: Controller) -> None:
        await made.until(lambda: len(made.objects()) >= len(OBJECTS))
        await controller.speak()
        for reason, ref in OBJECTS.items():
            made.gold(reason, f"describe {ref}")

    made.live(story)


def test_a_refused_edit_leaves_the_last_good_form(made: Place) -> None:
    async def story(controller: Controller) -> None:
        made.write("bindings/a.toml", BINDING + "suspendd = true\n")
        await made.until(lambda: made.condition("binding", "a", "Synced").get("status") == "False")
        made.gold("LastGoodRetained", "describe binding/a")

    made.live(story)


def test_what_is_removed_while_it_is_needed_waits_or_is_blocked(made: Place) -> None:
    made.write("bindings/b.toml", BINDING)
    made.write("bindings/c.toml", BINDING)
    made.write("agents/reader.toml", AGENT + 'services = { ocr = { binding = "b", version = 1 } }\n')

    async def story(controller: Controller) -> None:
        made.place.config.joinpath("bindings/b.toml").unlink()
        await made.until(lambda: made.condition("binding", "b", "Synced").get("reason") == "AwaitingApply")
        made.gold("AwaitingApply", "describe binding/b")
        for name in "ac":
            made.place.config.joinpath(f"bindings/{name}.toml").unlink()
        await made.until_reason("PruneBlocked")
        await controller.speak()
        made.gold("PruneBlocked", "describe binding/a")
        made.gold("PruneBlocked-configuration", "status")

    made.live(story)


def test_two_writers_of_one_object_are_slowed_down(made: Place) -> None:
    async def story(controller: Controller) -> None:
        turns = 0

        def fight() -> bool:
            nonlocal turns
            turns += 1
            made.write("bindings/a.toml", f'{BINDING}description = "{"left" if turns % 2 else "right"}"\n')
            return made.condition("binding", "a", "Synced").get("reason") == "Flapping"

        await made.until(fight)
        made.gold("Flapping", "describe binding/a")

    made.live(story)


def test_an_earlier_revision_is_served_on_purpose(made: Place) -> None:
    async def story(controller: Controller) -> None:
        made.write("bindings/b.toml", BINDING)
        await made.until(lambda: "binding/b" in made.objects())
        await controller.now(back_to="")
        await controller.speak()
        made.gold("RolledBack", "status")

    made.live(story)


def test_a_folder_that_is_away_or_in_the_middle_of_a_merge_ends_nothing(made: Place) -> None:
    repo = Repo(made.place.config)
    repo.commit({})

    async def story(controller: Controller) -> None:
        made.write(".git/MERGE_HEAD", f"{repo.head()}\n")
        await made.until_reason("SourceBusy")
        made.gold("SourceBusy", "status")
        made.place.config.rename(made.place.config.with_name("away"))
        await made.until_reason("SourceUnavailable")
        made.gold("SourceUnavailable", "status")

    made.live(story)


def test_a_commit_that_nobody_signed_is_refused(made: Place) -> None:
    mine = key(made.place.state.parent, "mine")
    allowed = made.place.state.parent / "allowed"
    allowed.write_text(listed(mine))
    repo = Repo(made.place.config)
    repo.git("config", "gpg.format", "ssh")
    gate = f'[source]\nmode = "commit"\nverify = "signed"\nallowedSigners = "{allowed}"\n'
    repo.commit({"handler.toml": CONFIG + gate}, f"--gpg-sign={mine}")

    async def story(controller: Controller) -> None:
        repo.commit({"bindings/b.toml": BINDING}, "--no-gpg-sign")
        await made.until_reason("SourceRefused")
        made.gold("SourceRefused", "status")

    made.live(story)


def test_a_watch_that_cannot_stand_is_said(made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> object:
        raise OSError(errno.ENOSPC, "no inotify watch is left: raise fs.inotify.max_user_watches")

    async def story(controller: Controller) -> None:
        await made.until_reason("WatchDegraded")
        await made.until(lambda: "binding/a" in made.objects())
        made.gold("WatchDegraded", "status")

    monkeypatch.setattr(inotify, "Watches", full)
    made.live(story)


def test_a_bound_that_this_machine_does_not_have_is_said(
    made: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An ordinary user without cgroups on a kernel before 5.14: nothing bounds the number of processes."""
    monkeypatch.setattr(limits, "_kernel", lambda: (5, 10))
    walls = told(limits.Limits("t", proc=tmp_path / "nothing", root=False).walls(), SandboxPolicy())

    async def story(controller: Controller) -> None:
        (name,) = made.runtime.declared
        seen = InstanceSeen(str(name), "idle", pid=4711, started_at="2026-11-30T10:00:00.000Z", walls=walls)
        monkeypatch.setattr(made.runtime, "observed", lambda: {seen.name: seen})
        controller.instance_changed(seen)
        await made.until(lambda: made.condition("binding", "a", "Contained") != {})
        await controller.speak()
        made.gold("Uncontained", "describe binding/a")

    made.live(story)


def test_a_fault_of_the_controllers_own_is_said(made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(controller: Controller) -> None:
        def broken(*_: object, **__: object) -> object:
            raise TypeError("a fault of ours")

        monkeypatch.setattr(controller.parts.looker, "look", broken)
        made.write("bindings/b.toml", BINDING)
        await made.until_reason("InternalError")
        await controller.speak()
        made.gold("InternalError", "status")

    made.live(story)
