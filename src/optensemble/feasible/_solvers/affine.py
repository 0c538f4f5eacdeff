"""Numbers that are affine functions of a row's parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats, Indices


class Affine(NamedTuple):
    """Numbers ``constant + slopes' p`` for the parameters ``p`` of a row; ``slopes`` is sparse, a row per parameter."""

    constant: Floats
    slopes: Any

    @classmethod
    def fixed(cls, constant: Floats, parameters: int = 0) -> Affine:
        """Return numbers that are the same in every row."""
        return cls(constant, sparse.csr_array((parameters, len(constant)), dtype=np.float64))

    @classmethod
    def of(cls, terms: Floats) -> Affine:
        """Return the numbers with the constants in the first column of an array, and slopes in the others."""
        slopes = sparse.csr_array(terms[:, 1:].T)
        slopes.eliminate_zeros()
        return cls(terms[:, 0].copy(), slopes)

    @property
    def terms(self) -> Floats:
        """The constants as the first column, and the slopes by each parameter as the others."""
        return np.column_stack([self.constant, self.slopes.toarray().T])

    @property
    def varies(self) -> bool:
        """Whether the numbers differ between rows."""
        return bool(self.slopes.nnz)

    def at(self, values: Floats) -> Floats:
        """Return the numbers of every row, of shape (rows, numbers).

        Products and sums are made entry by entry, so that the rows of a batch do not round each other's.
        """
        found = np.repeat(self.constant[None], len(values), axis=0)
        for parameter in np.flatnonzero(np.diff(self.slopes.indptr)):
            entries = slice(self.slopes.indptr[parameter], self.slopes.indptr[parameter + 1])
            steps = values[:, parameter, None] * self.slopes.data[entries]
            found[:, self.slopes.indices[entries]] += steps
        return found


class VaryingMatrix(NamedTuple):
    """A sparse matrix by columns whose entries are affine functions of a row's parameters; its zeros are fixed."""

    indices: Indices
    indptr: Indices
    shape: tuple[int, int]
    entries: Affine

    @classmethod
    def of(cls, stacked: Any, shape: tuple[int, int], chosen: Floats, varying: Indices) -> VaryingMatrix:
        """Return a matrix whose columns are stacked, for parameters of which some have chosen values and some vary."""
        constant = sparse.csr_array((stacked @ chosen)[:, None])
        slopes = sparse.csr_array(stacked[:, varying])
        used = np.flatnonzero((np.diff(constant.indptr) > 0) | (np.diff(slopes.indptr) > 0))
        columns, rows = np.divmod(used, shape[0]) if shape[0] else (used, used)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=shape[1]))])
        entries = Affine((stacked @ chosen)[used], sparse.csr_array(slopes[used].T))
        return cls(rows, indptr, shape, entries)

    def with_entries(self, entries: Floats) -> Any:
        """Return the matrix with these entries."""
        return sparse.csc_matrix((entries, self.indices, self.indptr), shape=self.shape)

    @property
    def used(self) -> Any:
        """The matrix with 1 wherever there is an entry in some row."""
        return self.with_entries(np.ones(len(self.indices)))

    @property
    def fixed(self) -> Any:
        """The matrix, if it is the same in every row."""
        return self.with_entries(self.entries.constant)
