"""The arguments of a sandbox, as a pure function: both forms, order, and text that is never an option."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime import sandbox
from reconciler.runtime.sandbox import Host, Need, Place
from tests.runtime.rig import recipe

HOST = Host(
    bwrap="/usr/bin/bwrap",
    setpriv="/usr/bin/setpriv",
    root=True,
    interpreter="/root/python/bin/python3.11",
    mounts=(
        "/root/python",
        "/root/python/lib",
        "/usr/bin/setpriv",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
    ),
    links=(("/bin", "usr/bin"), ("/lib", "usr/lib")),
    hidden=("/root/python/lib/python3.11/site-packages",),
)
PERSON = replace(HOST, root=False, setpriv="")
PLACE = Place(
    app="/state/objects/abc",
    entry="main.py",
    kit="/state/objects/kit-1",
    environment="/state/envs/e",
    inbox="/run/user/0/i/x/in",
    uid=900_007,
    variables=(("HOME", "/tmp"), ("LANG", "C.UTF-8")),
)
ARITY = {
    **dict.fromkeys(("--clearenv", "--die-with-parent", "--disable-userns", "--new-session"), 0),
    **dict.fromkeys(
        (f"--unshare-{what}" for what in ("all", "cgroup-try", "ipc", "net", "pid", "user", "uts")), 0
    ),
    **dict.fromkeys(("--cap-add", "--cap-drop", "--chdir", "--dev", "--dir", "--gid", "--hostname"), 1),
    **dict.fromkeys(("--perms", "--proc", "--remount-ro", "--size", "--tmpfs", "--uid"), 1),
    **dict.fromkeys(("--bind", "--ro-bind", "--setenv", "--symlink"), 2),
}


def read(options: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The options as bubblewrap reads them; KeyError where text stands in an option's place."""
    found, at = [], 0
    while at < len(options):
        arity = ARITY[options[at]]
        found.append(options[at : at + 1 + arity])
        at += 1 + arity
    return found


def test_as_root_there_is_no_user_namespace_and_three_capabilities_to_step_down() -> None:
    options = read(sandbox.options(HOST, SandboxPolicy(), PLACE))
    names = {option[0] for option in options}
    assert not names & {"--unshare-user", "--unshare-all", "--uid"}
    assert names >= {"--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"}
    assert [option[1] for option in options if option[0] == "--cap-drop"] == ["ALL"]
    added = [option[1] for option in options if option[0] == "--cap-add"]
    assert added == ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"]
    command = sandbox.command(HOST, PLACE, 5, 7)
    assert command[:8] == (
        "/usr/bin/setpriv", "--reuid", "900007", "--regid", "900007", "--clear-groups", "--inh-caps=-all",
        "--bounding-set=-all",
    )  # fmt: skip
    assert command[8:13] == ("--no-new-privs", "/root/python/bin/python3.11", "-I", "-S", "-c")
    assert command[-3:] == ("5", "7", "main.py")


def test_as_a_person_there_is_a_user_namespace_and_no_further_one() -> None:
    options = read(sandbox.options(PERSON, SandboxPolicy(), PLACE))
    assert options[:3] == [("--unshare-all",), ("--unshare-user",), ("--disable-userns",)]
    assert options[3:5] == [("--uid", "65534"), ("--gid", "65534")]
    assert ("--cap-drop", "ALL") in options
    assert not [option for option in options if option[0] == "--cap-add"]
    assert sandbox.command(PERSON, PLACE, 5, 7)[0] == "/root/python/bin/python3.11"


@pytest.mark.parametrize("host", [HOST, PERSON])
def test_both_die_with_their_parent_and_start_from_nothing(host: Host) -> None:
    names = {option[0] for option in read(sandbox.options(host, SandboxPolicy(), PLACE))}
    assert names >= {"--die-with-parent", "--new-session", "--clearenv"}
    assert "--bind" not in names  # nothing of the host is writable


def test_everything_is_closed_for_writing_last() -> None:
    options = read(sandbox.options(HOST, SandboxPolicy(), PLACE))
    assert options[-3:] == [("--remount-ro", "/dev"), ("--remount-ro", "/"), ("--chdir", "/app")]


def test_scratch_and_outbox_are_bounded_and_in_memory() -> None:
    options = read(sandbox.options(HOST, SandboxPolicy(tmp_bytes=4711), PLACE))
    for path, mode, size in (("/tmp", "1777", "4711"), ("/run/connector/out", "0733", "4711")):
        at = options.index(("--tmpfs", path))
        assert options[at - 2 : at] == [("--perms", mode), ("--size", size)]
    person = read(sandbox.options(PERSON, SandboxPolicy(), PLACE))
    at = person.index(("--tmpfs", "/run/connector/out"))
    assert person[at - 2] == ("--perms", "0333")


def test_each_parent_of_a_mount_is_made_before_it_and_open_to_all() -> None:
    options = read(sandbox.options(HOST, SandboxPolicy(), PLACE))
    made = [option[1] for option in options if option[0] == "--dir"]
    assert {"/root", "/run", "/run/connector", "/usr", "/usr/bin", "/usr/lib"} <= set(made)
    first = next(place for place, option in enumerate(options) if option[0] == "--ro-bind")
    assert all(options.index(("--dir", path)) < first for path in made)


def test_what_lies_inside_another_mount_is_not_mounted_twice() -> None:
    options = read(sandbox.options(HOST, SandboxPolicy(), PLACE))
    inside = [option[2] for option in options if option[0] == "--ro-bind"]
    assert "/root/python" in inside
    assert "/root/python/lib" not in inside
    assert {"/app", "/kit", "/env", "/run/connector/in"} <= set(inside)


def test_without_an_environment_none_is_mounted() -> None:
    options = read(sandbox.options(HOST, SandboxPolicy(), replace(PLACE, environment="")))
    assert "/env" not in [option[-1] for option in options]


def test_a_program_in_an_odd_place_is_found_by_its_usual_name() -> None:
    need = Need(
        mounts=(("/opt/x/bin/engine", "/opt/x/bin/engine"),), link=("/usr/bin/engine", "/opt/x/bin/engine")
    )
    options = read(sandbox.options(HOST, SandboxPolicy(), replace(PLACE, needs=(need,))))
    assert ("--ro-bind", "/opt/x/bin/engine", "/opt/x/bin/engine") in options
    assert ("--symlink", "/opt/x/bin/engine", "/usr/bin/engine") in options
    assert ("--dir", "/opt/x/bin") in options


@given(value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30))
def test_a_setting_never_stands_where_an_option_can_start(value: str) -> None:
    place = replace(PLACE, variables=(("OCR_LANG", value),))
    assert ("--setenv", "OCR_LANG", value) in read(sandbox.options(HOST, SandboxPolicy(), place))


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "HOME", "HANDLER_X", "GLIBC_TUNABLES"]
)
def test_a_setting_that_would_steer_the_sandbox_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        sandbox.variables(recipe(settings=((name, "x"),)))


def test_the_environment_is_the_settings_and_five_of_ours() -> None:
    found = dict(sandbox.variables(recipe(settings=(("OCR_LANG", "deu"),))))
    assert found.pop("OCR_LANG") == "deu"
    assert set(found) == {"HANDLER_CONNECTOR_FD", "HANDLER_CONNECTOR_SOCKET", "HOME", "LANG", "PATH"}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/usr/share/tesseract-ocr", None),
        ("/srv/index", None),
        ("/", "wider"),
        ("/etc", "wider"),
        ("/home", "wider"),
        ("/proc/1", "'/proc'"),
        ("/run/user/1000", "'/run'"),
        ("/tmp/x", "'/tmp'"),
        ("/app", "'/app'"),
        ("relative", "absolute"),
        ("/srv/../etc", "'..'"),
    ],
)
def test_what_may_be_shown_to_a_connector(path: str, words: str | None) -> None:
    fault = sandbox.readable_fault(path)
    assert fault is None if words is None else fault is not None and words in fault
