"""Lemmas 3, 4 and 7 to 10 with Corollary 1, on the fitting rows, recomputed from what the ensembles return."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble import guarantees
from tests.problems import Floats, Problem, black_box_masks, random_problem

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

seeds = st.integers(0, 2**32 - 1)
sets = st.sampled_from(["polytope", "simplex", "vertices", "box", "risk"])
senses = st.sampled_from(["max", "min"])
schedules = st.sampled_from(["frozen", "joint"])
alphas = st.sampled_from([0.003, 0.03, 0.3])
widths = st.sampled_from([1.0, 0.5, 0.25, 0.1])
ROUNDING = 1e-9


def payoff(actions: Floats, coefficients: Floats) -> Floats:
    return np.asarray((actions * coefficients).sum(axis=1))


def half_bound(problem: Problem, alpha: float, width: float, h: Floats) -> float:
    """Lemma 3 written out: α·Σ max(|l|, |u|)/w + w·Σ(u − l)·(M + M_h)/2."""
    lower, upper = problem.omega.lower, problem.omega.upper
    reach, span = np.maximum(np.abs(lower), np.abs(upper)).sum(), (upper - lower).sum()
    return float(alpha * reach / width + width * span * (np.abs(problem.Y).max() + np.abs(h).max()) / 2) + ROUNDING


@given(seed=seeds, omega=sets, sense=senses, schedule=schedules, alpha=alphas, width=widths)
def test_lemmas_7_to_9_hold_for_the_white_box(
    seed: int, omega: str, sense: str, schedule: str, alpha: float, width: float
) -> None:
    problem = random_problem(seed, omega=omega)
    ensemble = problem.white_box(alpha=alpha, bucket_width=width, sense=sense, schedule=schedule)
    sign = 1.0 if sense == "max" else -1.0
    h, X, Y, k = ensemble.predict_members(problem.X), problem.X, problem.Y, len(problem.P)
    actions = np.stack([problem.omega.argmax(sign * p) for p in h])
    bound = half_bound(problem, alpha * k, width, h)
    earned, promised = sign * payoff(ensemble.decide(X), Y).mean(), sign * ensemble.self_assess(X).mean()
    assert abs(promised - earned) <= bound  # Lemma 7
    pointwise = np.max([sign * payoff(a, p) for a, p in zip(actions, h, strict=True)], axis=0).mean()
    assert earned >= pointwise - bound  # Lemma 8
    chosen = ensemble.choose(X)
    realised = sign * np.stack([payoff(a, Y) for a in actions])
    for phi in product(range(k), repeat=k):  # Lemma 9: every way to swap
        swapped = realised[np.array(phi)[chosen], np.arange(len(X))].mean()
        assert earned >= swapped - 2 * bound
    assert ensemble.guarantees_["holds"].all()
    assert ensemble.guarantees_["guaranteed"].all()


@given(seed=seeds, omega=sets, sense=senses, schedule=schedules, alpha=alphas, width=widths)
def test_lemmas_3_and_4_and_corollary_1_hold_for_the_black_box(
    seed: int, omega: str, sense: str, schedule: str, alpha: float, width: float
) -> None:
    problem = random_problem(seed, omega=omega)
    ensemble = problem.black_box(alpha=alpha, bucket_width=width, sense=sense, schedule=schedule)
    sign, h = (1.0 if sense == "max" else -1.0), ensemble.predict(problem.X)
    own, bound = ensemble.decide(problem.X), half_bound(problem, alpha, width, h)
    earned = sign * payoff(own, problem.Y).mean()
    assert abs(sign * ensemble.self_assess(problem.X).mean() - earned) <= bound  # Corollary 1
    for actions in problem.actions:
        theirs = sign * payoff(actions, problem.Y).mean()
        assert abs(sign * payoff(actions, h).mean() - theirs) <= bound  # Lemma 3
        assert earned >= theirs - 2 * bound  # Lemma 4
    table = ensemble.guarantees_
    assert table.loc[table["lemma"] != "Lemma 10", "holds"].all()
    assert not table.loc[table["lemma"] == "Lemma 10", "guaranteed"].any()


@given(seed=seeds, sense=senses, alpha=alphas, width=st.sampled_from([0.5, 0.25]))
def test_lemma_10_holds_with_conditional_cells(seed: int, sense: str, alpha: float, width: float) -> None:
    problem = random_problem(seed, n=80, d=2, k=2)
    ensemble = problem.black_box(alpha=alpha, bucket_width=width, sense=sense, conditional=True)
    sign, h = (1.0 if sense == "max" else -1.0), ensemble.predict(problem.X)
    own = sign * payoff(ensemble.decide(problem.X), problem.Y)
    for cell in black_box_masks(ensemble, problem, round(1 / width)):
        if cell.any():
            bound = half_bound(problem, alpha / cell.mean(), width, h)
            for actions in problem.actions:
                assert own[cell].mean() >= sign * payoff(actions, problem.Y)[cell].mean() - 2 * bound
    assert ensemble.conditional_["holds"].all()
    assert ensemble.conditional_["guaranteed"].all()


def test_white_box_need_not_earn_what_the_models_as_given_earn() -> None:
    """Its lemmas compare with the corrected models: correcting the loud one drowns the one that was right."""
    rng = np.random.default_rng(79)
    n = int(rng.integers(4, 40))
    Y = rng.normal(size=(n, 2))
    problem = Problem(np.arange(n), Y, np.stack([0.01 * Y, 5 * rng.normal(size=(n, 2))]), oe.feasible.Simplex(2))
    ensemble = problem.white_box(alpha=1e-6, bucket_width=1.0)
    assert ensemble.converged_
    assert ensemble.guarantees_["holds"].all()
    earned = payoff(ensemble.decide(problem.X), Y).mean()
    assert earned < payoff(problem.actions[0], Y).mean() - 0.5


def test_shrunk_patches_are_not_counted_on() -> None:
    """A ridge round may lower the squared error by less than alpha squared, so no number of rounds is promised."""
    table = random_problem(0).white_box(alpha=0.1, schedule="joint", shrinkage=1.0).guarantees_
    assert not table.loc[table["lemma"].isin(["Lemma 2", "Lemma 6"]), "guaranteed"].any()
    assert table.loc[table["lemma"] == "Lemma 1", "holds"].all()


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_guarantees_hold_at_any_scale(scale: float) -> None:
    problem = random_problem(1)
    scaled = Problem(problem.X, scale * problem.Y, scale * problem.P, problem.omega)
    for ensemble in (scaled.white_box(alpha=0.03 * scale), scaled.black_box(alpha=0.03 * scale)):
        assert ensemble.converged_
        assert ensemble.guarantees_.query("guaranteed")["holds"].all()
        assert ensemble.n_rounds_ > 0


def counterexample() -> tuple[Problem, Floats]:
    """Four rows on which every level set is unbiased, and yet the model is wrong where it matters.

    The model's action is each corner of the square once. Its error on the second label, by row, is +, −, −, +: zero
    on average wherever the first coordinate is the same, and wherever the second is. But among the rows whose first
    coordinate is 0, the model buys the second label exactly where it is overestimated.
    """
    actions = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    h = 0.01 * (2 * actions - 1)
    labels = h + np.array([[0.0, 1.0], [0.0, -1.0], [0.0, -1.0], [0.0, 1.0]])
    problem = Problem(np.arange(4), labels, np.zeros((1, 4, 2)), oe.feasible.Box(dimension=2))
    np.testing.assert_array_equal(problem.omega.argmax(h), actions)
    return problem, h


def test_the_papers_conditional_lemma_does_not_follow_from_its_cells() -> None:
    problem, h = counterexample()
    alpha, width = 1e-6, 0.1
    nothing = [("nothing", lambda X: np.zeros((len(X), 2)))]
    ensemble = oe.BlackBoxEnsemble(
        nothing, problem.omega, init=lambda X: h[X], validation=None, alpha=alpha, bucket_width=width
    )
    ensemble.fit(problem.X, problem.Y)
    assert ensemble.converged_
    assert ensemble.n_rounds_ == 0  # consistent as it came
    assert ensemble.worst_violation_ == pytest.approx(0, abs=1e-15)
    cell = ensemble.decide(problem.X)[:, 0] == 0
    earned = payoff(ensemble.decide(problem.X), problem.Y)[cell].mean()
    M = float(np.abs(problem.Y).max())
    assert earned < 0 - guarantees.paper_lemma_10(alpha, width, 2, M, 0.5)  # doing nothing earns 0
    row = ensemble.guarantees_.set_index("lemma").loc["Lemma 10"]
    assert not row["holds"]
    assert not row["guaranteed"]


def test_conditional_cells_repair_the_counterexample() -> None:
    problem, h = counterexample()
    nothing = [("nothing", lambda X: np.zeros((len(X), 2)))]
    ensemble = oe.BlackBoxEnsemble(
        nothing, problem.omega, init=lambda X: h[X], validation=None, alpha=1e-6, conditional=True
    )
    ensemble.fit(problem.X, problem.Y)
    assert ensemble.n_rounds_ > 0
    assert ensemble.conditional_["holds"].all()
    assert ensemble.conditional_["guaranteed"].all()


@given(alpha=st.floats(1e-4, 1), M=st.floats(0.1, 100), d=st.integers(1, 50), k=st.integers(1, 9))
def test_the_papers_forms_are_the_general_ones_at_its_width(alpha: float, M: float, d: int, k: int) -> None:
    width, wide = guarantees.paper_width(alpha, M), guarantees.paper_width(alpha, M, k)
    assert guarantees.paper_lemma_3(alpha, d, M) == pytest.approx(guarantees.lemma_3(alpha, width, d, M, M))
    assert guarantees.paper_lemma_4(alpha, d, M) == pytest.approx(guarantees.lemma_4(alpha, width, d, M, M))
    assert guarantees.paper_lemma_7(alpha, d, M, k) == pytest.approx(guarantees.lemma_7(alpha, wide, d, M, M, k))
    assert guarantees.paper_lemma_8(alpha, d, M, k) == pytest.approx(guarantees.lemma_8(alpha, wide, d, M, M, k))
    assert guarantees.paper_lemma_9(alpha, d, M, k) == pytest.approx(guarantees.lemma_9(alpha, wide, d, M, M, k))
    assert guarantees.corollary_1(alpha, width, d, M, M) == guarantees.lemma_3(alpha, width, d, M, M)
    assert guarantees.lemma_5(alpha, M) == guarantees.lemma_2(alpha, M)
    corrected = 2 * alpha * d / (width * 0.5) + 2 * width * M * d
    assert guarantees.lemma_10(alpha, width, d, M, M, 0.5) == pytest.approx(corrected)
