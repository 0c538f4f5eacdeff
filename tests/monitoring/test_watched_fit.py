"""The fit that a monitor watches: the latest of those that decided a row whose labels have arrived."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optensemble as oe
from optensemble.ensembles._watch import Scale, WatchedFit, monitor_of, scale_of, weighed
from optensemble.evaluation.payoff_record import Record
from optensemble.monitoring.monitor import LARGEST_VALUE, Monitor
from tests.ensembles.decision import N, problem
from tests.ensembles.live import Diary, live
from tests.problems import Floats

X, Y = problem().X, problem().Y


def record(seed: int, n: int = 200, *, weights: bool = False, size: float = 1.0) -> Record:
    rng = np.random.default_rng(seed)
    counts = rng.choice([0.5, 1.0, 2.0], size=n)
    assessed = rng.normal(size=n)
    realised = assessed + size * rng.normal(size=n)
    return (
        Record(assessed, realised, weights=counts / counts.mean(), unit=1 / counts.mean())
        if weights
        else Record(assessed, realised)
    )


def begun(first: Record | None = None) -> tuple[WatchedFit, Monitor]:
    first = first or record(0)
    return WatchedFit.first(first), monitor_of(first, "max")


def rows(n: int, fits: Any = 0, seed: int = 9) -> tuple[Any, Floats, Floats]:
    """The fits that decided rows, what these promised, and what came of them."""
    rng = np.random.default_rng(seed)
    promised = rng.normal(size=n)
    return np.broadcast_to(np.asarray(fits), n).copy(), promised, promised + rng.normal(size=n)


def taken(monitor: Monitor, seen: Any) -> Monitor:
    found = monitor.copy()
    found._seen = seen
    return found


def scale(monitor: Monitor) -> Scale:
    assert monitor.half_width is not None
    return Scale(monitor.sigma, monitor.half_width, monitor.long_run, monitor.tolerance)


# Which rows are seen


def test_rows_of_the_watched_fit_are_seen_and_looking_changes_nothing() -> None:
    watched, monitor = begun()
    looked, seen = watched.look(monitor, *rows(20), None)
    assert looked is watched
    assert monitor.rows == 0
    expected = monitor.copy().observe(*rows(20)[1:])
    assert taken(monitor, seen).evidence.equals(expected.evidence)
    assert taken(monitor, seen).restarts == ()


def test_a_later_fit_is_not_watched_before_labels_of_its_rows_arrive() -> None:
    watched, monitor = begun()
    followed = watched.followed_by(1, record(1, size=3.0))
    assert (watched.number, followed.number) == (0, 0)
    looked, seen = followed.look(monitor, *rows(20), None)
    assert looked.number == 0
    assert taken(monitor, seen).sigma == monitor.sigma
    assert taken(monitor, seen).restarts == ()


def test_with_the_first_row_of_a_later_fit_the_monitor_starts_afresh_with_its_scale() -> None:
    watched, monitor = begun()
    later = record(1, size=3.0)
    watched = watched.followed_by(1, later)
    fits, promised, realised = rows(30, np.repeat([0, 1], [20, 10]))
    looked, seen = watched.look(monitor, fits, promised, realised, None)
    found = taken(monitor, seen)
    assert (looked.number, looked.later) == (1, {})
    assert found.restarts == (20,)
    assert scale(found) == scale_of(later)
    expected = monitor.copy().observe(promised[:20], realised[:20]).restart(**scale_of(later)._asdict())
    expected.observe(promised[20:], realised[20:])
    assert found.evidence.equals(expected.evidence)


def test_rows_of_earlier_fits_are_passed_over() -> None:
    watched, monitor = begun()
    watched = watched.followed_by(1, record(1))
    watched, seen = watched.look(monitor, *rows(5, 1), None)
    monitor = taken(monitor, seen)
    again, seen = watched.look(monitor, *rows(50, 0), None)
    assert again is watched
    assert taken(monitor, seen).rows == 5
    fits = np.repeat([0, 1], 10)
    again, seen = watched.look(monitor, *rows(20, fits), None)
    assert taken(monitor, seen).rows == 15
    assert taken(monitor, seen).restarts == (0,)


def test_within_a_call_each_fit_has_its_turn() -> None:
    watched, monitor = begun()
    for number in (1, 2, 3):
        watched = watched.followed_by(number, record(number, size=number))
    fits, promised, realised = rows(40, np.repeat([0, 2, 3], [10, 20, 10]))
    looked, seen = watched.look(monitor, fits, promised, realised, None)
    found = taken(monitor, seen)
    assert looked.number == 3
    assert found.restarts == (10, 30)
    np.testing.assert_array_equal(found.evidence["promised"], promised)


def test_scales_of_fits_that_decided_no_labelled_row_are_dropped() -> None:
    watched, monitor = begun()
    for number in (1, 2, 3, 4):
        watched = watched.followed_by(number, record(number))
    assert list(watched.later) == [1, 2, 3, 4]
    looked, seen = watched.look(monitor, *rows(5, 3), None)
    assert (looked.number, list(looked.later)) == (3, [4])
    assert scale(taken(monitor, seen)) == scale_of(record(3))
    passed, seen = looked.look(taken(monitor, seen), *rows(5, 2), None)
    assert passed is looked


def test_a_fit_without_a_record_is_measured_as_the_one_before() -> None:
    watched, monitor = begun(record(0, weights=True))
    watched = watched.followed_by(1, None)
    assert watched.later == {}
    looked, seen = watched.look(monitor, *rows(5, 1), np.ones(5))
    found = taken(monitor, seen)
    assert looked.number == 1
    assert looked.weighing == watched.weighing == record(0, weights=True).weighing
    assert found.restarts == (0,)
    assert scale(found) == scale(monitor)


def test_no_rows_leave_no_trace() -> None:
    watched, monitor = begun()
    watched = watched.followed_by(1, record(1))
    looked, seen = watched.look(monitor, *rows(0, 1), None)
    assert looked is watched
    assert taken(monitor, seen).evidence.equals(monitor.evidence)


# Weights


@pytest.mark.parametrize("weights", [False, True])
def test_rows_that_count_for_nothing_are_no_rows(weights: bool) -> None:
    """They do not even make a later fit the watched one."""
    watched, monitor = begun(record(0, weights=weights))
    watched = watched.followed_by(1, record(1, weights=weights))
    fits, promised, realised = rows(30, np.repeat([0, 1], 15))
    counts = np.where(fits == 0, 2.0, 0.0)
    counts[3] = 0.0
    looked, seen = watched.look(monitor, fits, promised, realised, counts)
    assert looked.number == 0
    factor = 2.0 * watched.weighing if weights else 1.0
    kept = counts > 0
    np.testing.assert_allclose(taken(monitor, seen).evidence["promised"], factor * promised[kept])
    assert taken(monitor, seen).rows == 14


def test_each_fit_weighs_rows_by_its_own_record() -> None:
    watched, monitor = begun(record(0))
    watched = watched.followed_by(1, record(1, weights=True))
    assert watched.weighing == 0
    fits, promised, realised = rows(10, np.repeat([0, 1], 5))
    looked, seen = watched.look(monitor, fits, promised, realised, np.full(10, 4.0))
    weighing = record(1, weights=True).weighing
    assert looked.weighing == weighing > 0
    expected = np.r_[promised[:5], 4 * weighing * promised[5:]]
    np.testing.assert_allclose(taken(monitor, seen).evidence["promised"], expected)
    _, seen = looked.look(taken(monitor, seen), *rows(5, 1), None)
    np.testing.assert_allclose(taken(monitor, seen).evidence["promised"][10:], weighing * rows(5)[1])


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), max_size=8), st.sampled_from([0.0, 0.25, 2.0]))
def test_payoffs_are_weighed_where_the_record_is(counts: list[float], weighing: float) -> None:
    weights, values = np.array(counts), np.arange(1.0, len(counts) + 1)
    kept = [(value, count) for value, count in zip(values.tolist(), counts, strict=True) if count]
    expected = [value * count * weighing if weighing else value for value, count in kept]
    np.testing.assert_array_equal(weighed(values, weights, weighing), expected)
    np.testing.assert_array_equal(weighed(values, None, weighing), values * (weighing or 1.0))


# The scale


@pytest.mark.parametrize("n", [50, 100, 384, 385, 1000, 5000])
def test_the_tolerance_allows_for_the_error_of_the_promise_itself(n: int) -> None:
    given_record = record(3, n)
    found = scale_of(given_record)
    assert found.tolerance == max(0.1, 1.96 * np.sqrt(given_record.long_run / given_record.effective))
    assert (found.tolerance > 0.1) == (n / given_record.long_run < 384.16)
    assert (found.sigma, found.long_run) == (given_record.deviation, given_record.long_run)
    monitor = monitor_of(given_record, "min", horizon=77, false_alarms=0.2)
    assert scale(monitor) == found
    assert (monitor.sense, monitor.horizon, monitor.false_alarms) == ("min", 77, 0.2)


def test_with_weights_fewer_rows_are_as_sure() -> None:
    plain, uneven = record(3, 400), record(3, 400, weights=True)
    assert uneven.effective < plain.effective == 400
    assert scale_of(uneven).tolerance == 1.96 * np.sqrt(uneven.long_run / uneven.effective)


def test_a_width_that_is_open_is_a_large_number() -> None:
    """Where few clusters leave it so."""
    few = Record(np.arange(20.0), np.arange(20.0)[::-1].copy(), clusters=np.repeat([0, 1], 10))
    assert all(0 <= each <= LARGEST_VALUE for each in scale_of(few))
    assert Monitor(**scale_of(few)._asdict()).observe(1.0, 1.0).rows == 1


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 40))
def test_however_labels_are_late_what_is_seen_is_of_fits_that_ascend(seed: int, fits: int, batch: int) -> None:
    """A plain account: each row counts if no row of a later fit was seen before it; within a call fits ascend."""
    rng = np.random.default_rng(seed)
    watched, monitor = begun()
    records = {number: record(number, size=number) for number in range(1, fits)}
    for number, each in records.items():
        watched = watched.followed_by(number, each)
    latest, expected, restarts = 0, list[float](), list[int]()
    for call in range(4):
        numbers, promised, realised = rows(batch, np.sort(rng.integers(0, fits, size=batch)), seed=call)
        for number in sorted(set(numbers.tolist())):
            if number < latest:
                continue
            if number > latest:
                restarts.append(len(expected))
                latest = number
            expected += promised[numbers == number].tolist()
        watched, seen = watched.look(monitor, numbers, promised, realised, None)
        monitor = taken(monitor, seen)
    assert watched.number == latest
    assert list(watched.later) == [number for number in records if number > latest]
    assert monitor.restarts == tuple(restarts)
    np.testing.assert_array_equal(monitor.evidence["promised"], expected)
    assert monitor.sigma == (begun()[1].sigma if latest == 0 else records[latest].deviation)


# In a live ensemble


def test_an_ensemble_watches_each_fit_though_all_labels_are_later_than_the_next_refit() -> None:
    diary = Diary(live(refit=20))
    diary.play(range(N, 2 * N), batch=10, late=np.full(2 * N, 55))
    monitor, watched = diary.live.monitor, diary.live._now.watched
    assert monitor is not None
    assert monitor.rows == diary.live.rows_ > 300
    assert len(monitor.restarts) > 10
    assert watched.number < diary.live._now.fits
    assert list(watched.later) == list(range(watched.number + 1, diary.live._now.fits + 1))
    assert [number for number, _ in diary.watched] == [number for number, _ in diary.learned]
    diary.check()


def test_a_white_box_without_a_record_watches_nothing() -> None:
    ensemble = oe.WhiteBoxEnsemble(problem().models, problem().omega, validation=None, alpha=0.1)
    diary = Diary(oe.LiveEnsemble(ensemble.fit(X[:N], Y[:N]), refit=60)).play(range(N, N + 140))
    assert diary.live.monitor is None
    assert len(diary.live.refits_) == 2
    assert diary.live._now.watched.later == {}
    diary.check()
