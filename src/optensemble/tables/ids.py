"""Distinct ids in tables of any length: hashes are kept on disk and compared part by part."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from optensemble._core.deferred import compute, pd
from optensemble.exceptions import InputError
from optensemble.tables.labels import column_text

_HASHES_IN_MEMORY = 1 << 22
_SHORT = 10**18
_SHORT_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"
_MIXING = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)

Ids: TypeAlias = "pd.Series[Any] | npt.NDArray[Any]"
"""The ids of some rows: an array if they are whole numbers."""


class IdRegister:
    """Ids of a table, added batch by batch; memory does not grow with their number."""

    def __init__(self, name: str, table: str) -> None:
        self._name, self._table, self._count = name, table, 0
        self._last: int | None = -_SHORT  # the last id, if all are whole numbers that increase; None if not
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)

    def __enter__(self) -> IdRegister:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, ids: Ids) -> None:
        """Add the ids of further rows."""
        self._file.write(_hashes(ids).tobytes())
        self._count += len(ids)
        self._last = None if self._last is None else _last_increasing(ids, self._last)

    def require_distinct(self, again: Callable[[], Iterator[pd.Series[Any]]]) -> None:
        """Raise ``InputError`` on repeated ids; ``again`` iterates over all ids once more, to name one."""
        if self._last is not None:
            return  # nothing is to be compared
        suspects = np.concatenate([np.empty(0, np.uint64), *self._repeated()])
        if not suspects.size:
            return
        counts: dict[str, int] = {}
        for ids in again():  # different ids may share a hash
            for value in _id_texts(ids[np.isin(_hashes(ids), suspects)]):
                counts[value] = counts.get(value, 0) + 1
        twice = [value for value, count in counts.items() if count > 1]
        if twice:
            more = f"; {len(twice):,} ids are repeated" if len(twice) > 1 else ""
            raise InputError(
                f"{self._table}: column {self._name!r} must have a distinct id for every row; {twice[0]!r} is there "
                f"{counts[twice[0]]} times{more}. Remove the duplicates, or name another column as id."
            )

    def _repeated(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yield repeated hashes, part by part: equal hashes have the same remainder and so are in the same part."""
        parts = np.uint64(-(-self._count // _HASHES_IN_MEMORY) or 1)
        for part in range(int(parts)):
            found = [hashes[hashes % parts == part] for hashes in self._chunks()]
            hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *found]))
            yield np.unique(hashes[1:][hashes[1:] == hashes[:-1]])

    def _chunks(self) -> Iterator[npt.NDArray[np.uint64]]:
        self._file.seek(0)
        while chunk := self._file.read(8 * _HASHES_IN_MEMORY):
            yield np.frombuffer(chunk, dtype=np.uint64)


def _hashes(ids: Ids) -> npt.NDArray[np.uint64]:
    """Return hashes of ids as text: the same id may be a number in one file and text in another.

    Text that is a whole number of at most 18 digits hashes as that number, which takes a tenth of the time.
    """
    if _are_short_numbers(ids):
        return _mixed(np.asarray(ids, dtype=np.int64))
    texts = _id_texts(pd.Series(ids) if isinstance(ids, np.ndarray) else ids)
    hashes = pd.util.hash_array(texts.to_numpy(dtype=object), categorize=False)
    numbers = compute.match_substring_regex(pa.array(texts, pa.string()), _SHORT_NUMBER).to_numpy(zero_copy_only=False)
    if numbers.any():
        hashes[numbers] = _mixed(texts[numbers].to_numpy().astype(np.int64))
    return hashes


def _last_increasing(ids: Ids, before: int) -> int | None:
    """Return the last of some ids, if they are whole numbers that increase from the one before; None if not."""
    if not len(ids):
        return before
    if not _are_short_numbers(ids):
        return None
    numbers = np.asarray(ids, dtype=np.int64)
    return int(numbers[-1]) if numbers[0] > before and (numbers[1:] > numbers[:-1]).all() else None


def _mixed(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return hashes of whole numbers, different for different numbers (the mixing of splitmix64, as pandas has it)."""
    hashes = numbers.astype(np.uint64)
    for shift, factor in _MIXING:
        hashes ^= hashes >> shift
        hashes *= factor
    return hashes ^ (hashes >> _LAST_SHIFT)


def _are_short_numbers(ids: Ids) -> bool:
    """Return whether ids are whole numbers of at most 18 digits."""
    if not len(ids) or not (isinstance(ids, np.ndarray) or pd.api.types.is_integer_dtype(ids)):
        return False
    return int(ids.min()) > -_SHORT and int(ids.max()) < _SHORT


def _id_texts(ids: pd.Series[Any]) -> pd.Series[Any]:
    return ids.astype(str) if pd.api.types.is_integer_dtype(ids) else column_text(ids)  # the same, and faster
