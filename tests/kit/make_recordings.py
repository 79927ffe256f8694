"""Speaks the recordings of transcribe/v1 with espeak-ng: ``python -m tests.kit.make_recordings FOLDER``.

Nobody was recorded. The files of a published version are part of its digest, so they are never spoken again;
the script makes those of the next. It runs in the environment of ``transcribe-sphinx``, which has the
libraries that write them (``PYTHONPATH=.demo/envs/DIGEST``), with espeak-ng installed.
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import soundfile
import soxr

_RATE = 16_000
_PAUSE = np.zeros(_RATE // 2, np.float32)


def said(text: str) -> np.ndarray:
    """A sentence at 16,000 samples a second, half a second of silence around it."""
    words = ["espeak-ng", "-v", "en-gb", "-s", "140", "--stdout", text]
    spoken = subprocess.run(words, capture_output=True, check=True).stdout
    samples, rate = soundfile.read(io.BytesIO(spoken), dtype="float32")
    return np.concatenate([_PAUSE, soxr.resample(samples, rate, _RATE).astype(np.float32), _PAUSE])


def make(folder: Path) -> None:
    """Write every recording, and what only looks like one."""
    total = said("the total is forty two")
    soundfile.write(folder / "total.wav", total, _RATE, "PCM_16")
    stereo = soxr.resample(np.stack([total, total * 0.5], axis=1), _RATE, 44_100)
    soundfile.write(folder / "total.ogg", stereo, 44_100, format="OGG", subtype="VORBIS")
    both = np.concatenate([total, _PAUSE, said("good morning")])
    soundfile.write(folder / "two-sentences.mp3", both, _RATE, "PCM_16", format="FLAC")
    soundfile.write(folder / "silence.wav", np.zeros(_RATE, np.float32), _RATE, "PCM_16")
    hours = np.zeros(5 * 3600 * 1000, np.int16)  # a thousand samples a second keep it small
    soundfile.write(folder / "five-hours.flac", hours, 1000, "PCM_16")
    (folder / "broken.wav").write_bytes(b"RIFF\x24\x10\x00\x00WAVEfmt \x10\x00\x00\x00" + b"\xff" * 40)
    (folder / "empty.wav").write_bytes(b"")
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("notes.txt"), "no recording")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
