"""The monitor: what it sees, when it says so, and that it is the same however rows come."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import optensemble as oe
from optensemble._core.spans import MOST_SPANS
from optensemble.exceptions import InputError
from optensemble.monitoring.alarm import Alarm
from optensemble.monitoring.detector import DIRECTIONS
from optensemble.monitoring.monitor import LARGEST_VALUE, LEAST_SIGMA, MOST_LISTED, Monitor
from tests.problems import Floats

seeds = st.integers(0, 2**32 - 1)
N = 700
CHANGE = 400
DOUBT = "false alarms at most 5 % in 5,000 rows"


def payoffs(seed: int = 0, drop: float = 1.0, n: int = N, at: int = CHANGE) -> tuple[Floats, Floats]:
    """Promises, and payoffs which from some row on are less by ``drop``."""
    rng = np.random.default_rng(seed)
    promised = rng.normal(10.0, 3.0, n)
    realised = promised + rng.normal(size=n)
    realised[at:] -= drop
    return promised, realised


def monitor_of(**given: Any) -> Monitor:
    return Monitor(**{"sigma": 1.0, "half_width": 0.3} | given)


def watched(seed: int = 0, drop: float = 1.0, **given: Any) -> Monitor:
    return monitor_of(**given).observe(*payoffs(seed, drop))


def bits(monitor: Monitor) -> tuple[str, dict[str, bytes]]:
    """All that a monitor knows, to the bit."""
    document, arrays = monitor.state()
    return json.dumps(document), {name: each.tobytes() for name, each in arrays.items()}


def alarm(monitor: Monitor, direction: str = "less", kind: str = "drifted") -> Alarm:
    (found,) = (each for each in monitor.standing if (each.direction, each.kind) == (direction, kind))
    return found


# The same bits


@given(seeds, st.lists(st.integers(0, N), max_size=6), st.sampled_from([0.0, 0.6, -2.0]))
def test_rows_may_be_cut_anywhere(seed: int, cuts: list[int], drop: float) -> None:
    rows, parts = payoffs(seed, drop), monitor_of(long_run=1.7)
    for part in zip(*(np.split(each, sorted(cuts)) for each in rows), strict=True):
        parts.observe(*part)
    whole = monitor_of(long_run=1.7).observe(*rows)
    assert bits(parts) == bits(whole)
    assert parts.standing == whole.standing
    pd.testing.assert_frame_equal(parts.evidence, whole.evidence, check_exact=True)


def test_rows_may_come_one_by_one() -> None:
    single = monitor_of()
    for promised, realised in zip(*payoffs(), strict=True):
        single.observe(promised, realised)
    assert bits(single) == bits(watched())


@given(seeds, st.integers(0, N), st.booleans())
def test_a_copy_and_a_state_go_on_to_the_same_bits_at_any_moment(seed: int, at: int, restarted: bool) -> None:
    promised, realised = payoffs(seed, 2.0)
    monitor = monitor_of(directions=("more", "less"), sense="min", tolerance=0.05, horizon=77, false_alarms=0.2)
    monitor.observe(promised[:at], realised[:at])
    if restarted:
        monitor.restart(1.3, long_run=2.0)
    document, arrays = monitor.state()
    again = Monitor.of_state(json.loads(json.dumps(document)), arrays)
    before, copied = bits(monitor), monitor.copy()
    assert bits(again) == bits(copied) == before
    for each in (again, copied):
        each.observe(promised[at:], realised[at:])
    assert bits(monitor) == before
    assert bits(again) == bits(copied) == bits(monitor.observe(promised[at:], realised[at:]))
    assert str(again) == str(copied) == str(monitor)


def test_what_is_handed_out_is_the_callers() -> None:
    monitor = watched().restart().observe(0.0, np.full(50, -1.0))
    before, (document, arrays) = bits(monitor), monitor.state()
    document["alarms"].clear()
    document["restarts"].append(3)
    for each in arrays.values():
        each[:] = 0
    evidence, alarms = monitor.evidence, monitor.alarms
    evidence["less"], alarms["row"] = 0.0, 0
    assert bits(monitor) == before


@given(seeds, st.sampled_from([-30, -3, 5, 40]))
def test_units_do_not_matter(seed: int, power: int) -> None:
    unit = 2.0**power  # to the bit: nothing is rounded
    promised, realised = payoffs(seed)
    scaled = monitor_of(sigma=unit, half_width=0.3 * unit).observe(unit * promised, unit * realised)
    assert scaled.standing == watched(seed).standing


@given(seeds, st.sampled_from([0.7, -0.7]))
def test_more_is_less_of_the_opposite(seed: int, drop: float) -> None:
    promised, realised = payoffs(seed, drop)
    mirrored = {each.direction: each for each in monitor_of(half_width=None).observe(-promised, -realised).standing}
    opposite = {"less": "more", "more": "less"}
    for each in monitor_of(half_width=None).observe(promised, realised).standing:
        other = mirrored.pop(opposite[each.direction])
        assert (other.row, other.onset) == (each.row, each.onset)
        assert other.evidence == pytest.approx(each.evidence)
    assert not mirrored


def test_one_promise_stands_for_all_rows() -> None:
    _, realised = payoffs()
    assert bits(monitor_of().observe(10, realised)) == bits(monitor_of().observe(np.full(N, 10.0), realised))


# What it finds


def test_the_onset_is_near_the_true_change() -> None:
    found = [alarm(watched(seed)) for seed in range(60)]
    assert all(each.onset <= each.row for each in found)
    away = np.array([abs(each.onset - CHANGE) for each in found])
    assert np.median(away) <= 8
    assert np.mean(away <= 40) >= 0.9


@pytest.mark.parametrize("drop", [1.0, -1.0])
def test_each_direction_is_found_and_told(drop: float) -> None:
    way, other = ("less", "more") if drop > 0 else ("more", "less")
    found = watched(drop=drop)
    assert {each.direction for each in found.standing} == {way}
    assert CHANGE <= alarm(found, way).row < N
    assert watched(drop=drop, directions=other).standing == ()
    assert alarm(watched(drop=drop, directions=[way]), way).row <= alarm(found, way).row  # the threshold is half of it


def test_a_single_direction_may_be_given_by_its_name() -> None:
    assert Monitor(1.0, directions="less").directions == ("less",)
    assert bits(watched(directions="less")) == bits(watched(directions=["less"]))


def test_broken_is_more_than_drifted() -> None:
    """Drifted is beyond the tolerance, broken is beyond the half-width; the stronger comes first."""
    little, much = (watched(drop=drop, half_width=0.9) for drop in (0.6, 2.0))
    assert [each.kind for each in little.standing] == ["drifted"]
    assert [each.kind for each in much.standing] == ["broken", "drifted"]
    assert alarm(much, kind="broken").row > alarm(much, kind="drifted").row
    assert [each.kind for each in watched(drop=2.0, half_width=None).standing] == ["drifted"]


def test_a_half_width_within_the_tolerance_is_that() -> None:
    found = watched(tolerance=0.4, half_width=0.1)
    broken, drifted = found.standing
    assert (broken.row, broken.onset) == (drifted.row, drifted.onset)
    assert broken.evidence == pytest.approx(drifted.evidence)


def test_a_difference_within_the_tolerance_does_not_matter() -> None:
    promised, realised = payoffs(drop=0.0, n=20_000)
    assert not monitor_of(tolerance=0.2).observe(promised, realised - 0.15).standing
    assert alarm(monitor_of(tolerance=0.0).observe(promised, realised - 0.15)).direction == "less"


@pytest.mark.parametrize(
    ("terms", "threshold"),
    [
        ({}, 2 * 5000 / 0.05),
        ({"directions": "more"}, 5000 / 0.05),
        ({"horizon": 100, "false_alarms": 0.5}, 2 * 100 / 0.5),
        ({"horizon": 1, "directions": ["less"], "false_alarms": 0.2}, 1 / 0.2),
    ],
)
def test_an_alarm_is_raised_at_the_first_row_whose_evidence_reaches_the_threshold(
    terms: dict[str, Any], threshold: float
) -> None:
    monitor = watched(drop=-0.8, half_width=None, **terms)
    assert monitor.threshold == pytest.approx(threshold)
    rows = {name: np.empty(N) for name in monitor.directions}
    again = monitor_of(half_width=None, **terms)
    for i, (promised, realised) in enumerate(zip(*payoffs(drop=-0.8), strict=True)):
        again.observe(promised, realised)
        for way, name in enumerate(again.directions):
            rows[name][i] = again.state()[1]["evidence"][1, way].sum()
    for each in monitor.standing:
        evidence = rows[each.direction]
        assert evidence[each.row] == each.evidence >= threshold
        assert (evidence[: each.row] < threshold).all()
    assert {each.direction for each in monitor.standing} == {name for name in rows if rows[name].max() >= threshold}


def test_an_alarm_stays_as_it_was_raised() -> None:
    monitor = watched()
    standing = monitor.standing
    monitor.observe(0.0, np.random.default_rng(1).normal(5.0, 1.0, 500))
    assert set(standing) < set(monitor.standing)
    assert {each.direction for each in monitor.standing} == {"less", "more"}


def test_dependent_rows_raise_no_alarm_if_it_is_told() -> None:
    def wandering(seed: int) -> Floats:
        steps, series = np.random.default_rng(seed).normal(size=3000), np.zeros(3000)
        for i in range(1, 3000):
            series[i] = 0.8 * series[i - 1] + 0.6 * steps[i]
        return series

    alarms = {
        f: sum(bool(Monitor(1.0, long_run=f).observe(0.0, wandering(seed)).standing) for seed in range(30))
        for f in (1.0, 9.0)
    }
    assert alarms[9.0] <= 3
    assert alarms[1.0] >= 20


# Restarts


def test_a_restart_drops_the_evidence_and_lists_the_alarms() -> None:
    promised, realised = payoffs()
    monitor = monitor_of(half_width=0.2).observe(promised, realised)
    before, rows = monitor.standing, monitor.rows
    assert len(before) == 2
    assert monitor.restart(2.0, half_width=0.7) is monitor
    assert (monitor.standing, monitor.rows, monitor.restarts) == ((), rows, (N,))
    assert (monitor.sigma, monitor.half_width, monitor.long_run) == (2.0, 0.7, 1.0)
    monitor.observe(promised, 2 * realised - promised)
    fresh = Monitor(2.0, half_width=0.7).observe(promised, 2 * realised - promised)
    expected = [(each.row + N, each.onset + N, each.kind, each.evidence, N) for each in fresh.standing]
    assert expected == [(each.row, each.onset, each.kind, each.evidence, each.since) for each in monitor.standing]
    listed = [Alarm(**{str(name): value for name, value in row.items()}) for row in monitor.alarms.to_dict("records")]
    assert listed == [*sorted(before, key=lambda each: each.row), *sorted(monitor.standing, key=lambda each: each.row)]


def test_evidence_just_short_of_an_alarm_is_dropped() -> None:
    promised, realised = payoffs()
    row = alarm(watched()).row
    monitor = monitor_of().observe(promised[:row], realised[:row])
    again = monitor.copy().restart().observe(promised[row : row + 5], realised[row : row + 5])
    assert not monitor.standing
    assert not again.standing
    assert alarm(monitor.observe(promised[row], realised[row])).row == row


def test_what_a_restart_is_not_told_stays() -> None:
    monitor = monitor_of(sigma=3.0, half_width=0.5, long_run=2.0).restart(long_run=4.0)
    assert (monitor.sigma, monitor.half_width, monitor.long_run) == (3.0, 0.5, 4.0)


def test_a_restart_that_is_refused_changes_nothing() -> None:
    monitor = watched()
    before = bits(monitor)
    with pytest.raises(InputError, match="sigma must be a finite number at least 1e-300; got 0"):
        monitor.restart(0.0)
    with pytest.raises(InputError, match="long_run must be"):
        monitor.restart(2.0, long_run=0.5)
    assert bits(monitor) == before


# What it shows


def test_the_history_is_that_of_its_rows() -> None:
    promised, realised = payoffs()
    monitor, evidence = watched(), list[Floats]()
    again = monitor_of()
    for pair in zip(promised, realised, strict=True):
        again.observe(*pair)
        evidence.append(again.state()[1]["evidence"][1].sum(axis=1))
    frame = monitor.evidence
    assert list(frame) == ["first", "rows", "promised", "realised", "less", "more"]
    assert frame.attrs == {"threshold": pytest.approx(math.log10(monitor.threshold))}
    assert frame["rows"].sum() == N
    for _, first, rows, mean, earned, less, more in frame.itertuples():
        span = slice(int(first), int(first + rows))
        assert (mean, earned) == pytest.approx((promised[span].mean(), realised[span].mean()))
        assert (less, more) == pytest.approx(tuple(np.log10(np.array(evidence)[span].max(axis=0))))


def test_evidence_of_nothing_can_be_shown() -> None:
    frame = monitor_of(tolerance=1e3).observe(0.0, np.zeros(3)).evidence
    assert np.isfinite(frame.to_numpy()).all()
    assert len(monitor_of().evidence) == 0


def test_memory_is_bounded() -> None:
    monitor = monitor_of(half_width=None, horizon=1, false_alarms=0.9, directions="less")
    for number in range(MOST_LISTED + 150):
        monitor.observe(0.0, np.full(40, -5.0))
        assert len(monitor.standing) == 1
        monitor.restart(sigma=1.0 + number % 2)
    monitor.observe(0.0, np.full(40, -5.0))
    assert monitor.rows == 40 * (MOST_LISTED + 151)
    assert len(monitor.alarms) == len(monitor.restarts) == len(monitor.state()[0]["alarms"]) == MOST_LISTED
    assert monitor.alarms["row"].is_monotonic_increasing
    assert monitor.alarms["since"].iloc[-1] == monitor.restarts[-1] == monitor.rows - 40
    assert MOST_SPANS / 2 < len(monitor.evidence) <= MOST_SPANS
    assert sum(each.size for each in monitor.state()[1].values()) < 5 * MOST_SPANS
    assert bits(monitor.copy()) == bits(monitor)


def test_it_says_how_it_stands() -> None:
    monitor = Monitor(1.0)
    assert repr(monitor) == "Monitor(no alarm in 0 rows)"
    assert str(monitor.observe(1.0, 1.0)) == "no alarm in 1 row"
    assert str(monitor.restart()) == "no alarm in 0 rows since the restart at row 1"
    assert str(monitor.observe(1.0, np.ones(2000))) == "no alarm in 2,000 rows since the restart at row 1"
    raised = alarm(monitor.observe(1.0, np.zeros(100)))
    told = f"than promised since about row {raised.onset:,} (alarm at row {raised.row:,}; {DOUBT})"
    assert str(monitor) == f"earned less {told}"
    assert monitor.doubt == DOUBT
    costs = Monitor(1.0, sense="min", horizon=1000, false_alarms=0.125, half_width=0.1).observe(1.0, np.full(90, 2.0))
    first = alarm(costs, "more", "broken")
    assert str(costs) == (
        f"cost more than the promise allows for since about row {first.onset} (alarm at row {first.row}; "
        "false alarms at most 12.5 % in 1,000 rows)"
    )


def test_an_alarm_says_which_rows_it_numbers() -> None:
    raised = Alarm(1043, 12, "more", "drifted", 2e5, 0)
    assert (
        raised.sentence(of="of today") == "earned more than promised since about row 12 of today (alarm at row 1,043)"
    )


def test_the_plot_has_a_curve_for_each_direction() -> None:
    mpl.use("Agg")
    monitor, axes = watched().restart().observe(*payoffs(1)), Figure().subplots()
    assert monitor.plot(axes) is axes
    curves = {str(line.get_label()): np.asarray(line.get_ydata(), np.float64) for line in axes.lines}
    for name in monitor.directions:
        np.testing.assert_allclose(curves[f"earned {name} than promised"], 10 ** monitor.evidence[name])


# Extreme numbers


@pytest.mark.parametrize("sigma", [LEAST_SIGMA, 1.0, LARGEST_VALUE])
@pytest.mark.parametrize("half_width", [None, 0.0, LARGEST_VALUE])
@pytest.mark.parametrize("long_run", [1.0, LARGEST_VALUE])
def test_the_largest_and_least_numbers_do_no_harm(sigma: float, half_width: float | None, long_run: float) -> None:
    monitor = monitor_of(sigma=sigma, half_width=half_width, long_run=long_run)
    for value in (LARGEST_VALUE, -LARGEST_VALUE, 0.0, -0.0, 5e-324):
        monitor.observe(value, np.full(5, -value)).observe(0.0, value)
    for each in monitor.state()[1].values():
        assert np.isfinite(each).all()
    assert np.isfinite(monitor.evidence.to_numpy()).all()
    assert monitor.rows == 30
    assert bits(monitor.copy()) == bits(monitor)


@pytest.mark.parametrize("size", [1e3, 1e60, LARGEST_VALUE])
def test_a_huge_change_is_seen(size: float) -> None:
    promised, realised = np.zeros(1500), np.r_[np.random.default_rng(0).normal(size=500), np.full(1000, -size)]
    raised = alarm(Monitor(1.0).observe(promised, realised))
    assert 500 <= raised.onset <= raised.row < 1500


def test_payoffs_that_are_as_promised_to_the_bit_raise_no_alarm() -> None:
    assert not Monitor(LEAST_SIGMA, half_width=0.0, tolerance=0.0).observe(7.0, np.full(20_000, 7.0)).standing


# Errors


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sigma": 0}, r"sigma must be a finite number at least 1e-300; got 0\."),
        ({"sigma": -1.0}, r"sigma must be a finite number at least 1e-300; got -1\.0\."),
        ({"sigma": math.nan}, r"sigma must be a finite number at least 1e-300; got nan\."),
        ({"sigma": math.inf}, "sigma must be a finite number"),
        ({"sigma": None}, "sigma must be a finite number"),
        ({"sigma": True}, "sigma must be a finite number"),
        ({"sigma": "1"}, "sigma must be a finite number"),
        ({"sigma": 1e121}, r"sigma must be at most 1e\+120; got 1e\+121\. Use larger units\."),
        ({"half_width": -0.1}, r"half_width must be a finite number at least 0; got -0\.1\."),
        ({"half_width": 1e121}, r"half_width must be at most 1e\+120; got 1e\+121\. Use larger units\."),
        ({"half_width": math.nan}, "half_width must be a finite number"),
        ({"long_run": 0.99}, r"long_run must be a finite number at least 1; got 0\.99\."),
        ({"long_run": 1e121}, r"long_run must be at most 1e\+120; got 1e\+121"),
        ({"tolerance": -0.1}, r"tolerance must be a finite number at least 0; got -0\.1\."),
        ({"tolerance": 1e121}, r"tolerance must be at most 1e\+120; got 1e\+121"),
        ({"horizon": 0}, r"horizon must be a whole number at least 1; got 0\."),
        ({"horizon": 100.0}, r"horizon must be a whole number at least 1; got 100\.0\."),
        (
            {"horizon": 10**13},
            r"horizon must be at most 1,000,000,000,000 rows, and false_alarms, a probability, below 1; got "
            r"10,000,000,000,000 and 0\.05\. The defaults are 5,000 and 0\.05\.",
        ),
        ({"false_alarms": 1}, r"false_alarms, a probability, below 1; got 5,000 and 1\. The defaults are"),
        ({"false_alarms": 0.0}, r"false_alarms must be a finite number at least 1e-09; got 0\.0\."),
        ({"directions": []}, r"directions must be 'less', 'more' or both; got \[\]\. Name each once\."),
        ({"directions": ["less", "less"]}, r"got \['less', 'less'\]\. Name each once\."),
        ({"directions": "lesser"}, r"directions must be one of 'less', 'more'; got 'lesser'\. Did you mean 'less'\?"),
        ({"directions": ["more", 3]}, r"directions must be one of 'less', 'more'; got 3\."),
        ({"sense": "maximum"}, r"sense must be one of 'max', 'min'; got 'maximum'\. Did you mean 'max'\?"),
    ],
)
def test_what_a_monitor_cannot_be_made_of(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        monitor_of(**given)


@pytest.mark.parametrize(
    ("promised", "realised", "words"),
    [
        (1.0, math.nan, r"realised must be finite; got nan\."),
        ([1.0, math.inf], [0.0, 0.0], r"promised must be finite; got inf as entry 1 of 2\. Give a number there\."),
        ("much", 1.0, r"promised must be numeric; got str \(not numbers\)\. Give an array of numbers\."),
        (1.0, None, r"realised must be numeric; got NoneType"),
        (1.0, 1.1e120, r"realised must be at most 1e\+120 in size; got 1\.1e\+120\. Use larger units\."),
        (-1.1e120, [1.0], r"promised must be at most 1e\+120 in size; got 1\.1e\+120\. Use larger units\."),
        (
            [1.0, 2.0],
            [1.0],
            r"promised and realised must have a number for each row; got shapes \(2,\) and \(1,\)\. Give arrays of the "
            r"same length, or single numbers\.",
        ),
        ([1.0], [1.0, 2.0], r"got shapes \(1,\) and \(2,\)"),
        ([1.0, 2.0], 1.0, r"got shapes \(2,\) and \(1,\)"),
        (1.0, [[1.0, 2.0]], r"got shapes \(1,\) and \(1, 2\)"),
        ([[1.0]], [1.0], r"got shapes \(1, 1\) and \(1,\)"),
    ],
)
def test_rows_that_cannot_be_looked_at_change_nothing(promised: Any, realised: Any, words: str) -> None:
    monitor = watched()
    before = bits(monitor)
    with pytest.raises(InputError, match=words):
        monitor.observe(promised, realised)
    assert bits(monitor) == before


@pytest.mark.parametrize(
    "make",
    [list, tuple, pd.Series, lambda rows: rows.astype(np.float32).astype(object), lambda rows: rows[::-1][::-1]],
)
def test_rows_may_be_of_any_kind(make: Callable[[Floats], Any]) -> None:
    promised, realised = (each.astype(np.float32).astype(np.float64) for each in payoffs())
    assert bits(monitor_of().observe(make(promised), make(realised))) == bits(monitor_of().observe(promised, realised))


def test_no_rows_are_no_look() -> None:
    monitor = watched()
    before = bits(monitor)
    assert bits(monitor.observe([], [])) == bits(monitor.observe(3.0, np.empty(0))) == before


# A name in public


def test_it_is_public() -> None:
    assert oe.Monitor is Monitor
    assert set(DIRECTIONS) == set(Monitor(1.0).directions)


@settings(max_examples=20)
@given(seeds, st.permutations(["less", "more"]))
def test_the_order_of_directions_is_that_of_columns_only(seed: int, order: list[str]) -> None:
    found, usual = watched(seed, directions=order), watched(seed)
    alarms = [{(each.row, each.onset, each.direction, each.kind) for each in one.standing} for one in (found, usual)]
    assert alarms[0] == alarms[1]
    assert list(found.evidence)[-2:] == order
    pd.testing.assert_frame_equal(found.evidence[usual.evidence.columns], usual.evidence)


@pytest.mark.parametrize("directions", [None, 3, ("less", None)])
def test_directions_of_another_type_are_refused(directions: Any) -> None:
    with pytest.raises(InputError, match="directions must be one of 'less', 'more'; got"):
        Monitor(1.0, directions=directions)


def test_copies_go_on_by_themselves() -> None:
    monitor = Monitor(1.0).observe(0.0, np.ones(20))
    for other in (monitor.copy(), copy.copy(monitor), copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))):
        other.observe(0.0, np.full(20, -3.0)).restart(2.0)
        assert (monitor.rows, monitor.sigma, monitor.restarts) == (20, 1.0, ())
