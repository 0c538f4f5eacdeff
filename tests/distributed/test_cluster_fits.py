"""Fits on workers of a cluster: the same bits, also when some of them die."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import optensemble as oe
from optensemble import feasible
from optensemble._core.engine import BLOCK_ROWS
from optensemble.distributed.cluster import local_cluster
from optensemble.distributed.dask_engine import DaskEngine, map_in_order
from optensemble.exceptions import InputError
from tests.distributed.killing import Deadly, Refusing, Slow
from tests.ensembles.source_worlds import (
    BY_ROW,
    GAPS,
    D,
    Ensemble,
    gappy,
    labels,
    make,
    same_bits,
    same_file,
    world,
    write,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # the work is done by other processes
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of sockets to workers that were killed
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = 2 * BLOCK_ROWS + 77
COLUMNS = tuple(f"a_{j}" for j in range(D))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Any]:
    with Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> oe.Rows:
    folder = tmp_path_factory.mktemp("rows")
    return oe.Rows(write(world(ROWS), folder, [1000, 70_000], 40_000), labels="y_*")


@pytest.fixture(scope="module")
def expected() -> Ensemble:
    return make(subgroups="region", context="plan_*").fit(world(ROWS), labels(world(ROWS)), groups="group")


def frame_of(partitions: int) -> Any:
    return dd.from_pandas(world(ROWS), npartitions=partitions).clear_divisions()


@pytest.mark.parametrize("workers", [2, 1, 3])
def test_any_number_of_workers_learns_the_same_bits(
    workers: int, cluster: LocalCluster, client: Any, rows: oe.Rows, expected: Ensemble, tmp_path: Path
) -> None:
    cluster.scale(workers)
    client.wait_for_workers(workers)
    while len(client.scheduler_info()["workers"]) != workers:
        time.sleep(0.05)
    found = make(subgroups="region", context="plan_*").fit(rows, groups="group", engine=client)
    same_file(found, expected, tmp_path)


@pytest.fixture
def two(cluster: LocalCluster, client: Any) -> Any:
    """The client of two workers."""
    cluster.scale(2)
    client.wait_for_workers(2)
    return client


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_dask_frame_learns_the_same_bits(partitions: int, two: Any, expected: Ensemble, tmp_path: Path) -> None:
    frame = frame_of(partitions)
    assert frame.divisions[0] is None
    found = make(subgroups="region", context="plan_*").fit(frame, "y_*", groups="group", engine=two)
    same_file(found, expected, tmp_path)


@pytest.mark.parametrize("kind", ["a knapsack by row", "a box by row", "oracles by key"])
def test_a_set_for_each_row_learns_the_same_bits(kind: str, two: Any, rows: oe.Rows, tmp_path: Path) -> None:
    expected = make(feasible=BY_ROW[kind]).fit(world(ROWS), labels(world(ROWS)))
    same_file(make(feasible=BY_ROW[kind]).fit(rows, engine=two), expected, tmp_path)
    same_file(make(feasible=BY_ROW[kind]).fit(frame_of(5), "y_*", engine=two), expected, tmp_path)


@pytest.mark.parametrize("source", ["files", "Dask frame"])
def test_gaps_and_weights_teach_the_same_bits(source: str, two: Any, tmp_path: Path) -> None:
    frame, (parameters, options) = gappy(ROWS), GAPS["weights in groups"]
    options = {"missing_labels": "drop", **options}
    expected = make(**parameters).fit(frame, labels(frame), **options)
    if source == "files":
        given: tuple[Any, ...] = (oe.Rows(write(frame, tmp_path / "gaps", [70_000], 40_000), labels="y_*"),)
    else:
        given = dd.from_pandas(frame, npartitions=5).clear_divisions(), "y_*"
    same_file(make(**parameters).fit(*given, engine=two, **options), expected, tmp_path)


def test_an_ensemble_of_a_cluster_goes_on_learning_here(two: Any) -> None:
    """Refits read the Dask frame again, and take the rows decided since."""
    frame = world(900)
    fitting = dd.from_pandas(frame[:600], npartitions=3).clear_divisions()
    fits = make().fit(fitting, "y_*", engine=two), make().fit(frame[:600], labels(frame[:600]))
    lives = [oe.LiveEnsemble(fit, refit=100) for fit in fits]
    for live in lives:
        for start in range(600, 900, 50):
            rows = frame[start : start + 50]
            live.answer(rows, ids=rows.index)
            live.observe(rows.index, labels(rows))
    assert [live.refits_["outcome"].tolist() for live in lives] == [["700 rows", "800 rows", "900 rows"]] * 2
    np.testing.assert_array_equal(*(live.decide(frame[:50], ids=range(50)) for live in lives))


def test_a_row_without_a_set_is_named_by_its_file(two: Any, tmp_path: Path) -> None:
    frame = world(ROWS).copy()
    frame.loc[BLOCK_ROWS + 5000, "budget"] = -1.0
    rows = oe.Rows(write(frame, tmp_path, [BLOCK_ROWS], 9000), labels="y_*")
    words = (
        r"capacity of a knapsack must not be negative; in row 5000 of .*part-1.parquet.* it is -1 \(column 'budget'\)"
    )
    with pytest.raises(InputError, match=words):
        make(feasible=BY_ROW["a knapsack by row"]).fit(rows, engine=two)


def test_arrays_are_sent_to_workers(two: Any, expected: Ensemble) -> None:
    frame = world(ROWS)
    same_bits(
        make(subgroups="region", context="plan_*").fit(frame, labels(frame), groups="group", engine=two), expected
    )


def test_a_worker_that_dies_in_the_middle_changes_nothing(two: Any, rows: oe.Rows, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    expected = Ensemble([("a", oe.Columns(list(COLUMNS)))], feasible=feasible.Simplex(D)).fit(rows)
    deadly = Deadly(COLUMNS, marker, os.getpid())
    found = Ensemble([("a", deadly)], feasible=feasible.Simplex(D)).fit(rows, engine=two)
    assert marker.exists()
    same_bits(found, expected)


def test_a_worker_that_dies_with_a_part_of_a_dask_frame(two: Any, tmp_path: Path) -> None:
    marker, frame = tmp_path / "killed", world(ROWS)
    expected = Ensemble([("a", oe.Columns(list(COLUMNS)))], feasible=feasible.Simplex(D), context=None).fit(
        frame, labels(frame)
    )
    deadly = Deadly(COLUMNS, marker, os.getpid())
    found = Ensemble([("a", deadly)], feasible=feasible.Simplex(D)).fit(frame_of(3), "y_*", engine=two)
    assert marker.exists()
    same_bits(found, expected)


@pytest.mark.parametrize("ours", [True, False], ids=["of ours", "of others"])
def test_what_is_raised_on_a_worker_arrives_as_it_is(ours: bool, two: Any, rows: oe.Rows) -> None:
    refusing = Refusing(COLUMNS, os.getpid(), ours)
    ensemble = Ensemble([("a", refusing)], feasible=feasible.Simplex(D))
    words = r"there are no prices today. Ask tomorrow." if ours else "no prices"
    with pytest.raises(InputError if ours else ArithmeticError, match=words) as caught:
        ensemble.fit(rows, engine=two)
    assert caught.value.__notes__[0] == "This came from the member 'a' of the ensemble."
    assert "parquet (counted from 0)" in caught.value.__notes__[1]
    assert two.submit(sum, [1, 2]).result() == 3


def test_a_row_that_is_not_finite_is_named_by_its_file(two: Any, tmp_path: Path) -> None:
    frame = world(ROWS).copy()
    frame.loc[BLOCK_ROWS + 5000, "a_1"] = np.inf
    rows = oe.Rows(write(frame, tmp_path, [BLOCK_ROWS], 9000), labels="y_*")
    with pytest.raises(InputError, match=r"model 'a' must be finite.* in row 5000 of .*part-1.parquet"):
        make().fit(rows, engine=two)
    with pytest.raises(InputError, match=r"model 'a' must be finite.* in row 70536 of the Dask frame"):
        make().fit(dd.from_pandas(frame, npartitions=4), "y_*", engine=two)


def test_an_interrupt_cancels_what_has_not_begun(two: Any, rows: oe.Rows, tmp_path: Path) -> None:
    slow = Slow(COLUMNS, tmp_path, os.getpid())

    def interrupt(stage: str, share: float) -> None:
        if stage == "cross-fitting":
            raise KeyboardInterrupt

    ensemble = Ensemble([("a", slow)], feasible=feasible.Simplex(D))
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(rows, engine=two, progress=interrupt)
    assert not hasattr(ensemble, "decider_")
    assert two.submit(sum, [1, 2]).result(timeout=20) == 3
    time.sleep(0.5)
    begun = len(list(tmp_path.iterdir()))
    time.sleep(0.7)
    assert len(list(tmp_path.iterdir())) == begun


@dataclass(frozen=True)
class Numbers:
    """Blocks that are numbers."""

    count: int

    def part(self, start: int, stop: int) -> list[int]:
        return list(range(start, stop))


def add_state(block: int, state: Any) -> Any:
    return state * block


@pytest.mark.parametrize("count", [1, 2, 5, 13])
@pytest.mark.parametrize("size", [3, 1_500_000])
def test_small_and_large_states_go_along(size: int, count: int, two: Any) -> None:
    state, done = np.arange(size, dtype=np.float64), list[int]()
    total = DaskEngine(two).run(add_state, Numbers(count), state, done.append)
    np.testing.assert_array_equal(total, state * sum(range(count)))
    assert sum(done) == count
    assert total.flags.writeable


def twice(part: pd.DataFrame) -> int:
    time.sleep(0.02 if len(part) % 2 else 0.0)
    return 2 * len(part)


def test_results_come_in_the_order_of_the_parts(two: Any) -> None:
    parts = (world(100)[:size] for size in range(20))
    assert list(map_in_order(two, twice, parts)) == [2 * size for size in range(20)]
    some = map_in_order(two, lambda part: 1 / part, iter([1, 2, 0, 4]))  # a function without a name of its own
    assert [next(some), next(some)] == [1.0, 0.5]
    with pytest.raises(ZeroDivisionError):
        next(some)
    stopped = map_in_order(two, twice, (world(100)[:size] for size in range(20)))
    assert next(stopped) == 0
    stopped.close()  # type: ignore[attr-defined]
    assert two.submit(sum, [1, 2]).result() == 3
