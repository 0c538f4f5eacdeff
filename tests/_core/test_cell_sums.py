"""Counts and sums by cell: those of a plain computation, to the last bit, in any order of rows and chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.arrays import Floats, Indices
from optensemble._core.cell_sums import (
    Cells,
    add_limbs,
    count_overlaps,
    overlaps_by_bits,
    overlaps_by_pairs,
    rows_of_cells,
)
from optensemble._core.exact_sums import add_rows

SHAPES = {
    "n": st.integers(0, 200),
    "events": st.integers(1, 5),
    "width": st.integers(1, 6),
    "parts": st.integers(1, 4),
    "seed": st.integers(0, 1000),
}


@dataclass(frozen=True)
class Sample:
    cells: Cells
    part: Indices
    count: int
    parts: int


def sample(n: int, events: int, width: int, parts: int, seed: int) -> Sample:
    """Return rows most of which lie in few cells, of which some are not kept; parts may be empty."""
    rng = np.random.default_rng(seed)
    within = np.minimum(rng.geometric(0.5, size=(n, events)) - 1, width - 1)
    raw = np.arange(events) * width + within
    kept = rng.random(events * width) < 0.8
    names = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    return Sample(names[raw], rng.choice(rng.integers(parts, size=2), size=n), int(kept.sum()), parts)


def indicators(data: Sample) -> Indices:
    """Return (parts, n, count): 1 where a row of the part lies in the cell."""
    inside = (data.cells[:, :, None] == np.arange(data.count)).any(axis=1)
    return np.array([inside & (data.part == p)[:, None] for p in range(data.parts)]).astype(np.int64)


def both_places(shared: Cells) -> Cells:
    """Two cells are counted in one of their two places only."""
    whole = shared + shared.transpose(0, 2, 1)
    diagonal = np.arange(shared.shape[1])
    whole[:, diagonal, diagonal] = shared[:, diagonal, diagonal]
    return whole


@given(**SHAPES, chunk=st.integers(1, 200))
def test_overlaps_are_those_of_indicators(n: int, events: int, width: int, parts: int, seed: int, chunk: int) -> None:
    data = sample(n, events, width, parts, seed)
    shared, moving = np.zeros((parts, data.count, data.count), dtype=np.int32), np.arange(data.count)
    for start in range(0, n, chunk):
        count_overlaps(data.cells[start : start + chunk], data.part[start : start + chunk], moving, shared)
    inside = indicators(data)
    np.testing.assert_array_equal(both_places(shared), inside.transpose(0, 2, 1) @ inside)


@given(n=st.integers(0, 300), events=SHAPES["events"], width=SHAPES["width"], seed=SHAPES["seed"])
def test_bits_and_pairs_count_the_same(n: int, events: int, width: int, seed: int) -> None:
    data = sample(n, events, width, 1, seed)
    rows = np.random.default_rng(seed).permutation(n)[: n - n // 4]  # some rows, in any order
    moving = np.random.default_rng(seed).uniform(size=data.count) < 0.5
    line = np.where(moving, np.cumsum(moving) - 1, -1)
    by_bits, by_pairs = (np.zeros((1, data.count, data.count), dtype=np.int32) for _ in range(2))
    lines = [np.zeros((int(moving.sum()), data.count), dtype=np.int32) for _ in range(2)]
    overlaps_by_bits(data.cells, rows, rows_of_cells(data.cells, rows, data.count), line, lines[0])
    overlaps_by_pairs(data.cells, rows, line, lines[1])
    by_bits[0, moving], by_pairs[0, moving] = lines
    np.testing.assert_array_equal(both_places(by_bits), both_places(by_pairs))
    inside = indicators(data)[0][rows].astype(np.int64)
    expected = np.where(moving[:, None] | moving, inside.T @ inside, 0)
    np.testing.assert_array_equal(both_places(by_bits)[0], expected)


@pytest.mark.parametrize(("events", "width", "n"), [(40, 4, 700), (2, 300, 700)])
def test_overlaps_of_many_cells(events: int, width: int, n: int) -> None:
    """Bits are quicker for the first, pairs for the second."""
    rng = np.random.default_rng(0)
    cells = (np.arange(events) * width + rng.integers(width, size=(n, events))).astype(np.int32)
    data = Sample(cells, rng.integers(2, size=n), events * width, 2)
    shared = np.zeros((2, data.count, data.count), dtype=np.int32)
    count_overlaps(data.cells, data.part, np.arange(data.count), shared)
    inside = indicators(data)
    np.testing.assert_array_equal(both_places(shared), inside.transpose(0, 2, 1) @ inside)


def empty_limbs(data: Sample, d: int) -> tuple[Indices, Floats, Floats]:
    shape = (data.parts, data.count)
    return np.zeros(shape, dtype=np.int64), np.zeros((*shape, d)), np.zeros((*shape, d))


def limbs_in_chunks(data: Sample, values: Floats, rows: Indices, pieces: int) -> tuple[Indices, Floats, Floats]:
    n, d = values.shape
    counts, high, low = empty_limbs(data, d)
    top = float(np.abs(values).max(initial=0.0))
    for some in np.array_split(rows, pieces):
        add_limbs(data.cells[some], data.part[some], values[some], top, n, counts, high, low)
    return counts, high, low


def bits(arrays: tuple[Indices, Floats, Floats]) -> list[bytes]:
    return [array.tobytes() for array in arrays]


@given(**SHAPES, d=st.integers(1, 9), pieces=st.integers(1, 5))
def test_limbs_are_those_of_rows_added_one_by_one(
    n: int, events: int, width: int, parts: int, seed: int, d: int, pieces: int
) -> None:
    """Bit by bit, which exact sums are, and for any order of rows and chunks."""
    data = sample(n, events, width, parts, seed)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-12, 12, size=(n, 1)) * rng.choice([0.0, 1.0], size=(n, d))
    found = limbs_in_chunks(data, values, rng.permutation(n), pieces)
    assert bits(found) == bits(limbs_in_chunks(data, values, np.arange(n), 1))

    counts, high, low = empty_limbs(data, d)
    top = float(np.abs(values).max(initial=0.0))
    for i in range(n):
        cells = data.cells[i, data.cells[i] >= 0].astype(np.int64)
        p = data.part[i]
        add_rows(cells[None, :], values[[i]], top, n, counts[p], high[p], low[p])
    assert bits(found) == bits((counts, high, low))

    inside = indicators(data)
    np.testing.assert_array_equal(found[0], inside.sum(axis=1))
    np.testing.assert_allclose(found[1] + found[2], inside.transpose(0, 2, 1) @ values, rtol=0, atol=1e-13 * n * top)


@pytest.mark.parametrize("size", [0.0, 1e-320, 1e-300, 1e300])
def test_limbs_of_extreme_values(size: float) -> None:
    data = sample(50, 3, 4, 2, seed=1)
    values = np.random.default_rng(1).uniform(-1, 1, size=(50, 2)) * size
    found = limbs_in_chunks(data, values, np.arange(50), 3)
    counts, high, low = empty_limbs(data, 2)
    for p in range(2):
        for i in np.flatnonzero(data.part == p):
            cells = data.cells[i, data.cells[i] >= 0].astype(np.int64)
            add_rows(cells[None, :], values[[i]], float(np.abs(values).max()), 50, counts[p], high[p], low[p])
    assert bits(found) == bits((counts, high, low))


def test_a_cell_of_two_events_is_refused() -> None:
    """What the others of its event leave would not be its sum."""
    cells, part = np.array([[0, 1], [1, 2]], dtype=np.int32), np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="a cell belongs to one event"):
        add_limbs(cells, part, np.ones((2, 1)), 1.0, 2, *empty_limbs(Sample(cells, part, 3, 1), 1))
