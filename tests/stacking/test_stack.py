"""Stacks, ridges and blends, each against a slow textbook version in plain numpy and sklearn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge as SklearnRidge

from optensemble.stacking.forecaster import add_up
from optensemble.stacking.ridge import RIDGE_PENALTIES, Design, RidgeTable
from optensemble.stacking.stack import Stack, StackTable, blend_weights, fit_stack, prior_strength, squared_loss
from tests.problems import Floats
from tests.stacking.textbook import (
    Rows,
    World,
    make_world,
    standardised,
    textbook_pull,
    textbook_stack,
    textbook_weights,
    wide,
)

# Stacks


@given(seed=st.integers(0, 100), k=st.integers(1, 5), d=st.integers(1, 4))
def test_a_stack_is_non_negative_least_squares_with_pseudo_rows(seed: int, k: int, d: int) -> None:
    world = make_world(seed, k=k, d=d, n=40)
    stack = fit_stack(world.features, world.labels, world.prior)
    pull = 40 * textbook_pull(world.features)
    expected = textbook_weights(world.features, world.labels, world.prior, pull)
    np.testing.assert_allclose(stack.weights, expected, atol=1e-8)
    assert (stack.weights >= 0).all()
    predicted = textbook_stack(world, np.arange(40), pull / 40)(world.features)
    np.testing.assert_allclose(stack(world.features), predicted, atol=1e-8)


def test_a_negatively_correlated_member_has_weight_zero() -> None:
    world = make_world(0, k=2)
    world.features[1] = -world.labels
    assert fit_stack(world.features, world.labels, world.prior).weights[1] == 0


def test_members_that_know_nothing_are_averaged_by_the_prior_and_shrunk() -> None:
    world = make_world(0)
    stack = fit_stack(world.features, np.zeros_like(world.labels), world.prior)
    assert (stack.weights < world.prior).all()
    np.testing.assert_allclose(stack(world.features).mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-60, 1e-6, 1e6, 1e60])
def test_weights_do_not_depend_on_units(scale: float) -> None:
    world = make_world(3)
    plain = fit_stack(world.features, world.labels, world.prior)
    scaled = fit_stack(scale * world.features, scale * world.labels, world.prior)
    np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-9)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_weights_do_not_depend_on_where_zero_is(offset: float) -> None:
    world = make_world(3)
    plain = fit_stack(world.features, world.labels, world.prior)
    moved = fit_stack(world.features + offset, world.labels + offset, world.prior)
    np.testing.assert_allclose(moved.weights, plain.weights, rtol=1e-5)


@pytest.mark.parametrize("level", [0.0, 0.1, 1.0, 5.7, 1e9])
def test_a_member_that_never_varies_adds_nothing(level: float) -> None:
    labels = make_world(0, n=100, d=1).labels
    for n in range(60, 101):
        features = np.full((1, n, 1), level)
        stack = fit_stack(features, labels[:n], np.ones(1))
        expected = np.broadcast_to(labels[:n].mean(axis=0), (n, 1))
        np.testing.assert_allclose(stack(features), expected, rtol=1e-9, atol=1e-15 * level)


# Ridges


def fit_ridge(world: World, rows: Rows, penalty: float) -> tuple[Floats, Floats]:
    """What a ridge, and a refinement of the stack, fitted on some rows, say of all rows."""
    design = Design(world.features)
    stack = StackTable.of(world.features[:, rows], world.labels[rows]).fit(world.prior, 1.0)
    path = RidgeTable.of(design.rows[rows], world.labels[rows]).path()
    ridge = design.ridge(path.towards()(penalty), path.centre, path.level)
    beyond = path.towards(design.coefficients(stack))(penalty)
    refinement = design.ridge(beyond, path.centre, np.zeros(world.labels.shape[1]))
    return ridge(world.features), stack(world.features) + refinement(world.features)


SHAPES = pytest.mark.parametrize(("k", "n", "d"), [(3, 150, 4), (2, 60, 1), (5, 60, 30), (4, 100, 25)])


@SHAPES
@pytest.mark.parametrize("penalty", RIDGE_PENALTIES)
def test_a_ridge_equals_the_textbook_version_even_with_more_columns_than_rows(
    k: int, n: int, d: int, penalty: float
) -> None:
    world, rows = make_world(1, k=k, n=n, d=d), np.arange(0, n, 2)
    columns = standardised(world.features)
    theirs = SklearnRidge(alpha=penalty).fit(columns[rows], world.labels[rows])
    ours, _ = fit_ridge(world, rows, penalty)
    np.testing.assert_allclose(ours, theirs.predict(columns).reshape(ours.shape), atol=1e-8)


@SHAPES
@pytest.mark.parametrize("penalty", RIDGE_PENALTIES)
def test_a_refinement_is_a_ridge_on_what_the_stack_leaves(k: int, n: int, d: int, penalty: float) -> None:
    world, rows = make_world(1, k=k, n=n, d=d, specialised=True), np.arange(0, n, 2)
    columns = standardised(world.features)
    stacked = textbook_stack(world, rows, 1.0 / len(rows))(world.features)
    left = world.labels - stacked
    theirs = SklearnRidge(alpha=penalty).fit(columns[rows], left[rows])
    _, ours = fit_ridge(world, rows, penalty)
    np.testing.assert_allclose(ours, stacked + theirs.predict(columns).reshape(ours.shape), atol=1e-7)


def test_a_column_that_never_varies_is_left_alone() -> None:
    world = make_world(2)
    world.features[1, :, 2] = 7.0
    columns = np.delete(standardised(world.features), 1 * 4 + 2, axis=1)
    theirs = SklearnRidge(alpha=10.0).fit(columns, world.labels).predict(columns)
    np.testing.assert_allclose(fit_ridge(world, np.arange(150), 10.0)[0], theirs, atol=1e-8)


@pytest.mark.parametrize("n", [20, 400])
def test_with_constant_members_a_ridge_is_its_intercept(n: int) -> None:
    world = World(np.ones((3, n, 20)), make_world(0, n=n, d=20).labels, np.full(3, 1 / 3))
    rows = np.arange(0, n, 2)
    ridge, refined = fit_ridge(world, rows, 1.0)
    expected = np.broadcast_to(world.labels[rows].mean(axis=0), (n, 20))
    np.testing.assert_allclose(ridge, expected, rtol=1e-9)
    np.testing.assert_allclose(refined, expected, rtol=1e-9)


# Tables


@given(seed=st.integers(0, 50), parts=st.lists(st.integers(1, 30), min_size=2, max_size=6), data=st.data())
def test_tables_of_parts_add_up_to_the_table_of_the_whole(seed: int, parts: list[int], data: st.DataObject) -> None:
    world, ends = make_world(seed, n=sum(parts)), np.cumsum([0, *parts])
    spans = [slice(start, stop) for start, stop in pairwise(ends)]
    left_out = data.draw(st.none() | st.integers(0, len(parts) - 1))
    rows = np.concatenate([np.arange(ends[-1])[span] for i, span in enumerate(spans) if i != left_out])
    stacks = add_up([StackTable.of(world.features[:, span], world.labels[span]) for span in spans], left_out)
    ridges = add_up([RidgeTable.of(wide(world.features)[span], world.labels[span]) for span in spans], left_out)
    for ours, whole in (
        (stacks, StackTable.of(world.features[:, rows], world.labels[rows])),
        (ridges, RidgeTable.of(wide(world.features)[rows], world.labels[rows])),
    ):
        assert ours.n == len(rows)
        for left, right in zip(ours, whole, strict=True):
            np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-9, atol=1e-9)


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
    weights = blend_weights(forecasts, labels)
    np.testing.assert_allclose(weights, raw / raw.sum(), atol=1e-9)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)


def test_forecasts_that_agree_share_the_weight() -> None:
    same = np.random.default_rng(0).normal(size=(60, 3))
    np.testing.assert_allclose(blend_weights(np.stack([same, same, same]), same + 1), 1 / 3)


# Losses


def test_the_loss_of_a_row_is_its_squared_distance() -> None:
    labels, predictions = np.random.default_rng(0).normal(size=(2, 10, 3))
    by_hand = [sum((y - h) ** 2 for y, h in zip(*rows, strict=True)) for rows in zip(labels, predictions, strict=True)]
    np.testing.assert_allclose(squared_loss(labels, predictions), by_hand)


# Prior strength and centring


def test_the_prior_strength_of_a_stack_is_in_the_features_units() -> None:
    features = np.random.default_rng(0).normal(size=(2, 30, 3)) + np.arange(3)
    assert prior_strength(features) == pytest.approx(textbook_pull(features))
    assert prior_strength(7 * features + 20) == pytest.approx(49 * textbook_pull(features))
    assert prior_strength(0 * features) > 0


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_the_prior_strength_has_a_floor_far_above_rounding(size: float) -> None:
    rounding = size * (1 + 1e-15 * np.random.default_rng(0).normal(size=(2, 30, 3)))
    assert prior_strength(rounding) == pytest.approx(0.1 * (1e-9 * size) ** 2, rel=1e-6)
    assert prior_strength(rounding) > 1e6 * textbook_pull(rounding)


@given(seed=st.integers(0, 30), moved=st.floats(-5, 5), level=st.floats(-5, 5))
def test_a_stack_of_centred_rows_is_the_stack_of_the_rows(seed: int, moved: float, level: float) -> None:
    world = make_world(seed, n=40)
    rng = np.random.default_rng(seed)
    centre, middle = moved + rng.normal(size=(3, 4)), level + rng.normal(size=4)
    plain = StackTable.of(world.features, world.labels).fit(world.prior, 1.0)
    table = StackTable.of(world.features - centre[:, None], world.labels - middle)
    about = table.fit(world.prior, 1.0).about(centre, middle)
    np.testing.assert_allclose(about.weights, plain.weights, atol=1e-9)
    np.testing.assert_allclose(about(world.features), plain(world.features), atol=1e-9)


@pytest.mark.parametrize("penalty", [1.0, 100.0])
def test_a_ridge_of_centred_labels_is_the_ridge_of_the_labels(penalty: float) -> None:
    world, middle = make_world(0), np.array([5.0, -2.0, 0.0, 1e3])
    design = Design(world.features)

    def ridge(labels: Floats, about: Floats | float) -> Floats:
        path = RidgeTable.of(design.rows, labels).path(about)
        return design.ridge(path.towards()(penalty), path.centre, path.level)(world.features)

    np.testing.assert_allclose(ridge(world.labels - middle, middle), ridge(world.labels, 0.0), atol=1e-9)


def test_a_stack_is_an_intercept_and_weighted_deviations() -> None:
    stack = Stack(np.array([0.5, 2.0]), np.array([[1.0], [3.0]]), np.array([10.0]))
    np.testing.assert_allclose(stack(np.array([[[2.0]], [[3.5]]])), [[10 + 0.5 * 1 + 2 * 0.5]])
