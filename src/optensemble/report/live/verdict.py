"""The verdict on an ensemble in service: whether its promise is kept, as far as the labels that have come can tell."""

from __future__ import annotations

from dataclasses import dataclass

from optensemble.evaluation.verdict import FEWEST_TO_JUDGE
from optensemble.monitoring.alarm import Alarm
from optensemble.monitoring.monitor import Monitor
from optensemble.report.live.data import LivePageData
from optensemble.report.phrases import as_sentence, count_of

BROKEN, DOUBT, UNSURE, KEPT, OPEN = "broken", "doubt", "unsure", "kept", "open"

_MARKS = {BROKEN: "✗", DOUBT: "≈", UNSURE: "?", KEPT: "✓", OPEN: "–"}


@dataclass(frozen=True)
class LiveVerdict:
    """A verdict as it is shown: its status, that colours go by, a headline and a sentence."""

    status: str
    headline: str
    sentence: str

    @property
    def mark(self) -> str:
        """The mark before it, as on other reports."""
        return _MARKS[self.status]


def live_verdict(data: LivePageData) -> LiveVerdict:
    """Return whether the promise is kept: an alarm says that it is not, and silence that it is, after enough rows."""
    monitor = data.series.monitor
    if not data.rows:
        wait = f"{count_of(data.open, 'row')} {'waits' if data.open == 1 else 'wait'} for labels"
        said = f"{wait}; what was promised is judged by them." if data.open else "No rows have been decided either."
        return LiveVerdict(OPEN, "No labels have arrived yet", said)
    if monitor is None:
        return LiveVerdict(OPEN, "The promise is not watched", "The fit left no record out of fold to judge it by.")
    if alarms := monitor.standing:
        return _alarmed(alarms[0], monitor, data)
    since = monitor.restarts[-1] if monitor.restarts else 0
    seen = count_of(monitor.rows - since, "row")
    if monitor.rows - since < FEWEST_TO_JUDGE:
        few = f"The monitor has seen {seen} of the present fit; that there is no alarm does not mean much yet."
        return LiveVerdict(UNSURE, "Too few labels to tell", few)
    fit = f" since a new fit took over at row {since:,}" if monitor.restarts else ""
    return LiveVerdict(KEPT, "The promise is kept", f"No alarm in {seen}{fit}; {monitor.doubt}.")


def _alarmed(alarm: Alarm, monitor: Monitor, data: LivePageData) -> LiveVerdict:
    """Return what an alarm says: that the promise is broken, or that it is off but within what it allows for."""
    within = alarm.kind == "drifted" and monitor.half_width is not None
    verb = "paid" if data.cost else "earned"
    seen = "" if monitor.rows == data.rows else "of those that the monitor has seen"
    sentence = as_sentence(alarm.sentence(monitor.sense, of=seen, doubt=monitor.doubt))
    headline = f"Alarm at row {alarm.row:,}: {alarm.direction} {verb} than promised"
    own = "The promise judged is that of the fit itself, without the correction."
    return LiveVerdict(DOUBT if within else BROKEN, headline, f"{sentence} {own}")


def live_cautions(data: LivePageData) -> list[str]:
    """Return what else whoever runs it should know: refits that are due, under way, or have failed."""
    refits, said = data.series.refits, list[str]()
    if data.running is not None:
        said.append(f"A refit on {count_of(data.running.rows, 'row')} is under way: {data.running.why}.")
    elif data.refit_due:
        said.append(f"A refit is due and has not been made: {data.refit_due}.")
    if len(refits) and refits["failed"].iloc[-1]:
        failed = str(refits["outcome"].iloc[-1]).removesuffix(".")
        said.append(f"The latest refit {failed}. The fit before it stays in force.")
    return said
