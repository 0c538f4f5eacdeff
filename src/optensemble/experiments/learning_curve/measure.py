"""One point of a learning curve: a policy fitted on some rows, and its promise for fresh rows beside the truth."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from optensemble._core.arrays import Floats
from optensemble.experiments.learning_curve.points import STACKING, CurvePoint
from optensemble.experiments.outcome import DECISION_ENSEMBLE, FORESIGHT, RIDGE_STACKING, WHITE_BOX_ENSEMBLE, PolicyCost
from optensemble.experiments.policies import Reply, decision_reply, fit_decision_ensemble, fit_ridge
from optensemble.experiments.run import DebiasedEnsemble, fit_ensemble, make_ensembles
from optensemble.experiments.settings import Settings
from optensemble.experiments.setup import Experiment
from optensemble.multicalibration.state import Situation

TellShare = Callable[[float], None]

_BOUNDS = {True: ("Lemma 7", "Lemma 9"), False: ("Corollary 1", "Lemma 4")}
"""The lemmas that bound the gap and the regret, of white box and of black box."""

_ASKED_ROWS = 50_000
"""The number of rows that members are asked about at once."""


@dataclass(frozen=True)
class Labelled:
    """Rows as tables of the members' predictions, with their labels."""

    table: Floats
    labels: Floats

    @classmethod
    def draw(cls, experiment: Experiment, rows: int, seed: int) -> Labelled:
        """Draw rows, and ask all members about them, on all cores; every row by itself, so that bits stay the same."""
        X, labels = experiment.draw(rows, seed)
        blocks = [X[start : start + _ASKED_ROWS] for start in range(0, rows, _ASKED_ROWS)]

        def ask(block: Floats) -> Floats:
            return np.hstack([model(block) for _, model in experiment.models])

        # the limit, which each member sets too, is put back only when all threads are done
        with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
            return cls(np.concatenate(list(pool.map(ask, blocks))), labels)


@dataclass(frozen=True)
class Trial:
    """An experiment with rows to fit on and fresh rows to evaluate on."""

    experiment: Experiment
    rows: Labelled
    fresh: Labelled

    @cached_property
    def names(self) -> list[str]:
        """The members' names."""
        return [name for name, _ in self.experiment.models]

    def stacking(self, tell: TellShare) -> list[CurvePoint]:
        """Return the points of foresight, ridge stacking and DecisionEnsemble."""
        omega, table, labels = self.experiment.feasible, self.rows.table, self.rows.labels
        costs = list[PolicyCost]()
        foresight = omega.value(omega.argmax(self.fresh.labels), self.fresh.labels)
        points = [self._point(FORESIGHT, STACKING, np.full_like(foresight, np.nan), foresight)]
        ridge = fit_ridge(omega, table, labels, costs)
        tell(0.3)
        points.append(self._replied(RIDGE_STACKING, ridge(self.fresh.table), fit_seconds=costs[-1].seconds))
        decision = fit_decision_ensemble(omega, self.names, table, labels, costs)
        promise = decision.promise(self.fresh.table)
        point = self._replied(
            DECISION_ENSEMBLE,
            decision_reply(decision, self.fresh.table),
            fit_seconds=costs[-1].seconds,
            low=float(promise.low),
            high=float(promise.high),
        )
        points.append(replace(point, promised=float(promise.mean)))
        tell(1.0)
        return points

    def debiased(self, schedule: str, rounds: int, settings: Settings, tell: TellShare) -> list[CurvePoint]:
        """Return the points of white box and black box."""
        ensembles, points = make_ensembles(self.experiment.feasible, self.names, settings, rounds, schedule), []
        for number, (name, ensemble) in enumerate(ensembles.items()):

            def told(share: float, number: int = number) -> None:
                tell((number + share) / len(ensembles))

            points.append(self._debias(name, ensemble, schedule, told))
        return points

    def _debias(self, name: str, ensemble: DebiasedEnsemble, schedule: str, tell: TellShare) -> CurvePoint:
        cost, start = fit_ensemble(name, ensemble, self.rows.table, self.rows.labels, tell), time.perf_counter()
        (situation,) = ensemble.retrace(self.fresh.table, [ensemble.n_rounds_])
        omega, bounds = self.experiment.feasible, ensemble.guarantees_.groupby("lemma")["bound"].first()
        realised = np.stack([omega.value(actions, self.fresh.labels) for actions in situation.actions])
        gap_bound, regret_bound = (float(bounds[lemma]) for lemma in _BOUNDS[name == WHITE_BOX_ENSEMBLE])
        return self._point(
            *(name, schedule, situation.taken(situation.assessed), situation.taken(realised)),
            gap_bound=gap_bound,
            regret=swap_regret(situation, realised),
            regret_bound=regret_bound,
            rounds=cost.rounds,
            converged=cost.converged,
            worst_violation=cost.worst_violation,
            fit_seconds=cost.seconds,
            evaluation_seconds=time.perf_counter() - start,
        )

    def _replied(self, policy: str, reply: Reply, **more: float) -> CurvePoint:
        actions, promised = reply
        return self._point(
            policy, STACKING, promised, self.experiment.feasible.value(actions, self.fresh.labels), **more
        )

    def _point(self, policy: str, stage: str, promised: Floats, realised: Floats, **more: Any) -> CurvePoint:
        return CurvePoint(
            rows=len(self.rows.labels),
            policy=policy,
            stage=stage,
            promised=float(promised.mean()),
            realised=float(realised.mean()),
            realised_error=standard_error(realised),
            gap_error=standard_error(promised - realised),
            **more,
        )


def swap_regret(situation: Situation, realised: Floats) -> float:
    """Return what the best swap of contenders would have realised beyond those followed, per row.

    Wherever contender ``i`` was followed, the swap follows the contender that realised the most there. A black box
    always follows its own model, and the swap is for the best of the given policies.
    """
    swapped = np.stack([np.bincount(situation.winner, payoff, minlength=len(realised)) for payoff in realised])
    return float((swapped.max(axis=0).sum() - situation.taken(realised).sum()) / realised.shape[1])


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))
