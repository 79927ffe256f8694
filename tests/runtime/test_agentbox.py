"""The arguments of an agent's sandbox, as a pure function, and what of a machine its program is shown."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.runtime import agentbox, agenthost, host, wayout
from reconciler.runtime.agentbox import Box, Mount, Start

BOX = Box(
    home="/home/ada",
    cwd="/home/ada/work",
    user=(1000, 1000),
    mounts=(
        Mount("/real/deep", "/home/ada/work/deep"),
        Mount("/real/work", "/home/ada/work", writable=True),
        Mount("/usr", "/usr"),
    ),
    links=(("/bin", "usr/bin"),),
    covered=("/home/ada/work/state",),
    session=(Mount("/run/h/s/abc", "/run/h/s/abc"),),
    variables=(("PATH", "/usr/bin"),),
)


def triples(options: tuple[str, ...], name: str) -> list[tuple[str, str]]:
    return [(options[at + 1], options[at + 2]) for at, word in enumerate(options) if word == name]


def test_every_wall_stands_whatever_is_shown() -> None:
    for box in (BOX, replace(BOX, mounts=(), links=(), covered=(), session=(), variables=())):
        options = agentbox.options(box)
        for wall in (
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--die-with-parent",
            "--clearenv",
        ):
            assert wall in options
        assert options[options.index("--cap-drop") + 1] == "ALL"
        assert "--share-net" not in options
        assert "--new-session" not in options  # the terminal stays; the filter refuses to type into it
        remounts = [options[at + 1] for at, word in enumerate(options) if word == "--remount-ro"]
        assert remounts[-2:] == ["/dev", "/"]


def test_what_lies_inside_is_mounted_after_what_holds_it_and_covers_come_last() -> None:
    options = agentbox.options(BOX)
    assert triples(options, "--bind") == [("/real/work", "/home/ada/work")]
    order = [
        options.index(word) for word in ("/home/ada", "/real/work", "/real/deep", "/home/ada/work/state")
    ]
    assert order == sorted(order)
    assert options.index("/run/h/s/abc") > order[-1]
    assert triples(options, "--ro-bind") == [
        ("/usr", "/usr"), ("/real/deep", "/home/ada/work/deep"), ("/run/h/s/abc", "/run/h/s/abc"),
    ]  # fmt: skip


_WORDS = st.text(alphabet="ab-= /\n", min_size=1, max_size=12)


@given(st.lists(_WORDS, max_size=4), st.dictionaries(_WORDS, _WORDS, max_size=3))
def test_no_text_stands_where_an_option_can_start(words: list[str], values: dict[str, str]) -> None:
    options = agentbox.options(replace(BOX, variables=tuple(values.items())))
    plain = agentbox.options(replace(BOX, variables=()))
    at = plain.index("--proc")
    assert options[:at] == plain[:at]
    assert options[at + 3 * len(values) :] == plain[at:]
    given_ = options[at : at + 3 * len(values)]
    assert given_ == tuple(part for name, value in values.items() for part in ("--setenv", name, value))
    command = agentbox.command("/usr/bin/python3", Start("/bin/x", tuple(words)), 7)
    assert command[:4] == ("/usr/bin/python3", "-I", "-S", "-c")
    assert command[5:] == ("7", "0", "", "/bin/x", *words)


def test_the_environment_is_built_anew() -> None:
    outer = {"TERM": "xterm", "LC_ALL": "de_DE.UTF-8", "API_KEY": "k", "LD_PRELOAD": "x", "HOME": "/root"}
    found = agentbox.variables(outer, {"PATH": "/usr/bin", "SHELL": "/bin/zsh"}, "/home/ada", egress=())
    assert found == {
        "TERM": "xterm", "LC_ALL": "de_DE.UTF-8", "LANG": "C.UTF-8", "PATH": "/usr/bin", "HOME": "/home/ada",
        "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/zsh", "TMPDIR": "/tmp",
    }  # fmt: skip
    proxied = agentbox.variables(
        {}, {"HTTPS_PROXY": "http://elsewhere:1"}, "/home/ada", egress=["api.example.com:443"]
    )
    assert proxied["HTTPS_PROXY"] == proxied["https_proxy"] == wayout.ADDRESS


@pytest.mark.parametrize(
    ("listed", "inside"),
    [
        (["api.example.com:443"], "localhost,127.0.0.1,::1"),
        (["127.0.0.1:8099"], "localhost,::1"),
        (["[::1]:8099", "localhost:1"], "127.0.0.1"),
    ],
)
def test_what_is_listed_is_not_taken_for_the_sandboxs_own(listed: list[str], inside: str) -> None:
    found = wayout.variables(listed)
    assert found["NO_PROXY"] == found["no_proxy"] == inside


_WORD = 200  # a descriptor that nothing else has


def ran(start: Start, *before: str, word: bytes = b"1") -> "subprocess.CompletedProcess[str]":
    read, write = os.pipe()
    os.dup2(read, _WORD)
    os.write(write, word)
    os.close(write)
    try:
        words = (*before, *agentbox.command(sys.executable, start, _WORD))
        return subprocess.run(words, capture_output=True, text=True, check=False, pass_fds=(_WORD,))
    finally:
        os.close(read)
        os.close(_WORD)


def test_a_program_begins_at_a_word_and_is_not_handed_what_the_word_came_by() -> None:
    start = Start("/bin/sh", ("sh", "-c", f"echo begun; [ -e /proc/$$/fd/{_WORD} ] || echo closed"))
    assert ran(start).stdout == "begun\nclosed\n"
    gone = ran(start, word=b"")
    assert (gone.returncode, gone.stdout) == (126, "")


_BUILDER = """
import os, signal, sys
from reconciler.runtime import agentbox, agenthost, agentrun, limits, seccomp
bwrap, python, word = sys.argv[1:]
found = agenthost.system()
agenthost.add_program(found, python, (), ())
user = (os.geteuid() or 1000, os.getegid() or 1000)
box = agentbox.Box("/home/x", "/", user, found.as_mounts(), tuple(found.links.items()), (), (), ())
options = tuple(one for one in agentbox.options(box) if one != "--die-with-parent")  # it was not told yet
start = agentbox.Start("/bin/sh", ("sh", "-c", "echo begun"))
command = lambda own, number: agentbox.command(python, start, number)
filters = seccomp.program(os.uname().machine, routes=True)
group = limits.Group((), "rlimit", ())
_, told, unblock = agentrun._spawned(agentrun.Order(bwrap, options, command, filters, group), ())
while b"}" not in os.read(told, 4096): pass
os.write(unblock, word.encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize(("word", "said"), [("", ""), ("11", "begun\n")])
def test_a_sandbox_that_did_not_hear_of_its_builders_death_runs_nothing_without_its_word(
    word: str, said: str
) -> None:
    machine = host.survey()
    words = (sys.executable, "-c", _BUILDER, machine.bwrap, machine.interpreter, word)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, said, "")


def test_a_program_gets_its_signals_and_its_words_as_it_would_without_us() -> None:
    code = "import signal, sys; print([signal.getsignal(n) == signal.SIG_DFL for n in (2, 15)], sys.argv[1:])"
    start = Start(
        sys.executable, (sys.executable, "-c", code, "-x", "a b"), (), (signal.SIGINT, signal.SIGPIPE)
    )
    done = ran(start, "sh", "-c", 'trap "" INT TERM; exec "$@"', "sh")
    assert (
        done.stdout == "[False, False] ['-x', 'a b']\n"
    )  # Python handles SIGINT itself; SIGTERM stays ignored
    code = "trap - INT 2>/dev/null; grep -i sigign /proc/self/status"
    start = Start("/bin/sh", ("sh", "-c", code), (), (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ))
    ignored = int(ran(start).stdout.split()[1], 16)
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


# what is shown


@pytest.fixture
def land(tmp_path: Path) -> Path:
    """A home with programs installed in it in the usual ways."""
    home = tmp_path / "home"
    tools = home / ".nvm" / "v22"
    for folder in ("bin", "lib/node_modules/claude"):
        (tools / folder).mkdir(parents=True)
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "lib").mkdir()
    (home / ".local" / "share" / "claude").mkdir(parents=True)
    (home / ".ssh").mkdir()
    made(tools / "bin" / "node")
    made(tools / "lib" / "node_modules" / "claude" / "cli.js", "#!/usr/bin/env node\n")
    (tools / "bin" / "claude").symlink_to("../lib/node_modules/claude/cli.js")
    made(home / ".local" / "share" / "claude" / "2.1")
    (home / ".local" / "bin" / "claude").symlink_to(home / ".local" / "share" / "claude" / "2.1")
    made(home / "script", f"#!{tools}/bin/node --flag\n")
    return home


def made(path: Path, text: str = "x") -> None:
    path.write_text(text)
    path.chmod(0o755)


def found(home: Path, program: str, *search: str) -> agenthost.Found:
    shown = agenthost.Found()
    agenthost.add_program(shown, str(home / program), [str(home / one) for one in search], (str(home),))
    return shown


def test_a_program_is_shown_with_its_installation_and_its_interpreter(land: Path) -> None:
    tools = str(land / ".nvm/v22")
    shown = found(land, ".nvm/v22/bin/claude", ".nvm/v22/bin")
    assert shown.mounts == {tools: tools}
    assert shown.links == {}
    shown = found(land, "script")
    assert shown.mounts == {str(land / "script"): str(land / "script"), tools: tools}


def test_of_a_home_only_the_program_itself_is_shown(land: Path) -> None:
    shown = found(land, ".local/bin/claude")
    real = str(land / ".local/share/claude/2.1")
    assert shown.mounts == {real: real}
    assert shown.links == {str(land / ".local/bin/claude"): real}
    (land / "bin").mkdir()
    (land / "lib").mkdir()
    made(land / "bin" / "tool")
    assert found(land, "bin/tool").mounts == {str(land / "bin/tool"): str(land / "bin/tool")}


def test_what_lies_in_the_scope_does_not_say_what_is_shown_outside_of_it(land: Path) -> None:
    work, secret = land / "work", land / "secret"
    work.mkdir()
    (work / "tool").symlink_to(secret)
    (land / "tool").symlink_to(work / "tool")
    made(work / "script", f"#!{secret}\n")
    (land / "other").symlink_to(work / "script")
    secret.write_text("a key")
    for name, hidden in (("tool", secret), ("other", secret), ("work/script", secret)):
        shown = agenthost.Found()
        agenthost.add_program(shown, str(land / name), (), (str(land),), scope=(str(work),))
        assert str(secret) not in shown.mounts
        assert str(secret) not in shown.links
        assert agenthost.hidden_step(shown, str(land / name), (), (str(work),)) == str(hidden)


def test_scripts_that_run_each_other_are_no_fault(land: Path) -> None:
    made(land / "one", f"#!{land / 'two'}\n")
    made(land / "two", f"#!{land / 'one'}\n")
    shown = found(land, "one")
    assert set(shown.mounts) == {str(land / "one"), str(land / "two")}
    assert agenthost.hidden_step(shown, str(land / "one"), (), ()) == ""


def test_links_in_a_circle_and_programs_that_are_gone_are_no_fault(land: Path) -> None:
    (land / "a").symlink_to(land / "b")
    (land / "b").symlink_to(land / "a")
    found(land, "a")
    found(land, "gone")


def test_the_systems_secrets_are_not_shown() -> None:
    shown = agenthost.system()
    for path in ("/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/root", "/home", "/var", "/run", "/sys"):
        assert not agenthost.within(path, shown.mounts), path
    assert shown.mounts["/proc/sys"] == "/proc/sys"


def test_the_running_product_is_shown_and_no_whole_checkout() -> None:
    shown = agenthost.system()
    agenthost.add_ours(shown, ())
    assert shown.shows(os.path.realpath(sys.executable))
    assert shown.shows(os.path.realpath(agentbox.__file__))
    assert not shown.shows(os.path.realpath(__file__))


def test_a_folder_is_opened_without_following_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    there = (tmp_path / "real").stat()
    for name in ("real", "link"):
        assert agenthost.real_folder(str(tmp_path / name)) == (
            str((tmp_path / "real").resolve()), there.st_dev, there.st_ino,
        )  # fmt: skip
    with pytest.raises(OSError):
        agenthost.real_folder(str(tmp_path / "gone"))
