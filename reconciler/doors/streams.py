"""The three standard streams, there even where whoever started us closed them (``>&-``, some launchers).

Else the first file or socket that is opened would get the number of one, and be read or written as if it were
it; and Python has no stream at all to write a sentence to. Imports nothing that is not there at every start.
"""

import os
import sys


def ensure() -> None:
    """Have something behind descriptors 0, 1 and 2, and streams of them in ``sys``: the null device where one
    was closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - gets the lowest number
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
