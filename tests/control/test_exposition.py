"""Metrics as Prometheus reads them: what is written is read back by the format's own grammar."""

import re

from hypothesis import given
from hypothesis import strategies as st

from reconciler.control import exposition
from reconciler.control.exposition import Family, Sample

_LINE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\n]|\\[\\\"n])*\",?)*)\})? (\S+)"
)
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)=\"((?:[^\"\\\n]|\\[\\\"n])*)\"")
_PLAIN = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


def read(text: bytes) -> list[tuple[str, dict[str, str], float]]:
    """Every sample of a page; fails on a line that is not of the format."""
    found = []
    for line in text.decode().split("\n")[:-1]:
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        plain = {
            key: re.sub(r"\\.", lambda one: _PLAIN[one[0]], told)
            for key, told in _LABEL.findall(labels or "")
        }
        found.append((name, plain, float(value)))
    return found


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(["code", "tool"]), st.text()),
            st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**12), 10**12),
        ),
        max_size=5,
    )
)
def test_every_value_and_every_label_is_read_back_as_it_was(
    samples: list[tuple[dict[str, str], float]],
) -> None:
    family = Family("handler_x", "gauge", "What\nit is.", tuple(Sample(v, labels) for labels, v in samples))
    assert read(exposition.text([family])) == [("handler_x", labels, float(v)) for labels, v in samples]


def test_a_metric_says_what_it_is_once() -> None:
    page = exposition.text(
        [
            exposition.counter("a_total", "How often.", 3),
            exposition.counted("b", "Many.", ("x", "y"), {("2", "b"): 1, ("1", "a"): 2.5}, kind="gauge"),
            exposition.counted("none", "Nobody.", ("x",), {}),
            exposition.gauge("c", "One.", True, who='"me"'),
        ]
    )
    assert page.decode().splitlines() == [
        "# HELP a_total How often.",
        "# TYPE a_total counter",
        "a_total 3",
        "# HELP b Many.",
        "# TYPE b gauge",
        'b{x="1",y="a"} 2.5',
        'b{x="2",y="b"} 1',
        "# HELP c One.",
        "# TYPE c gauge",
        r'c{who="\"me\""} 1',
    ]
