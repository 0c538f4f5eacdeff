"""What a run depends on: rows, seeds and rounds, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.exceptions import InputError
from optensemble.experiments import Experiment
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    FORESIGHT,
    FRESH,
    IN_SAMPLE,
    WHITE_BOX_ENSEMBLE,
    Outcome,
)
from optensemble.experiments.run import AUDIT, DEBIASING, REPLAY_FRESH, REPLAY_IN_SAMPLE, run_experiment
from optensemble.experiments.settings import Settings
from tests.experiments.conftest import NAMES, SMALL, Finished
from tests.experiments.test_run import Floats, earn, fit

pytestmark = pytest.mark.slow


def assert_same(ours: Outcome, theirs: Outcome) -> None:
    """To the last bit, seconds apart."""
    assert (ours.name, ours.note, ours.members, ours.best) == (theirs.name, theirs.note, theirs.members, theirs.best)
    for where, curves in theirs.curves.items():
        pd.testing.assert_frame_equal(ours.curves[where], curves, check_exact=True, check_names=False)
    for part in ("payoffs", "costs"):
        for a, b in zip(getattr(ours, part), getattr(theirs, part), strict=True):
            numbers = dataclasses.asdict(a) | {"seconds": 0}, dataclasses.asdict(b) | {"seconds": 0}
            np.testing.assert_equal(*numbers)  # to which NaN equals NaN
    np.testing.assert_array_equal(ours.disagreement, theirs.disagreement)
    assert ours.audit == theirs.audit


@pytest.mark.parametrize("name", NAMES)
def test_the_same_settings_give_the_same_outcome(
    name: str, finished: Finished, experiments: dict[str, Experiment]
) -> None:
    assert_same(run_experiment(experiments[name], SMALL), finished.outcome(name))


def test_no_row_is_used_twice(experiments: dict[str, Experiment]) -> None:
    drawn: list[Floats] = []

    def draw(rows: int, seed: int) -> tuple[Floats, Floats]:
        X, Y = experiments["A"].draw(rows, seed)
        drawn.append(X)
        return X, Y

    settings = dataclasses.replace(SMALL, rows=1000, fresh_rows=1000, rounds=1)
    run_experiment(dataclasses.replace(experiments["A"], draw=draw), settings)
    training = experiments["A"].training[0]
    assert [len(X) for X in (training, *drawn)] == [1000] * 3
    assert len(np.unique(np.vstack([training, *drawn]), axis=0)) == 3000


@pytest.fixture(scope="session")
def on_training_rows(experiments: dict[str, Experiment]) -> Outcome:
    settings = dataclasses.replace(SMALL, debias_on="train", rows=300, rounds=60)
    return run_experiment(experiments["D"], settings)


def test_debiasing_on_training_rows_takes_the_first(
    on_training_rows: Outcome, experiments: dict[str, Experiment]
) -> None:
    experiment, outcome = experiments["D"], on_training_rows
    X, Y = (values[:300] for values in experiment.training)
    most = earn(experiment.feasible.argmax(Y), Y).mean()
    assert outcome.payoff(IN_SAMPLE, FORESIGHT).realised == pytest.approx(most, rel=1e-12)
    fresh_X, fresh_Y = experiment.draw(SMALL.fresh_rows, SMALL.seed + 2)
    for policy, ensemble in fit(experiment, X, Y, 60).items():
        for where, rows, labels in ((IN_SAMPLE, X, Y), (FRESH, fresh_X, fresh_Y)):
            answer, line = ensemble.answer(rows), outcome.payoff(where, policy)
            assert line.promised == pytest.approx(answer.promised.mean(), rel=1e-12)
            assert line.realised == pytest.approx(earn(answer.actions, labels).mean(), rel=1e-12)


def test_of_many_rows_a_heatmap_shows_two_hundred_from_the_least_to_the_most(
    on_training_rows: Outcome, experiments: dict[str, Experiment]
) -> None:
    X = experiments["D"].training[0][:300]
    actions = np.stack([experiments["D"].feasible.argmax(model(X)) for _, model in experiments["D"].models])
    rows = np.sort(actions.var(axis=0).mean(axis=1))
    shown = on_training_rows.disagreement
    assert shown.shape == (61, 200)
    np.testing.assert_allclose(shown[0, [0, -1]], rows[[0, -1]], atol=1e-6)
    np.testing.assert_allclose(shown[0], rows[np.arange(200) * 299 // 199], atol=np.diff(rows).max() + 1e-6)
    assert (np.diff(shown, axis=1) >= 0).all()


@pytest.mark.parametrize("rows", [100, 10_000])
def test_progress_is_reported_phase_by_phase(rows: int, experiments: dict[str, Experiment]) -> None:
    told: dict[str, list[float]] = {}
    settings = dataclasses.replace(SMALL, rows=rows, rounds=10)
    run_experiment(experiments["A"], settings, lambda phase, share: told.setdefault(phase, []).append(share))
    assert list(told) == [DEBIASING, REPLAY_IN_SAMPLE, REPLAY_FRESH, AUDIT]
    for shares in told.values():
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)
    if rows >= 10_000:  # long enough that every round is told of
        assert set(np.round(told[DEBIASING], 9)) >= set(np.round(np.arange(1, 21) / 20, 9))


def test_rounds_are_the_papers_if_not_given() -> None:
    assert [Settings().rounds_of(name) for name in "ABCD"] == [5000, 5000, 5000, 8000]
    assert [Settings(rounds=70).rounds_of(name) for name in "ABCD"] == [70] * 4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rows": 99}, "rows must be .*at least 100; got 99"),
        ({"rows": 2.5}, "rows must be .*whole.*; got 2.5"),
        ({"fresh_rows": 9}, "fresh rows must be .*at least 10; got 9"),
        ({"seed": -1}, "seed must be .*at least 0; got -1"),
        ({"noise": -0.1}, "noise must be .*at least 0; got -0.1"),
        ({"noise": float("nan")}, "noise must be a finite number.*; got nan"),
        ({"training_rows": 99}, "training rows must be .*at least 100; got 99"),
        ({"alpha": 0}, "alpha must be .*greater than 0; got 0"),
        ({"bucket_width": 0.3}, "bucket_width must"),
        ({"rounds": 0}, "rounds must be .*at least 1; got 0"),
        ({"trees": "oak"}, "trees must be one of 'histogram', 'exact'; got 'oak'"),
        ({"debias_on": "test"}, "debias-on must be one of 'held-out', 'train'; got 'test'"),
        ({"debias_on": "train", "rows": 10_001}, "10,000 training rows to debias on; got rows=10,001. Take fewer, or"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        dataclasses.replace(Settings(), **wrong).check()


def test_settings_that_can_be_run() -> None:
    Settings().check()
    Settings(rows=100, fresh_rows=10, rounds=1, seed=0, noise=0, trees="exact").check()
    Settings(rows=10_000, debias_on="train").check()


def test_promises_are_normalised_like_payoffs(finished: Finished) -> None:
    outcome = finished.outcome("A")
    assert outcome.payoff(FRESH, FORESIGHT).way == 100
    for name in (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE):
        payoff = outcome.payoff(FRESH, name)
        per_unit = (payoff.way - outcome.promised_way(FRESH, name)) / (payoff.realised - payoff.promised)
        assert per_unit == pytest.approx(100 / _distance(outcome), rel=1e-9)


def _distance(outcome: Outcome) -> float:
    return outcome.payoff(FRESH, FORESIGHT).realised - outcome.payoff(FRESH, BEST_INITIAL).realised
