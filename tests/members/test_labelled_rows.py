"""Rows of a source that have their labels: numbered anew, whatever pieces they come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from optensemble._core.engine import Local
from optensemble.members import labelled_rows
from optensemble.members.labelled_rows import LabelledRows, with_labels
from optensemble.members.sources import Piece, RowSource
from tests.problems import Floats

N, D = 57, 2


@dataclass(frozen=True)
class Pieces(RowSource):
    """Rows in pieces of seven; ``frames`` are what it would need elsewhere."""

    X: Floats
    labels: Floats
    frames: list[Any] = field(default_factory=lambda: ["a frame"])

    @property
    def row_count(self) -> int:
        return len(self.X)

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        for first in range(start, stop, 7):
            rows = slice(first, min(first + 7, stop))
            yield Piece(self.X[rows], self.labels[rows])

    def given(self, frames: list[Any]) -> RowSource:
        return Pieces(self.X, self.labels, frames)


@pytest.fixture(params=[5, 16, 100])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The rows of a block."""
    monkeypatch.setattr(labelled_rows, "BLOCK_ROWS", request.param)
    monkeypatch.setattr("optensemble.members.sources.BLOCK_ROWS", request.param)
    return int(request.param)


def make(missing: list[int]) -> tuple[Pieces, list[int]]:
    X, labels = np.arange(2.0 * N).reshape(N, 2), np.ones((N, D))
    labels[missing, 1] = np.nan
    return Pieces(X, labels), [row for row in range(N) if row not in missing]


@pytest.mark.parametrize("missing", [[0, 1, 2, 3, 4, 5], [56], [13, 14, 30], list(range(10, 40))])
def test_any_rows_are_read_by_their_new_numbers(missing: list[int], block: int) -> None:
    source, kept = make(missing)
    rows = with_labels(source, D, Local(), lambda count: None)
    assert rows.row_count == len(kept)
    for start in range(0, len(kept), 5):
        for stop in (start + 1, min(start + 11, len(kept)), len(kept)):
            for given in (rows, rows.part(start, stop)):
                found = [piece.X for piece in given.read(start, stop)]
                np.testing.assert_array_equal(np.concatenate(found), source.X[kept[start:stop]])
    for number in (0, len(kept) // 2, len(kept) - 1):
        assert rows.place(number) == source.place(kept[number])
    assert str(rows) == str(source)


def test_a_source_with_all_labels_is_itself(block: int) -> None:
    source, _ = make([])
    assert with_labels(source, D, Local(), lambda count: None) is source


def test_what_the_source_needs_elsewhere_is_handed_on() -> None:
    source, _ = make([3])
    rows = with_labels(source, D, Local(), lambda count: None)
    assert isinstance(rows, LabelledRows)
    assert rows.frames == ["a frame"]
    moved = rows.given(["another"])
    assert isinstance(moved, LabelledRows)
    assert moved.frames == ["another"]
    assert rows.names == source.names
    assert isinstance(rows.only(["a"]), LabelledRows)
