"""What the paper shows on the rows debiased on: both ensembles beat every initial policy, and know what they earn."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments import Experiment, make_experiment
from optensemble.experiments.outcome import BLACK_BOX_ENSEMBLE, WHITE_BOX_ENSEMBLE
from optensemble.experiments.run import make_ensembles
from optensemble.experiments.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

LEAST_WAY = {"A": 95, "B": 85, "C": 95, "D": 85}
LARGEST_GAP = {"A": 15, "B": 30, "C": 10, "D": 10}
SEEDS = (42, 1, 2)


@dataclass(frozen=True)
class End:
    """How far it came, and how far its promise lies above that, in percent of the way from best policy to foresight."""

    way: float
    gap: float


@cache
def experiment_of(name: str, seed: int) -> Experiment:
    """Members are trained once for A and C, and once for B and D."""
    trained = {"C": "A", "D": "B"}.get(name)
    return make_experiment(name, seed, models=experiment_of(trained, seed).models if trained else None)


def end_of(name: str, seed: int, rounds: int | None = None) -> dict[str, End]:
    experiment, settings = experiment_of(name, seed), Settings(seed=seed, rounds=rounds)
    omega, (X, Y) = experiment.feasible, experiment.draw(settings.rows, seed + 1)
    table = np.hstack([model(X) for _, model in experiment.models])
    best = max((omega.argmax(model(X)) * Y).sum(axis=1).mean() for _, model in experiment.models)
    whole = (omega.argmax(Y) * Y).sum(axis=1).mean() - best
    ends = {}
    members = [member for member, _ in experiment.models]
    for kind, ensemble in make_ensembles(omega, members, settings, settings.rounds_of(name)).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            answer = ensemble.fit(table, Y).answer(table)
        realised = (answer.actions * Y).sum(axis=1).mean()
        ends[kind] = End(100 * (realised - best) / whole, 100 * (answer.promised.mean() - realised) / whole)
    return ends


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", "ABCD")
def test_both_ensembles_beat_the_best_initial_policy_and_know_what_they_earn(name: str, seed: int) -> None:
    ends = end_of(name, seed)
    assert ends[WHITE_BOX_ENSEMBLE].way >= LEAST_WAY[name]
    assert ends[BLACK_BOX_ENSEMBLE].way > 0
    assert abs(ends[WHITE_BOX_ENSEMBLE].gap) <= LARGEST_GAP[name]
    assert abs(ends[BLACK_BOX_ENSEMBLE].gap) <= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_in_experiment_b_the_gap_goes_on_closing_with_more_rounds(seed: int) -> None:
    assert abs(end_of("B", seed, 10_000)[WHITE_BOX_ENSEMBLE].gap) < abs(end_of("B", seed)[WHITE_BOX_ENSEMBLE].gap)
