"""The filter, run by an interpreter of its own language: each verdict for each machine."""

import os
import struct
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.runtime import seccomp

pytestmark = pytest.mark.slow

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = seccomp.architectures()


@cache
def unpacked(machine: str) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("=HBBI", seccomp.program(machine)))


def verdict(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would answer: classic BPF over seccomp_data, from the packed bytes."""
    padded = [*arguments, *(0 for _ in range(6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", number, AUDIT[machine] if audit is None else audit, 0, *padded)
    code = unpacked(machine)
    tests = {0x15: int.__eq__, 0x25: int.__gt__, 0x35: int.__ge__, 0x45: int.__and__}
    at = accumulator = 0
    while True:
        operation, true, false, k = code[at]
        at += 1
        if operation == 0x06:
            return k
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, k)
        else:
            at += true if tests[operation](accumulator, k) else false


def number(machine: str, name: str) -> int:
    tables = (seccomp._REFUSED, seccomp._UNHEARD_OF, seccomp._WEIGHED)
    found = next(table[name] for table in tables if name in table)[MACHINES.index(machine)]
    assert found is not None
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_every_listed_call_has_its_own_verdict(machine: str) -> None:
    column = MACHINES.index(machine)
    for table, errno in ((seccomp._REFUSED, 1), (seccomp._UNHEARD_OF, 38)):
        for name, pair in table.items():
            if (listed := pair[column]) is not None:
                assert verdict(machine, listed) == ERRNO | errno, name


@pytest.mark.parametrize("machine", MACHINES)
@given(call=st.integers(0, 600), argument=st.integers(0, 2**64 - 1))
def test_what_is_not_listed_is_allowed_and_what_is_too_new_does_not_exist(
    machine: str, call: int, argument: int
) -> None:
    column = MACHINES.index(machine)
    tables = (seccomp._REFUSED, seccomp._UNHEARD_OF, seccomp._WEIGHED)
    listed = {pair[column] for table in tables for pair in table.values()}
    if call not in listed:
        assert verdict(machine, call, argument) == (ALLOW if call <= 469 else ERRNO | 38)


@pytest.mark.parametrize("machine", MACHINES)
@given(family=st.integers(0, 2**64 - 1))
def test_only_three_families_of_sockets_pass(machine: str, family: int) -> None:
    for name in ("socket", "socketpair"):
        expected = ALLOW if family & 0xFFFFFFFF in (1, 2, 10) else ERRNO | 97
        assert verdict(machine, number(machine, name), family) == expected


@pytest.mark.parametrize("machine", MACHINES)
@given(flags=st.integers(0, 2**32 - 1))
def test_threads_and_children_pass_but_no_new_namespace(machine: str, flags: int) -> None:
    spaces = 0x20000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
    assert verdict(machine, number(machine, "clone"), flags) == (ERRNO | 1 if flags & spaces else ALLOW)
    refused = flags & (spaces | 0x80)
    assert verdict(machine, number(machine, "unshare"), flags) == (ERRNO | 1 if refused else ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
@given(request=st.sampled_from([0x5412, 0x541C, 0x5413, 0x5401, 0]), high=st.integers(0, 2**32 - 1))
def test_nothing_is_typed_into_a_terminal(machine: str, request: int, high: int) -> None:
    refused = request in (0x5412, 0x541C)
    asked = verdict(machine, number(machine, "ioctl"), 0, request | high << 32)
    assert asked == (ERRNO | 1 if refused else ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
def test_only_the_plain_personality_may_be_asked_for(machine: str) -> None:
    call = number(machine, "personality")
    assert [verdict(machine, call, which) for which in (0, 0xFFFFFFFF)] == [ALLOW, ALLOW]
    assert verdict(machine, call, 0x0040000) == ERRNO | 1  # ADDR_NO_RANDOMIZE


@pytest.mark.parametrize("machine", MACHINES)
@given(audit=st.integers(0, 2**32 - 1), call=st.integers(0, 2**32 - 1))
def test_another_architecture_ends_the_process(machine: str, audit: int, call: int) -> None:
    if audit != AUDIT[machine]:
        assert verdict(machine, call, audit=audit) == KILL


@given(call=st.integers(0x40000000, 2**32 - 1))
def test_x32_ends_the_process(call: int) -> None:
    assert verdict("x86_64", call) == KILL


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.program("riscv64")


HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


@pytest.mark.skipif(
    not HEADER.is_file() or os.uname().machine != "x86_64", reason="the kernel's headers are not installed"
)
def test_the_numbers_are_the_kernels() -> None:
    defined = dict(
        line.split()[1:3] for line in HEADER.read_text().splitlines() if line.startswith("#define __NR_")
    )
    for table in (seccomp._REFUSED, seccomp._UNHEARD_OF, seccomp._WEIGHED):
        for name, pair in table.items():
            if f"__NR_{name}" in defined:
                assert int(defined[f"__NR_{name}"]) == pair[0], name
