"""The answer of an ensemble for a batch of rows: actions, promises, choices and predictions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from optensemble._core.arrays import Floats, Indices
from optensemble.ensembles._frames import NUMPY, answer_frame, answer_text


@dataclass(frozen=True, repr=False)
class Answer:
    """Everything an ensemble has to say of a batch of rows.

    Attributes
    ----------
    actions
        The decisions, of shape (n, d).
    promised
        The expected payoff of each row's action.
    low, high
        95 % prediction interval for a row's payoff; ±inf without an out-of-fold record.
    chosen
        The candidate followed, as an index into ``names_``.
    predictions
        The coefficients behind the decision, of shape (n, d).
    assessed
        The raw self-assessment of each row, before its calibration: what a promise of the mean is made of.
    beyond
        The number of rows whose own bounds of actions go beyond those of all rows fitted on: actions out there count as
        in the outermost level set.
    fallback
        The number of rows that could not be solved, and took the fallback action of the feasible set.
    absent, incomplete
        The number of rows in which each member has no answer, of those that lack some; and whether some member has
        none in each row, None if all have.
    mended
        The number of rows in which the action of a policy was off by rounding, and was moved onto the feasible set.
    labels, candidates
        The names of the labels, and so of the coordinates of an action, if they have any; and ``names_``.
    index, frame
        The index of X, if it has one, and the kind of table that :meth:`to_frame` makes.
    """

    actions: Floats
    promised: Floats
    low: Floats
    high: Floats
    chosen: Indices
    predictions: Floats
    assessed: Floats
    beyond: int = 0
    fallback: int = 0
    absent: dict[str, int] = field(default_factory=dict)
    incomplete: npt.NDArray[np.bool_] | None = None
    mended: int = 0
    labels: tuple[str, ...] | None = None
    candidates: tuple[str, ...] = ()
    index: pd.Index | None = None
    frame: str = NUMPY

    @property
    def followed(self) -> npt.NDArray[Any]:
        """The name of the candidate followed in each row."""
        names = self.candidates or tuple(map(str, range(int(self.chosen.max(initial=-1)) + 1)))
        return np.array(names, dtype=object)[self.chosen]

    def to_frame(self) -> Any:
        """Return the answer as a table, with a row for each row of X, and its index.

        Its columns are ``action_…`` for each label, ``followed`` (a name), ``promised``, ``low`` and ``high``. It is a
        polars or pyarrow table if X is one, and otherwise pandas.
        """
        return answer_frame(self)

    def take(self, rows: Indices) -> Answer:
        """Return the answer for some of the rows, in this order; the numbers of rows stay those of all."""
        named = ("actions", "promised", "low", "high", "chosen", "predictions", "assessed")
        index = None if self.index is None else self.index.take(rows)
        incomplete = None if self.incomplete is None else self.incomplete[rows]
        return replace(self, index=index, incomplete=incomplete, **{name: getattr(self, name)[rows] for name in named})

    def __str__(self) -> str:
        return "\n".join(answer_text(self))

    def __repr__(self) -> str:
        return f"Answer({'; '.join(answer_text(self))})"
