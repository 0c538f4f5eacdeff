"""What a check says, recomputed from the table alone; and what it doubts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble import feasible, plan
from optensemble.exceptions import InputError
from optensemble.jobs.check import JobSummary, summarise_job
from optensemble.jobs.fit import prepare
from optensemble.jobs.job import read_job
from tests.jobs.worlds import LABELS, SENSES, STARS, labels_of, make_rows, write_job, write_table
from tests.problems import bucket

ROWS = make_rows()
OMEGA = feasible.Simplex(3)


def summary_of(folder: Path, rows: pd.DataFrame = ROWS, **changes: Any) -> JobSummary:
    write_table(rows, folder / "history.csv")
    return summarise_job(prepare(read_job(write_job(folder, **changes))))


def said(name: str, rows: pd.DataFrame = ROWS) -> Any:
    return rows[[f"{name}_{star}" for star in STARS]].to_numpy()


def actions_of(name: str, sense: str = "max") -> Any:
    if name == "plan":
        return said(name)
    best = (said(name) if sense == "max" else -said(name)).argmax(axis=1)  # of a simplex
    return np.eye(3)[best]


# Tables


def test_every_label_is_shown_with_the_columns_that_go_with_it(tmp_path: Path) -> None:
    assert summary_of(tmp_path).pairs == [
        {
            "label": label,
            "columns": {name: f"{name}_{star}" for name in ("a", "b", "plan")},
            "lower": 0.0,
            "upper": 1.0,
        }
        for label, star in zip(LABELS, STARS, strict=True)
    ]


@pytest.mark.parametrize("sense", SENSES)
def test_members_are_shown_with_what_they_explain_and_earn(sense: str, tmp_path: Path) -> None:
    found = summary_of(tmp_path, ensemble={"sense": sense}).members.set_index("member")
    Y = labels_of(ROWS)
    assert found["kind"].to_dict() == {"a": "model", "b": "model", "plan": "policy"}
    for name in ("a", "b", "plan"):
        assert found.loc[name, "realised"] == pytest.approx((actions_of(name, sense) * Y).sum(axis=1).mean())
    for name in ("a", "b"):
        missed = ((Y - said(name)) ** 2).sum()
        assert found.loc[name, "explained"] == pytest.approx(1 - missed / (len(Y) * Y.var(axis=0).sum()))
    assert found["explained"].isna().to_dict() == {"a": False, "b": False, "plan": True}


def test_cells_are_counted(tmp_path: Path) -> None:
    cells = summary_of(tmp_path).cells
    levels = [bucket(actions_of(name), OMEGA, 10)[:, j] for name in ("a", "b", "plan") for j in range(3)]
    sizes = [int((level == value).sum()) for level in levels for value in np.unique(level)]
    assert cells.filled == len(sizes)
    assert cells.below_min_cell == sum(size < 50 for size in sizes)
    assert cells.median == np.median(sizes)


@pytest.mark.parametrize(
    ("changes", "access", "names"),
    [
        ({}, "mixed", ["a", "b", "plan"]),
        ({"policies": None}, "white", ["a", "b"]),
        ({"models": None}, "black", ["plan"]),
    ],
    ids=["both", "models", "policies"],
)
def test_the_plan_is_made_of_the_noise_that_was_seen(
    changes: dict[str, Any], access: str, names: list[str], tmp_path: Path
) -> None:
    models = [name for name in names if name != "plan"]
    Y = labels_of(ROWS)
    expected = np.mean([said(name) for name in models], axis=0) if models else Y.mean(axis=0)
    missed = Y - expected
    payoff = np.mean([(actions_of(name) * missed).sum(axis=1).std() for name in names])
    wanted = plan(len(names), 3, noise=missed.std(), rows=len(ROWS), access=access, payoff_noise=payoff)
    pd.testing.assert_frame_equal(summary_of(tmp_path, **changes).plan.parts, wanted.parts)


# Text


def test_sentences_say_what_was_understood(tmp_path: Path) -> None:
    shuffled = ROWS.sample(frac=1, random_state=0)
    data = {"id": "day", "time": "date", "subgroups": ["region"], "groups": "customer"}
    found = "\n".join(summary_of(tmp_path, shuffled, data=data).sentences())
    Y, regions, customers = labels_of(ROWS), ROWS["region"].value_counts(), ROWS["customer"].value_counts()
    assert f"240 rows in {tmp_path / 'history.csv'}, sorted by date, 2025-01-01 00:00:00 to 2025-01-10" in found
    assert f"3 labels between −{-Y.min():.4g} and {Y.max():.4g}; the payoff is maximised" in found
    assert "decisions: Simplex, 3 coordinates, each between 0 and 1" in found
    assert f"subgroups by region: 2, of {regions.min()} to {regions.max()} rows" in found
    assert f"groups by customer: {len(customers)}, of {customers.min()} to {customers.max()} rows" in found
    assert "id: day, distinct in all rows" in found
    assert "240 rows are enough for a fit" in found


def test_costs_and_bounds_are_told(tmp_path: Path) -> None:
    found = summary_of(tmp_path, feasible={"kind": "box", "upper": [1, 2, 3]}, ensemble={"sense": "min"})
    text = "\n".join(found.sentences())
    assert "the cost is minimised" in text
    assert "decisions: Box, 3 coordinates, each within its own bounds" in text


@pytest.mark.parametrize(("rows", "enough"), [(99, False), (100, True)])
def test_too_few_rows_are_told(rows: int, enough: bool, tmp_path: Path) -> None:
    found = summary_of(tmp_path, ROWS[:rows])
    assert found.enough == enough
    assert ("99 rows" in found.verdict, "at least 100" in found.verdict) == (not enough, not enough)
    assert ("enough for a fit" in list(found.sentences())[-1]) == enough


@pytest.mark.parametrize("rows", [1, 2])
def test_a_row_or_two_are_understood(rows: int, tmp_path: Path) -> None:
    found = summary_of(tmp_path, ROWS[:rows])
    assert not found.enough
    assert next(iter(found.sentences())).startswith(f"{rows} row")


# Warnings about the data


def test_there_are_no_doubts_about_a_table_in_order(tmp_path: Path) -> None:
    assert summary_of(tmp_path).warnings == ()


@pytest.mark.parametrize("order", [[1, 2, 0], [2, 0, 1]])
def test_columns_in_another_order_than_the_labels_are_doubted(order: list[int], tmp_path: Path) -> None:
    truth = labels_of(ROWS) + 0.3 * np.random.default_rng(0).normal(size=(len(ROWS), 3))
    rows = ROWS.assign(**{f"a_{star}": truth[:, order[j]] for j, star in enumerate(STARS)})
    doubts = summary_of(tmp_path, rows).warnings
    assert len(doubts) == 1
    assert doubts[0].startswith("model 'a': 3 of its 3 columns correlate better with other labels than with their own")
    assert f"with label 'y_{order[0]}'" in doubts[0]


def test_a_model_of_the_common_level_is_not_doubted(tmp_path: Path) -> None:
    """Labels that go together are no sign of disorder."""
    rng = np.random.default_rng(0)
    level, noise = rng.normal(size=len(ROWS)), rng.normal(size=(len(ROWS), 6))
    changes = {f"y_{j}": level + 0.3 * noise[:, j] for j in range(3)}
    changes |= {f"a_{j}": level + 0.3 * noise[:, 3 + j] for j in range(3)}
    assert summary_of(tmp_path, ROWS.assign(**changes), models={"b": None}).warnings == ()


@pytest.mark.parametrize(("factor", "way"), [(1000, "large"), (0.001, "small")])
def test_other_units_are_doubted(factor: float, way: str, tmp_path: Path) -> None:
    rows = ROWS.assign(**{f"b_{star}": factor * ROWS[f"b_{star}"] for star in STARS})
    (doubt,) = summary_of(tmp_path, rows).warnings
    assert doubt.startswith(f"model 'b': its predictions are about 1,000 times as {way} as the labels")


def test_an_outlier_is_doubted(tmp_path: Path) -> None:
    rows = ROWS.assign(b_0=np.where(np.arange(len(ROWS)) == 7, 150.0, ROWS["b_0"]))
    (doubt,) = summary_of(tmp_path, rows).warnings
    assert doubt.startswith("model 'b': its prediction of label 'y_0' is 150 in 1 of 240 rows")
    assert "outlier" in doubt


def test_decisions_among_models_are_doubted(tmp_path: Path) -> None:
    (doubt,) = summary_of(tmp_path, models={"a": "plan_*"}, policies=None).warnings
    assert "model 'a': its columns are feasible decisions in every row" in doubt


def test_a_set_without_constraints_is_doubted(tmp_path: Path) -> None:
    (doubt,) = summary_of(tmp_path, feasible={"kind": "polytope"}).warnings
    assert "the feasible set has no constraint beside its bounds" in doubt
    assert summary_of(tmp_path, feasible={"kind": "polytope", "A_ub": [[1, 1, 1]], "b_ub": [1]}).warnings == ()


def test_members_that_always_decide_the_same_are_doubted(tmp_path: Path) -> None:
    rows = ROWS.assign(**{f"{name}_0": 9.0 for name in "ab"}, plan_0=1.0, plan_1=0.0, plan_2=0.0)
    assert any("every member decides the same in all rows" in doubt for doubt in summary_of(tmp_path, rows).warnings)


def test_constant_columns_are_understood(tmp_path: Path) -> None:
    rows = ROWS.assign(**{f"a_{star}": 1.0 for star in STARS}, **dict.fromkeys(LABELS, 0.0))
    found = summary_of(tmp_path, rows)
    assert np.isnan(found.members["explained"]).all()
    assert (found.members["realised"] == 0).all()


def test_a_policy_outside_the_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"history\.csv: .*'plan' in row 0, .*outside the feasible set by 0\.7"):
        summary_of(tmp_path, ROWS.assign(plan_0=0.7))
