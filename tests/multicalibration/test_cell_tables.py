"""Tables of cells add up to the last bit, and are those of an explicit matrix of rows and cells."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import add_rows
from optensemble.multicalibration.cell_tables import (
    CellTable,
    count_overlaps,
    overlaps_times,
    tabulate,
    tabulate_all,
)
from optensemble.multicalibration.events import Cells, Layout, black_box, white_box
from tests.problems import Floats

Indices = npt.NDArray[np.int64]


class World(NamedTuple):
    """Rows in random cells of a layout, their residuals, and the matrix ``Z`` with a column for every cell."""

    cells: Cells
    residual: Floats
    Z: Floats

    def rows(self, order: Indices) -> World:
        """The same rows in another order."""
        parts = [part[order] for part in self.cells.parts]
        return World(Cells(self.cells.layout, parts), self.residual[order], self.Z[order])


def make_world(seed: int, n: int = 40, spread: int = 0, black: bool = False) -> World:
    """With ``spread``, the sizes of residuals differ by that number of powers of ten either way."""
    rng = np.random.default_rng(seed)
    buckets = Buckets(np.zeros(2), np.ones(2), 3)
    layout: Layout = black_box(buckets, 1, (4,)) if black else white_box(buckets, 2, (4,))
    cells = Cells(layout, [rng.integers(size, size=n) for size in layout.sizes])
    residual = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-spread, spread + 1, size=(n, 2))
    Z = np.zeros((n, layout.count))
    for event in range(len(layout.events)):
        Z[np.arange(n), cells.column(event)] = 1.0
    return World(cells, residual, Z)


def assert_same(ours: CellTable, theirs: CellTable) -> None:
    """To the last bit."""
    for name in ("kept", "counts", "high", "low", "shared", "sums"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


def table_of(world: World, kept: Indices, rows: Indices | None = None) -> CellTable:
    """The table of some of the rows, on the grid of all."""
    rows = np.arange(len(world.residual)) if rows is None else rows
    some, count = world.rows(rows), world.cells.layout.count
    counts, high, low = np.zeros(count, dtype=np.int64), np.zeros((count, 2)), np.zeros((count, 2))
    top = float(np.abs(world.residual).max())
    add_rows(some.cells.columns(), some.residual, top, len(world.residual), counts, high, low)
    return CellTable(kept, counts[kept], high[kept], low[kept], count_overlaps(some.cells, kept))


worlds = st.builds(
    make_world, seed=st.integers(0, 10**6), n=st.integers(2, 60), spread=st.integers(0, 12), black=st.booleans()
)


@given(world=worlds, count=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_tables_of_folds_add_up_to_the_last_bit(world: World, count: int, seed: int) -> None:
    rng, n = np.random.default_rng(seed), len(world.residual)
    folds = [np.sort(part) for part in np.array_split(rng.permutation(n), min(count, n))]
    kept = np.flatnonzero(rng.random(world.cells.layout.count) < 0.7)
    tables, whole = [table_of(world, kept, fold) for fold in folds], table_of(world, kept)
    assert_same(reduce(add, tables), whole)
    assert_same(reduce(add, [tables[number] for number in rng.permutation(len(tables))]), whole)


@given(world=worlds, seed=st.integers(0, 10**6))
def test_the_order_of_rows_does_not_matter(world: World, seed: int) -> None:
    n = len(world.residual)
    order = np.random.default_rng(seed).permutation(n)
    moved, kept, half = world.rows(order), np.arange(world.cells.layout.count), np.arange(n // 2)
    assert_same(table_of(world, kept, order[half]), table_of(moved, kept, half))
    assert_same(table_of(world, kept), table_of(moved, kept))
    least = 1 + seed % 4
    left, right = tabulate(world.cells, world.residual, least), tabulate(moved.cells, moved.residual, least)
    for name in ("kept", "counts", "high", "low"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


@given(world=worlds, seed=st.integers(0, 10**6))
def test_a_table_is_that_of_an_explicit_matrix(world: World, seed: int) -> None:
    rng, n = np.random.default_rng(seed), len(world.residual)
    rows = np.flatnonzero(rng.random(n) < 0.6)
    kept = np.flatnonzero(rng.random(world.cells.layout.count) < 0.7)
    table = table_of(world, kept, rows)
    Z, residual = world.Z[np.ix_(rows, kept)], world.residual[rows]
    np.testing.assert_array_equal(table.kept, kept)
    np.testing.assert_array_equal(table.counts, Z.sum(axis=0))
    np.testing.assert_array_equal(table.shared, Z.T @ Z)
    everywhere = world.Z[:, kept]
    np.testing.assert_array_equal(count_overlaps(world.cells, kept), everywhere.T @ everywhere)
    largest = np.abs(world.residual).max()
    np.testing.assert_allclose(table.sums, Z.T @ residual, rtol=0, atol=1e-13 * largest)
    assert table.largest == np.abs(table.sums).max(initial=0.0)
    np.testing.assert_array_equal(
        tabulate_all(world.cells, np.zeros((len(world.Z), 1)), 0.0, len(world.Z)).counts, world.Z.sum(axis=0)
    )


@given(world=worlds, least=st.integers(1, 9))
def test_all_cells_of_enough_rows_are_kept(world: World, least: int) -> None:
    table = tabulate(world.cells, world.residual, least)
    np.testing.assert_array_equal(table.kept, np.flatnonzero(world.Z.sum(axis=0) >= least))
    again = table_of(world, table.kept)
    for name in ("counts", "high", "low"):
        np.testing.assert_array_equal(getattr(table, name), getattr(again, name))
    assert table.shared is None
    assert (table + again).shared is None
    with pytest.raises(ValueError, match="the overlaps of this table were not counted"):
        table.ridge(1.0)


@given(seed=st.integers(0, 10**6), penalty=st.sampled_from([0.5, 10.0, 1000.0]), black=st.booleans())
def test_a_ridge_solves_the_normal_equations(seed: int, penalty: float, black: bool) -> None:
    world = make_world(seed, black=black)
    kept = np.flatnonzero(world.Z.sum(axis=0) >= 3)
    table = table_of(world, kept)
    shared, Z = count_overlaps(world.cells, kept), world.Z[:, kept]
    expected = np.linalg.solve(Z.T @ Z + penalty * np.eye(len(kept)), Z.T @ world.residual)
    np.testing.assert_allclose(table.ridge(penalty), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(table.shared, shared)  # as it was
    shrunk, product = table.smallest(penalty)
    np.testing.assert_allclose(shrunk, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(product, Z.T @ (Z @ expected), rtol=1e-7, atol=1e-9)


@given(seed=st.integers(0, 10**6), black=st.booleans())
def test_without_shrinkage_the_smallest_least_squares_solution_is_found(seed: int, black: bool) -> None:
    world = make_world(seed, black=black)
    kept = np.flatnonzero(world.Z.any(axis=0))
    table = table_of(world, kept)
    Z = world.Z[:, kept]
    delta, product = table.smallest(0.0)
    np.testing.assert_allclose(delta, np.linalg.lstsq(Z, world.residual, rcond=None)[0], atol=1e-9)
    np.testing.assert_allclose(product, Z.T @ (Z @ delta), atol=1e-9)


@given(world=worlds, seed=st.integers(0, 10**6))
def test_products_with_overlaps_go_by_way_of_the_rows(world: World, seed: int) -> None:
    table = tabulate(world.cells, world.residual, 2)
    delta = np.random.default_rng(seed).normal(size=(len(table.kept), 2))
    Z = world.Z[:, table.kept]
    np.testing.assert_allclose(overlaps_times(world.cells, table, delta), Z.T @ (Z @ delta), atol=1e-11)


@given(world=worlds, seed=st.integers(0, 10**6))
def test_corrections_are_spread_over_rows_and_columns_number_their_cells(world: World, seed: int) -> None:
    rng, n = np.random.default_rng(seed), len(world.residual)
    delta, rows = rng.normal(size=(world.cells.layout.count, 2)), np.flatnonzero(rng.random(n) < 0.5)
    np.testing.assert_allclose(world.cells.spread(delta), world.Z @ delta, atol=1e-12)
    np.testing.assert_array_equal(world.cells.spread(delta, rows), world.cells.spread(delta)[rows])
    columns = world.cells.columns(rows)
    assert columns.shape == (len(rows), len(world.cells.layout.events))
    assert all(set(np.flatnonzero(z)) == set(cells) for z, cells in zip(world.Z[rows], columns.tolist(), strict=True))
