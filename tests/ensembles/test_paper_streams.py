"""The paper's two ensembles on files: what a fit in memory learns, whatever the row groups and the threads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble._core.engine import Local
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.multicalibration import cell_tables, passes
from optensemble.tables.scratch import FolderScratch
from tests.ensembles.paper import BOTH, SENSES, answers, assert_same, assert_same_log
from tests.ensembles.source_worlds import ORACLE

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")

D = 3
SMALL, LARGE = 500, 70_000
LABELS = [f"y_{j}" for j in range(D)]
OMEGA = feasible.Simplex(D)
SCHEDULES = pytest.mark.parametrize("schedule", ["frozen", "joint"])
COMMON: dict[str, Any] = {"alpha": 0.004, "bucket_width": 0.25, "max_rounds": 8, "validation": None}
FRAMES = ["history_", "guarantees_"]
NUMBERS = ["worst_violation_", "n_thin_", "M_", "n_rows_", "n_rounds_", "n_solves_", "converged_", "stopped_"]


@cache
def table(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(n)
    labels = rng.normal(size=(n, D))
    said = [labels * rng.uniform(size=D) + 0.7 * rng.normal(size=(n, D)) for _ in range(2)]
    columns = {"a": said[0], "b": said[1], "y": labels}
    frame = pd.DataFrame({f"{name}_{j}": values[:, j] for name, values in columns.items() for j in range(D)})
    frame = frame.assign(region=np.array(["north", "south", "west"])[rng.integers(3, size=n)])
    return frame.assign(budget=rng.uniform(0, 4, n), **{f"most_{j}": rng.uniform(0.1, 2, n) for j in range(D)})


def in_memory(n: int) -> tuple[pd.DataFrame, Any]:
    return table(n).drop(columns=LABELS), table(n)[LABELS]


def on_disk(folder: Path, n: int, files: int = 2, group: int | None = None) -> oe.Rows:
    """The rows in files of odd row groups."""
    cuts = np.linspace(0, n, files + 1).astype(int)
    for number, (start, stop) in enumerate(pairwise(cuts)):
        part = table(n)[start:stop]
        part.to_parquet(folder / f"part-{files}-{group}-{number}.parquet", row_group_size=group or n // 7 + 3)
    return oe.Rows(folder / f"part-{files}-{group}-*.parquet", labels="y_*")


class Planner:
    """Decides by the columns of a model."""

    def __init__(self, name: str, sign: float) -> None:
        self.columns, self.sign = oe.Columns([f"{name}_{j}" for j in range(D)]), sign

    def decide(self, X: Any) -> Any:
        return OMEGA.argmax(self.sign * self.columns.predict(X))


@dataclass(frozen=True)
class PlannerByRow:
    """Decides by the columns of a model, for the set of every row."""

    columns: oe.Columns
    omega: FeasibleSet

    def decide(self, X: Any) -> Any:
        return self.omega.for_rows(X).argmax(self.columns.predict(X))


BAG = feasible.Knapsack([1.0, 2.0, 3.0], oe.Columns("budget"))
BY_ROW = [
    BAG,
    feasible.Box(upper=oe.Columns("most_*"), dimension=D),
    feasible.ByKey("region", {"north": BAG, "south": feasible.Simplex(D), "west": feasible.Product([BAG])}),
    ORACLE,
]


def make(kind: Any, **parameters: Any) -> Any:
    sign = -1.0 if parameters.get("sense") == "min" else 1.0
    models = [(name, oe.Columns([f"{name}_{j}" for j in range(D)])) for name in "ab"]
    members = models if kind is oe.WhiteBoxEnsemble else [(name, Planner(name, sign)) for name in "ab"]
    return kind(members, parameters.pop("feasible", OMEGA), **{**COMMON, **parameters})


def assert_same_fit(ours: Any, theirs: Any, *, bits: bool = False) -> None:
    """The same corrections to the last bit; tables to the last bit or to rounding."""
    assert_same_log(ours, theirs)
    frames = FRAMES + (["conditional_"] if isinstance(ours, oe.BlackBoxEnsemble) else [])
    for name in frames:
        exact: Any = {"check_exact": True} if bits else {"rtol": 1e-9, "atol": 1e-12}
        pd.testing.assert_frame_equal(getattr(ours, name), getattr(theirs, name), **exact)
    for name in NUMBERS:
        assert getattr(ours, name) == getattr(theirs, name), name
    np.testing.assert_array_equal(ours.n_patches_, theirs.n_patches_)
    np.testing.assert_array_equal(ours.fingerprints_, theirs.fingerprints_)
    assert ours.grouping_ == theirs.grouping_


@pytest.fixture(autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The work of every fit goes here, and is gone afterwards."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


@pytest.mark.no_cover
@BOTH
@SENSES
@SCHEDULES
@pytest.mark.parametrize("subgroups", [None, "region"])
def test_a_fit_on_files_is_the_fit_in_memory(
    kind: Any, sense: str, schedule: str, subgroups: str | None, tmp_path: Path
) -> None:
    given = {"sense": sense, "schedule": schedule, "subgroups": subgroups, "min_cell": 5, "max_rounds": None}
    X, Y = in_memory(SMALL)
    whole = make(kind, **given).fit(X, Y)
    streamed = make(kind, **given).fit(on_disk(tmp_path, SMALL, group=37))
    assert whole.n_rounds_ > 0
    assert_same_fit(streamed, whole)
    assert_same(answers(streamed, X), answers(whole, X))


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize(("schedule", "sense"), [("frozen", "min"), ("joint", "max")])
def test_several_blocks_are_the_fit_in_memory_on_any_threads_and_row_groups(
    kind: Any, sense: str, schedule: str, tmp_path: Path
) -> None:
    X, Y = in_memory(LARGE)
    given = {"sense": sense, "schedule": schedule, "subgroups": "region", "min_cell": 20}
    whole = make(kind, **given).fit(X, Y)
    streamed = make(kind, **given).fit(on_disk(tmp_path, LARGE))
    assert_same_fit(streamed, whole)
    assert_same(answers(streamed, X[:1000]), answers(whole, X[:1000]))
    other = make(kind, **given).fit(on_disk(tmp_path, LARGE, files=3, group=20_001), engine=Local(2))
    assert_same_fit(other, streamed, bits=True)


@SCHEDULES
@pytest.mark.parametrize("conditional", [False, True])
def test_a_black_box_that_begins_with_a_model(schedule: str, conditional: bool, tmp_path: Path) -> None:
    given: dict[str, Any] = {"schedule": schedule, "init": oe.Columns([f"b_{j}" for j in range(D)]), "sense": "min"}
    whole = make(oe.BlackBoxEnsemble, conditional=conditional, **given).fit(*in_memory(SMALL))
    streamed = make(oe.BlackBoxEnsemble, conditional=conditional, **given).fit(on_disk(tmp_path, SMALL))
    assert_same_fit(streamed, whole)


@BOTH
@SCHEDULES
@pytest.mark.parametrize("omega", BY_ROW, ids=str)
def test_a_set_for_each_row(kind: Any, schedule: str, omega: FeasibleSet, tmp_path: Path) -> None:
    members: list[tuple[str, Any]] = [(name, oe.Columns(f"{name}_*")) for name in "ab"]
    if kind is oe.BlackBoxEnsemble:  # the policies of the models
        members = [(name, PlannerByRow(member, omega)) for name, member in members]
    ours, theirs = (kind(members, omega, schedule=schedule, **COMMON) for _ in range(2))
    X, Y = in_memory(SMALL)
    assert_same_fit(ours.fit(on_disk(tmp_path, SMALL)), theirs.fit(X, Y))
    np.testing.assert_array_equal(ours.feasible_.upper, theirs.feasible_.upper)


@BOTH
def test_sets_solved_from_a_hint_and_shrinkage(kind: Any, tmp_path: Path) -> None:
    box = feasible.Polytope(A_ub=[[1.0] * D, [1.0, 0.0, 0.0]], b_ub=[0.9, 0.7])
    given: dict[str, Any] = {"schedule": "joint", "shrinkage": 3.0, "feasible": box}
    members = {oe.BlackBoxEnsemble: "policies", oe.WhiteBoxEnsemble: "models"}[kind]
    one = [("a", lambda X: 0.6 * Planner("a", 1.0).decide(X))]
    whole, streamed = (make(kind, **given).set_params(**{members: one}) for _ in range(2))
    assert_same_fit(streamed.fit(on_disk(tmp_path, SMALL)), whole.fit(*in_memory(SMALL)))
    assert whole.n_rounds_ > 0


@BOTH
@SCHEDULES
def test_cells_whose_overlaps_are_counted_once_they_are_known(
    kind: Any, schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make(kind, schedule=schedule, min_cell=30).fit(*in_memory(SMALL))
    monkeypatch.setattr(passes, "_ALL_CELLS", 0)
    assert_same_fit(make(kind, schedule=schedule, min_cell=30).fit(on_disk(tmp_path, SMALL)), whole)


def test_no_table_is_made_of_too_many_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_tables, "TABLE_LIMIT", 4)
    with pytest.raises(InputError, match=r"cells have at least 1 row, and .* at most 4: .*Take a larger bucket_width"):
        make(oe.WhiteBoxEnsemble).fit(on_disk(tmp_path, SMALL))


@BOTH
def test_what_is_missing_on_disk_is_made_again(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, loads, load = make(kind).fit(*in_memory(SMALL)), [0], FolderScratch.load

    def forgetful(self: FolderScratch, number: int) -> Any:
        loads[0] += 1
        return None if loads[0] % 3 == 0 else load(self, number)

    monkeypatch.setattr(FolderScratch, "load", forgetful)
    assert_same_fit(make(kind).fit(on_disk(tmp_path, SMALL)), whole)
    assert loads[0] > 6


@BOTH
def test_members_are_asked_once(kind: Any, tmp_path: Path) -> None:
    calls = list[int]()

    def member(X: Any) -> Any:
        calls.append(len(X))
        return Planner("a", 1.0).decide(X)

    ensemble = make(kind).set_params(**{"models" if kind is oe.WhiteBoxEnsemble else "policies": [("one", member)]})
    assert ensemble.fit(on_disk(tmp_path, SMALL)).n_rounds_ > 0
    assert calls == [SMALL]


def interrupt_after(rounds: int, error: type[BaseException]) -> Callable[[int, float], None]:
    def callback(number: int, violation: float) -> None:
        if number == rounds:
            raise error("enough")

    return callback


@BOTH
@SCHEDULES
def test_an_interrupt_keeps_whole_rounds(kind: Any, schedule: str, tmp_path: Path) -> None:
    given = {"schedule": schedule, "alpha": 1e-4, "bucket_width": 0.1}
    stopped, same = make(kind, **given), make(kind, **{**given, "max_rounds": 1})
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(on_disk(tmp_path, SMALL), callback=interrupt_after(1, KeyboardInterrupt))
    assert "interrupted after 1 rounds" in stopped.stopped_
    assert_same_log(stopped, same.fit(*in_memory(SMALL)))
    pd.testing.assert_frame_equal(stopped.history_, same.history_, rtol=1e-9, atol=1e-12)


@BOTH
def test_an_interrupt_while_rows_are_solved_keeps_the_rounds_found(kind: Any, tmp_path: Path) -> None:
    left = [7 if kind is oe.WhiteBoxEnsemble else 2]  # a black box needs few rounds

    def oracle(C: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return OMEGA.argmax(C)

    given: dict[str, Any] = {"alpha": 1e-4, "bucket_width": 0.1, "max_rounds": 50}
    ensemble = make(kind, feasible=feasible.Oracle(oracle, D), **given)
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(on_disk(tmp_path, SMALL))
    whole = make(kind, **{**given, "max_rounds": ensemble.n_rounds_}).fit(*in_memory(SMALL))
    assert 0 < ensemble.n_rounds_ < 50
    assert_same_log(ensemble, whole)
    assert ensemble.worst_violation_ == whole.worst_violation_


@BOTH
def test_an_error_loses_nothing(kind: Any, tmp_path: Path) -> None:
    X, Y = in_memory(SMALL)
    ensemble = make(kind).fit(X, Y)
    before = answers(ensemble, X)
    with pytest.raises(RuntimeError, match="enough"):
        ensemble.fit(on_disk(tmp_path, SMALL), callback=interrupt_after(1, RuntimeError))
    assert_same(answers(ensemble, X), before)
    assert ensemble.cross_fit().has_record


@BOTH
def test_a_fit_in_memory_after_one_on_files_can_be_judged(kind: Any, tmp_path: Path) -> None:
    ensemble = make(kind).fit(on_disk(tmp_path, SMALL)).fit(*in_memory(SMALL))
    assert ensemble.cross_fit().has_record


@BOTH
def test_what_needs_all_rows_in_memory_says_so(kind: Any, tmp_path: Path) -> None:
    rows = on_disk(tmp_path, SMALL)
    with pytest.raises(InputError, match=r"validation='cv' needs all rows in memory.* Give validation=None, or"):
        make(kind, validation="cv").fit(rows)
    with pytest.raises(InputError, match=r"schedule='round-robin' needs all .* Give schedule='joint' or 'frozen', or"):
        make(kind, schedule="round-robin").fit(rows)
    ensemble = make(kind).fit(rows)
    assert ensemble.schedule_ == "frozen"
    promise = ensemble.promise(in_memory(SMALL)[0])
    assert promise.high == np.inf
    assert "read from a source, and a record needs them all in memory" in promise.note
    with pytest.raises(InputError, match=r"no record can be made: .* Fit again, on at least 100 rows as arrays or a f"):
        ensemble.cross_fit()


def test_extending_says_what_to_do(tmp_path: Path) -> None:
    rows = on_disk(tmp_path, SMALL)
    ensemble, whole = make(oe.BlackBoxEnsemble).fit(rows), make(oe.BlackBoxEnsemble).fit(*in_memory(SMALL))
    words = "extend needs all rows in memory, .* Fit again, with all policies, on a source of all rows"
    with pytest.raises(InputError, match=words):
        ensemble.extend(policies=[("c", Planner("a", -1.0))])
    with pytest.raises(InputError, match=words):
        whole.extend(X=rows, Y=np.zeros((SMALL, D)))


@BOTH
def test_bad_rows_are_refused(kind: Any, tmp_path: Path) -> None:
    rows = on_disk(tmp_path, SMALL)
    with pytest.raises(InputError, match="Rows has labels of its own"):
        make(kind).fit(rows, in_memory(SMALL)[1])
    with pytest.raises(InputError, match=r"the labels are missing. Give Y, or X as oe.Rows"):
        make(kind).fit(in_memory(SMALL)[0])
    with pytest.raises(InputError, match=r"at most M=0.5 in absolute value; got"):
        make(kind, M=0.5).fit(rows)
    with pytest.raises(InputError, match="is below what float64 can tell apart"):
        make(kind, alpha=1e-15).fit(rows)
    with pytest.raises(InputError, match=r"engine must be a dask.distributed.Client"):
        make(kind).fit(rows, engine=3)
    assert make(kind, M=50.0).fit(rows).M_ == 50.0


@pytest.mark.parametrize("rounds", [0, 1])
def test_few_rounds(rounds: int, tmp_path: Path) -> None:
    given = {"max_rounds": rounds}
    whole = make(oe.WhiteBoxEnsemble, **given).fit(*in_memory(SMALL))
    assert_same_fit(make(oe.WhiteBoxEnsemble, **given).fit(on_disk(tmp_path, SMALL)), whole)


def test_models_that_saw_these_rows_are_named(tmp_path: Path) -> None:
    class Trained(Planner):
        oob_score_ = 0.1

        def predict(self, X: Any) -> Any:
            return table(SMALL)[LABELS].to_numpy()[: len(X)]

    with pytest.warns(UserWarning, match="model 'seen' explains 1.00 of these labels' variance") as caught:
        oe.WhiteBoxEnsemble([("seen", Trained("a", 1.0))], OMEGA, **COMMON).fit(on_disk(tmp_path, SMALL))
    assert caught[0].filename == __file__


def test_progress_is_reported(tmp_path: Path) -> None:
    told = list[tuple[str, float]]()
    make(oe.WhiteBoxEnsemble).fit(on_disk(tmp_path, SMALL), progress=lambda *stage: told.append(stage))
    assert {name for name, _ in told} == {"asking members"}
    assert told[-1][1] == 1.0
