"""Small random problems, and what the definitions say of them, recomputed from public outputs alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import DataWarning

Floats = npt.NDArray[np.float64]
Member = Callable[[npt.NDArray[np.int64]], Floats]


@dataclass
class Problem:
    """Labels Y, predictions P (k, n, d) and a feasible set; X is the row numbers, so that members are look-ups."""

    X: npt.NDArray[np.int64]
    Y: Floats
    P: Floats
    omega: feasible.FeasibleSet

    @property
    def models(self) -> list[tuple[str, Member]]:
        return [(f"m{i}", lookup(p)) for i, p in enumerate(self.P)]

    @property
    def policies(self) -> list[tuple[str, Member]]:
        return [(f"m{i}", lookup(actions)) for i, actions in enumerate(self.actions)]

    @property
    def actions(self) -> Floats:
        return np.stack([self.omega.argmax(p) for p in self.P])

    def white_box(self, **parameters: Any) -> oe.WhiteBoxEnsemble:
        """Fit the paper's algorithm, unless another validation is given."""
        parameters = {"validation": None, **parameters}
        with _any_data():
            return oe.WhiteBoxEnsemble(self.models, self.omega, **parameters).fit(self.X, self.Y)

    def black_box(self, **parameters: Any) -> oe.BlackBoxEnsemble:
        parameters = {"validation": None, **parameters}
        with _any_data():
            return oe.BlackBoxEnsemble(self.policies, self.omega, **parameters).fit(self.X, self.Y)


@contextmanager
def _any_data() -> Iterator[None]:
    """Theorems hold of any data: those made at random may look like a mistake."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        yield


def lookup(table: Floats) -> Member:
    return lambda X: table[X]


def random_problem(seed: int, *, n: int = 60, d: int = 3, k: int = 3, omega: str = "polytope") -> Problem:
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, d))
    P = np.stack([Y * rng.uniform(0, 1, size=d) + 0.7 * rng.normal(size=(n, d)) for _ in range(k)])
    return Problem(np.arange(n), Y, P, make_set(omega, d, rng))


def make_set(kind: str, d: int, rng: np.random.Generator) -> feasible.FeasibleSet:
    if kind == "simplex":
        return feasible.Simplex(d)
    if kind == "vertices":
        return feasible.Vertices(rng.uniform(size=(7, d)))
    if kind == "box":
        return feasible.Box(rng.uniform(-3, 0, size=d), rng.uniform(0.1, 5, size=d))
    if kind == "risk":
        root = rng.normal(size=(d, d))
        covariance = root @ root.T
        return feasible.RiskBudget(covariance, float(np.sort(np.diag(covariance))[0] * 1.1))
    return feasible.Polytope(A_ub=[[1.0] * d, [1.0, *[0.0] * (d - 1)]], b_ub=[0.45 * d, 0.7])


# Independent recomputation: plain loops over cells as sets of rows


def bucket(actions: Floats, omega: feasible.FeasibleSet, count: int) -> npt.NDArray[np.int64]:
    span = np.where(omega.upper > omega.lower, omega.upper - omega.lower, np.inf)
    share = (actions - omega.lower) / span
    return np.asarray(np.minimum(np.floor(share * count + 1e-9).astype(np.int64), count - 1))


def level_set_masks(actions: Floats, omega: feasible.FeasibleSet, count: int) -> list[npt.NDArray[np.bool_]]:
    buckets = bucket(actions, omega, count)
    return [buckets[:, j] == t for j in range(actions.shape[1]) for t in range(count)]


def violation(mask: npt.NDArray[np.bool_], residual: Floats) -> float:
    """Pr[C] · ‖E[y − h | C]‖_∞."""
    if not mask.any():
        return 0.0
    return float(mask.mean() * np.abs(residual[mask].mean(axis=0)).max())


def white_box_masks(ensemble: oe.WhiteBoxEnsemble, problem: Problem, count: int) -> list[list[npt.NDArray[np.bool_]]]:
    """For every model its cells: own level sets crossed with who is chosen."""
    sign = 1.0 if ensemble.sense == "max" else -1.0
    chosen = ensemble.choose(problem.X)
    return [
        [
            level & (chosen == winner)
            for level in level_set_masks(problem.omega.argmax(sign * h), problem.omega, count)
            for winner in range(len(problem.P))
        ]
        for h in ensemble.predict_members(problem.X)
    ]


def black_box_masks(ensemble: oe.BlackBoxEnsemble, problem: Problem, count: int) -> list[npt.NDArray[np.bool_]]:
    policies = [*problem.actions, ensemble.decide(problem.X)]
    return [mask for actions in policies for mask in level_set_masks(actions, problem.omega, count)]
