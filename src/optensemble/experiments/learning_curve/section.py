"""The section of the page about learning curves: findings, figure and tables."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble.experiments.figure_html import figure_element
from optensemble.experiments.learning_curve import text
from optensemble.experiments.learning_curve.figure import curve_figure
from optensemble.experiments.learning_curve.points import METHODS, CurvePoint, LearningCurve, first_size
from optensemble.experiments.outcome import DECISION_ENSEMBLE, PAPER_ENSEMBLES
from optensemble.experiments.settings import CurveSettings, Settings
from optensemble.experiments.text import PAYOFF_DECIMALS
from optensemble.report.html import Cell, Column, Html, Sheet, element, sortable_table
from optensemble.report.numbers import BLANK, count_cell, estimate_cell, flag_cell, interval_cell, number_cell


def curve_section(curves: Sequence[LearningCurve], settings: Settings, how: CurveSettings) -> list[Html]:
    """Return the section without its heading."""
    return [
        element("p", text.ABOUT_CURVE),
        element("ul", *(element("li", sentence) for sentence in text.summary_lines(curves, how))),
        figure_element(curve_figure(curves), curves),
        sortable_table(_findings_sheet(curves)),
        element("p", text.ABOUT_BOUNDS),
        *(sortable_table(_point_sheet(curve)) for curve in curves),
        element("p", text.curve_facts(settings, how), class_="soft"),
    ]


def _findings_sheet(curves: Sequence[LearningCurve]) -> Sheet:
    columns = [
        Column("experiment", kind="text"),
        Column("method", kind="text"),
        Column("the promise is true", "from rows on"),
        Column("gap within the bound", "from rows on"),
        Column("regret within the bound", "from rows on"),
        *(Column(name, "with the most rows") for name in ("rows", "promised", "realised", "foresight")),
    ]
    rows = [_findings_row(curve, *method) for curve in curves for method in METHODS if curve.line(*method)]
    return Sheet(f"From how many rows on promises hold on fresh rows. {text.TRUE_PROMISE}.", columns, rows)


def _findings_row(curve: LearningCurve, policy: str, stage: str) -> list[Cell]:
    line = curve.line(policy, stage)
    sizes = [first_size(line, holds) for holds in (curve.is_true, _gap_holds, _regret_holds)]
    cells = [BLANK if size is None else count_cell(size) for size in sizes]
    end = line[-1]
    return [
        Cell(curve.name),
        Cell(text.method_name(policy, stage), METHODS.index((policy, stage))),
        *(cells if policy in PAPER_ENSEMBLES else [cells[0], BLANK, BLANK]),
        count_cell(end.rows),
        *(number_cell(value, PAYOFF_DECIMALS) for value in (end.promised, end.realised, curve.foresight)),
    ]


def _gap_holds(point: CurvePoint) -> bool:
    return point.within_gap_bound


def _regret_holds(point: CurvePoint) -> bool:
    return point.within_regret_bound


def _point_sheet(curve: LearningCurve) -> Sheet:
    columns = [
        Column("rows"),
        Column("method", kind="text"),
        Column("promised"),
        Column("promised interval", kind="text"),
        Column("realised ± s. e."),
        Column("promised − realised ± s. e."),
        Column("true", kind="text"),
        *(Column(name, "gap, paper") for name in ("bound", "within")),
        *(Column(name, "regret, paper") for name in ("regret", "bound", "within")),
        *(Column(name, "fit") for name in ("rounds", "worst violation", "seconds")),
    ]
    points = sorted((point for method in METHODS for point in curve.line(*method)), key=lambda point: point.rows)
    foresight = f"foresight realises {curve.foresight:.{PAYOFF_DECIMALS}f}"
    caption = f"Experiment {curve.name}: mean payoff per row on fresh rows; {foresight}"
    return Sheet(caption, columns, [_point_row(curve, point) for point in points])


def _point_row(curve: LearningCurve, point: CurvePoint) -> list[Cell]:
    return [
        count_cell(point.rows),
        Cell(text.method_name(point.policy, point.stage), METHODS.index((point.policy, point.stage))),
        number_cell(point.promised, PAYOFF_DECIMALS),
        interval_cell(point.low, point.high, PAYOFF_DECIMALS) if point.policy == DECISION_ENSEMBLE else BLANK,
        estimate_cell(point.realised, point.realised_error, PAYOFF_DECIMALS),
        estimate_cell(point.gap, point.gap_error, PAYOFF_DECIMALS, sign="+"),
        flag_cell(curve.is_true(point), no="no"),
        *(_bound_cells(point) if point.policy in PAPER_ENSEMBLES else [BLANK] * 7),
        number_cell(point.fit_seconds, 1),
    ]


def _bound_cells(point: CurvePoint) -> list[Cell]:
    return [
        number_cell(point.gap_bound, 1),
        flag_cell(point.within_gap_bound, no="no"),
        number_cell(point.regret, PAYOFF_DECIMALS),
        number_cell(point.regret_bound, 1),
        flag_cell(point.within_regret_bound, no="no"),
        count_cell(point.rounds),
        number_cell(point.worst_violation, 3),
    ]
