"""What payoffs are possible, and limits that respect it; and the one interval of a single row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.possible_payoffs import NOTHING_KNOWN, LabelRange, Possible
from optensemble.evaluation.promise import Promise
from optensemble.feasible import Box, WithCost
from tests.problems import Floats

SIGNED = {"positive": (0.0, 5.0), "negative": (-5.0, 0.0), "either": (-5.0, 5.0)}


@given(
    seed=st.integers(0, 10**6),
    labels=st.sampled_from(sorted(SIGNED)),
    actions=st.sampled_from(sorted(SIGNED)),
    sense=st.sampled_from([1.0, -1.0]),
    cost=st.booleans(),
)
def test_no_label_of_the_range_makes_a_payoff_that_is_called_impossible(
    seed: int, labels: str, actions: str, sense: float, cost: bool
) -> None:
    rng = np.random.default_rng(seed)
    box = Box(np.full(3, -5.0), np.full(3, 5.0))
    omega = WithCost(box, linear=[0.1, 0.2, 0.3]) if cost else box
    Y, taken = rng.uniform(*SIGNED[labels], size=(20, 3)), rng.uniform(*SIGNED[actions], size=(20, 3))
    taken[0] = 0.0
    possible = LabelRange.of(Y).payoffs(omega, taken, sense)
    earned = sense * omega.value(taken, sense * Y)  # in the user's sense
    if labels == "either":
        assert possible is None
        return
    assert possible is not None
    assert (possible.low <= earned + 1e-12).all()
    assert (earned <= possible.high + 1e-12).all()
    # and the end is reached: by labels of 0
    nothing = sense * omega.value(taken, np.zeros((20, 3)))
    sure = actions != "either"
    known = np.isfinite(possible.low) | np.isfinite(possible.high)
    assert known[0]
    assert known[1:].all() or not sure
    ends = np.where(np.isfinite(possible.low), possible.low, possible.high)
    np.testing.assert_allclose(ends[known], nothing[known], atol=1e-12)
    if sure:
        assert np.isfinite(possible.low[1:]).all() == (labels == actions)


def test_rounding_of_a_solver_is_no_negative_action() -> None:
    actions = np.array([[1.0, -1e-12], [1.0, -1e-3]])
    possible = LabelRange(0.0, 2.0).payoffs(Box([-1, -1], [1, 1]), actions, 1.0)
    assert possible is not None
    np.testing.assert_array_equal(possible.low, [0.0, -np.inf])


def test_a_range_ends_with_the_first_label_of_the_other_sign() -> None:
    record = replace(pairs_record(0), labels=LabelRange(0.0, 3.0))
    more = np.array([1.0, 2.0])
    assert record.extend(more, more, labels=LabelRange(0.5, 4.0)).labels == (0.0, 4.0)
    assert not record.extend(more, more, labels=LabelRange(-0.1, 4.0)).labels.one_sided
    assert not record.extend(more, more).labels.one_sided  # of which nothing is known
    assert not NOTHING_KNOWN.one_sided
    assert LabelRange(-2.0, -1.0) == LabelRange(1.0, 2.0).signed(-1.0)


def test_the_range_of_any_action_is_that_of_the_bounds() -> None:
    positive, either = Box([0, 0], [1, 2]), Box([-1, 0], [1, 2])
    assert LabelRange(0.0, 3.0).anywhere(positive) == (0.0, np.inf)
    assert LabelRange(-3.0, -1.0).anywhere(positive) == (-np.inf, 0.0)
    assert LabelRange(0.0, 3.0).anywhere(Box([-2, -1], [0, 0])) == (-np.inf, 0.0)
    for labels, omega in [
        (LabelRange(-1.0, 3.0), positive),
        (LabelRange(0.0, 3.0), either),
        (LabelRange(0.0, 3.0), WithCost(positive, linear=[1.0, 1.0])),
        (NOTHING_KNOWN, positive),
    ]:
        assert labels.anywhere(omega) == (-np.inf, np.inf)


# A record


def pairs_record(seed: int, kind: str = "independent", n: int = 150, sign: float = 1.0) -> Record:
    """A record of payoffs near 0: in time order, with a trend, in clusters, with weights, or with absent members."""
    rng = np.random.default_rng(seed)
    assessed = rng.normal(0.5, 1.0, size=n)
    realised = 0.6 * assessed + rng.normal(size=n)
    if kind == "trend":
        realised += np.linspace(0.0, 6.0, n)
    return Record(
        sign * assessed,
        sign * realised,
        sign,
        kind in ("time", "trend"),
        np.arange(n) // 5 if kind == "clusters" else None,
        0.1,
        weights=rng.uniform(0.5, 1.5, size=n) if kind == "weights" else None,
        incomplete=np.arange(n) % 3 == 0 if kind == "absent" else None,
    )


KINDS = ["independent", "time", "trend", "clusters", "weights", "absent"]


@given(
    seed=st.integers(0, 1000),
    kind=st.sampled_from(KINDS),
    sign=st.sampled_from([1.0, -1.0]),
    value=st.floats(-5, 5),
    away=st.booleans(),
    weight=st.none() | st.floats(0.01, 100),
    clipped=st.booleans(),
)
def test_the_promise_of_one_row_is_that_rows_interval_to_the_bit(
    seed: int, kind: str, sign: float, value: float, away: bool, weight: float | None, clipped: bool
) -> None:
    record, row, incomplete = pairs_record(seed, kind, sign=sign), np.array([value]), np.array([away])
    possible = Possible(np.array([0.3]), np.array([np.inf])) if clipped else None
    weights = None if weight is None else np.array([weight])
    promise = record.promise(Assessments.of(row, weights, incomplete, possible))
    low, high = record.limits(row, incomplete, possible)
    assert (promise.low, promise.high) == (low[0], high[0])
    assert promise.mean == record.correct(row, incomplete, possible)[0]
    assert promise.low <= promise.mean <= promise.high
    assert promise.rely_on == (promise.low if sign > 0 else promise.high)
    assert (record.trend[0] != 0) == (kind == "trend")
    together = Assessments() + Assessments.of(row, weights, incomplete, possible) + Assessments()
    assert record.promise(together) == promise
    batch = record.limits(np.array([value, 0.1, -2.0]), np.array([away, True, False]))
    alone = record.limits(row, incomplete)
    assert [each[0] for each in batch] == [each[0] for each in alone]


@given(
    seed=st.integers(0, 1000),
    kind=st.sampled_from(KINDS),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    floor=st.floats(-1, 2),
)
def test_limits_of_a_mean_end_at_the_mean_of_what_is_possible(
    seed: int, kind: str, sizes: list[int], floor: float
) -> None:
    record, rng = pairs_record(seed, kind), np.random.default_rng(seed)
    parts = [rng.normal(0.0, 1.0, size=size) for size in sizes]
    floors = [floor + rng.uniform(size=size) for size in sizes]
    summed = sum(
        (
            Assessments.of(part, possible=Possible(low, np.full(len(low), np.inf)))
            for part, low in zip(parts, floors, strict=True)
        ),
        Assessments(),
    )
    free, promise = record.promise(np.concatenate(parts)), record.promise(summed)
    least = np.concatenate(floors).mean()
    assert promise.low == pytest.approx(max(free.low, least), rel=1e-9, abs=1e-9)
    assert promise.high == pytest.approx(max(free.high, least), rel=1e-9, abs=1e-9)
    assert promise.mean == pytest.approx(max(free.mean, least), rel=1e-9, abs=1e-9)
    assert promise.rely_on == promise.low <= promise.mean <= promise.high


def test_where_one_row_may_come_to_anything_so_may_the_mean() -> None:
    both = Possible(np.array([0.0, -np.inf]), np.array([np.inf, np.inf]))
    summary = Assessments.of(np.array([1.0, 2.0]), possible=both)
    assert (summary.floor, summary.ceiling) == (-np.inf, np.inf)
    weighed = Assessments.of(np.array([1.0, 2.0]), np.array([1.0, 0.0]), possible=both)
    assert weighed.floor == -np.inf
    known = Assessments.of(np.array([1.0]), possible=both.take(np.array([0])))
    assert known.floor == 0.0
    assert (known + Assessments.of(np.array([1.0]))).floor == -np.inf
    ends: Floats = np.array([-3.0, np.inf])
    assert Assessments.of(np.array([1.0, 2.0]), possible=Possible(-ends, ends)).ceiling == np.inf


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ((1.0, 3.0), "2.0 (95 %: 1.0 to 3.0; rely on 1.0) on average over 5 rows"),
        ((0.0, np.inf), "2.000 (95 %: at least 0.000; rely on 0.000) on average over 5 rows"),
        ((-np.inf, 3.0), "2.000 (95 %: at most 3.000) on average over 5 rows"),
        ((-np.inf, np.inf), "2.000 (no limits) on average over 5 rows"),
    ],
)
def test_an_infinite_limit_is_no_limit_in_words(limits: tuple[float, float], said: str) -> None:
    assert str(Promise(2.0, *limits, rows=5, rely_on=limits[0], time_ordered=True)) == said
