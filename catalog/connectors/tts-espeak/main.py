"""Speaks with eSpeak NG: the one tool of the tts interface, and what becomes of every failure.

The program writes the file that the agent asked for, and nothing passes through memory. What it takes for
orders inside a text (control characters, phonemes in double brackets) is taken out before it sees them.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
import wave
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call

_PROGRAM = "espeak-ng"
_LONGEST_S = 100.0  # ten thousand characters take about three seconds
_LOOK_S = 0.1  # how soon a cancelled call ends its program
_SAID = 300  # characters of stderr that a diagnostic keeps
_SLOWEST, _FASTEST = 80, 450  # words a minute that the program takes
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_USUAL = {"en": "en-gb"}  # where several voices are as near to the code
_turn = threading.BoundedSemaphore(4)


def speak(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``tts_speak``: a WAV file that says the text, and how long it is."""
    voice = _voice(arguments.get("language") or os.environ.get("TTS_LANGUAGE") or "en")
    pace = int(os.environ.get("TTS_WORDS_PER_MINUTE") or 150) * arguments.get("speed", 1)
    rate = min(_FASTEST, max(_SLOWEST, round(pace)))
    output = arguments["output"].path
    words = ["-v", voice, "-s", str(rate), "-b", "1", "--stdin", "-w", output]
    with _turn:
        _run(words, spoken(arguments["text"]), call)
    return {"seconds": _length(output)}


def spoken(text: str) -> str:
    """The text without what the program would take for an order.

    Control characters steer it (byte 1 begins a command), and ``[[`` begins phonemes.
    """
    plain = _CONTROL.sub(" ", text)
    while "[[" in plain:
        plain = plain.replace("[[", "[ [")
    return plain


def _voice(language: str) -> str:
    """The voice for a two-letter code; raises Failure where there is none."""
    voices = _voices()
    if language not in voices:
        raise Failure("unsupported_language", f"no voice of {_PROGRAM} speaks {language!r}")
    return voices[language]


@cache
def _voices() -> dict[str, str]:
    """The voice for each two-letter code that is spoken: the code's own, else the first of its regions."""
    found: dict[str, str] = {}
    for row in _run(["--voices"]).splitlines()[1:]:
        columns = row.split()
        if len(columns) > 4 and not columns[4].startswith("mb/"):  # those need files of another project
            code = columns[1]
            found.setdefault(code, code)
            found.setdefault(code.partition("-")[0], code)
    return {code: _USUAL.get(code, voice) for code, voice in found.items() if len(code) == 2}


def _run(words: list[str], text: str = "", call: Call | None = None) -> str:
    """Run the program with a text to read; what it prints. Raises Failure ``unavailable`` when it cannot."""
    with os.fdopen(os.memfd_create("text"), "w+b") as source:
        source.write(text.encode())
        source.seek(0)
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen([_PROGRAM, *words], stdin=source, stdout=pipe, stderr=pipe)
        except FileNotFoundError as error:
            raise Failure("unavailable", f"{_PROGRAM} is not there; see PROVISIONING.md") from error
    with child:
        try:
            out, said = _wait(child, call)
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        words_of_it = said.decode(errors="replace").strip()[-_SAID:]
        raise Failure("unavailable", f"{_PROGRAM} ended with {child.returncode}: {words_of_it}")
    return out.decode(errors="replace")


def _wait(child: subprocess.Popen[bytes], call: Call | None) -> tuple[bytes, bytes]:
    until = time.monotonic() + _LONGEST_S
    while True:
        try:
            return child.communicate(timeout=_LOOK_S)
        except subprocess.TimeoutExpired:
            pass  # what it has printed so far is kept for the next look
        if call is not None and call.cancelled.is_set():
            raise Failure("unavailable", "the call was cancelled")
        if time.monotonic() > until:
            raise Failure("unavailable", f"{_PROGRAM} took longer than {_LONGEST_S:.0f} s")


def _length(path: str) -> float:
    try:
        with wave.open(path, "rb") as file:
            return round(file.getnframes() / file.getframerate(), 3)
    except (OSError, EOFError, wave.Error, ZeroDivisionError) as error:
        raise Failure("unavailable", f"{_PROGRAM} wrote no WAV file: {error}") from error


if __name__ == "__main__":
    serve({"tts_speak": speak})
