"""Tables that add up: dataclasses of numbers and arrays over disjoint rows, added field by field."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

import numpy as np


class Sums:
    """A dataclass whose sum is that of each of its fields; a field may say how it is joined instead.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Seen(Sums):
    ...     rows: int
    ...     highest: float = field(metadata=LARGEST)
    >>> Seen(2, 1.5) + Seen(3, 0.5)
    Seen(rows=5, highest=1.5)
    """

    def __add__(self, other: Self) -> Self:
        """Return the table of the rows of both."""
        here: Any = self
        pairs = ((each, getattr(self, each.name), getattr(other, each.name)) for each in fields(here))
        return replace(here, **{each.name: _join(each.metadata, left, right) for each, left, right in pairs})  # type: ignore[no-any-return]

    def __iadd__(self, other: Self) -> Self:
        """Return the same; arrays are added to in place, which is for tables that are not used otherwise."""
        here: Any = self
        joined = {}
        for each in fields(here):
            left, right = getattr(self, each.name), getattr(other, each.name)
            if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and not each.metadata:
                left += right
            elif isinstance(left, Sums) and isinstance(right, Sums) and not each.metadata:
                left += right
                joined[each.name] = left
            else:
                joined[each.name] = _join(each.metadata, left, right)
        return replace(here, **joined)  # type: ignore[no-any-return]


def _join(metadata: Any, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if "join" in metadata:
        return metadata["join"](left, right)
    return left + right


LARGEST = {"join": lambda left, right: np.maximum(left, right) if np.ndim(left) else max(left, right)}
"""Metadata of a field of which the larger value is kept."""

EACH = {"join": lambda left, right: tuple(a + b for a, b in zip(left, right, strict=True))}
"""Metadata of a field that is a tuple of tables, each of which adds up."""
