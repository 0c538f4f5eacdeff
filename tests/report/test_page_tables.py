"""The report's cells, swaps, guarantees and decisions, recomputed from rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from optensemble._core.number_format import NO_NUMBER
from optensemble.report import text
from optensemble.report.page import make_report_page
from tests.report.ensembles import CASES, portfolio, simplex
from tests.report.pages import (
    EACH,
    _headings,
    column,
    numbers,
    read_number,
    root_of,
    rounds_to,
    same,
    tables_of,
    the_table,
)
from tests.report.reading import read

pytestmark = pytest.mark.slow

# Cells, swaps, guarantees


@pytest.mark.parametrize("name", ["electricity", "portfolio", "journey"])
def test_the_bias_of_own_level_sets_is_recomputed_from_the_rows(name: str) -> None:
    data, (table, *_) = CASES[name]().data, tables_of(root_of(name), "cell: rows where", "coordinate")
    residual = data.labels - data.answer.predictions
    omega, tried = data.ensemble.feasible, 0
    for row in table.rows():
        found = re.fullmatch(r"own action on (.+) is (\S+) to (below )?(\S+)", row[0].text)
        if found is None:
            continue
        j, low, high = data.coordinates.index(found[1]), read_number(found[2]), read_number(found[4])
        width = (omega.upper[j] - omega.lower[j]) / 10
        level = np.minimum(np.floor((data.answer.actions[:, j] - omega.lower[j]) / width + 1e-9), 9)
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
    data, (table, *_) = CASES[name]().data, tables_of(root_of(name), "cell: rows where", "coordinate")
    worst = data.audit.cells.head(15)
    assert same(numbers(table, "bias"), worst["bias"])
    assert [row[1].text for row in table.rows()] == [data.coordinates[j] for j in worst["coordinate"]]
    assert [row[-1].text == "yes" for row in table.rows()] == worst["significant"].tolist()
    said = next(node.text for node in root_of(name).every("strong") if "pairs of cell" in node.text)
    assert said.startswith(f"{data.audit.tested:,} pairs of cell and coordinate were tested")
    assert ("no bias is significant" in said) == (data.audit.biased == 0)
    if data.audit.biased:
        assert f": {data.audit.biased:,} " in said
    assert (f"{data.audit.thin:,} cell" in said) == (data.audit.thin > 0)


@EACH
def test_swaps_are_what_another_would_have_gained_and_coloured_by_that(name: str) -> None:
    data = CASES[name]().data
    table = the_table(root_of(name), "followed", "rows", data.ensemble.names_[0])
    matrix = data.audit.swap_matrix
    counts = np.bincount(data.answer.chosen, minlength=len(matrix))
    names = _headings(table)[2:]
    assert names == matrix.columns.tolist()
    assert column(table, "followed") == matrix.index[counts > 0].tolist()
    sure = data.audit.swap.set_index(["chosen", "instead"])
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
    said = next(node.text for node in root_of(name).every("strong") if "the best swap would have" in node.text)
    assert rounds_to(re.findall(r"\d[\d.,]*", said)[0], regret)


@EACH
def test_guarantees_are_those_of_the_ensemble(name: str) -> None:
    frame, table = CASES[name]().data.ensemble.guarantees_, the_table(root_of(name), "lemma", "quantity")
    assert column(table, "quantity") == frame["quantity"].tolist()
    assert same(numbers(table, "observed"), frame["observed"])
    assert same(numbers(table, "bound"), frame["bound"].replace(np.inf, np.nan))
    place = _headings(table).index("holds")
    expected = np.where(np.isinf(frame["bound"]), NO_NUMBER, np.where(frame["holds"], "yes", "no"))
    assert [row[place].text for row in table.rows()] == expected.tolist()  # without a bound there is nothing to hold


# Decisions


@EACH
def test_shares_at_the_bounds_are_counted_from_the_actions(name: str) -> None:
    data, table = CASES[name]().data, the_table(root_of(name), "coordinate", "mean")
    actions, omega = data.answer.actions, data.ensemble.feasible
    assert [row[0].text for row in table.rows()] == data.coordinates
    assert same(numbers(table, "mean"), actions.mean(axis=0))
    low, high = (np.isclose(actions, bound, atol=1e-6).mean(axis=0) for bound in (omega.lower, omega.upper))
    assert same(numbers(table, "at lower bound"), low)
    assert same(numbers(table, "at upper bound"), high)
    assert np.allclose(numbers(table, "in between"), 1 - low - high)
    assert same(numbers(table, "mean predicted"), data.answer.predictions.mean(axis=0))
    assert same(numbers(table, "mean realised"), data.labels.mean(axis=0))


def test_the_picture_of_levels_agrees_with_a_histogram() -> None:
    data = portfolio().data
    inside = data.profile.shares[:, 1:-1]
    for j in range(4):
        free = data.answer.actions[:, j]
        free = free[(free > 1e-6) & (free < 1 - 1e-6)]
        expected = np.histogram(free, bins=np.linspace(0, 1, 11))[0] / data.rows
        assert inside[j] == pytest.approx(expected, abs=2 / data.rows)  # at an edge either side is right
    assert data.profile.shares.sum(axis=1) == pytest.approx(np.ones(4))


def test_of_many_coordinates_those_used_most_are_shown() -> None:
    data = simplex(60, 3, 80).data
    table = the_table(read(make_report_page(data)), "coordinate", "mean")
    used = data.answer.actions.mean(axis=0)
    assert len(table.rows()) == 30
    least_shown = min(used[data.coordinates.index(row[0].text)] for row in table.rows())
    assert (used > least_shown).sum() <= 30
    assert "Of 60 coordinates, the 30 used most are shown." in text.profile_summary(data)
