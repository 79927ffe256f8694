"""What media-ffmpeg tells FFmpeg: closed options and our own paths, whatever the wish."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.loading import modules

(ORDERS,) = modules("media-ffmpeg", "orders")
FORMATS = ("wav", "mp3", "ogg", "flac", "m4a", "mp4", "webm", "gif", "png", "jpg")
WISHES = st.fixed_dictionaries(
    {"format": st.sampled_from(FORMATS)},
    optional={
        "start": st.floats(0, 86400),
        "seconds": st.floats(0.001, 86400),
        "width": st.integers(16, 3840),
        "framesPerSecond": st.integers(1, 60),
        "quality": st.sampled_from(("low", "medium", "high")),
        "channels": st.sampled_from((1, 2)),
        "sampleRate": st.sampled_from((8000, 16000, 22050, 44100, 48000)),
        "sound": st.booleans(),
    },
)
FOUND = st.builds(
    ORDERS.Found, st.floats(0, 1e5), st.sampled_from((0, 160, 7680)), st.just(120), st.booleans()
)


@given(wish=WISHES, found=FOUND, head=st.binary(max_size=16))
def test_every_wish_is_a_line_of_closed_options_or_is_refused(
    wish: dict[str, Any], found: Any, head: bytes
) -> None:
    try:
        plan = ORDERS.plan(wish, found, threads=2)
    except ORDERS.Failure as failure:
        assert failure.code in ("nothing_to_convert", "too_large")
        return
    words = plan.words("/run/connector/in/a", head, "/run/connector/out/b")
    at = words.index("-i")
    assert "-protocol_whitelist" in words[:at]
    assert "-format_whitelist" in words[:at]
    assert words[at + 1] == "file:/run/connector/in/a"
    assert words[-1] == "file:/run/connector/out/b"
    assert not {"hls", "concat", "image2", "lavfi", "sdp"} & set(",".join(words[:at]).split(","))
    assert all(word.isprintable() and len(word) < 400 for word in words)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\xff\xd8\xff\xe0" + b"0" * 12, "jpeg_pipe"),
        (b"\x89PNG\r\n\x1a\n" + b"0" * 8, "png_pipe"),
        (b"RIFF0000WEBP0000", "webp_pipe"),
        (b"RIFF0000WAVE0000", ""),
        (b"#EXTM3U\n", ""),
    ],
)
def test_a_picture_is_read_by_its_bytes_and_never_by_its_name(head: bytes, kind: str) -> None:
    words = ORDERS.closed(head)
    assert (words[-1] if "-f" in words else "") == kind
