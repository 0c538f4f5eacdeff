"""Feasible sets from the ``[feasible]`` section: a built-in kind by name, matrices inline or from CSV files."""

from __future__ import annotations

import csv
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np

from optensemble import feasible
from optensemble._core.arrays import Floats
from optensemble._core.suggestions import did_you_mean
from optensemble.exceptions import FeasibleSetError, FileError, InputError
from optensemble.feasible import FeasibleSet
from optensemble.feasible.registry import SAVED_KINDS
from optensemble.tables.reading import is_number

_VECTORS = ("b_ub", "b_eq", "lower", "upper", "weights", "capacity", "specific", "fallback")
_SIZED = ("A_ub", "A_eq", "lower", "upper")
"""Arguments whose length is the number of coordinates."""

_NEEDS_PYTHON = ("oracle", "cvxpy_set", "py_eposet", "pyepo_set")


def snake(name: str) -> str:
    """Return the name of a class as in a job file.

    >>> snake("RiskBudget"), snake("TopK")
    ('risk_budget', 'top_k')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


SET_KINDS = {snake(name): name for name in SAVED_KINDS}
"""Sets that a job file can describe: the class by its name in the file. A class is imported when it is needed."""


def make_set(section: dict[str, Any], dimension: int, folder: Path, where: str) -> FeasibleSet:
    """Make the set of a section with one coordinate for each label; paths are relative to ``folder``.

    >>> make_set({"kind": "simplex"}, 3, Path(), "job.toml")
    Simplex(dimension=3)
    """
    omega = _make_block(section, dimension, folder, where)
    if omega.dimension != dimension:
        raise InputError(
            f"{where} describes decisions of {omega.dimension} coordinates, but there are {dimension} labels. "
            "There must be one label for each coordinate, in the same order."
        )
    return omega


def _make_block(section: dict[str, Any], dimension: int | None, folder: Path, where: str) -> FeasibleSet:
    kind = _set_class(section, where)
    arguments = {name: _read_argument(value, name, folder, where) for name, value in section.items() if name != "kind"}
    known = list(inspect.signature(kind).parameters)
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or f" It takes {', '.join(known)}."
            raise InputError(f"{where}: {section['kind']} has no argument {name!r}.{hint}")
    needed = [name for name, each in inspect.signature(kind).parameters.items() if each.default is each.empty]
    missing = [name for name in needed if name not in arguments and name != "dimension"]
    if missing:
        raise InputError(f"{where}: {section['kind']} needs {missing[0]!r}. It takes {', '.join(known)}.")
    if "blocks" in arguments:
        arguments["blocks"] = _make_blocks(arguments["blocks"], folder, where)
    sized = any(isinstance(arguments.get(name), (list, np.ndarray)) for name in _SIZED)
    if "dimension" in known and dimension and not sized:
        arguments.setdefault("dimension", dimension)
    try:
        return kind(**arguments)
    except (InputError, FeasibleSetError) as error:
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {section['kind']} cannot be made from these arguments ({error}).") from error


def files_of(section: dict[str, Any], folder: Path) -> list[Path]:
    """Return the files named in a section."""
    named = [folder / value for value in section.values() if _is_file(value)]
    return named + [path for block in section.get("blocks", []) for path in files_of(block, folder)]


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and value.lower().endswith((".csv", ".tsv", ".txt"))


def _set_class(section: dict[str, Any], where: str) -> type[FeasibleSet]:
    if "kind" not in section:
        raise InputError(
            f'{where} lacks a kind. Set, for example, kind = "polytope"; known are {", ".join(SET_KINDS)}.'
        )
    name = snake(section["kind"]) if isinstance(section["kind"], str) else str(section["kind"])
    if name in _NEEDS_PYTHON:
        raise InputError(f"{where}: kind {name!r} is code, which a job file cannot hold. Use it from Python.")
    if name not in SET_KINDS:
        hint = did_you_mean(name, SET_KINDS) or f" Known are {', '.join(SET_KINDS)}."
        raise InputError(f"{where}: kind {section['kind']!r} is not known.{hint}")
    found: type[FeasibleSet] = getattr(feasible, SET_KINDS[name])
    return found


def _make_blocks(blocks: Any, folder: Path, where: str) -> list[FeasibleSet]:
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise InputError(f"{where}: blocks must be sections [[feasible.blocks]], each with a kind; got {blocks!r}.")
    return [_make_block(block, None, folder, f"{where} block {number}") for number, block in enumerate(blocks)]


def _read_argument(value: Any, name: str, folder: Path, where: str) -> Any:
    """Return an argument; the name of a CSV file is replaced by its contents."""
    if not _is_file(value):
        return value
    path = folder / value
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(
            f"{where}: {name} names the file {path}, which cannot be read: {reason}. Check the path: it is "
            "relative to the job file."
        ) from error
    delimiter = next((mark for mark in ";\t" if mark in text), ",")
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]
    if not rows:
        raise InputError(f"{where}: {name} names the file {path}, which is empty. Give numbers.")
    if len({len(row) for row in rows}) > 1:
        raise InputError(
            f"{where}: the rows of {path} have {sorted({len(row) for row in rows})} cells. Give a full table."
        )
    if name == "edges":
        return _parse_edges(rows)
    matrix = _parse_matrix(rows, path, where)
    if name == "integer":
        return matrix.ravel().astype(bool if np.isin(matrix, (0, 1)).all() else int).tolist()  # a mask, or numbers
    return matrix.ravel() if name in _VECTORS and 1 in matrix.shape else matrix


def _parse_matrix(rows: list[list[str]], path: Path, where: str) -> Floats:
    numbers = np.empty((len(rows), len(rows[0])))
    for line, row in enumerate(rows, start=1):
        for column, cell in enumerate(row):
            if not is_number(cell):
                raise InputError(
                    f"{where}: {path} has {cell!r} in row {line}, which is not a number. Give numbers without a header."
                )
            numbers[line - 1, column] = float(cell)
    return numbers


def _parse_edges(rows: list[list[str]]) -> list[tuple[Any, ...]]:
    """Return edges; the nodes are numbers if all of them are whole numbers, otherwise text."""
    whole = all(re.fullmatch(r"-?\d+", cell) for row in rows for cell in row)
    return [tuple(int(cell) if whole else cell for cell in row) for row in rows]
