"""The record that every kind is made of, and the words (names, sizes, times) that its keys hold.

A word's pattern and bounds are stated once, here, and its example is what a problem's mend shows when there
is no nearer thing to type.
"""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from reconciler.model.names import MAX_NAME, NAME_PATTERN

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Field(strict=False)]  # TOML gives lists; values here never change

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME, examples=["ocr-tesseract"])]
InterfaceVersion = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*/v[1-9][0-9]{0,5}$", examples=["ocr/v1"])
]
Slot = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9]*([_-][a-z0-9]+)*$", max_length=MAX_NAME, examples=["api_key"])
]
Text = Annotated[str, Field(max_length=4096, examples=["What it is for, in one sentence"])]
Folder = Annotated[str, Field(pattern=r"^(/|~/)", max_length=4096, examples=["~/documents"])]
Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64, examples=["API_KEY"])]
ErrorCode = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64, examples=["too_large"])]
SettingName = Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9_]*$", max_length=MAX_NAME, examples=["model"])]
Scalar = str | int | float | bool
Seconds = Annotated[float, Field(gt=0, le=86_400, examples=[120])]
Bytes = Annotated[int, Field(gt=0, le=2**40, examples=[20_000_000])]


class Record(BaseModel):
    """A closed, frozen, strict record; its errors never repeat the input."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )
