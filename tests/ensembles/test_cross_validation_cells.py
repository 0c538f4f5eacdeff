"""Cells of fewer than min_cell rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.multicalibration import cell_tables as _tables
from tests.ensembles.cross_validated import BOTH, NOT_CONVERGED, PAPER, PROBLEM, N, make
from tests.problems import black_box_masks, level_set_masks, random_problem, violation, white_box_masks


@NOT_CONVERGED
@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
@pytest.mark.parametrize("limit", [2048, 3])
@BOTH
def test_every_cell_of_enough_rows_ends_within_alpha_and_the_others_are_counted(
    kind: Any, schedule: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tables, "TABLE_LIMIT", limit)
    problem = random_problem(5, n=150, d=3, k=2)
    parameters = {**PAPER, "min_cell": 20, "schedule": schedule, "max_rounds": 10_000, "alpha": 0.002}
    ensemble = make(kind, problem, **parameters).fit(problem.X, problem.Y)
    if kind is oe.WhiteBoxEnsemble:
        masks = white_box_masks(ensemble, problem, 4)
        residuals = list(problem.Y - ensemble.predict_members(problem.X))
    else:
        masks, residuals = [black_box_masks(ensemble, problem, 4)], [problem.Y - ensemble.predict(problem.X)]
    pairs = [(mask, residual) for own, residual in zip(masks, residuals, strict=True) for mask in own]
    kept = [violation(mask, residual) for mask, residual in pairs if mask.sum() >= 20]
    thin = [violation(mask, residual) for mask, residual in pairs if 0 < mask.sum() < 20]
    assert ensemble.worst_violation_ == pytest.approx(max(kept), abs=1e-12)
    assert ensemble.n_thin_ == len(thin) > 0
    assert f"({len(thin)} of {len(thin) + len(kept)} cells have fewer than 20 rows and were left" in ensemble.stopped_
    if schedule != "round-robin":  # whose last patches may bring a violation back
        assert max(kept) <= ensemble.alpha
        assert ensemble.stopped_.startswith("every cell of at least 20 rows is within alpha")
    lemmas = ensemble.guarantees_.set_index("lemma")["guaranteed"]
    utility = lemmas[lemmas.index.isin(["Lemma 3", "Lemma 4", "Lemma 7", "Lemma 8", "Lemma 9"])]
    assert (utility == (max(kept + thin) <= ensemble.alpha)).all()
    assert schedule != "joint" or not utility.any()


@NOT_CONVERGED
@pytest.mark.parametrize("limit", [2048, 3])
@pytest.mark.parametrize("shrinkage", [0.0, 4.0])
def test_a_joint_round_is_least_squares_on_the_cells_that_are_kept(
    limit: int, shrinkage: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tables, "TABLE_LIMIT", limit)
    problem, least = random_problem(6, n=80, d=3, k=2), 20
    parameters = {**PAPER, "min_cell": least, "schedule": "joint", "shrinkage": shrinkage, "max_rounds": 1}
    ensemble = make(oe.BlackBoxEnsemble, problem, **parameters).fit(problem.X, problem.Y)
    mean = problem.Y.mean(axis=0)
    first = problem.omega.argmax(np.tile(mean, (80, 1)))
    masks = [mask for actions in [*problem.actions, first] for mask in level_set_masks(actions, problem.omega, 4)]
    Z = np.array([mask for mask in masks if mask.sum() >= least], dtype=float).T
    assert 0 < Z.shape[1] < sum(mask.any() for mask in masks)
    ridge = np.vstack([Z, np.sqrt(shrinkage) * np.eye(Z.shape[1])])
    target = np.vstack([problem.Y - mean, np.zeros((Z.shape[1], 3))])
    delta = np.linalg.lstsq(ridge, target, rcond=None)[0]
    np.testing.assert_allclose(ensemble.predict(problem.X), mean + Z @ delta, rtol=0, atol=1e-9)


@NOT_CONVERGED
@BOTH
def test_with_every_cell_below_min_cell_nothing_is_corrected(kind: Any) -> None:
    ensemble = make(kind, min_cell=N + 1).fit(PROBLEM.X, PROBLEM.Y)
    assert (ensemble.n_rounds_, ensemble.worst_violation_) == (0, 0.0)
    assert f"{ensemble.n_thin_} of {ensemble.n_thin_} cells have fewer than 121 rows" in ensemble.stopped_
    assert make(kind, min_cell=None).fit(PROBLEM.X, PROBLEM.Y).min_cell_ == 50
    paper = make(kind, **{**PAPER, "min_cell": None}).fit(PROBLEM.X, PROBLEM.Y)
    assert (paper.min_cell_, paper.n_thin_, paper.schedule_) == (1, 0, "frozen")
