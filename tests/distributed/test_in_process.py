"""What workers do, done in this process; and clusters that cannot be had."""

from __future__ import annotations

import pickle
import socket
import sys
from pathlib import Path
from typing import Any, cast

import cloudpickle
import dask.dataframe as dd
import numba
import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble._core.engine import Tree
from optensemble.distributed import cluster, dask_engine
from optensemble.distributed.dask_engine import DaskEngine, map_in_order
from optensemble.distributed.dask_rows import DaskRows, PartitionRows
from optensemble.ensembles._decision_rows import as_engine
from optensemble.exceptions import InputError
from optensemble.members.sources import RawBlocks, SurveyPass, survey_rows
from tests.ensembles.source_worlds import LABELS, labels, make, same_bits, world, write


def halves() -> Any:
    return dd.from_pandas(world(1000), npartitions=3)


# Dask frames


def test_a_dask_frame_is_fitted_in_this_process_too() -> None:
    frame = world(1000)
    expected = make(subgroups="region").fit(frame, labels(frame), groups="group")
    same_bits(make(subgroups="region").fit(halves(), LABELS, groups="group"), expected)
    same_bits(make(subgroups="region").fit(halves(), "y_*", groups="group"), expected)


@pytest.mark.parametrize(("start", "stop"), [(0, 1000), (0, 1), (333, 335), (500, 900), (999, 1000)])
def test_partitions_hold_the_rows_that_are_asked_for(start: int, stop: int) -> None:
    rows = DaskRows(halves(), "y_*")
    assert (rows.row_count, str(rows)) == (1000, "the Dask frame")
    expected = world(1000)[start:stop].reset_index(drop=True)
    part = rows.part(start, stop)
    given = part.given([each.compute(scheduler="synchronous") for each in part.frames])
    for source in (rows, part, given):
        pieces = list(source.read(start, stop))
        X = pd.concat([piece.X for piece in pieces], ignore_index=True)
        pd.testing.assert_frame_equal(X, expected.drop(columns=LABELS), check_dtype=False)
        np.testing.assert_array_equal(np.concatenate([piece.labels for piece in pieces]), expected[LABELS])
    assert isinstance(given, PartitionRows)
    assert given.row_count == stop
    assert given.place(start) == f"row {start} of the Dask frame (counted from 0)"
    fewer = rows.only(["a_0", "no such"])
    assert next(fewer.read(start, stop)).X.columns.tolist() == ["a_0"]


def test_labels_of_a_dask_frame_are_names_of_columns() -> None:
    with pytest.raises(InputError, match=r"labels of a Dask frame are columns of it: .*; got DataFrame"):
        make().fit(halves(), labels(world(1000)))
    with pytest.raises(InputError, match=r"labels of a Dask frame are columns of it: .*; got NoneType"):
        make().fit(halves())
    with pytest.raises(InputError, match="labels: no column matches 'z_"):
        make().fit(halves(), "z_*")
    with pytest.raises(InputError, match=r"a Dask frame is needed; got Array. Use dask.dataframe"):
        make().fit(halves()[["a_0"]].to_dask_array(lengths=True), "y_*")
    with pytest.raises(InputError, match=r"must be found in them. Name a column"):
        make().fit(halves(), "y_*", groups=np.arange(1000))


# What a worker does


def test_a_run_of_blocks_is_added_up_from_bytes(tmp_path: Path) -> None:
    rows = oe.Rows(write(world(1000), tmp_path, [300], 70), labels="y_*")
    state = pickle.dumps(SurveyPass("group", "region"))
    expected = pickle.loads(state)
    for source in (rows, DaskRows(halves(), "y_*")):
        part: Any = RawBlocks(source).part(0, 1)
        frames = [each.compute(scheduler="synchronous") for each in part.frames]
        packed = dask_engine._packed(part.given([]) if frames else part)
        found = dask_engine._work(pickle.dumps(survey_rows), packed, frames, dask_engine._same(state))
        here = survey_rows(next(iter(RawBlocks(rows).part(0, 1))), expected)
        assert found.values == here.values == (frozenset({"east", "west"}),)
        np.testing.assert_array_equal(found.clusters.ids, here.clusters.ids)  # type: ignore[union-attr]


class Nested(str):
    """Text whose sum shows what was added to what."""

    __slots__ = ()

    def __add__(self, other: str) -> Nested:
        return Nested(f"({self:s}{other:s})")


@pytest.mark.parametrize("count", [*range(1, 20), 64, 65, 67, 100])
def test_tables_that_are_added_several_at_once_add_up_in_the_same_tree(count: int) -> None:
    level, tree = [Nested(number) for number in range(count)], Tree()
    for table in level:
        tree.add(table)
    while len(level) > 1:
        level = [dask_engine._add_up(*level[at : at + 4]) for at in range(0, len(level), 4)]
    assert level == [tree.total()]
    assert dask_engine._ADDED_AT_ONCE in (2, 4, 8)


def test_solvers_on_a_worker_use_one_thread() -> None:
    before = numba.get_num_threads()
    with dask_engine._one_kernel_thread():
        assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == before


def test_functions_without_a_name_travel() -> None:
    assert dask_engine._call(cloudpickle.dumps(lambda part: part + 1), dask_engine._packed(2)) == 3


class Future:
    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self) -> Any:
        return self.value


class Here:
    """What map_in_order asks of a client, in this process."""

    def __init__(self) -> None:
        self.waiting, self.cancelled = 0, list[Any]()

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {"one": None}}

    def submit(self, function: Any, *given: Any, pure: bool) -> Future:
        assert not pure
        return Future(function(*(each.value if isinstance(each, Future) else each for each in given)))

    def cancel(self, futures: list[Any]) -> None:
        self.cancelled += futures


def test_few_parts_wait_and_those_left_are_cancelled() -> None:
    here, taken = Here(), list[int]()

    def parts() -> Any:
        for number in range(9):
            taken.append(number)
            yield number

    found = map_in_order(here, lambda number: number * 10, parts())
    assert [next(found), next(found)] == [0, 10]
    assert len(taken) <= 4
    found.close()  # type: ignore[attr-defined]
    assert here.cancelled
    assert list(map_in_order(Here(), lambda number: number * 10, range(5))) == [0, 10, 20, 30, 40]


# Clusters that cannot be had


def test_a_client_is_known_by_its_package() -> None:
    stranger = type("Client", (), {"__module__": "distributed.client"})()
    assert as_engine(stranger, None) == DaskEngine(stranger)


def test_no_cluster_is_asked_for() -> None:
    with cluster.open_client() as client:
        assert client is None


def test_one_cluster_at_a_time() -> None:
    with pytest.raises(InputError, match=r"Give one of them"), cluster.open_client("tcp://127.0.0.1:1", 2):
        pass


def test_without_dask_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'optensemble\[dask\]'"), cluster.open_client(workers=2):
        pass


def unused_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", "1s")
    address = f"tcp://127.0.0.1:{unused_port()}"
    with pytest.raises(InputError, match=f"no Dask scheduler answers at {address}. Check"):  # noqa: SIM117
        with cluster.open_client(address):
            pass
    with pytest.raises(InputError, match="no Dask scheduler answers at nonsense"), cluster.open_client("nonsense://x"):
        pass


# Workers that die again and again


@pytest.mark.parametrize("deaths", [0, 2, 3])
def test_a_pass_is_repeated_when_workers_die(deaths: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import KilledWorker

    tried, nobody = list[int](), cast(Any, None)

    def dies(self: DaskEngine, *_: Any) -> str:
        tried.append(1)
        if len(tried) <= deaths:
            raise KilledWorker("task", nobody, 3)
        return "the table"

    monkeypatch.setattr(DaskEngine, "_run", dies)
    engine, blocks, state = DaskEngine(None), RawBlocks(DaskRows(halves(), "y_*")), SurveyPass("group", None)
    if deaths < 3:
        found: Any = engine.run(survey_rows, blocks, state)
        assert found == "the table"
    else:
        with pytest.raises(KilledWorker):
            engine.run(survey_rows, blocks, state)
    assert len(tried) == min(deaths + 1, 3)
