"""Values of a saved file by name, each handed out only if it is of the kind, shape and range that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._types import Floats, Indices

MOST = 2**62
"""No count is larger: sums of two still fit into 64 bits."""

LARGEST = 1e150
"""Numbers are no larger, so that their squares are finite; labels and predictions are at most 1e100."""

_KINDS = {"b": "truth values", "i": "whole numbers", "u": "64 bits", "f": "numbers", "U": "text"}
_DEEPEST = 32
"""Nothing that is saved is nested deeper than this; code that walks through it may recurse."""


class Wrong(Exception):  # noqa: N818  (caught at the door, which makes a FileError of it)
    """A part of a file is not what it must be."""

    def __init__(self, part: str, must: str, got: Any) -> None:
        shown = " ".join(repr(got).split())
        super().__init__(f"{part} must {must}; got {shown if len(shown) <= 80 else f'{shown[:77]}...'}")


@dataclass(frozen=True)
class Part:
    """A value of the JSON document, with the way to it as its name."""

    value: Any
    name: str = "the document"

    def __getitem__(self, key: str) -> Part:
        if not isinstance(self.value, dict) or key not in self.value:
            raise Wrong(self.name, f"have {key!r}", self.value)
        return Part(self.value[key], f"{self.name}.{key}".removeprefix("the document."))

    def __iter__(self) -> Iterator[Part]:
        if not isinstance(self.value, list):
            raise Wrong(self.name, "be a list", self.value)
        return (Part(value, f"{self.name}.{number}") for number, value in enumerate(self.value))

    def get(self, key: str) -> Part | None:
        """Return a value that may be missing, or null."""
        present = isinstance(self.value, dict) and self.value.get(key) is not None
        return self[key] if present else None

    def require(self, condition: bool, must: str) -> None:
        """Refuse the value unless a condition holds."""
        if not condition:
            raise Wrong(self.name, must, self.value)

    def choice(self, choices: Sequence[Any]) -> Any:
        """Return one of some texts, or None where that is among them."""
        known = any(type(self.value) is type(choice) and self.value == choice for choice in choices)
        self.require(known, f"be one of {', '.join(map(repr, choices))}")
        return self.value

    def flag(self) -> bool:
        """Return True or False."""
        return bool(self.choice([True, False]))

    def text(self) -> str:
        """Return a text."""
        self.require(isinstance(self.value, str), "be text")
        return str(self.value)

    def texts(self, *, distinct: bool = False, length: int | None = None) -> list[str]:
        """Return a list of texts."""
        texts = [part.text() for part in self]
        self.require(not distinct or len(set(texts)) == len(texts), "hold distinct names")
        self.require(length is None or len(texts) == length, f"have {length} entries")
        return texts

    def whole(self, low: int = 0, high: int = MOST) -> int:
        """Return a whole number, from ``low`` to below ``high``."""
        right = isinstance(self.value, int) and not isinstance(self.value, bool) and low <= self.value < high
        self.require(right, f"be a whole number from {low} to {high - 1}")
        return int(self.value)

    def number(self, at_least: float = -LARGEST) -> float:
        """Return a number whose square is finite."""
        right = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        self.require(right and at_least <= self.value <= LARGEST, f"be a number from {at_least:g} to {LARGEST:g}")
        return float(self.value)

    def labels(self, *, of_several: bool = False) -> list[Any]:
        """Return a list of texts and numbers, or of lists of these: what parts of a partition, or rows, are called."""
        for part in self:
            entries = part.value if of_several and isinstance(part.value, list) else [part.value]
            part.require(all(isinstance(entry, str | int | float) for entry in entries), "be text or a number")
        return list(self.value)


def require_plain(value: Any, way: tuple[Any, ...] = ()) -> None:
    """Refuse nesting, whole numbers and text that Python reads, but that nothing can be done with later."""
    if len(way) > _DEEPEST:
        raise Wrong(_named(way[:3]), f"be nested no deeper than {_DEEPEST}", value)
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            require_plain(entry, (*way, key))
            require_plain(key, way)
    elif isinstance(value, str) and not _is_unicode(value):
        raise Wrong(_named(way), "be Unicode text", value)
    elif isinstance(value, int) and abs(value) > MOST:
        raise Wrong(_named(way), "have at most 62 bits", f"a whole number of {value.bit_length():,} bits")


def _named(way: tuple[Any, ...]) -> str:
    """Return the name of the part that a way leads to."""
    return ".".join(map(str, way)) or "the document"


def _is_unicode(text: str) -> bool:
    """Say whether a text has no half of a surrogate pair, which can be neither printed nor written."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class Shelf:
    """The arrays of a file, by name."""

    def __init__(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self._arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def floats(self, name: str, *shape: int | None) -> Floats:
        """Return an array of numbers whose squares are finite; None stands for a length that does not matter."""
        array = self.take(name, "f", *shape)
        if array.size and not np.abs(array).max() <= LARGEST:  # nor NaN
            raise Wrong(name, f"hold numbers of at most {LARGEST:g} in size", array)
        return array

    def figures(self, name: str, *shape: int | None) -> Floats:
        """Return an array of numbers of a size that can be shown, infinite or unknown ones among them."""
        array = self.take(name, "f", *shape)
        if (np.abs(array[np.isfinite(array)]) > LARGEST).any():
            raise Wrong(name, f"hold numbers of at most {LARGEST:g} in size, or infinity", array)
        return array

    def wholes(self, name: str, *shape: int | None, low: int = 0, high: int = MOST) -> Indices:
        """Return an array of whole numbers, from ``low`` to below ``high``."""
        array = self.take(name, "i", *shape)
        if array.size and not low <= int(array.min()) <= int(array.max()) < high:
            raise Wrong(name, f"hold whole numbers from {low} to {high - 1}", array)
        return array

    def take(self, name: str, kinds: str, *shape: int | None) -> npt.NDArray[Any]:
        """Return an array of some of numpy's kinds."""
        if name not in self._arrays:
            raise Wrong("arrays.npz", f"have {name!r}", sorted(self._arrays))
        array = self._arrays[name]
        lengths = zip(array.shape, shape, strict=False)
        fits = array.ndim == len(shape) and all(wanted in (None, length) for length, wanted in lengths)
        if array.dtype.kind not in kinds or not fits:
            size = " × ".join("any" if wanted is None else str(wanted) for wanted in shape)
            of = " or ".join(_KINDS[kind] for kind in kinds)
            raise Wrong(name, f"be an array of {of}, {size} long", f"{array.dtype}, {array.shape}")
        if array.dtype.kind == "U" and not all(map(_is_unicode, array.ravel().tolist())):
            raise Wrong(name, "hold Unicode text", array)
        return array
