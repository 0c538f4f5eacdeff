"""Validation of the rows in a file: kinds, lengths and ranges of everything that columns are made of."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from optensemble.persistence.check_common import SavedFile
from optensemble.persistence.parts import Part, Wrong
from optensemble.persistence.row_file import ARRAY, DATE, DTYPES, FRAME, NUMBER, PLAIN, TEXTS, UNITS, is_kept

_NO_DATE = np.iinfo(np.int64).min
_FIRST, _LAST = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")
_MOST_AXES = 4
_OF_ROWS = ("rows", "open")
_VALUE_BYTES = 128  # in memory: a text of its own, and what it says
_DTYPES = {name: np.dtype(name) for name in DTYPES}


def check_rows(file: SavedFile) -> None:
    """Check the rows of the fit and those that came later, and the ids of rows; older files have neither."""
    if "known/keys" in file.shelf:
        known = file.shelf.take("known/keys", "u", None)
        file.shelf.take("known/prints", "u", len(known))
    rows = file.root.get("rows")
    if rows is None or rows["why"].text():
        return
    check_memory(file)
    learned, start = file.root["learned"], 0
    for name, count in (("fit", learned["n_rows_"].whole()), ("later", learned["n_updated_"].whole())):
        batches = list(rows[name])
        lengths = [check_batch(file, batch, f"rows{start + number}") for number, batch in enumerate(batches)]
        rows[name].require(sum(lengths) == count, f"have {count} rows")
        start += len(batches)
    rows["fit"].require(bool(rows["fit"].value), "have rows")


def check_memory(file: SavedFile) -> None:
    """Check that the values of all columns, of which a small file can hold very many, fit into memory."""
    names = [name for name in file.shelf if name.startswith(_OF_ROWS) and name.endswith("/values")]
    needed = _VALUE_BYTES * sum(sum(file.shelf.shape(name)[:1]) for name in names)
    if needed > file.limit:
        raise Wrong(
            "rows", f"fit into {file.limit:,} bytes (give load a larger limit=)", f"values that take {needed:,}"
        )


def check_batch(file: SavedFile, batch: Part, key: str) -> int:
    """Check rows with their labels, groups, weights and ids; return their number."""
    n = len(file.shelf.floats(f"{key}/labels", None, file.d))
    if not n:
        raise Wrong(f"{key}/labels", "have rows", n)
    if f"{key}/weights" in file.shelf:
        weights = file.shelf.floats(f"{key}/weights", n)
        if weights.min() < 0:
            raise Wrong(f"{key}/weights", "be at least 0", float(weights.min()))
    if f"{key}/keys" in file.shelf:
        file.shelf.take(f"{key}/keys", "u", n)
    if (groups := batch.get("groups")) is not None:
        if (rule := groups.get("rule")) is not None:
            rule.require(type(rule.value) in (str, int), "name a column")
        else:
            check_column(file, groups, f"{key}/groups", n)
    check_x(file, batch["x"], f"{key}/x", n)
    return n


def check_x(file: SavedFile, x: Part, key: str, n: int) -> None:
    """Check the rows of an X."""
    if x["kind"].choice([ARRAY, FRAME]) == ARRAY:
        _check_numbers(file, x, key, n, None)
        return
    names = x["columns"]
    listed = names.value if isinstance(names.value, list) else []
    right = listed and all(type(name) in (str, int) for name in listed) and len(set(listed)) == len(listed)
    names.require(bool(right), "be distinct names of columns")
    if (index := x.get("index")) is not None:
        index["name"].require(isinstance(index["name"].value, str | None), "be text or null")
        check_column(file, index, f"{key}/index", n)
    if (block := x.get("block")) is not None:
        _check_numbers(file, block, key, n, len(listed))
        return
    parts = list(x["parts"])
    x["parts"].require(len(parts) == len(listed), f"be {len(listed)} columns")
    for number, part in enumerate(parts):
        check_column(file, part, f"{key}/{number}", n)


def _check_numbers(file: SavedFile, part: Part, key: str, n: int, columns: int | None) -> None:
    """Check an array of numbers, of which each fits into the type that it had."""
    dtype = _DTYPES[part["dtype"].choice(DTYPES)]
    part["by_columns"].flag()
    axes = len(file.shelf.shape(key)) if key in file.shelf else 0
    if columns is None and not 1 <= axes <= _MOST_AXES:
        raise Wrong(key, f"have 1 to {_MOST_AXES} axes", axes)
    array = file.shelf.take(key, dtype.kind, n, *([None] * (axes - 1) if columns is None else [columns]))
    if dtype.kind in "iu" and dtype.itemsize < 8 and array.size:
        info = np.iinfo(dtype)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise Wrong(key, f"fit into {dtype}", array)


def check_column(file: SavedFile, part: Part, key: str, n: int) -> None:
    """Check a column of numbers, dates or single values."""
    kind = part["kind"].choice([NUMBER, DATE, PLAIN])
    if kind == NUMBER:
        _check_numbers(file, part, key, n, None)
        file.shelf.take(key, "biuf", n)
    elif kind == DATE:
        unit = part["unit"].choice(UNITS)
        part["zone"].choice([None, "UTC"])
        dates = file.shelf.take(key, "i", n)
        first, last = (each.astype(f"M8[{unit}]").astype(np.int64) for each in _limits(unit))
        if not ((dates == _NO_DATE) | ((dates >= first) & (dates <= last))).all():
            raise Wrong(key, "hold dates of the years 1 to 9999", dates)
    else:
        part["dtype"].choice(TEXTS)
        values = file.shelf.take(f"{key}/values", "U", None)
        if not 1 <= len(values) <= n or len(np.unique(values)) < len(values):
            raise Wrong(f"{key}/values", f"hold each value once, 1 to {n} of them", f"{len(values)} values")
        file.shelf.wholes(key, n, high=len(values))
        found = [_single_value(text, f"{key}/values") for text in values.tolist()]
        texts_only = all(isinstance(value, str | None) or value != value for value in found)
        part["dtype"].require(part["dtype"].value == "object" or texts_only, "be object, for not all values are text")


def _limits(unit: str) -> tuple[Any, Any]:
    """Return the first and the last date that have a name, as far as the unit goes."""
    if unit == "ns":
        return np.datetime64(_NO_DATE + 1, "ns"), np.datetime64(np.iinfo(np.int64).max, "ns")
    return _FIRST, _LAST


def _single_value(text: str, name: str) -> Any:
    """Return a value that was JSON: text, a number, a truth value, nothing, or several of these."""
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise Wrong(name, "hold JSON", text) from error
    for entry in value if isinstance(value, list) else [value]:
        if not is_kept(entry):
            raise Wrong(name, "hold text and numbers", text)
    return value
