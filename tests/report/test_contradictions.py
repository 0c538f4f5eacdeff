"""No number of a report contradicts another: the same quantity is the same number wherever it is shown."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.report.data import report_data
from optensemble.report.page import make_report_page
from tests.report.ensembles import CASES, Case, simplex
from tests.report.statements import OUT_OF_FOLD, Shown, Statements, read_statements, texts


def gaps_and_weights() -> Case:
    """Weights, groups, and a model that is absent in some rows; costs."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(420, 3))
    Y = 4 + X + rng.normal(scale=0.5, size=X.shape)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["often"], table["who"] = rng.uniform(0.5, 2, 420), np.arange(420) // 3
    absent = rng.random(420) < 0.2

    def patchy(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
        said = 4 + rows[["a", "b", "c"]].to_numpy() * [1, 0, 0]
        said[absent[rows.index]] = np.nan
        return said

    def steady(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
        return np.asarray(4 + rows[["a", "b", "c"]].to_numpy() * [0, 1, 1])

    ensemble = oe.DecisionEnsemble([("patchy", patchy), ("steady", steady)], feasible=feasible.Simplex(3), sense="min")
    ensemble.fit(table[:240], Y[:240], groups="who", sample_weight="often")
    later = table[240:]
    audit, answer = ensemble.audit_with_answer(later, Y[240:], groups="who", sample_weight="often")
    weights = later["often"].to_numpy()
    return Case(report_data(ensemble, audit, answer, later, Y[240:], source="later.parquet", weights=weights), later)


def nothing_to_decide() -> Case:
    """All labels are 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oe.exceptions.DataWarning)
        return simplex(3, 2, 40, constant=True)


REPORTS: dict[str, Callable[[], Case]] = {
    **CASES,
    "few rows": cache(partial(simplex, 3, 2, 12)),
    "one model": cache(partial(simplex, 3, 1, 60)),
    "costs": cache(partial(simplex, 4, 2, 90, sense="min")),
    "nothing to decide": cache(nothing_to_decide),
    "gaps and weights": cache(gaps_and_weights),
}
EACH = pytest.mark.parametrize("name", REPORTS)

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]


@cache
def said_in(name: str) -> Statements:
    return read_statements(make_report_page(REPORTS[name]().data))


def the(name: str, quantity: str) -> Shown:
    """A quantity, as it is shown with the most digits."""
    return min(said_in(name).shown[quantity], key=lambda shown: shown.rounding)


@pytest.mark.parametrize(
    ("number", "other"),
    [
        ("10,958", "10,858"),  # the total earned
        ("76\N{NO-BREAK SPACE}%", "86\N{NO-BREAK SPACE}%"),
        ("+5.3", "+6.3"),
        ("20 blocks", "19 blocks"),
        ("none lies outside", "1 lies outside"),
        ("6,696 pairs", "6,697 pairs"),
        ("earns 3.7 more", "earns 4.7 more"),
        ("gap −0.1", "gap −0.4"),
    ],
)
def test_a_number_that_is_changed_in_one_place_is_found(
    number: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = make_report_page(REPORTS["electricity"]().data)
    assert number in page, "the page has changed: choose another number"
    changed = read_statements(page.replace(number, other, 1))
    monkeypatch.setattr(f"{__name__}.said_in", lambda name: changed)
    found = 0
    for check in CHECKS:
        try:
            check("electricity")
        except AssertionError:
            found += 1
    assert found


def test_ten_reports_and_more_are_walked() -> None:
    assert len(REPORTS) >= 10


@EACH
def test_every_sentence_with_a_number_is_read(name: str) -> None:
    assert said_in(name).unread == []


@EACH
def test_the_same_quantity_is_the_same_number_wherever_it_is_shown(name: str) -> None:
    shown = said_in(name).shown
    for quantity, places in shown.items():
        for each in places[1:]:
            assert each.agrees(places[0].value, places[0].rounding), (quantity, places[0], each)
    repeated = [quantity for quantity, places in shown.items() if len({place.where for place in places}) > 1]
    assert {"promise", "realised", "rows"} <= set(repeated)
    for each in shown["weight"]:
        assert each.agrees(REPORTS[name]().data.weight)


@EACH
def test_totals_are_means_times_rows_and_the_gap_is_their_difference(name: str) -> None:
    data = REPORTS[name]().data
    rows = data.weight
    for what in ("promise", "realised"):
        mean, total = the(name, what), the(name, f"{what} total")
        assert total.agrees(rows * mean.value, rows * mean.rounding)
    promise, realised, gap = (the(name, what) for what in ("promise", "realised", "gap"))
    assert gap.agrees(promise.value - realised.value, promise.rounding + realised.rounding)


@EACH
def test_the_share_of_foresight_is_that_of_the_totals_beside_it(name: str) -> None:
    shown = said_in(name).shown
    if "foresight total" not in shown:
        assert REPORTS[name]().data.foresight is None or not shown["Share of foresight"]
        return
    earned, foresight = the(name, "realised total"), the(name, "foresight total")
    share, above = shown["Share of foresight"], shown["Above foresight"]
    ratio = 100 * earned.value / foresight.value
    room = abs(ratio) * (earned.rounding / abs(earned.value) + foresight.rounding / abs(foresight.value))
    for each in share:
        assert each.agrees(ratio, room)
    for each in above:
        assert each.agrees(ratio - 100, room)
    for each in shown["behind foresight"]:
        assert each.agrees(abs(earned.value - foresight.value), earned.rounding + foresight.rounding)


@EACH
def test_who_decides_adds_up(name: str) -> None:
    shown = said_in(name).shown
    followed = {
        quantity.removeprefix("rows followed by "): int(places[0].value)
        for quantity, places in shown.items()
        if quantity.startswith("rows followed by ")
    }
    assert sum(followed.values()) == the(name, "rows").value
    for who, count in followed.items():
        share = the(name, f"share followed by {who}")
        assert share.agrees(100 * count / the(name, "rows").value)


@EACH
def test_the_sentence_on_baselines_counts_what_its_table_says(name: str) -> None:
    page = said_in(name).page
    results = [row["result"] for table in page.every("table") for row in texts(table) if "result" in row]
    said = [node.text for node in page.every("li") if "baseline" in node.text and "ensemble is" in node.text]
    for sentence in said:
        for result, words in [("better", "better than"), ("worse", "worse than"), ("identical", "identical to")]:
            assert (words in sentence) == (result in results), sentence
            if f"{words} all" not in sentence and result in results:
                assert f"{words} {results.count(result)}" in sentence


@EACH
def test_the_comparison_with_the_mean_label_is_that_of_the_leaderboard(name: str) -> None:
    shown = said_in(name).shown
    if "lead over the mean label" not in shown:
        return
    lead, line = the(name, "lead over the mean label"), the(name, f"{OUT_OF_FOLD}: mean against what decides")
    assert lead.agrees(abs(line.value), line.rounding)


@EACH
def test_what_decides_is_compared_with_nothing_that_is_itself(name: str) -> None:
    page, data = said_in(name).page, REPORTS[name]().data
    alone = data.decides_alone
    for table in page.every("table"):
        for row in texts(table):
            assert not alone or row.get("baseline") != alone
            if row.get("selected") == "yes" and "difference" in row:
                assert row["difference"] == "–"


@EACH
def test_nothing_infinite_and_nothing_impossible_is_shown(name: str) -> None:
    page, data = said_in(name).page, REPORTS[name]().data
    text = page.the("main").text
    assert "∞" not in text
    assert "nan" not in text.lower().split()
    never_negative = data.labels.min() >= 0 and data.ensemble.feasible_.lower.min() >= 0
    if never_negative:
        assert the(name, "promise low").value >= 0


CHECKS = [
    test_the_same_quantity_is_the_same_number_wherever_it_is_shown,
    test_totals_are_means_times_rows_and_the_gap_is_their_difference,
    test_the_share_of_foresight_is_that_of_the_totals_beside_it,
    test_the_comparison_with_the_mean_label_is_that_of_the_leaderboard,
]
