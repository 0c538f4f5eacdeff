"""The verdict on a promise: kept, kept with a reservation, too few rows to tell, or broken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite, isnan

from optensemble._core.number_format import format_by_error, format_number
from optensemble.evaluation.audit_inputs import SEEN
from optensemble.evaluation.audit_tables import SUM_ROUNDING, AuditSummary

FEWEST_TO_JUDGE = 10
"""With fewer rows a promise is broken only if it is missed by far: their mean has no known distribution."""

_BY_FAR = 2.0  # half-widths of the promise


class Grade(StrEnum):
    """The grades of a promise on rows with known labels."""

    KEPT = "kept"
    BIASED = "biased"
    WIDE = "too wide"
    FEW = "too few rows"
    LESS = "less than promised"
    MORE = "more than promised"
    OPEN = "no promise"
    SEEN = "fitted on"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a promise.

    Attributes
    ----------
    grade
        ``kept``: the mean lies within the promised limits. ``biased``: it does, but the gap between promised and
        realised is beyond chance at the 99 % level. ``too wide``: it does, but the limits are further apart than the
        realised mean is from what deciding by the mean label would have come to, so that the promise says nothing of
        what deciding is worth. ``too few rows``: the same, because of the noise of these very rows, or because there
        are fewer than 10. ``less than promised`` and ``more than promised`` (of costs: ``less`` is the worse, too):
        broken. ``no promise``: there were no limits. ``fitted on``: more than one in a hundred rows were fitted on.
    outcome
        The grade in a few words.
    sentence
        Promised and realised mean, rows, the gap with its interval, and the outcome.
    is_better
        Whether more was earned than promised, or a cost was lower, be it by chance.
    doubts
        Further reasons for doubt, a phrase each.
    """

    grade: Grade
    outcome: str
    sentence: str
    is_better: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether the promise was kept and nothing gives reason for doubt."""
        return self.grade is Grade.KEPT and not self.doubts


@dataclass(frozen=True)
class Evidence:
    """What a verdict goes by.

    Attributes
    ----------
    totals
        Promised and realised mean payoff.
    sign
        1 of payoffs, -1 of costs.
    beyond_chance
        Whether the gap is more than chance explains, at the 99 % level.
    distance
        How far the realised mean is from what deciding by the mean label would have come to; None where that was not
        compared, because it decides or was not learned.
    """

    totals: AuditSummary
    sign: float
    beyond_chance: bool
    distance: float | None

    @property
    def is_better(self) -> bool:
        """Whether more was earned than promised, or a cost was lower."""
        return self.sign * self.totals.gap < 0

    @property
    def too_wide(self) -> bool:
        """Whether the promised limits are further apart than what deciding well is worth."""
        width = self.totals.high - self.totals.low
        return self.distance is not None and width > self.distance + _rounding(self.totals)

    @property
    def too_noisy(self) -> bool:
        """Whether the noise of these rows alone would make them so."""
        return self.distance is not None and self.totals.gap_high - self.totals.gap_low > self.distance


def judge(evidence: Evidence, doubts: tuple[str, ...] = ()) -> Verdict:
    """Return the verdict.

    >>> row = AuditSummary(500, 0, 2.41, 2.41, 2.2, 2.6, 2.37, 0.09, 0.04, -0.05, 0.13, kept=True)
    >>> print(judge(Evidence(row, 1.0, beyond_chance=False, distance=1.5)).sentence)
    promised 2.41, earned 2.37 ± 0.09 on 500 new rows, gap +0.04 (95 %: −0.05 to +0.13): kept
    >>> judge(Evidence(row, 1.0, beyond_chance=False, distance=0.3)).outcome
    'kept, but too wide to be useful'
    """
    grade = grade_of(evidence)
    outcome = _outcome(evidence, grade)
    if grade is Grade.BIASED and evidence.too_wide:
        doubts = ("the promised limits are too wide to be useful", *doubts)
    return Verdict(grade, outcome, _sentence(evidence, grade, outcome), evidence.is_better, doubts)


def grade_of(evidence: Evidence) -> Grade:
    """Return the grade: what is sure comes first."""
    row = evidence.totals
    if row.seen > SEEN * row.rows:
        return Grade.SEEN
    if row.kept is None:
        return Grade.OPEN
    few = row.rows < FEWEST_TO_JUDGE or isnan(row.half_width)
    if not row.kept and (not few or _missed_by_far(row)):
        return Grade.MORE if evidence.is_better else Grade.LESS
    if few:
        return Grade.FEW
    if evidence.beyond_chance and abs(row.gap) > _rounding(row):
        return Grade.BIASED
    if evidence.too_wide:
        return Grade.FEW if evidence.too_noisy else Grade.WIDE
    return Grade.KEPT


def _missed_by_far(row: AuditSummary) -> bool:
    limit = row.low if row.realised < row.low else row.high
    return abs(row.realised - row.promise) > _BY_FAR * abs(limit - row.promise) + _rounding(row)


def _rounding(row: AuditSummary) -> float:
    return SUM_ROUNDING * max(abs(row.promise), abs(row.realised))


# In words


def _outcome(evidence: Evidence, grade: Grade) -> str:
    earned = "earned" if evidence.sign > 0 else "cost"
    less, more = ("less", "more") if evidence.sign > 0 else ("more", "less")  # a cost that is worse is more
    return {
        Grade.KEPT: "kept",
        Grade.BIASED: f"kept, but biased by {_bias(evidence.totals)}",
        Grade.WIDE: "kept, but too wide to be useful",
        Grade.FEW: "too few rows to tell",
        Grade.LESS: f"broken: {earned} {less} than promised",
        Grade.MORE: f"broken: {earned} {more} than promised",
        Grade.OPEN: "there was no promise to keep",
        Grade.SEEN: "this proves nothing",
    }[grade]


def _bias(row: AuditSummary) -> str:
    """Return the size of the gap with its interval, in percent of what was realised; in units where that may be 0."""
    shares, side = abs(row.realised) > row.half_width, 1.0 if row.gap > 0 else -1.0
    ends = sorted(side * end for end in (row.gap_low, row.gap_high))
    gaps = [100 * gap / abs(row.realised) if shares else gap for gap in (abs(row.gap), *ends)]
    decimals = _decimals(format_by_error([gaps[0], (gaps[2] - gaps[1]) / 2])[0])
    gap, low, high = (format_number(each, decimals) for each in gaps)
    much = "too much" if row.gap > 0 else "too little"
    return f"{gap}{' %' if shares else ''} (95 %: {low} to {high}), it promised {much}"


def smallest_error(row: AuditSummary) -> float:
    """Return the error that says how many digits of promised, realised and gap to show: the gap is their difference."""
    errors = [error for error in (row.half_width, (row.gap_high - row.gap_low) / 2) if isfinite(error) and error > 0]
    return min(errors, default=row.half_width)


def _sentence(evidence: Evidence, grade: Grade, outcome: str) -> str:
    row = evidence.totals
    limited = isfinite(row.low) or isfinite(row.high)
    # where promise and payoff are close the limits would only be in the way
    close = grade is Grade.KEPT and abs(row.promise - row.realised) <= row.half_width
    shown = [row.promise, row.realised] + ([row.low, row.high] if limited and not close else [])
    promise, realised, *limits, _ = format_by_error([*shown, smallest_error(row)])
    decimals = max(map(_decimals, (promise, realised)))
    between = f" ({limits[0]} to {limits[1]})" if limits else "" if limited else " without limits"
    error = "" if isnan(row.half_width) else f" ± {format_number(row.half_width, decimals)}"
    promised, earned = ("promised", "earned") if evidence.sign > 0 else ("promised a cost of", "came to")
    parts = f"{promised} {promise}{between}, {earned} {realised}{error} {_on_rows(row)}, {_gap(row, decimals)}"
    return f"{parts}: {outcome.replace('broken: ', 'broken, ')}{_raw_gap(row)}"


def _gap(row: AuditSummary, decimals: int) -> str:
    gap, low, high = (format_number(each, decimals, "+") for each in (row.gap, row.gap_low, row.gap_high))
    return f"gap {gap}" + ("" if isnan(row.gap_low) else f" (95 %: {low} to {high})")


def _decimals(text: str) -> int:
    """Return the decimals of a number; 0 of one with a power of ten."""
    return 0 if "e" in text else len(text.partition(".")[2])


def _on_rows(row: AuditSummary) -> str:
    rows = f"{row.rows:,} {'' if row.seen else 'new '}row{'' if row.rows == 1 else 's'}"
    return f"on {rows}" + (f", {row.seen:,} of them fitted on" if row.seen else "")


def _raw_gap(row: AuditSummary) -> str:
    """Return the mean of the rows' own promises where it lies outside the promise of their mean."""
    if row.kept is None or row.low <= row.promised <= row.high:
        return ""
    assessed, _ = format_by_error([row.promised, row.half_width])
    return f" (but row by row it assessed itself at {assessed})"
