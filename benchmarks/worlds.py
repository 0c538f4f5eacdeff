"""Simulated worlds in time order: models whose roles change while decisions are made, in ways that differ by world.

Row t has a signal for each of d coordinates; its labels are a level, the signal and noise. A model's forecast of a
coordinate is the level of the past, a bias, and something that correlates with the signal to a degree: its skill there,
which is its own. All forecasts are of one size, so that nothing but labels tells what is worth following.

In the fitting rows skills and level are constant. In the test rows they are a share u(t) of the way towards a second
state, in which skills are those of the models in the opposite order, and the level has moved. u is 0 in a stationary
world, 1 from a row on in one with an abrupt break, rises along the test rows in one that drifts, and is 0 and 1 in
turns in one that switches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optensemble import feasible

Floats = npt.NDArray[np.float64]

STATIONARY, ABRUPT, DRIFT, SWITCHING, SPITE = KINDS = ("stationary", "abrupt", "drift", "switching", "spite")

FITTING_ROWS, TEST_ROWS = 400, 720
BREAK = (1 / 4, 1 / 2)
"""An abrupt break comes at a random row in this part of the test rows."""

TURN = (60, 100)
"""Rows between two switches, at least and at most; drawn anew for each."""

D = 8
FIRST_HALF = np.arange(D) < D // 2
SKILLS = np.stack([np.full(D, 0.85), np.where(FIRST_HALF, 0.8, 0.2), np.where(FIRST_HALF, 0.2, 0.8), np.full(D, 0.1)])
"""The correlation of each model with each signal: one knows all of them, two a half each, one next to nothing."""

MODELS = len(SKILLS)
OMEGA = feasible.Polytope(A_ub=np.ones((1, D)), b_ub=[2.0], upper=np.ones(D))

_LEVEL, _BIAS, _NOISE = 0.5, 0.2, 1.0  # in standard deviations of the signal


@dataclass(frozen=True)
class Change:
    """How the test rows of a world depart from the fitting rows.

    Attributes
    ----------
    kind
        One of :data:`KINDS`.
    strength
        How far skills go towards those of the opposite order: 1 swaps them, at 0.5 all models become alike.
    shift
        The standard deviation of the change of the level, in those of the signal.
    at
        Where an abrupt break comes, as a share of the test rows; drawn from :data:`BREAK` if None.
    turn
        Rows between two switches, at least and at most.
    spite
        What an adversary takes from each unit of an action that the heaviest policy has beyond the others.
    """

    kind: str
    strength: float = 1.0
    shift: float = 0.5
    at: float | None = None
    turn: tuple[int, int] = TURN
    spite: float = 1.0

    def path(self, rng: np.random.Generator) -> Floats:
        """Return u(t) for the test rows."""
        rows = np.arange(TEST_ROWS)
        if self.kind == ABRUPT:
            share = rng.uniform(*BREAK) if self.at is None else self.at
            return np.asarray(rows >= round(share * TEST_ROWS), dtype=float)
        if self.kind == DRIFT:
            return np.asarray((rows + 0.5) / TEST_ROWS)
        if self.kind == SWITCHING:
            least, most = self.turn
            switches = np.cumsum(rng.integers(least, most + 1, size=TEST_ROWS // least + 1))
            return np.asarray(np.searchsorted(switches, rows, side="right") % 2, dtype=float)
        return np.zeros(TEST_ROWS)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in time order: what the models say, a column for each model and coordinate, and the labels."""

    said: Floats
    labels: Floats

    def __len__(self) -> int:
        return len(self.said)

    def joined(self, later: Rows, count: int) -> Rows:
        """Return these rows and the first so many of later ones."""
        return Rows(np.vstack([self.said, later.said[:count]]), np.vstack([self.labels, later.labels[:count]]))

    def last(self, count: int) -> Rows:
        """Return the last rows."""
        return Rows(self.said[-count:], self.labels[-count:])


def draw(change: Change, seed: int) -> tuple[Rows, Rows]:
    """Return the fitting rows and the test rows of a world; the first are the same for every change."""
    rng, late = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    level, bias = rng.normal(scale=_LEVEL, size=D), rng.normal(scale=_BIAS, size=(MODELS, D))
    moved = rng.normal(scale=1.0, size=D)
    u = np.concatenate([np.zeros(FITTING_ROWS), change.path(late)])[:, None]
    n = len(u)
    signal, own = rng.normal(size=(n, D)), rng.normal(size=(n, MODELS, D))
    share = change.strength * u[:, :, None]
    skill = (1 - share) * SKILLS + share * SKILLS[::-1]
    said = level + bias + skill * signal[:, None] + np.sqrt(1 - skill**2) * own
    labels = level + change.shift * u * moved + signal + rng.normal(scale=_NOISE, size=(n, D))
    rows = said.reshape(n, MODELS * D), labels
    fitting, test = ([part[cut] for part in rows] for cut in (slice(FITTING_ROWS), slice(FITTING_ROWS, None)))
    return Rows(*fitting), Rows(*test)
