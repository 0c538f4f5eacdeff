"""A batch on its way to decisions: what is skipped, cut up or hinted at changes nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble._core.arrays import Indices
from optensemble.exceptions import SolverError
from optensemble.stacking import final_policy, policy_batch
from optensemble.stacking.arm_choice import (
    NO_ABSENCE,
    NO_COSTS,
    Blend,
    Choice,
    Contenders,
    blend_evaluators,
    pick_arms,
)
from optensemble.stacking.arms import PLAYED, Decisions
from optensemble.stacking.policy_batch import PolicyBatch
from tests.counting import CountingSet
from tests.problems import Floats

D = 6


class DearSet(CountingSet):
    """A set without a kernel that says that it is dear."""

    dear = True


def sets() -> dict[str, feasible.FeasibleSet]:
    """Return sets that are dear, and one that is not."""
    rng = np.random.default_rng(4)
    weights, root = rng.uniform(1, 10, size=D), rng.normal(size=(D, D))
    return {
        "items": feasible.Knapsack(np.rint(weights), 15.0, integer=True),
        "amounts": feasible.Knapsack(weights, 12.0),
        "portfolios": feasible.RiskBudget(root @ root.T + np.eye(D), 2.0),
        "vertices": feasible.Simplex(D),
    }


def fit(omega: feasible.FeasibleSet, *, bias: float = 0.0, n: int = 600) -> tuple[Any, Floats]:
    """Fit three models of noisy labels, lower by ``bias`` where the first would act; return it and new rows."""
    rng = np.random.default_rng(3)
    signal = rng.normal(size=(n + 300, D))
    said = [signal + rng.normal(size=signal.shape) for _ in range(3)]
    labels = signal + 0.5 * rng.normal(size=signal.shape) - bias * omega.argmax(said[0])
    X = np.hstack(said)
    models = [(f"m{m}", oe.Columns(list(range(m * D, (m + 1) * D)))) for m in range(3)]
    return oe.DecisionEnsemble(models=models, feasible=omega).fit(X[:n], labels[:n]), X[n:]


def textbook(ensemble: Any, X: Floats) -> Decisions:
    """Decide by solving every candidate's policy, assessing all of them, and taking the first of the best."""
    policy, outputs = ensemble.decider_, ensemble._query()(X)
    forecasts = policy.forecaster(outputs).forecasts
    played = [name for name in PLAYED if name in forecasts]
    evaluators = np.stack([forecasts[name] for name in played if name != "average"])
    arms = np.stack([*outputs.actions, *(outputs.omega.argmax(forecasts[name]) for name in played)])
    assessed = np.einsum("and,end->aen", arms, evaluators)
    beyond = assessed - assessed.mean(axis=0)
    picked = (policy.choice.constants[:, None] + np.einsum("aen,e->an", beyond, policy.choice.slopes)).argmax(axis=0)
    actions = arms[picked, np.arange(len(X))]
    last = evaluators[-1]
    numbers = np.array([*range(3), *(3 + policy.forecasts.index(name) for name in played)])
    return Decisions(actions, numbers[picked], (actions * last).sum(axis=1), last)


@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("name", ["items", "amounts", "portfolios", "vertices"])
def test_decisions_are_those_of_the_textbook(name: str, bias: float) -> None:
    ensemble, X = fit(sets()[name], bias=bias)
    expected, decided = textbook(ensemble, X), ensemble.decider_.decide(ensemble._asked(X))
    assert ensemble.winner_ == "ensemble"
    np.testing.assert_array_equal(decided.actions, expected.actions)
    np.testing.assert_array_equal(decided.chosen, expected.chosen)
    np.testing.assert_allclose(decided.assessed, expected.assessed, atol=1e-12)
    np.testing.assert_allclose(decided.forecast, expected.forecast, atol=1e-12)


@pytest.mark.parametrize("name", ["items", "amounts", "portfolios", "vertices"])
def test_rows_are_decided_alike_a_few_at_a_time_and_all_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, X = fit(sets()[name], bias=2.0)
    whole = ensemble.decider_(ensemble._asked(X)).decisions
    monkeypatch.setattr(final_policy, "ROWS_AT_ONCE", 64)
    monkeypatch.setattr(final_policy, "SMALL_PRODUCT", 0)
    cut = ensemble.decider_.decide(ensemble._asked(X[:129]))  # the last is not left alone
    for ours, theirs in zip(vars(cut).values(), vars(whole).values(), strict=True):
        np.testing.assert_allclose(ours, theirs[:129], atol=1e-12)


@pytest.mark.parametrize("n", [100, 9259, 9260, 18_520, 50_000])
def test_no_forecast_is_made_by_a_product_that_is_small_only_because_rows_were_cut(n: int) -> None:
    """The refinement of three members multiplies 18 by 6 numbers in a row; without it, rows are cut as suits them."""
    ensemble, X = fit(sets()["amounts"])
    decider, asked = ensemble.decider_, ensemble._asked(np.resize(X, (n, X.shape[1])))
    for refinement in (None, decider.forecaster.ridge):
        kept = dataclasses.replace(decider, forecaster=dataclasses.replace(decider.forecaster, refinement=refinement))
        pieces = np.diff(kept._cut(asked))
        assert pieces.sum() == n
        if refinement is None:
            assert pieces.max() <= final_policy.ROWS_AT_ONCE + final_policy.ROWS_TOGETHER
            assert pieces.min() > 1
        else:
            assert len(pieces) == 1 or pieces.min() * refinement.coefficients.size > final_policy.SMALL_PRODUCT


def test_policies_that_cannot_win_are_not_solved() -> None:
    inner = sets()["amounts"]
    ensemble, X = fit(inner)
    dear = DearSet(inner)
    ensemble._set = dear
    decided = ensemble.decide(X)
    np.testing.assert_array_equal(decided, textbook(ensemble, X).actions)
    dear.solved.clear()
    ensemble.decide(X)
    candidates = 3 + sum(name in PLAYED for name in ensemble.decider_.forecasts)
    assert sum(dear.solved) < 0.7 * candidates * len(X)


def test_rows_that_rounding_could_decide_are_compared_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, X = fit(sets()["amounts"])
    expected = ensemble.decider_.decide(ensemble._asked(X))
    taken = list[int]()
    original = PolicyBatch._take

    def noted(self: PolicyBatch, rows: Indices) -> PolicyBatch:
        taken.append(len(rows))
        return original(self, rows)

    monkeypatch.setattr(PolicyBatch, "_take", noted)

    def everything_is_close(*given: Any) -> Blend:
        return blend_evaluators(*given)._replace(slack=np.full(len(X), 1e3))

    monkeypatch.setattr(policy_batch, "blend_evaluators", everything_is_close)
    again = ensemble.decider_.decide(ensemble._asked(X))
    assert taken == [len(X)]
    for ours, theirs in zip(vars(again).values(), vars(expected).values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_unsolved_row_is_named_by_its_place_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    omega = feasible.Knapsack(np.ones(D), capacity=oe.Columns([3 * D]))
    rng = np.random.default_rng(5)
    X = np.hstack([rng.normal(size=(400, 3 * D)), np.full((400, 1), 2.0)])
    models = [(f"m{m}", oe.Columns(list(range(m * D, (m + 1) * D)))) for m in range(3)]
    ensemble = oe.DecisionEnsemble(models=models, feasible=omega, context=None).fit(X, X[:, :D] + X[:, D : 2 * D])
    monkeypatch.setattr(final_policy, "ROWS_AT_ONCE", 64)
    monkeypatch.setattr(final_policy, "SMALL_PRODUCT", 0)
    kernel = omega.kernel
    assert kernel is not None

    def fails(self: Any, coefficients: Floats, actions: Floats, hint: Floats | None = None, rows: Any = None) -> None:
        error = SolverError("row 3 could not be solved")
        error.rows = "row 3", 3, 1
        raise error

    monkeypatch.setattr("optensemble.feasible._batches.BatchSolver.__call__", fails)
    monkeypatch.setattr("optensemble.feasible._batches.BatchSolver.solve_each", fails)
    sizes = list[int]()
    original = PolicyBatch.__init__

    def noted(self: Any, forecaster: Any, asked: Any, baselines: Any = ()) -> None:
        sizes.append(asked.count)
        original(self, forecaster, asked, baselines)

    monkeypatch.setattr(PolicyBatch, "__init__", noted)
    with pytest.raises(SolverError):
        ensemble.decide(X)
    assert sizes[-1] == len(X)  # the error comes from all rows at once


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from([1, 4, 7, 8, 13]),
    st.booleans(),
    st.booleans(),
)
def test_the_arm_that_is_picked_has_the_highest_calibrated_assessment(
    seed: int, arms: int, evaluators: int, d: int, gaps: bool, costly: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = 9
    actions: Floats = rng.integers(0, 2, size=(arms, n, d)).astype(np.float64)
    forecasts = rng.normal(size=(evaluators, n, d))
    # arms without a constant of their own that do the same are worth the same
    choice = Choice(rng.normal(size=arms) * rng.integers(0, 2, size=arms), rng.normal(size=evaluators))
    costs = rng.uniform(size=(arms, n)) if costly else NO_COSTS
    absent = rng.uniform(size=(arms, n)) < 0.4 if gaps else NO_ABSENCE
    if gaps:
        absent[-1] = False
    assessed = np.einsum("and,end->aen", actions, forecasts) - (costs[:, None] if costly else 0.0)
    values = choice.values(assessed, absent if gaps else None)
    blend = blend_evaluators(forecasts, choice.constants, choice.slopes, np.ones(d))
    np.testing.assert_allclose(blend.values, np.einsum("e,end->nd", choice.slopes, forecasts), atol=1e-12)
    picked, taken = pick_arms(Contenders(actions, forecasts, costs, absent), choice.constants, choice.slopes, blend)
    exact = blend._replace(slack=np.full(n, np.inf))
    exactly = pick_arms(Contenders(actions, forecasts, costs, absent), choice.constants, choice.slopes, exact)
    np.testing.assert_array_equal(picked, exactly[0])
    np.testing.assert_allclose(values[picked, np.arange(n)], values.max(axis=0), atol=1e-12)
    np.testing.assert_array_equal(taken, actions[picked, np.arange(n)])
