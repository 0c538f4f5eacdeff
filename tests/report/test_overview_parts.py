"""Parts of the top of a report: shares where there are none, marks of grades, pictures of decisions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble import feasible
from optensemble.evaluation.verdict import Grade, Verdict
from optensemble.exceptions import SolverError
from optensemble.report.blocks import Blocks
from optensemble.report.data import _foresight
from optensemble.report.drawing import inline_svg, style
from optensemble.report.figures import DotPlot
from optensemble.report.overview.figures import draw_decision, draw_path, draws_graph, short_names, shown_lines
from optensemble.report.overview.graph_layout import layered_places, named_places, place_nodes
from optensemble.report.overview.text import foresight_figure
from optensemble.report.overview.totals import PeriodTotals
from optensemble.report.overview.typical import TypicalDecision, typical_rows
from optensemble.report.overview.verdict import headline, mark_of, status_of
from optensemble.report.terms import ReportTerms
from tests.report.ensembles import simplex


def totals(realised: float, foresight: float | None, *, cost: bool = False) -> PeriodTotals:
    return PeriodTotals(10, 10, realised, realised - 1, realised + 1, realised, foresight, cost)


@pytest.mark.parametrize(
    ("realised", "foresight", "cost", "title", "number"),
    [
        (9.0, 12.0, False, "Share of foresight", "75 %"),
        (0.0, 12.0, False, "Share of foresight", "0 %"),
        (12.0, 12.0, False, "Share of foresight", "100 %"),
        (-3.0, 12.0, False, "Behind foresight", "15 €"),
        (-3.0, -1.0, False, "Behind foresight", "2 €"),
        (0.0, 0.0, False, "Behind foresight", "0 €"),
        (15.0, 12.0, True, "Above foresight", "25 %"),
        (12.0 - 1e-12, 12.0, True, "Above foresight", "0 %"),
        (15.0, 0.0, True, "Behind foresight", "15 €"),
        (-2.0, -6.0, True, "Behind foresight", "4 €"),
        (5.0, None, False, "Share of foresight", "–"),
    ],
)
def test_the_share_of_foresight_is_said_only_where_there_is_one(
    realised: float, foresight: float | None, cost: bool, title: str, number: str
) -> None:
    figure = foresight_figure(totals(realised, foresight, cost=cost), ReportTerms(currency="€"), 0)
    assert (figure.title, figure.number.replace("\N{NO-BREAK SPACE}", " ")) == (title, number)


def test_foresight_that_cannot_be_solved_is_not_known() -> None:
    def fail(C: Any) -> None:
        raise SolverError("no path was found in time.")

    unsolvable: Any = SimpleNamespace(argmax=fail)
    assert _foresight(unsolvable, np.ones((2, 2)), 1.0) is None


@pytest.mark.parametrize("grade", Grade)
def test_every_grade_has_a_mark_and_a_colour(grade: Grade) -> None:
    verdict = Verdict(grade, "some outcome", "")
    expected = {
        Grade.KEPT: ("✓", "kept"),
        Grade.BIASED: ("≈", "doubt"),
        Grade.WIDE: ("≈", "doubt"),
        Grade.FEW: ("?", "unsure"),
        Grade.LESS: ("✗", "broken"),
        Grade.MORE: ("✗", "broken"),
    }
    assert (mark_of(verdict), status_of(verdict)) == expected.get(grade, ("–", "open"))
    assert headline(verdict).lower().endswith("some outcome")


def test_typical_rows_are_the_first_of_equals_and_none_twice() -> None:
    assert typical_rows(np.zeros(5)).tolist() == [0, 1, 2]
    assert typical_rows(np.array([7.0])).tolist() == [0]
    assert typical_rows(np.array([1.0, 2.0])).tolist() == [0, 1]
    assert typical_rows(np.arange(5.0), sign=-1.0).tolist() == [3, 2, 1]


# Pictures


def decision(action: list[float], omega: feasible.FeasibleSet) -> TypicalDecision:
    return TypicalDecision(0, "good", "a", np.array(action), 1.0, 0.0, 2.0, 1.0, 1.0, "m", omega)


def drawn(of: TypicalDecision, names: list[str]) -> str:
    with style():
        return inline_svg(draw_decision(of, names), "picture", "a decision")


def test_few_coordinates_have_a_bar_with_its_number_each() -> None:
    text = drawn(decision([0.5, -0.25, 0.0], feasible.Box(-1, 1, dimension=3)), ["y_a", "y_b", "y_c"])
    for shown in (">a<", ">b<", ">0.50<", ">−0.25<", ">0.00<"):
        assert shown in text
    shares = drawn(decision([1.0, 3.0], feasible.Simplex(2, total=4.0)), ["a", "b"])
    assert "25\N{NO-BREAK SPACE}%" in shares
    assert "75\N{NO-BREAK SPACE}%" in shares


def test_of_very_many_coordinates_the_largest_are_shown() -> None:
    action = np.zeros(200)
    action[[5, 100, 150]] = 1.0, -2.0, 3.0
    assert shown_lines(decision(action.tolist(), feasible.Box(-3, 3, dimension=200))).tolist() == [5, 100, 150]
    assert shown_lines(decision([0.0, 1.0], feasible.Box(0, 1, dimension=2))).tolist() == [0, 1]
    text = drawn(decision(action.tolist(), feasible.Box(-3, 3, dimension=200)), [f"y_{j}" for j in range(200)])
    assert ">150<" in text
    assert ">151<" not in text


def test_some_coordinates_stand_side_by_side() -> None:
    text = drawn(decision([0.5, -0.5] * 12, feasible.Box(-1, 1, dimension=24)), [f"price_{j:02d}" for j in range(24)])
    assert ">00<" in text
    assert "price" not in text


def test_short_names_stay_different_and_are_never_empty() -> None:
    assert short_names(["y_1", "y_"]) == ["y_1", "y_"]
    assert short_names(["a.b.c", "a.b.d"]) == ["c", "d"]
    assert short_names(["same", "same"]) == ["same", "same"]


def test_a_path_is_drawn_on_its_graph_and_large_graphs_as_edges() -> None:
    edges = [("home", "hill"), ("home", "lake"), ("hill", "work"), ("lake", "work")]
    roads = feasible.ShortestPath(edges, "home", "work", closed=[0, 0, 1, 0])
    with style():
        figure = draw_path(roads, np.array([0.0, 1.0, 0.0, 1.0]))
    lines = [line for line in figure.axes[0].lines if np.size(line.get_xdata()) == 2 and line.get_linestyle() != "None"]
    assert [line.get_linewidth() > 3 for line in lines][:4] == [False, True, False, True]
    assert [line.get_linestyle() for line in lines][:4] == ["-", "-", ":", "-"]
    named = {text.get_text(): text.get_fontweight() for text in figure.axes[0].texts}
    assert named == {"home": "bold", "lake": "normal", "work": "bold"}
    chain = feasible.ShortestPath([(j, j + 1) for j in range(200)], 0, 200)
    long = decision([1.0] * 200, chain)
    assert not draws_graph(long)
    assert ">3<" in drawn(long, [f"road {j}" for j in range(200)])


def test_nodes_are_placed_by_name_or_in_layers_from_the_source() -> None:
    places = named_places([(0, 0), (0, 1), (1, 1)])
    assert places is not None
    assert places.tolist() == [[0, 0], [1, 0], [1, -1]]
    assert named_places(["A1", "A1x"]) is None
    assert named_places(["A1", "A01"]) is None  # the same place
    roads = feasible.ShortestPath([("b", "c"), ("a", "b"), ("a", "d"), ("d", "c")], "a", "c")
    found = dict(zip(roads.nodes, place_nodes(roads).tolist(), strict=True))
    assert [found[node][0] for node in "abdc"] == [0, 1, 1, 2]
    assert len(set(map(tuple, found.values()))) == 4
    apart = layered_places(3, np.array([[0, 1]]))
    assert apart[:, 0].tolist() == [0, 1, 2]  # out of reach comes last


def test_a_number_without_an_interval_is_hollow() -> None:
    with style():
        lone = np.array([np.nan, 1.0])
        plot = DotPlot(["one row", "many"], np.array([1.0, 2.0]), lone, lone + 2, "t", np.array([False, False]))
        axes = plot.figure().axes[0]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [dot.get_fillstyle() for dot in dots] == ["none", "full"]


def test_totals_without_weights_are_of_the_rows() -> None:
    assert replace(totals(3.0, 4.0), foresight=None).behind is None
    assert totals(3.0, 4.0).behind == 1.0
    assert totals(4.0, 3.0, cost=True).behind == 1.0


def test_a_block_is_outside_its_interval_only_beyond_rounding() -> None:
    place, ones = pd.Index([1, 2, 3]), np.ones(3)
    realised = np.array([1.0 - 1e-13, 1.0 + 1e-13, 0.9])
    blocks = Blocks(False, place, place, np.array([1, 1, 1]), ones, ones, ones, realised, 0.0 * ones)
    assert blocks.outside.tolist() == [2]


def test_rows_that_count_for_nothing_are_in_their_block_and_a_block_of_them_has_no_mean() -> None:
    data = simplex(3, 2, 40).data
    weights = np.where(np.arange(40) < 10, 0.0, np.arange(40) % 2)
    blocks = replace(data, weights=weights).blocks
    assert blocks.rows.tolist() == [5] * 6
    later = np.arange(10, 40).reshape(6, 5)
    assert np.allclose(blocks.realised, [np.average(data.realised[part], weights=weights[part]) for part in later])
