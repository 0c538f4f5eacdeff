"""Gains of candidates over the first of them, and their standard errors by the textbook."""

from __future__ import annotations

import numpy as np
from scipy import stats

from optensemble.stats.sampling import Sampling
from tests.problems import Floats

N = 60
SAMPLINGS = {
    "independent": Sampling(),
    "in time order": Sampling(time_ordered=True),
    "clustered": Sampling(clusters=np.arange(N) // 3),
}


def textbook_error(gain: Floats, kind: str) -> float:
    """The standard error of a mean: of rows, or of the means over blocks or equal clusters if that is larger."""
    plain = float(stats.sem(gain))
    if kind == "independent":
        return plain
    units = np.array_split(gain, 10 if kind == "in time order" else N // 3)
    return max(plain, float(stats.sem([unit.mean() for unit in units])))


def candidates(seed: int, leads: list[float]) -> Floats:
    """What candidates earn beyond the first, about that many standard errors each; they are correlated."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=N)
    gains = [np.zeros(N)]
    for lead in leads:
        noise = common + rng.normal(size=N)
        gains.append(noise - noise.mean() + lead * float(stats.sem(noise)))
    return np.stack(gains)
