"""The look of a verdict: its mark and status by grade."""

from __future__ import annotations

from dataclasses import dataclass

from optensemble.evaluation.audit_text import outcome
from optensemble.report.data import ReportData


@dataclass(frozen=True)
class VerdictLook:
    """A verdict as it is shown: status for its colour, a mark, the outcome in a few words, its sentence and doubts."""

    status: str
    mark: str
    outcome: str
    sentence: str
    doubts: tuple[str, ...] = ()


def verdict_look(data: ReportData) -> VerdictLook:
    """Return the verdict of the audit as it is shown."""
    kept = data.audit.kept
    status = "open" if kept is None else "kept" if kept else "broken"
    mark = {"open": "–", "kept": "✓", "broken": "✗"}[status]
    return VerdictLook(status, mark, outcome(data.audit.totals, data.sign), data.audit.verdict)
