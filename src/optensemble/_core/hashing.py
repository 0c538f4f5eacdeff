"""Hashes of row numbers and of labels: the same anywhere, at any time."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import extending, njit

from optensemble._core.arrays import Indices

Hashes = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_MINUS_ZERO = np.uint64(1 << 63)


@extending.register_jitable
def mixed(state: Hashes) -> Hashes:
    """Let every bit depend on every other (the finaliser of SplitMix64)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@njit(cache=True, nogil=True)
def mix_in(state: Hashes, numbers: Hashes) -> None:
    """Mix every row of ``numbers`` (n, columns), the bits of floats, into the hash of the row, in place."""
    n, columns = numbers.shape
    for i in range(n):
        for j in range(columns):
            bits = np.uint64(0) if numbers[i, j] == _MINUS_ZERO else numbers[i, j]  # -0.0 is the 0.0 that it equals
            state[i] = mixed((state[i] ^ bits) + GOLDEN)


def hash_rows(start: int, count: int, seed: int = 0) -> Hashes:
    """Return a hash of the numbers of some rows in a row; another seed gives others.

    >>> bool(hash_rows(5, 1)[0] == hash_rows(0, 10)[5])
    True
    """
    return hash_numbers(np.arange(start, start + count), seed)


def hash_numbers(numbers: Indices, seed: int = 0) -> Hashes:
    """Return a hash of every number."""
    salt = np.uint64(seed % (1 << 63) * int(GOLDEN) % (1 << 64))
    return mixed(mixed(numbers.astype(np.uint64) + GOLDEN) ^ salt)


def hash_labels(labels: Sequence[Any]) -> Hashes:
    """Return a hash of every label, of text or numbers; equal labels have equal hashes.

    >>> first, second, third = hash_labels(["Mon", "Tue", "Mon"])
    >>> bool(first == third), bool(first == second)
    (True, False)
    """
    known = {label: _hash_label(label) for label in set(labels)}
    return np.array([known[label] for label in labels], dtype=np.uint64)


def _hash_label(label: Any) -> int:
    return int.from_bytes(blake2b(_as_text(label).encode(), digest_size=8).digest(), "little")


def _as_text(label: Any) -> str:
    """Return the same text for equal labels, in whatever block they are first met: 1, 1.0 and True are equal."""
    if isinstance(label, tuple):
        return f"({', '.join(map(_as_text, label))})"
    if isinstance(label, str):
        return repr(str(label))
    if isinstance(label, float):
        return repr(int(label) if label.is_integer() else float(label))
    return repr(int(label)) if isinstance(label, bool) else repr(label)
