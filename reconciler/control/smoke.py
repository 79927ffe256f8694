"""Smoke cases: calls of an interface's own suite, through the real router, on an instance that is new.

Which cases is the binding's word (``conformance.smoke``); what passes is ``conformance.cases``' judgement.
Their calls are recorded like any others, as agent ``smoke/BINDING``. What a connector answered is judged and
never told: a fault names the case and what was expected.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from reconciler.admission.admit import Admission
from reconciler.conformance import cases
from reconciler.control import caserun
from reconciler.control.caserun import CaseRunner, Suite
from reconciler.control.proving import Demand
from reconciler.model.names import InstanceName, Kind, ObjectRef
from reconciler.model.problems import quoted
from reconciler.model.resources import Binding, Connector
from reconciler.router.server import Router


def asked(admission: Admission, binding: str) -> tuple[Suite, ...]:
    """What a binding asks of its new instances; () for most."""
    form = admission.in_force.get(ObjectRef(Kind.BINDING, binding))
    if form is None or not isinstance(form.spec, Binding) or not form.spec.conformance.smoke:
        return ()
    connector = admission.in_force.get(ObjectRef(Kind.CONNECTOR, form.spec.connector or ""))
    versions = connector.spec.implements if connector and isinstance(connector.spec, Connector) else ()
    names = form.spec.conformance.smoke
    found = []
    for version in versions:
        if (suite := caserun.suite_of(admission, version, form.spec)) is not None:
            wanted = tuple(case for case in suite.cases if case.name in names)
            found += [replace(suite, cases=wanted)] if wanted else []
    return tuple(found)


def digest(suites_asked: Sequence[Suite]) -> str:
    """What identifies what was asked: the versions, their cases and files; "" when nothing was."""
    if not suites_asked:
        return ""
    whole = hashlib.sha256()
    for one in suites_asked:
        whole.update(f"{one.contract.interface} {one.cases!r}\n".encode())
        for path, data in sorted(one.files.items()):
            whole.update(f"{hashlib.sha256(data).hexdigest()} {path}\n".encode())
    return whole.hexdigest()


class Smoke:
    """Runs smoke cases."""

    def __init__(
        self, router: Router, run: Path, *, token: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        """``token`` gives names that nobody else uses; ``clock`` is monotonic seconds."""
        self._runner = CaseRunner(router, run, token=token, clock=clock)

    def demand(self, admission: Admission, binding: str) -> Demand:
        """What a new instance of a binding has to show, beyond its first answer."""
        if found := asked(admission, binding):
            return Demand(digest(found), partial(self.faults, found))
        return Demand()

    async def faults(self, suites_asked: Sequence[Suite], instance: InstanceName) -> tuple[str, ...]:
        """Run all of it; each fault is one sentence, none: it passed. OSError: we could not ask."""
        faults: list[str] = []
        for suite in suites_asked:
            async with self._runner.opened(suite, instance, "smoke") as asking:
                for case in suite.cases:
                    outcome = await asking.ask(case)
                    name = f"smoke case {quoted(case.name)} of {suite.contract.interface}"
                    faults += [f"{name}: {fault}" for fault in cases.judge(case, outcome)]
        return tuple(faults)
