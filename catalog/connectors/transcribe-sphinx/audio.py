"""What a recording is, by its bytes and never by its name, and the pieces of it in which somebody speaks.

libsndfile opens it, soxr brings it to 16,000 samples a second of one channel, and a voice detector divides it
at pauses. It goes through in blocks of a second: only the piece that is being spoken is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import soundfile
import soxr
from pocketsphinx import Endpointer

RATE = 16_000  # samples a second that the model was made for
_FORMATS = frozenset({"WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3", "AIFF"})
_MOST_CHANNELS = 32
_BYTES = 2  # one sample
_JOIN_S = 0.6  # a shorter pause is inside a sentence
_LONGEST_S = 20.0  # a piece is heard as a whole, and somebody may never pause


class UnreadableError(Exception):
    """No recording, or one that cannot be opened."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Speech between two pauses: 16-bit samples at ``RATE``; times in seconds from the start."""

    start: float
    end: float
    samples: bytes


class Recording:
    """One file, open; ``seconds`` is its length as its header says."""

    def __init__(self, file: soundfile.SoundFile) -> None:
        self._file = file
        self.seconds = round(file.frames / file.samplerate, 3)

    def speech(self) -> Iterator[Piece]:
        """The pieces in order; a short pause divides nothing, and a piece is 20 seconds at most."""
        held: Piece | None = None
        for piece in _pieces(self._frames(), Endpointer(sample_rate=RATE)):
            if held is None:
                held = piece
            elif piece.start - held.end < _JOIN_S and piece.end - held.start < _LONGEST_S:
                gap = bytes(round((piece.start - held.end) * RATE) * _BYTES)
                held = Piece(held.start, piece.end, held.samples + gap + piece.samples)
            else:
                yield held
                held = piece
        if held is not None:
            yield held

    def _frames(self) -> Iterator[bytes]:
        """16-bit samples of one channel at ``RATE``, a second or so at a time."""
        try:
            stream = soxr.ResampleStream(self._file.samplerate, RATE, 1, dtype="float32")
            left = self._file.frames
            while left > 0:
                block = self._file.read(self._file.samplerate, dtype="float32", always_2d=True)
                left = left - len(block) if len(block) else 0
                mono = np.nan_to_num(block.mean(axis=1)) if len(block) else np.zeros(0, np.float32)
                yield _quantized(stream.resample_chunk(mono, last=left <= 0))
        except (soundfile.LibsndfileError, ValueError, RuntimeError) as error:
            raise UnreadableError(f"the recording breaks off: {error}") from error


@contextmanager
def opened(path: str) -> Iterator[Recording]:
    """The recording at ``path``; raises UnreadableError for what is none."""
    try:
        file = soundfile.SoundFile(path)
    except (soundfile.LibsndfileError, TypeError) as error:
        raise UnreadableError(f"it cannot be opened: {error}") from error
    with file:
        if file.format not in _FORMATS:
            raise UnreadableError(f"a recording as {file.format}")
        if not file.samplerate or not 0 < file.channels <= _MOST_CHANNELS:
            raise UnreadableError(f"{file.channels} channels at {file.samplerate} samples a second")
        yield Recording(file)


def _quantized(samples: np.ndarray) -> bytes:
    return (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def _pieces(chunks: Iterator[bytes], detector: Endpointer) -> Iterator[Piece]:
    """Speech as the voice detector divides it, with its times; one that goes on too long is cut."""
    speech = bytearray()
    start = 0.0
    for frame in _framed(chunks, detector.frame_bytes):
        whole = len(frame) == detector.frame_bytes
        said = detector.process(frame) if whole else detector.end_stream(frame)
        if said:
            start = start if speech else detector.speech_start
            speech += said
        length = len(speech) / _BYTES / RATE
        if speech and (not detector.in_speech or length >= _LONGEST_S):
            yield Piece(round(start, 3), round(start + length, 3), bytes(speech))
            start += length
            speech.clear()


def _framed(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in frames of ``size``; the last is shorter, which tells it, and never empty."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        whole = (len(rest) - 1) // size * size if rest else 0
        for at in range(0, whole, size):
            yield rest[at : at + size]
        rest = rest[whole:]
    if len(rest) == size:
        yield rest[:-_BYTES]
    elif rest:
        yield rest
