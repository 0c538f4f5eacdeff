"""One small run shared by all tests, and its experiments made again with public parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import optensemble as oe
from optensemble.experiments import Experiment, make_experiment
from optensemble.experiments.outcome import Outcome
from optensemble.experiments.reproduce import Reproduction, reproduce_paper
from optensemble.experiments.settings import Settings

SMALL = Settings(rows=120, rounds=150, fresh_rows=500, training_rows=1000)
NAMES = ("A", "D")


@dataclass(frozen=True)
class Finished:
    """A run, where it was left, and what was told of it as it went on."""

    folder: Path
    result: Reproduction
    told: list[tuple[str | None, str, float]]

    def outcome(self, name: str) -> Outcome:
        return self.result.outcomes[NAMES.index(name)]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder, told = tmp_path_factory.mktemp("finished") / "a" / "folder", list[tuple[str | None, str, float]]()
    result = reproduce_paper(folder, SMALL, NAMES, tell=lambda name, phase, share: told.append((name, phase, share)))
    return Finished(folder, result, told)


@pytest.fixture(scope="session")
def experiments() -> dict[str, Experiment]:
    return {name: make_experiment(name, SMALL.seed, training_rows=SMALL.training_rows) for name in NAMES}


@pytest.fixture(scope="session")
def honest(experiments: dict[str, Experiment]) -> dict[str, oe.DecisionEnsemble]:
    """On the features of the debiasing rows themselves, not on a table of predictions."""
    return {
        name: oe.DecisionEnsemble(models=each.models, feasible=each.feasible, context=None).fit(
            *each.draw(SMALL.rows, SMALL.seed + 1)
        )
        for name, each in experiments.items()
    }
