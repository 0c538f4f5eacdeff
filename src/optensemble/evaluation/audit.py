"""The audit on held-out rows: promised beside realised payoff, biases, baselines and regrets, each with an interval.

An interval holds the truth in 95 of 100 audits. Rows that belong together, in clusters or in time, are not taken for
independent.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING

from optensemble._core.deferred import pd
from optensemble.evaluation.audit_inputs import SEEN, AuditInputs
from optensemble.evaluation.audit_tables import (
    AuditSummary,
    cell_table,
    choice_table,
    conditional_table,
    lift_table,
    summarise,
    swap_table,
)
from optensemble.evaluation.audit_text import audit_text, doubts
from optensemble.evaluation.verdict import Evidence, Grade, Verdict, judge
from optensemble.multicalibration.cell_names import CellName
from optensemble.stats.intervals import Family, dependence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Audit", "AuditInputs", "make_audit"]


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The audit of an ensemble on held-out rows.

    Payoffs are in the user's units: a cost is a cost, and a gap is always promised − realised. But a ``gain`` is
    positive where it is for the better, of costs too.

    Attributes
    ----------
    verdict, grade, judgement
        One sentence: promised, realised, on how many rows, the gap with its interval, kept or not; the grade of the
        promise; and both with further doubts, a :class:`~optensemble.evaluation.verdict.Verdict`.
    totals, summary
        As an object, and as a frame of one row: ``rows``, and among them ``seen`` in fitting; ``promised``, the mean
        over the rows; the ``promise`` of that mean with its limits ``low`` and ``high``; ``realised`` ± ``half_width``;
        the ``gap`` promise − realised between ``gap_low`` and ``gap_high``, from differences row by row; ``kept``,
        whether the realised mean lies within the limits (None if there were none); ``unlabelled``, further rows that
        lack labels.
    by_choice
        The same for each candidate that was followed; ``note`` says why limits are missing.
    cells
        The worst cells: ``bias`` is the mean residual of a coordinate in a cell, ``violation`` is
        ``Pr[C]·|bias|`` (Definition 1). ``low`` and ``high`` hold for *all* cells and coordinates at once: a bias
        larger than ``detectable`` is ``significant``. Ordered by ``|t|`` relative to its critical value.
    lift
        The ensemble against each baseline (``rival``): ``gain`` with an interval, from differences row by row.
    swap
        The gain of following ``instead`` wherever ``chosen`` was followed, as a mean over all rows; the
        intervals hold for all pairs at once.
    conditional
        On every cell the ensemble against the best baseline there. The intervals of ``gain`` hold for all cells and all
        baselines at once, so that the best may be picked in hindsight.
    thin, tested, biased
        The numbers of cells with too few rows, of pairs of cell and coordinate tested, and of significant biases.
    block_length
        The number of rows of a block, if rows are in time order.
    cell_names, conditional_names
        The cells in the rows of ``cells`` and ``conditional``, as objects.
    coordinates
        The names of the labels, which ``cells`` and ``conditional`` speak of; empty if they have none.
    sense
        ``"max"`` of payoffs, ``"min"`` of costs.
    """

    judgement: Verdict
    totals: AuditSummary
    by_choice: pd.DataFrame
    cells: pd.DataFrame
    lift: pd.DataFrame
    swap: pd.DataFrame
    conditional: pd.DataFrame
    thin: int
    tested: int
    biased: int
    block_length: int | None
    cell_names: tuple[CellName, ...] = ()
    conditional_names: tuple[CellName, ...] = ()
    coordinates: tuple[str, ...] = ()
    sense: str = "max"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The totals as a frame of one row."""
        return pd.DataFrame([vars(self.totals)])

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        return self.judgement.sentence

    @property
    def grade(self) -> Grade:
        """The grade of the promise."""
        return self.judgement.grade

    @property
    def kept(self) -> bool | None:
        """Whether the realised mean lies within the promised limits; None if that cannot be said."""
        return self.totals.kept

    @property
    def gap(self) -> float:
        """The promise − the realised mean."""
        return self.totals.gap

    @cached_property
    def swap_matrix(self) -> pd.DataFrame:
        """The gains of ``swap``: a row for each candidate followed, a column for each that might have been instead."""
        k = isqrt(len(self.swap))
        names = self.swap["instead"].tolist()[:k]
        return pd.DataFrame(self.swap["gain"].to_numpy().reshape(k, k), index=names, columns=names)

    @property
    def swap_regret(self) -> float:
        """The gain of the best swap (Lemma 9). It is picked in hindsight: noise alone makes it positive."""
        return float(self.swap_matrix.max(axis=1).sum())

    def plot(self, ax: Axes | None = None, *, what: str = "promise") -> Axes:
        """Draw what was promised beside what was realised, each with its 95 % interval.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw into; by default those of a new figure of ``matplotlib.pyplot``.
        what
            ``"promise"``: the promised interval above the realised one, with the verdict; ``"gains"``: the gain over
            each baseline (``lift``); ``"gaps"``: promised − realised where each candidate was followed (``by_choice``).

        Returns
        -------
        The axes drawn into.
        """
        from optensemble.report.plots import plot_audit

        return plot_audit(self, ax, what)

    def __str__(self) -> str:
        return audit_text(self)

    def __repr__(self) -> str:
        return f"Audit({self.verdict!r})"

    def _repr_html_(self) -> str:
        from optensemble.report.notebook import audit_html

        return audit_html(self)


def make_audit(inputs: AuditInputs, random_state: int = 0) -> Audit:
    """Compare promised with realised payoff.

    Rows in time order are cut into blocks that hardly depend on each other; blocks, clusters, or else rows are the
    independent units of every interval (cluster-robust, Student's t). Intervals that hold for many means at once have
    their critical value from a multiplier bootstrap of the largest ``|t|``.

    Parameters
    ----------
    inputs
        What was promised, chosen and earned, row by row.
    random_state
        Seed of the multipliers.

    Returns
    -------
    The audit. There is a warning if more than one in a hundred of the rows was fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from optensemble.evaluation.promise import Promise
    >>> from optensemble.multicalibration.cell_names import CellName, Subgroup
    >>> rng = np.random.default_rng(0)
    >>> realised, all_rows = rng.normal(2.4, 1.0, size=500), np.zeros(500, dtype=np.int64)
    >>> inputs = AuditInputs(
    ...     promised=np.full(500, 2.41), realised=realised, interval=Promise(2.41, 2.2, 2.6, rows=500, rely_on=2.2),
    ...     names=["vendor"], chosen=all_rows, arms=realised[None], rivals={"average": realised - 0.1},
    ...     residuals=rng.normal(size=(500, 2)), partitions=[([CellName((Subgroup("all rows"),))], all_rows)],
    ... )
    >>> print(make_audit(inputs))
    promised 2.41, earned 2.37 ± 0.09 on 500 new rows, gap +0.04 (95 %: −0.05 to +0.13): kept
    ...
    """
    n = len(inputs.realised)
    if inputs.seen > SEEN * n:
        warnings.warn(
            f"{inputs.seen:,} of these {n:,} rows are rows the ensemble was fitted on: this audit proves nothing. "
            "Give rows it has not seen.",
            UserWarning,
            stacklevel=3,
        )
    units, length = dependence(n, inputs.series, inputs.clusters, inputs.time_ordered, inputs.weights)
    totals, beyond_chance = summarise(inputs, units)
    cells = cell_table(inputs, units, Family(units, (random_state, 0)))
    conditional, conditional_names = conditional_table(inputs, units, Family(units, (random_state, 2)))
    lift = lift_table(inputs, units)
    evidence = Evidence(totals, inputs.sign, beyond_chance, inputs.distance)
    return Audit(
        judgement=judge(evidence, doubts(inputs.interval, lift, cells)),
        totals=totals,
        by_choice=choice_table(inputs, units),
        cells=cells.worst,
        lift=lift,
        swap=swap_table(inputs, units, Family(units, (random_state, 1))),
        conditional=conditional,
        thin=cells.thin,
        tested=cells.tested,
        biased=cells.biased,
        block_length=length,
        cell_names=cells.names,
        conditional_names=conditional_names,
        coordinates=inputs.coordinates,
        sense="max" if inputs.sign > 0 else "min",
    )
