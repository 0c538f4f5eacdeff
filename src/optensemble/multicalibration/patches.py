"""Patches and their log: the fitted model of the paper's algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Self, overload

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble.multicalibration.events import Layout


@dataclass(frozen=True)
class Patch:
    """The corrections ``delta[c]`` to the predictions of ``member`` on every row of cell ``cells[c]``; cells ascend.

    ``rows[c]`` is the number of fitting rows of the cell when that was learned; -1 where it is not known.
    """

    member: int
    cells: Indices
    delta: Floats
    rows: Indices


@dataclass(frozen=True, eq=False)
class PackedRounds(Sequence[tuple[Patch, ...]]):
    """Rounds as arrays, end to end; a patch is made when someone asks for it.

    Attributes
    ----------
    first_patch
        How many patches come before each round, and in the end the number of all.
    members
        The member of each patch.
    first_cell
        How many cells come before each patch, and in the end the number of all.
    cells, delta, rows
        Those of all patches, as of :class:`Patch`.
    """

    first_patch: Indices
    members: Indices
    first_cell: Indices
    cells: Indices
    delta: Floats
    rows: Indices

    @classmethod
    def of(cls, rounds: Sequence[tuple[Patch, ...]]) -> PackedRounds:
        """Lay rounds end to end, unless they are."""
        if isinstance(rounds, PackedRounds):
            return rounds
        patches = list(chain.from_iterable(rounds))
        none, d = np.zeros(0, dtype=np.int64), patches[0].delta.shape[1] if patches else 0
        return cls(
            first_patch=starts([len(patches) for patches in rounds]),
            members=np.array([patch.member for patch in patches], dtype=np.int64),
            first_cell=starts([len(patch.cells) for patch in patches]),
            cells=np.concatenate([none, *(patch.cells for patch in patches)]),
            delta=np.concatenate([np.zeros((0, d)), *(patch.delta for patch in patches)]),
            rows=np.concatenate([none, *(patch.rows for patch in patches)]),
        )

    @classmethod
    def joined(cls, parts: Sequence[PackedRounds]) -> PackedRounds:
        """Return the rounds of all parts, one after the other."""
        if not parts:
            return cls.of([])
        return cls(
            first_patch=starts(np.concatenate([np.diff(part.first_patch) for part in parts])),
            members=np.concatenate([part.members for part in parts]),
            first_cell=starts(np.concatenate([np.diff(part.first_cell) for part in parts])),
            cells=np.concatenate([part.cells for part in parts]),
            delta=np.concatenate([part.delta for part in parts]),
            rows=np.concatenate([part.rows for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.first_patch) - 1

    @overload
    def __getitem__(self, number: int) -> tuple[Patch, ...]: ...

    @overload
    def __getitem__(self, number: slice) -> Self: ...

    def __getitem__(self, number: int | slice) -> tuple[Patch, ...] | Self:
        if isinstance(number, slice):
            return self._between(*number.indices(len(self)))
        begin = range(len(self))[number]
        return tuple(map(self._patch, range(self.first_patch[begin], self.first_patch[begin + 1])))

    def _patch(self, number: int) -> Patch:
        here = slice(self.first_cell[number], self.first_cell[number + 1])
        return Patch(int(self.members[number]), self.cells[here], self.delta[here], self.rows[here])

    def _between(self, start: int, stop: int, step: int) -> Self:
        """Return some consecutive rounds, as views."""
        if step != 1:
            raise ValueError("only consecutive rounds can be taken")
        stop = max(start, stop)
        first, last = self.first_patch[start], self.first_patch[stop]
        begin, end = self.first_cell[first], self.first_cell[last]
        return type(self)(
            self.first_patch[start : stop + 1] - first,
            self.members[first:last],
            self.first_cell[first : last + 1] - begin,
            self.cells[begin:end],
            self.delta[begin:end],
            self.rows[begin:end],
        )


def starts(lengths: npt.ArrayLike) -> Indices:
    """Return where pieces of these lengths start, end to end, and where the last one ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


@dataclass(frozen=True)
class PatchLog:
    """All corrections in order; the patches of one round are made on the same cells, then rows are solved again."""

    layout: Layout
    rounds: Sequence[tuple[Patch, ...]] = field(default_factory=list)

    @property
    def packed(self) -> PackedRounds:
        """The rounds as arrays."""
        return PackedRounds.of(self.rounds)
