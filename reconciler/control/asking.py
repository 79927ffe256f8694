"""What a person asks of a running controller beside an apply: to go back, or to look and try again now.

Neither is an apply. A rollback is explicit, so it may end service for what the later revision added; a
``reconcile`` decides as the timed look does: it does none of the removals that wait for a person.
"""

import time
from collections.abc import Callable
from typing import Any

from reconciler.control.looking import Look
from reconciler.control.loop import Controller
from reconciler.control.rolling import NotKept
from reconciler.control.rpc import Refused
from reconciler.control.status import iso
from reconciler.model.names import Kind, ObjectRef

Report = Callable[[Look | None, Look], dict[str, Any]]


async def roll_back(controller: Controller, wanted: str, report: Report) -> dict[str, Any]:
    """Serve an earlier revision; the report of an apply with the rollback. Raises ``Refused``."""
    before = controller.look
    try:
        found = await controller.now(explicit=True, back_to=wanted)
    except NotKept as fault:
        raise Refused(str(fault)) from None
    except OSError as error:
        raise Refused(f"the rollback cannot be written down: {error.strerror or error}") from None
    if not isinstance(found, Look):
        raise Refused(f"the configuration cannot be read now: {found.detail}")
    await controller.speak()
    rolled = controller.parts.looker.rolling.as_json()
    return {**report(before, found), "applied": True, "ready": controller.settled(), "rollback": rolled}


async def reconcile(controller: Controller, subject: str) -> dict[str, Any]:
    """Look now and try again what waits for its next try; what was looked at and tried. Raises ``Refused``
    for an object that there is not, and where the configuration cannot be read.
    """
    ref = _ref(controller, subject) if subject else None
    found = await controller.now()
    if not isinstance(found, Look):
        raise Refused(f"the configuration cannot be read now: {found.detail}")
    tried: tuple[object, ...] = ()
    if ref is None or ref.kind is Kind.BINDING:
        tried = controller.try_again(ref.name if ref else "")
    if ref is None:
        controller.parts.looker.handled = iso(time.time())
    await controller.speak()
    if ref is not None:
        controller.parts.board.handled((ref.kind.value, ref.name))
    return {
        "revision": found.admission.inventory.revision,
        "generation": controller.table.generation,
        "retried": sorted(map(str, tried)),
        "waiting": sorted(map(str, found.held)),
    }


def _ref(controller: Controller, subject: str) -> ObjectRef:
    try:
        ref = ObjectRef.parse(subject)
    except ValueError as fault:
        raise Refused(str(fault)) from None
    admission = controller.look.admission if controller.look else None
    if admission is None or not (
        ref in admission.in_force or ref in admission.refused or ref in admission.inventory.resources
    ):
        raise Refused(f"there is no {ref}")
    return ref


async def find_secrets(controller: Controller, binding: str) -> dict[str, Any]:
    """Whether each secret of a binding, or of all, is found now; ``Refused`` for what is none."""
    if binding:
        _ref(controller, f"binding/{binding}")
    found = await controller.parts.supervisor.find_secrets(binding)
    return {"secrets": [one.as_json() for one in found]}
