"""Metrics of a LiveEnsemble and of its log."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from math import log10
from typing import Any

import optensemble
from optensemble.ensembles.live import LiveEnsemble
from optensemble.serving.findings import evidence, refit_due, standing
from optensemble.serving.metrics import Labels, Metric, counter, gauge, text_of

_COUNT_EVERY = 60.0  # seconds: to count the entries of a large log takes a while

_STANDING = [(kind, direction) for kind in ("drifted", "broken") for direction in ("less", "more")]


class LiveGauges:
    """Metrics of a LiveEnsemble."""

    def __init__(self, live: LiveEnsemble) -> None:
        self._live = live
        self._counted_at = 0.0
        self._counts: Any = None

    def text(self, decided_at: float, observed_at: float) -> str:
        """Return the metrics, as of now; moments are 0 if they are not known."""
        moments = [
            ("last_decision_timestamp_seconds", "When rows were last decided since the server started.", decided_at),
            ("last_label_timestamp_seconds", "When labels last arrived since the server started.", observed_at),
        ]
        found = [*self._rows(), *self._learning(), *self._log()]
        found += [gauge(name, meaning, at) for name, meaning, at in moments if at]
        return text_of(found)

    def _rows(self) -> Iterator[Metric]:
        live = self._live
        build: Labels = (("version", optensemble.__version__), ("python", platform.python_version()))
        yield gauge("build_info", "The versions that serve.", {build: 1.0})
        yield counter("decisions_total", "Rows decided.", live.decided_)
        yield counter("labels_total", "Rows whose labels have arrived.", live.rows_)
        yield gauge("open_rows", "Rows decided whose labels have not arrived.", live._current.open)
        yield counter("expired_total", "Rows that expired without labels.", live.expired_)
        sums = live.history_[["promised", "earned"]].sum()
        yield gauge("promised_sum", "Sum of what was promised of rows with labels.", float(sums["promised"]))
        yield gauge("earned_sum", "Sum of what rows with labels came to.", float(sums["earned"]))

    def _learning(self) -> Iterator[Metric]:
        live, now = self._live, self._live._current
        weights: dict[Labels, float] = {
            (("policy", name),): weight for name, weight in zip(live.policies_, live.weights_.tolist(), strict=True)
        }
        yield gauge("policy_weight", "The weight of each policy.", weights)
        yield gauge("refit_due", "Whether a refit is due or running.", float(bool(refit_due(live))))
        yield gauge("refit_running", "Whether a refit is running.", float(now.running is not None))
        yield counter("refits_total", "Refits that decided.", sum(not each.failed for each in now.refits))
        yield counter("refits_failed_total", "Refits that failed.", sum(bool(each.failed) for each in now.refits))
        raised = {(alarm.kind, alarm.direction) for alarm in standing(live)}
        alarms: dict[Labels, float] = {
            (("kind", kind), ("direction", direction)): float((kind, direction) in raised)
            for kind, direction in _STANDING
        }
        yield gauge("alarm_standing", "Whether an alarm of the monitor stands.", alarms)
        if live.monitor is not None:
            shown: dict[Labels, float] = {
                (("direction", name),): value for name, value in evidence(live.monitor).items()
            }
            yield gauge("evidence_log10", "Evidence that payoffs depart from those promised, as a logarithm.", shown)
            yield gauge(
                "evidence_threshold_log10", "The evidence at which alarms are raised.", log10(live.monitor.threshold)
            )

    def _log(self) -> Iterator[Metric]:
        log = self._live.log
        if log is None:
            return
        if self._counts is None or time.monotonic() - self._counted_at > _COUNT_EVERY:
            self._counts, self._counted_at = log.counts(), time.monotonic()
        yield counter("log_entries_total", "Entries of the log.", self._counts.entries)
        yield gauge("log_bytes", "Bytes that the log takes up.", self._counts.bytes)
