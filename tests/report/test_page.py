"""The report of an ensemble, read back: every number recomputed from rows, every name escaped, nothing loaded."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import escape
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import optensemble as oe
from optensemble import feasible
from optensemble.report import text as words
from optensemble.report.cell_words import cell_words
from optensemble.report.data import Judged
from optensemble.report.drawing import inline_svg, new_figure, style
from optensemble.report.numbers import NOTHING, decimals, interval, number, percent
from optensemble.report.page import make_page
from tests.report.ensembles import (
    CASES,
    LONG,
    NASTY,
    boxes,
    electricity,
    journey,
    judge,
    page_of,
    paper,
    portfolio,
    simplex,
    white_box,
)
from tests.report.reading import Node, read

EACH = pytest.mark.parametrize("name", CASES)
SECTIONS = ["rivals", "time", "cells", "swaps", "guarantees", "decisions", "glossary"]


@cache
def root_of(name: str) -> Node:
    return read(page_of(name))


def tables_of(root: Node, *headings: str) -> list[Node]:
    """The tables that begin with these headings."""
    return [table for table in root.every("table") if _headings(table)[: len(headings)] == list(headings)]


def _headings(table: Node) -> list[str]:
    return [head.text for head in table.the("thead").elements[-1].elements]


def the_table(root: Node, *headings: str) -> Node:
    (found,) = tables_of(root, *headings)
    return found


def column(table: Node, heading: str) -> list[str]:
    """What the cells of a column are sorted by."""
    place = _headings(table).index(heading)
    return [row[place].attributes["data-value"] for row in table.rows()]


def numbers(table: Node, heading: str) -> list[float]:
    return [float(value) if value else np.nan for value in column(table, heading)]


def same(found: list[float], expected: Any) -> bool:
    return bool(np.allclose(found, np.asarray(expected, dtype=float), rtol=1e-9, atol=1e-12, equal_nan=True))


def read_number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def rounds_to(text: str, value: float) -> bool:
    """Whether a text is a number as it is written with so many decimals."""
    places = len(text.partition(".")[2])
    return abs(read_number(text) - value) <= 0.5 * 10.0**-places * (1 + 1e-9)


# The verdict


@EACH
def test_the_headline_says_what_became_of_the_promise(name: str) -> None:
    judged = CASES[name]().judged
    row: Any = judged.audit.summary.iloc[0]
    headline = root_of(name).the("h1")
    if np.isinf([row["low"], row["high"]]).all():
        assert headline.attributes["class"] == "open"
        assert headline.text == "– There was no promise to keep"
    elif row["low"] <= judged.realised.mean() <= row["high"]:
        assert headline.attributes["class"] == "kept"
        assert headline.text == "✓ The promise was kept"
    else:
        assert headline.attributes["class"] == "broken"
        assert headline.text.startswith("✗ The promise was not kept")
    assert root_of(name).the("p", class_="lead").text.lower() == f"{judged.audit.verdict}.".lower()


def test_rows_that_were_fitted_on_prove_nothing() -> None:
    case = white_box()
    ensemble: Any = case.judged.ensemble
    X, Y = ensemble._rows[0]
    with pytest.warns(UserWarning, match="fitted on"):
        audit = ensemble.audit(X, Y)
    answer = ensemble.answer(X)
    judged = replace(
        case.judged, audit=audit, answer=answer, realised=np.einsum("ij,ij->i", answer.actions, Y), labels=Y
    )
    assert read(make_page(judged)).the("h1").text == "– This proves nothing"


@EACH
def test_the_cards_show_what_was_promised_and_what_came_of_it(name: str) -> None:
    case = CASES[name]()
    judged, promise = case.judged, case.judged.ensemble.promise(case.X)
    cards = {card.the("h2").text: card for card in root_of(name).every("section", class_="card")}
    promised, realised = ("Promised", "Earned") if judged.sense == "max" else ("Promised cost", "Cost")
    assert rounds_to(cards[promised].the("p", class_="big").text, promise.mean)
    if np.isfinite(promise.low):
        _, low, _, high = cards[promised].the("p", class_="soft").text.replace("95 %:", "limits").split()
        assert rounds_to(low, promise.low)
        assert rounds_to(high, promise.high)
    else:
        assert cards[promised].the("p", class_="soft").text == "without limits"
    mean, half = cards[realised].the("p", class_="big").text.split(" ± ")
    assert rounds_to(mean, judged.realised.mean())
    assert rounds_to(half, judged.audit.summary["half_width"].iloc[0])
    assert cards["Biases"].the("p", class_="big").text == f"{judged.audit.biased:,} of {judged.audit.tested:,}"


@EACH
def test_the_card_of_the_gain_is_over_the_best_member_in_hindsight(name: str) -> None:
    judged = CASES[name]().judged
    ensemble: Any = judged.ensemble
    card = next(card for card in root_of(name).every("section", class_="card") if card.the("h2").text == "Gain")
    sign = 1 if judged.sense == "max" else -1
    realised = judged.audit.lift.set_index("rival")["realised"].loc[[member for member, _ in ensemble.members_]]
    best = realised.index[int((sign * realised).to_numpy().argmax())]
    payoff = realised[best]
    assert rounds_to(card.the("p", class_="big").text, sign * (judged.realised.mean() - payoff))
    assert best in card.the("p", class_="soft").text


def test_what_makes_a_promise_doubtful_is_said_above_all() -> None:
    (caution,) = root_of("paper").every("p", class_="caution")
    assert "below 100 nothing can be judged" in caution.text
    assert not list(root_of("portfolio").every("p", class_="caution"))
    ensemble: Any = simplex(3, 2, 50).judged.ensemble
    ensemble.refit_due_ = "200 rows have come since the fit on 100"
    judged = replace(simplex(3, 2, 50).judged, ensemble=ensemble)
    texts = [node.text for node in read(make_page(judged)).every("p", class_="caution")]
    assert "It should be fitted again: 200 rows have come since the fit on 100." in texts


@EACH
def test_every_section_is_there_and_linked(name: str) -> None:
    root = root_of(name)
    assert [head.attributes["id"] for head in root.every("h2") if "id" in head.attributes] == SECTIONS
    links = [link.attributes["href"] for link in root.the("nav").every("a")]
    assert links == [f"#{section}" for section in SECTIONS]
    assert all(link.attributes["href"][1:] in SECTIONS for link in root.every("a"))


# Who is best


@EACH
def test_rivals_are_listed_with_their_gains_the_strongest_first(name: str) -> None:
    judged, table = CASES[name]().judged, the_table(root_of(name), "rival")
    sign = 1 if judged.sense == "max" else -1
    expected = judged.audit.lift.set_index("rival")
    found = column(table, "rival")
    assert sorted(found) == sorted(expected.index)
    gains = numbers(table, "gain of the ensemble")
    assert gains == sorted(gains)
    assert same(gains, sign * (judged.realised.mean() - expected.loc[found, "realised"]))
    assert same(numbers(table, "95 % interval"), expected.loc[found, "low"])
    ahead = [row[-1].text == "ahead" for row in table.rows()]
    assert ahead == (expected.loc[found, "low"] > 0).tolist()


def test_the_leaderboard_is_that_of_the_ensemble() -> None:
    for name in ("electricity", "portfolio", "journey"):
        board: pd.DataFrame = CASES[name]().judged.ensemble.leaderboard_
        table = the_table(root_of(name), "candidate")
        assert column(table, "candidate") == board["candidate"].tolist()
        for heading in ("realised", "promised", "difference", "followed"):
            assert same(numbers(table, heading), board[heading])
        decides = [row[0].text for row in table.rows() if row[_headings(table).index("decides")].text == "yes"]
        assert decides == [CASES[name]().judged.ensemble.winner_]
        assert [row[-1].text for row in table.rows()] == board["why"].tolist()


def test_the_paper_s_algorithms_show_what_cross_validation_tried() -> None:
    for name in ("white box", "white box of costs", "black box"):
        tried: pd.DataFrame = CASES[name]().judged.ensemble.validation_
        table = the_table(root_of(name), "rounds")
        for heading, of in (("rounds", "rounds"), ("gain", "gain"), ("± standard error", "standard_error")):
            assert same(numbers(table, heading), tried[of])
        assert sum(row[-1].text == "yes" for row in table.rows()) == 1
        assert not tables_of(root_of(name), "candidate")
    assert not tables_of(root_of("paper"), "rounds")


# Over time, and by whom was followed


@EACH
def test_who_was_followed_is_counted_and_averaged_from_the_rows(name: str) -> None:
    judged, table = CASES[name]().judged, the_table(root_of(name), "followed", "rows", "share")
    who = np.array(judged.ensemble.names_, dtype=object)[judged.answer.chosen]
    followed = column(table, "followed")
    assert sorted(followed) == sorted(set(who))
    for heading, values in (("promised", judged.answer.promised), ("realised", judged.realised)):
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
    judged, table = case.judged, the_table(root_of(name), "time" if case.judged.when is not None else "rows from")
    parts = np.array_split(np.arange(judged.rows), 20)
    assert same(numbers(table, "rows"), [len(part) for part in parts])
    assert same(numbers(table, "realised"), [judged.realised[part].mean() for part in parts])
    X = case.X if isinstance(case.X, np.ndarray) else case.X.reset_index(drop=True)
    promises = [judged.ensemble.promise(X[part] if isinstance(X, np.ndarray) else X.iloc[part]) for part in parts]
    assert same(numbers(table, "promised"), [promise.mean for promise in promises])
    outside = [
        not promise.low <= judged.realised[part].mean() <= promise.high
        for part, promise in zip(parts, promises, strict=True)
    ]
    if name == "paper":
        assert {row[-1].text for row in table.rows()} == {NOTHING}
        return
    assert same(numbers(table, "promised, 95 %"), [promise.low for promise in promises])
    assert [row[-1].text == "no" for row in table.rows()] == outside
    said = next(item.text for item in root_of(name).every("li") if item.text.startswith("The rows in 20 blocks"))
    assert f"{sum(outside) or 'none'} of them" in said


def test_intervals_of_blocks_of_independent_rows_are_the_audit_s_for_so_many_rows() -> None:
    judged = portfolio().judged
    rows = judged.realised[: judged.rows // 20]
    half = stats.t.ppf(0.975, judged.rows - 1) * judged.realised.std(ddof=1) / np.sqrt(len(rows))
    assert judged.blocks.half_width == pytest.approx(np.full(20, half))


@pytest.mark.parametrize("length", [1, 3, 50])
def test_intervals_of_blocks_in_time_order_come_from_what_differs_within_blocks(length: int) -> None:
    judged = journey().judged
    judged = replace(judged, audit=replace(judged.audit, block_length=length))
    parts = np.array_split(judged.realised, 20)
    stretches = [np.array_split(part - part.mean(), max(len(part) // length, 2)) for part in parts]
    sums = [stretch.sum() for of in stretches for stretch in of]
    freedom = len(sums) - 20
    row_variance = sum(total**2 for total in sums) / freedom * len(sums) / judged.rows
    half = stats.t.ppf(0.975, freedom) * np.sqrt(row_variance / 15)
    assert judged.blocks.half_width == pytest.approx(np.full(20, half))
    if length == 1:  # the analysis of variance
        within = np.sqrt(np.mean([part.var(ddof=1) for part in parts]))
        assert half == pytest.approx(stats.t.ppf(0.975, 280) * within / np.sqrt(15))


def test_a_level_that_drifts_does_not_widen_the_intervals_of_blocks() -> None:
    steady = journey().judged
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
    judged = simplex(3, 2, 60, when=when).judged
    assert judged.blocks.is_time
    shown = [words.block_name(judged.blocks, at) for at in (0, 11)]
    assert shown[0].startswith(first)
    assert shown[-1].endswith(last)
    assert read(make_page(judged)).the("h1")
    assert first in words.opening(judged)


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
def test_what_is_no_time_in_order_leaves_rows_in_their_order(when: pd.Series) -> None:
    judged = simplex(3, 2, 60, when=when).judged
    assert not judged.blocks.is_time
    assert words.block_name(judged.blocks, 0) == "1 to 5"
    assert words.block_name(judged.blocks, 11) == "56 to 60"
    assert "row order" in words.over_time(judged.blocks)


# Cells, swaps, guarantees


@pytest.mark.parametrize("name", ["electricity", "portfolio", "journey"])
def test_the_bias_of_own_level_sets_is_recomputed_from_the_rows(name: str) -> None:
    judged, (table, *_) = CASES[name]().judged, tables_of(root_of(name), "cell: rows where", "coordinate")
    residual = judged.labels - judged.answer.predictions
    omega, tried = judged.ensemble.feasible, 0
    for row in table.rows():
        found = re.fullmatch(r"own action on (.+) is (\S+) to (below )?(\S+)", row[0].text)
        if found is None:
            continue
        j, low, high = judged.coordinates.index(found[1]), read_number(found[2]), read_number(found[4])
        width = (omega.upper[j] - omega.lower[j]) / 10
        level = np.minimum(np.floor((judged.answer.actions[:, j] - omega.lower[j]) / width + 1e-9), 9)
        rows = level == round((low - omega.lower[j]) / width)
        assert high - low == pytest.approx(width)
        assert float(row[2].attributes["data-value"]) == rows.sum()
        bias = residual[rows, int(row[1].attributes["data-value"])].mean()
        assert float(row[3].attributes["data-value"]) == pytest.approx(bias)
        assert float(row[5].attributes["data-value"]) == pytest.approx(abs(bias) * rows.mean())
        tried += 1
    assert tried >= 2


@EACH
def test_the_worst_cells_are_shown_first_and_their_number_is_said(name: str) -> None:
    judged, (table, *_) = CASES[name]().judged, tables_of(root_of(name), "cell: rows where", "coordinate")
    worst = judged.audit.cells.head(15)
    assert same(numbers(table, "bias"), worst["bias"])
    assert [row[1].text for row in table.rows()] == [judged.coordinates[j] for j in worst["coordinate"]]
    assert [row[-1].text == "yes" for row in table.rows()] == worst["significant"].tolist()
    said = next(node.text for node in root_of(name).every("strong") if "pairs of cell" in node.text)
    assert said.startswith(f"{judged.audit.tested:,} pairs of cell and coordinate were tested")
    assert ("no bias stands out" in said) == (judged.audit.biased == 0)
    if judged.audit.biased:
        assert f": {judged.audit.biased:,} " in said
    assert (f"{judged.audit.thin:,} cell" in said) == (judged.audit.thin > 0)


@EACH
def test_swaps_are_what_another_would_have_gained_and_coloured_by_that(name: str) -> None:
    judged = CASES[name]().judged
    table = the_table(root_of(name), "followed", "rows", judged.ensemble.names_[0])
    matrix = judged.audit.swap_matrix
    counts = np.bincount(judged.answer.chosen, minlength=len(matrix))
    names = _headings(table)[2:]
    assert names == matrix.columns.tolist()
    assert column(table, "followed") == matrix.index[counts > 0].tolist()
    sure = judged.audit.swap.set_index(["chosen", "instead"])
    for row in table.rows():
        for other, cell in zip(names, row[2:], strict=True):
            gain: Any = matrix.loc[row[0].text, other]
            pair: Any = sure.loc[(row[0].text, other)]
            assert float(cell.attributes["data-value"]) == pytest.approx(gain)
            assert cell.text.endswith("*") == bool(pair["low"] > 0 or pair["high"] < 0)
            colour = cell.attributes.get("style", "")
            assert ("217 130 43" in colour) == (gain > 0)
            assert ("43 140 196" in colour) == (gain < 0)
    regret = sum(max(float(cell.attributes["data-value"]) for cell in row[2:]) for row in table.rows())
    said = next(node.text for node in root_of(name).every("strong") if node.text.startswith("The best swap"))
    assert rounds_to(re.findall(r"\d[\d.,]*", said)[0], regret)


@EACH
def test_guarantees_are_those_of_the_ensemble(name: str) -> None:
    frame, table = CASES[name]().judged.ensemble.guarantees_, the_table(root_of(name), "lemma", "quantity")
    assert column(table, "quantity") == frame["quantity"].tolist()
    assert same(numbers(table, "observed"), frame["observed"])
    assert same(numbers(table, "bound"), frame["bound"].replace(np.inf, np.nan))
    place = _headings(table).index("holds")
    assert [row[place].text == "yes" for row in table.rows()] == frame["holds"].tolist()


# What was decided


@EACH
def test_shares_at_the_bounds_are_counted_from_the_actions(name: str) -> None:
    judged, table = CASES[name]().judged, the_table(root_of(name), "coordinate", "mean")
    actions, omega = judged.answer.actions, judged.ensemble.feasible
    assert [row[0].text for row in table.rows()] == judged.coordinates
    assert same(numbers(table, "mean"), actions.mean(axis=0))
    low, high = (np.isclose(actions, bound, atol=1e-6).mean(axis=0) for bound in (omega.lower, omega.upper))
    assert same(numbers(table, "at lower"), low)
    assert same(numbers(table, "at upper"), high)
    assert np.allclose(numbers(table, "in between"), 1 - low - high)
    assert same(numbers(table, "mean predicted"), judged.answer.predictions.mean(axis=0))
    assert same(numbers(table, "mean realised"), judged.labels.mean(axis=0))


def test_the_picture_of_levels_agrees_with_a_histogram() -> None:
    judged = portfolio().judged
    inside = judged.profile.shares[:, 1:-1]
    for j in range(4):
        free = judged.answer.actions[:, j]
        free = free[(free > 1e-6) & (free < 1 - 1e-6)]
        expected = np.histogram(free, bins=np.linspace(0, 1, 11))[0] / judged.rows
        assert inside[j] == pytest.approx(expected, abs=2 / judged.rows)  # at an edge either side is right
    assert judged.profile.shares.sum(axis=1) == pytest.approx(np.ones(4))


def test_of_many_coordinates_those_used_most_are_shown() -> None:
    judged = simplex(60, 3, 80).judged
    table = the_table(read(make_page(judged)), "coordinate", "mean")
    used = judged.answer.actions.mean(axis=0)
    assert len(table.rows()) == 30
    least_shown = min(used[judged.coordinates.index(row[0].text)] for row in table.rows())
    assert (used > least_shown).sum() <= 30
    assert "Of 60 coordinates the 30 used most are shown." in words.decisions(judged)


# Names


def test_names_are_escaped_wherever_they_come() -> None:
    case = simplex(3, 2, 60, n=200, names=[NASTY, LONG], coordinates=[NASTY, LONG, "plain"])
    judged = replace(case.judged, source=NASTY)
    text = make_page(judged)
    root = read(text)
    assert len(list(root.every("script"))) == 1
    assert "<script>alert" not in text
    assert not [node for node in root.every() for name in node.attributes if name.startswith("on")]
    assert NASTY in root.the("footer").text
    assert NASTY in column(the_table(root, "rival"), "rival")
    assert [row[0].text for row in the_table(root, "coordinate", "mean").rows()] == [NASTY, LONG, "plain"]
    assert any(NASTY[:21] in node.text for node in root.every("text"))  # shortened beside an axis
    assert set(re.findall(r'https?://[^"\s<]+', text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_name_in_a_picture_says_what_it_says(name: str) -> None:
    shown = name.strip() or "x"
    printable = "".join(letter if letter.isprintable() else "?" for letter in shown)
    with style():
        figure = new_figure(2, 1)
        figure.suptitle(printable)
        text = inline_svg(figure, "prefix", "label")
    assert escape(printable, quote=False).replace("&gt;", ">") in text.replace("&gt;", ">")


@given(st.text(), st.integers(0, 3), st.sampled_from(["[0, 0.1)", "[-0.5, 1e+03]"]))
def test_cells_are_named_by_their_coordinates_whatever_a_member_is_called(who: str, j: int, bucket: str) -> None:
    coordinates = ["north", "south", "east", "west"]
    low, high = bucket[1:-1].replace("-", "−").split(", ")
    limits = f"{low} to {'below ' if bucket.endswith(')') else ''}{high}"
    assert cell_words(f"own action[{j}] in {bucket}", coordinates) == f"own action on {coordinates[j]} is {limits}"
    expected = f"action of {who} on {coordinates[j]} is {limits}"
    assert cell_words(f"action[{j}] of {who} in {bucket}", coordinates) == expected
    followed = f"{who} is followed, and its action on {coordinates[j]} is {limits}"
    assert cell_words(f"{who} followed, action[{j}] in {bucket}", coordinates) == followed
    assert cell_words("region=north", coordinates) == "region=north"


# Any ensemble, any rows


@pytest.mark.parametrize(
    "case",
    [
        lambda: simplex(1, 1, 20),
        lambda: simplex(4, 2, 20, time_ordered=True),
        lambda: simplex(3, 2, 2),
        lambda: simplex(3, 2, 50, constant=True),
        lambda: simplex(40, 20, 40, n=150),
        lambda: simplex(200, 3, 60, n=150),
        lambda: simplex(4, 3, 60, sense="min"),
        lambda: boxes("black", "min", n=120, m=60),
        lambda: boxes("black", n=60, validation=None),
    ],
    ids=["d=1", "20 rows", "2 rows", "constant", "k=20", "d=200", "costs", "black box of costs", "no limits"],
)
def test_there_is_a_page_for_any_ensemble_and_the_same_every_time(case: Any) -> None:
    judged: Judged = case().judged
    text = make_page(judged)
    assert text == make_page(replace(judged))
    root = read(text)
    assert [head.attributes["id"] for head in root.every("h2") if "id" in head.attributes] == SECTIONS
    assert not re.search(r"(?<![\w−-])(nan|inf|None)(?![\w-])", root.the("main").text)
    found = [node.attributes["id"] for node in root.every() if "id" in node.attributes]
    assert len(found) == len(set(found))


def test_who_is_alone_has_nobody_to_swap_with() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    Y = X + rng.normal(scale=0.5, size=X.shape)
    alone = oe.WhiteBoxEnsemble([("only", np.asarray)], feasible.Simplex(2)).fit(X[:150], Y[:150])
    root = read(make_page(judge(alone, X[150:], Y[150:], ["a", "b"]).judged))
    assert [node.text for node in root.every("strong")].count(
        "There is but one to follow: nothing could be swapped."
    ) == 1
    assert "followed" not in [_headings(table)[0] for table in root.every("table") if "only" in _headings(table)]


def test_without_rivals_cells_or_comparisons_the_page_says_so() -> None:
    judged = portfolio().judged
    audit = judged.audit
    bare = replace(
        audit,
        lift=audit.lift.head(0),
        cells=audit.cells.head(0),
        conditional=audit.conditional.head(0),
        tested=0,
        biased=0,
        thin=2,
    )
    root = read(make_page(replace(judged, audit=bare)))
    assert not tables_of(root, "rival")
    assert not tables_of(root, "cell: rows where")
    assert "Gain" not in [card.the("h2").text for card in root.every("section", class_="card")]
    assert "No cell could be tested. 2 cells had too few rows to be tested." in [n.text for n in root.every("strong")]


def test_a_page_does_not_grow_with_the_rows() -> None:
    few, many = (make_page(simplex(4, 2, m).judged) for m in (1_000, 30_000))
    assert len(many) < 1.2 * len(few) < 300_000


@EACH
def test_the_page_loads_nothing_and_says_where_it_is_from(name: str) -> None:
    judged, root = CASES[name]().judged, root_of(name)
    policy = root.the("meta", http_equiv="Content-Security-Policy").attributes["content"]
    assert policy.startswith("default-src 'none'")
    assert all(not node.attributes.get("src") for node in root.every())
    foot = root.the("footer").text
    assert f"{judged.rows:,} from later.parquet" in foot
    assert f"optensemble {version('optensemble')}" in foot
    assert f"({judged.sense})" in foot
    assert f"Fitted on {judged.ensemble.n_rows_:,} rows" in foot
    terms = [node.text for node in root.every("dt")]
    assert {"Promise", "Self-assessment", "Cell", "Swap regret"} <= set(terms)


def test_every_picture_says_what_it_shows() -> None:
    for name in CASES:
        pictures = list(root_of(name).every("svg", role="img"))
        assert len(pictures) >= 5
        assert all(len(picture.attributes["aria-label"]) > 10 for picture in pictures)


# Numbers


@given(st.floats(-1e12, 1e12), st.integers(0, 9))
def test_a_number_comes_back_within_half_of_its_last_digit(value: float, digits: int) -> None:
    shown = number(value, digits, "+")
    assert abs(read_number(shown) - value) <= 0.5 * 10.0**-digits + 1e-9 * abs(value)
    assert "-" not in shown
    assert shown.startswith("+") == (round(value, digits) > 0)


@given(st.floats(1e-8, 1e8))
def test_a_doubt_is_shown_with_two_figures(doubt: float) -> None:
    digits = decimals([0.0], [doubt, doubt, doubt])
    assert abs(round(doubt, digits) - doubt) <= 0.05 * doubt + 1e-12 or digits == 0
    assert digits == 0 or doubt < 10


@given(st.floats(0, 1))
def test_a_share_looks_like_nothing_or_all_only_if_it_is(share: float) -> None:
    assert (percent(share) == "0\N{NO-BREAK SPACE}%") == (share == 0)
    assert (percent(share) == "100\N{NO-BREAK SPACE}%") == (share == 1)


def test_an_interval_without_limits_is_a_dash() -> None:
    assert interval(-np.inf, np.inf, 2) == NOTHING
    assert interval(np.nan, np.nan, 2) == NOTHING
    assert interval(-np.inf, 1.0, 1) == "−∞ to 1.0"
    assert interval(0.5, np.inf, 1) == "0.5 to ∞"
    assert interval(-0.25, 0.5, 2, "+") == "−0.25 to +0.50"


def test_numbers_too_large_or_small_for_decimals_are_written_with_powers() -> None:
    assert number(-1.2346e20, 2) == "−1.235e+20"
    assert number(1.2346e-12, decimals([1.2346e-12])) == "1.235e−12"


def test_the_cases_are_of_all_kinds() -> None:
    assert electricity().judged.audit.block_length is not None
    assert journey().judged.audit.kept is False
    assert portfolio().judged.audit.kept is True
    assert paper().judged.audit.kept is None
    assert len(portfolio().judged.audit.by_choice) > 1
