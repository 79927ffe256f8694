"""What the controller starts for each run of an agent's command: the sandbox around it, to its end.

Not for people: ``handler run --sandbox`` is. Its order says which session is open for it, and what to run;
its own end is the command's. It dies with the controller, and the sandbox with it.
"""

import ctypes
import os
import signal
import sys

import orjson

_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)
_MOST_TOLD = 2000  # characters of why it cannot begin


def main(words: list[str]) -> int:
    """``words`` are the controller's pid and the descriptors of the order and of what is said."""
    parent, order, tell = map(int, words)
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return 1
    with os.fdopen(order, "rb") as pipe:
        said = pipe.read()
    if not said:
        return 1
    os.set_inheritable(tell, False)  # noqa: FBT003 - its own signature
    try:
        return _work(orjson.loads(said))
    except Exception as fault:  # noqa: BLE001 - whatever it is, the controller is told of it
        os.write(tell, (str(fault) or type(fault).__name__)[:_MOST_TOLD].replace("\n", " ").encode() + b"\n")
        return 1


def _work(order: dict[str, object]) -> int:
    from reconciler.doors import boxing, outfit, running  # noqa: PLC0415 - nothing of it before it may die

    opened, command = order["opened"], order["command"]
    assert isinstance(opened, dict)  # noqa: S101 - the controller's own words
    assert isinstance(command, list)  # noqa: S101
    fitted = outfit.fitted(opened, command, str(opened["config"]))
    program = running.found(fitted.command[0])
    if not program:
        raise FileNotFoundError(f"there is no program {fitted.command[0]}")
    start = (program, fitted.command, fitted.environment)
    return boxing.run(boxing.Wish(), opened, start, quiet=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
