"""Forecasts learned out of fold, against a plain loop over folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from optensemble.stacking import linear
from optensemble.stacking.cells import RowCells
from optensemble.stacking.forecaster import AVERAGE, MEAN, PATCHED, REFINED, RIDGE, STACK
from optensemble.stacking.linear import LinearFit
from optensemble.stacking.out_of_fold import OutOfFold
from optensemble.stacking.ridge import RIDGE_PENALTIES
from optensemble.stacking.stack import average_weights
from optensemble.stats.folds import Fold
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stacking.passes import FitRows, Learned, outputs_of, solved
from tests.stacking.textbook import World, make_world, standardised, textbook_pull, textbook_stack


def learn(world: World, seed: int, sampling: Sampling | None = None) -> Learned:
    outputs = outputs_of(world.features, solved(world.features))
    return Learned.of(FitRows.of(outputs, world.labels, sampling, seed))


def textbook_forecasts(world: World, parts: list[Fold], pull: float) -> dict[str, Floats]:
    """Fit everything anew for every fold and penalty; keep the penalty of the lowest loss."""
    columns, found = standardised(world.features), {}
    stacked, mean = np.empty_like(world.labels), np.empty_like(world.labels)
    residual, ridge = np.empty((2, len(RIDGE_PENALTIES), *world.labels.shape))
    for train, test in parts:
        stack = textbook_stack(world, train, pull)
        stacked[test], mean[test] = stack(world.features[:, test]), world.labels[train].mean(axis=0)
        left = world.labels[train] - stack(world.features[:, train])
        left = left - left.mean(axis=0)  # the level is the stack's
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
    learned = learn(world, 7, sampling)
    (chunk,) = learned.rows.chunks()
    for ours, theirs in zip(chunk.folds, parts, strict=True):
        np.testing.assert_array_equal(chunk.rows[ours], theirs.test)
    forecasts = learned.forecasts
    expected = textbook_forecasts(world, parts, textbook_pull(world.features))
    actions = solved(world.features)
    left = [(actions - actions.mean(axis=0)) * (world.labels - expected[name]) for name in (STACK, REFINED)]
    loss = [np.square(each.sum(axis=2)).sum(axis=0) for each in left]
    gain = loss[0] - loss[1]
    assert learned.refinement.gain == pytest.approx(gain.mean(), rel=1e-6, abs=1e-9)
    assert learned.refinement.error == pytest.approx(sampling.error(gain), rel=1e-6)
    assert learned.refinement.passed == (gain.mean() > (2 if time_ordered else 1) * sampling.error(gain))
    assert (REFINED in forecasts) == learned.refinement.passed
    for name in (MEAN, STACK, RIDGE, *([REFINED] if learned.refinement.passed else [])):
        np.testing.assert_allclose(forecasts[name], expected[name], atol=1e-7, err_msg=name)
    np.testing.assert_allclose(forecasts[AVERAGE], world.features.mean(axis=0), atol=1e-12)


def test_the_refinement_comes_in_where_members_are_specialised_and_stays_out_where_they_know_nothing() -> None:
    assert learn(make_world(0, n=400, specialised=True), 0).refinement.passed
    blind = make_world(0, n=400)
    blind.features = np.random.default_rng(8).normal(size=blind.features.shape)
    learned = learn(blind, 0)
    assert not learned.refinement.passed
    assert learned.forecaster.refinement is None
    assert REFINED not in learned.forecasts


def test_the_fit_on_all_rows_equals_the_textbook_version() -> None:
    world = make_world(2, n=200, specialised=True)
    learned = learn(world, 0)
    forecasts = learned.forecaster(learned.rows.outputs).forecasts
    stack = textbook_stack(world, np.arange(200), textbook_pull(world.features))(world.features)
    np.testing.assert_allclose(forecasts[STACK], stack, atol=1e-8)
    np.testing.assert_allclose(forecasts[MEAN], np.broadcast_to(world.labels.mean(axis=0), (200, 4)))
    columns = standardised(world.features)
    ridges = [SklearnRidge(alpha=s).fit(columns, world.labels).predict(columns) for s in RIDGE_PENALTIES]
    assert min(np.abs(forecasts[RIDGE] - ridge).max() for ridge in ridges) < 1e-8
    left = world.labels - stack
    left -= left.mean(axis=0)  # the level is the stack's
    refined = [SklearnRidge(alpha=s).fit(columns, left).predict(columns) for s in RIDGE_PENALTIES]
    assert min(np.abs(forecasts[REFINED] - stack - each).max() for each in refined) < 1e-8


@pytest.mark.parametrize(("n", "d"), [(150, 4), (100, 36)])
def test_nothing_of_a_folds_labels_reaches_its_own_forecasts(n: int, d: int) -> None:
    world = make_world(0, n=n, d=d)
    outputs, changed = outputs_of(world.features, solved(world.features)), world.labels.copy()
    rows = FitRows.of(outputs, world.labels, seed=1)
    (chunk,) = rows.chunks()
    third = chunk.rows[chunk.folds[3]]
    changed[third] = 1000 * np.random.default_rng(2).normal(size=(len(third), d))

    def alike(left: Floats, right: Floats) -> bool:
        # labels are summed about their mean over all rows: it cancels, up to the rounding of labels of size 1000
        return bool(np.allclose(left, right, rtol=1e-9, atol=1e-8))

    honest, other = (say_by_fold(FitRows.of(outputs, y, seed=1)) for y in (world.labels, changed))
    for name in (STACK, MEAN):
        same = [alike(honest[name][rows], other[name][rows]) for rows in (chunk.rows[fold] for fold in chunk.folds)]
        assert same == [number == 3 for number in range(len(chunk.folds))]
    for penalty in RIDGE_PENALTIES:
        for name in (f"{REFINED} {penalty}", f"{RIDGE} {penalty}"):
            same = [alike(honest[name][rows], other[name][rows]) for rows in (chunk.rows[fold] for fold in chunk.folds)]
            assert same[3]
            if penalty in RIDGE_PENALTIES[:4]:  # the strongest leave next to nothing of any label
                assert sum(same) == 1


def say_by_fold(rows: FitRows) -> dict[str, Floats]:
    """What each fold's forecasts say of its rows, for every penalty."""
    found, basis = rows.look()
    said: dict[str, Floats] = {}
    for penalty in RIDGE_PENALTIES:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(linear, "RIDGE_PENALTIES", (penalty,))
            fit = linear.learn_linear(found.moments, basis, rows.outputs)
        batch = say(rows, fit)
        said |= {STACK: batch[STACK], MEAN: batch[MEAN]}
        said |= {f"{name} {penalty}": batch[name] for name in (REFINED, RIDGE)}
    return said


def say(rows: FitRows, fit: LinearFit) -> dict[str, Floats]:
    batch = OutOfFold(fit)
    return rows.in_order(lambda chunk: batch.batch(chunk, RowCells(chunk.outputs)).forecasts)


def test_features_of_policies_are_scaled_actions_without_an_average() -> None:
    world, parts = make_world(0, n=200), Sampling().folds(200, 0)
    actions = solved(world.features)
    outputs, features = outputs_of(np.empty((0, 200, 4)), actions), actions * world.labels.std(axis=0)
    learned = Learned.of(FitRows.of(outputs, world.labels))
    np.testing.assert_allclose(outputs.features(learned.linear.scale), features, rtol=1e-12)
    np.testing.assert_array_equal(average_weights(3, 0), np.zeros(3))
    forecasts = learned.forecasts
    assert AVERAGE not in forecasts
    expected = textbook_forecasts(World(features, world.labels, np.zeros(3)), parts, textbook_pull(features))
    for name in (STACK, RIDGE):
        np.testing.assert_allclose(forecasts[name], expected[name], atol=1e-8)
    assert PATCHED not in forecasts


def test_policies_that_were_solved_on_the_way_are_those_of_the_forecasts() -> None:
    world = make_world(2, n=400)
    world.labels[:, 0] -= 2.0 * (world.features[1].argmax(axis=1) == 0)
    learned = learn(world, 0)
    later = learned.forecaster(learned.rows.outputs)
    for forecasts, known in ((learned.forecasts, learned.solved), (later.forecasts, later.solved)):
        assert PATCHED in known
        assert set(known) - {MEAN} == {PATCHED, REFINED if REFINED in forecasts else STACK}
        for name, actions in known.items():
            np.testing.assert_array_equal(actions, solved(forecasts[name][None])[0])


def test_mixed_members_are_averaged_over_the_models_alone() -> None:
    rng = np.random.default_rng(0)
    predictions, actions = rng.normal(size=(2, 30, 3)), rng.uniform(size=(5, 30, 3))
    outputs, scale = outputs_of(predictions, actions), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(outputs.features(scale), np.concatenate([predictions, actions[2:] * scale]))
    np.testing.assert_array_equal(average_weights(5, 2), [0.5, 0.5, 0, 0, 0])


def test_the_leader_of_a_row_is_the_model_that_assesses_itself_highest() -> None:
    rng = np.random.default_rng(0)
    predictions, actions = rng.normal(size=(3, 50, 2)), rng.uniform(size=(4, 50, 2))
    assessed = [[float(actions[m, i] @ predictions[m, i]) for m in range(3)] for i in range(50)]
    np.testing.assert_array_equal(outputs_of(predictions, actions).leaders, np.argmax(assessed, axis=1))
    tied = outputs_of(np.ones((2, 5, 2)) * [[[1.0]], [[1.0 + 1e-14]]], np.ones((2, 5, 2)))
    np.testing.assert_array_equal(tied.leaders, 0)
