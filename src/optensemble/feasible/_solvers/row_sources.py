"""Parameters of cvxpy problems that come from the row, and the arguments of built-in sets that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns
from optensemble.exceptions import InputError
from optensemble.feasible._row_parameters import RowParameter, count_rows, from_rows
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.cvxpy_checks import load_cvxpy


def as_row_parameters(rows: Mapping[Any, Any] | None, coefficients: Any) -> dict[Any, RowParameter]:
    """Return the cvxpy parameters that come from the row, each with where its numbers come from."""
    if rows is None:
        return {}
    if not isinstance(rows, Mapping):
        raise InputError(
            f"rows must be a dict of cvxpy parameters and columns, as in rows={{capacity: 'budget'}}; got "
            f"{type(rows).__name__}."
        )
    cp, found, names = load_cvxpy(), dict[Any, RowParameter](), set[str]()
    for parameter, value in rows.items():
        if not isinstance(parameter, cp.Parameter):
            raise InputError(
                f"the keys of rows must be parameters of the problem, cvxpy.Parameter; got {type(parameter).__name__}. "
                "Write rows={capacity: 'budget'} with capacity = cp.Parameter() in the problem."
            )
        if parameter is coefficients:
            raise InputError(
                "the parameter of the coefficients stands for what argmax is given: leave it out of rows=."
            )
        name = parameter.name() if parameter.name() not in names else f"{parameter.name()} ({len(names)})"
        names.add(name)
        found[parameter] = RowParameter.of(name, _as_source(name, value), parameter.shape)
    return found


def require_used(problem: Any, rows: Sequence[Any]) -> None:
    """Raise ``InputError`` for a parameter that the problem does not have."""
    used = {parameter.id for parameter in problem.parameters()}
    for parameter in rows:
        if parameter.id not in used:
            known = ", ".join(each.name() for each in problem.parameters())
            raise InputError(
                f"rows names {parameter.name()}, which is not in the problem; its parameters are {known}. Use it in a "
                "constraint or a cost, or leave it out of rows=."
            )


def _as_source(name: str, value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)):
        return Columns(value)
    if from_rows(value):
        return value
    raise InputError(
        f"rows must say which columns of X {name} comes from: a name, a pattern such as 'held_*', a list of names, "
        f"oe.Columns or a function of X; got {type(value).__name__}. Numbers that are the same in all rows are the "
        "parameter's value; others belong into a column."
    )


class RowNumbers:
    """A function of X: an argument of a built-in set, computed from the parameters of each row."""

    def __init__(self, parameters: Sequence[RowParameter], numbers: Callable[[str, Floats], Floats], name: str) -> None:
        self.parameters, self.numbers, self.name = tuple(parameters), numbers, name

    def __call__(self, X: Any) -> Floats:
        n = count_rows(X)
        return self.numbers(self.name, np.concatenate([each.read(X, n) for each in self.parameters], axis=1))


def as_argument(
    parameters: Sequence[RowParameter], numbers: Affine | None, function: Callable[[str, Floats], Floats], name: str
) -> Any:
    """Return an argument: numbers if they are fixed, columns, which can be saved, or a function of X."""
    if numbers is not None and not numbers.varies:
        return numbers.constant
    columns = None if numbers is None or not parameters else as_columns(parameters, numbers)
    return RowNumbers(parameters, function, name) if columns is None else columns


def as_columns(parameters: Sequence[RowParameter], numbers: Affine) -> list[Any] | None:
    """Return columns and numbers if each number is fixed or one parameter as it is; None otherwise.

    Only columns and numbers can be saved.
    """
    sources = _single_sources(parameters)
    found, slopes, skip = list[Any](), numbers.slopes.tocsc(), 0
    for j in range(len(numbers.constant)):
        if skip:
            skip -= 1
            continue
        entries = slice(slopes.indptr[j], slopes.indptr[j + 1])
        if entries.start == entries.stop:
            found.append(float(numbers.constant[j]))
            continue
        if entries.stop - entries.start > 1 or slopes.data[entries.start] != 1.0 or numbers.constant[j]:
            return None
        k = int(slopes.indices[entries.start])
        if sources[k] is not None:
            found.append(sources[k])
            continue
        whole = _whole(parameters, k, j, numbers)
        if whole is None:
            return None
        found.append(whole[0])
        skip = whole[1] - 1
    return found


def _single_sources(parameters: Sequence[RowParameter]) -> list[Any]:
    """Return for each number of the parameters its own column or number; None where only a table tells."""
    found = list[Any]()
    for parameter in parameters:
        singles = list[Any]()
        for source in parameter.sources:
            known = isinstance(source, Columns) and source.width is not None
            singles += [Columns(name) for name in source.names] if known else [source]  # type: ignore[union-attr]
        tells = all(isinstance(each, float) or (isinstance(each, Columns) and each.width == 1) for each in singles)
        if tells and len(singles) in (1, parameter.size):
            found += singles if len(singles) == parameter.size else singles * parameter.size
        else:
            found += [None] * parameter.size
    return found


def _whole(parameters: Sequence[RowParameter], k: int, j: int, numbers: Affine) -> tuple[Any, int] | None:
    """Return the columns of a parameter, and how many, if numbers from j on are all of it in its order."""
    start = 0
    for parameter in parameters:
        if start <= k < start + parameter.size:
            break
        start += parameter.size
    columns = len(parameter.sources) == 1 and isinstance(parameter.sources[0], Columns)
    end = j + parameter.size
    if k != start or not columns or end > len(numbers.constant):
        return None
    block = numbers.slopes[:, j:end].toarray()
    expected = np.zeros_like(block)
    expected[start : start + parameter.size] = np.eye(parameter.size)
    if numbers.constant[j:end].any() or not np.array_equal(block, expected):
        return None
    return parameter.sources[0], parameter.size
