"""A wish as FFmpeg's argument list: out of closed options, numbers within bounds and our own paths. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handler_connector import Failure

PICTURES = ("png", "jpg")
_SOUNDS = {
    "wav": ("wav", ("-c:a", "pcm_s16le")),
    "mp3": ("mp3", ("-c:a", "libmp3lame", "-id3v2_version", "0", "-write_xing", "1")),
    "ogg": ("ogg", ("-c:a", "libvorbis")),
    "flac": ("flac", ("-c:a", "flac")),
    "m4a": ("ipod", ("-c:a", "aac")),
}
_RATES = {"low": "64k", "medium": "128k", "high": "256k"}  # of a sound that loses something
_CRF = {"low": "32", "medium": "25", "high": "19"}
_VP9 = {"low": "42", "medium": "34", "high": "26"}
_JPG = {"low": "12", "medium": "5", "high": "2"}
_LOSSY = ("mp3", "ogg", "m4a", "mp4", "webm")
# Containers of sounds, films and pictures. What lists or names other files (hls, concat, dash, image2, sdp,
# subtitles, scripts) is not among them, so one file never leads to another.
_READ = ",".join(
    (
        "wav,w64,aiff,au,flac,mp3,ogg,aac,ac3,amr,caf,ape,wv,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,flv,asf",
        "mpeg,mpegts,mpegvideo,m4v,h264,hevc,ivf,gif,apng,png_pipe,jpeg_pipe,bmp_pipe,tiff_pipe,webp_pipe,ppm_pipe",
    )
)
_CLOSED = ("-protocol_whitelist", "file", "-format_whitelist", _READ)
# FFmpeg would read pictures by their names (as one of a row of files): theirs is told by their bytes.
_PICTURES_OF = ((b"\xff\xd8\xff", "jpeg_pipe"), (b"\x89PNG\r\n\x1a\n", "png_pipe"), (b"BM", "bmp_pipe"),
    (b"II*\0", "tiff_pipe"), (b"MM\0*", "tiff_pipe"))  # fmt: skip
_MOST_PIXELS = 8192 * 8192
_MOST_BYTES = str(536_870_912)


@dataclass(frozen=True)
class Found:
    """What a file is: how long it plays, and what can be seen and heard of it."""

    seconds: float
    width: int
    height: int
    has_sound: bool


@dataclass(frozen=True)
class Plan:
    """How to convert. ``seconds`` is how much comes of it, 0.0 where that is not known."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    seconds: float

    def words(self, source: str, head: bytes, output: str) -> tuple[str, ...]:
        """The arguments; both are paths of ours, ``head`` is how the source begins."""
        said = ("-hide_banner", "-nostdin", "-nostats", "-v", "error", "-y", "-progress", "pipe:1")
        return (*said, *self.before, *closed(head), "-i", f"file:{source}", *self.after, f"file:{output}")


def closed(head: bytes) -> tuple[str, ...]:
    """How a file that begins so is read, and what it may lead to: nothing."""
    kind = next((name for sign, name in _PICTURES_OF if head.startswith(sign)), "")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        kind = "webp_pipe"
    return (*_CLOSED, "-f", kind) if kind else _CLOSED


def look(path: str, head: bytes) -> tuple[str, ...]:
    """The arguments by which ffprobe says what a file is."""
    return (
        "-hide_banner",
        "-v",
        "error",
        *closed(head),
        "-show_format",
        "-show_streams",
        "-of",
        "json",
        f"file:{path}",
    )


def found(said: Mapping[str, Any]) -> Found:
    """What ffprobe says of a file. Raises ValueError and the like for what it never says."""
    streams = [one for one in said.get("streams", ()) if isinstance(one, Mapping)]
    seen = next((one for one in streams if one.get("codec_type") == "video"), {})
    heard = any(one.get("codec_type") == "audio" for one in streams)
    lasting = said.get("format", {}).get("duration") or seen.get("duration") or 0
    if not seen and not heard:
        raise ValueError("it has neither sound nor picture")
    return Found(float(lasting), int(seen.get("width") or 0), int(seen.get("height") or 0), heard)


def plan(wish: Mapping[str, Any], source: Found, *, threads: int) -> Plan:
    """The orders for a wish. Raises Failure where the file has nothing of what is wanted."""
    if source.width * source.height > _MOST_PIXELS:
        raise Failure("too_large", f"{source.width} by {source.height} points")
    form, quality = wish["format"], wish.get("quality", "medium")
    start = float(wish.get("start", 0))
    if source.seconds and start >= source.seconds and start:
        raise Failure("nothing_to_convert", "it is over before the wanted part begins")
    rest = max(0.0, source.seconds - start)
    lasting = min(rest, float(wish["seconds"])) if "seconds" in wish and rest else rest
    before = ["-max_pixels", str(_MOST_PIXELS), "-threads", str(threads)]
    before += ["-ss", f"{start:.3f}"] if start else []
    after = ["-map_metadata", "-1", "-map_chapters", "-1", "-sn", "-dn", "-threads", str(threads)]
    after += ["-fs", _MOST_BYTES]
    if form in PICTURES:
        return Plan(tuple(before), (*after, *_picture(form, wish, source, quality)), 0.0)
    after += ["-t", f"{float(wish['seconds']):.3f}"] if "seconds" in wish else []
    if form in _SOUNDS:
        after += _sound(form, wish, source, quality)
    else:
        after += _film(form, wish, source, quality)
    return Plan(tuple(before), tuple(after), lasting)


def _sound(form: str, wish: Mapping[str, Any], source: Found, quality: str) -> list[str]:
    if not source.has_sound:
        raise Failure("nothing_to_convert", "there is nothing to hear in it")
    muxer, codec = _SOUNDS[form]
    return ["-vn", *codec, *_heard(form, wish, quality), "-f", muxer]


def _heard(form: str, wish: Mapping[str, Any], quality: str) -> list[str]:
    words = ["-b:a", _RATES[quality]] if form in _LOSSY else []
    words += ["-ac", str(int(wish["channels"]))] if "channels" in wish else []
    words += ["-ar", str(int(wish["sampleRate"]))] if "sampleRate" in wish and form != "webm" else []
    return words


def _film(form: str, wish: Mapping[str, Any], source: Found, quality: str) -> list[str]:
    if not source.width:
        raise Failure("nothing_to_convert", "there is nothing to see in it")
    filters = _scaled(wish, even=form != "gif")
    if "framesPerSecond" in wish:
        filters.insert(0, f"fps={int(wish['framesPerSecond'])}")
    shown = ["-vf", ",".join(filters)] if filters else []
    if form == "gif":
        return [*shown, "-an", "-c:v", "gif", "-f", "gif"]
    codec = ["-c:v", "libx264", "-preset", "veryfast", "-crf", _CRF[quality], "-pix_fmt", "yuv420p"]
    if form == "webm":
        codec = [
            "-c:v",
            "libvpx-vp9",
            "-deadline",
            "realtime",
            "-cpu-used",
            "6",
            "-b:v",
            "0",
            "-crf",
            _VP9[quality],
        ]
    if not source.has_sound or not wish.get("sound", True):
        heard = ["-an"]
    else:
        heard = ["-c:a", "aac" if form == "mp4" else "libopus", *_heard(form, wish, quality)]
    ends = ["-movflags", "+faststart", "-f", "mp4"] if form == "mp4" else ["-f", "webm"]
    return [*shown, *codec, *heard, *ends]


def _picture(form: str, wish: Mapping[str, Any], source: Found, quality: str) -> list[str]:
    if not source.width:
        raise Failure("nothing_to_convert", "there is nothing to see in it")
    filters = _scaled(wish, even=False)
    shown = ["-vf", ",".join(filters)] if filters else []
    kind = (
        ["-c:v", "png"] if form == "png" else ["-c:v", "mjpeg", "-q:v", _JPG[quality], "-pix_fmt", "yuvj420p"]
    )
    return ["-an", *shown, "-frames:v", "1", *kind, "-f", "image2pipe"]


def _scaled(wish: Mapping[str, Any], *, even: bool) -> list[str]:
    """Never wider than it is; codecs of films want even numbers."""
    step = 2 if even else 1
    if "width" in wish:
        return [f"scale=w='trunc(min(iw,{int(wish['width'])})/{step})*{step}':h=-{step}"]
    return [f"scale=w='trunc(iw/{step})*{step}':h='trunc(ih/{step})*{step}'"] if even else []
