"""The report's verdict and baselines, recomputed from rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.report.data import report_data
from optensemble.report.page import make_report_page
from optensemble.report.text import baseline_summary
from tests.report.ensembles import CASES, simplex, white_box
from tests.report.pages import (
    EACH,
    FOR_ALL,
    SECTIONS,
    _headings,
    column,
    numbers,
    root_of,
    rounds_to,
    same,
    tables_of,
    the_table,
)
from tests.report.reading import read

pytestmark = pytest.mark.slow

# The verdict


@EACH
def test_the_headline_says_whether_the_promise_was_kept(name: str) -> None:
    data = CASES[name]().data
    row: Any = data.audit.summary.iloc[0]
    header = root_of(name).the("header")
    assert header.the("h1").text == "Report on later.parquet"
    (headline,) = [node for node in header.every("p") if node.attributes.get("class", "").startswith("verdict")]
    status = headline.attributes["class"].removeprefix("verdict ")
    if np.isinf([row["low"], row["high"]]).all():
        assert status == "open"
        assert headline.text == "– There was no promise to keep"
    elif row["low"] <= data.realised.mean() <= row["high"]:
        assert status == ("kept" if data.audit.grade == "kept" else "doubt")
        assert headline.text == f"{'✓' if status == 'kept' else '≈'} The promise was {data.audit.judgement.outcome}"
    else:
        assert status == "broken"
        assert headline.text.startswith("✗ The promise was broken: ")
    assert header.the("p", class_="lead").text.lower() == f"{data.audit.verdict}.".lower()


def test_rows_that_were_fitted_on_prove_nothing() -> None:
    case = white_box()
    ensemble: Any = case.data.ensemble
    X, Y = ensemble._rows[0]
    with pytest.warns(UserWarning, match="fitted on"):
        audit = ensemble.audit(X, Y)
    answer = ensemble.answer(X)
    data = report_data(ensemble, audit, answer, X, Y)
    assert "– This proves nothing" in [node.text for node in read(make_report_page(data)).every("p")]


@EACH
def test_the_cards_show_promised_and_realised_payoff(name: str) -> None:
    case = CASES[name]()
    data, promise = case.data, case.data.ensemble.promise(case.X)
    cards = {card.the("h2").text: card for card in root_of(name).every("section", class_="card")}
    promised, realised = (f"Promised {data.objective}, mean", f"Realised {data.objective}, mean")
    assert rounds_to(cards[promised].the("p", class_="big").text, promise.mean)
    if np.isfinite(promise.low):
        low, _, high = cards[promised].the("p", class_="soft").text.removeprefix("95 % interval:").split()
        assert rounds_to(low, promise.low)
        assert rounds_to(high, promise.high)
    else:
        assert cards[promised].the("p", class_="soft").text == "no interval"
    mean, half = cards[realised].the("p", class_="big").text.split(" ± ")
    assert rounds_to(mean, data.realised.mean())
    assert rounds_to(half, data.audit.summary["half_width"].iloc[0])
    sentences = [node.text for node in root_of(name).every("li")]  # which pairs are biased is no headline
    assert any(f"{data.audit.tested:,} pairs of cell and coordinate" in sentence for sentence in sentences)


@EACH
def test_the_card_of_the_gain_compares_with_the_best_member_in_hindsight(name: str) -> None:
    data = CASES[name]().data
    ensemble: Any = data.ensemble
    sign, title = (1, "Gain") if data.sense == "max" else (-1, "Saved")
    card = next(card for card in root_of(name).every("section", class_="card") if card.the("h2").text == title)
    realised = data.audit.lift.set_index("rival")["realised"].loc[[member for member, _ in ensemble.members_]]
    best = realised.index[int((sign * realised).to_numpy().argmax())]
    payoff = realised[best]
    assert rounds_to(card.the("p", class_="big").text, sign * (data.realised.mean() - payoff))
    assert best in card.the("p", class_="soft").text


def test_cautions_about_a_promise_are_shown() -> None:
    said = [node.text for node in root_of("paper").every("p", class_="caution")]
    assert any("below 100 nothing can be judged" in each for each in said)
    for name in CASES:
        said = [node.text for node in root_of(name).every("p", class_="caution")]
        assert len(set(said)) == len(said)
        assert [f"Doubt: {doubt}." in said for doubt in CASES[name]().data.audit.judgement.doubts].count(False) == 0
    ensemble: Any = simplex(3, 2, 50).data.ensemble
    ensemble.refit_due_ = "200 rows have come since the fit on 100"
    data = replace(simplex(3, 2, 50).data, ensemble=ensemble)
    texts = [node.text for node in read(make_report_page(data)).every("p", class_="caution")]
    assert "A refit is due: 200 rows have come since the fit on 100." in texts


@EACH
def test_every_section_is_there_and_linked(name: str) -> None:
    root = root_of(name)
    assert [head.attributes["id"] for head in root.every("h2") if "id" in head.attributes] == SECTIONS
    links = [link.attributes["href"] for nav in root.every("nav") for link in nav.every("a")]
    assert links == [f"#{section}" for section in SECTIONS]
    assert links[: len(FOR_ALL)] == [link.attributes["href"] for link in root.the("header").the("nav").every("a")]
    assert all(link.attributes["href"][1:] in SECTIONS for link in root.every("a"))


# Baselines


@EACH
def test_baselines_are_listed_with_their_gains_the_strongest_first(name: str) -> None:
    data, table = CASES[name]().data, the_table(root_of(name), "baseline")
    sign = 1 if data.sense == "max" else -1
    expected = data.audit.lift.set_index("rival")
    found = column(table, "baseline")
    assert sorted(found) == sorted(expected.index)
    gains = numbers(table, "gain of the ensemble" if data.sense == "max" else "saved by the ensemble")
    assert gains == sorted(gains)
    assert same(gains, sign * (data.realised.mean() - expected.loc[found, "realised"]))
    assert same(numbers(table, "95 % interval"), expected.loc[found, "low"])
    better = [row[-1].text == "better" for row in table.rows()]
    assert better == (expected.loc[found, "low"] > 0).tolist()


def test_baselines_of_one_result_are_not_counted_twice() -> None:
    audit = CASES["portfolio"]().data.audit
    ahead = audit.lift.assign(low=1.0, high=2.0)
    assert baseline_summary(replace(audit, lift=ahead)) == (
        f"The ensemble is significantly better than all {len(ahead)} baselines."
    )
    mixed = ahead.assign(low=[-1.0] + [1.0] * (len(ahead) - 1))
    assert baseline_summary(replace(audit, lift=mixed)) == (
        f"Of {len(ahead)} baselines, the ensemble is significantly better than {len(ahead) - 1} and not significantly "
        "different from 1."
    )
    assert baseline_summary(replace(audit, lift=ahead[:1])).startswith("Of 1 baseline, ")


def test_the_leaderboard_is_that_of_the_ensemble() -> None:
    for name in ("electricity", "portfolio", "journey"):
        board: pd.DataFrame = CASES[name]().data.ensemble.leaderboard_
        table = the_table(root_of(name), "candidate")
        assert column(table, "candidate") == board["candidate"].tolist()
        for heading in ("realised", "difference", "followed"):
            assert same(numbers(table, heading), board[heading])
        assert same(numbers(table, "self-assessed"), board["promised"])
        selected = [row[0].text for row in table.rows() if row[_headings(table).index("selected")].text == "yes"]
        assert selected == [CASES[name]().data.ensemble.winner_]
        assert [row[-1].text for row in table.rows()] == board["why"].tolist()


def test_the_paper_s_algorithms_show_what_cross_validation_tried() -> None:
    for name in ("white box", "white box of costs", "black box"):
        tried: pd.DataFrame = CASES[name]().data.ensemble.validation_
        table = the_table(root_of(name), "rounds")
        gain = "saved" if name.endswith("costs") else "gain"
        for heading, of in (("rounds", "rounds"), (gain, "gain"), ("standard error", "standard_error")):
            assert same(numbers(table, heading), tried[of])
        assert sum(row[-1].text == "yes" for row in table.rows()) == 1
        assert not tables_of(root_of(name), "candidate")
    assert not tables_of(root_of("paper"), "rounds")
