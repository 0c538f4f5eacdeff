"""Forecasts learned out of fold, against a plain loop over folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.outputs import View
from optensemble.stacking.forecaster import (
    AVERAGE,
    MEAN,
    PATCHED,
    REFINED,
    RIDGE,
    STACK,
    Learned,
    _Tables,
    learn_forecasts,
)
from optensemble.stacking.stack import STRENGTHS, Design
from optensemble.stats.folds import Fold, folds
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stacking.textbook import World, make_world, standardised, textbook_pull, textbook_stack


def learn(world: World, parts: list[Fold], sampling: Sampling, threads: int = 1) -> tuple[Learned, View]:
    d = world.labels.shape[1]
    omega = feasible.Simplex(d)
    actions = np.stack([omega.argmax(np.ascontiguousarray(f)) for f in world.features])
    view = View(world.features, actions, world.labels.std(axis=0))
    buckets = Buckets(omega.lower, omega.upper, 10)
    return learn_forecasts(view, world.labels, omega, buckets, sampling, parts, threads), view


def textbook_forecasts(world: World, parts: list[Fold], pull: float) -> dict[str, Floats]:
    """Fit everything anew for every fold and strength; keep the strength of the lowest loss."""
    columns, found = standardised(world.features), {}
    stacked, mean = np.empty_like(world.labels), np.empty_like(world.labels)
    residual, ridge = np.empty((2, len(STRENGTHS), *world.labels.shape))
    for train, test in parts:
        stack = textbook_stack(world, train, pull)
        stacked[test], mean[test] = stack(world.features[:, test]), world.labels[train].mean(axis=0)
        left = world.labels[train] - stack(world.features[:, train])
        for s, strength in enumerate(STRENGTHS):
            residual[s, test] = SklearnRidge(alpha=strength).fit(columns[train], left).predict(columns[test])
            plain = SklearnRidge(alpha=strength).fit(columns[train], world.labels[train])
            ridge[s, test] = plain.predict(columns[test])
    found[MEAN], found[STACK] = mean, stacked
    for name, tried in ((REFINED, stacked + residual), (RIDGE, ridge)):
        found[name] = tried[int(np.argmin(np.square(tried - world.labels).sum(axis=(1, 2))))]
    return found


@pytest.mark.parametrize("specialised", [True, False])
@pytest.mark.parametrize("time_ordered", [True, False])
@pytest.mark.parametrize(("n", "d"), [(150, 4), (100, 36)])
def test_out_of_fold_forecasts_are_those_of_a_loop_over_folds(
    specialised: bool, time_ordered: bool, n: int, d: int
) -> None:
    world = make_world(5, n=n, d=d, specialised=specialised)
    sampling = Sampling(time_ordered)
    parts = sampling.folds(n, 7)
    learned, _ = learn(world, parts, sampling)
    expected = textbook_forecasts(world, parts, textbook_pull(world.features))
    loss = [np.square(world.labels - expected[name]).sum(axis=1) for name in (STACK, REFINED)]
    gain = loss[0] - loss[1]
    assert learned.refinement.gain == pytest.approx(gain.mean(), rel=1e-6, abs=1e-9)
    assert learned.refinement.error == pytest.approx(sampling.error(gain), rel=1e-6)
    assert learned.refinement.open == (gain.mean() > (2 if time_ordered else 1) * sampling.error(gain))
    assert (REFINED in learned.out_of_fold) == learned.refinement.open
    for name in (MEAN, STACK, RIDGE, *([REFINED] if learned.refinement.open else [])):
        np.testing.assert_allclose(learned.out_of_fold[name], expected[name], atol=1e-7, err_msg=name)
    np.testing.assert_allclose(learned.out_of_fold[AVERAGE], world.features.mean(axis=0), atol=1e-12)


def test_the_refinement_comes_in_where_members_are_specialised_and_stays_out_where_they_know_nothing() -> None:
    parts = folds(400, random_state=0)
    assert learn(make_world(0, n=400, specialised=True), parts, Sampling())[0].refinement.open
    blind = make_world(0, n=400)
    blind.features = np.random.default_rng(8).normal(size=blind.features.shape)
    learned = learn(blind, parts, Sampling())[0]
    assert not learned.refinement.open
    assert learned.forecaster.refinement is None
    assert REFINED not in learned.out_of_fold


def test_the_fit_on_all_rows_equals_the_textbook_version() -> None:
    world, parts = make_world(2, n=200, specialised=True), folds(200, random_state=0)
    learned, view = learn(world, parts, Sampling())
    omega = feasible.Simplex(4)
    forecasts = learned.forecaster(view, omega, Buckets(omega.lower, omega.upper, 10))
    stack = textbook_stack(world, np.arange(200), textbook_pull(world.features))(world.features)
    np.testing.assert_allclose(forecasts[STACK], stack, atol=1e-8)
    np.testing.assert_allclose(forecasts[MEAN], np.broadcast_to(world.labels.mean(axis=0), (200, 4)))
    columns = standardised(world.features)
    ridges = [SklearnRidge(alpha=s).fit(columns, world.labels).predict(columns) for s in STRENGTHS]
    assert min(np.abs(forecasts[RIDGE] - ridge).max() for ridge in ridges) < 1e-8
    refined = [SklearnRidge(alpha=s).fit(columns, world.labels - stack).predict(columns) for s in STRENGTHS]
    assert min(np.abs(forecasts[REFINED] - stack - each).max() for each in refined) < 1e-8


@pytest.mark.parametrize(("n", "d"), [(150, 4), (100, 36)])
def test_nothing_of_a_folds_labels_reaches_its_own_forecasts(n: int, d: int) -> None:
    world, parts = make_world(0, n=n, d=d), folds(n, random_state=1)
    view = View(world.features, np.zeros_like(world.features), np.ones(d))
    design, changed = Design(world.features), world.labels.copy()
    changed[parts[3].test] = 1000 * np.random.default_rng(2).normal(size=(len(parts[3].test), d))
    honest, other = (_Tables(view, design, y, parts) for y in (world.labels, changed))

    def alike(left: Floats, right: Floats) -> bool:
        # labels are summed about their mean over all rows: it cancels, up to the rounding of labels of size 1000
        return bool(np.allclose(left, right, rtol=1e-9, atol=1e-8))

    for number in range(len(parts)):
        left, right = honest.fit_fold(number), other.fit_fold(number)
        same = number == 3
        assert alike(left.stacked, right.stacked) == same
        assert alike(left.mean, right.mean) == same
        for strength in STRENGTHS[:4]:  # the strongest leave next to nothing of any label
            assert alike(left.refinement(strength), right.refinement(strength)) == same
            assert alike(left.ridge(strength), right.ridge(strength)) == same
        if same:
            for strength in STRENGTHS:
                assert alike(left.refinement(strength), right.refinement(strength))
                assert alike(left.ridge(strength), right.ridge(strength))


def test_threads_share_the_folds_and_change_nothing() -> None:
    world, parts = make_world(0, n=300, specialised=True), folds(300, random_state=1)
    one, two = (learn(world, parts, Sampling(), threads)[0] for threads in (1, 2))
    assert one.out_of_fold.keys() == two.out_of_fold.keys()
    for name in one.out_of_fold:
        np.testing.assert_array_equal(one.out_of_fold[name], two.out_of_fold[name])


def test_features_of_policies_are_scaled_actions_without_an_average() -> None:
    world, parts = make_world(0, n=200), folds(200, random_state=0)
    omega = feasible.Simplex(4)
    actions = np.stack([omega.argmax(np.ascontiguousarray(f)) for f in world.features])
    view = View(np.empty((0, 200, 4)), actions, world.labels.std(axis=0))
    np.testing.assert_array_equal(view.features, actions * world.labels.std(axis=0))
    np.testing.assert_array_equal(view.prior, np.zeros(3))
    learned = learn_forecasts(view, world.labels, omega, Buckets(omega.lower, omega.upper, 10), Sampling(), parts)
    assert AVERAGE not in learned.out_of_fold
    expected = textbook_forecasts(World(view.features, world.labels, np.zeros(3)), parts, textbook_pull(view.features))
    for name in (STACK, RIDGE):
        np.testing.assert_allclose(learned.out_of_fold[name], expected[name], atol=1e-8)
    assert PATCHED not in learned.out_of_fold


def test_mixed_members_are_averaged_over_the_models_alone() -> None:
    rng = np.random.default_rng(0)
    predictions, actions = rng.normal(size=(2, 30, 3)), rng.uniform(size=(5, 30, 3))
    view = View(predictions, actions, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(view.features, np.concatenate([predictions, actions[2:] * [1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(view.prior, [0.5, 0.5, 0, 0, 0])


def test_the_winner_is_the_model_with_the_highest_self_assessment() -> None:
    rng = np.random.default_rng(0)
    predictions, actions = rng.normal(size=(3, 50, 2)), rng.uniform(size=(4, 50, 2))
    assessed = [[float(actions[m, i] @ predictions[m, i]) for m in range(3)] for i in range(50)]
    view = View(predictions, actions, np.ones(2))
    np.testing.assert_array_equal(view.winners, np.argmax(assessed, axis=1))
    tied = View(np.ones((2, 5, 2)) * [[[1.0]], [[1.0 + 1e-14]]], np.ones((2, 5, 2)), np.ones(2))
    np.testing.assert_array_equal(tied.winners, 0)
