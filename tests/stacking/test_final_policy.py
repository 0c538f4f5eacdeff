"""The final policy: candidates chosen out of fold, and the winner decides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.blocks import Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.arm_choice import Choice
from optensemble.stacking.arms import ENSEMBLE, PLAYED
from optensemble.stacking.cells import RowCells
from optensemble.stacking.contest import known_forecasts, list_candidates, play_contest
from optensemble.stacking.final_policy import FinalPolicy
from optensemble.stacking.leaderboard import Candidate
from optensemble.stats.sampling import Sampling
from tests.counting import CountingSet
from tests.problems import Floats
from tests.stacking.candidates import textbook_choice
from tests.stacking.passes import FitRows, Learned


@dataclass(frozen=True)
class Played:
    """The final policy before anything has won, and what candidates expect and earn out of fold, (n, candidates)."""

    learned: Learned
    policy: FinalPolicy
    candidates: dict[int, Candidate]
    assessed: Floats
    realised: Floats

    @property
    def forecasts(self) -> dict[str, Floats]:
        return self.learned.forecasts

    @property
    def outputs(self) -> MemberOutputs:
        return self.learned.rows.outputs

    @property
    def labels(self) -> Floats:
        return self.learned.rows.labels


def learn(seed: int, sampling: Sampling | None = None, models: int = 2) -> Played:
    """Fit the final policy, and have every candidate decide out of fold."""
    n, omega = 300, feasible.Simplex(3)
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 3))
    predictions = signal + rng.normal(size=(3, n, 3))
    labels = signal + rng.normal(size=(n, 3))
    actions = np.stack([omega.argmax(p) for p in predictions])
    outputs = MemberOutputs(predictions[:models], actions, omega, Buckets(omega.lower, omega.upper, 10))
    learned = Learned.of(FitRows.of(outputs, labels, sampling))
    known = known_forecasts(learned.forecasts)
    policy = FinalPolicy(3, known, learned.forecaster, learned.choices.whole, ENSEMBLE)
    played = learned.rows.in_order(lambda chunk: _play(learned, chunk))
    candidates = list_candidates(["a", "b", "c", *known, "ensemble"], outputs, known)
    return Played(learned, policy, candidates, played["assessed"], played["realised"])


def _play(learned: Learned, chunk: Chunk) -> dict[str, Floats]:
    contest = play_contest(chunk, learned.corrections.out_of_fold, learned.choices, RowCells(chunk.outputs))
    return {"assessed": contest.assessed.T, "realised": contest.realised.T}


NAMES = ("average", "stack", "refined", "patched", "ridge", "mean")


def top(forecast: Floats) -> Floats:
    return np.asarray(np.eye(3)[np.argmax(forecast, axis=1)])


@pytest.mark.parametrize("models", [0, 2])
@pytest.mark.parametrize("kind", ["independent", "in time order", "clustered"])
def test_candidates_are_picked_out_of_fold(models: int, kind: str) -> None:
    clusters = np.arange(300) // 6 if kind == "clustered" else None
    sampling = Sampling(kind == "in time order", clusters)
    fit = learn(1, sampling, models)
    forecasts, outputs, labels = fit.forecasts, fit.outputs, fit.labels
    played = [name for name in ("average", "stack", "refined", "patched") if name in forecasts]
    actions = [*outputs.actions, *(top(forecasts[name]) for name in played)]
    judges = [forecasts[name] for name in ("stack", "refined", "patched") if name in forecasts]
    shares = blend(judges, labels)
    if models == 0:
        judges += [outputs.actions.mean(axis=0) * labels.std(axis=0), forecasts["mean"]]
        shares = np.concatenate([shares, [0.0, 0.0]])
    assessed = np.array([[(a * j).sum(axis=1) for j in judges] for a in actions])
    realised = np.array([(a * labels).sum(axis=1) for a in actions])
    effects = [sampling.design_effect(arm) for arm in realised - realised.mean(axis=0)]
    strength = float(np.mean(effects)) * (1.0 if models else 0.5)
    picked = np.empty(300, dtype=np.int64)
    for train, test in sampling.folds(300, 0):
        constants, slopes = textbook_choice(assessed[:, :, train], realised[:, train], shares, strength)
        picked[test] = Choice(constants, slopes)(assessed[:, :, test])
    earned = realised[picked, np.arange(300)]
    np.testing.assert_allclose(fit.realised[:, 0], earned, atol=1e-9)
    constants, slopes = textbook_choice(assessed, realised, shares, strength)
    np.testing.assert_allclose(fit.policy.choice.constants, constants, atol=1e-8)
    np.testing.assert_allclose(fit.policy.choice.slopes, slopes, atol=1e-8)


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
    fit = learn(2, models=models)
    forecasts = fit.forecasts
    known = [name for name in NAMES if name in forecasts]
    policies = [*fit.outputs.actions, *(top(forecasts[name]) for name in known)]
    last = forecasts[[name for name in ("stack", "refined", "patched") if name in known][-1]]
    for number, actions in enumerate(policies):
        candidate, name = fit.candidates[number], [*"abc", *known][number]
        assert candidate.name == name
        np.testing.assert_allclose(fit.realised[:, 1 + number], (actions * fit.labels).sum(axis=1), atol=1e-12)
        by = forecasts[name] if name in ("ridge", "mean") else last
        np.testing.assert_allclose(fit.assessed[:, 1 + number], (actions * by).sum(axis=1), atol=1e-12)
    margins = {candidate.name: candidate.margin for candidate in fit.candidates.values()}
    assert [margins[name] for name in "abc"] == [2.0] * models + [0.5] * (3 - models)
    assert {margins[name] for name in ("average", "stack", "ridge", "mean") if name in margins} == {2.0}
    assert {margins[name] for name in ("refined", "patched", "ensemble") if name in margins} == {np.inf}
    assert [candidate.kind for candidate in fit.candidates.values()][1:4] == ["model"] * models + ["policy"] * (
        3 - models
    )


@pytest.mark.parametrize("winner", [ENSEMBLE, 0, 1, 2, 3, 4, 5, 6])
def test_the_selected_candidate_decides(winner: int) -> None:
    fit = learn(2)
    outputs, policy = fit.outputs, replace(fit.policy, winner=winner)
    decided = policy(outputs).decisions
    forecasts = policy.forecaster(outputs).forecasts
    policies = [*outputs.actions, *(top(forecasts[name]) for name in policy.forecasts)]
    np.testing.assert_array_equal(decided.actions, np.stack(policies)[decided.chosen, np.arange(300)])
    np.testing.assert_allclose(decided.assessed, (decided.actions * decided.forecast).sum(axis=1), atol=1e-12)
    if winner != ENSEMBLE:
        assert (decided.chosen == winner).all()


@pytest.mark.parametrize("winner", [ENSEMBLE, 0, 3, 6])
def test_solving_the_policies_of_all_forecasts_changes_no_decision(winner: int) -> None:
    fit = learn(2)
    policy = replace(fit.policy, winner=winner)
    few, every = policy(fit.outputs), policy(fit.outputs, every=True)
    assert set(every.played) == set(policy.forecasts)
    assert set(few.played) <= set(every.played)
    for name, actions in every.played.items():
        np.testing.assert_array_equal(actions, top(every.forecasts[name]))
    for ours, theirs in zip(vars(few.decisions).values(), vars(every.decisions).values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_advantage_is_over_the_mean_member_as_assessed_and_as_realised() -> None:
    fit = learn(2)
    done = fit.policy(fit.outputs)
    assessed, realised = done.beyond_members(fit.labels)
    for values, by, own in (
        (assessed, done.decisions.forecast, done.decisions.assessed),
        (realised, fit.labels, (done.decisions.actions * fit.labels).sum(axis=1)),
    ):
        members = np.mean([(actions * by).sum(axis=1) for actions in fit.outputs.actions], axis=0)
        np.testing.assert_allclose(values, own - members, atol=1e-12)


@pytest.mark.parametrize("winner", [0, 1, 2])
def test_of_a_member_that_decides_alone_only_its_own_policy_is_solved(winner: int) -> None:
    fit = learn(2)
    counting = CountingSet(feasible.Simplex(3))
    assert not fit.policy.forecaster.patches
    replace(fit.policy, winner=winner).decide(replace(fit.outputs, omega=counting))
    assert counting.solved == ([300] if winner < 2 else [])


@pytest.mark.parametrize("winner", [ENSEMBLE, 3, 4, 6])
def test_the_policy_of_each_forecast_that_is_needed_is_solved_once(winner: int) -> None:
    fit = learn(2)
    policy, counting = replace(fit.policy, winner=winner), CountingSet(feasible.Simplex(3))
    outputs = replace(fit.outputs, omega=counting)
    assert "patched" not in policy.forecasts
    policy.decide(outputs)
    played = [name for name in PLAYED if name in policy.forecasts]
    needed = [*range(2), *played] if winner == ENSEMBLE else [winner]
    assert counting.solved == [1 if winner == 3 + policy.forecasts.index("mean") else 300 for _ in needed]
    counting.solved.clear()
    policy(outputs, every=True)
    assert sorted(counting.solved) == [1, *[300] * (2 + len(policy.forecasts) - 1)]
