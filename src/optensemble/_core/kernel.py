"""A set's compiled solver, in one form for all sets, so that the loop can call it without knowing the set.

numba types a function given as an argument by its identity, and then finds nothing in its cache when the next process
starts. A *function type* with a fixed signature is cached: hence one signature for every kernel, and the data of a set
as two flat arrays, which the kernel cuts up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types

from optensemble._core.arrays import Floats, Indices

SIGNATURE = types.void(
    types.float64[:, ::1],  # coefficients, a row each
    types.boolean,  # whether the actions hold a hint on entry
    types.float64[:, ::1],  # actions: a hint for each row, and the answer
    types.int64[::1],  # status: 0 where the row is solved, otherwise a number that the set can explain
    types.float64[:, ::1],  # each row's own parameters of the set; no columns where all rows share one set
    types.float64[::1],  # the set, as packed
    types.int64[::1],
)
FUNCTION = types.FunctionType(SIGNATURE)

_njit: Any = njit  # numba's type hints lack some of these options
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
maker = _njit(**_OPTIONS)
"""Compiles what only kernels call, and is kept in the cache as a part of these: that takes much less time."""

inner = _njit(**_OPTIONS, _nrt=False)
"""The same for what allocates nothing: numba then counts no references, which would take longer than the work."""

reduction = _njit(**_OPTIONS, _nrt=False, fastmath={"reassoc", "nnan", "nsz"})
"""The same for sums whose order does not matter, as of bounds: they are vectorised, and rounded as it happens."""

entry = _njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
"""The same for what Python calls too, and is kept in the cache by itself."""


SHARED: Floats = np.empty((0, 0))
"""In place of rows' own parameters where all rows share one set."""


class Kernel(NamedTuple):
    """A compiled function with :data:`SIGNATURE`, the data it needs, and how many rows it is given at once.

    A row's answer must depend on its coefficients and its own parameters alone, whatever the hint. Rows at once should
    take well below a second, because a user's interrupt waits for them. ``own`` are the parameters of all rows that the
    kernel is bound to, of shape (n, parameters); it has no columns where all rows share one set.
    """

    function: Any
    floats: Floats
    ints: Indices
    rows_at_once: int = 8192
    own: Floats = SHARED

    def __call__(
        self, coefficients: Floats, hinted: bool, actions: Floats, status: Indices, own: Floats = SHARED
    ) -> None:
        """Solve some rows, with these parameters of their own, into ``actions`` and ``status``."""
        self.function(coefficients, hinted, actions, status, own, self.floats, self.ints)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, tuple(self)


def _restored(function: Any, floats: Floats, ints: Indices, rows_at_once: int, own: Floats) -> Kernel:
    """Return a kernel from a pickle; joblib's may be memory that cannot be written to, which is another type."""
    data = (np.require(floats, requirements=["W"]), np.require(ints, requirements=["W"]))
    return Kernel(function, *data, rows_at_once, np.require(own, requirements=["W"]))


def make_kernel(
    function: Any, floats: Sequence[npt.ArrayLike] = (), ints: Sequence[npt.ArrayLike] = (), rows_at_once: int = 8192
) -> Kernel:
    """Compile a kernel, or load it from numba's cache, and lay out the arrays it needs, one after the other."""
    if SIGNATURE.args not in function.overloads:  # numba takes long to find that out
        function.compile(SIGNATURE)
    return Kernel(function, _flat(floats, np.float64), _flat(ints, np.int64), rows_at_once)


def _flat(arrays: Sequence[npt.ArrayLike], dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(np.asarray(array, dtype).ravel() for array in arrays)])
