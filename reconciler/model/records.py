"""The words (names, sizes, times) that the keys of records hold.

A word's pattern and bounds are stated once, here, and its example is what a problem's mend shows when there
is no nearer thing to type.
"""

from typing import Annotated, TypeVar

from reconciler.model.forms import Field
from reconciler.model.forms import Record as Record  # noqa: PLC0414 - part of this module's face
from reconciler.model.names import MAX_NAME, NAME_PATTERN

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Field(strict=False)]  # TOML gives lists; values here never change

Name = Annotated[
    str,
    Field(
        pattern=NAME_PATTERN,
        max_length=MAX_NAME,
        description="a name: lower-case letters, digits and single dashes, starting with a letter",
        examples=["ocr-tesseract"],
    ),
]
InterfaceVersion = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*/v[1-9][0-9]{0,5}$",
        description="an interface's name and version, like ocr/v1",
        examples=["ocr/v1"],
    ),
]
Slot = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9]*([_-][a-z0-9]+)*$",
        max_length=MAX_NAME,
        description="a slot: lower-case letters, digits, single dashes and underscores",
        examples=["api_key"],
    ),
]
Text = Annotated[str, Field(max_length=4096, examples=["What it is for, in one sentence"])]
Folder = Annotated[
    str,
    Field(
        pattern=r"^(/|~/)",
        max_length=4096,
        description="a folder, absolute or under ~/",
        examples=["~/documents"],
    ),
]
Variable = Annotated[
    str,
    Field(
        pattern=r"^[A-Z][A-Z0-9_]*$",
        max_length=64,
        description="an environment variable, in capitals",
        examples=["API_KEY"],
    ),
]
ErrorCode = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=64,
        description="an error code: lower-case letters, digits and underscores",
        examples=["too_large"],
    ),
]
SettingName = Annotated[
    str,
    Field(
        pattern=r"^[a-z][A-Za-z0-9_]*$",
        max_length=MAX_NAME,
        description="a setting: letters, digits and underscores, starting with a lower-case letter",
        examples=["model"],
    ),
]
Program = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$",
        max_length=128,
        description="a program's name, without its folder",
        examples=["tesseract"],
    ),
]
HostPath = Annotated[
    str,
    Field(
        pattern=r"^/",
        max_length=4096,
        description="an absolute path of the host",
        examples=["/usr/share/tesseract-ocr"],
    ),
]
HostPort = Annotated[
    str,
    Field(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:*/]+):[0-9]{1,5}$",
        max_length=261,
        description="an exact host and port, like api.example.com:443",
        examples=["api.example.com:443"],
    ),
]
Sha256 = Annotated[
    str, Field(pattern=r"^sha256:[0-9a-f]{64}$", description="sha256: and 64 hexadecimal digits")
]
Scalar = str | int | float | bool
Seconds = Annotated[float, Field(gt=0, le=86_400, examples=[120])]
Bytes = Annotated[int, Field(gt=0, le=2**40, examples=[20_000_000])]
