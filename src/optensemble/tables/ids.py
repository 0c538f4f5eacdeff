"""Ids must be distinct, in tables of any length: hashes go to disk, and are compared part by part."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from optensemble.exceptions import InputError
from optensemble.tables.labels import as_texts

_AT_ONCE = 1 << 22
"""So many hashes are in memory at a time."""


class Ids:
    """The ids of a table, as they come by; memory does not grow with their number."""

    def __init__(self, name: str, table: str) -> None:
        self._name, self._table, self._count = name, table, 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)

    def __enter__(self) -> Ids:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, ids: pd.Series[Any]) -> None:
        """Take up the ids of further rows."""
        self._file.write(_hashes(ids).tobytes())
        self._count += len(ids)

    def require_distinct(self, again: Callable[[], Iterator[pd.Series[Any]]]) -> None:
        """Refuse ids that are there twice; ``again`` goes through all of them once more, to name one."""
        suspects = np.concatenate([np.empty(0, np.uint64), *self._repeated()])
        if not suspects.size:
            return
        counts: dict[str, int] = {}
        for ids in again():  # few have a hash in common by chance
            for value in _texts(ids[np.isin(_hashes(ids), suspects)]):
                counts[value] = counts.get(value, 0) + 1
        twice = [value for value, count in counts.items() if count > 1]
        if twice:
            more = f", and so are others ({len(twice) - 1:,})" if len(twice) > 1 else ""
            raise InputError(
                f"{self._table}: column {self._name!r} must have an id of its own for every row; {twice[0]!r} is there "
                f"{counts[twice[0]]} times{more}. Remove the copies, or name another column as id."
            )

    def _repeated(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Compare hashes of the same last digits with each other, part by part."""
        parts = np.uint64(-(-self._count // _AT_ONCE) or 1)
        for part in range(int(parts)):
            found = [hashes[hashes % parts == part] for hashes in self._chunks()]
            hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *found]))
            yield np.unique(hashes[1:][hashes[1:] == hashes[:-1]])

    def _chunks(self) -> Iterator[npt.NDArray[np.uint64]]:
        self._file.seek(0)
        while chunk := self._file.read(8 * _AT_ONCE):
            yield np.frombuffer(chunk, dtype=np.uint64)


def _hashes(ids: pd.Series[Any]) -> npt.NDArray[np.uint64]:
    """Return hashes of ids as text: files of different kinds may hold the same id."""
    return pd.util.hash_array(_texts(ids).to_numpy(dtype=object), categorize=False)


def _texts(ids: pd.Series[Any]) -> pd.Series[Any]:
    return ids.astype(str) if pd.api.types.is_integer_dtype(ids) else as_texts(ids)  # the same, and faster
