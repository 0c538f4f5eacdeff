"""An audit in words: the verdict, and what else stands out."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

from optensemble._core.deferred import pd
from optensemble.evaluation.audit_tables import AuditSummary, CellFindings
from optensemble.evaluation.promise import Promise

if TYPE_CHECKING:
    from optensemble.evaluation.audit import Audit

MANY_BIASED = 0.01
"""The share of biased pairs of cell and coordinate above which they give reason to doubt a promise of the mean."""


def doubts(promise: Promise, lift: pd.DataFrame, cells: CellFindings) -> tuple[str, ...]:
    """Return reasons for doubt that a promise may be kept over: strange rows, better baselines, many biased cells."""
    better = [str(name) for name, high in zip(lift["rival"], lift["high"], strict=True) if high < 0]
    of = f"{cells.biased:,} of {cells.tested:,} pairs of cell and coordinate"
    found = {
        promise.note: promise.unlike,
        f"{', '.join(better)} would have done significantly better": bool(better),
        f"{of} {'is' if cells.biased == 1 else 'are'} biased beyond chance": cells.biased > MANY_BIASED * cells.tested,
    }
    return tuple(said for said, holds in found.items() if holds)


def audit_text(audit: Audit) -> str:
    """Return the verdict and what else stands out, a sentence a line."""
    lines = [audit.verdict, *_left_out(audit.totals), _bias_sentence(audit)]
    for rival, *limits in audit.lift[["rival", "gain", "low", "high"]].itertuples(index=False, name=None):
        gain, low, high = (f"{value:+.3g}".replace("-", "−") for value in limits)
        lines.append(f"gain over {rival}: {gain}" + ("" if isnan(limits[1]) else f" ({low} to {high})"))
    lines.append(f"gain of the best swap, in hindsight: {audit.swap_regret:.3g}")
    return "\n".join(lines)


def _left_out(row: AuditSummary) -> list[str]:
    """Return how many rows lack labels, if any."""
    of = f"{row.unlabelled:,} of {row.rows + row.unlabelled:,} rows"
    return [f"{of} have no labels and were left out"] if row.unlabelled else []


def _bias_sentence(audit: Audit) -> str:
    thin = f"; {audit.thin:,} cell{'s' if audit.thin > 1 else ''} had too few rows" if audit.thin else ""
    if not audit.tested:
        return f"no cell could be tested{thin}"
    if not audit.biased:
        return f"no bias stands out in {audit.tested:,} pairs of cell and coordinate{thin}"
    worst: Any = audit.cells.iloc[0]
    which = worst["coordinate"] if audit.coordinates else f"coordinate {worst['coordinate']}"
    cell = worst["cell"] if audit.coordinates else worst["cell"].replace("-", "−")  # names may have hyphens
    where = f"{cell}, {which}, by {worst['bias']:.3g}".replace("by -", "by −")
    are = "is" if audit.biased == 1 else "are"
    return f"{audit.biased:,} of {audit.tested:,} pairs of cell and coordinate {are} biased, the worst: {where}{thin}"
