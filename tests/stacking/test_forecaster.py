"""Forecasts learned out of fold, against a plain loop over folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.fit_data import FitData
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.forecaster import (
    AVERAGE,
    MEAN,
    PATCHED,
    REFINED,
    RIDGE,
    STACK,
    ForecastFit,
    _Tables,
    learn_forecasts,
)
from optensemble.stacking.ridge import RIDGE_PENALTIES
from optensemble.stacking.stack import average_weights
from optensemble.stats.folds import Fold, folds
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stacking.textbook import World, make_world, standardised, textbook_pull, textbook_stack


def outputs_of(predictions: Floats, actions: Floats) -> MemberOutputs:
    omega = feasible.Simplex(actions.shape[2])
    return MemberOutputs(predictions, actions, omega, Buckets(omega.lower, omega.upper, 10))


def solved(features: Floats) -> Floats:
    omega = feasible.Simplex(features.shape[2])
    return np.stack([omega.argmax(np.ascontiguousarray(each)) for each in features])


def learn(world: World, seed: int, sampling: Sampling | None = None, threads: int = 1) -> tuple[ForecastFit, FitData]:
    outputs = outputs_of(world.features, solved(world.features))
    data = FitData(outputs, world.labels, sampling or Sampling(), seed)
    return learn_forecasts(data, threads), data


def textbook_forecasts(world: World, parts: list[Fold], pull: float) -> dict[str, Floats]:
    """Fit everything anew for every fold and penalty; keep the penalty of the lowest loss."""
    columns, found = standardised(world.features), {}
    stacked, mean = np.empty_like(world.labels), np.empty_like(world.labels)
    residual, ridge = np.empty((2, len(RIDGE_PENALTIES), *world.labels.shape))
    for train, test in parts:
        stack = textbook_stack(world, train, pull)
        stacked[test], mean[test] = stack(world.features[:, test]), world.labels[train].mean(axis=0)
        left = world.labels[train] - stack(world.features[:, train])
        for s, penalty in enumerate(RIDGE_PENALTIES):
            residual[s, test] = SklearnRidge(alpha=penalty).fit(columns[train], left).predict(columns[test])
            plain = SklearnRidge(alpha=penalty).fit(columns[train], world.labels[train])
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
    learned, data = learn(world, 7, sampling)
    for ours, theirs in zip(data.folds, parts, strict=True):
        np.testing.assert_array_equal(ours.test, theirs.test)
    forecasts = learned.out_of_fold.forecasts
    expected = textbook_forecasts(world, parts, textbook_pull(world.features))
    loss = [np.square(world.labels - expected[name]).sum(axis=1) for name in (STACK, REFINED)]
    gain = loss[0] - loss[1]
    assert learned.refinement.gain == pytest.approx(gain.mean(), rel=1e-6, abs=1e-9)
    assert learned.refinement.error == pytest.approx(sampling.error(gain), rel=1e-6)
    assert learned.refinement.passed == (gain.mean() > (2 if time_ordered else 1) * sampling.error(gain))
    assert (REFINED in forecasts) == learned.refinement.passed
    for name in (MEAN, STACK, RIDGE, *([REFINED] if learned.refinement.passed else [])):
        np.testing.assert_allclose(forecasts[name], expected[name], atol=1e-7, err_msg=name)
    np.testing.assert_allclose(forecasts[AVERAGE], world.features.mean(axis=0), atol=1e-12)


def test_the_refinement_comes_in_where_members_are_specialised_and_stays_out_where_they_know_nothing() -> None:
    assert learn(make_world(0, n=400, specialised=True), 0)[0].refinement.passed
    blind = make_world(0, n=400)
    blind.features = np.random.default_rng(8).normal(size=blind.features.shape)
    learned = learn(blind, 0)[0]
    assert not learned.refinement.passed
    assert learned.forecaster.refinement is None
    assert REFINED not in learned.out_of_fold.forecasts


def test_the_fit_on_all_rows_equals_the_textbook_version() -> None:
    world = make_world(2, n=200, specialised=True)
    learned, data = learn(world, 0)
    forecasts = learned.forecaster(data.outputs).forecasts
    stack = textbook_stack(world, np.arange(200), textbook_pull(world.features))(world.features)
    np.testing.assert_allclose(forecasts[STACK], stack, atol=1e-8)
    np.testing.assert_allclose(forecasts[MEAN], np.broadcast_to(world.labels.mean(axis=0), (200, 4)))
    columns = standardised(world.features)
    ridges = [SklearnRidge(alpha=s).fit(columns, world.labels).predict(columns) for s in RIDGE_PENALTIES]
    assert min(np.abs(forecasts[RIDGE] - ridge).max() for ridge in ridges) < 1e-8
    refined = [SklearnRidge(alpha=s).fit(columns, world.labels - stack).predict(columns) for s in RIDGE_PENALTIES]
    assert min(np.abs(forecasts[REFINED] - stack - each).max() for each in refined) < 1e-8


@pytest.mark.parametrize(("n", "d"), [(150, 4), (100, 36)])
def test_nothing_of_a_folds_labels_reaches_its_own_forecasts(n: int, d: int) -> None:
    world, parts = make_world(0, n=n, d=d), folds(n, random_state=1)
    outputs, changed = outputs_of(world.features, np.zeros_like(world.features)), world.labels.copy()
    changed[parts[3].test] = 1000 * np.random.default_rng(2).normal(size=(len(parts[3].test), d))
    honest, other = (_Tables(FitData(outputs, y, Sampling(), 1)) for y in (world.labels, changed))

    def alike(left: Floats, right: Floats) -> bool:
        # labels are summed about their mean over all rows: it cancels, up to the rounding of labels of size 1000
        return bool(np.allclose(left, right, rtol=1e-9, atol=1e-8))

    for number in range(len(parts)):
        left, right = honest.fit_fold(number), other.fit_fold(number)
        same = number == 3
        assert alike(left.stacked, right.stacked) == same
        assert alike(left.mean, right.mean) == same
        for penalty in RIDGE_PENALTIES[:4]:  # the strongest leave next to nothing of any label
            assert alike(left.refinement(penalty), right.refinement(penalty)) == same
            assert alike(left.ridge(penalty), right.ridge(penalty)) == same
        if same:
            for penalty in RIDGE_PENALTIES:
                assert alike(left.refinement(penalty), right.refinement(penalty))
                assert alike(left.ridge(penalty), right.ridge(penalty))


def test_threads_share_the_folds_and_change_nothing() -> None:
    world = make_world(0, n=300, specialised=True)
    one, two = (learn(world, 1, threads=threads)[0].out_of_fold.forecasts for threads in (1, 2))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_features_of_policies_are_scaled_actions_without_an_average() -> None:
    world, parts = make_world(0, n=200), folds(200, random_state=0)
    actions = solved(world.features)
    data = FitData(outputs_of(np.empty((0, 200, 4)), actions), world.labels, Sampling(), 0)
    np.testing.assert_array_equal(data.features, actions * world.labels.std(axis=0))
    np.testing.assert_array_equal(average_weights(data.outputs), np.zeros(3))
    forecasts = learn_forecasts(data).out_of_fold.forecasts
    assert AVERAGE not in forecasts
    expected = textbook_forecasts(World(data.features, world.labels, np.zeros(3)), parts, textbook_pull(data.features))
    for name in (STACK, RIDGE):
        np.testing.assert_allclose(forecasts[name], expected[name], atol=1e-8)
    assert PATCHED not in forecasts


def test_policies_that_were_solved_on_the_way_are_those_of_the_forecasts() -> None:
    world = make_world(2, n=400)
    world.labels[:, 0] -= 2.0 * (world.features[1].argmax(axis=1) == 0)
    learned, data = learn(world, 0)
    for batch in (learned.out_of_fold, learned.forecaster(data.outputs)):
        assert PATCHED in batch.solved
        assert len(batch.solved) == 2
        for name, actions in batch.solved.items():
            np.testing.assert_array_equal(actions, solved(batch.forecasts[name][None])[0])


def test_mixed_members_are_averaged_over_the_models_alone() -> None:
    rng = np.random.default_rng(0)
    predictions, actions = rng.normal(size=(2, 30, 3)), rng.uniform(size=(5, 30, 3))
    outputs, scale = outputs_of(predictions, actions), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(outputs.features(scale), np.concatenate([predictions, actions[2:] * scale]))
    np.testing.assert_array_equal(average_weights(outputs), [0.5, 0.5, 0, 0, 0])


def test_the_leader_of_a_row_is_the_model_that_assesses_itself_highest() -> None:
    rng = np.random.default_rng(0)
    predictions, actions = rng.normal(size=(3, 50, 2)), rng.uniform(size=(4, 50, 2))
    assessed = [[float(actions[m, i] @ predictions[m, i]) for m in range(3)] for i in range(50)]
    np.testing.assert_array_equal(outputs_of(predictions, actions).leaders, np.argmax(assessed, axis=1))
    tied = outputs_of(np.ones((2, 5, 2)) * [[[1.0]], [[1.0 + 1e-14]]], np.ones((2, 5, 2)))
    np.testing.assert_array_equal(tied.leaders, 0)
