"""Monitors of ensembles: their scale comes from an out-of-fold record."""

from __future__ import annotations

from optensemble.evaluation.payoff_record import Record
from optensemble.monitoring.monitor import LARGEST_VALUE, Monitor, Seen


def monitor_of(record: Record, sense: str, *, horizon: int = 5000, false_alarms: float = 0.05) -> Monitor:
    """Return a monitor of promises that rest on a record."""
    sigma, half_width, long_run = _scale(record)
    return Monitor(
        sigma, half_width=half_width, long_run=long_run, horizon=horizon, false_alarms=false_alarms, sense=sense
    )


def restarted_by(monitor: Monitor, record: Record) -> Seen:
    """Return what a monitor knows once it is restarted after a refit, with the scale of its record."""
    return monitor._restarted(*_scale(record))


def tell(monitor: Monitor) -> str:
    """Return why a refit is due, if an alarm stands: the strongest one, with rows numbered since the fit."""
    if not monitor.standing:
        return ""
    told = monitor.standing[0].sentence(monitor.sense, of="of those that came after the fit", doubt=monitor.doubt)
    return f"rows have {told}"


def _scale(record: Record) -> tuple[float, float, float]:
    """Return the standard deviation, the half-width of the promise and the long-run ratio of a record."""
    scale = record.deviation, record.own_half_width, record.long_run
    sigma, half_width, long_run = (min(each, LARGEST_VALUE) for each in scale)  # few clusters leave the width open
    return sigma, half_width, long_run
