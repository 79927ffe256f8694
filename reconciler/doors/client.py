"""The command line's side of the control socket: one question, one answer, or a sentence why not.

Standard library only and blocking, since ``handler call`` uses it, too. What the controller refuses comes out
as ``Refused`` with its own words; that none runs is ``NoController``, which says how to start one.
"""

import os

from reconciler.control import folders
from reconciler.doors import lines, usage

ANSWER_S = 30.0  # what takes longer says so by its own timeout


class NoController(usage.Stopped):
    """No controller answers for this configuration; the text says how to start one."""


class Refused(usage.Stopped):
    """The controller understood and refused, or met a fault of its own; the text is its own."""


class Late(Refused):
    """The controller has the question, and did not answer in time."""


class Client:
    """The controller of one configuration. A connection is made for each question."""

    def __init__(self, given: str | None) -> None:
        self.config, self._state, run = folders.places(given)
        self.path = f"{run}/control.sock"

    def ask(self, method: str, params: lines.Json, timeout_s: float = ANSWER_S) -> lines.Json:
        """The controller's result, which is an object; raises ``NoController``, ``Refused``."""
        result = self._result(method, params, timeout_s)
        if not isinstance(result, dict):
            raise Refused(f"the controller's answer to {method} is of another version")
        return result

    def sessions(self) -> list[lines.Json]:
        """The open sessions; raises as ``ask`` does."""
        result = self._result("session.list", {}, ANSWER_S)
        return [one for one in result if isinstance(one, dict)] if isinstance(result, list) else []

    def _result(self, method: str, params: lines.Json, timeout_s: float) -> object:
        try:
            line = lines.Line(self.path)
        except BlockingIOError:
            raise NoController(f"the controller of {self.config} is too busy to answer: try again") from None
        except OSError as error:
            raise NoController(self._absent(error)) from None
        try:
            return line.ask(method, params, timeout_s)
        except lines.Fault as fault:
            raise Refused(str(fault)) from None
        except lines.Late:
            raise Late(f"the controller did not answer {method} within {timeout_s:g} s") from None
        except UnicodeEncodeError:
            raise usage.Usage("a word of the command is no text in UTF-8") from None
        except lines.Lost as fault:
            raise NoController(f"the controller of {self.config} left: {fault}") from None
        finally:
            line.close()

    def _absent(self, error: OSError) -> str:
        shown = usage.path_shown(self.config)
        if isinstance(error, PermissionError):
            return f"cannot reach the controller of {shown}: {os.strerror(error.errno or 0)} ({self.path})"
        if absent := folders.absent(self.config, shown):
            return absent
        if pid := self._holder():
            return (
                f"the controller of {shown} (pid {pid}) does not answer at {self.path}: it starts or "
                "stops, or somebody removed that socket, which it makes anew within reconcile.resyncSeconds"
            )
        return f"no controller runs for {shown}: start one with 'handlerd -c {shown}'"

    def _holder(self) -> int:
        """The process that holds the state folder, or 0."""
        from pathlib import Path  # noqa: PLC0415 - not needed where a controller answers

        from reconciler.control import lock  # noqa: PLC0415

        owner = lock.owner(Path(self._state))
        return owner.pid if owner else 0
