"""DecisionEnsemble.fit on rows that belong together or come in time order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError
from tests.ensembles.decision import (
    NEW,
    OLD,
    Ensemble,
    N,
    answers,
    fitted,
    grouped_frame,
    make,
    problem,
    refused,
    same,
    state,
)
from tests.problems import Floats

# Groups


def test_groups_may_be_given_as_labels_a_column_or_a_function() -> None:
    frame, Y, models = grouped_frame()
    by_column = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups="day")
    days = frame["day"]
    for groups in (days, days.tolist(), days.to_numpy(), np.arange(N) // 7, lambda X: X["day"]):
        ensemble = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups=groups)
        assert same(answers(ensemble, frame), answers(by_column, frame))
        np.testing.assert_array_equal(ensemble.record_.realised, by_column.record_.realised)
        assert ensemble.record_.clusters is not None
        np.testing.assert_array_equal(ensemble.record_.clusters, np.arange(N) // 7)
    assert not np.array_equal(by_column.record_.realised, fitted().record_.realised)


def test_an_audit_goes_by_the_groups_that_the_fit_found_in_x() -> None:
    frame, Y, models = grouped_frame()
    new = pd.DataFrame({"row": problem().X[NEW], "day": [f"day {i // 9}" for i in range(N)]})
    ensemble = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups="day")
    found, told, alone = (
        ensemble.audit(new, problem().Y[NEW], groups=groups).summary["half_width"].iloc[0]
        for groups in (None, np.arange(N) // 9, np.arange(N))
    )
    assert found == told != alone


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("told", [True, False])
def test_rows_given_several_times_promise_no_more(copies: int, told: bool) -> None:
    X, Y = problem().X[:200], problem().Y[:200]
    many, labels = np.repeat(X, copies), np.repeat(Y, copies, axis=0)
    once, often = make().fit(X, Y), make().fit(many, labels, groups=many if told else None)
    apart = make().fit(many, labels, groups=np.arange(len(many)))  # as if they were different
    new = np.tile(problem().X[NEW], 20)
    widths = [each.promise(new).high - each.promise(new).low for each in (once, often, apart)]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    assert widths[2] < 0.85 * widths[0]


def test_repeated_rows_are_in_the_same_fold() -> None:
    rng = np.random.default_rng(0)
    distinct, labels = rng.normal(size=(60, 30)), rng.normal(size=(60, 3))
    rows = np.concatenate([np.arange(60), rng.integers(60, size=140)])
    models = [(f"m{j}", oe.Columns([3 * j, 3 * j + 1, 3 * j + 2])) for j in range(10)]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(distinct[rows], labels[rows])
    clusters, folds = ensemble.record_.clusters, ensemble.record_.folds
    assert clusters is not None
    assert folds is not None
    np.testing.assert_array_equal(clusters[:, None] == clusters, rows[:, None] == rows)
    for row in range(60):
        assert len(set(folds[rows == row].tolist())) == 1
    assert fitted().record_.clusters is None


def nights(n: int, seed: int, blurred: bool) -> tuple[Floats, Floats]:
    """Two forecasts of what three panels yield, side by side, and what they yield; nothing by night.

    Blurred by next to nothing, so that no two rows are the same, it is the same world.
    """
    rng = np.random.default_rng(seed)
    day = rng.uniform(size=(n, 1)) < 0.6
    yields = rng.normal(2.0, 1.0, size=(n, 3))
    X = np.concatenate([(yields + rng.normal(size=(n, 3))) * day for _ in range(2)], axis=1)
    return X + 1e-9 * rng.normal(size=X.shape) * blurred, (yields + rng.normal(size=(n, 3))) * day


def test_rows_of_few_distinct_values_are_not_taken_for_repeats() -> None:
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    plain, blurred = (
        Ensemble(models, feasible=feasible.Simplex(3)).fit(*nights(500, 0, blur)) for blur in (False, True)
    )
    X, _ = nights(500, 1, False)
    widths = [each.promise(X).high - each.promise(X).low for each in (plain, blurred)]
    assert widths[0] < 2 * widths[1]
    assert ("not" in plain.finding_) == ("not" in blurred.finding_)


def test_folds_keep_groups_together() -> None:
    """A memory of the rows fitted on would shine if copies of a row were on both sides of a fold."""
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(40, 30))
    X, Y = np.repeat(distinct, 5, axis=0), np.repeat(rng.normal(size=(40, 3)), 5, axis=0)
    models = [(f"m{j}", oe.Columns([3 * j, 3 * j + 1, 3 * j + 2])) for j in range(10)]
    groups = np.repeat(np.arange(40), 5)
    naive = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    honest = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y, groups=groups)
    assert naive.record_.realised.mean() > honest.record_.realised.mean() + 0.2


@pytest.mark.parametrize("time_ordered", [True, False])
@pytest.mark.parametrize("count", [1, 4])
def test_too_few_groups_are_refused_in_words(count: int, time_ordered: bool) -> None:
    words = f"groups must have at least 5 different labels.*got {count}. Leave groups out if rows do not belong"
    refused(make(), problem().X[OLD], problem().Y[OLD], words, groups=np.arange(N) % count, time_ordered=time_ordered)


@pytest.mark.parametrize("time_ordered", [True, False])
@pytest.mark.parametrize("groups", [np.arange(N) % 5, np.arange(N) // 80], ids=["in turns", "one after the other"])
def test_five_groups_will_do(groups: Any, time_ordered: bool) -> None:
    ensemble = make().fit(problem().X[OLD], problem().Y[OLD], groups=groups, time_ordered=time_ordered)
    folds = ensemble.record_.folds
    assert folds is not None
    for label in range(5):
        assert len(set(folds[groups == label].tolist())) == 1


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(5), r"groups must hold one label for each of the 400 rows.*got an array of shape \(5,\)"),
        ([None] * N, "group labels must not be missing"),
        ("day", "groups must name a column of X"),
        (7, "groups must name a column of X"),
        (lambda X: np.zeros(3), "must return one label for each of the 400 rows"),
    ],
)
def test_invalid_groups_are_refused(groups: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make().fit(problem().X[OLD], problem().Y[OLD], groups=groups)


# Time order


def test_rows_in_time_order_are_treated_as_such() -> None:
    ensemble = fitted(time_ordered=True)
    assert ensemble.time_ordered_ is True
    assert ensemble.promise(problem().X[NEW]).time_ordered
    assert ensemble.record_.time_ordered
    left_out = ensemble.leaderboard_.query("kind == 'left out'")["why"]
    assert len(left_out) > 0
    assert all("more than 2 are needed" in why or "no cell" in why or "did not fall" in why for why in left_out)
    wide, plain = (each.promise(problem().X[NEW]) for each in (ensemble, fitted()))
    assert wide.high - wide.low > plain.high - plain.low


@pytest.mark.parametrize("flag", [np.True_, np.False_])
def test_numpy_booleans_are_accepted(flag: Any) -> None:
    ensemble = make().fit(problem().X[OLD], problem().Y[OLD], time_ordered=flag)
    assert ensemble.time_ordered_ is bool(flag)
    assert same(state(ensemble), state(fitted(time_ordered=bool(flag))))


def test_folds_of_rows_in_time_order_are_contiguous() -> None:
    """Neighbours are copies of each other: only contiguous folds keep them from telling of each other."""
    rng = np.random.default_rng(0)
    X, Y = np.repeat(rng.normal(size=(40, 30)), 10, axis=0), np.repeat(rng.normal(size=(40, 3)), 10, axis=0)
    models = [(f"m{j}", oe.Columns([3 * j, 3 * j + 1, 3 * j + 2])) for j in range(10)]
    shuffled = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    in_order = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y, time_ordered=True)
    assert shuffled.record_.realised.mean() > in_order.record_.realised.mean() + 0.3
