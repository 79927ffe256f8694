"""The controller's own process as Prometheus' clients tell it: processor time, memory, descriptors."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from reconciler.control.exposition import Family, counter, gauge

_PAGE = os.sysconf("SC_PAGE_SIZE")


def families(started_at: float) -> Iterator[Family]:
    """The standard ``process_*`` metrics; ``started_at`` is wall clock seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    yield counter("process_cpu_seconds_total", "Processor time, of user and system.", seconds)
    yield gauge("process_start_time_seconds", "When it started.", started_at)
    yield gauge("process_resident_memory_bytes", "Memory that is resident.", _resident())
    yield gauge("process_open_fds", "Open descriptors.", _descriptors())
    yield gauge(
        "process_max_fds", "Descriptors that it may open.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    )


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are counted, not looked at
