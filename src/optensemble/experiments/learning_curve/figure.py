"""The figure of the learning curves: promised and realised payoff on fresh rows against the number of rows."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from optensemble.experiments.figures import COLOUR_OF, REFERENCE_LINES, ExperimentFigure, LineStyle
from optensemble.experiments.learning_curve.points import JOINT, ROUND_ROBIN, STACKING, LearningCurve
from optensemble.experiments.learning_curve.text import TRUE_PROMISE, fitted_methods, method_name
from optensemble.experiments.outcome import DECISION_ENSEMBLE, RIDGE_STACKING
from optensemble.report.drawing import BAND_OPACITY, COLOURS

NAME = "learning_curve"

_COLOURS = {**COLOUR_OF, RIDGE_STACKING: COLOURS[2]}
_WIDTHS = {JOINT: 1.6, ROUND_ROBIN: 0.9, STACKING: 1.6}
_WIDEST = 3.0  # to be seen below a line that coincides with it
_MARKERS = {JOINT: "o", ROUND_ROBIN: "x", STACKING: "o"}
_DASHES = {"promised": "--", "realised": "-"}
_THOUSAND, _MILLION = 1_000, 1_000_000


def curve_figure(curves: Sequence[LearningCurve]) -> ExperimentFigure[LearningCurve]:
    """Return the figure of the learning curves of a run."""
    lines = {
        (policy, stage, what): _line_style(policy, stage, what)
        for policy, stage in fitted_methods(curves)
        for what in _DASHES
    }

    def draw(axes: Axes, curve: LearningCurve) -> None:
        axes.axhline(curve.foresight, **REFERENCE_LINES[0].options())
        _draw_interval(axes, curve)
        for (policy, stage, what), line in reversed(lines.items()):  # DecisionEnsemble first, below what is alike
            points = curve.line(policy, stage)
            payoffs = [getattr(point, what) for point in points]
            axes.plot([point.rows for point in points], payoffs, **line.options())
        _label_sizes(axes, curve.sizes)

    return ExperimentFigure(
        NAME,
        "Promised and realised payoff on fresh rows, by the number of debiasing rows",
        "Dashed lines are promised, solid lines realised payoffs. Where they meet, the promise is true; where a solid "
        f"line is lower than another, that policy earns less. {TRUE_PROMISE}.",
        draw,
        (REFERENCE_LINES[0], *lines.values()),
        legend_columns=3,
    )


def _line_style(policy: str, stage: str, what: str) -> LineStyle:
    band = policy == DECISION_ENSEMBLE and what == "promised"
    label = f"{method_name(policy, stage)}, {what}{' (95 %)' if band else ''}"
    width = _WIDEST if policy == DECISION_ENSEMBLE and what == "realised" else _WIDTHS[stage]
    return LineStyle(label, _COLOURS[policy], _DASHES[what], width, band, _MARKERS[stage])


def _draw_interval(axes: Axes, curve: LearningCurve) -> None:
    points = curve.line(DECISION_ENSEMBLE, STACKING)
    rows, low, high = ([getattr(point, name) for point in points] for name in ("rows", "low", "high"))
    axes.fill_between(rows, low, high, color=COLOUR_OF[DECISION_ENSEMBLE], alpha=BAND_OPACITY, linewidth=0)


def _label_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rows, _: short_count(round(rows))))
    axes.set_xlabel("debiasing rows")
    axes.set_ylabel("payoff")


def short_count(number: int) -> str:
    """Return a number of rows for an axis.

    >>> short_count(400), short_count(2500), short_count(1_000_000)
    ('400', '2.5k', '1M')
    """
    if number >= _MILLION:
        return f"{number / _MILLION:g}M"
    return f"{number / _THOUSAND:g}k" if number >= _THOUSAND else str(number)
