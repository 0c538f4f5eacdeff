"""The top of the report: every number recomputed from public parts, for payoffs, costs, weights and times."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.report.data import ReportTerms, report_data
from optensemble.report.page import make_report_page
from tests.report.ensembles import Case, electricity, journey, portfolio
from tests.report.pages import numbers, read_number, rounds_to, same, the_table
from tests.report.reading import Node, read

Floats = npt.NDArray[np.float64]

TERMS = ReportTerms("Battery <Leipzig> & more", unit="day", currency="k€")


@cache
def weighted() -> Case:
    """One unit to share out among three, rows that count for 0 to 4 rows, and an id for each."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(220, 3))
    Y = X + rng.normal(scale=0.5, size=X.shape) + 1.0
    weights = rng.integers(0, 5, size=100).astype(float)
    models = [("left", lambda X: X * [1, 0, 0]), ("right", lambda X: X * [0, 1, 1])]
    ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(3)).fit(X[:120], Y[:120])
    audit, answer = ensemble.audit_with_answer(X[120:], Y[120:], sample_weight=weights)
    ids = [f"order {number}" for number in range(100)]
    data = report_data(ensemble, audit, answer, X[120:], Y[120:], weights=weights, ids=ids, source="orders.csv")
    return Case(data, X[120:])


WORLDS = {"weighted": weighted, "time": electricity, "payoffs": portfolio, "costs": journey}
EACH = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in WORLDS])


@cache
def shown(name: str) -> Node:
    return read(make_report_page(replace(WORLDS[name]().data, terms=TERMS)))


def cards(root: Node) -> dict[str, Node]:
    return {card.the("h2").text: card for card in root.the("header").every("section", class_="card")}


def amounts(text: str) -> list[str]:
    """The numbers in a text, without what they are counted in."""
    return re.findall(r"[−+]?\d[\d,]*(?:\.\d+)?", text.replace("95\N{NO-BREAK SPACE}%", ""))


def weights_of(name: str) -> Floats:
    data = WORLDS[name]().data
    return np.ones(data.rows) if data.weights is None else data.weights


def hindsight(name: str) -> Floats:
    """The payoff of each row with its labels known: by enumeration where that is possible."""
    case = WORLDS[name]()
    Y, omega = case.data.labels, case.data.ensemble.feasible_
    if name == "weighted":
        return np.asarray(Y.max(axis=1))
    if name == "costs":  # three ways to work
        return np.minimum(np.minimum(Y[:, 0] + Y[:, 1], Y[:, 2]), Y[:, 3] + Y[:, 4])
    return np.asarray(np.einsum("ij,ij->i", omega.argmax(Y), Y))


@EACH
def test_totals_are_those_of_the_rows(name: str) -> None:
    data, weights, found = WORLDS[name]().data, weights_of(name), cards(shown(name))
    row: Any = data.audit.summary.iloc[0]
    earned = np.einsum("ij,ij->i", data.answer.actions, data.labels)
    cost = data.sense == "min"
    promised, realised = found["Promised cost" if cost else "Promised"], found["Actual cost" if cost else "Earned"]
    for card, total in ((promised, row["promise"] * weights.sum()), (realised, weights @ earned)):
        (number,) = amounts(card.the("p", class_="big").text)
        assert rounds_to(number, total)
        assert card.the("p", class_="big").text == f"{number}\N{NO-BREAK SPACE}k€"
    low, high = amounts(promised.the("p", class_="soft").text)
    assert rounds_to(low, row["low"] * weights.sum())
    assert rounds_to(high, row["high"] * weights.sum())
    mean, half = amounts(realised.the("p", class_="soft").text)
    assert rounds_to(mean, np.average(earned, weights=weights))
    assert rounds_to(half, row["half_width"])
    assert realised.the("p", class_="soft").text.endswith("k€ per day")


@EACH
def test_the_share_of_foresight_is_recomputed_from_labels(name: str) -> None:
    data, weights = WORLDS[name]().data, weights_of(name)
    best, earned = float(weights @ hindsight(name)), float(weights @ data.realised)
    assert np.all(data.sign * (hindsight(name) - data.realised) >= -1e-6)
    card = cards(shown(name))["Above foresight" if data.sense == "min" else "Share of foresight"]
    share = earned / best - 1 if data.sense == "min" else earned / best
    assert rounds_to(amounts(card.the("p", class_="big").text)[0], 100 * share)
    assert rounds_to(amounts(card.the("p", class_="soft").text)[0], best)


@EACH
def test_title_verdict_and_rows_are_said_first(name: str) -> None:
    data, header = WORLDS[name]().data, shown(name).the("header")
    assert header.the("h1").text == TERMS.title
    assert shown(name).the("title").text == TERMS.title
    subject = header.the("p", class_="soft subject").text
    assert subject.startswith(f"{data.rows} days")
    assert ("which count for" in subject) == (data.weights is not None)
    gap, low, high = (data.audit.summary[each].iloc[0] for each in ("gap", "gap_low", "gap_high"))
    said = re.search(r"gap (\S+) \(95 %: (\S+) to (\S+)\)", header.the("p", class_="lead").text)
    assert said is not None
    assert all(rounds_to(text, value) for text, value in zip(said.groups(), (gap, low, high), strict=True))


@EACH
def test_typical_decisions_are_the_rows_at_the_quartiles(name: str) -> None:
    data = WORLDS[name]().data
    answer, best = data.answer, hindsight(name)
    articles = list(shown(name).every("article"))
    worst_first = data.sign * data.realised
    assert [article.the("h3").text.split()[1] for article in articles] == ["weak", "ordinary", "good"]
    for article, share in zip(articles, (0.25, 0.5, 0.75), strict=True):
        row = int(np.abs(worst_first - np.quantile(worst_first, share)).argmin())
        facts = {each.the("dt").text: each.the("dd").text for each in article.the("dl").elements}
        promised, *limits = amounts(facts["promised"])
        assert rounds_to(promised, answer.promised[row])
        assert [rounds_to(*pair) for pair in zip(limits, (answer.low[row], answer.high[row]), strict=True)] == [
            True
        ] * 2
        (realised,) = amounts(facts["cost" if data.sense == "min" else "earned"])
        assert rounds_to(realised, data.realised[row])
        assert rounds_to(amounts(facts["with foresight"])[0], best[row])
        assert facts["followed"] == answer.followed[row]
        assert article.the("h3").text.endswith(called(name, row))


def called(name: str, row: int) -> str:
    when = WORLDS[name]().data.when
    if name == "weighted":
        return f": order {row}"
    if when is None:
        return f": day {row + 1}"
    return f": {when.iloc[row].date()}" if name == "time" else f": {row}"


@EACH
def test_who_decides_is_counted(name: str) -> None:
    data = WORLDS[name]().data
    for bar in shown(name).every("div", class_="bar"):
        share = float(np.mean(data.answer.followed == bar.the("span").text))
        assert rounds_to(amounts(bar.the("b").text)[0], 100 * share)


@EACH
def test_blocks_count_rows_by_their_weights(name: str) -> None:
    data, weights = WORLDS[name]().data, weights_of(name)
    parts = np.array_split(np.arange(data.rows), min(20, data.rows // 5))
    table = the_table(shown(name), "time" if data.when is not None else "row numbers")
    means = [np.average(data.realised[part], weights=weights[part]) for part in parts]
    assert same(numbers(table, "realised"), means)
    assert sum(numbers(table, "rows")) == data.rows


def test_costs_are_costs_throughout() -> None:
    text = shown("costs").the("main").text.lower()
    for word in ("payoff", "earned", "earning"):
        assert word not in text.replace(TERMS.title.lower(), ""), word
    assert "saved" in text


@pytest.mark.slow
def test_every_colour_is_explained() -> None:
    root = shown("costs")
    for name in ("blocks", "verdict", "lift", "leaderboard", "gaps", "profile"):
        assert len(root.the("figure", id=f"figure-{name}").the("figcaption").text) > 20
    assert "Orange would have saved, blue cost more" in root.the("main").text
    assert "Thick and blue is the path taken" in root.the("main").text


def test_numbers_read_back_as_they_were_written() -> None:
    assert amounts("−1,204.5 k€ (95\N{NO-BREAK SPACE}%: 3 to 4)") == ["−1,204.5", "3", "4"]
    assert read_number("−1,204.5") == -1204.5


# Terms


def test_terms_are_words() -> None:
    assert ReportTerms(unit="trip").count(1) == "1 trip"
    assert ReportTerms(unit="delivery").count(1200) == "1,200 deliveries"
    assert ReportTerms().replaced(title="A", unit=None).as_plain() == {"title": "A"}
    assert ReportTerms(currency=" ").amount("1") == "1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"title": 3}, "title must be text; got 3"),
        ({"unit": " "}, "unit is empty"),
        ({"currency": "x" * 41}, "currency has 41 characters; 40 are possible"),
        ({"title": "two\nlines"}, "title must be one line of printable text"),
    ],
)
def test_terms_that_are_no_words_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(oe.exceptions.InputError, match=message):
        ReportTerms(**given)


def test_rows_are_called_by_id_time_or_number() -> None:
    data = replace(weighted().data, ids=None)
    assert data.row_name(4) == "row 5"
    assert replace(data, when=pd.Series(["spring"] * data.rows)).row_name(4) == "spring"
    days = pd.Series(pd.date_range("2024-01-01", periods=data.rows))
    assert replace(data, when=days, ids=["a"] * data.rows).row_name(1) == "a, 2024-01-02"
    assert replace(data, when=days, ids=["2024-01-02"] * data.rows).row_name(1) == "2024-01-02"
