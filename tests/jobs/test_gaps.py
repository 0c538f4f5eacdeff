"""Rows with gaps and weights: members without a value, labels that are not known yet, rows that count for several."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.exceptions import InputError
from optensemble.jobs import fit as fitting
from optensemble.jobs.accuracy import PayoffPairs
from optensemble.jobs.audit import audit_table
from optensemble.jobs.check import JobSummary, summarise_job
from optensemble.jobs.decide import decide_table
from optensemble.jobs.fit import Task, fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.row_checks import MendingTerms, RowCounts
from optensemble.jobs.saved_ensemble import open_ensemble
from optensemble.jobs.streamed_rows import JobRows
from optensemble.tables.reading import find_tables
from tests.jobs.worlds import LABELS, STARS, labels_of, make_rows, python_ensemble, write_job, write_table

ROWS, LATER = make_rows(), make_rows(90, seed=2)
ENDS = pytest.mark.parametrize("end", ["csv", "parquet"])


def with_gaps(rows: pd.DataFrame, *gaps: tuple[str, list[int]]) -> pd.DataFrame:
    changed = rows.copy()
    for name, numbers in gaps:
        changed.loc[numbers, name] = np.nan
    return changed


def task_of(folder: Path, rows: pd.DataFrame, end: str = "csv", memory: float | None = None, **changes: Any) -> Task:
    write_table(rows, folder / f"h.{end}")
    changes["data"] = {"fit": f"h.{end}", **changes.get("data", {})}
    return prepare(read_job(write_job(folder, **changes)), memory)


def told(summary: JobSummary) -> str:
    return "\n".join(summary.sentences())


# Labels


UNKNOWN = with_gaps(ROWS, ("y_0", [3, 5]), ("y_2", [5, 239]))
KNOWN = ROWS.drop(index=[3, 5, 239]).reset_index(drop=True)


@ENDS
def test_rows_without_labels_are_left_out(end: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, UNKNOWN, end)
    assert (task.row_count, task.counts.unlabelled) == (237, 3)
    assert "237 rows in " in told(summarise_job(task))
    assert "3 of 240 rows have no labels and are left out" in told(summarise_job(task))
    job, other = fit_job(task), fit_job(task_of(tmp_path, KNOWN, end))
    np.testing.assert_array_equal(job.answer(LATER).promised, other.answer(LATER).promised)
    assert job.n_rows_ == 237


def test_rows_without_labels_are_left_out_before_they_are_sorted(tmp_path: Path) -> None:
    task = task_of(tmp_path, UNKNOWN[::-1], data={"time": "date", "id": "day"})
    assert sorted(task.table["day"]) == sorted(KNOWN["day"])
    assert task.table["date"].is_monotonic_increasing


def test_a_streamed_table_has_all_rows_and_their_count(tmp_path: Path) -> None:
    task = task_of(tmp_path, UNKNOWN, memory=1.0)
    assert isinstance(task.rows, JobRows)
    assert (len(task.rows), task.row_count, task.counts.unlabelled) == (240, 237, 3)
    labels = np.concatenate([piece.labels for piece in task.rows.read(0, 240)])
    np.testing.assert_array_equal(labels, labels_of(UNKNOWN))
    assert fitting._row_terms(task) == {"missing_labels": "drop"}
    assert (
        fitting._row_terms(task_of(tmp_path, UNKNOWN)) == fitting._row_terms(task_of(tmp_path, ROWS, memory=1.0)) == {}
    )


def test_missing_labels_may_be_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"h\.csv: column 'y_0' has no value in line 5"):
        task_of(tmp_path, UNKNOWN, data={"missing_labels": "raise"})


@pytest.mark.parametrize("memory", [None, 1.0], ids=["in memory", "streamed"])
def test_rows_of_which_none_has_labels_are_refused(memory: float | None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"h\.csv has no row with labels\. Give rows whose labels are known, or check"):
        task_of(tmp_path, with_gaps(ROWS, ("y_1", list(range(240)))), memory=memory)


def test_too_few_labels_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 90 rows with labels; a fit needs at least 100"):
        fit_job(task_of(tmp_path, with_gaps(ROWS, ("y_1", list(range(150))))))


def test_decisions_outside_the_set_are_named_by_their_row_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the decision of policy 'plan' in row 50, counted from 0, is outside"):
        task_of(tmp_path, UNKNOWN.assign(plan_0=np.where(np.arange(240) == 50, 2.0, UNKNOWN["plan_0"])))


def test_an_audit_leaves_rows_without_labels_out(tmp_path: Path) -> None:
    fit_job(task_of(tmp_path, ROWS)).save(tmp_path / "e.oe")
    unknown = with_gaps(LATER, ("y_0", [0, 80]))
    audits = []
    for rows in (unknown, LATER.drop(index=[0, 80])):
        tables = find_tables([str(write_table(rows, tmp_path / "later.csv"))])
        audits.append(audit_table(open_ensemble(tmp_path / "e.oe", tables), tables))
    assert [each.unlabelled for each in audits] == [2, 0]
    assert str(audits[0].audit) == str(audits[1].audit)
    write_table(with_gaps(LATER, ("y_0", list(range(90)))), tmp_path / "later.csv")
    with pytest.raises(InputError, match=r"later\.csv has no row with labels: an audit needs them\. Wait until they"):
        audit_table(open_ensemble(tmp_path / "e.oe", tables), tables)


# Members


LACKING = with_gaps(ROWS, ("a_0", [1, 2, 3]), ("a_1", [3, 4]), ("b_2", [4, 100]), ("plan_1", [4, 7]))


@ENDS
@pytest.mark.parametrize("memory", [None, 1.0], ids=["in memory", "streamed"])
def test_members_without_a_value_are_counted(memory: float | None, end: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, LACKING, end, memory)
    assert (task.counts.absent, task.counts.nobody) == (Counter(a=4, b=2, plan=2), 1)
    assert list(task.counts.sentences(240)) == [
        "'a' has no answer in 4 of 240 rows",
        "'b' has no answer in 2 of 240 rows",
        "'plan' has no answer in 2 of 240 rows",
        "in 1 of 240 rows no member has an answer",
    ]


def test_members_are_summarised_where_they_have_a_value(tmp_path: Path) -> None:
    summary = summarise_job(task_of(tmp_path, LACKING))
    found = summary.members.set_index("member")
    assert found["absent"].to_dict() == {"a": 4, "b": 2, "plan": 2}
    for name, gone in (("a", [1, 2, 3, 4]), ("b", [4, 100]), ("plan", [4, 7])):
        there = summarise_job(task_of(tmp_path, ROWS.drop(index=gone))).members.set_index("member")
        for column in ("explained", "realised"):
            assert found.loc[name, column] == pytest.approx(there.loc[name, column], nan_ok=True), (name, column)
    assert "'a' has no answer in 4 of 240 rows" in told(summary)
    assert summary.warnings == ()


def test_a_member_that_is_never_there_is_told(tmp_path: Path) -> None:
    found = summarise_job(task_of(tmp_path, with_gaps(ROWS, ("a_0", list(range(240))))))
    assert found.members.set_index("member")["realised"].isna().to_dict() == {"a": True, "b": False, "plan": False}
    assert "'a' has no answer in 240 of 240 rows" in told(found)


def test_the_average_is_that_of_members_with_a_value(tmp_path: Path) -> None:
    pairs = PayoffPairs.of(task_of(tmp_path, LACKING))
    present = np.arange(240) != 4
    a, b = (LACKING.loc[present, [f"{name}_{star}" for star in STARS]].to_numpy() for name in "ab")
    average = np.nanmean([np.where(np.isnan(each).any(axis=1)[:, None], np.nan, each) for each in (a, b)], axis=0)
    best = np.eye(3)[average.argmax(axis=1)]
    np.testing.assert_array_equal(pairs.rows, np.flatnonzero(present))
    np.testing.assert_allclose(pairs.assessed, (best * average).sum(axis=1))
    np.testing.assert_allclose(pairs.realised, (best * labels_of(ROWS)[pairs.rows]).sum(axis=1))


@ENDS
def test_infinite_values_are_no_gaps(end: str, tmp_path: Path) -> None:
    rows = ROWS.assign(a_0=np.where(np.arange(240) == 8, np.inf, ROWS["a_0"]))
    with pytest.raises(InputError, match="'a_0' has an infinite value"):
        task_of(tmp_path, rows, end)


@pytest.mark.parametrize("memory", [None, 1.0], ids=["in memory", "streamed"])
def test_a_job_with_gaps_is_the_ensemble_of_python(memory: float | None, tmp_path: Path) -> None:
    rows = with_gaps(LACKING, ("y_0", [11, 12]))
    job: Any = fit_job(task_of(tmp_path, rows, memory=memory))
    options: dict[str, Any] = {"missing_labels": "drop"}
    python = python_ensemble().fit(rows, labels_of(rows), **options)
    np.testing.assert_array_equal(job.answer(LATER).promised, python.answer(LATER).promised)


def test_decisions_count_members_without_a_value(tmp_path: Path) -> None:
    fit_job(task_of(tmp_path, LACKING)).save(tmp_path / "e.oe")
    tables = find_tables([str(write_table(LACKING[:50].drop(columns=LABELS), tmp_path / "new.csv"))])
    found = decide_table(open_ensemble(tmp_path / "e.oe", tables), tables, tmp_path / "d.csv", batch=5)
    assert (found.absent, found.nobody) == ({"a": 4, "b": 1, "plan": 2}, 1)


# Weights


WEIGHTED = ROWS.assign(days=np.random.default_rng(0).integers(1, 9, size=240))


def test_weights_are_told_by_the_effective_number_of_rows(tmp_path: Path) -> None:
    task, w = task_of(tmp_path, WEIGHTED, data={"weight": "days"}), WEIGHTED["days"].to_numpy()
    effective = w.sum() ** 2 / np.square(w).sum()
    assert task.counts.effective == pytest.approx(effective)
    summary, plain = summarise_job(task), summarise_job(task_of(tmp_path, WEIGHTED))
    assert f"weights by days: the rows count as {effective:,.1f} of equal weight" in told(summary)
    assert summary.accuracy is not None
    assert plain.accuracy is not None
    # weights also say which rows' noise counts, so that it is not the factor of the rows alone
    assert summary.accuracy.half_width == pytest.approx(plain.accuracy.half_width * np.sqrt(240 / effective), rel=0.05)
    equal = summarise_job(task_of(tmp_path, WEIGHTED.assign(days=2), data={"weight": "days"})).accuracy
    assert equal is not None
    assert equal.half_width == pytest.approx(plain.accuracy.half_width, rel=1e-9)
    assert fitting._row_terms(task) == {"sample_weight": "days"}


@pytest.mark.parametrize("memory", [None, 1.0], ids=["in memory", "streamed"])
def test_weights_of_pieces_add_up(memory: float | None, tmp_path: Path) -> None:
    task = task_of(tmp_path, with_gaps(WEIGHTED, ("y_0", [0])), memory=memory, data={"weight": "days"})
    w = WEIGHTED["days"].to_numpy()[1:]
    assert (task.counts.weight, task.counts.weight_squares) == (w.sum(), np.square(w).sum())


def test_bad_weights_are_refused(tmp_path: Path) -> None:
    bad = WEIGHTED.assign(days=np.where(np.arange(240) == 17, -1, WEIGHTED["days"]))
    message = (
        r"h\.csv: column 'days' must hold weights, which are 0 or more; got -1 in row 17 \(counted from 0, day "
        r"'0-00017'\)\. A weight is the number of rows that a row counts for\."
    )
    with pytest.raises(InputError, match=message):
        task_of(tmp_path, bad, data={"weight": "days", "id": "day"})
    with pytest.raises(InputError, match=r"column 'days' has no value in line 19"):
        task_of(tmp_path, with_gaps(WEIGHTED, ("days", [17])), data={"weight": "days"})
    with pytest.raises(InputError, match=r"\[data\] weight is 'y_0', which is a label"):
        task_of(tmp_path, WEIGHTED, data={"weight": "y_0"})
    with pytest.raises(
        InputError, match=r'weights are for kind = "decision"; got kind = \'white_box\'\. Remove weight'
    ):
        task_of(tmp_path, WEIGHTED, data={"weight": "days"}, policies=None, ensemble={"kind": "white_box"})


@pytest.mark.parametrize("memory", [None, 1.0], ids=["in memory", "streamed"])
def test_weights_of_a_job_are_those_of_python(memory: float | None, tmp_path: Path) -> None:
    job: Any = fit_job(task_of(tmp_path, WEIGHTED, memory=memory, data={"weight": "days"}))
    options: dict[str, Any] = {"sample_weight": WEIGHTED["days"].to_numpy()}
    python = python_ensemble().fit(WEIGHTED, labels_of(WEIGHTED), **options)
    np.testing.assert_array_equal(job.answer(LATER).promised, python.answer(LATER).promised)
    job.save(tmp_path / "e.oe")
    tables = find_tables([str(write_table(LATER, tmp_path / "later.csv"))])
    with pytest.raises(InputError, match=r"\[data\] weight of the job: .*later\.csv has no column 'days'"):
        audit_table(open_ensemble(tmp_path / "e.oe", tables), tables)


# Decisions off by rounding


def test_what_to_do_with_infeasible_decisions_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(tmp_path, ROWS, ensemble={"on_infeasible": "project", "tolerance": 0.002})
    given: dict[str, Any] = {}
    monkeypatch.setattr("optensemble.ensembles.decision.DecisionEnsemble", lambda **options: given.update(options))
    fitting._decision_ensemble(task)
    assert (given["on_infeasible"], given["tolerance"]) == ("project", 0.002)
    assert MendingTerms.of({}).given == {}


def test_counts_of_pieces_add_up() -> None:
    one = RowCounts(unlabelled=1, absent=Counter(a=2), nobody=1, mended=3, weight=2.0, weight_squares=4.0)
    both = one + RowCounts(absent=Counter(a=1, b=1), mended=1, weight=1.0, weight_squares=1.0)
    assert both == RowCounts(unlabelled=1, absent=Counter(a=3, b=1), nobody=1, mended=4, weight=3.0, weight_squares=5.0)
    assert list(RowCounts(unlabelled=1, mended=2).sentences(9)) == [
        "1 of 10 rows has no labels and is left out",
        "in 2 of 9 rows the action of a policy is moved onto the feasible set",
    ]
