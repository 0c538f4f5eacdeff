"""Rows of a LiveEnsemble: in files and in requests they are decided alike, and what is missing is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import OptEnsembleError
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.live_table import LiveTable, Observed
from optensemble.tables.in_memory import MemoryTables
from optensemble.tables.reading import Tables
from tests.jobs.worlds import LABELS, MODELS, labels_of, make_rows, write_job, write_table

NEW = make_rows(90, seed=1).assign(budget=2.0, w=1.0)
MEMBERS = [f"{name}_{star}" for name in ("a", "b", "plan") for star in "012"]


def fitted(folder: Path, rows: pd.DataFrame | None = None, **changes: Any) -> Any:
    write_table(make_rows().assign(budget=2.0, w=1.0) if rows is None else rows, folder / "history.csv")
    changes = {"data": {"id": "day"}, **changes}
    return fit_job(prepare(read_job(write_job(folder, **changes))))


def table(ensemble: Any, **terms: Any) -> LiveTable:
    return LiveTable.of(oe.LiveEnsemble(ensemble, **terms))


def records(rows: pd.DataFrame, *without: str) -> MemoryTables:
    found: list[Any] = rows.drop(columns=list(without)).astype(object).to_dict("records")
    return MemoryTables.of_records([{k: None if v != v else v for k, v in row.items()} for row in found])


def file(rows: pd.DataFrame, path: Path) -> Tables:
    return Tables((write_table(rows, path),))


def refused(call: Any, *parts: str) -> None:
    with pytest.raises(OptEnsembleError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def require_same(left: Any, right: Any) -> None:
    for name in ("actions", "promised", "low", "high", "chosen", "ids"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups": {"data": {"id": "day", "groups": "customer"}},
    "subgroups": {"data": {"id": "day", "subgroups": ["region", "customer"]}},
    "weights": {"data": {"id": "day", "weight": "w"}},
    "set": {
        "policies": None,
        "feasible": {"kind": "knapsack", "weights": [1, 2, 3], "capacity": {"column": "budget"}},
    },
    "white box": {"policies": None, "ensemble": {"kind": "white_box", "max_rounds": 5}},
    "context": {"data": {"id": "day", "context": ["budget", "customer"]}},
}


@pytest.mark.parametrize("job", JOBS)
def test_rows_in_files_and_requests_are_decided_and_learned_alike(job: str, tmp_path: Path) -> None:
    ensemble = fitted(tmp_path, **JOBS[job])
    arrow = MemoryTables.of_table(pa.Table.from_pandas(NEW, preserve_index=False))
    ways: list[Any] = [file(NEW, tmp_path / "t.csv"), file(NEW, tmp_path / "t.parquet"), records(NEW), arrow]
    answers, lives = [], []
    for tables in ways:
        live = table(ensemble, refit="never" if job == "white box" else 60)  # a file has no rows of white boxes
        assert set(live.columns_needed) <= set(NEW.columns)
        assert (live.label_columns, live.coordinates) == (LABELS, ["0", "1", "2"])
        answers.append(live.decide(tables))
        assert live.observe(tables) == Observed(90, 90, 0, 0)
        assert live.observe(tables) == Observed(90, 0, 90, 0)
        assert len(live.live.refits_) == (job != "white box")
        lives.append(live.decide(records(NEW.assign(day=[f"later {i}" for i in range(90)]))))
    for found, later in zip(answers[1:], lives[1:], strict=True):
        require_same(found, answers[0])
        require_same(later, lives[0])
    assert answers[0].ids.tolist() == NEW["day"].tolist()


def test_ids_beside_the_rows_are_those_of_a_column(tmp_path: Path) -> None:
    ensemble = fitted(tmp_path)
    with_column, beside = (table(ensemble) for _ in range(2))
    days = [7, 7.5, "x", *range(100, 187)]
    answer = with_column.decide(records(NEW.assign(day=days)))
    require_same(beside.decide(records(NEW, "day"), days), answer)
    assert answer.ids.tolist()[:3] == ["7", "7.5", "x"]
    found = with_column.observe(records(NEW, "day"), [str(day) for day in days])
    assert (found.learned, found.unlabelled) == (90, 0)


def test_the_same_row_is_decided_once_whatever_it_came_in(tmp_path: Path) -> None:
    with oe.LiveEnsemble(fitted(tmp_path), log=tmp_path / "log.db") as live:
        rows = LiveTable.of(live)
        first = rows.decide(file(NEW, tmp_path / "t.csv"))
        for tables in (records(NEW), file(NEW, tmp_path / "t.parquet"), records(NEW[NEW.columns[::-1]], "w")):
            require_same(rows.decide(tables), first)
        require_same(rows.decide(records(NEW, "day"), NEW["day"].tolist()), first)
        refused(
            lambda: rows.decide(records(NEW.assign(a_0=0.0))), "the request: 90 of these 90 ids were given to other"
        )
        assert live.decided_ == 90


def test_rows_without_labels_are_left_for_later(tmp_path: Path) -> None:
    live, rows = table(fitted(tmp_path)), NEW[:10].astype({"y_0": object})
    live.decide(records(rows))
    rows.loc[rows.index[:3], "y_0"] = None
    assert live.observe(records(rows)) == Observed(10, 7, 0, 3)
    assert live.observe(file(rows, tmp_path / "t.csv")) == Observed(10, 0, 7, 3)
    assert live.observe(records(rows[:3])) == Observed(3, 0, 0, 3)
    assert live.observe(records(NEW[:10])) == Observed(10, 3, 7, 0)


def test_an_ensemble_from_python_is_asked_for_what_its_members_see(tmp_path: Path) -> None:
    names, rows = ["x_0", "x_1", "x_2", "region", "customer"], make_rows()
    rng = np.random.default_rng(0)

    def seen(rows: pd.DataFrame) -> pd.DataFrame:
        noisy = rows[LABELS].to_numpy() + rng.normal(size=(len(rows), 3))
        return rows.assign(**{f"x_{j}": noisy[:, j] for j in range(3)})

    rows, new = seen(rows), seen(NEW)
    ensemble = oe.DecisionEnsemble(
        [("linear", Members(LinearRegression().fit(rows[["x_0", "x_1", "x_2"]].to_numpy(), labels_of(rows))))],
        feasible=feasible.Simplex(3),
    ).fit(rows[names], labels_of(rows), groups="customer")
    live = table(ensemble)
    assert live.columns_needed == names
    assert live.label_columns == []
    answer = live.decide(records(new, "day"), new["day"].tolist())
    other = table(ensemble).decide(file(new.drop(columns="day"), tmp_path / "t.parquet"), new["day"].tolist())
    require_same(answer, other)
    refused(lambda: live.observe(records(new), new["day"].tolist()), "it is not known which columns of the request")
    named = LiveTable.of(live.live, id_column="day", labels="y_*")
    assert named.observe(records(new)) == Observed(90, 90, 0, 0)
    one = LiveTable.of(live.live, id_column="day", labels="y_0, y_1,y_2")
    assert one.observe(records(new)) == Observed(90, 0, 90, 0)
    refused(lambda: LiveTable.of(live.live, labels="y_0"), "--labels names 1 columns; 3 are needed")


class Members:
    """A model of a frame with text in it."""

    def __init__(self, model: LinearRegression) -> None:
        self._model = model

    def predict(self, X: pd.DataFrame) -> Any:
        assert X["region"].isin(["north", "south"]).all()
        return self._model.predict(X[["x_0", "x_1", "x_2"]].to_numpy())


def test_groups_of_the_fit_come_with_the_labels(tmp_path: Path) -> None:
    rows = make_rows()
    ensemble = oe.DecisionEnsemble(list(MODELS.items()), feasible=feasible.Simplex(3))
    ensemble.fit(rows, rows[LABELS], groups=rows["customer"].to_numpy())
    live = table(ensemble)
    grouped = LiveTable(live.live, live.roles.__class__(**{**vars(live.roles), "id": "day", "groups": "customer"}))
    grouped.decide(records(NEW))
    refused(
        lambda: grouped.observe(records(NEW, "customer")), "the groups of rows: the request has no column 'customer'"
    )
    assert grouped.observe(records(NEW)).learned == 90
    refused(lambda: live.observe(records(NEW[:1]), ["0"]), "the request: ", "Give groups= for these rows too")


def test_an_array_has_no_names_that_a_table_could_have(tmp_path: Path) -> None:
    rows = make_rows()
    ensemble = oe.DecisionEnsemble([("half", lambda X: X / 2)], feasible=feasible.Simplex(3))
    live = oe.LiveEnsemble(ensemble.fit(labels_of(rows), labels_of(rows)))
    refused(lambda: LiveTable.of(live), "this LiveEnsemble: its members were fitted on an array", "Use it from Python")


# What is wrong


def test_what_is_wrong_with_rows_is_told_with_its_place(tmp_path: Path) -> None:
    live, rows = table(fitted(tmp_path)), NEW[:5]
    without = NEW[:5].drop(columns="b_1")
    refused(lambda: live.decide(records(without)), "the request has no column 'b_1'. Did you mean")
    refused(lambda: live.decide(records(rows[:0])), "the request has no ")
    none = MemoryTables.of_table(pa.Table.from_pandas(rows[:0], preserve_index=False))
    refused(lambda: live.decide(none), "the request has no rows. Give a table with rows.")
    refused(lambda: live.decide(records(rows, "day")), "the request has no column 'day', which is to hold the ids")
    refused(lambda: live.decide(records(rows), ["1"]), "each of the 5 rows must have an id; got 1 ids")
    refused(lambda: live.decide(records(rows), "12345"), "got one text")
    refused(
        lambda: live.decide(records(rows), ["1", "2", None, "4", "5"]), "the id of row 2 (counted from 0)", "got none"
    )
    refused(lambda: live.decide(records(rows), ["1", "2", [3], "4", "5"]), "got list")
    refused(lambda: live.decide(records(rows), ["1", "2", "2", "4", "5"]), "the request: ids must be distinct; '2'")
    refused(lambda: live.decide(records(rows.assign(a_0=np.inf))), "column 'a_0' has an infinite value")
    refused(lambda: live.observe(records(rows)), "the request: 5 of these 5 ids are of no open row: '1-00000'")
    assert live.live.decided_ == 0
    live.decide(records(rows))
    live.observe(records(rows))
    refused(lambda: live.observe(records(rows.assign(y_0=9.0))), "5 of these 5 rows already have different labels")


def test_policies_outside_the_set_are_named_with_their_rows(tmp_path: Path) -> None:
    live = table(fitted(tmp_path))
    rows = NEW[:5].assign(plan_0=[0.0, 0.0, 5.0, 0.0, 0.0], plan_1=[1.0] * 5, plan_2=[0.0] * 5)
    refused(lambda: live.decide(records(rows)), "the request: ", "row 2 (counted from 0, id '1-00002')")


def test_rows_without_any_ids_are_refused(tmp_path: Path) -> None:
    live, path = table(fitted(tmp_path, data={})), tmp_path / "new.csv"
    refused(lambda: live.decide(records(NEW)), "rows have no ids", "Give an id for each row.")
    refused(lambda: live.decide(file(NEW, path)), f"{path}: rows have no ids", "Name their column: --id-column COLUMN.")
    refused(lambda: live.observe(file(NEW, path)), "--id-column")
    other = LiveTable.of(live.live, id_column="days")
    refused(lambda: other.decide(file(NEW, path)), "has no column 'days'", "or name another: --id-column COLUMN")
    refused(lambda: LiveTable.of(live.live, id_column="promised"), "the id column 'promised' has the name of a column")


def test_readers_of_many_kinds_of_tables_are_forgotten(tmp_path: Path) -> None:
    live = table(fitted(tmp_path))
    for number in range(40):
        row = NEW[number : number + 1]
        live.decide(records(row.assign(**{f"further {number}": 1.0})))
    assert len(live._readers) <= 16
    assert live.live.decided_ == 40


def test_more_rows_than_a_batch_are_decided_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = fitted(tmp_path)
    whole = table(ensemble).decide(records(NEW))
    live = table(ensemble)
    read = live.read
    monkeypatch.setattr(LiveTable, "read", lambda self, tables, ids: read(tables, ids, 7))
    require_same(live.decide(records(NEW)), whole)
