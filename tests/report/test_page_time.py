"""The report's blocks of rows over time, recomputed from rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from optensemble._core.number_format import NO_NUMBER
from optensemble.report import text
from optensemble.report.page import make_report_page
from tests.report.ensembles import CASES, journey, portfolio, simplex
from tests.report.pages import EACH, column, numbers, root_of, same, the_table
from tests.report.reading import read

pytestmark = pytest.mark.slow


@EACH
def test_the_table_of_candidates_followed_is_recomputed_from_the_rows(name: str) -> None:
    data, table = CASES[name]().data, the_table(root_of(name), "followed", "rows", "share")
    who = np.array(data.ensemble.names_, dtype=object)[data.answer.chosen]
    followed = column(table, "followed")
    assert sorted(followed) == sorted(set(who))
    for heading, values in (("promised", data.answer.promised), ("realised", data.realised)):
        assert same(numbers(table, heading), [values[who == each].mean() for each in followed])
    assert same(numbers(table, "rows"), [(who == each).sum() for each in followed])
    assert same(numbers(table, "share"), [(who == each).mean() for each in followed])
    bars = [bar.the("span").text for bar in root_of(name).every("div", class_="bar")]
    assert sorted(bars) == sorted(followed)
    shares = [(who == bar).mean() for bar in bars]
    assert shares == sorted(shares, reverse=True)


@EACH
def test_blocks_are_rows_in_order_and_their_promises_those_of_the_ensemble(name: str) -> None:
    case = CASES[name]()
    data, table = case.data, the_table(root_of(name), "time" if case.data.when is not None else "row numbers")
    parts = np.array_split(np.arange(data.rows), 20)
    assert same(numbers(table, "rows"), [len(part) for part in parts])
    assert same(numbers(table, "realised"), [data.realised[part].mean() for part in parts])
    X = case.X if isinstance(case.X, np.ndarray) else case.X.reset_index(drop=True)
    promises = [data.ensemble.promise(X[part] if isinstance(X, np.ndarray) else X.iloc[part]) for part in parts]
    assert same(numbers(table, "promised"), [promise.mean for promise in promises])
    outside = [
        not promise.low <= data.realised[part].mean() <= promise.high
        for part, promise in zip(parts, promises, strict=True)
    ]
    if name == "paper":
        assert {row[-1].text for row in table.rows()} == {NO_NUMBER}
        return
    assert same(numbers(table, "promised interval"), [promise.low for promise in promises])
    assert [row[-1].text == "no" for row in table.rows()] == outside
    said = next(item.text for item in root_of(name).every("li") if item.text.startswith("20 blocks"))
    assert f": {sum(outside) or 'none'} lie" in said


def test_intervals_of_blocks_of_independent_rows_are_the_audits_for_as_many_rows() -> None:
    data = portfolio().data
    rows = data.realised[: data.rows // 20]
    half = stats.t.ppf(0.975, data.rows - 1) * data.realised.std(ddof=1) / np.sqrt(len(rows))
    assert data.blocks.half_width == pytest.approx(np.full(20, half))


@pytest.mark.parametrize("length", [1, 3, 50])
def test_intervals_of_blocks_in_time_order_come_from_what_differs_within_blocks(length: int) -> None:
    data = journey().data
    data = replace(data, audit=replace(data.audit, block_length=length))
    parts = np.array_split(data.realised, 20)
    stretches = [np.array_split(part - part.mean(), max(len(part) // length, 2)) for part in parts]
    sums = [stretch.sum() for of in stretches for stretch in of]
    freedom = len(sums) - 20
    row_variance = sum(total**2 for total in sums) / freedom * len(sums) / data.rows
    half = stats.t.ppf(0.975, freedom) * np.sqrt(row_variance / 15)
    assert data.blocks.half_width == pytest.approx(np.full(20, half))
    if length == 1:  # the analysis of variance
        within = np.sqrt(np.mean([part.var(ddof=1) for part in parts]))
        assert half == pytest.approx(stats.t.ppf(0.975, 280) * within / np.sqrt(15))


def test_a_level_that_drifts_does_not_widen_the_intervals_of_blocks() -> None:
    steady = journey().data
    drifting = replace(steady, realised=steady.realised + np.repeat(100.0 * np.arange(20), 15))
    assert drifting.blocks.half_width == pytest.approx(steady.blocks.half_width)


@pytest.mark.parametrize(
    ("when", "first", "last"),
    [
        (pd.Series(pd.date_range("2024-03-01", periods=60)), "2024-03-01", "2024-04-29"),
        (
            pd.Series(pd.date_range("2024-03-30 22:30", periods=60, freq="h", tz="Europe/Berlin")),
            "2024-03-30 22:30",
            "",
        ),
        (pd.Series(pd.date_range("2024-03-01", periods=60).strftime("%Y-%m-%d")), "2024-03-01", "2024-04-29"),
        (pd.Series([pd.Timestamp("2024-03-01").date()] * 60), "2024-03-01", "2024-03-01"),
        (pd.Series(np.arange(60) / 2), "0", "29.5"),
        (pd.Series(np.arange(60), dtype="Int64"), "0", "59"),
    ],
    ids=["days", "time zone", "text", "dates", "numbers", "whole numbers"],
)
def test_times_of_any_kind_make_the_axis(when: pd.Series, first: str, last: str) -> None:
    data = simplex(3, 2, 60, when=when).data
    assert data.blocks.is_time
    shown = [text.block_name(data.blocks, at) for at in (0, 11)]
    assert shown[0].startswith(first)
    assert shown[-1].endswith(last)
    subject = next(read(make_report_page(data)).the("header").every("p"))
    assert first in subject.text


@pytest.mark.parametrize(
    "when",
    [
        pd.Series(["spring", "summer"] * 30),
        pd.Series(np.arange(60)[::-1].copy()),
        pd.Series([1.0, np.nan] * 30),
        pd.Series([1, None] * 30, dtype="Int64"),
        pd.Series([True] * 60),
        pd.Series(pd.date_range("2024-03-01", periods=60)[::-1]),
    ],
    ids=["words", "backwards", "missing", "missing whole number", "flags", "days backwards"],
)
def test_values_that_are_not_ordered_times_leave_rows_in_their_order(when: pd.Series) -> None:
    data = simplex(3, 2, 60, when=when).data
    assert not data.blocks.is_time
    assert text.block_name(data.blocks, 0) == "1 to 5"
    assert text.block_name(data.blocks, 11) == "56 to 60"
    assert "row order" in text.block_summary(data.blocks)
