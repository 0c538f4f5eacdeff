"""Refits of a live ensemble: when they are due, on which rows, beside or at once, and what becomes of failures."""

from __future__ import annotations

import copy
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.exceptions import InputError, RefitWarning
from tests.ensembles.decision import ACCESS, SENSES, D, Ensemble, N, answers, fitted, make, problem, same
from tests.ensembles.live import LATE, NEWER, Diary, bits, cut, live, told
from tests.problems import Floats, Problem, random_problem

X, Y = problem().X, problem().Y
LATER = slice(2 * N - 50, 2 * N)
BIG = N - 1
"""Batches of members that are larger are those of a fit."""


def labels_at(ensemble: oe.LiveEnsemble) -> list[int]:
    """After how many labels it was fitted again."""
    found: list[int] = ensemble.refits_["labels"].tolist()
    return found


def fitted_on(diary: Diary, refit: int = -1) -> list[int]:
    """The rows that a refit had to learn from: those of the fit, then those that had arrived, as they were decided."""
    arrived = [row for row, _ in diary.learned[: labels_at(diary.live)[refit]]]
    return [*range(N), *sorted(arrived, key=lambda row: diary.decided[row].number)]


def require_fitted_on(diary: Diary, rows: Any, access: str = "models", sense: str = "max", **fit: Any) -> None:
    """Fail unless the latest fit is, to the bit, a first fit on these rows."""
    again, fresh = diary.live.refitted_, make(access, sense=sense).fit(X[rows], diary.Y[rows], **fit)
    assert isinstance(again, Ensemble)
    assert again.n_rows_ == len(rows)
    assert same(answers(again, X[LATER]), answers(fresh, X[LATER]))
    np.testing.assert_array_equal(again.record_.realised, fresh.record_.realised)
    assert again.leaderboard_.equals(fresh.leaderboard_)


def play_at_random(diary: Diary, seed: int = 3) -> Diary:
    """Rows are decided in an order that is not theirs, and labels come in yet another one."""
    rng, waiting = np.random.default_rng(seed), list[int]()
    for now in cut(rng.permutation(NEWER).tolist(), 25):
        diary.decide(now)
        waiting += now
        here = [row for row in waiting if rng.random() < 0.5]
        waiting = [row for row in waiting if row not in set(here)]
        for part in cut(rng.permutation(here).tolist(), 9):
            diary.observe(part)
    return diary


# When


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_by_default_a_refit_is_due_after_a_sixth_of_the_rows_fitted_on(batch: int) -> None:
    diary = Diary(live()).play(batch=batch)
    expected, rows, new = list[int](), N, 0
    for now in cut(NEWER, batch):
        new += len(now)
        if new >= max(60, rows // 6):
            expected.append(now[-1] + 1 - N)
            rows, new = rows + new, 0
    assert labels_at(diary.live) == expected
    refits = diary.live.refits_
    assert list(refits.columns) == ["decided", "labels", "why", "rows", "taken_up", "outcome", "failed"]
    assert refits["why"].tolist() == [f"{each} new labels" for each in np.diff([0, *expected])]
    assert refits["rows"].tolist() == [N + each for each in expected]
    assert refits["outcome"].tolist() == [f"{N + each} rows" for each in expected]
    assert refits["taken_up"].tolist() == refits["decided"].tolist() == expected


def test_small_fits_wait_for_sixty_labels() -> None:
    ensemble = make().fit(X[:150], Y[:150])
    diary = Diary(oe.LiveEnsemble(ensemble)).play(range(150, 400), batch=1)
    assert labels_at(diary.live) == [60, 120, 180, 240]


def test_labels_make_a_refit_due_and_not_decisions() -> None:
    diary = Diary(live(refit=30))
    diary.decide(range(N, N + 200))
    assert diary.live.refits_.empty
    diary.observe(range(N + 50, N + 79))
    assert diary.live.refits_.empty
    diary.live.observe([N + 50], Y[[N + 50]])  # given before: nothing new
    assert diary.live.refits_.empty
    diary.observe([N + 199])
    assert diary.live.refits_[["decided", "labels", "rows"]].to_numpy().tolist() == [[200, 30, N + 30]]


BREAKS: dict[str, tuple[int, Callable[[Floats], Floats], str]] = {
    "at once": (0, lambda Y: -Y - 1.0, "less"),
    "later": (70, lambda Y: -Y - 1.0, "less"),
    "to the better": (0, lambda Y: Y + 2.0, "more"),
}


@SENSES
@pytest.mark.parametrize("name", BREAKS)
def test_an_alarm_makes_a_refit_due_earlier(name: str, sense: str) -> None:
    """As soon as a monitor of the same promise has an alarm, and 60 labels have come."""
    at, change, direction = BREAKS[name]
    given = random_problem(0, n=1600, omega="simplex")
    labels, n, sign = given.Y.copy(), 1200, 1.0 if sense == "max" else -1.0
    labels[n + at :] = sign * change(sign * labels[n + at :])
    ensemble = make(given=given, sense=sense).fit(given.X[:n], labels[:n])
    watched = Diary(oe.LiveEnsemble(ensemble, refit="never"), given.X, labels)
    diary = Diary(oe.LiveEnsemble(ensemble), given.X, labels)
    monitor, other = diary.live.monitor, watched.live.monitor
    assert monitor is not None
    assert other is not None
    for now in cut(range(n, n + 190), 10):
        watched.play(now, batch=10)
        diary.play(now, batch=10)
        if now[-1] + 1 - n >= 60 and other.standing:
            break
    due, first = now[-1] + 1 - n, other.standing[0]
    assert due < n // 6
    assert labels_at(diary.live) == [due]
    words = f"alarm: {first.kind}, {first.direction} than promised"
    assert diary.live.refits_["why"].tolist() == [words]
    assert (first.direction == direction) == (sense == "max")
    assert not monitor.restarts
    diary.play(range(n + due, n + due + 10), batch=10)
    assert monitor.standing == ()
    assert len(monitor.alarms) >= 1
    assert monitor.restarts == (due,)
    assert labels_at(diary.live) == [due]
    diary.check()


@pytest.mark.parametrize("every", [1, 45, 130])
def test_a_number_is_that_of_new_labels(every: int) -> None:
    rows = range(N, N + 20) if every == 1 else NEWER
    diary = Diary(live(refit=every)).play(rows, batch=1)
    assert labels_at(diary.live) == list(range(every, len(rows) + 1, every))


def test_a_number_of_labels_is_no_matter_of_alarms() -> None:
    labels = Y.copy()
    labels[N:] = -labels[N:] - 1.0
    diary = Diary(live(refit=150), X, labels).play(batch=10)
    assert labels_at(diary.live) == [150, 300]
    assert diary.live.monitor is not None
    assert len(diary.live.monitor.alarms) >= 1


@pytest.mark.parametrize("kind", [bool, int, np.bool_, lambda yes: [0] if yes else []], ids=["bool", "int", "np", "[]"])
def test_a_rule_is_asked_after_labels_and_may_look_at_all(kind: Any) -> None:
    asked = list[tuple[int, int]]()

    def rule(ensemble: oe.LiveEnsemble) -> Any:
        asked.append((ensemble.rows_, len(ensemble.refits_)))
        return kind(ensemble.rows_ % 60 == 0 and ensemble.certificate()["rows"][0] > 100)

    diary = Diary(live(refit=rule)).play(range(N, N + 260))
    assert asked == [(rows, int(rows > 120) + int(rows > 180) + int(rows > 240)) for rows in range(20, 261, 20)]
    assert labels_at(diary.live) == [120, 180, 240]
    assert set(diary.live.refits_["why"]) == {"asked for"}
    rows = [row for row, _ in diary.learned][-1:]
    diary.live.observe(rows, Y[rows])
    diary.live.observe([], np.empty((0, D)))
    assert len(asked) == 13


def test_a_rule_that_fails_loses_no_labels() -> None:
    def rule(ensemble: oe.LiveEnsemble) -> bool:
        if ensemble.rows_ == 40:
            raise ZeroDivisionError
        return ensemble.rows_ == 60

    diary = Diary(live(refit=rule)).play(range(N, N + 20))
    diary.decide(range(N + 20, N + 60))
    with pytest.raises(ZeroDivisionError):
        diary.observe(range(N + 20, N + 40))
    diary.observe(range(N + 40, N + 60))
    require_fitted_on(diary, fitted_on(diary))
    diary.check()


@pytest.mark.parametrize("access", ["models", "policies"])
def test_without_refits_two_policies_are_followed(access: str) -> None:
    diary = Diary(live(access, refit="never")).play(late=LATE)
    assert diary.live.policies_ == ("fitted", "online stack")
    assert diary.live.refits_.empty
    assert diary.live.refitted_ is diary.live.ensemble_
    assert len(diary.live.weights_) == 2
    assert diary.live.monitor is not None
    assert diary.live.monitor.restarts == ()
    assert diary.live.monitor.rows == diary.live.rows_ > 200
    diary.check()


# On which rows


@ACCESS
@SENSES
def test_a_refit_is_a_fit_on_rows_whose_labels_have_come_as_they_were_decided(access: str, sense: str) -> None:
    diary = play_at_random(Diary(live(access, sense=sense, refit=70)))
    rows = fitted_on(diary)
    assert len(diary.swaps) >= 4
    assert rows[N:] != sorted(rows[N:])
    assert rows[N:] != [row for row, _ in diary.learned[: len(rows) - N]]
    require_fitted_on(diary, rows, access, sense)
    with pytest.raises(AssertionError):
        require_fitted_on(diary, sorted(rows), access, sense)
    diary.check()


@ACCESS
@pytest.mark.parametrize("sense", ["max", "min"])
def test_rows_in_time_order_stay_in_it(access: str, sense: str) -> None:
    diary = Diary(oe.LiveEnsemble(fitted(access, sense=sense, time_ordered=True), refit=80)).play(late=LATE)
    rows = fitted_on(diary)
    assert rows == sorted(rows) != [*range(N), *(row for row, _ in diary.learned[: len(rows) - N])]
    assert diary.live.refitted_.time_ordered_
    require_fitted_on(diary, rows, access, sense, time_ordered=True)
    diary.check()


@pytest.mark.parametrize("time_ordered", [False, True])
def test_rows_are_in_order_also_where_only_some_have_weights(time_ordered: bool) -> None:
    ensemble = make().fit(X[:N], Y[:N], time_ordered=time_ordered)
    diary = Diary(oe.LiveEnsemble(ensemble, refit=100))
    rows = list(range(N, N + 100))
    diary.decide(rows)
    diary.observe(rows[60:], np.full(40, 2.0))
    diary.observe(rows[:60])
    weights = np.concatenate([np.ones(N + 60), np.full(40, 2.0)])
    require_fitted_on(diary, [*range(N), *rows], time_ordered=time_ordered, sample_weight=weights)


def test_rows_of_single_calls_are_joined_in_order() -> None:
    rows = np.random.default_rng(0).permutation(range(N, N + 150)).tolist()
    diary = Diary(live(refit=150))
    for now in cut(range(N, N + 150), 1):
        diary.decide(now)
    for now in cut(rows, 1):
        diary.observe(now)
    require_fitted_on(diary, list(range(N + 150)))


def test_the_random_state_stays_the_same() -> None:
    ensemble = make().fit(X[:N], Y[:N], random_state=7)
    diary = Diary(oe.LiveEnsemble(ensemble, refit=100)).play(range(N, N + 220))
    rows = fitted_on(diary)
    require_fitted_on(diary, rows, random_state=7)
    with pytest.raises(AssertionError):
        require_fitted_on(diary, rows, random_state=8)


def test_rows_that_an_update_was_given_before_are_learned_from() -> None:
    ensemble = make().fit(X[: N - 100], Y[: N - 100])
    ensemble.update(X[N - 100 : N], Y[N - 100 : N])
    diary = Diary(oe.LiveEnsemble(ensemble, refit=100)).play(range(N, N + 100))
    require_fitted_on(diary, list(range(N + 100)))


def test_parameters_of_the_ensemble_are_those_of_refits() -> None:
    ensemble = make(on_error="absent", context=None, sense="min").fit(X[:N], Y[:N])
    diary = Diary(oe.LiveEnsemble(ensemble, refit=100)).play(range(N, N + 100))
    assert diary.live.refitted_ is not diary.live.ensemble_
    assert isinstance(diary.live.refitted_, Ensemble)
    assert diary.live.refitted_.get_params(deep=False).keys() == ensemble.get_params(deep=False).keys()
    for name in ("sense", "on_error", "context", "tolerance", "cv"):
        assert getattr(diary.live.refitted_, name) == getattr(ensemble, name)


@pytest.mark.parametrize("window", [150, N, N + 130, 5 * N])
def test_a_window_keeps_the_latest_rows(window: int) -> None:
    diary = play_at_random(Diary(live(refit=90, window=window)))
    rows = fitted_on(diary)
    assert diary.live.refits_["rows"].tolist() == [min(N + each, window) for each in labels_at(diary.live)]
    if window >= N:
        require_fitted_on(diary, rows[-window:])
    assert diary.live.refitted_.n_rows_ == min(len(rows), window)


def test_rows_that_are_kept_are_not_many_more_than_the_window_though_refits_are_rare() -> None:
    again = np.random.default_rng(2).integers(0, 2 * N, size=3000)
    diary = Diary(live(refit=2900, window=N), X[again], Y[again])
    kept = [diary.play(range(start, start + 50), batch=10).live._now.rows.kept for start in range(0, 2850, 50)]
    assert max(kept) <= 1.25 * N + 64
    assert min(kept[1:]) >= N
    diary.play(range(2850, 3000), batch=10)
    assert diary.live.refits_["rows"].tolist() == [N]


def test_rows_that_come_late_are_learned_from_though_later_ones_fill_the_window() -> None:
    """The window is of the rows that are there when a refit is due, in the order in which they were decided."""
    diary = Diary(live(refit=100, window=150))
    diary.decide(range(N, N + 300))
    diary.observe(range(N + 200, N + 300))
    require_fitted_on(diary, [*range(N - 50, N), *range(N + 200, N + 300)])
    diary.observe(range(N, N + 100))
    require_fitted_on(diary, [*range(N + 50, N + 100), *range(N + 200, N + 300)])


def test_by_default_the_window_is_four_times_the_rows_fitted_on_if_these_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("optensemble.ensembles._live_refits._WINDOW", 300)
    given = random_problem(0, n=900, omega="simplex")
    small, large = (make(given=given).fit(given.X[:n], given.Y[:n]) for n in (100, 150))
    diaries = [
        Diary(oe.LiveEnsemble(each, refit=100), given.X, given.Y).play(range(150, 850)) for each in (small, large)
    ]
    assert [diary.live.refits_["rows"].tolist() for diary in diaries] == [
        [200, 300, 400, 400, 400, 400, 400],
        [250, 350, 450, 550, 600, 600, 600],
    ]
    monkeypatch.setattr("optensemble.ensembles._live_refits._WINDOW", 450)
    diary = Diary(oe.LiveEnsemble(small, refit=100), given.X, given.Y).play(range(150, 850))
    assert diary.live.refits_["rows"].tolist() == [200, 300, 400, 450, 450, 450, 450]


# The monitor


def test_the_monitor_starts_afresh_with_the_scale_of_the_refit_once_labels_of_its_rows_arrive() -> None:
    labels = Y.copy()
    labels[N:] *= 3.0
    diary = Diary(live(refit=100), X, labels)
    first = diary.live.monitor
    assert first is not None
    sigmas = [first.sigma]
    for now in cut(range(N, N + 320), 20):
        diary.play(now)
        if first.sigma != sigmas[-1]:
            sigmas.append(first.sigma)
            record = diary.live.refitted_.record_
            assert (first.sigma, first.long_run) == (record.deviation, record.long_run)
            assert first.half_width == min(record.own_half_width, 1e120)
            assert first.tolerance == max(0.1, 1.96 * np.sqrt(record.long_run / record.effective))
            assert len(diary.live.refits_) == len(first.restarts)
    assert diary.live.monitor is first
    assert first.restarts == (100, 200, 300)
    assert len(sigmas) == 4
    assert sigmas[-1] > 1.5 * sigmas[0]


@pytest.mark.parametrize("refit_in", ["call", "thread"])
def test_the_monitor_watches_one_fit_after_the_other(refit_in: str) -> None:
    """A fit is watched until labels of rows come that the next has decided; rows of the first are then passed over."""
    diary = Diary(live(refit=lambda ensemble: ensemble.rows_ == 40, refit_in=refit_in))
    diary.decide(range(N, N + 100))
    assert diary.live.monitor is not None
    diary.observe(range(N, N + 40))
    assert diary.live.monitor.rows == 40
    diary.decide(range(N + 100, N + 110))
    diary.decide(range(N + 110, N + 130))
    again = diary.live.refitted_
    assert len(diary.swaps) == 1
    first = 100 if refit_in == "call" else 110
    diary.observe(range(N + 50, N + first - 10))
    assert diary.live.monitor.rows == first - 20
    assert not diary.live.monitor.restarts
    diary.observe(range(N + first - 10, N + first + 10))
    assert diary.live.monitor.rows == first
    assert diary.live.monitor.restarts == (first - 10,)
    promised = diary.live.monitor.evidence["promised"][first - 10 :]
    np.testing.assert_allclose(promised, again.answer(X[N + first : N + first + 10]).promised)
    diary.observe(range(N + 40, N + 50))
    assert diary.live.monitor.rows == first
    diary.check()


@pytest.mark.parametrize("delay", [0, 30, 90, 250])
def test_a_break_is_found_however_late_labels_are(delay: int) -> None:
    """Also where every label is later than the next refit: each fit is watched, for as long as it decided."""
    given = random_problem(0, n=1600, omega="simplex")
    labels = given.Y.copy()
    labels[N + 300 :] = -labels[N + 300 :] - 1.0
    ensemble = make(given=given).fit(given.X[:N], labels[:N])
    diary = Diary(oe.LiveEnsemble(ensemble), given.X, labels)
    diary.play(range(N, 1600), late=np.full(1600, delay))
    monitor = diary.live.monitor
    assert monitor is not None
    assert monitor.rows == diary.live.rows_
    assert len(monitor.restarts) >= 4
    alarms = monitor.alarms
    assert (alarms["row"] > 300).all()
    assert 300 < alarms["row"].iloc[0] < 340
    assert alarms["direction"].iloc[0] == "less"
    assert diary.live.refits_["why"].str.startswith("alarm").any() or delay == 250
    diary.check()


def test_a_refit_that_fails_leaves_the_monitor_alone() -> None:
    switch, diary = switched(refit=100)
    with switch.broken():
        diary.play(range(N, N + 80))
        with pytest.warns(RefitWarning):
            diary.play(range(N + 80, N + 100))
    assert diary.live.monitor is not None
    assert diary.live.monitor.restarts == ()
    assert diary.live.monitor.rows == 100
    diary.check()


# Beside


class Switch:
    """What members do when they are asked for many rows, as in a fit: wait, sleep or fail."""

    def __init__(self, given: Problem | None = None) -> None:
        self.gate, self.seconds, self.fails, self.given = threading.Event(), 0.0, False, given or problem()
        self.error: type[BaseException] = RuntimeError
        self.gate.set()

    @property
    def models(self) -> list[tuple[str, Any]]:
        return [(name, self._member(model)) for name, model in self.given.models]

    def _member(self, model: Any) -> Any:
        def say(X: Any) -> Floats:
            if len(X) > BIG:
                time.sleep(self.seconds)
                if not self.gate.wait(10):
                    raise TimeoutError
                if self.fails:
                    raise self.error("the member is broken")
            found: Floats = model(X)
            return found

        return say

    @contextmanager
    def closed(self) -> Iterator[None]:
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()

    @contextmanager
    def broken(self, error: type[BaseException] = RuntimeError) -> Iterator[None]:
        self.error, self.fails = error, True
        try:
            yield
        finally:
            self.fails = False


def switched(**parameters: Any) -> tuple[Switch, Diary]:
    switch = Switch()
    ensemble = Ensemble(switch.models, feasible=problem().omega).fit(X[:N], Y[:N])
    return switch, Diary(oe.LiveEnsemble(ensemble, **parameters))


def learn_and_go_on(diary: Diary, start: int = N) -> None:
    """Have a refit made of 60 rows that were decided, and decide so many more that one that is made beside is due."""
    diary.observe(range(start, start + 60))
    diary.decide(range(start + 60, start + 75))
    diary.decide([start + 75])


@pytest.mark.parametrize("batch", [1, 20, 33])
def test_a_refit_beside_decides_from_the_row_on_that_was_said(batch: int) -> None:
    diary = Diary(live(refit=80, refit_in="thread")).play(batch=batch)
    due, rows, swaps = list[tuple[int, int]](), 0, list[int]()
    new, until = 0, None
    for now in cut(NEWER, batch):
        if until is not None and rows >= until:
            swaps.append(rows)
            until = None
        rows, new = rows + len(now), new + len(now)
        if until is None and new >= 80:
            due.append((rows, N + rows))
            until, new = rows + -(-new // 4), 0
    refits = diary.live.refits_
    assert len(refits) >= 3
    assert refits["taken_up"].tolist() == swaps
    assert list(zip(refits["labels"], refits["rows"], strict=True)) == due[: len(swaps)]
    fits = [0, *np.searchsorted(swaps, range(1, 2 * N - N), side="right").tolist()]
    assert [diary.decided[row].fit for row in NEWER] == fits
    diary.check()


def test_what_comes_while_a_refit_runs_is_for_the_next() -> None:
    switch, diary = switched(refit=40, refit_in="thread")
    diary.decide(range(N, N + 90))
    with switch.closed():
        diary.observe(range(N, N + 40))
        diary.observe(range(N + 40, N + 90))
        assert diary.live.refits_.empty
    diary.decide(range(N + 90, N + 100))
    diary.decide([N + 100])
    assert labels_at(diary.live) == [40]
    require_fitted_on(diary, list(range(N + 40)))
    diary.observe([N + 100])
    diary.decide(range(N + 101, N + 114))
    assert labels_at(diary.live) == [40]
    diary.decide([N + 114])
    assert labels_at(diary.live) == [40, 91]
    assert diary.live.refits_["decided"].tolist() == [90, 101]
    require_fitted_on(diary, [*range(N + 90), N + 100])


def test_decisions_go_on_while_a_refit_runs_until_its_row() -> None:
    switch, diary = switched(refit=40, refit_in="thread")
    diary.decide(range(N, N + 40))
    with switch.closed():
        diary.observe(range(N, N + 40))
        for row in range(N + 40, N + 50):
            diary.decide([row])
        diary.observe(range(N + 40, N + 50))
        assert diary.live.refits_.empty
        assert diary.live.refitted_ is diary.live.ensemble_
        assert {diary.decided[row].fit for row in range(N, N + 50)} == {0}
        waiting = threading.Thread(target=diary.decide, args=([N + 50],))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert N + 50 not in diary.decided
    waiting.join(60)
    assert diary.decided[N + 50].fit == 1
    assert diary.live.refits_["taken_up"].tolist() == [50]
    np.testing.assert_array_equal(diary.decided[N + 50].policies[1], diary.live.refitted_.decide(X[N + 50 : N + 51])[0])
    require_fitted_on(diary, list(range(N + 40)))
    diary.check()


@pytest.mark.parametrize("seconds", [0.0, 0.02])
def test_how_long_a_refit_takes_does_not_matter(seconds: float) -> None:
    (slow, left), (_, right) = (switched(refit=60, refit_in="thread") for _ in range(2))
    slow.seconds = seconds
    rng, waiting = np.random.default_rng(4), list[int]()
    for now in cut(NEWER, 15):
        assert told(left.decide(now)) == told(right.decide(now))
        waiting += now
        here = [row for row in waiting if rng.random() < 0.6]
        waiting = [row for row in waiting if row not in set(here)]
        for each in (left, right):
            each.observe(here)
    assert len(left.swaps) >= 3
    assert bits(left.live) == bits(right.live)
    left.check()


def test_beside_or_at_once_the_same_refits_are_made_of_the_same_rows() -> None:
    """Where all rows are decided before labels come, only the row from which it decides differs."""
    left, right = (Diary(live(refit=100, refit_in=where)) for where in ("call", "thread"))
    for each in (left, right):
        each.decide(range(N, N + 100))
        each.observe(range(N, N + 100))
        each.decide(range(N + 100, N + 125))
    assert [each.decided[N + 100].fit for each in (left, right)] == [1, 0]
    for each in (left, right):
        each.decide(range(N + 125, N + 150))
    assert [each.decided[N + 125].fit for each in (left, right)] == [1, 1]
    assert [each.live.refits_["taken_up"][0] for each in (left, right)] == [100, 125]
    decided = [each.live.refitted_.decide(X[LATER]) for each in (left, right)]
    np.testing.assert_array_equal(*decided)


# Failures


@pytest.mark.parametrize("refit_in", ["call", "thread"])
def test_a_refit_that_fails_leaves_the_fit_before_and_is_tried_again(refit_in: str) -> None:
    switch, diary = switched(refit=60, refit_in=refit_in)
    aside = 0 if refit_in == "call" else 15
    diary.decide(range(N, N + 60))
    words = (
        r"the refit on 460 rows failed \(RuntimeError: the member is broken\)\. The previous fit stays in force, and"
    )
    with switch.broken(), pytest.warns(RefitWarning, match=words + " another attempt is made when the next refit is"):
        learn_and_go_on(diary)
    refits = diary.live.refits_
    assert refits["outcome"].tolist() == ["failed: RuntimeError: the member is broken"]
    assert refits[["decided", "labels", "rows", "taken_up"]].to_numpy().tolist() == [[60, 60, N + 60, 60 + aside]]
    assert diary.live.refitted_ is diary.live.ensemble_
    diary.observe(range(N + 60, N + 76))
    diary.play(range(N + 76, N + 119), batch=1)
    assert len(diary.live.refits_) == 1
    diary.play(range(N + 119, N + 121), batch=1)
    diary.decide(range(N + 121, N + 161))
    diary.decide([N + 161])
    assert labels_at(diary.live) == [60, 120]
    assert diary.live.refits_["outcome"].tolist()[1] == f"{N + 120} rows"
    require_fitted_on(diary, list(range(N + 120)))
    diary.check()


def test_an_earlier_refit_goes_on_if_a_later_one_fails() -> None:
    switch, diary = switched(refit=60)
    diary.play(range(N, N + 60))
    latest = diary.live.refitted_
    assert latest is not diary.live.ensemble_
    with switch.broken(), pytest.warns(RefitWarning):
        diary.play(range(N + 60, N + 120))
    assert diary.live.refitted_ is latest
    answer = diary.decide(range(N + 120, N + 140))
    assert answer.policies == ("fitted", "refitted", "online stack")
    np.testing.assert_array_equal(diary.live._ledger.batches[-1].rows.proposed[1], latest.decide(X[N + 120 : N + 140]))
    diary.observe(range(N + 120, N + 140))
    diary.check()


@pytest.mark.parametrize("refit_in", ["call", "thread"])
def test_a_warning_that_is_made_an_error_loses_nothing(refit_in: str) -> None:
    (broken, left), (_, right) = (switched(refit=60, refit_in=refit_in) for _ in range(2))
    with broken.broken():
        for each in (left, right):
            each.decide(range(N, N + 60))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RefitWarning):
                learn_and_go_on(left)
    later = left.decided.keys() - set(range(N, N + 60))
    assert left.live.rows_ == 60
    assert left.live.decided_ == 60 + len(later)
    left.play([row for row in range(N + 60, N + 150) if row not in later], batch=1)
    assert left.live.refits_["outcome"].str.startswith("failed").tolist()[:1] == [True]
    left.check()


@pytest.mark.parametrize("refit_in", ["call", "thread"])
def test_an_interrupt_ends_the_refit_and_leaves_all_else(refit_in: str) -> None:
    switch, diary = switched(refit=60, refit_in=refit_in)
    diary.decide(range(N, N + 60))
    with switch.broken(KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        learn_and_go_on(diary)
    assert diary.live.rows_ == 60
    assert diary.live.refitted_ is diary.live.ensemble_
    assert diary.live.refits_["outcome"].tolist() == ["failed: KeyboardInterrupt: the member is broken"]
    assert diary.live.decided_ == len(diary.decided)
    diary.check()
    diary.play([row for row in range(N + 60, N + 170) if row not in diary.decided], batch=1)
    assert len(diary.swaps) == 1
    require_fitted_on(diary, fitted_on(diary))


def test_the_warning_is_of_the_line_that_called() -> None:
    switch, diary = switched(refit=60)
    diary.live.answer(X[N : N + 60])
    with switch.broken(), pytest.warns(RefitWarning) as caught:
        diary.live.observe(range(60), Y[N : N + 60])
    assert {each.filename for each in caught} == {__file__}


# Ensembles without rows


@pytest.fixture
def forgetful(tmp_path: Path) -> Ensemble:
    """An ensemble from a file without the rows that it was fitted on."""
    fitted().save(tmp_path / "e.oe", keep_rows=False)
    loaded = oe.load(tmp_path / "e.oe", models=dict(problem().models))
    assert isinstance(loaded, Ensemble)
    return loaded


def test_an_ensemble_without_rows_is_not_fitted_again(forgetful: Ensemble) -> None:
    with pytest.warns(RefitWarning, match=r"rows .*: it will not be refitted while it decides \(refit='never'\)"):
        ensemble = oe.LiveEnsemble(forgetful)
    assert ensemble.refit == "never"
    left, right = Diary(ensemble).play(late=LATE), Diary(live(refit="never")).play(late=LATE)
    assert bits(left.live) == bits(right.live)
    left.check()


def test_refits_without_rows_are_refused(forgetful: Ensemble) -> None:
    for refit in (60, lambda _: True):
        with pytest.raises(InputError, match=r"cannot be fitted again\. Give refit='never', or fit it on all rows"):
            oe.LiveEnsemble(forgetful, refit=refit)
    assert oe.LiveEnsemble(forgetful, refit="never").policies_ == ("fitted", "online stack")


def test_rows_of_an_update_alone_are_too_few_to_fit_again(forgetful: Ensemble) -> None:
    """Not those that it was fitted on, though they may be enough for a fit."""
    forgetful.update(X[N : N + 150], Y[N : N + 150])
    with pytest.warns(RefitWarning, match="not be refitted"):
        assert oe.LiveEnsemble(forgetful).refit == "never"


# Copies


@pytest.mark.parametrize("make", [oe.LiveEnsemble.copy, copy.copy, copy.deepcopy])
def test_a_copy_that_a_rule_makes_while_it_is_asked_goes_on_asking_it(make: Callable[[Any], Any]) -> None:
    asked, copies = list[oe.LiveEnsemble](), list[oe.LiveEnsemble]()

    def rule(ensemble: oe.LiveEnsemble) -> bool:
        asked.append(ensemble)
        if not copies:
            copies.append(make(ensemble))
        return ensemble.rows_ == 60

    diary = Diary(live(refit=rule)).play(range(N, N + 20))
    (copied,) = copies
    asked.clear()
    for now in cut(range(N + 20, N + 100), 20):
        for each in (diary.live, copied):
            each.answer(X[now], ids=now)
            each.observe(now, Y[now])
    assert [each is copied for each in asked] == [False, True] * 4
    assert labels_at(diary.live) == labels_at(copied) == [60]
    assert bits(diary.live) == bits(copied)
