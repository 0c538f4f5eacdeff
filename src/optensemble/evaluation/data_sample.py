"""The rows that are looked at for mistakes in data, what a member says of them, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.number_format import with_minus
from optensemble.feasible import FeasibleSet
from optensemble.members.outputs import MemberOutputs
from optensemble.members.validation import mean_explained

Mask = npt.NDArray[np.bool_]

FEWEST_ROWS = 50
"""Fewer rows than this show nothing: members may be alike, constant or wrong there by chance."""

_MOST_ROWS = 1 << 16
_MOST_NUMBERS = 1 << 18  # of one member: a look takes milliseconds
_PARTS = 20  # contiguous, so that rows that depend on their neighbours do not look like many
_CONSTANT = 1e-12  # relative: rounding of a sum that should be the same in all rows


@dataclass(frozen=True)
class Finding:
    """A suspicious property of the data.

    ``kind`` is a word for it, such as "leak", "units" or "shifted"; ``sentence`` says what was seen and what to look
    for; ``member`` is the member it is about, or None where it is about the labels, the set, or all members.
    """

    kind: str
    sentence: str
    member: str | None = None

    @property
    def about(self) -> tuple[str, str | None]:
        """What it is about: two findings about the same differ at most in numbers."""
        return self.kind, self.member


@dataclass(frozen=True)
class DataSample:
    """Rows in their order, with all that members say of them, in the user's units.

    Attributes
    ----------
    predictions
        Of each model, by name: arrays of shape (n, d).
    actions
        Of each member, by name. Members without predictions are policies.
    labels
        The labels, of shape (n, d).
    omega
        The feasible set, bound to the rows.
    sign
        1 if the user maximises, -1 if the user minimises.
    absent
        For members that have no answer in some rows: True in these rows, which are left out for that member.
    label_names
        Names of the labels, if they have any.
    """

    predictions: Mapping[str, Floats]
    actions: Mapping[str, Floats]
    labels: Floats
    omega: FeasibleSet
    sign: float = 1.0
    absent: Mapping[str, Mask] = field(default_factory=dict)
    label_names: Sequence[str] = ()

    @classmethod
    def of(cls, names: Sequence[str], outputs: MemberOutputs, labels: Floats, label_names: Sequence[str] = ()) -> Self:
        """Take the first rows of members' outputs; labels are, as these, in the sense of maximising."""
        n = rows_looked_at(*labels.shape)
        first, sign = outputs.take(slice(n)), outputs.sign
        predictions, labels = (first.predictions, labels[:n]) if sign > 0 else (-first.predictions, -labels[:n])
        gaps = {} if first.absent is None else dict(zip(names, first.absent, strict=True))
        return cls(
            predictions=dict(zip(names[: first.models], predictions, strict=True)),
            actions=dict(zip(names, first.actions, strict=True)),
            labels=labels,
            omega=first.omega,
            sign=sign,
            absent={name: gap for name, gap in gaps.items() if gap.any()},
            label_names=label_names,
        )

    @property
    def policies(self) -> list[str]:
        """The members that are known by their actions alone."""
        return [name for name in self.actions if name not in self.predictions]

    def first(self) -> Self:
        """Return the same with no more rows than are looked at."""
        n = rows_looked_at(*self.labels.shape)
        if n == len(self.labels):
            return self
        return replace(
            self,
            predictions={name: each[:n] for name, each in self.predictions.items()},
            actions={name: each[:n] for name, each in self.actions.items()},
            labels=self.labels[:n],
            omega=self.omega.take(slice(n)),
            absent={name: each[:n] for name, each in self.absent.items()},
        )

    def title(self, j: int) -> str:
        """Return a label by its name, or by its number."""
        return f"label {str(self.label_names[j])!r}" if len(self.label_names) > j else f"label {j}"

    @cached_property
    def series(self) -> Series:
        """The labels by coordinate."""
        return Series.of(self.labels)

    def model(self, name: str) -> ModelRows:
        """Return what a model predicts in the rows where it does."""
        gap, said = self.absent.get(name), self.predictions[name]
        if gap is None or not gap.any():
            return ModelRows(Series.of(said), self.series, self.omega, self.title)
        rows = np.flatnonzero(~gap)
        return ModelRows(Series.of(said[rows]), Series.of(self.labels[rows]), self.omega.take(rows), self.title)


def rows_looked_at(n: int, d: int) -> int:
    """Return how many of ``n`` rows of ``d`` labels are looked at: the first, and not many where rows are wide."""
    return min(n, _MOST_ROWS, max(_MOST_NUMBERS // d, 1000))


@dataclass(frozen=True)
class Series:
    """Numbers by coordinate and row, of shape (d, n): sums over rows are then quick."""

    values: Floats

    @classmethod
    def of(cls, rows: Floats) -> Self:
        """Turn an array of shape (n, d)."""
        return cls(np.ascontiguousarray(rows.T))

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest number of each coordinate."""
        return self.values.min(axis=1), self.values.max(axis=1)

    @cached_property
    def constant(self) -> Mask:
        """Which coordinates are the same in all rows."""
        low, high = self.ends
        return np.asarray(high - low <= _CONSTANT * np.maximum(np.abs(low), np.abs(high)))

    @cached_property
    def squares(self) -> Floats:
        """The mean square of each coordinate."""
        return np.asarray(np.einsum("ij,ij->i", self.values, self.values) / self.values.shape[1])

    @cached_property
    def centred(self) -> Floats:
        """The numbers about the mean of their coordinate."""
        return np.asarray(self.values - self.values.mean(axis=1, keepdims=True))

    @cached_property
    def variance(self) -> Floats:
        """The variance of each coordinate."""
        return np.asarray(np.einsum("ij,ij->i", self.centred, self.centred) / self.values.shape[1])

    @cached_property
    def standard(self) -> Floats:
        """The numbers with mean 0 and variance 1; 0 in coordinates that are constant."""
        scale = np.where(self.constant, 0.0, 1 / np.sqrt(np.where(self.constant, 1.0, self.variance)))
        return self.centred * scale[:, None]


@dataclass(frozen=True)
class ModelRows:
    """A model's predictions beside the labels."""

    said: Series
    labels: Series
    omega: FeasibleSet
    title: Callable[[int], str]
    """The name of a label."""

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.labels.values.shape[1])

    @cached_property
    def varied(self) -> npt.NDArray[np.int64]:
        """The coordinates in which both the predictions and the labels differ between rows."""
        return np.flatnonzero(~(self.said.constant | self.labels.constant))

    @cached_property
    def together(self) -> Floats:
        """For each row the mean product of what both are in standard units; its mean is the mean correlation."""
        return self.lagged(0)

    def lagged(self, lag: int) -> Floats:
        """Return the same with labels of ``lag`` rows later; earlier if it is negative."""
        n, said, labels = self.count - abs(lag), self.said.standard, self.labels.standard
        total = np.einsum("ij,ij->j", said[:, max(-lag, 0) :][:, :n], labels[:, max(lag, 0) :][:, :n])
        return np.asarray(total / max(len(self.varied), 1))

    @cached_property
    def table(self) -> Floats:
        """The correlation of the predictions of each coordinate with each label; 0 where one is constant."""
        return np.asarray(self.said.standard @ self.labels.standard.T / self.count)

    @cached_property
    def errors(self) -> Series:
        """The errors of the predictions."""
        return Series(self.said.values - self.labels.values)

    @cached_property
    def missed(self) -> Floats:
        """For each row the mean squared error."""
        return np.asarray(np.einsum("ij,ij->j", self.errors.values, self.errors.values) / len(self.errors.values))

    @cached_property
    def explained(self) -> float:
        """The share of the labels' variance that the predictions explain, as a mean over coordinates that vary."""
        return mean_explained(self.errors.squares, np.where(self.labels.constant, 0.0, self.labels.variance))


def beyond_chance(values: Floats) -> float:
    """Return the mean of a number per row, in standard errors, as far as its means in stretches of rows agree."""
    starts = np.linspace(0, len(values), _PARTS, endpoint=False).astype(np.int64)
    means = np.add.reduceat(values, starts) / np.diff([*starts, len(values)])
    error = means.std(ddof=1) / np.sqrt(_PARTS)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nan_to_num(means.mean() / error))


def times(ratio: float) -> str:
    """Return a ratio in words: a power of ten where it is near one, as other units make it.

    >>> times(734.0), times(47.0), times(2.3e6), times(1e9)
    ('about 1,000 times', 'about 47 times', 'about 2,300,000 times', 'about 1,000,000,000 times')
    """
    power = round(np.log10(ratio))
    near = abs(np.log10(ratio) - power) < _NEAR_POWER
    return f"about {10.0**power if near else float(f'{ratio:.2g}'):,.0f} times"


_NEAR_POWER = 0.2
"""Decimal digits: predictions spread less than labels do, by their correlation, so that 1,000 looks like 700."""


def percent(share: float) -> str:
    """Return a share in words, with digits enough to tell it from 1."""
    return f"{100 * share:.4g} %" if share < 0.99995 else "100 %"


def number(value: float) -> str:
    """Return a number with a real minus sign and at most six digits."""
    return with_minus(f"{value:.6g}")
