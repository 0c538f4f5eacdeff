"""Feasible sets from the ``[feasible]`` section: a built-in kind by name, arguments inline, in files or in columns."""

from __future__ import annotations

import csv
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optensemble import feasible
from optensemble._core.arrays import Floats
from optensemble._core.suggestions import did_you_mean
from optensemble.exceptions import FeasibleSetError, FileError, InputError
from optensemble.feasible import FeasibleSet
from optensemble.feasible.registry import SAVED_KINDS
from optensemble.jobs.set_columns import (
    SetTable,
    has_patterns,
    names_columns,
    require_set_columns,
    resolved,
    with_columns,
)
from optensemble.tables.reading import is_number

_VECTORS = (
    *("b_ub", "b_eq", "lower", "upper", "weights", "capacity", "specific", "fallback"),
    *("linear", "held", "rate", "total", "available", "closed"),
)
_SIZED = ("A_ub", "A_eq", "lower", "upper", "weights")
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


def make_set(
    section: dict[str, Any], dimension: int, folder: Path, where: str, table: SetTable | None = None
) -> FeasibleSet:
    """Make the set of a section with one coordinate for each label; paths are relative to ``folder``.

    Parameters that come from the row name columns of the ``table``.

    >>> make_set({"kind": "simplex"}, 3, Path(), "job.toml")
    Simplex(dimension=3)
    """
    omega = _SetMaker(folder, table)(section, dimension, where)
    if omega.dimension != dimension:
        raise InputError(
            f"{where} describes decisions of {omega.dimension} coordinates, but there are {dimension} labels. "
            "There must be one label for each coordinate, in the same order."
        )
    return omega


@dataclass(frozen=True)
class _SetMaker:
    """Makes sets of sections: where their files are, and the table whose columns they name."""

    folder: Path
    table: SetTable | None

    def __call__(self, section: dict[str, Any], dimension: int | None, where: str) -> FeasibleSet:
        kind = _set_class(section, where)
        known = inspect.signature(kind).parameters
        given = {name: value for name, value in _renamed(section, known).items() if name != "kind"}
        _require_arguments(section["kind"], given, known, where)
        arguments = {name: self._argument(value, name, dimension, where) for name, value in given.items()}
        sized = any(isinstance(arguments.get(name), (list, np.ndarray)) for name in _SIZED)
        if "dimension" in known and dimension and not sized:
            arguments.setdefault("dimension", dimension)
        omega = _construct(kind, arguments, section["kind"], where)
        table = self.table
        if table is None or not omega.varies:
            return omega
        if has_patterns(arguments):
            arguments = {name: resolved(value, omega, table, f"{where} {name}") for name, value in arguments.items()}
            omega = _construct(kind, arguments, section["kind"], where)
        require_set_columns(omega, table, where)
        return omega

    def _argument(self, value: Any, name: str, dimension: int | None, where: str) -> Any:
        """Return an argument: sets for sections with a kind, the contents of a file for its name."""
        if name == "blocks":
            return self._blocks(value, where)
        if _is_section(value):
            return self(value, dimension, f"{where} {name}")
        if isinstance(value, dict) and value and all(map(_is_section, value.values())):
            return {key: self(each, dimension, f"{where} {name}.{key}") for key, each in value.items()}
        if isinstance(value, dict) and not names_columns(value):
            return {key: self._argument(each, key, dimension, f"{where} {name}") for key, each in value.items()}
        return with_columns(_read_argument(value, name, self.folder, where), f"{where} {name}")

    def _blocks(self, blocks: Any, where: str) -> list[FeasibleSet]:
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise InputError(f"{where}: blocks must be sections [[feasible.blocks]], each with a kind; got {blocks!r}.")
        made, first = list[FeasibleSet](), 0
        for number, block in enumerate(blocks):
            table = None if self.table is None else self.table.beginning(first)
            made.append(_SetMaker(self.folder, table)(block, None, f"{where} block {number}"))
            first += made[-1].dimension
        return made


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) and "kind" in value


def _renamed(section: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section with what it builds upon, a ``set`` or a ``column``, under the name of the class's argument."""
    first = next(iter(known), "")
    builds_upon = {"set": _is_section(section.get("set")), "column": isinstance(section.get("column"), str)}
    alias = {name: first for name, given in builds_upon.items() if given and name not in known}
    return {alias.get(name, name): value for name, value in section.items()}


def _require_arguments(kind: str, given: dict[str, Any], known: Mapping[str, inspect.Parameter], where: str) -> None:
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f" It takes {', '.join(known)}."
            raise InputError(f"{where}: {kind} has no argument {name!r}.{hint}")
    needed = [name for name, each in known.items() if each.default is each.empty]
    missing = [name for name in needed if name not in given and name != "dimension"]
    if missing:
        raise InputError(f"{where}: {kind} needs {missing[0]!r}. It takes {', '.join(known)}.")


def _construct(kind: type[FeasibleSet], arguments: dict[str, Any], name: str, where: str) -> FeasibleSet:
    try:
        return kind(**arguments)
    except (InputError, FeasibleSetError) as error:
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {name} cannot be made from these arguments ({error}).") from error


def files_of(section: dict[str, Any], folder: Path) -> list[Path]:
    """Return the files named in a section."""
    named = list[Path]()
    for value in section.values():
        inside = value if isinstance(value, list) else [value]
        named += [path for each in inside if isinstance(each, dict) for path in files_of(each, folder)]
        named += [folder / value] if _is_file(value) else []
    return named


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
