"""Writes down speech with PocketSphinx: the two tools of the transcribe interface, and every failure's word.

``audio`` opens recordings and finds the speech in them, ``engine`` hears one piece of speech. The engine is
one for all callers and takes their pieces in turn, so a short message does not wait for a whole lecture.
Model and libraries load with the first recording, not with the start: saying that one is ready needs neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from handler_connector import Failure, serve

if TYPE_CHECKING:
    from handler_connector import Call

_LONGEST_MINUTES = 240  # what transcribe/v1 calls too long everywhere
_LANGUAGE = "en"


def transcribe(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``transcribe_audio``: what is said, whole and in pieces with their times."""
    segments, seconds = _heard(arguments, call)
    text = " ".join(segment["text"] for segment in segments)
    return {"text": text, "segments": segments, "seconds": seconds}


def transcribe_to_file(arguments: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """``transcribe_audio_to_file``: the pieces as WebVTT."""
    segments, seconds = _heard(arguments, call)
    arguments["output"].write("".join(_webvtt(segments)).encode())
    characters = sum(len(segment["text"]) for segment in segments)
    return {"segments": len(segments), "characters": characters, "seconds": seconds}


def _heard(arguments: Mapping[str, Any], call: Call) -> tuple[list[dict[str, Any]], float]:
    """The pieces in which something was heard, and the length of the recording in seconds."""
    import audio  # noqa: PLC0415 - numpy and libsndfile, which the start does not need
    import engine  # noqa: PLC0415 - as above

    if arguments.get("language", _LANGUAGE) != _LANGUAGE:
        raise Failure("unsupported_language", "the model knows English alone")
    minutes = min(_LONGEST_MINUTES, int(os.environ.get("TRANSCRIBE_MAX_MINUTES") or 10))
    segments = []
    try:
        with audio.opened(str(arguments["path"].path)) as recording:
            if recording.seconds > minutes * 60:
                raise Failure("too_large", f"{recording.seconds:.0f} s, more than {minutes} minutes")
            for piece in recording.speech():
                if call.cancelled.is_set():
                    raise Failure("unavailable", "the call was cancelled")
                if text := engine.heard(piece.samples):
                    segments.append({"start": piece.start, "end": piece.end, "text": text})
                call.progress(piece.end, recording.seconds)
            return segments, recording.seconds
    except audio.UnreadableError as error:
        raise Failure("unsupported_format", str(error)) from error


def _webvtt(segments: list[dict[str, Any]]) -> Iterator[str]:
    """https://www.w3.org/TR/webvtt1/, cue by cue."""
    yield "WEBVTT\n"
    for segment in segments:
        yield f"\n{_clock(segment['start'])} --> {_clock(segment['end'])}\n{segment['text']}\n"


def _clock(seconds: float) -> str:
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}.{whole % 1000:03}"


if __name__ == "__main__":
    serve({"transcribe_audio": transcribe, "transcribe_audio_to_file": transcribe_to_file})
