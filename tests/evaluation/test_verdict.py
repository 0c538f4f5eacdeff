"""The verdict on a promise: its grade, its words, and when nothing can be said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optensemble.evaluation.audit import Audit, make_audit
from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.evaluation.audit_tables import AuditSummary
from optensemble.evaluation.verdict import Evidence, Grade, Verdict, grade_of, judge
from tests.evaluation.observations import Floats, observe, promise

ROWS = 3000
INFINITY = float("inf")


def exact(mean: float, half: float = 0.07, n: int = ROWS) -> Floats:
    """Rows of this mean, with an interval of this half-width."""
    values = np.random.default_rng(0).normal(size=n)
    values = (values - values.mean()) / values.std(ddof=1)
    return np.asarray(mean + values * half * np.sqrt(n) / stats.t.ppf(0.975, n - 1))


def audited(
    interval: tuple[float, float, float], mean: float, half: float, sign: float = 1.0, blind: float | None = None
) -> Audit:
    """Audit rows of this mean, where deciding by the mean label comes to ``blind``."""
    rows = observe(
        n=ROWS,
        realised=exact(mean, half),
        promised=np.full(ROWS, interval[0]),
        interval=promise(*interval),
        sign=sign,
        blind=None if blind is None else np.full(ROWS, blind),
    )
    return make_audit(rows)


@pytest.mark.parametrize(
    ("interval", "mean", "half", "sign", "grade", "words"),
    [
        (
            *((2.41, 2.3, 2.5), 2.38, 0.07, 1, Grade.KEPT),
            "promised 2.41, earned 2.38 ± 0.07 on 3,000 new rows, gap +0.03 (95 %: −0.04 to +0.10): kept",
        ),
        (
            *((2.41, 2.3, 2.5), 2.38, 0.07, -1, Grade.KEPT),
            "promised a cost of 2.41, came to 2.38 ± 0.07 on 3,000 new rows, gap +0.03 (95 %: −0.04 to +0.10): kept",
        ),
        (
            *((2.52, 2.4, 2.6), -0.36, 0.11, 1, Grade.LESS),
            "promised 2.52 (2.40 to 2.60), earned −0.36 ± 0.11 on 3,000 new rows, gap +2.88 (95 %: +2.77 to +2.99): "
            "broken, earned less than promised",
        ),
        (
            *((2.0, 1.9, 2.1), 2.4, 0.2, 1, Grade.MORE),
            "promised 2.00 (1.90 to 2.10), earned 2.40 ± 0.20 on 3,000 new rows, gap −0.40 (95 %: −0.60 to −0.20): "
            "broken, earned more than promised",
        ),
        (
            *((2.0, 1.9, 2.1), 2.4, 0.05, -1, Grade.LESS),
            "promised a cost of 2.00 (1.90 to 2.10), came to 2.40 ± 0.05 on 3,000 new rows, "
            "gap −0.40 (95 %: −0.45 to −0.35): broken, cost more than promised",
        ),
        (
            *((2.0, 1.9, 2.1), 1.4, 0.05, -1, Grade.MORE),
            "promised a cost of 2.00 (1.90 to 2.10), came to 1.40 ± 0.05 on 3,000 new rows, "
            "gap +0.60 (95 %: +0.55 to +0.65): broken, cost less than promised",
        ),
        (
            *((2.12, 1.5, 2.5), 2.0, 0.04, 1, Grade.BIASED),
            "promised 2.12 (1.50 to 2.50), earned 2.00 ± 0.04 on 3,000 new rows, gap +0.12 (95 %: +0.08 to +0.16): "
            "kept, but biased by 6.0 % (95 %: 4.0 to 8.0), it promised too much",
        ),
        (
            *((0.08, -0.5, 0.5), 0.0, 0.04, 1, Grade.BIASED),
            "promised 0.08 (−0.50 to 0.50), earned 0.00 ± 0.04 on 3,000 new rows, gap +0.08 (95 %: +0.04 to +0.12): "
            "kept, but biased by 0.08 (95 %: 0.04 to 0.12), it promised too much",
        ),
        (
            *((1.88, 1.5, 2.5), 2.0, 0.04, -1, Grade.BIASED),
            "promised a cost of 1.88 (1.50 to 2.50), came to 2.00 ± 0.04 on 3,000 new rows, "
            "gap −0.12 (95 %: −0.16 to −0.08): kept, but biased by 6.0 % (95 %: 4.0 to 8.0), it promised too little",
        ),
        (
            *((2.0, -INFINITY, INFINITY), 1.4, 0.05, 1, Grade.OPEN),
            "promised 2.00 without limits, earned 1.40 ± 0.05 on 3,000 new rows, gap +0.60 (95 %: +0.55 to +0.65): "
            "there was no promise to keep",
        ),
        (
            *((12_345_678.0, 12e6, 13e6), 12_348_000, 5_000, 1, Grade.KEPT),
            "promised 12,345,678, earned 12,348,000 ± 5,000 on 3,000 new rows, gap −2,322 (95 %: −7,322 to +2,678): "
            "kept",
        ),
        (
            *((1.2e-3, 1e-3, 2e-3), 1.25e-3, 1e-4, 1, Grade.KEPT),
            "promised 0.00120, earned 0.00125 ± 0.00010 on 3,000 new rows, "
            "gap −0.00005 (95 %: −0.00015 to +0.00005): kept",
        ),
    ],
)
def test_the_verdict_says_promised_earned_gap_and_grade(
    interval: tuple[float, float, float], mean: float, half: float, sign: float, grade: Grade, words: str
) -> None:
    found = audited(interval, mean, half, float(sign))
    assert (found.verdict, found.grade) == (words, grade)
    assert found.kept is (None if np.isinf(interval[1]) else interval[1] <= mean <= interval[2])
    assert repr(found) == f"Audit({words!r})"
    assert str(found).splitlines()[0] == words
    assert found.judgement.is_better is bool(sign * found.gap < 0)


def test_a_promise_wider_than_what_deciding_is_worth_is_of_no_use() -> None:
    wide = ((2.0, 1.5, 2.5), 2.0, 0.07)
    assert audited(*wide, blind=0.9).judgement.outcome == "kept"
    assert audited(*wide, blind=1.2).judgement.outcome == "kept, but too wide to be useful"
    assert audited(*wide, blind=2.8, sign=-1.0).grade is Grade.WIDE
    assert audited(*wide, blind=None).grade is Grade.KEPT, "where the mean label decides there is nothing to compare"


def test_where_these_rows_alone_are_too_noisy_more_of_them_are_needed() -> None:
    assert audited((2.0, 1.0, 3.0), 2.0, 0.4, blind=1.5).judgement.outcome == "too few rows to tell"
    assert audited((2.0, 1.0, 3.0), 2.0, 0.2, blind=1.5).grade is Grade.WIDE


def test_a_biased_promise_that_is_too_wide_has_both_told() -> None:
    verdict = audited((2.06, 1.5, 2.5), 2.0, 0.02, blind=1.5).judgement
    assert verdict.grade is Grade.BIASED
    assert verdict.doubts[0] == "the promised limits are too wide to be useful"
    assert not verdict.is_sound


def summary(realised: float, rows: int = 500, half: float = 0.1, low: float = 1.8, high: float = 2.2) -> AuditSummary:
    gap = 2.0 - realised
    return AuditSummary(
        *(rows, 0, 2.0, 2.0, low, high, realised, half, gap, gap - half, gap + half), kept=low <= realised <= high
    )


@pytest.mark.parametrize(
    ("rows", "half", "realised", "grade"),
    [
        (9, 0.1, 2.0, Grade.FEW),
        (9, 0.1, 2.3, Grade.FEW),  # missed, but not by far
        (9, 0.1, 2.5, Grade.MORE),
        (9, 0.1, 1.5, Grade.LESS),
        (10, 0.1, 2.0, Grade.KEPT),
        (10, 0.1, 2.3, Grade.MORE),
        (1, float("nan"), 2.1, Grade.FEW),
        (50, float("nan"), 2.1, Grade.FEW),  # of one cluster
        (1, float("nan"), 5.0, Grade.MORE),
    ],
)
def test_few_rows_break_a_promise_only_if_they_miss_it_by_far(
    rows: int, half: float, realised: float, grade: Grade
) -> None:
    evidence = Evidence(summary(realised, rows, half), 1.0, beyond_chance=False, distance=1.0)
    assert grade_of(evidence) is grade
    assert "nan" not in judge(evidence).sentence


@pytest.mark.parametrize("side", [1.8, 2.2])
def test_limits_are_kept_up_to_rounding(side: float) -> None:
    away = np.copysign(1e-13, side - 2)
    rows = observe(n=ROWS, realised=exact(side + away), interval=promise(2.0, 1.8, 2.2))
    assert make_audit(rows).kept
    assert not make_audit(replace(rows, realised=exact(side + 1e8 * away))).kept


def test_a_promise_that_is_right_to_the_last_digit_is_not_biased_by_rounding() -> None:
    evidence = Evidence(summary(2.0 + 1e-13, half=0.0), 1.0, beyond_chance=True, distance=1.0)
    assert grade_of(evidence) is Grade.KEPT


@given(
    st.floats(-1e3, 1e3),
    st.floats(0, 10),
    st.floats(0, 10),
    st.integers(1, 100),
    st.booleans(),
    st.none() | st.floats(0, 10),
)
def test_costs_are_graded_as_payoffs_of_the_other_sign(
    realised: float, half: float, width: float, rows: int, off: bool, distance: float | None
) -> None:
    row = summary(realised, rows, half, 2.0 - width, 2.0 + width)
    gap = -row.gap
    cost = AuditSummary(
        *(rows, 0, -2.0, -2.0, -row.high, -row.low, -realised, half, gap, -row.gap_high, -row.gap_low), kept=row.kept
    )
    ours, theirs = (judge(Evidence(totals, sign, off, distance)) for totals, sign in ((row, 1.0), (cost, -1.0)))
    assert ours.grade is theirs.grade
    assert ours.is_better == theirs.is_better
    assert (ours.grade in (Grade.LESS, Grade.MORE)) <= (not row.kept)


def judged(**changes: Any) -> Verdict:
    """Judge an ordinary promise that was kept, with changes."""
    rows: AuditInputs = observe(n=ROWS, realised=exact(2.0), interval=promise(2.0, 1.8, 2.2), rivals={})
    return make_audit(replace(rows, **changes)).judgement


def test_a_promise_that_is_kept_without_a_doubt_is_sound() -> None:
    assert judged() == replace(judged(), doubts=())
    assert judged().is_sound


def test_every_reason_for_doubt_is_told() -> None:
    better = {"planner": exact(2.0) + 0.1, "worse": exact(2.0) - 0.1, "equal": exact(2.0)}
    assert judged(rivals=better).doubts == ("planner would have done significantly better",)
    residuals = np.random.default_rng(0).normal([1.0, 0.0], size=(ROWS, 2))
    (biased,) = judged(residuals=residuals).doubts
    assert biased == "5 of 10 pairs of cell and coordinate are biased beyond chance"
    strange = replace(promise(2.0, 1.8, 2.2), unlike=True, note="these rows are unlike the fitted ones")
    assert judged(interval=strange).doubts == ("these rows are unlike the fitted ones",)
    assert not judged(interval=strange).is_sound
