"""Metrics as text: Prometheus' exposition format, version 0.0.4. Pure: families in, bytes out.

A family is what one ``# TYPE`` line speaks of. Label values are escaped here, names are ours and are not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Sample:
    """One value; ``suffix`` is what a histogram's samples add to the family's name."""

    value: float
    labels: Mapping[str, str]
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its series. ``told`` is its one line of help."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    told: str
    samples: tuple[Sample, ...]


def gauge(name: str, told: str, value: float, **labels: str) -> Family:
    """A metric of one value."""
    return Family(name, "gauge", told, (Sample(value, labels),))


def counter(name: str, told: str, value: float) -> Family:
    """A counter of one value."""
    return Family(name, "counter", told, (Sample(value, {}),))


def counted(
    name: str, told: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float], *, kind: str = ""
) -> Family:
    """A metric of one value for each tuple of labels: a counter, or of another kind."""
    samples = (Sample(value, dict(zip(labels, key, strict=True))) for key, value in sorted(values.items()))
    return Family(name, "gauge" if kind == "gauge" else "counter", told, tuple(samples))


def text(families: Iterable[Family]) -> bytes:
    """The families in the order given, each that has a sample."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines += (f"# HELP {family.name} {_help(family.told)}", f"# TYPE {family.name} {family.kind}")
            lines += (_line(family.name, sample) for sample in family.samples)
    return "".join(f"{line}\n" for line in lines).encode()


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{key}="{value.translate(_ESCAPED)}"' for key, value in sample.labels.items())
    return (
        f"{name}{sample.suffix}{{{labels}}} {_number(sample.value)}"
        if labels
        else (f"{name}{sample.suffix} {_number(sample.value)}")
    )


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _help(words: str) -> str:
    return words.replace("\\", r"\\").replace("\n", r"\n")
