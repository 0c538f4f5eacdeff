"""What an absent member would have said, as far as those present tell: for forecasts that are linear in all members.

An output is filled in by its conditional mean given the outputs of those present, coordinate by coordinate, as means
and covariances of members' outputs have it. A forecast that is linear in all members is then the conditional mean of
itself: the weights of absent members go to those present, to each as much as it knows of them. Labels play no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.sums import Sums
from optensemble.members.absence import Absent
from optensemble.members.blocks import Block, Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.patterns import PatternCounts
from optensemble.stats.row_design import RowDesign

_RIDGE = 1e-3
"""Share of the mean variance that is added to each: members that are nearly alike must not speak for one another."""


@dataclass(frozen=True)
class Filling:
    """Means (members, d) and covariances (d, members, members) of what members say."""

    centre: Floats
    covariance: Floats

    def __call__(self, said: Floats, absent: Absent) -> Floats:
        """Return what members say, of shape (members, n, d), with absent members' outputs filled in."""
        filled = said.copy()
        for rows, away, there in _patterns(absent):
            beyond = said[np.ix_(there, rows)] - self.centre[there][:, None]
            for member, weights in zip(away, self._weights(away, there), strict=True):
                # term by term, so that a row's numbers do not depend on the rows beside it
                filled[member, rows] = self.centre[member] + sum(
                    (w * values for w, values in zip(weights, beyond, strict=True)), np.zeros(said.shape[2])
                )
        return filled

    def _weights(self, away: Indices, there: Indices) -> Floats:
        """Return the weight of each member that is there for each that is not, of shape (away, there, d)."""
        d, found = len(self.covariance), np.zeros((len(away), len(there), self.centre.shape[1]))
        for j in range(d if len(there) else 0):
            known = self.covariance[j][np.ix_(there, there)]
            ridge = _RIDGE * float(np.trace(known)) / len(there)
            if ridge > 0:
                found[:, :, j] = np.linalg.solve(
                    known + ridge * np.eye(len(there)), self.covariance[j][np.ix_(there, away)]
                ).T
        return found


def _patterns(absent: Absent) -> list[tuple[Indices, Indices, Indices]]:
    """Return for each set of members that are absent together: the rows, these members, and the others."""
    rows = np.flatnonzero(absent.any(axis=0))
    found, which = np.unique(absent[:, rows], axis=1, return_inverse=True)
    return [(rows[which == number], np.flatnonzero(away), np.flatnonzero(~away)) for number, away in enumerate(found.T)]


@dataclass(frozen=True)
class PairMoments(Sums):
    """Sums over the rows in which both of two members are present, about a centre.

    ``counts`` (members, members) are the rows; ``sums`` (members, members, d) are of what the first says; ``products``
    (d, members, members) of what both say. ``patterns`` counts the rows of each pattern of who is absent.
    """

    counts: Floats
    sums: Floats
    products: Floats
    patterns: PatternCounts

    @classmethod
    def of(cls, outputs: MemberOutputs, centre: Floats, weights: Floats | None) -> Self:
        """Sum up some rows."""
        k, n, _ = outputs.actions.shape
        there = np.ones((k, n)) if outputs.absent is None else 1.0 - outputs.absent
        beyond = np.stack(outputs.said) - centre[:, None]
        beyond *= there[:, :, None]
        by_coordinate = np.ascontiguousarray(beyond.transpose(2, 0, 1))  # (d, members, n)
        weighted = by_coordinate if weights is None else by_coordinate * weights
        counted = there if weights is None else there * weights
        return cls(
            counts=counted @ there.T,
            sums=np.einsum("jan,bn->abj", weighted, there),
            products=weighted @ by_coordinate.transpose(0, 2, 1),
            patterns=PatternCounts.of(outputs.absent, n),
        )

    def filling(self, centre: Floats) -> Filling:
        """Return means and covariances of members, each two by the rows in which both are present."""
        pairs = np.maximum(self.counts, 1e-9)[:, :, None]
        means = self.sums / pairs  # of the first, where the second is there too
        own = np.einsum("aaj->aj", means)
        covariance = self.products / pairs[:, :, 0] - (means * means.transpose(1, 0, 2)).transpose(2, 0, 1)
        values, vectors = np.linalg.eigh((covariance + covariance.transpose(0, 2, 1)) / 2)
        # from different rows they need not be those of any variables: what is negative is left out
        whole = np.einsum("jae,je,jbe->jab", vectors, np.maximum(values, 0.0), vectors)
        return Filling(centre + own, whole)


@dataclass(frozen=True)
class PairPass:
    """The pass that learns how outputs of members go together where some are absent."""

    design: RowDesign
    centre: Floats


def look_at_pairs(block: Block, state: PairPass) -> PairMoments:
    """Sum up the outputs of each two members over the rows in which both are present."""
    return reduce(add, (_pair_moments(chunk, state) for chunk in block.chunks(state.design)))


def _pair_moments(chunk: Chunk, state: PairPass) -> PairMoments:
    return PairMoments.of(chunk.outputs, state.centre, chunk.weights)
