"""Converts with FFmpeg: the one job of the media interface, and what becomes of every failure.

``orders`` turns a wish into an argument list out of closed options; here the programs are run within bounds,
told to stop, and their ends understood. One job a process: it ends when its answer is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orders
from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call

_PROBE_S = 60.0
_SAID = 400  # characters of stderr that a diagnostic keeps
_MOST_BYTES = 536_870_912  # what media/v1 lets a file have
_MOST_SAID = 2**20


def convert(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``media_convert_submit``: the file that is wanted; what is answered is the job's result."""
    source = arguments["path"].path
    found = _probe(source)
    plan = orders.plan(arguments, found, threads=int(os.environ.get("MEDIA_THREADS") or 2))
    output = arguments["output"].path
    _run(["ffmpeg", *plan.words(source, _head(source), output)], plan.seconds, call)
    return _told(arguments["format"], output)


def _probe(path: str) -> orders.Found:
    words = ["ffprobe", *orders.look(path, _head(path))]
    try:
        ended = subprocess.run(words, capture_output=True, timeout=_PROBE_S, check=False)
    except FileNotFoundError as error:
        raise Failure("unavailable", "ffprobe is not there; see PROVISIONING.md") from error
    except subprocess.TimeoutExpired as error:
        raise Failure("unsupported_format", "it cannot be read in time") from error
    if ended.returncode:
        raise Failure("unsupported_format", _tail(ended.stderr))
    try:
        return orders.found(json.loads(ended.stdout[:_MOST_SAID]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Failure("unsupported_format", f"ffprobe said nothing of it: {error}") from error


def _head(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 3 ms
        return file.read(16)


def _run(words: Sequence[str], seconds: float, call: Call) -> None:
    """Run it to its end, telling how far it is. Raises Failure."""
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    except FileNotFoundError as error:
        raise Failure("unavailable", "ffmpeg is not there; see PROVISIONING.md") from error
    said: list[bytes] = []
    with child:
        listening = threading.Thread(target=_listen, args=(child, said), daemon=True)
        listening.start()
        longest_s = 60.0 * int(os.environ.get("MEDIA_LONGEST_MINUTES") or 120)
        late = threading.Timer(longest_s, child.kill)
        late.start()
        began = time.monotonic()
        try:
            _follow(child, seconds, call)
            code = child.wait()
        finally:
            late.cancel()
            if child.poll() is None:
                child.kill()
        listening.join()
    if code < 0 and time.monotonic() - began >= longest_s:
        raise Failure("too_large", f"it took more than {longest_s / 60:.0f} minutes")
    if code:
        words_of_it = _tail(b"".join(said))
        raise Failure(
            "unsupported_format" if code > 0 else "unavailable", f"ffmpeg ended {code}: {words_of_it}"
        )


def _follow(child: subprocess.Popen[bytes], seconds: float, call: Call) -> None:
    assert child.stdout is not None  # noqa: S101 - a pipe was asked for
    for line in child.stdout:
        if call.cancelled:
            raise Failure("unavailable", "it was cancelled", nothing_happened=True)
        name, _, value = line.partition(b"=")
        if name == b"out_time_us" and seconds and value.strip().isdigit():
            call.progress(min(1.0, int(value) / 1e6 / seconds), 1.0)


def _listen(child: subprocess.Popen[bytes], said: list[bytes]) -> None:
    """Keep the end of what it says: a file may make it say a lot."""
    assert child.stderr is not None  # noqa: S101 - as above
    while piece := child.stderr.read1(65536):
        said[:] = [b"".join(said)[-_SAID:] + piece]


def _told(form: str, path: str) -> dict[str, Any]:
    size = os.path.getsize(path) if os.path.exists(path) else 0  # noqa: PTH202, PTH110 - pathlib costs 3 ms
    if not size:
        raise Failure("nothing_to_convert", "nothing came of it")
    if size >= _MOST_BYTES:
        raise Failure("too_large", f"{size} bytes came of it")
    made = _probe(path)
    told: dict[str, Any] = {"format": form, "bytes": size, "hasSound": made.has_sound}
    if made.seconds and form not in orders.PICTURES:
        told["seconds"] = round(made.seconds, 3)
    if made.width and made.height:
        told |= {"width": made.width, "height": made.height}
    return told


def _tail(said: bytes) -> str:
    return " ".join(said.decode(errors="replace").split())[-_SAID:]


if __name__ == "__main__":
    serve({"media_convert_submit": convert})
