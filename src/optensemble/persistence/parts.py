"""Values of a saved file by name, returned only if they have the kind, shape and range that the caller asks for."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices

MOST_COUNTED = 2**62
"""No count is larger: sums of two still fit into 64 bits."""

LARGEST = 1e150
"""Numbers are no larger, so that their squares are finite; labels and predictions are at most 1e100."""

_ARRAY_KINDS = {"b": "truth values", "i": "whole numbers", "u": "64 bits", "f": "numbers", "U": "text"}
_DEEPEST = 32
"""Levels of nesting: ours has fewer, and code that walks through a document recurses."""

_LONGEST_SHOWN = 80
"""Letters of a value, or of the path to it, that an error shows."""

_SHORT = reprlib.Repr()  # of a large document only the beginning is written out
_SHORT.maxstring = _SHORT.maxother = _LONGEST_SHOWN


class Wrong(Exception):  # noqa: N818  (load makes a FileError of it)
    """A part of a file that is invalid."""

    def __init__(self, part: str, must: str, got: Any) -> None:
        shown = " ".join(_SHORT.repr(got).split())
        super().__init__(f"{part} must {must}; got {shown if len(shown) <= _LONGEST_SHOWN else f'{shown[:77]}...'}")


@dataclass(frozen=True)
class Part:
    """A value of the JSON document, with the path to it as its name."""

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
        """Raise :class:`Wrong` unless a condition holds."""
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
        self._require_each(lambda part: part.text(), lambda entry: isinstance(entry, str))
        texts = list(self.value)
        self.require(not distinct or len(set(texts)) == len(texts), "hold distinct names")
        self.require(length is None or len(texts) == length, f"have {length} entries")
        return texts

    def whole(self, low: int = 0, high: int = MOST_COUNTED) -> int:
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
        """Return a list of texts and numbers, or of lists of these: the labels of subgroups, or of rows."""

        def is_label(entry: Any) -> bool:
            entries = entry if of_several and isinstance(entry, list) else (entry,)
            return all(isinstance(each, str | int | float) for each in entries)

        self._require_each(lambda part: part.require(is_label(part.value), "be text or a number"), is_label)
        return list(self.value)

    def _require_each(self, require: Callable[[Part], object], is_right: Callable[[Any], bool]) -> None:
        """Check a list, which may be long: parts with names are made only where an entry is wrong."""
        if not isinstance(self.value, list) or not all(map(is_right, self.value)):
            for part in self:
                require(part)


def require_plain(document: Any) -> None:
    """Raise :class:`Wrong` on nesting, whole numbers and text that json reads and later code cannot handle."""
    try:
        _require_plain(document, _DEEPEST)
    except _Odd as odd:
        name = ".".join(str(key) for key in reversed(odd.way))
        raise Wrong(name[:_LONGEST_SHOWN] or "the document", odd.must, odd.got) from None


class _Odd(Exception):  # noqa: N818  (becomes a Wrong)
    """A value that is not plain; its path is put together on the way out, because most documents need none."""

    def __init__(self, must: str, got: Any) -> None:
        super().__init__(must)
        self.must, self.got, self.way = must, got, list[Any]()


def _require_plain(value: Any, depth: int) -> None:
    kind, key = type(value), None
    try:
        if kind is str:
            if not is_unicode(value):
                raise _Odd("be Unicode text", value)
        elif kind is int:
            if not -MOST_COUNTED <= value <= MOST_COUNTED:
                raise _Odd("have at most 62 bits", f"a whole number of {value.bit_length():,} bits")
        elif kind is list or kind is dict:
            if depth == 0:
                raise _Odd(f"be nested no deeper than {_DEEPEST}", value)
            entries: Iterable[tuple[Any, Any]] = enumerate(value) if kind is list else value.items()
            for name, entry in entries:
                key = None  # a name that is not text cannot be part of a message
                if type(name) is str:
                    _require_plain(name, depth)
                key = name
                if type(entry) is not float:
                    _require_plain(entry, depth - 1)
    except _Odd as odd:
        if key is not None:
            odd.way.append(key)
        raise


def is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, which can be neither printed nor written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Shelf:
    """The arrays of a file, by name."""

    def __init__(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self._arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array."""
        return self._arrays[name].shape

    def floats(self, name: str, *shape: int | None) -> Floats:
        """Return an array of numbers whose squares are finite; None stands for a length that does not matter."""
        array = self.take(name, "f", *shape)
        if array.size and not np.abs(array).max() <= LARGEST:  # nor NaN
            raise Wrong(name, f"hold numbers of at most {LARGEST:g} in size", array)
        return array

    def figures(self, name: str, *shape: int | None) -> Floats:
        """Return an array of numbers of a size that can be shown; infinity and NaN are allowed."""
        array = self.take(name, "f", *shape)
        if (np.abs(array[np.isfinite(array)]) > LARGEST).any():
            raise Wrong(name, f"hold numbers of at most {LARGEST:g} in size, or infinity", array)
        return array

    def wholes(self, name: str, *shape: int | None, low: int = 0, high: int = MOST_COUNTED) -> Indices:
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
            of = " or ".join(_ARRAY_KINDS[kind] for kind in kinds)
            raise Wrong(name, f"be an array of {of}, {size} long", f"{array.dtype}, {array.shape}")
        if array.dtype.kind == "U":
            codes = array.ravel().view(np.uint32)
            if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():  # halves of surrogate pairs
                raise Wrong(name, "hold Unicode text", "letters that are none")
        return array
