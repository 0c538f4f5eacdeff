"""Lemmas 3, 4 and 7 to 9 where every row has a feasible set of its own, with and without a known cost of acting.

Actions are recomputed by a set made for each row alone, and payoffs, net of costs, by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble.feasible import FeasibleSet
from tests.problems import Floats, random_problem

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

seeds = st.integers(0, 2**32 - 1)
senses = st.sampled_from(["max", "min"])
schedules = st.sampled_from(["frozen", "joint"])
alphas = st.sampled_from([0.003, 0.03, 0.3])
widths = st.sampled_from([1.0, 0.5, 0.25, 0.1])
ROUNDING = 1e-9
D = 3
WEIGHTS, ROWS = [1.0, 2.0, 1.5], [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
COVARIANCE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.0], [0.5, 0.0, 2.0]])


@dataclass(frozen=True)
class Kind:
    """A set by row, the columns it needs as numbers of a row, and the set of one row made by hand from them."""

    by_row: Callable[[], FeasibleSet]
    draw: Callable[[np.random.Generator, int], dict[str, Floats]]
    alone: Callable[[Any], FeasibleSet]
    cost: Callable[[Any, Floats], Floats] = lambda X, a: np.zeros(len(a))


def drawn_weights(rng: np.random.Generator, n: int) -> dict[str, Floats]:
    return {f"held_{j}": column for j, column in enumerate(rng.dirichlet(np.ones(D), n).T)}


def held(row: Any) -> Floats:
    return np.stack([row.held_0, row.held_1, row.held_2], axis=-1)


KINDS = {
    "knapsack": Kind(
        lambda: feasible.Knapsack(WEIGHTS, oe.Columns("budget")),
        lambda rng, n: {"budget": rng.uniform(0, 5, n)},
        lambda row: feasible.Knapsack(WEIGHTS, row.budget),
    ),
    "whole items": Kind(
        lambda: feasible.Knapsack(WEIGHTS, oe.Columns("budget"), integer=True),
        lambda rng, n: {"budget": rng.uniform(0, 5, n)},
        lambda row: feasible.Knapsack(WEIGHTS, row.budget, integer=True),
    ),
    "box": Kind(
        lambda: feasible.Box(oe.Columns("least"), [oe.Columns("most"), 2.0, 3.0]),
        lambda rng, n: {"least": rng.uniform(-2, 0, n), "most": rng.uniform(0.1, 4, n)},
        lambda row: feasible.Box([row.least] * 3, [row.most, 2.0, 3.0]),
    ),
    "polytope": Kind(
        lambda: feasible.Polytope(A_ub=ROWS, b_ub=[oe.Columns("room"), 0.6]),
        lambda rng, n: {"room": rng.uniform(0, 1.5, n)},
        lambda row: feasible.Polytope(A_ub=ROWS, b_ub=[row.room, 0.6]),
    ),
    "risk": Kind(
        lambda: feasible.RiskBudget(COVARIANCE, oe.Columns("risk")),
        lambda rng, n: {"risk": rng.uniform(1.5, 4.0, n)},
        lambda row: feasible.RiskBudget(COVARIANCE, row.risk),
    ),
    "linear cost": Kind(
        lambda: feasible.WithCost(feasible.Knapsack(WEIGHTS, oe.Columns("budget")), linear=oe.Columns("fee")),
        lambda rng, n: {"budget": rng.uniform(0, 5, n), "fee": rng.uniform(0, 0.5, n)},
        lambda row: feasible.WithCost(feasible.Knapsack(WEIGHTS, row.budget), linear=row.fee),
        lambda X, a: np.asarray(X["fee"]) * a.sum(axis=1),
    ),
    "turnover": Kind(
        lambda: feasible.WithCost(feasible.Simplex(D), turnover=(oe.Columns("held_*"), 0.3)),
        drawn_weights,
        lambda row: feasible.WithCost(feasible.Simplex(D), turnover=(held(row), 0.3)),
        lambda X, a: 0.3 * np.abs(a - held(X)).sum(axis=1),
    ),
    "quadratic cost": Kind(
        lambda: feasible.WithCost(feasible.Simplex(D), quadratic=(oe.Columns("gamma"), COVARIANCE)),
        lambda rng, n: {"gamma": rng.uniform(0.05, 0.5, n)},
        lambda row: feasible.WithCost(feasible.Simplex(D), quadratic=(row.gamma, COVARIANCE)),
        lambda X, a: np.asarray(X["gamma"]) * ((a @ COVARIANCE) * a).sum(axis=1),
    ),
}


@dataclass(frozen=True)
class World:
    """A problem in which the set differs by row: a frame of rows, labels, predictions, and sets made by hand."""

    X: pd.DataFrame
    Y: Floats
    P: Floats
    omega: FeasibleSet
    sets: list[FeasibleSet]
    cost: Callable[[Any, Floats], Floats]

    def payoff(self, actions: Floats, coefficients: Floats, sign: float) -> Floats:
        """What actions come to, net of costs, in the sense of maximising."""
        return np.asarray(sign * (actions * coefficients).sum(axis=1) - self.cost(self.X, actions))

    @property
    def models(self) -> list[tuple[str, Any]]:
        return [(f"m{i}", lambda X, p=p: p[X["row"]]) for i, p in enumerate(self.P)]

    @property
    def policies(self) -> list[tuple[str, Any]]:
        return [(f"m{i}", lambda X, a=a: a[X["row"]]) for i, a in enumerate(map(self.induced, self.P))]

    def induced(self, coefficients: Floats) -> Floats:
        """The best action of every row, by a set made for that row alone."""
        return np.concatenate([one.argmax(c[None]) for one, c in zip(self.sets, coefficients, strict=True)])

    def half_bound(self, alpha: float, width: float, h: Floats) -> float:
        """Lemma 3 between the envelope of all rows' bounds."""
        lower = np.min([one.lower for one in self.sets], axis=0)
        upper = np.max([one.upper for one in self.sets], axis=0)
        reach, span = np.maximum(np.abs(lower), np.abs(upper)).sum(), (upper - lower).sum()
        return float(alpha * reach / width + width * span * (np.abs(self.Y).max() + np.abs(h).max()) / 2) + ROUNDING


def make_world(seed: int, kind: str, n: int = 60) -> World:
    problem, rng, made = random_problem(seed, n=n, d=D), np.random.default_rng(seed), KINDS[kind]
    X = pd.DataFrame({"row": np.arange(n), **made.draw(rng, n)})
    sets = [made.alone(row) for row in X.itertuples()]
    return World(X, problem.Y, problem.P, made.by_row(), sets, made.cost)


@given(seed=seeds, kind=st.sampled_from(sorted(KINDS)), sense=senses, schedule=schedules, alpha=alphas, width=widths)
def test_lemmas_7_to_9_hold_for_the_white_box(
    seed: int, kind: str, sense: str, schedule: str, alpha: float, width: float
) -> None:
    world, sign = make_world(seed, kind), 1.0 if sense == "max" else -1.0
    X, Y, k = world.X, world.Y, len(world.P)
    options: dict[str, Any] = {"alpha": alpha, "bucket_width": width, "sense": sense, "schedule": schedule}
    ensemble = oe.WhiteBoxEnsemble(world.models, world.omega, validation=None, **options).fit(X, Y)
    h = ensemble.predict_members(X)
    actions = np.stack([world.induced(sign * p) for p in h])
    bound = world.half_bound(alpha * k, width, h)
    decided, chosen = np.asarray(ensemble.decide(X)), ensemble.choose(X)
    np.testing.assert_array_equal(decided, actions[chosen, np.arange(len(X))])
    earned, promised = world.payoff(decided, Y, sign).mean(), sign * ensemble.self_assess(X).mean()
    np.testing.assert_allclose(ensemble.score(X, Y), earned, rtol=1e-9, atol=1e-12)
    assert abs(promised - earned) <= bound  # Lemma 7
    pointwise = np.max([world.payoff(a, p, sign) for a, p in zip(actions, h, strict=True)], axis=0).mean()
    assert earned >= pointwise - bound  # Lemma 8
    realised = np.stack([world.payoff(a, Y, sign) for a in actions])
    for phi in product(range(k), repeat=k):  # Lemma 9: every way to swap
        assert earned >= realised[np.array(phi)[chosen], np.arange(len(X))].mean() - 2 * bound
    assert ensemble.guarantees_.query("guaranteed")["holds"].all()


@given(seed=seeds, kind=st.sampled_from(sorted(KINDS)), sense=senses, schedule=schedules, alpha=alphas, width=widths)
def test_lemmas_3_and_4_hold_for_the_black_box(
    seed: int, kind: str, sense: str, schedule: str, alpha: float, width: float
) -> None:
    world, sign = make_world(seed, kind), 1.0 if sense == "max" else -1.0
    X, Y = world.X, world.Y
    options: dict[str, Any] = {"alpha": alpha, "bucket_width": width, "sense": sense, "schedule": schedule}
    ensemble = oe.BlackBoxEnsemble(world.policies, world.omega, validation=None, **options).fit(X, Y)
    h, own = ensemble.predict(X), np.asarray(ensemble.decide(X))
    np.testing.assert_array_equal(own, world.induced(sign * h))
    bound, earned = world.half_bound(alpha, width, h), world.payoff(own, Y, sign).mean()
    np.testing.assert_allclose(ensemble.score(X, Y), earned, rtol=1e-9, atol=1e-12)
    assert abs(sign * ensemble.self_assess(X).mean() - earned) <= bound  # Corollary 1
    for predictions in world.P:
        actions = world.induced(predictions)
        theirs = world.payoff(actions, Y, sign).mean()
        assert abs(world.payoff(actions, h, sign).mean() - theirs) <= bound  # Lemma 3
        assert earned >= theirs - 2 * bound  # Lemma 4
    assert ensemble.guarantees_.query("guaranteed")["holds"].all()


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("sense", ["max", "min"])
def test_a_fixed_set_given_as_columns_of_constants_gives_the_bits_of_the_fixed_set(kind: str, sense: str) -> None:
    problem, made = random_problem(3, n=400, d=D), KINDS[kind]
    one = {name: np.repeat(values, 400) for name, values in made.draw(np.random.default_rng(0), 1).items()}
    X = pd.DataFrame({"row": np.arange(400), **one})
    fixed, by_row = made.alone(next(X.itertuples())), made.by_row()
    world = World(X, problem.Y, problem.P, by_row, [fixed] * 400, made.cost)
    options: dict[str, Any] = {"alpha": 0.05, "sense": sense}
    for make in (
        lambda omega: oe.WhiteBoxEnsemble(world.models, omega, validation=None, **options),
        lambda omega: oe.WhiteBoxEnsemble(world.models, omega, validation=None, schedule="round-robin", **options),
        lambda omega: oe.BlackBoxEnsemble(world.policies, omega, validation=None, **options),
        lambda omega: oe.DecisionEnsemble(models=world.models, feasible=omega, sense=sense),
    ):
        found, expected = (make(omega).fit(X, world.Y).answer(X) for omega in (by_row, fixed))
        for name in ("actions", "promised", "low", "high", "chosen", "predictions", "assessed"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
