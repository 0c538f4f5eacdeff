"""The answer of a LiveEnsemble for a batch of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd
from optensemble._core.number_format import format_significant
from optensemble.ensembles._frames import NUMPY, PANDAS, as_table


@dataclass(frozen=True, repr=False, eq=False)
class LiveAnswer:
    """The decisions of a :class:`~optensemble.LiveEnsemble` for a batch of rows.

    Attributes
    ----------
    actions
        The decisions, of shape (n, d).
    promised
        The expected payoff of each row's action, after correction.
    low, high
        95 % prediction interval for a row's payoff.
    chosen
        The weights of the policies in each row, of shape (n, policies); 1 for a single policy that is played by itself.
    policies
        Their names.
    ids
        The id of each row, by which its labels are given to ``observe``.
    labels
        The names of the labels, and so of the coordinates of an action, if they have any.
    index, frame
        The index of X, if it has one, and the kind of table that :meth:`to_frame` makes.
    """

    actions: Floats
    promised: Floats
    low: Floats
    high: Floats
    chosen: Floats
    policies: tuple[str, ...]
    ids: npt.NDArray[Any]
    labels: tuple[str, ...] | None = None
    index: pd.Index | None = None
    frame: str = NUMPY

    @property
    def followed(self) -> npt.NDArray[Any]:
        """The name of the policy with the largest weight in each row."""
        return np.asarray(np.array(self.policies, dtype=object)[self.chosen.argmax(axis=1)])

    def to_frame(self) -> Any:
        """Return the answer as a table, with a row for each row of X, and its index.

        Its columns are ``id``, ``action_…`` for each label, ``followed`` (a name), ``promised``, ``low``, ``high`` and
        ``weight_…`` for each policy. It is a polars or pyarrow table if X is one, where ids of several kinds or of
        several parts become text, and otherwise pandas.
        """
        names = self.labels or [str(j) for j in range(self.actions.shape[1])]
        columns: dict[str, Any] = {"id": self.ids if self.frame in (NUMPY, PANDAS) else _of_one_kind(self.ids)}
        columns |= {f"action_{name}": self.actions[:, j] for j, name in enumerate(names)}
        columns |= {"followed": self.followed, "promised": self.promised, "low": self.low, "high": self.high}
        columns |= {f"weight_{name}": self.chosen[:, i] for i, name in enumerate(self.policies)}
        return as_table(columns, self.frame, self.index)

    def __str__(self) -> str:
        rows, d = self.actions.shape
        size = f"{rows:,} row{'' if rows == 1 else 's'}, {d} coordinate{'' if d == 1 else 's'}"
        if not rows:
            return size
        mean = format_significant(float(self.promised.mean()))
        weights = zip(self.policies, self.chosen.mean(axis=0).tolist(), strict=True)
        mixed = ", ".join(f"{name} {weight:.0%}" for name, weight in weights)
        return f"{size}\npromised {mean} on average\nfollows {mixed}"

    def __repr__(self) -> str:
        return f"LiveAnswer({'; '.join(str(self).splitlines())})"


def _of_one_kind(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return ids as a typed table can hold them."""
    kinds = {type(each) for each in ids.tolist()}
    return np.array(list(map(str, ids.tolist()))) if len(kinds) > 1 or kinds == {tuple} else ids
