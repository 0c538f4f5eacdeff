"""Pictures of a live page; one whose data have not changed is not drawn again."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from matplotlib.axes import Axes

from optensemble._core.number_format import format_percent, format_significant
from optensemble.report.drawing import inline_svg, new_figure, style
from optensemble.report.html import Html, element
from optensemble.report.live.legend import legend_element
from optensemble.report.live.panels import (
    EVIDENCE_TITLE,
    ROWS,
    WEIGHTS_TITLE,
    Legend,
    LiveSeries,
    draw_monitor,
    draw_payoffs,
    draw_promises,
    draw_refits,
    draw_weights,
)
from optensemble.report.phrases import capitalise, join_words
from optensemble.report.terms import ReportTerms

_SIZE = 4.0, 2.2  # inches: wider figures have type too small to read on a phone
_MOST_KEPT = 32  # pictures
_DRAWING = threading.Lock()  # the style is that of the whole process
_PATH, _FINE = re.compile(r'\sd="[^"]*"'), re.compile(r"(\.\d\d)\d+")  # a hundredth of a point is not seen
_drawn: OrderedDict[tuple[str, ...], Html] = OrderedDict()


class _Panel(NamedTuple):
    """A picture: its title, how it is drawn, what it shows for screen readers, and what its lines and marks mean."""

    title: str
    draw: Callable[[Axes, LiveSeries], Legend]
    label: str
    caption: str
    over_rows: bool = True


def payoff_picture(series: LiveSeries, terms: ReportTerms) -> Html:
    """Return the picture of mean payoffs so far."""
    ends = {"paid" if series.cost else "earned": "earned", "with foresight": "foresight"}
    ends |= {name: name for name in series.policies}
    last = ", ".join(f"{label} {_mean(series, column)}" for label, column in ends.items())
    title = terms.titled(series.payoffs_title)
    about = "The mean over all rows so far, of each policy had it been followed alone."
    return _picture("payoffs", series, _Panel(title, draw_payoffs, f"{title}: {last}", about))


def promise_picture(series: LiveSeries, terms: ReportTerms) -> Html:
    """Return the picture of what was promised and realised lately."""
    title = terms.titled(series.promises_title)
    about = "The band is the correction, which follows the errors of past promises and is part of the promise."
    label = f"{title}; over all rows promised {_mean(series, 'promised')}, realised {_mean(series, 'earned')}"
    return _picture("promises", series, _Panel(title, draw_promises, label, about))


def weight_picture(series: LiveSeries) -> Html:
    """Return the picture of weights over time."""
    now = [f"{name} {format_percent(_last(series, name))}" for name in series.policies]
    label = f"{WEIGHTS_TITLE}, now {join_words(now)}"
    about = "Weights follow what each policy has earned, or saved of a cost."
    return _picture("weights", series, _Panel("Over time", draw_weights, label, about))


def evidence_picture(series: LiveSeries) -> Html:
    """Return the picture of the evidence against the promise; there is a monitor that has seen rows."""
    label = f"{EVIDENCE_TITLE}: {series.monitor}"
    about = "On a logarithmic scale. Beyond the threshold an alarm is raised; a new fit starts afresh."
    return _picture("evidence", series, _Panel("Over time", draw_monitor, capitalise(label), about, over_rows=False))


def _picture(name: str, series: LiveSeries, panel: _Panel) -> Html:
    """Return a picture, drawn once for the same data."""
    key = name, panel.title, panel.label, _digest(series, panel)
    with _DRAWING:
        if key not in _drawn:
            _drawn[key] = _draw(name, series, panel)
            while len(_drawn) > _MOST_KEPT:
                _drawn.popitem(last=False)
        _drawn.move_to_end(key)
        return _drawn[key]


def _draw(name: str, series: LiveSeries, panel: _Panel) -> Html:
    """Return the picture with its title, legend and caption, which take the page's font and width."""
    with style():
        figure = new_figure(*_SIZE)
        axes = figure.subplots()
        legend = panel.draw(axes, series)
        if panel.over_rows:
            draw_refits(axes, series)
            axes.set_xlabel(ROWS)
        drawn = inline_svg(figure, name, panel.label)
        named = legend_element(axes, legend)
    coarse = Html(_PATH.sub(lambda path: _FINE.sub(r"\1", path.group()), drawn))
    caption = element("figcaption", panel.caption)
    return element("figure", element("h3", panel.title), coarse, named, caption, id=f"figure-{name}")


def _digest(series: LiveSeries, panel: _Panel) -> str:
    """Return a hash of all that is drawn."""
    found = blake2b(repr((series.policies, series.rows, series.cost)).encode(), digest_size=16)
    if panel.over_rows:
        found.update(series.history.to_numpy().tobytes())
        found.update(repr(series.refits[["labels", "failed"]].to_numpy().tolist()).encode())
    elif series.monitor is not None:
        monitor = series.monitor
        found.update(monitor.evidence.to_numpy().tobytes())
        found.update(repr((monitor.restarts, monitor.alarms.to_numpy().tolist(), monitor.threshold)).encode())
    return found.hexdigest()


def _mean(series: LiveSeries, column: str) -> str:
    counted = float(series.history["counted"].sum())
    return format_significant(float(series.history[column].sum()) / counted, 3) if counted else "unknown"


def _last(series: LiveSeries, policy: str) -> float:
    return float(series.history[f"weight_{policy}"].iloc[-1])
