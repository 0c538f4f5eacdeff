"""Products: several sets side by side, each with coordinates of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, InputError, OptEnsembleError
from optensemble.feasible._base import FeasibleSet, checks_actions


@final
class Product(FeasibleSet):
    """All actions made of one action of each block, laid end to end; each block is solved on its own.

    Ties are broken, hints used and failures met by each block in its own way.

    Parameters
    ----------
    blocks
        The sets, in the order of their coordinates, as one list.

    Attributes
    ----------
    blocks
        The sets, as a tuple.

    Examples
    --------
    >>> from optensemble.feasible import Box, Simplex
    >>> Product([Simplex(3), Box(upper=[1, 2])]).argmax([[0.1, 0.7, 0.2, -1.0, 1.0]])
    array([[0., 1., 0., 0., 2.]])
    """

    def __init__(self, blocks: Sequence[FeasibleSet]) -> None:
        try:
            self.blocks = tuple(blocks)
        except TypeError as error:
            raise InputError(f"blocks must be a list of feasible sets; got {type(blocks).__name__}.") from error
        if not self.blocks:
            raise EmptySetError("the list of blocks is empty. Give at least one feasible set.")
        for b, block in enumerate(self.blocks):
            if not isinstance(block, FeasibleSet):
                raise InputError(f"every block must be a feasible set; block {b} is of type {type(block).__name__}.")
        lower, upper = ([getattr(block, side) for block in self.blocks] for side in ("lower", "upper"))
        self._set_bounds(np.concatenate(lower), np.concatenate(upper), sum(block.dimension for block in self.blocks))

    def argmax(self, C: npt.ArrayLike, hint: npt.ArrayLike | None = None) -> Floats:
        """Return the actions of the blocks, side by side; see :meth:`FeasibleSet.argmax`."""
        coefficients = self._as_batch(C, "the coefficients")
        hints = None if hint is None else self._as_hint(hint, len(coefficients))
        actions = np.empty_like(coefficients)
        for b, (block, columns) in enumerate(self._parts()):
            try:
                part = None if hints is None else hints[:, columns]
                actions[:, columns] = block.argmax(coefficients[:, columns], hint=part)
            except OptEnsembleError as error:
                raise type(error)(f"in block {b}, {block!r}: {error}") from error
        return actions

    def _parts(self) -> Iterator[tuple[FeasibleSet, slice]]:
        """Go through the blocks and their columns."""
        start = 0
        for block in self.blocks:
            yield block, slice(start, start + block.dimension)
            start += block.dimension

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest violation of a block."""
        excess = [block.violation(np.ascontiguousarray(actions[:, columns])) for block, columns in self._parts()]
        largest: Floats = np.max(excess, axis=0)
        return largest

    def spec(self) -> dict[str, Any] | None:
        """Return the kind and the arguments of each block, or None if one of them cannot be saved."""
        specs = [{"kind": type(block).__name__, "spec": block.spec()} for block in self.blocks]
        return None if any(spec["spec"] is None for spec in specs) else {"blocks": specs}
