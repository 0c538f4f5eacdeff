"""Products: several sets side by side, each with coordinates of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._composite import Composite, Part


@final
class Product(Composite):
    """All actions made of one action of each block, laid end to end; each block is solved on its own.

    Ties are broken, hints used and failures met by each block in its own way. Each may take parameters from the row.

    Parameters
    ----------
    blocks
        The sets, in the order of their coordinates, as one list.
    on_failure, fallback
        What to do with a row that a block cannot solve and has no fallback of its own for: "raise" an error, or take
        the "fallback" action, of all blocks, and warn.

    Attributes
    ----------
    blocks
        The sets, as a tuple.

    Examples
    --------
    >>> from optensemble.feasible import Box, Simplex
    >>> Product([Simplex(3), Box(upper=[1, 2])]).argmax([[0.1, 0.7, 0.2, -1.0, 1.0]])
    array([[0., 1., 0., 0., 2.]])

    The second block's bounds come from the row:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> omega = Product([Simplex(3), Box(upper=Columns(["day", "night"]))])
    >>> omega.for_rows(pd.DataFrame({"day": [5.0], "night": [7.0]})).argmax([[0.1, 0.7, 0.2, -1.0, 1.0]])
    array([[0., 1., 0., 0., 7.]])
    """

    def __init__(
        self, blocks: Sequence[FeasibleSet], *, on_failure: str = "raise", fallback: npt.ArrayLike | None = None
    ) -> None:
        try:
            self.blocks = tuple(blocks)
        except TypeError as error:
            raise InputError(f"blocks must be a list of feasible sets; got {type(blocks).__name__}.") from error
        if not self.blocks:
            raise EmptySetError("the list of blocks is empty. Give at least one feasible set.")
        for b, block in enumerate(self.blocks):
            if not isinstance(block, FeasibleSet):
                raise InputError(f"every block must be a feasible set; block {b} is of type {type(block).__name__}.")
        self._hold(self.blocks, [f"blocks[{b}]" for b in range(len(self.blocks))])
        self.dimension = sum(block.dimension for block in self.blocks)
        if not self.open_bounds:
            lower, upper = (
                np.concatenate([getattr(each, side) for each in self.blocks]) for side in ("lower", "upper")
            )
            self._set_bounds(lower, upper, self.dimension)
        self._set_failure(on_failure, fallback)

    @property
    def width(self) -> int:
        """How many numbers of a row the blocks have."""
        return sum(block.width for block in self.blocks)

    def read_rows(self, X: Any) -> Floats:
        """Return the parameters of every row of X, block by block, of shape (rows, numbers)."""
        return np.concatenate([block.read_rows(X) for block in self.blocks if block.varies], axis=1)

    def _parts(self) -> Iterator[Part]:
        start = value = 0
        for number, block in enumerate(self.blocks):
            yield Part(number, self._bound(number, value), slice(None), slice(start, start + block.dimension))
            start += block.dimension
            value += block.width

    def _settles(self, omega: FeasibleSet) -> bool:
        return self.on_failure == "raise" or super()._settles(omega)

    def _title(self, part: Part) -> str:
        return f"block {part.number}, {self.blocks[part.number]!r}"

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest violation of a block."""
        return self._largest_violation(actions)

    def of_row(self, row: int) -> Product:
        """Return the product of one of the rows that this one is bound to."""
        blocks = [part.omega.of_row(row) for part in self._parts()]
        return Product(blocks, on_failure=self.on_failure, fallback=self.fallback) if self.varies else self

    def spec(self) -> dict[str, Any] | None:
        """Return the kind and the arguments of each block, or None if one of them cannot be saved."""
        specs = self._inner_specs()
        if specs is None:
            return None
        return {"blocks": specs, **self._failure_spec_if_any()}
