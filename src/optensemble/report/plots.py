"""Plots for users: the figures of the page, drawn into axes of matplotlib.

Given none, they make a figure by ``matplotlib.pyplot``, which a notebook shows. Nothing else of pyplot is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from optensemble._core.validation import require_choice
from optensemble.ensembles.base import DECISION, Policy
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError
from optensemble.monitoring.monitor import Monitor
from optensemble.report.drawing import INK, adopt, current_ink, readable_ink, style
from optensemble.report.figures import (
    CURVE_HEIGHT,
    PROMISED_COLOUR,
    DotPlot,
    draw_curves,
    draw_evidence,
    gap_plot,
    leaderboard_plot,
    lift_plot,
    promise_plot,
    validation_title,
)
from optensemble.report.phrases import capitalise

_WIDTH = 6.4  # inches: as wide as matplotlib's own figures
_TITLE_WIDTH = 62  # characters: a line of a title above axes of that width
_TITLE_HEIGHT = 0.6  # inches

AUDIT_PLOTS = ("promise", "gains", "gaps")
"""What a plot of an audit can show."""


def plot_audit(audit: Audit, ax: Axes | None, what: str) -> Axes:
    """Draw promised beside realised payoff, the gains over baselines, or the gaps by followed candidate."""
    require_choice(what, "what", AUDIT_PLOTS)
    if what == "gains" and audit.lift.empty:
        raise InputError("this audit has no baseline to compare with, and so no gains. Plot what='promise' instead.")
    cost = audit.sense == "min"
    if what == "promise":
        return _dot_plot(promise_plot(audit.totals, capitalise(audit.verdict)), ax, _mean_of(audit.sense))
    if what == "gains":
        return _dot_plot(lift_plot(audit, cost=cost), ax, "saved, mean per row" if cost else "gain, mean per row")
    return _dot_plot(gap_plot(audit), ax, _mean_of(audit.sense))


def plot_promise(promise: Promise, ax: Axes | None) -> Axes:
    """Draw the promised mean with its interval, and the limit to rely on."""
    mean, low, high = (np.array([value]) for value in (promise.mean, promise.low, promise.high))
    title = f"Promised: {replace(promise, note='')}"
    dots = DotPlot(["promised"], mean, low, high, title, np.array([False]), colours=[PROMISED_COLOUR])
    with _axes(ax, dots.height) as (axes, finish):
        dots.draw(axes)
        if promise.time_ordered and isfinite(promise.rely_on):
            axes.plot(promise.rely_on, 0, "|", color=current_ink(), markersize=16, markeredgewidth=2)
            axes.annotate("rely on", (promise.rely_on, 0), (0, 10), textcoords="offset points", ha="center")
        axes.set_xlabel("mean per row")
        finish(title)
    return axes


def plot_leaderboard(ensemble: Policy, ax: Axes | None) -> Axes:
    """Draw each candidate's payoff out of fold; of the paper's ensembles, the curves of cross-validation."""
    fitted: Any = ensemble
    objective = "payoff" if fitted.sense == "max" else "cost"
    if fitted.kind == DECISION:
        return _dot_plot(leaderboard_plot(fitted.leaderboard_, objective), ax, _mean_of(fitted.sense))
    if not fitted.terms_.validated:
        raise InputError(
            f"this {type(ensemble).__name__} was fitted with validation=None: nothing was compared out of fold, and so "
            "there is nothing to plot. Fit it with validation='cv', or plot audit(X, Y)."
        )
    with _axes(ax, CURVE_HEIGHT) as (axes, finish):
        draw_curves(axes, fitted.validation_)
        axes.set_ylabel(_mean_of(fitted.sense))
        axes.legend()
        finish(validation_title(objective))
    return axes


def plot_monitor(monitor: Monitor, ax: Axes | None) -> Axes:
    """Draw the evidence over time, with the threshold, alarms, onsets and restarts."""
    with _axes(ax, CURVE_HEIGHT) as (axes, finish):
        draw_evidence(axes, monitor)
        axes.legend(loc="upper left", ncols=2)
        finish(capitalise(str(monitor)))
    return axes


def _mean_of(sense: str) -> str:
    return f"{'payoff' if sense == 'max' else 'cost'}, mean per row"


def _dot_plot(dots: DotPlot, ax: Axes | None, xlabel: str) -> Axes:
    with _axes(ax, dots.height) as (axes, finish):
        dots.draw(axes)
        axes.set_xlabel(xlabel)
        finish(dots.title)
    return axes


@contextmanager
def _axes(ax: Any, height: float) -> Iterator[tuple[Axes, Callable[[str], None]]]:
    """Yield axes in the style, and a function that sets their title: those given, or those of a new figure."""
    if ax is not None and not isinstance(ax, Axes):
        raise InputError(
            f"ax must be axes of matplotlib, or None for a new figure; got {type(ax).__name__}. Give one of the axes "
            "that plt.subplots() returns."
        )
    # a title of the user's own replaces ours only in the same place
    place = mpl.rcParams["axes.titlelocation"]
    with style(INK if ax is None else readable_ink(ax)):
        axes = _new_axes(height) if ax is None else ax
        adopt(axes)

        def finish(title: str) -> None:
            axes.set_title(fill(title, _TITLE_WIDTH), loc=place)

        yield axes, finish


def _new_axes(height: float) -> Axes:
    from matplotlib import pyplot

    # white, whatever a notebook or a style sheet has: the ink is dark
    _, axes = pyplot.subplots(figsize=(_WIDTH, height + _TITLE_HEIGHT), layout="constrained", facecolor="white")
    return axes
