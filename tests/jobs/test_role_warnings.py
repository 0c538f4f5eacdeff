"""Doubtful roles: groups that look like subgroups, and rows that are sorted by a time which the job does not name."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.jobs.check import JobSummary, summarise_job
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from tests.jobs.worlds import STARS, dated, make_rows, write_job, write_table

ROWS = make_rows()


def summary_of(folder: Path, rows: pd.DataFrame, end: str = "csv", **data: Any) -> JobSummary:
    write_table(rows, folder / f"h.{end}")
    return summarise_job(prepare(read_job(write_job(folder, data={"fit": f"h.{end}", **data}))))


def warned(folder: Path, memory: float | None = None, **data: Any) -> list[str]:
    """Return what a fit warns of."""
    job = read_job(write_job(folder, data={"fit": "h.csv", **data}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_job(prepare(job, memory))
    return [str(each.message) for each in caught if each.category is UserWarning]


# Groups


def in_groups(count: int, n: int) -> pd.DataFrame:
    return make_rows(n).assign(shop=[f"shop {i % count}" for i in range(n)])


@pytest.mark.parametrize(
    ("count", "n", "doubted"), [(2, 240, True), (29, 1450, True), (29, 1449, False), (30, 1500, False)]
)
def test_a_few_groups_of_many_rows_are_doubted(count: int, n: int, doubted: bool, tmp_path: Path) -> None:
    found = summary_of(tmp_path, in_groups(count, n), groups="shop").warnings
    assert len(found) == doubted
    for each in found:
        assert f"[data] groups = 'shop' has {count} values, with {n // count} rows each on average" in each
        assert "rows of one value are taken to belong together, which widens intervals" in each
        assert "unbiased in each of its values, name it under subgroups" in each


@pytest.mark.parametrize("memory", [None, 1.0], ids=["in memory", "streamed"])
def test_a_fit_warns_of_groups_too(memory: float | None, tmp_path: Path) -> None:
    summary = summary_of(tmp_path, in_groups(6, 300), groups="shop")
    assert warned(tmp_path, memory, groups="shop") == list(summary.warnings)
    assert warned(tmp_path, memory, groups="customer") == warned(tmp_path, memory, subgroups="shop") == []


# Time


@pytest.mark.parametrize("end", ["csv", "parquet", "arrow"])
def test_a_forgotten_time_is_told_with_what_it_would_change(end: str, tmp_path: Path) -> None:
    rows = dated(ROWS)
    rows["date"] = rows["date"] if end == "csv" else pd.to_datetime(rows["date"])
    (found,) = summary_of(tmp_path, rows, end).warnings
    plain, timed = (summary_of(tmp_path, rows, end, **data).accuracy for data in ({"id": "day"}, {"time": "date"}))
    assert plain is not None
    assert timed is not None
    assert "is sorted by 'date', but [data] of " in found
    assert "With time = 'date', folds are contiguous and policies are judged on later rows" in found
    assert f"± {plain.half_width:.3g} as independent rows, about ± {timed.half_width:.3g} in time order" in found


def test_a_fit_warns_of_a_forgotten_time_too(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, dated(ROWS))
    assert warned(tmp_path) == list(summary.warnings)
    (streamed,) = warned(tmp_path, memory=1.0)  # without sizes: its rows are not looked at beforehand
    assert summary.warnings[0].startswith(f"{streamed}; ")
    assert warned(tmp_path, groups="customer") == warned(tmp_path, time="date") == []


# The accuracy of a promise


def world(kind: str, n: int, seed: int) -> pd.DataFrame:
    """Rows that are independent, or whose level wanders, or is common to ten rows of a shop."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2 * n, 3))
    level = {
        "independent": np.zeros(2 * n),
        "in time order": np.cumsum(rng.normal(scale=0.1, size=2 * n)),
        "grouped": np.repeat(rng.normal(scale=2, size=2 * n // 10), 10),
    }[kind]
    truth = x + level[:, None] + rng.normal(scale=0.5, size=x.shape)
    members = {name: x * known + 0.1 * rng.normal(size=x.shape) for name, known in (("a", [1, 1, 0]), ("b", [0, 1, 1]))}
    values = {f"{name}_{star}": each[:, int(star)] for name, each in {"y": truth, **members}.items() for star in STARS}
    return pd.DataFrame({"day": np.arange(2 * n), "shop": np.arange(2 * n) // 10, **values})


DATA: dict[str, dict[str, str]] = {"independent": {}, "in time order": {"time": "day"}, "grouped": {"groups": "shop"}}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("policies", [False, True], ids=["models", "policies"])
def test_accuracy_is_that_of_the_promise_of_a_fit(kind: str, policies: bool, tmp_path: Path) -> None:
    n, ratios = 600, list[float]()
    for seed in range(6):
        rows = world(kind, n, seed)
        members: dict[str, Any] = {"policies": None}
        if policies:
            for name in "ab":
                said = rows[[f"{name}_{star}" for star in STARS]].to_numpy()
                rows[[f"{name}_{star}" for star in STARS]] = np.eye(3)[said.argmax(axis=1)]
            members = {"models": None, "policies": {"plan": None, "a": "a_*", "b": "b_*"}}
        write_table(rows[:n], tmp_path / "history.csv")
        task = prepare(read_job(write_job(tmp_path, data=DATA[kind], **members)))
        found = summarise_job(task).accuracy
        assert found is not None
        assert (found.rows, found.time_ordered, found.groups) == (n, kind == "in time order", DATA[kind].get("groups"))
        ensemble: Any = fit_job(task)
        assert isinstance(ensemble, oe.DecisionEnsemble)
        promise = ensemble.promise(rows[n:])
        ratios.append(found.half_width / ((promise.high - promise.low) / 2))
    assert 0.5 < np.median(ratios) < 2, ratios


def test_accuracy_allows_for_dependence(tmp_path: Path) -> None:
    half = {}
    for kind, data in DATA.items():
        rows = world(kind, 300, 0)
        write_table(rows, tmp_path / "history.csv")
        for named in ({}, data):
            task = prepare(read_job(write_job(tmp_path, data=named, policies=None)))
            summary = summarise_job(task)
            assert summary.accuracy is not None
            half[kind, bool(named)] = summary.accuracy.half_width
            (line,) = [each for each in summary.sentences() if "can be promised" in each]
            allowed = (
                kind if named == {"time": "day"} else "with groups by shop" if named else "if rows are independent"
            )
            size = re.escape(f"{summary.accuracy.half_width:.3g}")
            assert re.fullmatch(
                rf"the mean payoff of as many new rows can be promised within about ± {size} {allowed}", line
            )
    assert half["in time order", True] > 2 * half["in time order", False]
    assert half["grouped", True] > 2 * half["grouped", False]


def test_costs_are_promised_as_accurately_as_payoffs(tmp_path: Path) -> None:
    rows = world("independent", 100, 0)
    write_table(rows, tmp_path / "history.csv")
    cost = summarise_job(prepare(read_job(write_job(tmp_path, policies=None, ensemble={"sense": "min"}))))
    turned = rows.assign(**{name: -rows[name] for name in rows.columns if name not in ("day", "shop")})
    write_table(turned, tmp_path / "history.csv")
    payoff = summarise_job(prepare(read_job(write_job(tmp_path, policies=None))))
    assert cost.accuracy is not None
    assert payoff.accuracy is not None
    assert cost.accuracy.half_width == pytest.approx(payoff.accuracy.half_width)
    assert any(line.startswith("the mean cost of as many new rows") for line in cost.sentences())
