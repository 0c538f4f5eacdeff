"""An audit in words: the sentence above it, and what else stands out."""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from optensemble._core.number_format import format_by_error
from optensemble.evaluation.audit_inputs import SEEN
from optensemble.evaluation.audit_tables import AuditSummary

if TYPE_CHECKING:
    from optensemble.evaluation.audit import Audit


def sentence(row: AuditSummary, sign: float) -> str:
    """Return promised and realised payoff and the outcome, in one sentence."""
    limited = isfinite(row.low) or isfinite(row.high)
    # where promise and payoff are close the limits would only be in the way
    close = row.kept and abs(row.promise - row.realised) <= row.half_width
    shown = [row.promise, row.realised] + ([row.low, row.high] if limited and not close else [])
    promise, realised, *limits, half = format_by_error([*shown, row.half_width])
    between = f" ({limits[0]} to {limits[1]})" if limits else "" if limited else " without limits"
    doubt = "" if isnan(row.half_width) else f" ± {half}"
    promised, earned = ("promised", "earned") if sign > 0 else ("promised a cost of", "came to")
    said = f"{promised} {promise}{between}, {earned} {realised}{doubt} {_on_rows(row)}: {outcome(row, sign)}"
    return said + _raw_gap(row)


def _on_rows(row: AuditSummary) -> str:
    rows = f"{row.rows:,} {'rows' if row.seen else 'new rows'}"
    return f"on {rows}" + (f", {row.seen:,} of them fitted on" if row.seen else "")


def outcome(row: AuditSummary, sign: float) -> str:
    """Return whether the promise was kept, in a few words; ``row`` is that of the summary."""
    if row.seen > SEEN * row.rows:
        return "this proves nothing"
    if row.kept is None:
        return "there was no promise to keep"
    if row.kept:
        return "kept"
    above = row.realised > row.high
    if sign > 0:
        return "not kept, it earned more than promised" if above else "not kept, it promised too much"
    return "not kept, it cost more than promised" if above else "not kept, it cost less than promised"


def _raw_gap(row: AuditSummary) -> str:
    """Return the mean of the rows' own promises where it lies outside the promise of their mean."""
    if row.kept is None or row.low <= row.promised <= row.high:
        return ""
    assessed, _ = format_by_error([row.promised, row.half_width])
    return f" (but row by row it assessed itself at {assessed})"


def audit_text(audit: Audit) -> str:
    """Return the verdict and what else stands out, a sentence a line."""
    lines = [audit.verdict, *_left_out(audit.totals), _bias_sentence(audit)]
    for rival, *limits in audit.lift[["rival", "gain", "low", "high"]].itertuples(index=False, name=None):
        gain, low, high = (f"{value:+.3g}".replace("-", "−") for value in limits)
        lines.append(f"gain over {rival}: {gain} ({low} to {high})")
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
