"""Promises where members are absent: what that does to payoffs is told apart."""

from __future__ import annotations

import numpy as np
import pytest

from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments


def test_what_absence_does_to_payoffs_is_told_apart() -> None:
    rng = np.random.default_rng(0)
    n, away = 2000, np.arange(2000) % 4 == 0
    assessed = rng.normal(size=n)
    realised = assessed - 1.0 * away + 0.5 * rng.normal(size=n)
    record = Record(assessed, realised, incomplete=away)
    assert record.absence is not None
    assert record.absence.share == pytest.approx(0.25)
    assert record.absence.offset == pytest.approx(-1.0, abs=0.1)
    none, half, every = (
        record.promise(Assessments.of(np.zeros(1000), incomplete=np.arange(1000) < 1000 * share))
        for share in (0.0, 0.25, 1.0)
    )
    assert none.mean == pytest.approx(0.0, abs=0.1)
    assert half.mean == pytest.approx(-0.25, abs=0.1)
    assert every.mean == pytest.approx(-1.0, abs=0.1)
    assert half.high - half.low < none.high - none.low < every.high - every.low
    np.testing.assert_allclose(record.correct(np.zeros(2), np.array([False, True])), [0.0, -1.0], atol=0.1)
    # where all rows later are like those before, nothing moves
    plain = Record(assessed, realised).promise(Assessments.of(np.zeros(1000)))
    assert half.mean == pytest.approx(plain.mean, abs=1e-9)
    assert half.high == pytest.approx(plain.high, rel=1e-9)
    few = Record(assessed, realised, incomplete=np.arange(n) < 20)
    assert few.absence is None
    both = Assessments.of(np.zeros(3), incomplete=np.array([True, False, False])) + Assessments.of(np.ones(1))
    assert both.incomplete == pytest.approx(0.25)
