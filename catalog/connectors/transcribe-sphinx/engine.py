"""One piece of speech through PocketSphinx: samples in, words out.

The model lies inside the installed package; nothing is fetched. Each piece is heard by itself: what came
before it, of this caller or another, changes nothing.
"""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
from pocketsphinx import Decoder

_NOISE = 150  # of 32767: a quiet room; digital silence, which no microphone makes, misleads the model
_PAD = 8000  # samples of it around a piece: words at an edge are heard better
_turn = threading.Lock()


def heard(samples: bytes) -> str:
    """The words of 16-bit samples at 16,000 a second, in lower case; "" when there are none."""
    with _turn:
        decoder = _decoder()
        decoder.start_utt()
        decoder.process_raw(_in_a_room(samples), full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return found.hypstr.strip() if found is not None else ""


def _in_a_room(samples: bytes) -> bytes:
    """The samples with a little noise, the same each time."""
    spoken = np.pad(np.frombuffer(samples, "<i2").astype(np.float32), _PAD)
    noise = np.random.default_rng(len(spoken)).standard_normal(len(spoken)) * _NOISE
    mixed: bytes = np.clip(spoken + noise, -32768, 32767).astype("<i2").tobytes()
    return mixed


@cache
def _decoder() -> Decoder:
    """The one engine of this process: a second to load. Three thousand states a frame halve its time."""
    return Decoder(samprate=16_000.0, loglevel="FATAL", cmn="batch", maxhmmpf=3000)
