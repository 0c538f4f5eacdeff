"""From a job to an ensemble: the same, bit for bit, as the ensemble that Python makes of the same columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError
from optensemble.jobs.fit import Task, fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.stats.sample_size import MINIMUM_ROWS
from tests.jobs.worlds import (
    LABELS,
    MODELS,
    POLICIES,
    SENSES,
    dated,
    labels_of,
    make_rows,
    python_ensemble,
    write_job,
    write_table,
)

ROWS, NEW = make_rows(), make_rows(90, seed=1)
NO_MODELS = {"a": None, "b": None}
NO_POLICIES = {"plan": None}


def task_of(folder: Path, rows: pd.DataFrame = ROWS, table: str = "history.csv", **changes: Any) -> Task:
    write_table(rows, folder / table)
    return prepare(read_job(write_job(folder, **{**changes, "data": {"fit": table, **changes.get("data", {})}})))


def fitted(folder: Path, rows: pd.DataFrame = ROWS, table: str = "history.csv", **changes: Any) -> Any:
    return fit_job(task_of(folder, rows, table, **changes))


def require_same(job: Any, python: Any, X: pd.DataFrame = NEW) -> None:
    """Two ensembles answer and promise the same to the last bit."""
    assert str(job.promise(X)) == str(python.promise(X))
    one, other = job.answer(X), python.answer(X)
    for name in vars(one):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert job.names_ == python.names_


# Agreement with Python


@pytest.mark.parametrize("table", ["history.csv", "history.parquet"])
@pytest.mark.parametrize("sense", SENSES)
def test_a_job_is_the_ensemble_of_python(sense: str, table: str, tmp_path: Path) -> None:
    job = fitted(tmp_path, table=table, ensemble={"sense": sense})
    python = python_ensemble(sense).fit(ROWS, ROWS[LABELS])
    require_same(job, python)
    pd.testing.assert_frame_equal(job.leaderboard_, python.leaderboard_)
    assert job.finding_ == python.finding_


def test_the_seed_is_the_random_state(tmp_path: Path) -> None:
    job = fitted(tmp_path, ensemble={"seed": 7})
    require_same(job, python_ensemble().fit(ROWS, ROWS[LABELS], random_state=7))
    other = fitted(tmp_path, ensemble={"seed": 8})
    assert not np.array_equal(job.record_.realised, other.record_.realised)


def test_threads_change_nothing(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    require_same(fit_job(task, n_jobs=2), fit_job(task, n_jobs=1))


def test_groups_are_subgroups(tmp_path: Path) -> None:
    job = fitted(tmp_path, data={"subgroups": "region"})
    require_same(job, python_ensemble(subgroups=["region"]).fit(ROWS, ROWS[LABELS]))
    assert job.subgroups == ["region"]


def test_groups_are_rows_that_belong_together(tmp_path: Path) -> None:
    job = fitted(tmp_path, data={"groups": "customer"})
    python = python_ensemble().fit(ROWS, ROWS[LABELS], groups=ROWS["customer"].tolist())
    require_same(job, python)
    np.testing.assert_array_equal(job.record_.clusters, python.record_.clusters)


def test_time_puts_rows_in_order(tmp_path: Path) -> None:
    job = fitted(tmp_path, dated(ROWS).sample(frac=1, random_state=3), data={"time": "date"})
    require_same(job, fitted(tmp_path, ROWS, data={"time": "date"}))
    require_same(job, python_ensemble().fit(ROWS, ROWS[LABELS], time_ordered=True))
    assert job.time_ordered_
    assert not fitted(tmp_path, ROWS).time_ordered_


def test_several_files_are_one_table(tmp_path: Path) -> None:
    for number, part in enumerate((ROWS[:100], ROWS[100:])):
        write_table(part, tmp_path / f"part-{number}.csv")
    job = fit_job(prepare(read_job(write_job(tmp_path, data={"fit": "part-*.csv"}))))
    require_same(job, python_ensemble().fit(ROWS, ROWS[LABELS]))


def test_policies_alone_will_do(tmp_path: Path) -> None:
    job = fitted(tmp_path, models=None)
    python = oe.DecisionEnsemble(policies=list(POLICIES.items()), feasible=feasible.Simplex(3), context=None)
    require_same(job, python.fit(ROWS, ROWS[LABELS]))


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    fit_job(task_of(tmp_path), lambda stage, share: told.append((stage, share)))
    assert {"asking members", "cross-fitting", "choosing"} <= {stage for stage, _ in told}
    assert all(0 < share <= 1 for _, share in told)


def test_the_ensemble_remembers_its_columns_also_in_a_file(tmp_path: Path) -> None:
    job = fitted(tmp_path, data={"id": "day", "time": "date", "subgroups": "region", "groups": "customer"})
    expected = {
        "labels": LABELS,
        "coordinates": ["0", "1", "2"],
        "id": "day",
        "time": "date",
        "groups": "customer",
        "subgroups": ["region"],
        "weight": None,
        "missing_labels": "drop",
    }
    assert job.table_ == expected
    job.save(tmp_path / "e.oe")
    again = oe.load(tmp_path / "e.oe")
    assert again.table_ == expected
    require_same(again, job)


# The paper's algorithms


@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize("options", [{}, {"validation": "none", "alpha": 0.05, "bucket_width": 0.25}], ids=str)
def test_a_white_box_is_that_of_python(options: dict[str, Any], sense: str, tmp_path: Path) -> None:
    job = fitted(tmp_path, policies=None, ensemble={"kind": "white_box", "sense": sense, **options})
    wanted = {**options, "validation": None} if options else {}
    python = oe.WhiteBoxEnsemble(list(MODELS.items()), feasible.Simplex(3), sense=sense, **wanted)
    python.fit(ROWS, ROWS[LABELS])
    if options:
        python.cross_fit()  # as a job does: the record goes into the file
    require_same(job, python)


@pytest.mark.parametrize("models", [None, {"b": None}], ids=["mean", "model"])
def test_a_black_box_begins_with_the_mean_or_with_the_model(models: dict[str, Any] | None, tmp_path: Path) -> None:
    ensemble = {"kind": "black_box", "conditional": True, "max_rounds": 50, "seed": 1}
    job = fitted(tmp_path, models=models, ensemble=ensemble)
    init: Any = "mean" if models is None else MODELS["a"]
    python = oe.BlackBoxEnsemble(
        list(POLICIES.items()), feasible.Simplex(3), init=init, conditional=True, max_rounds=50
    )
    require_same(job, python.fit(ROWS, ROWS[LABELS], random_state=1))


@pytest.mark.parametrize("kind", ["white_box", "black_box"])
def test_a_box_takes_groups_and_time(kind: str, tmp_path: Path) -> None:
    members: dict[str, Any] = {"models": None} if kind == "black_box" else {"policies": None}
    job = fitted(
        tmp_path,
        dated(ROWS).sample(frac=1, random_state=3),
        data={"subgroups": "region", "time": "date"},
        ensemble={"kind": kind},
        **members,
    )
    box = oe.BlackBoxEnsemble if kind == "black_box" else oe.WhiteBoxEnsemble
    given: dict[str, Any] = POLICIES if kind == "black_box" else MODELS
    python = box(list(given.items()), feasible.Simplex(3), subgroups=["region"])
    require_same(job, python.fit(ROWS, ROWS[LABELS], time_ordered=True))


@pytest.mark.parametrize("kind", ["white_box", "black_box"])
def test_a_paper_ensemble_saved_from_a_job_answers_as_before(kind: str, tmp_path: Path) -> None:
    members: dict[str, Any] = {"models": None} if kind == "black_box" else {"policies": None}
    job = fitted(tmp_path, ensemble={"kind": kind, "validation": "none"}, **members)
    job.save(tmp_path / "e.oe")
    require_same(oe.load(tmp_path / "e.oe"), job)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ensemble": {"kind": "white_box"}}, "a white_box takes [models] and no [policies]"),
        ({"ensemble": {"kind": "white_box"}, "models": None}, "a white_box takes [models] and no [policies]"),
        ({"ensemble": {"kind": "black_box"}}, "a black_box takes [policies], and at most one model to start from"),
        ({"ensemble": {"kind": "black_box"}, "policies": None}, "a black_box takes [policies]"),
        (
            {"ensemble": {"kind": "white_box"}, "policies": None, "data": {"groups": "customer"}},
            "groups, rows that belong together, are for kind = \"decision\"; got kind = 'white_box'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_members_that_a_kind_has_no_use_for_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'job.toml'}: {message}")):
        task_of(tmp_path, **changes)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("alpha", "x"),
        ("alpha", -1),
        ("bucket_width", 0.3),
        ("schedule", "zebra"),
        ("max_rounds", -1),
        ("validation", 3),
    ],
)
def test_an_invalid_option_is_named_with_the_job_file(option: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        fitted(tmp_path, policies=None, ensemble={"kind": "white_box", option: value})
    assert option in str(caught.value)
    assert str(tmp_path / "job.toml") in str(caught.value)


# Rows


def test_rows_are_read_once_and_hold_what_is_needed(tmp_path: Path) -> None:
    task = task_of(tmp_path, data={"id": "day", "time": "date", "subgroups": ["region"]})
    members = [name for member in (*MODELS.values(), *POLICIES.values()) for name in member.names]
    assert set(task.table) == {"day", "date", "region", *LABELS, *members}
    np.testing.assert_array_equal(task.labels.to_numpy(), labels_of(ROWS))


def test_an_id_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    rows = ROWS.assign(day=["same" if i in (3, 200) else day for i, day in enumerate(ROWS["day"])])
    with pytest.raises(
        InputError, match=r"history\.csv: column 'day' must have a distinct id .*'same' is there 2 times"
    ):
        task_of(tmp_path, rows, data={"id": "day"})


@pytest.mark.parametrize("values", [[1, 2, 3], [1.0, 2.0], [1.0, 2.0, 2.5], [True, False], ["north", "south"]], ids=str)
def test_groups_of_a_csv_and_of_a_parquet_file_are_the_same(values: list[Any], tmp_path: Path) -> None:
    rows = ROWS.assign(region=np.random.default_rng(0).choice(np.array(values), size=len(ROWS)))
    csv, parquet = (
        task_of(tmp_path, rows, f"h.{end}", data={"subgroups": "region"}).table for end in ("csv", "parquet")
    )
    assert csv["region"].tolist() == parquet["region"].tolist()


def test_a_fit_needs_enough_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=str(MINIMUM_ROWS)):
        fitted(tmp_path, ROWS[: MINIMUM_ROWS - 1])
    assert fitted(tmp_path, ROWS[:MINIMUM_ROWS]).n_rows_ == MINIMUM_ROWS


def test_policies_outside_the_set_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"history\.csv: .*'plan' in row 0, .*outside the feasible set by 2"):
        fitted(tmp_path, ROWS.assign(plan_0=2.0))
