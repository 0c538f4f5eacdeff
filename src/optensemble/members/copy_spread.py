"""Copies of a model that are fitted on fewer rows keep closer to the mean label, where it is strongly penalised.

The model that decides is fitted on all rows, those that are judged on fewer. If its forecasts spread further than
theirs, they are taken for stronger ones than those that were judged, and too much is promised. So what copies say is
brought to the spread of the model itself. That is seen in rows which both were fitted on: of others all are known by
copies alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.stats.folds import Fold

SPREAD_ROWS = 2560
"""Answers, over all copies, that show how far apart they are: 512 of each copy of five, and of more copies fewer."""

_FEWEST_ROWS = 16  # of any copy: a variance of fewer says little

SAME_SPREAD = 0.05
"""Relative: where answers are wider by no more than this, those of copies are taken as they are."""

MOST_WIDER = 2.0
"""By how much answers may be widened; what differs by more does so for other reasons than fewer rows."""


def spaced_rows(n: int, copies: int) -> Indices:
    """Return some of ``n`` rows, evenly spaced, to ask so many copies about.

    >>> len(spaced_rows(10_000, 5)), len(spaced_rows(10_000, 1_000)), spaced_rows(3, 5).tolist()
    (512, 16, [0, 1, 2])
    """
    return np.linspace(0, n - 1, min(n, max(SPREAD_ROWS // copies, _FEWEST_ROWS))).astype(np.int64)


def how_much_wider(known: Floats) -> float:
    """Return by how much answers of a model spread further than those of its copies, as a factor; 1 if they do not.

    ``known`` (copies + 1, rows, d) is what each says of the rows that it was fitted on, the model itself last, and NaN
    elsewhere. Labels count alike.

    >>> said = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(how_much_wider(np.stack([said / 1.2, said])), 2)
    1.2
    """
    copies, whole = known[:-1], known[-1]
    both = np.isfinite(copies) & np.isfinite(whole)
    rows = np.maximum(both.sum(axis=1), 1)

    def variances(said: Floats) -> Floats:
        mean = np.where(both, said, 0.0).sum(axis=1) / rows
        return np.asarray(np.where(both, np.square(said - mean[:, None]), 0.0).sum(axis=1) / rows)

    own, wide = variances(copies), variances(np.broadcast_to(whole, copies.shape))
    unit = np.maximum(wide.mean(axis=0), np.finfo(np.float64).tiny)
    narrow = float((own / unit).sum())
    ratio = np.sqrt(float((wide / unit).sum()) / narrow) if narrow > 0 else 1.0
    return float(np.clip(ratio, 1.0, MOST_WIDER))


def match_spread(said: Floats, known: Floats, splits: Sequence[Fold], labels: Floats, weights: Floats | None) -> None:
    """Widen what copies say out of fold (n, d) about the mean label they were fitted to, in place."""
    wider = how_much_wider(known)
    if wider <= 1 + SAME_SPREAD:
        return
    for train, test in splits:
        level = np.average(labels[train], axis=0, weights=None if weights is None else weights[train])
        said[test] = level + wider * (said[test] - level)
