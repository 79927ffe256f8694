"""For ``open``: a pipe that lies in a file's place is an empty file, and nobody waits for its writer."""

import os


def opener(path: str, flags: int) -> int:
    """A descriptor, as ``open`` wants one; the caller closes it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
