"""References resolve to values within a time, or to a reason that tells nothing of them."""

import asyncio
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from reconciler.model.recipes import SecretUse
from reconciler.runtime import resolving
from reconciler.runtime.resolving import Resolver, Unresolved
from tests.kit.processes import descendants

pytestmark = pytest.mark.anyio
ENV_GONE = "the controller was started without that variable, or with nothing in it"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


VALUE = "sk-CANARY-4bd91f06"


def use(form: str, *words: str, via: str = "env") -> SecretUse:
    return SecretUse("key", form, words, env="KEY", via=via)


def python(code: str) -> SecretUse:
    return use("command", sys.executable, "-I", "-c", code)


async def found(one: SecretUse, root: Path = Path("/nowhere"), limit_s: float = 30) -> bytes:
    return (await Resolver(root, limit_s).one(one)).value.reveal()


async def fault(one: SecretUse, root: Path = Path("/nowhere"), limit_s: float = 30) -> Unresolved:
    with pytest.raises(Unresolved) as refused:
        await found(one, root, limit_s)
    assert VALUE not in str(refused.value)
    assert refused.value.__cause__ is None
    return refused.value


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(VALUE + "\n")
    return path


@pytest.mark.parametrize(
    ("printed", "via", "value"),
    [
        (VALUE, "env", VALUE),
        (VALUE + "\\n", "env", VALUE),
        (VALUE + "\\r\\n", "env", VALUE),
        (" " + VALUE + " ", "env", " " + VALUE + " "),
        (
            "-----BEGIN KEY-----\\nabc\\n-----END KEY-----\\n",
            "fd",
            "-----BEGIN KEY-----\nabc\n-----END KEY-----",
        ),
        ("-----BEGIN KEY-----\\nabc\\n", "file", "-----BEGIN KEY-----\nabc"),
        ("schlüsselwort", "env", "schlüsselwort"),
    ],
)
async def test_a_value_comes_without_its_last_newline(printed: str, via: str, value: str) -> None:
    one = python(f"import sys; sys.stdout.buffer.write('{printed}'.encode())")
    assert await found(SecretUse(one.slot, one.form, one.reference, one.env, via)) == value.encode()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("pass", "there is nothing"),
        ("print()", "there is nothing"),
        (f"print('{VALUE}'); raise SystemExit(3)", "its program ended with exit status 3"),
        (
            f"print('{VALUE}', flush=True); import os; os.kill(os.getpid(), 9)",
            "its program ended with signal 9",
        ),
        (f"print('{VALUE}'); print('more')", "it has several lines, or control characters"),
        (f"print('{VALUE}\\n')", "it has several lines, or control characters"),
        (f"print('{VALUE}\\0')", "it has several lines, or control characters"),
        (f"print('{VALUE}\\x1b[0m')", "it has several lines, or control characters"),
        ("import sys; sys.stdout.buffer.write(b'\\xff' * 20)", "it is not UTF-8 text"),
        ("print('short')", "it has fewer than 8 bytes, which no log could be kept free of"),
        ("print('x' * 65539)", "it has more than 65536 bytes"),
        ("while True: print('x' * 65536)", "it has more than 65536 bytes"),
        (
            f"import sys; sys.stderr.write('{VALUE}'); sys.exit('{VALUE}')",
            "its program ended with exit status 1",
        ),
    ],
)
async def test_what_is_no_secret_is_refused_in_words_without_it(code: str, words: str) -> None:
    refused = await fault(python(code))
    assert (refused.reason, refused.fault) == ("SecretUnresolved", words)
    assert descendants() == set()


@pytest.mark.parametrize("argv", [("/no/such/program",), ("no-such-program-anywhere",), ("/",), ("a\0b",)])
async def test_a_program_that_cannot_be_run_is_said(argv: tuple[str, ...]) -> None:
    assert (await fault(use("command", *argv))).fault.startswith("its program cannot be run: ")


async def test_a_command_that_hangs_is_ended_with_its_group() -> None:
    refused = await fault(use("command", "sh", "-c", "sleep 600 & sleep 600"), limit_s=0.3)
    assert (refused.reason, refused.fault) == ("SecretTimeout", "it took longer than 0.3 s")
    deadline = time.monotonic() + 30
    while descendants():  # the children of the killed shell are init's to reap
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_child_that_keeps_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    open({str(mark)!r} + "-", "w").write(str(os.getpid()))
    os.rename({str(mark)!r} + "-", {str(mark)!r})
    time.sleep(600)
while not os.path.exists({str(mark)!r}):
    time.sleep(0.001)
print({VALUE!r})
"""
    try:
        assert await found(python(code)) == VALUE.encode()
    finally:
        os.kill(int(mark.read_text()), 9)


async def test_a_command_gets_no_shell_no_input_no_terminal_and_a_clean_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", VALUE)
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    code = (
        "import os,sys; print(sorted(os.environ), sys.stdin.read(), os.getsid(0) == os.getpid(), sys.argv[1])"
    )
    one = python(code)
    told = (await found(use("command", *one.reference, "$HOME;`id`"))).decode()
    assert "SOME_API_KEY" not in told
    assert "PYTHONPATH" not in told
    assert "'PATH'" in told
    assert told.endswith(" True $HOME;`id`")


async def test_the_longest_value_comes_whole(key: Path) -> None:
    key.write_text("x" * 65536)
    assert len(await found(use("file", str(key)))) == 65536


async def test_a_file_of_ours_alone_is_read(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await found(use("file", str(key))) == VALUE.encode()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert await found(use("file", "~/key")) == VALUE.encode()
    (tmp_path / "link").symlink_to(key)
    assert await found(use("file", "~/link")) == VALUE.encode()


async def test_a_file_that_others_may_read_or_own_is_refused(key: Path) -> None:
    for mode in (0o640, 0o604, 0o620, 0o601):
        key.chmod(mode)
        assert (await fault(use("file", str(key)))).fault == "others may read it: chmod 600 it"
    key.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(key, 12345, 12345)
        assert (await fault(use("file", str(key)))).fault.startswith("it belongs to somebody else")


async def test_what_is_no_file_never_hangs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        assert (await fault(use("file", str(path)))).fault == "it is not a regular file"
    assert (await fault(use("file", str(tmp_path / "none")))).fault == "there is no such file"
    assert (await fault(use("file", "key"))).fault == "its path is not absolute: write it from '/' or '~/'"


async def test_a_plain_secret_in_the_configuration_is_refused(key: Path, tmp_path: Path) -> None:
    assert (await fault(use("file", str(key)), tmp_path)).fault.startswith("it lies in the configuration")


async def test_a_variable_is_taken_out_of_the_environment_and_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", VALUE)
    resolver = Resolver(Path("/nowhere"))
    resolver.claim([use("env", "MY_KEY")])
    assert "MY_KEY" not in os.environ
    for _ in range(2):
        assert (await resolver.one(use("env", "MY_KEY"))).value.reveal() == VALUE.encode()
    assert VALUE not in repr(resolver)
    assert (await fault(use("env", "OTHER_KEY_NOWHERE"))).fault == ENV_GONE


async def test_a_fingerprint_tells_a_change_and_belongs_to_its_resolver(key: Path) -> None:
    resolver, other = Resolver(Path("/nowhere")), Resolver(Path("/nowhere"))
    one = use("file", str(key))
    first = (await resolver.one(one)).value.fingerprint
    assert (await resolver.one(one)).value.fingerprint == first
    assert (await other.one(one)).value.fingerprint != first
    key.write_text(VALUE + "2")
    assert (await resolver.one(one)).value.fingerprint != first


async def test_a_credential_of_the_unit_is_read_by_its_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert "LoadCredential" in (await fault(use("systemd", "key"))).fault
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "key").write_text(VALUE)
    (tmp_path / "key").chmod(0o440)
    assert await found(use("systemd", "key")) == VALUE.encode()
    assert (await fault(use("systemd", "none"))).fault == "there is no such file"
    assert (await fault(use("systemd", "../key"))).fault == "a credential's name is a file's name"
    (tmp_path / "key").chmod(0o444)
    assert (await fault(use("systemd", "key"))).fault == "others may read it"


# A program that stands in for one that is not installed here: it checks how it is called, and prints.
STAND_IN = """#!{python} -I
import sys
assert sys.argv[1:] == {expected!r}, sys.argv
print({value!r})
"""


@pytest.mark.parametrize(
    ("form", "words", "program", "expected"),
    [
        ("age", ("file=s.age", "identity=id"), "age", ["--decrypt", "--identity", "@/id", "@/s.age"]),
        ("sops", ("file=s.yaml", "path=a.b-c.0"), "sops",
         ["--decrypt", "--extract", '["a"]["b-c"][0]', "@/s.yaml"]),
    ],
)  # fmt: skip
async def test_an_encrypted_file_of_the_configuration_is_opened_by_its_program(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    words: tuple[str, ...],
    program: str,
    expected: list[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "s.age").touch()
    (tmp_path / "s.yaml").touch()
    (tmp_path / "id").touch(mode=0o600)
    if program == "sops":
        assert (await fault(use(form, *words), tmp_path)).fault == "the program sops is not installed"
    text = STAND_IN.format(
        python=sys.executable, expected=[one.replace("@", str(tmp_path)) for one in expected], value=VALUE
    )
    (tmp_path / program).write_text(text)
    (tmp_path / program).chmod(0o755)
    assert await found(use(form, *words), tmp_path) == VALUE.encode()


@pytest.mark.parametrize(
    ("form", "words", "said"),
    [
        ("age", ("secrets/x.age",), "write { file = '…', identity = '…' }"),
        ("age", ("file=x.age", "identity=none"), "of the identity: there is no such file"),
        ("sops", ("file=x.yaml", "path=a b"), "path is not keys joined by dots, like 'mistral.key'"),
        ("sops", ("file=x.yaml", "path=a"), "there is no such file"),
        ("keyring", ("service=x",), "write { service = '…', user = '…' }"),
        ("vault", ("x",), "the form 'vault' is not known"),
    ],
)
async def test_a_reference_that_says_too_little_is_refused(
    tmp_path: Path, form: str, words: tuple[str, ...], said: str
) -> None:
    assert (await fault(use(form, *words), tmp_path)).fault == said


async def test_an_identity_that_others_may_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.age").touch()
    (tmp_path / "id").touch(mode=0o644)
    words = ("file=x.age", "identity=id")
    assert (
        await fault(use("age", *words), tmp_path)
    ).fault == "of the identity: others may read it: chmod 600 it"


async def test_a_file_of_age_opens_with_the_real_program(tmp_path: Path) -> None:
    if shutil.which("age") is None or shutil.which("age-keygen") is None:
        pytest.skip("age is not installed: apt install age")
    for argv in (
        ("age-keygen", "-o", "id"),
        ("sh", "-c", f"printf {VALUE} | age -r $(age-keygen -y id) -o x.age"),
    ):
        child = await asyncio.create_subprocess_exec(*argv, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL)
        assert await child.wait() == 0
    assert await found(use("age", "file=x.age", "identity=id"), tmp_path) == VALUE.encode()


async def test_all_slots_resolve_at_the_same_time_and_the_first_fault_ends_the_others() -> None:
    slow, bad = use("command", "sleep", "600"), use("command", "false")
    with pytest.raises(Unresolved, match="exit status 1"):
        await Resolver(Path("/nowhere"), 30).resolve((bad, slow))
    assert descendants() == set()
    assert resolving.LIMIT_S == 10


NOWHERE = "its path leads nowhere: '~' is nobody's home, or links lead round in a ring"


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (use("file", "/tmp/a\0b"), "its path holds a NUL character"),
        (use("systemd", "a\0b"), "its path holds a NUL character"),
        (use("age", "file=a", "identity=/a\0b"), "its path holds a NUL character"),
        (use("file", "~nobody-at-all/key"), NOWHERE),
        (use("age", "file=a", "identity=~nobody-at-all/key"), NOWHERE),
        (use("sops", "file=~nobody-at-all/a", "path=a"), NOWHERE),
    ],
)
async def test_a_path_that_no_file_can_have_is_an_answer_at_once(
    one: SecretUse, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    told = await fault(one, tmp_path / "config")
    assert (told.reason, told.fault) == ("SecretUnresolved", words)


async def test_links_that_lead_in_a_ring_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to("ring")
    told = await fault(use("file", str(tmp_path / "ring")), tmp_path / "config")
    assert told.reason == "SecretUnresolved"
    assert "in a ring" in told.fault or "symbolic links" in told.fault


@pytest.mark.parametrize(
    ("text", "via", "words"),
    [
        (" " + VALUE, "gate", "it begins or ends with a space, which no header can"),
        (VALUE + " \n", "gate", "it begins or ends with a space, which no header can"),
        ("\ufeff" + VALUE, "env", "it begins with a byte order mark: save it as plain UTF-8"),
    ],
)
async def test_what_an_editor_adds_is_no_part_of_a_secret(
    text: str, via: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(text)
    one = SecretUse("key", "file", (str(path),), "KEY", via)
    assert (await fault(one, tmp_path / "config")).fault == words


@pytest.mark.parametrize("more", [0, 1])
async def test_the_newline_does_not_count_among_its_bytes(more: int, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text("k" * (resolving.MOST_BYTES + more) + "\n")
    one = use("file", str(path))
    if more:
        assert (await fault(one, tmp_path / "config")).fault == "it has more than 65536 bytes"
    else:
        assert len(await found(one, tmp_path / "config")) == resolving.MOST_BYTES


async def test_whether_a_start_would_find_a_secret_is_told_without_running_a_program(tmp_path: Path) -> None:
    """Each form that lies in a file or the environment is looked at; a program's output is not asked for."""
    ran = tmp_path / "ran"
    file, shown = tmp_path / "key", tmp_path / "shown"
    file.touch(mode=0o600)
    file.write_text("sk-there-0000")
    shown.write_text("sk-there-0000")
    shown.chmod(0o644)
    told = {
        ("file", (str(file),)): "",
        ("file", (str(tmp_path / "none"),)): "there is no such file",
        ("file", (str(shown),)): "others may read it: chmod 600 it",
        ("env", ("NOPE_NEVER_SET",)): ENV_GONE,
        ("command", ("touch", str(ran))): "",
        ("age", ("file=none.age", f"identity={file}")): "there is no such file",
        ("age", ("file=none.age", f"identity={tmp_path}/nobody")): "of the identity: there is no such file",
        ("sops", ("file=none.yaml", "path=a.b")): "there is no such file",
    }
    resolver = Resolver(tmp_path / "config")
    found = {
        (form, words): await resolver.unfound(SecretUse("key", form, words, env="KEY", via="fd"))
        for form, words in told
    }
    assert found == told
    assert not ran.exists()
