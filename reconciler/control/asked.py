"""What the control socket answers about consents: which wait, and a person's yes or no to one."""

import os
import pwd
from collections.abc import Mapping
from typing import Any

from reconciler.control import approvals
from reconciler.control.policing import Policing
from reconciler.control.rpc import Caller, Method, Refused


def table(policing: Policing) -> Mapping[str, Method]:
    """The methods, by name."""

    async def listed(params: Mapping[str, Any], caller: Caller) -> Any:
        """Every question that is kept, the newest first."""
        return {"approvals": [one.as_json() for one in policing.approvals.listed()]}

    async def answer(params: Mapping[str, Any], caller: Caller) -> Any:
        """A person's answer: ``id``, ``agreed``. It is written down before this answers."""
        number, agreed = str(params.get("id") or ""), params.get("agreed") is True
        try:
            told = policing.approvals.answer(number, _who(caller), agreed=agreed)
            return (await policing.approvals.kept(told)).as_json()
        except (approvals.Refused, OSError) as fault:
            raise Refused(str(fault)) from None

    return {"approvals": listed, "approve": answer}


def _who(caller: Caller) -> str:
    """Whoever asks: their account, which is the controller's own, and by which process."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a number without a name
        name = f"uid {os.geteuid()}"
    return f"{name} (pid {caller.process.pid})"
