"""What tts-espeak and transcribe-sphinx decide without an engine; and eSpeak NG, which is light, for real.

Every case of every interface, with every engine, is asked by ``make flows-catalog``.
"""

import shutil
import wave
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.conformance import cases
from tests.catalog.calling import Call, failure
from tests.catalog.loading import modules
from tests.kit.engines import contract, interface, started, suite

(ESPEAK,) = modules("tts-espeak", "main")
(SPHINX,) = modules("transcribe-sphinx", "main")
SPOKEN = pytest.mark.skipif(
    shutil.which("espeak-ng") is None, reason="espeak-ng is not installed (.ci/setup)"
)


@pytest.mark.slow
@SPOKEN
def test_espeak_keeps_every_promise_of_tts(tmp_path: Path) -> None:
    with started("tts-espeak", tmp_path) as running:
        scope = interface("tts/v1") / "conformance"
        found = {
            case.name: cases.judge(case, running.outcome(contract("tts/v1"), case, scope))
            for case in suite("tts/v1")
        }
    assert len(found) > 5
    assert {name: faults for name, faults in found.items() if faults} == {}


@given(st.text("[\x00\x01\x1b\x7f\x9f a\n"))
def test_no_text_holds_an_order_to_espeak_after_it_was_cleaned(text: str) -> None:
    plain = ESPEAK.spoken(text)
    assert "[[" not in plain
    assert not any(ord(sign) < 32 and sign not in "\t\n" for sign in plain)


@given(st.text("aß東 .-]<&\n\t"))
def test_plain_text_is_spoken_as_it_is(text: str) -> None:
    assert ESPEAK.spoken(text) == text


@SPOKEN
def test_what_looks_like_an_option_or_a_phoneme_is_spoken_and_not_obeyed(tmp_path: Path) -> None:
    def seconds(text: str) -> float:
        output = SimpleNamespace(path=str(tmp_path / "out.wav"))
        told: float = ESPEAK.speak({"text": text, "output": output}, Call())["seconds"]
        with wave.open(output.path) as file:
            assert told == round(file.getnframes() / file.getframerate(), 3)
        return told

    assert seconds("-f /etc/passwd") < 5
    assert seconds("\x01500S one two three four five") > 0.8 * seconds("500S one two three four five")
    assert seconds("[[aI aI aI aI aI aI aI aI]]") != seconds("aI")


@SPOKEN
def test_a_voice_is_found_by_its_code_or_by_that_of_a_region() -> None:
    voices = ESPEAK._voices()
    assert voices["en"] == "en-gb"
    assert voices["de"] == "de"
    assert voices["fr"].startswith("fr")
    assert not any(len(code) != 2 for code in voices)


def test_without_the_program_the_call_ends_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ESPEAK, "_PROGRAM", "espeak-nowhere")
    code, words = failure(lambda: ESPEAK._run(["--voices"]))
    assert (code, "PROVISIONING.md" in words) == ("unavailable", True)


def test_a_cancelled_call_ends_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ESPEAK, "_PROGRAM", "sleep")
    call = Call()
    call.cancelled.set()
    assert failure(lambda: ESPEAK._run(["60"], "", call)) == ("unavailable", "the call was cancelled")


def test_a_program_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ESPEAK, "_PROGRAM", "sleep")
    monkeypatch.setattr(ESPEAK, "_LONGEST_S", 0.0)
    assert failure(lambda: ESPEAK._run(["60"]))[0] == "unavailable"


def test_a_program_that_says_no_is_unavailable_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ESPEAK, "_PROGRAM", "ls")
    code, words = failure(lambda: ESPEAK._run(["/nowhere"]))
    assert code == "unavailable"
    assert "/nowhere" in words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "00:00:00.000"),
        (0.51, "00:00:00.510"),
        (59.9996, "00:01:00.000"),
        (3725.25, "01:02:05.250"),
        (360_000.0, "100:00:00.000"),
    ],
)
def test_times_are_written_as_webvtt_says(seconds: float, text: str) -> None:
    assert SPHINX._clock(seconds) == text


def test_pieces_become_cues_and_silence_a_file_without_any() -> None:
    assert "".join(SPHINX._webvtt([])) == "WEBVTT\n"
    told = "".join(SPHINX._webvtt([{"start": 0.5, "end": 2.0, "text": "forty two"}]))
    assert told == "WEBVTT\n\n00:00:00.500 --> 00:00:02.000\nforty two\n"
