"""The bounds of one agent's program: a control group of its own where one may be made, else resource limits.

Made by whoever starts the program, who may be a person at a terminal; its name carries the number of that
process, so that the next one finds what one that was killed has left.
"""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from reconciler.model.recipes import SandboxPolicy
from reconciler.runtime.limits import Group, Limits

_OWNER = "run-"
_LEAVE_TRIES = 50
_BOUND = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_NPROC)


@contextmanager
def kept(policy: SandboxPolicy) -> Iterator[Group]:
    """A group with the memory, processes and processors of this policy; at its end nothing is left of it.

    Of resource limits there are those that stand for them; open files are the program's own matter.
    """
    limits = Limits(f"{_OWNER}{os.getpid()}", root=False)  # in a namespace of its own, whoever we are
    limits.sweep_dead(_OWNER, lambda pid: Path("/proc", pid).exists())
    group = limits.group("program", policy, sets_aside=0)
    try:
        yield replace(group, resource_limits=tuple(one for one in group.resource_limits if one[0] in _BOUND))
    finally:
        group.kill()
        for _ in range(_LEAVE_TRIES):
            if limits.close():
                break
            time.sleep(0.01)  # the kernel still counts a dead process
