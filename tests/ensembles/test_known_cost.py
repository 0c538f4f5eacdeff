"""Payoffs net of a known cost of acting, everywhere: recomputed from labels and actions, by the definition."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.feasible import FeasibleSet
from tests.problems import Floats

D, ROWS, FIT = 4, 700, 500
SQUARES = np.diag([0.3, 0.1, 0.2, 0.0]) + 0.05
MODELS = [(name, oe.Columns(f"{name}_*")) for name in ("a", "b")]
NEW = slice(FIT, ROWS)


@cache
def table() -> tuple[pd.DataFrame, Floats]:
    """Two models that know half of the labels each, what is held, and fees."""
    rng = np.random.default_rng(5)
    signal = rng.normal(size=(ROWS, D))
    known = np.array([[1.0, 1.0, 0.2, 0.2], [0.2, 0.2, 1.0, 1.0]])
    columns = {"a": signal * known[0], "b": signal * known[1], "held": rng.dirichlet(np.ones(D), ROWS)}
    X = pd.DataFrame({f"{name}_{j}": values[:, j] for name, values in columns.items() for j in range(D)})
    return X.assign(fee=rng.uniform(0.1, 0.6, ROWS)), signal + 0.5 * rng.normal(size=(ROWS, D))


MOVING: dict[str, Any] = {"linear": [0.2, 0.0, -0.1, 0.0], "turnover": (oe.Columns("held_*"), oe.Columns("fee"))}
SETS: dict[str, FeasibleSet] = {
    "simplex": feasible.WithCost(feasible.Simplex(D), **MOVING),
    "top k": feasible.WithCost(feasible.TopK(D, k=2), **MOVING),
    "fixed": feasible.WithCost(feasible.Box(-1.0, 1.0, dimension=D), quadratic=SQUARES),
}


def cost(which: str, X: pd.DataFrame, actions: Floats) -> Floats:
    if which == "fixed":
        return np.asarray(np.einsum("ni,ij,nj->n", actions, SQUARES, actions))
    moved = np.abs(actions - X.filter(like="held_").to_numpy()).sum(axis=1)
    return np.asarray(0.2 * actions[:, 0] - 0.1 * actions[:, 2] + X["fee"].to_numpy() * moved)


def make(which: str, kind: str, sense: str) -> Any:
    omega, sign = SETS[which], 1.0 if sense == "max" else -1.0
    if kind == "decision":
        return oe.DecisionEnsemble(MODELS, feasible=omega, sense=sense, context=None)
    options: dict[str, Any] = {"alpha": 0.1, "validation": None, "sense": sense}
    if kind == "white":
        return oe.WhiteBoxEnsemble(MODELS, omega, **options)
    policies = [(name, lambda X, m=model: omega.for_rows(X).argmax(sign * m.predict(X))) for name, model in MODELS]
    return oe.BlackBoxEnsemble(policies, omega, **options)


@cache
def fitted(which: str, kind: str, sense: str) -> Any:
    X, Y = table()
    return make(which, kind, sense).fit(X[:FIT], Y[:FIT])


KINDS = pytest.mark.parametrize("kind", ["decision", "white", "black"])
SENSES = pytest.mark.parametrize(("sense", "sign"), [("max", 1.0), ("min", -1.0)])
EVERY_SET = pytest.mark.parametrize("which", sorted(SETS))


def net(which: str, sign: float, X: pd.DataFrame, actions: Floats, labels: Floats) -> Floats:
    """The payoff in the user's sense: the cost is taken off what is maximised, and added to what is minimised."""
    return np.asarray((actions * labels).sum(axis=1) - sign * cost(which, X, actions))


@pytest.mark.no_cover
@KINDS
@SENSES
@EVERY_SET
def test_what_is_earned_is_net(which: str, kind: str, sense: str, sign: float) -> None:
    (X, Y), ensemble = table(), fitted(which, kind, sense)
    new, labels = X[NEW], Y[NEW]
    actions = ensemble.decide(new).to_numpy()
    earned = net(which, sign, new, actions, labels)
    np.testing.assert_allclose(ensemble.earned(new, actions, labels), earned, atol=1e-12)
    np.testing.assert_allclose(ensemble.score(new, labels), sign * earned.mean(), rtol=1e-12)
    audit = ensemble.audit(new, labels)
    np.testing.assert_allclose(audit.totals.realised, earned.mean(), rtol=1e-12)
    np.testing.assert_allclose(audit.totals.promised, ensemble.answer(new).promised.mean(), rtol=1e-9)
    for name, model in MODELS:
        own = SETS[which].for_rows(new).argmax(sign * model.predict(new))
        if kind != "white":  # its models are corrected before they decide
            gain = sign * (earned - net(which, sign, new, own, labels)).mean()
            np.testing.assert_allclose(audit.lift.set_index("rival").loc[name, "gain"], gain, atol=1e-12)


@SENSES
@EVERY_SET
def test_the_leaderboard_is_net(which: str, sense: str, sign: float) -> None:
    (X, Y), ensemble = table(), fitted(which, "decision", sense)
    board, fit = ensemble.leaderboard_.set_index("candidate"), X[:FIT]
    for name, model in MODELS:
        own = SETS[which].for_rows(fit).argmax(sign * model.predict(fit))
        earned = net(which, sign, fit, own, Y[:FIT]).mean()
        np.testing.assert_allclose(board.loc[name, "realised"], earned, atol=1e-12)
    # the promise is of the same payoffs: within the interval of what the candidate earns out of fold
    followed = board.loc[ensemble.winner_]
    assert followed["low"] <= followed["promised"] <= followed["high"]


@pytest.mark.no_cover
@SENSES
@EVERY_SET
@pytest.mark.parametrize("kind", ["white", "black"])
def test_history_and_guarantees_are_net(which: str, kind: str, sense: str, sign: float) -> None:
    (X, Y), ensemble = table(), fitted(which, kind, sense)
    fit, labels = X[:FIT], Y[:FIT]
    last = ensemble.history_.iloc[-1]
    actions = ensemble.decide(fit).to_numpy()
    earned = net(which, sign, fit, actions, labels).mean()
    np.testing.assert_allclose(last["realised"], earned, rtol=1e-9)
    promised = ensemble.self_assess(fit).mean()
    np.testing.assert_allclose(last["promised"], promised, rtol=1e-9)
    found = ensemble.guarantees_
    assert found["holds"].all()
    gap = found.loc[found["quantity"] == "|promised − realised|", "observed"].iloc[0]
    np.testing.assert_allclose(gap, abs(promised - earned), rtol=1e-9)


@SENSES
@EVERY_SET
def test_models_assess_their_own_actions_net(which: str, sense: str, sign: float) -> None:
    (X, _), ensemble = table(), fitted(which, "white", sense)
    new = X[NEW]
    predictions, omega = ensemble.predict_members(new), SETS[which].for_rows(new)
    actions = np.stack([omega.argmax(sign * own) for own in predictions])
    assessed = np.stack([net(which, sign, new, a, h) for a, h in zip(actions, predictions, strict=True)])
    np.testing.assert_array_equal(ensemble.choose(new), (sign * assessed).argmax(axis=0))
    np.testing.assert_allclose(ensemble.self_assess(new), sign * (sign * assessed).max(axis=0), atol=1e-12)
    np.testing.assert_array_equal(ensemble.decide(new), actions[ensemble.choose(new), np.arange(len(new))])


@KINDS
@SENSES
def test_an_explanation_tells_the_cost(kind: str, sense: str, sign: float) -> None:
    (X, _), ensemble = table(), fitted("simplex", kind, sense)
    new = X[NEW]
    for row in (0, 3, 17):
        told = ensemble.explain(new, row)
        here = cost("simplex", new[row : row + 1], told.action[None])[0]
        np.testing.assert_allclose(told.cost, here, atol=1e-12)
        predicted = told.steps.iloc[-1, 1:].to_numpy(dtype=np.float64) @ told.action
        np.testing.assert_allclose(told.assessed, predicted - sign * here, atol=1e-12)
        assert f"a known cost of {here:.4g} included" in str(told)


@KINDS
def test_the_promise_falls_as_acting_becomes_dear(kind: str) -> None:
    (X, _), ensemble = table(), fitted("simplex", kind, "max")
    cheap, dear = (ensemble.promise(X[NEW].assign(fee=fee)).mean for fee in (0.0, 1.0))
    assert cheap > dear


def test_dear_moves_are_not_made() -> None:
    (X, _), ensemble = table(), fitted("simplex", "decision", "max")
    stays = ensemble.decide(X[NEW].assign(fee=1e3))
    np.testing.assert_allclose(stays, X[NEW].filter(like="held_").to_numpy(), atol=1e-12)


@pytest.mark.no_cover
@KINDS
@EVERY_SET
def test_a_saved_ensemble_knows_its_costs(which: str, kind: str, tmp_path: Path) -> None:
    (X, Y), ensemble = table(), fitted(which, kind, "max")
    ensemble.save(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe", policies=dict(ensemble.policies) if kind == "black" else None)
    np.testing.assert_array_equal(loaded.decide(X[NEW]), ensemble.decide(X[NEW]))
    assert loaded.score(X[NEW], Y[NEW]) == ensemble.score(X[NEW], Y[NEW])


@SENSES
def test_updates_are_net(sense: str, sign: float) -> None:
    X, Y = table()
    ensemble = make("simplex", "decision", sense).fit(X[:400], Y[:400])
    before = len(ensemble.record_.realised)
    ensemble.update(X[400:500], Y[400:500])
    assert ensemble.n_updated_ == 100
    new = X[400:500]
    earned = net("simplex", sign, new, ensemble.decide(new).to_numpy(), Y[400:500])
    np.testing.assert_allclose(ensemble.record_.realised[before:], earned, atol=1e-12)


@pytest.mark.parametrize("kind", ["decision", "white"])
@pytest.mark.parametrize("sense", ["max", "min"])
def test_files_give_the_bits_of_memory(kind: str, sense: str, tmp_path: Path) -> None:
    X, Y = table()
    frame = X[:FIT].assign(**{f"y_{j}": Y[:FIT, j] for j in range(D)})
    frame[:200].to_parquet(tmp_path / "part-0.parquet")
    frame[200:].to_parquet(tmp_path / "part-1.parquet")
    rows = oe.Rows(str(tmp_path / "part-*.parquet"), labels="y_*")
    found, expected = make("simplex", kind, sense).fit(rows), fitted("simplex", kind, sense)
    np.testing.assert_array_equal(found.decide(X[NEW]), expected.decide(X[NEW]))
    assert found.score(X[NEW], Y[NEW]) == expected.score(X[NEW], Y[NEW])
    if kind == "decision":
        pd.testing.assert_frame_equal(found.leaderboard_, expected.leaderboard_)
    else:
        pd.testing.assert_frame_equal(found.guarantees_, expected.guarantees_)
