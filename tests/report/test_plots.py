"""Plots from Python: the page's figures in axes of the user's, or of a new figure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, NotFittedError
from optensemble.report.drawing import INK, PAPER
from optensemble.report.plots import AUDIT_PLOTS
from tests.report.ensembles import NASTY, electricity, journey, paper, portfolio, simplex, white_box

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    mpl.use("Agg")
    yield
    pyplot.close("all")


def lines_of(axes: Axes) -> list[str]:
    """The names beside the axes, the first on top."""
    labels = sorted(zip(axes.get_yticks(), axes.get_yticklabels(), strict=True), key=lambda pair: pair[0])
    return [label.get_text() for _, label in labels]


def dots(axes: Axes) -> dict[float, float]:
    """The estimates by their line."""
    found = [line for line in axes.lines if line.get_marker() == "o"]
    return {float(np.ravel(line.get_ydata())[0]): float(np.ravel(line.get_xdata())[0]) for line in found}


def intervals(axes: Axes) -> dict[float, tuple[float, float]]:
    """The intervals by the line of their estimate."""
    found = [line for line in axes.lines if line.get_linewidth() == 3 and len(np.ravel(line.get_xdata())) == 2]
    return {float(np.ravel(line.get_ydata())[0]): tuple(np.ravel(line.get_xdata()).tolist()) for line in found}


def figure_of(axes: Axes) -> Figure:
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure


def test_an_audit_draws_promised_above_realised_with_its_verdict() -> None:
    audit = portfolio().data.audit
    axes, row = audit.plot(), audit.totals
    assert lines_of(axes) == ["promised", "realised"]
    assert dots(axes) == {0: row.promise, 1: row.realised}
    assert intervals(axes)[0] == (row.low, row.high)
    assert intervals(axes)[1] == pytest.approx((row.realised - row.half_width, row.realised + row.half_width))
    assert axes.get_title().replace("\n", " ").lower() == audit.verdict.lower()


def test_an_audit_draws_its_gains_and_gaps() -> None:
    audit = portfolio().data.audit
    gains, gaps = audit.plot(what="gains"), audit.plot(what="gaps")
    lift = audit.lift.sort_values("gain", kind="stable")
    assert lines_of(gains) == lift["rival"].tolist()
    assert list(dots(gains).values()) == lift["gain"].tolist()
    assert lines_of(gaps) == audit.by_choice["chosen"].tolist()
    assert list(dots(gaps).values()) == audit.by_choice["gap"].tolist()
    with pytest.raises(InputError, match=r"what must be one of .*; got 'gain'"):
        audit.plot(what="gain")


@pytest.mark.parametrize("case", [portfolio, journey])
def test_a_leaderboard_has_a_line_for_each_candidate(case: Any) -> None:
    ensemble: Any = case().data.ensemble
    axes = ensemble.plot_leaderboard()
    board = ensemble.leaderboard_.dropna(subset="realised")
    assert lines_of(axes) == board["candidate"].tolist()
    assert list(dots(axes).values()) == board["realised"].tolist()
    assert list(intervals(axes).values()) == list(zip(board["low"], board["high"], strict=True))
    bold = [label.get_text() for label in axes.get_yticklabels() if label.get_fontweight() == "bold"]
    assert bold == board.loc[board["chosen"], "candidate"].tolist()
    assert ("cost" if ensemble.sense == "min" else "payoff") in axes.get_xlabel()


def test_a_white_box_draws_its_cross_validation_and_without_one_says_what_to_do() -> None:
    ensemble: Any = white_box().data.ensemble
    axes = ensemble.plot_leaderboard()
    tried = ensemble.validation_
    drawn = sorted(value for line in axes.lines[:-1] for value in np.ravel(line.get_ydata()).tolist())
    shrinkages = tried.loc[tried["rounds"] > 0, "shrinkage"].nunique()
    start = tried.loc[tried["rounds"] == 0, "realised"].tolist() * (shrinkages - 1)
    assert drawn == pytest.approx(sorted([*tried["realised"], *start]))
    unvalidated: Any = paper().data.ensemble
    with pytest.raises(InputError, match=r"validation=None.*Fit it with validation='cv'"):
        unvalidated.plot_leaderboard()
    with pytest.raises(NotFittedError):
        oe.DecisionEnsemble(models=[("a", np.asarray)], feasible=feasible.Simplex(2)).plot_leaderboard()


def test_a_promise_is_drawn_with_its_interval_and_the_limit_to_rely_on() -> None:
    case = electricity()
    ensemble: Any = case.data.ensemble
    promise = ensemble.promise(case.X)
    axes = promise.plot()
    assert dots(axes) == {0: promise.mean}
    assert intervals(axes) == {0: (promise.low, promise.high)}
    assert [text.get_text() for text in axes.texts] == ["rely on"]
    assert "200 rows" in axes.get_title().replace("\n", " ")
    assert not oe.Promise(2.4, 2.2, 2.6, rows=5, rely_on=2.2).plot().texts
    unlimited = oe.Promise(2.4, -np.inf, np.inf, rows=5, rely_on=-np.inf, note="nothing is known").plot()
    assert not intervals(unlimited)
    figure_of(unlimited).canvas.draw()


def test_axes_in_axes_out_and_nothing_else_changes() -> None:
    before, (figure, panels) = dict(mpl.rcParams), pyplot.subplots(2, 2)
    audit, ensemble = portfolio().data.audit, portfolio().data.ensemble
    *some, last = panels.ravel()
    for axes, what in zip(some, AUDIT_PLOTS, strict=True):
        assert audit.plot(axes, what=what) is axes
    assert ensemble.plot_leaderboard(last) is last
    figure.canvas.draw()
    assert pyplot.get_fignums() == [figure.number]
    assert pyplot.gca() is panels[1, 1]
    assert dict(mpl.rcParams) == before
    alone = audit.plot()
    assert len(pyplot.get_fignums()) == 2
    assert pyplot.gca() is alone
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("given", [np.array([1]), Figure(), "ax"])
def test_what_are_no_axes_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=f"got {type(given).__name__}. Give one of the axes"):
        portfolio().data.audit.plot(given)


def test_a_title_of_the_user_s_own_replaces_ours() -> None:
    axes = portfolio().data.audit.plot()
    axes.set_title("last week")
    assert [axes.get_title(loc) for loc in ("left", "center", "right")] == ["", "last week", ""]


def test_text_is_readable_on_a_dark_figure_and_on_our_own() -> None:
    with mpl.rc_context(), pyplot.style.context("dark_background"):
        own = portfolio().data.audit.plot()
        theirs = portfolio().data.audit.plot(pyplot.subplots()[1])
        for axes, ink, ground in ((own, INK, "white"), (theirs, PAPER, "black")):
            figure_of(axes).canvas.draw()
            assert figure_of(axes).get_facecolor() == to_rgba(ground)
            texts = [axes.title, axes.xaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()]
            assert {to_hex(text.get_color()) for text in texts} == {ink}


def test_names_are_no_formulas() -> None:
    data = simplex(3, 2, 60, n=200, names=[NASTY, "$x_"]).data
    ensemble: Any = data.ensemble
    axes = ensemble.plot_leaderboard()
    figure_of(axes).canvas.draw()
    assert "$x_" in lines_of(axes)


def test_importing_the_package_loads_no_matplotlib_and_a_given_axes_no_pyplot() -> None:
    code = (
        "import sys, optensemble as oe\n"
        "promise = oe.Promise(2.4, 2.2, 2.6, rows=5, rely_on=2.2)\n"
        "assert not [name for name in sys.modules if name.startswith('matplotlib')]\n"
        "from matplotlib.figure import Figure\n"
        "promise.plot(Figure().subplots())\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
