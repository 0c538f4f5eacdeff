"""The final policy: candidates chosen out of fold, and the winner decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.outputs import View
from optensemble.stacking.arm_choice import Choice
from optensemble.stacking.final_policy import Decider, Learning, learn_decider
from optensemble.stacking.forecaster import Learned, learn_forecasts
from optensemble.stacking.leaderboard import ENSEMBLE
from optensemble.stats.folds import Fold
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stacking.candidates import textbook_choice


def learn(seed: int, sampling: Sampling, models: int = 2) -> tuple[Learning, Learned, View, Floats, list[Fold]]:
    n, omega = 300, feasible.Simplex(3)
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 3))
    predictions = signal + rng.normal(size=(3, n, 3))
    labels = signal + rng.normal(size=(n, 3))
    actions = np.stack([omega.argmax(p) for p in predictions])
    view = View(predictions[:models], actions, labels.std(axis=0))
    parts = sampling.folds(n, 0)
    learned = learn_forecasts(view, labels, omega, Buckets(omega.lower, omega.upper, 10), sampling, parts)
    names = ["a", "b", "c", *(name for name in NAMES if name in learned.out_of_fold), "ensemble"]
    return learn_decider(names, view, labels, omega, learned, sampling, parts), learned, view, labels, parts


NAMES = ("average", "stack", "refined", "patched", "ridge", "mean")


def top(forecast: Floats) -> Floats:
    return np.asarray(np.eye(3)[np.argmax(forecast, axis=1)])


@pytest.mark.parametrize("models", [0, 2])
@pytest.mark.parametrize("kind", ["independent", "in time order", "clustered"])
def test_candidates_are_picked_out_of_fold(models: int, kind: str) -> None:
    clusters = np.arange(300) // 6 if kind == "clustered" else None
    sampling = Sampling(kind == "in time order", clusters)
    learning, learned, view, labels, parts = learn(1, sampling, models)
    forecasts = learned.out_of_fold
    played = [name for name in ("average", "stack", "refined", "patched") if name in forecasts]
    actions = [*view.actions, *(top(forecasts[name]) for name in played)]
    judges = [forecasts[name] for name in ("stack", "refined", "patched") if name in forecasts]
    shares = blend(judges, labels)
    if models == 0:
        judges += [view.actions.mean(axis=0) * labels.std(axis=0), forecasts["mean"]]
        shares = np.concatenate([shares, [0.0, 0.0]])
    assessed = np.array([[(a * j).sum(axis=1) for j in judges] for a in actions])
    realised = np.array([(a * labels).sum(axis=1) for a in actions])
    effects = [sampling.design_effect(arm) for arm in realised - realised.mean(axis=0)]
    pull = float(np.mean(effects)) * (1.0 if models else 0.5)
    picked = np.empty(300, dtype=np.int64)
    for train, test in parts:
        constants, slopes = textbook_choice(assessed[:, :, train], realised[:, train], shares, pull)
        picked[test] = Choice(constants, slopes)(assessed[:, :, test])
    earned = realised[picked, np.arange(300)]
    np.testing.assert_allclose(learning.candidates[ENSEMBLE].realised, earned, atol=1e-9)
    constants, slopes = textbook_choice(assessed, realised, shares, pull)
    np.testing.assert_allclose(learning.decider.choice.constants, constants, atol=1e-8)
    np.testing.assert_allclose(learning.decider.choice.slopes, slopes, atol=1e-8)


def blend(forecasts: list[Floats], labels: Floats) -> Floats:
    count, middle = len(forecasts), np.mean(forecasts, axis=0)
    apart = np.stack([(f - middle).ravel() for f in forecasts], axis=1)
    strength = 0.1 * np.square(apart).sum() / count or 1.0
    rows = np.vstack([apart, np.sqrt(strength) * np.eye(count)])
    target = np.concatenate([(labels - middle).ravel(), np.zeros(count)])
    weights = np.maximum(1 / count + np.linalg.lstsq(rows, target, rcond=None)[0], 0)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("models", [0, 1, 2, 3])
def test_candidates_are_what_members_and_forecasts_earn(models: int) -> None:
    learning, learned, view, labels, _ = learn(2, Sampling(), models)
    known = [name for name in NAMES if name in learned.out_of_fold]
    policies = [*view.actions, *(top(learned.out_of_fold[name]) for name in known)]
    last = learned.out_of_fold[[name for name in ("stack", "refined", "patched") if name in known][-1]]
    for number, actions in enumerate(policies):
        candidate, name = learning.candidates[number], [*"abc", *known][number]
        assert candidate.name == name
        np.testing.assert_allclose(candidate.realised, (actions * labels).sum(axis=1), atol=1e-12)
        by = learned.out_of_fold[name] if name in ("ridge", "mean") else last
        np.testing.assert_allclose(candidate.assessed, (actions * by).sum(axis=1), atol=1e-12)
    margins = {candidate.name: candidate.margin for candidate in learning.candidates.values()}
    assert [margins[name] for name in "abc"] == [2.0] * models + [0.5] * (3 - models)
    assert {margins[name] for name in ("average", "stack", "ridge", "mean") if name in margins} == {2.0}
    assert {margins[name] for name in ("refined", "patched", "ensemble") if name in margins} == {np.inf}
    assert [candidate.kind for candidate in learning.candidates.values()][1:4] == ["model"] * models + ["policy"] * (
        3 - models
    )


@pytest.mark.parametrize("winner", [ENSEMBLE, 0, 1, 2, 3, 4, 5, 6])
def test_the_selected_candidate_decides(winner: int) -> None:
    learning, learned, view, _, _ = learn(2, Sampling())
    omega = feasible.Simplex(3)
    buckets = Buckets(omega.lower, omega.upper, 10)
    decider = replace(learning.decider, winner=winner)
    decided = decider(view, omega, buckets)
    forecasts = learned.forecaster(view, omega, buckets)
    policies = [*view.actions, *(top(forecasts[name]) for name in decider.forecasts)]
    np.testing.assert_array_equal(decided.actions, np.stack(policies)[decided.chosen, np.arange(300)])
    np.testing.assert_allclose(decided.assessed, (decided.actions * decided.forecast).sum(axis=1), atol=1e-12)
    if winner != ENSEMBLE:
        assert (decided.chosen == winner).all()


class Counting:
    """A simplex that counts the rows it solves."""

    def __init__(self) -> None:
        self.omega, self.solved = feasible.Simplex(3), 0
        self.kernel = None

    def argmax(self, C: Floats, hint: Floats | None = None) -> Floats:
        self.solved += len(C)
        return self.omega.argmax(C)


@pytest.mark.parametrize("winner", [0, 1, 2])
def test_a_member_that_decides_alone_takes_no_solves(winner: int) -> None:
    learning, _, view, _, _ = learn(2, Sampling())
    counting = Counting()
    decider: Decider = replace(learning.decider, winner=winner)
    decider(view, counting, Buckets(counting.omega.lower, counting.omega.upper, 10))
    assert counting.solved == 0
