"""Audits, reports and explanations of rows in files are those of Python; the ensemble's file knows its columns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError, InputError
from optensemble.jobs.audit import TableAudit, audit_table, explain_row, make_report
from optensemble.jobs.decide import decide_table
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.saved_ensemble import SavedEnsemble, open_ensemble
from optensemble.tables.reading import Tables
from tests.jobs.worlds import (
    LABELS,
    MODELS,
    STARS,
    labels_of,
    make_rows,
    python_ensemble,
    read_table,
    write_job,
    write_table,
)

ROWS, LATER = make_rows(), make_rows(150, seed=2)


def job_ensemble(folder: Path, **changes: Any) -> Path:
    write_table(ROWS, folder / "history.csv")
    fit_job(prepare(read_job(write_job(folder, **changes)))).save(folder / "e.oe")
    return folder / "e.oe"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job_ensemble(tmp_path_factory.mktemp("plain"), data={"id": "day"})


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables((write_table(LATER, tmp_path_factory.mktemp("later") / "later.parquet"),))


def judged(path: Path, tables: Tables, **columns: Any) -> TableAudit:
    return audit_table(open_ensemble(path, tables, **columns), tables)


def explained(path: Path, tables: Tables, row: int | None = None, id_value: str | None = None, **columns: Any) -> Any:
    return explain_row(open_ensemble(path, tables, **columns), tables, row, id_value)


# Audits


def test_an_audit_is_that_of_python(plain: Path, later: Tables) -> None:
    expected = oe.load(plain).audit(LATER, labels_of(LATER))
    found = judged(plain, later).audit
    assert str(found) == str(expected)
    pd.testing.assert_frame_equal(found.summary, expected.summary)


def test_an_audit_goes_by_time_and_groups_of_the_job(tmp_path: Path, later: Tables) -> None:
    path = job_ensemble(tmp_path, data={"time": "date", "groups": "customer"})
    shuffled = Tables((write_table(LATER.sample(frac=1, random_state=0), tmp_path / "s.csv"),))
    clusters = LATER["customer"].astype(str).tolist()
    expected = oe.load(path).audit(LATER, labels_of(LATER), time_ordered=True, groups=clusters)
    for tables in (later, shuffled):
        assert str(judged(path, tables).audit) == str(expected)


def test_later_rows_of_one_cluster_are_judged_with_a_warning(tmp_path: Path) -> None:
    path = job_ensemble(tmp_path, data={"groups": "customer"})
    tables = Tables((write_table(LATER.assign(customer=7), tmp_path / "one.csv"),))
    with pytest.warns(UserWarning, match="all rows are of one customer: they are treated as independent"):
        found = judged(path, tables).audit
    oe.load(path).save(path, keep_rows=False)  # then it does not know how groups are found
    assert str(found) == str(oe.load(path).audit(LATER, labels_of(LATER)))
    with pytest.warns(UserWarning, match="all rows are of one customer: they are treated as independent"):
        assert str(judged(path, tables).audit) == str(found)


def test_a_single_later_row_is_too_few_to_tell(plain: Path, tmp_path: Path) -> None:
    tables = Tables((write_table(LATER[:1], tmp_path / "one.csv"),))
    assert audit_table(open_ensemble(plain, tables), tables).audit.grade == "too few rows"


def test_columns_given_go_before_those_of_the_job(plain: Path, tmp_path: Path) -> None:
    renamed = LATER.rename(columns={f"y_{star}": f"truth_{star}" for star in STARS})
    tables = Tables((write_table(renamed, tmp_path / "r.csv"),))
    with pytest.raises(InputError, match="has no column 'y_0'"):
        judged(plain, tables)
    found = judged(plain, tables, labels="truth_*", time="date").audit
    assert str(found) == str(oe.load(plain).audit(LATER, labels_of(LATER), time_ordered=True))


def test_labels_given_must_be_as_many_as_coordinates(plain: Path, later: Tables) -> None:
    with pytest.raises(InputError, match=r"--labels|later\.parquet"):
        judged(plain, later, labels="y_0")


def test_labels_given_as_a_pattern_go_with_the_coordinates_by_their_star(tmp_path: Path) -> None:
    """The job has its labels in an order of its own, which another table's pattern must not undo."""
    path = job_ensemble(tmp_path, data={"labels": ["y_2", "y_0", "y_1"]})
    renamed = LATER.rename(columns={f"y_{star}": f"truth_{star}" for star in STARS})
    tables = Tables((write_table(renamed, tmp_path / "r.csv"),))
    expected = oe.load(path).audit(LATER, LATER[["y_2", "y_0", "y_1"]])
    assert str(judged(path, tables, labels="truth_*").audit) == str(expected)


def test_a_report_is_one_page_about_these_rows(plain: Path, later: Tables) -> None:
    found = judged(plain, later)
    page = make_report(found)
    assert page.startswith("<!doctype html>")
    assert "later.parquet" in page
    assert found.audit.verdict.split(":")[-1].strip() in page


# Explanations


@pytest.mark.parametrize("row", [0, 17, 149])
def test_an_explanation_is_that_of_python(row: int, plain: Path, later: Tables) -> None:
    expected = oe.load(plain).explain(LATER, row)
    found = explained(plain, later, row)
    assert found.row == row
    assert str(found) == str(expected)
    by_id = explained(plain, later, id_value=LATER["day"][row])
    assert str(by_id) == str(expected)


def test_rows_are_counted_over_files(plain: Path, tmp_path: Path) -> None:
    paths = [write_table(part, tmp_path / name) for part, name in ((LATER[:60], "1.csv"), (LATER[60:], "2.parquet"))]
    found = explained(plain, Tables(tuple(paths)), 100)
    assert str(found) == str(oe.load(plain).explain(LATER, 100))


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (list(range(150)), "17"),
        ([dt.date(2026, 1, 1) + dt.timedelta(days=number) for number in range(150)], "2026-01-18"),
        (list(pd.date_range("2026-01-01", periods=150)), "2026-01-18"),
        (list(pd.date_range("2026-01-01", periods=150, freq="h")), "2026-01-01 17:00:00"),
    ],
    ids=["whole", "date", "day", "hour"],
)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_row_is_found_by_an_id_of_any_type(
    ids: list[Any], wanted: str, name: str, plain: Path, tmp_path: Path
) -> None:
    tables = Tables((write_table(LATER.assign(day=ids), tmp_path / name),))
    assert explained(plain, tables, id_value=wanted).row == 17


@pytest.mark.parametrize(
    ("row", "id_value", "message"),
    [
        (None, None, "no row to explain is given. Give --row with its number, from 0, or --id"),
        (3, "0-00003", "--row and --id are both given"),
        (150, None, "has no row 150: it has 150, counted from 0. Check --row or --id."),
        (None, "zebra", "has no row of id 'zebra'"),
    ],
)
def test_a_row_that_is_not_there_is_told(
    row: int | None, id_value: str | None, message: str, plain: Path, later: Tables
) -> None:
    with pytest.raises(InputError) as caught:
        explained(plain, later, row, id_value)
    assert message in str(caught.value)


def test_without_an_id_column_there_is_no_id(tmp_path: Path, later: Tables) -> None:
    path = job_ensemble(tmp_path)
    with pytest.raises(InputError, match=r"has no id column. Name it with --id-column, or give --row"):
        explained(path, later, id_value="2-00003")
    assert explained(path, later, id_value="2-00003", id_column="day").row == 3


def test_coordinates_of_an_explanation_are_named_by_the_labels(tmp_path: Path) -> None:
    named = {f"y_{star}": f"price_{town}" for star, town in zip(STARS, ("north", "south", "west"), strict=True)}
    named |= {
        f"{m}_{star}": f"{m}_{town}"
        for m in ("a", "b", "plan")
        for star, town in zip(STARS, ("north", "south", "west"), strict=True)
    }
    write_table(ROWS.rename(columns=named), tmp_path / "history.csv")
    fit_job(prepare(read_job(write_job(tmp_path, data={"labels": "price_*"})))).save(tmp_path / "e.oe")
    found = explained(tmp_path / "e.oe", Tables((tmp_path / "history.csv",)), 3)
    assert {"action_price_north", "action_price_south", "action_price_west"} <= set(found.alternatives)
    assert " for price_" in str(found)


# Ensembles that Python fitted


def python_saved(folder: Path, **parameters: Any) -> tuple[oe.DecisionEnsemble, Path]:
    ensemble = python_ensemble(**parameters).fit(ROWS, labels_of(ROWS))
    ensemble.save(folder / "e.oe")
    return ensemble, folder / "e.oe"


def test_an_ensemble_of_python_with_columns_can_be_used_on_files(tmp_path: Path, later: Tables) -> None:
    ensemble, path = python_saved(tmp_path)
    saved = open_ensemble(path, later)
    decide_table(saved, later, tmp_path / "d.csv")
    found = read_table(tmp_path / "d.csv")
    assert list(found)[:4] == ["row", "action_0", "action_1", "action_2"]
    np.testing.assert_array_equal(found.iloc[:, 1:4].to_numpy(dtype=float), ensemble.decide(LATER))
    with pytest.raises(InputError, match=r"e\.oe does not name the label columns. Give --labels"):
        audit_table(saved, later)
    assert str(judged(path, later, labels="y_*").audit) == str(ensemble.audit(LATER, labels_of(LATER)))


@pytest.mark.parametrize("values", [["north", "south"], [1, 2]], ids=str)
def test_groups_of_python_are_groups_of_a_table(values: list[Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, number = make_rows(900), rng.integers(2, size=900)
    rows = rows.assign(region=np.array(values)[number], y_0=rows["y_0"] + np.where(number == 1, 3.0, -3.0))
    ensemble = python_ensemble(subgroups="region").fit(rows, rows[LABELS])
    ensemble.save(tmp_path / "e.oe")
    tables = Tables((write_table(rows[:100], tmp_path / "new.parquet"),))
    decide_table(open_ensemble(tmp_path / "e.oe", tables), tables, tmp_path / "d.parquet")
    expected = ensemble.decide(rows[:100])["y_0"]
    assert 0.2 < expected.mean() < 0.8
    np.testing.assert_array_equal(read_table(tmp_path / "d.parquet")["action_0"], expected)


def test_ensembles_that_need_python_are_refused(tmp_path: Path, later: Tables) -> None:
    X = LATER[["a_0", "a_1", "a_2"]].to_numpy()
    box: Any = oe.WhiteBoxEnsemble([("m", lambda X: X)], feasible.Simplex(3), validation=None)
    box.fit(X, labels_of(LATER)).save(tmp_path / "code.oe")
    with pytest.raises(InputError, match=r"code\.oe: .*use this ensemble from Python"):
        open_ensemble(tmp_path / "code.oe", later)
    box = oe.WhiteBoxEnsemble([("m", oe.Columns([0, 1, 2]))], feasible.Simplex(3), validation=None)
    box.fit(X, labels_of(LATER)).save(tmp_path / "array.oe")
    with pytest.raises(InputError, match=r"array\.oe: its members are numbered columns of an array"):
        open_ensemble(tmp_path / "array.oe", later)


def test_a_job_file_is_no_ensemble(tmp_path: Path, later: Tables) -> None:
    with pytest.raises(InputError, match=r"job\.toml is a job file. `optensemble fit .*job\.toml` makes an ensemble"):
        open_ensemble(write_job(tmp_path), later)


def test_labels_may_be_given_one_by_one(plain: Path, later: Tables) -> None:
    expected = oe.load(plain).audit(LATER, labels_of(LATER))
    assert str(judged(plain, later, labels="y_0, y_1,y_2").audit) == str(expected)


def test_a_file_that_is_not_an_ensemble_is_refused(tmp_path: Path, later: Tables) -> None:
    with pytest.raises(FileError, match=r"there is no file .*no\.oe"):
        open_ensemble(tmp_path / "no.oe", later)
    with pytest.raises(FileError, match="is not a whole optensemble file"):
        open_ensemble(later.paths[0], later)


def test_the_columns_of_the_model_that_a_black_box_began_with_are_read(tmp_path: Path, later: Tables) -> None:
    path = job_ensemble(tmp_path, models={"b": None}, ensemble={"kind": "black_box"})
    saved: SavedEnsemble = open_ensemble(path, later)
    assert set(MODELS["a"].names) <= set(saved.numbers)
    np.testing.assert_array_equal(audit_table(saved, later).audit.summary["rows"], [len(LATER)])
