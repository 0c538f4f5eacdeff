"""Stacks, ridges and blends, each against a slow textbook version in plain numpy and sklearn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.metrics import r2_score

from optensemble.members.blocks import Block, Chunk
from optensemble.stacking import linear
from optensemble.stacking.cells import RowCells
from optensemble.stacking.forecaster import REFINED, RIDGE, STACK
from optensemble.stacking.linear import LinearFit
from optensemble.stacking.moments import FirstPass, Moments, _first_sums, model_scores
from optensemble.stacking.out_of_fold import OutOfFold
from optensemble.stacking.ridge import RIDGE_PENALTIES
from optensemble.stacking.stack import BlendSums, Stack, StackTable, squared_loss
from optensemble.stats.blocks import RowUnits
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stacking.passes import FitRows, outputs_of, solved
from tests.stacking.textbook import (
    Rows,
    World,
    decision_stack,
    make_world,
    standardised,
    textbook_pull,
    textbook_stack,
    textbook_weights,
)


def rows_of(world: World) -> FitRows:
    return FitRows.of(outputs_of(world.features, solved(world.features)), world.labels)


def fit_stack(features: Floats, labels: Floats) -> Stack:
    """Fit a stack of models on all rows."""
    return rows_of(World(features, labels, np.empty(0))).learn_linear().stack


# Stacks


@given(seed=st.integers(0, 100), k=st.integers(1, 5), d=st.integers(1, 4))
def test_a_stack_of_models_is_weighted_by_what_sets_their_actions_apart(seed: int, k: int, d: int) -> None:
    world = make_world(seed, k=k, d=d, n=40)
    stack = fit_stack(world.features, world.labels)
    pull = 40 * textbook_pull(world.features)
    weights, predict = decision_stack(world.features, world.labels, solved(world.features), pull)
    np.testing.assert_allclose(stack.weights, weights, atol=1e-8)
    np.testing.assert_allclose(stack(world.features), predict(world.features), atol=1e-8)
    assert (stack.weights >= 0).all()


@given(seed=st.integers(0, 100), k=st.integers(1, 5), d=st.integers(1, 4))
def test_a_stack_with_policies_is_non_negative_least_squares_with_pseudo_rows(seed: int, k: int, d: int) -> None:
    world = make_world(seed, k=k, d=d, n=40)
    worth = world.features * world.labels.std(axis=0)
    stack = FitRows.of(outputs_of(world.features[:0], world.features), world.labels).learn_linear().stack
    expected = textbook_weights(worth, world.labels, np.zeros(k), 40 * textbook_pull(worth))
    np.testing.assert_allclose(stack.weights, expected, atol=1e-8)
    moved = np.tensordot(expected, worth - worth.mean(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(stack(worth), world.labels.mean(axis=0) + moved, atol=1e-8)


def test_what_never_matters_to_decisions_has_no_weight() -> None:
    world, rng = make_world(0, k=2, n=300, d=4), np.random.default_rng(0)
    signal = rng.normal(size=(300, 4))
    world.labels[:] = signal + 0.3 * rng.normal(size=signal.shape)
    world.labels[:, 0] -= 50  # never taken
    world.features[0] = world.labels + np.array([0, 1, 1, 1]) * rng.normal(size=signal.shape)  # knows only that
    world.features[1] = world.labels + np.array([9, 0.3, 0.3, 0.3]) * rng.normal(size=signal.shape)
    first, second = fit_stack(world.features, world.labels).weights
    least_squares = textbook_weights(world.features, world.labels, world.prior, 1.0)
    assert least_squares[0] > 5 * least_squares[1]
    assert second > 5 * first


def test_a_negatively_correlated_member_has_weight_zero() -> None:
    world = make_world(0, k=2)
    world.features[1] = -world.labels
    assert fit_stack(world.features, world.labels).weights[1] == 0


def test_members_that_know_nothing_hardly_move_the_stack() -> None:
    world = make_world(0, n=2000)
    labels = np.random.default_rng(1).normal(2.0, 1.0, size=world.labels.shape)
    assert np.ptp(fit_stack(world.features, labels)(world.features), axis=0).max() < 0.5


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_the_level_of_a_stack_is_moved_only_as_far_as_it_is_sure(bias: float) -> None:
    rng = np.random.default_rng(0)
    labels = rng.normal(size=(400, 6))
    features = labels + rng.normal(size=(2, 400, 6)) + bias
    features -= (features - labels - bias).mean(axis=1, keepdims=True)
    stack = fit_stack(features, labels + 1e-3)
    moved = stack(features).mean(axis=0) - features.mean(axis=(0, 1))
    np.testing.assert_allclose(moved, -bias, atol=0.01)
    if not bias:  # as far as it moves at all, it moves about the labels' level
        np.testing.assert_allclose(moved, (1 - stack.weights.sum()) * 1e-3, atol=1e-12)


def test_members_that_go_against_the_labels_leave_the_mean_label() -> None:
    """Not their own level, which would tell of labels that they were fitted on."""
    labels = np.random.default_rng(0).normal(2.0, 1.0, size=(300, 4))
    stack = fit_stack(1.9 - 0.1 * labels[None], labels)
    assert not stack.weights.any()
    np.testing.assert_allclose(stack(np.zeros((1, 5, 4))), np.tile(labels.mean(axis=0), (5, 1)), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-60, 1e-6, 1e6, 1e60])
def test_weights_do_not_depend_on_units(scale: float) -> None:
    world = make_world(3)
    plain = fit_stack(world.features, world.labels)
    scaled = fit_stack(scale * world.features, scale * world.labels)
    np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-9)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_weights_do_not_depend_on_where_zero_is(offset: float) -> None:
    world = make_world(3)
    plain = fit_stack(world.features, world.labels)
    moved = fit_stack(world.features + offset, world.labels + offset)
    np.testing.assert_allclose(moved.weights, plain.weights, rtol=1e-5)


@pytest.mark.parametrize("level", [0.0, 0.1, 1.0, 5.7, 1e9])
def test_a_member_that_never_varies_adds_nothing_but_its_level(level: float) -> None:
    labels = make_world(0, n=100, d=1).labels
    for n in range(60, 101):
        features, truth = np.full((1, n, 1), level), labels[:n]
        bias, noise = truth.mean() - level, truth.var(ddof=1) / n
        expected = level + max(1 - noise / bias**2, 0) * bias
        np.testing.assert_allclose(fit_stack(features, truth)(features), expected, rtol=1e-6, atol=1e-15 * level)


# Ridges


def fit_ridge(world: World, penalty: float) -> tuple[FitRows, LinearFit]:
    """Everything linear, with this penalty."""
    rows = rows_of(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "RIDGE_PENALTIES", (penalty,))
        return rows, rows.learn_linear()


def say_out_of_fold(rows: FitRows, fit: LinearFit) -> dict[str, Floats]:
    found = OutOfFold(fit)
    return rows.in_order(lambda chunk: found.batch(chunk, RowCells(chunk.outputs)).forecasts)


SHAPES = pytest.mark.parametrize(("k", "n", "d"), [(3, 150, 4), (2, 60, 1), (5, 60, 30), (4, 100, 25)])


@SHAPES
@pytest.mark.parametrize("penalty", RIDGE_PENALTIES)
def test_a_ridge_equals_the_textbook_version_even_with_more_columns_than_rows(
    k: int, n: int, d: int, penalty: float
) -> None:
    world = make_world(1, k=k, n=n, d=d)
    columns, (rows, fit) = standardised(world.features), fit_ridge(world, penalty)
    theirs = SklearnRidge(alpha=penalty).fit(columns, world.labels)
    np.testing.assert_allclose(fit.ridge(world.features), theirs.predict(columns).reshape(n, d), atol=1e-8)
    ours = say_out_of_fold(rows, fit)[RIDGE]
    for train, test in Sampling().folds(n, 0):
        theirs = SklearnRidge(alpha=penalty).fit(columns[train], world.labels[train])
        np.testing.assert_allclose(ours[test], theirs.predict(columns[test]).reshape(-1, d), atol=1e-8)


@SHAPES
@pytest.mark.parametrize("penalty", RIDGE_PENALTIES)
def test_a_refinement_is_a_ridge_on_what_the_stack_leaves(k: int, n: int, d: int, penalty: float) -> None:
    world, everything = make_world(1, k=k, n=n, d=d, specialised=True), np.arange(n)
    columns, (rows, fit) = standardised(world.features), fit_ridge(world, penalty)
    ours, pull = say_out_of_fold(rows, fit), textbook_pull(world.features)
    whole = (fit.stack(world.features), fit.stack(world.features) + fit.refinement(world.features))
    for train, test, (stack, refined) in [
        (everything, everything, whole),
        *((train, test, (ours[STACK][test], ours[REFINED][test])) for train, test in Sampling().folds(n, 0)),
    ]:
        stacked = textbook_stack(world, train, pull)(world.features)
        left = world.labels - stacked
        theirs = SklearnRidge(alpha=penalty).fit(columns[train], left[train]).predict(columns[test])
        theirs = theirs.reshape(-1, d) - left[train].mean(axis=0)  # the level is the stack's
        np.testing.assert_allclose(stack, stacked[test], atol=1e-7)
        np.testing.assert_allclose(refined, stacked[test] + theirs, atol=1e-7)


def test_a_column_that_never_varies_is_left_alone() -> None:
    world = make_world(2)
    world.features[1, :, 2] = 7.0
    columns = np.delete(standardised(world.features), 1 * 4 + 2, axis=1)
    theirs = SklearnRidge(alpha=10.0).fit(columns, world.labels).predict(columns)
    np.testing.assert_allclose(fit_ridge(world, 10.0)[1].ridge(world.features), theirs, atol=1e-8)


@pytest.mark.parametrize("n", [40, 400])
def test_with_constant_members_a_ridge_is_its_intercept(n: int) -> None:
    world = World(np.ones((3, n, 20)), make_world(0, n=n, d=20).labels, np.full(3, 1 / 3))
    rows, fit = fit_ridge(world, 1.0)
    expected = np.broadcast_to(world.labels.mean(axis=0), (n, 20))
    np.testing.assert_allclose(fit.ridge(world.features), expected, rtol=1e-9)
    np.testing.assert_allclose(fit.refinement(world.features), 0, atol=1e-9)
    said = say_out_of_fold(rows, fit)
    np.testing.assert_allclose(said[REFINED], said[STACK], rtol=1e-9)
    for train, test in Sampling().folds(n, 0):
        mean = np.broadcast_to(world.labels[train].mean(axis=0), (len(test), 20))
        np.testing.assert_allclose(said[RIDGE][test], mean, rtol=1e-9)


# Tables


@given(seed=st.integers(0, 50), cut=st.integers(1, 59), specialised=st.booleans())
def test_moments_of_parts_add_up_to_those_of_the_whole(seed: int, cut: int, specialised: bool) -> None:
    world = make_world(seed, n=60, specialised=specialised)
    rows = rows_of(world)
    whole, basis = rows.look()
    state = FirstPass(rows.design, basis)
    pieces = [rows.blocks.rows.between(0, cut), rows.blocks.rows.between(cut, 60)]
    # in a piece, rows are of the folds that they are of in the whole
    fold = rows.design(0, 60).fold
    parts = [_piece_moments(piece, fold[piece.start : piece.start + len(piece.labels)], state) for piece in pieces]
    summed = parts[0] + parts[1]
    for name in ("gram", "reach", "size", "label_size"):
        np.testing.assert_allclose(getattr(summed, name), getattr(whole.moments, name), rtol=1e-9, atol=1e-9)
    assert summed.decisions is not None
    assert whole.moments.decisions is not None
    np.testing.assert_allclose(summed.decisions.gram, whole.moments.decisions.gram, rtol=1e-9, atol=1e-9)
    assert summed.by_member is whole.moments.by_member is None


def _piece_moments(piece: Block, fold: Rows, state: FirstPass) -> Moments:
    order = np.argsort(fold, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(fold, minlength=state.design.folds))])
    chunk = Chunk(piece.outputs.take(order), piece.labels[order], piece.start + order, ends, RowUnits())
    return _first_sums(chunk, state)[0]


@pytest.mark.parametrize("policies", [0, 1, 3])
def test_moments_are_sums_over_the_rows_of_each_fold(policies: int) -> None:
    world = make_world(3, n=80)
    outputs = outputs_of(world.features[policies:], world.features[::-1].copy())
    rows = FitRows.of(outputs, world.labels)
    found, basis = rows.look()
    said = np.stack(outputs.said)
    centre, mean = said.mean(axis=1), world.labels.mean(axis=0)
    np.testing.assert_allclose(basis.centre, centre.ravel(), atol=1e-12)
    for fold, (_, test) in enumerate(Sampling().folds(80, 0)):
        features, labels = said[:, test] - centre[:, None], world.labels[test] - mean
        table = np.concatenate([*features, labels, np.ones((len(test), 1))], axis=1)
        np.testing.assert_allclose(found.moments.gram[fold], table.T @ table, atol=1e-10)
        np.testing.assert_allclose(found.moments.members.features[fold], features.sum(axis=1), atol=1e-10)
        squares = np.einsum("ain,bin->nab", features, features)
        np.testing.assert_allclose(found.moments.members.squares[fold], squares, atol=1e-10)
        products = np.einsum("ain,in->na", features, labels)
        np.testing.assert_allclose(found.moments.members.products[fold], products, atol=1e-10)
    np.testing.assert_allclose(found.moments.reach, np.abs(said - centre[:, None]).max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.moments.size, np.abs(said).max(axis=1), rtol=1e-12)
    assert found.moments.label_size == np.abs(world.labels).max()


def test_models_are_scored_by_the_share_of_the_labels_variance_that_they_explain() -> None:
    world = make_world(3, n=200)
    rows = rows_of(world)
    found, basis = rows.look()
    expected = [r2_score(world.labels, each, multioutput="uniform_average") for each in world.features]
    np.testing.assert_allclose(model_scores(found.moments, basis, 3), expected, rtol=1e-9)


# Blends


@given(seed=st.integers(0, 100), count=st.integers(1, 4))
def test_a_blend_is_a_ridge_towards_equal_weights(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.normal(size=(50, 2))
    forecasts = labels + rng.normal(size=(count, 50, 2)) * rng.uniform(0.1, 2, size=(count, 1, 1))
    middle = forecasts.mean(axis=0)
    apart = (forecasts - middle).reshape(count, -1).T
    strength = 0.1 * np.square(apart).sum() / count or 1.0
    rows = np.vstack([apart, np.sqrt(strength) * np.eye(count)])
    target = np.concatenate([(labels - middle).ravel(), np.zeros(count)])
    raw = np.maximum(1 / count + np.linalg.lstsq(rows, target, rcond=None)[0], 0)
    weights = BlendSums.of(forecasts, labels).weights()
    np.testing.assert_allclose(weights, raw / raw.sum(), atol=1e-9)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)


def test_forecasts_that_agree_share_the_weight() -> None:
    same = np.random.default_rng(0).normal(size=(60, 3))
    np.testing.assert_allclose(BlendSums.of(np.stack([same, same, same]), same + 1).weights(), 1 / 3)


# Losses


def test_the_loss_of_a_row_is_its_squared_distance() -> None:
    labels, predictions = np.random.default_rng(0).normal(size=(2, 10, 3))
    by_hand = [sum((y - h) ** 2 for y, h in zip(*rows, strict=True)) for rows in zip(labels, predictions, strict=True)]
    np.testing.assert_allclose(squared_loss(labels, predictions), by_hand)


# Prior strength and centring


def strength(features: Floats) -> float:
    """The prior strength per row."""
    rows = rows_of(World(features, np.zeros(features.shape[1:]), np.empty(0)))
    found, basis = rows.look()
    return linear._Standardised(found.moments, basis, len(features)).strength


def test_the_prior_strength_of_a_stack_is_in_the_features_units() -> None:
    features = np.random.default_rng(0).normal(size=(2, 30, 3)) + np.arange(3)
    assert strength(features) == pytest.approx(textbook_pull(features))
    assert strength(7 * features + 20) == pytest.approx(49 * textbook_pull(features))
    assert strength(0 * features) > 0


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_the_prior_strength_has_a_floor_far_above_rounding(size: float) -> None:
    rounding = size * (1 + 1e-15 * np.random.default_rng(0).normal(size=(2, 30, 3)))
    assert strength(rounding) == pytest.approx(0.1 * (1e-9 * size) ** 2, rel=1e-6)
    assert strength(rounding) > 1e6 * textbook_pull(rounding)


def table_of(features: Floats, labels: Floats) -> StackTable:
    """The sums that a stack is fitted from."""
    flat = features.reshape(len(features), -1)
    return StackTable(len(labels), features.sum(axis=1), labels.sum(axis=0), flat @ flat.T, flat @ labels.ravel())


@given(seed=st.integers(0, 30), moved=st.floats(-5, 5), level=st.floats(-5, 5))
def test_a_stack_of_centred_rows_is_the_stack_of_the_rows(seed: int, moved: float, level: float) -> None:
    world = make_world(seed, n=40)
    rng = np.random.default_rng(seed)
    centre, middle = moved + rng.normal(size=(3, 4)), level + rng.normal(size=4)
    plain = table_of(world.features, world.labels).fit(world.prior, 1.0)
    table = table_of(world.features - centre[:, None], world.labels - middle)
    about = table.fit(world.prior, 1.0).about(centre, middle)
    np.testing.assert_allclose(about.weights, plain.weights, atol=1e-9)
    np.testing.assert_allclose(about(world.features), plain(world.features), atol=1e-9)


@pytest.mark.parametrize("penalty", [1.0, 100.0])
def test_where_the_labels_zero_is_does_not_matter_to_a_ridge(penalty: float) -> None:
    world, middle = make_world(0), np.array([5.0, -2.0, 0.0, 1e3])
    moved = World(world.features, world.labels + middle, world.prior)
    (_, plain), (_, about) = fit_ridge(world, penalty), fit_ridge(moved, penalty)
    np.testing.assert_allclose(about.ridge(world.features) - middle, plain.ridge(world.features), atol=1e-9)
    np.testing.assert_allclose(about.refinement(world.features), plain.refinement(world.features), atol=1e-9)


def test_a_stack_is_an_intercept_and_weighted_deviations() -> None:
    stack = Stack(np.array([0.5, 2.0]), np.array([[1.0], [3.0]]), np.array([10.0]))
    np.testing.assert_allclose(stack(np.array([[[2.0]], [[3.5]]])), [[10 + 0.5 * 1 + 2 * 0.5]])
