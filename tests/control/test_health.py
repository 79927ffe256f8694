"""Alive and ready: each check by its name, and the words of none of them tell of the configuration."""

from dataclasses import replace

import pytest

from reconciler.control import health
from reconciler.control.health import Vital
from reconciler.model.status import Condition, Reason, Truth

WELL = Vital(
    looked=True,
    source=Condition("Synced", "True", "ReconcileSuccess"),
    quiet_s=1.0,
    scan_s=2.0,
    faults=(("journal", ""), ("status", "")),
)


def source(status: Truth, reason: Reason) -> Condition:
    return Condition("Synced", status, reason, "/home/me/secret/config is gone")


@pytest.mark.parametrize(
    ("vital", "failed"),
    [
        (WELL, ()),
        (replace(WELL, looked=False), ("looked",)),
        (replace(WELL, quiet_s=1000.0), ("loop",)),
        (replace(WELL, quiet_s=1000.0, scan_s=3600.0), ()),
        (replace(WELL, source=source("False", "SourceUnavailable")), ("source",)),
        (replace(WELL, source=source("False", "InternalError")), ("source",)),
        (replace(WELL, source=source("False", "SourceBusy")), ()),
        (replace(WELL, source=source("False", "AwaitingApply")), ()),
        (replace(WELL, source=source("True", "WatchDegraded")), ()),
        (replace(WELL, faults=(("journal", "it cannot be written"), ("status", ""))), ("journal",)),
    ],
)
def test_not_ready_says_which_check_does_not_hold(vital: Vital, failed: tuple[str, ...]) -> None:
    checks = health.ready(vital)
    assert tuple(check.name for check in checks if check.fault) == failed
    status, text = health.told(checks, "readyz", verbose=False)
    assert status == (503 if failed else 200)
    assert [line.split()[0] for line in text.splitlines() if line.startswith("[-]")] == [
        f"[-]{name}" for name in failed
    ]
    assert "/home/me" not in text


def test_only_a_loop_that_stands_still_is_not_alive() -> None:
    gone = replace(WELL, looked=False, source=source("False", "SourceUnavailable"))
    assert all(not check.fault for check in health.alive(gone))
    assert health.told(health.alive(replace(WELL, quiet_s=999.0)), "livez", verbose=False)[0] == 503


def test_every_check_is_named_when_one_asks() -> None:
    assert health.told(health.ready(WELL), "readyz", verbose=False) == (200, "ok\n")
    assert health.told(health.ready(WELL), "readyz", verbose=True) == (
        200,
        (
            "[+]ping ok\n[+]loop ok\n[+]looked ok\n[+]source ok\n[+]journal ok\n[+]status ok\n"
            "readyz check passed\n"
        ),
    )
