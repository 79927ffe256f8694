"""A paper of values and files gives back what was put in, and is not read when it is another."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.attempts import parcels
from reconciler.attempts.papers import Papers, TooLargeError


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@given(
    said=st.dictionaries(st.text(max_size=8), st.integers(0, 9) | st.text(max_size=8), max_size=3),
    files=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=300), max_size=3),
    size=st.integers(1, 64),
)
def test_what_was_put_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory, said: dict[str, Any], files: dict[str, bytes], size: int
) -> None:
    papers = Papers(tmp_path_factory.mktemp("papers"))
    papers.keep(
        "results", "ab", parcels.packed(said, {n: (len(d), pieces(d, size)) for n, d in files.items()})
    )
    parcel = parcels.opened(papers.path("results", "ab"))
    assert parcel.said == said
    assert {name: b"".join(parcel.pieces(name)) for name in parcel.files} == files


def test_an_answer_alone_is_read_as_a_parcel_without_files(tmp_path: Path) -> None:
    (tmp_path / "paper").write_bytes(b'{"url":"film"}')
    parcel = parcels.opened(tmp_path / "paper")
    assert (parcel.said, parcel.files) == ({"url": "film"}, {})


def test_a_file_that_changes_while_it_is_packed_is_not_kept(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    for size in (1, 9):
        with pytest.raises(parcels.BrokenError):
            papers.keep("sealed", "ab", parcels.packed({}, {"path": (size, iter([b"four"]))}))
    with pytest.raises(TooLargeError):
        papers.keep("sealed", "ab", parcels.packed({}, {"path": (4, iter([b"four"]))}), 20)
    assert not papers.has("sealed", "ab")


@pytest.mark.parametrize("text", [b"", b"[1]", b"handler.parcel/v1 {", b"handler.parcel/v1 {}\n", b"\0" * 99])
def test_what_is_no_parcel_is_said_to_be_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "paper").write_bytes(text)
    with pytest.raises(OSError, match=r".") as caught:
        parcels.opened(tmp_path / "paper")
    assert isinstance(caught.value, parcels.BrokenError)


def test_a_parcel_that_was_cut_short_breaks_off(tmp_path: Path) -> None:
    paper = tmp_path / "paper"
    paper.write_bytes(b"".join(parcels.packed({}, {"path": (4, iter([b"four"]))})))
    os.truncate(paper, paper.stat().st_size - 1)
    with pytest.raises(parcels.BrokenError):
        list(parcels.opened(paper).pieces("path"))
