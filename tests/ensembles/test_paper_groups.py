"""Groups of rows in every form, for the paper's two ensembles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import InputError
from tests.ensembles.paper_inputs import (
    BOTH,
    NUMBER,
    PANDAS,
    POLARS,
    PROBLEM,
    D,
    N,
    answers,
    column,
    make,
    on_rows,
    refused,
    same,
)

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


def test_dates_are_the_same_group_in_any_unit() -> None:
    days = np.datetime64("2024-01-01") + PROBLEM.X % 3
    frames = [pd.DataFrame({"row": PROBLEM.X, "day": days.astype(f"datetime64[{unit}]")}) for unit in ("ns", "s")]
    members = on_rows(oe.WhiteBoxEnsemble, column)
    ensemble = make(oe.WhiteBoxEnsemble, members=members, subgroups="day").fit(frames[0], PROBLEM.Y)
    np.testing.assert_array_equal(ensemble.predict(frames[1]), ensemble.predict(frames[0]))


@pytest.mark.no_cover
@BOTH
def test_groups_in_every_form_are_the_same(kind: Any) -> None:
    array = np.column_stack([PROBLEM.X, NUMBER])
    given: list[tuple[Any, Any, Callable[[Any], Any]]] = [
        (PANDAS, "region", column),
        (PANDAS, ["region"], column),
        (PANDAS, "number", column),
        (PANDAS.assign(region=PANDAS["region"].astype("category")), "region", column),
        (PANDAS.assign(region=PANDAS["region"].astype("string")), "region", column),
        (POLARS, "region", column),
        (POLARS, ["number"], column),
        (array, 1, lambda X: X[:, 0]),
        (array, -1, lambda X: X[:, 0]),
        (array, np.int64(1), lambda X: X[:, 0]),
        (PROBLEM.X, lambda X: X % 3, lambda X: X),
        (PROBLEM.X, lambda X: [f"part {x % 3}" for x in X], lambda X: X),
    ]
    plain = make(kind, alpha=0.01).fit(PROBLEM.X, PROBLEM.Y)
    results = [
        answers(make(kind, members=on_rows(kind, row), subgroups=groups, alpha=0.01).fit(X, PROBLEM.Y), X)
        for X, groups, row in given
    ]
    assert all(same(result, results[0]) for result in results)
    assert not same(results[0], answers(plain, PROBLEM.X))


@BOTH
def test_several_group_columns(kind: Any) -> None:
    frame = PANDAS.assign(half=PROBLEM.X < N // 2)
    array = np.column_stack([PROBLEM.X, NUMBER, PROBLEM.X < N // 2])
    by_name = make(kind, members=on_rows(kind, column), subgroups=["number", "half"]).fit(frame, PROBLEM.Y)
    by_index = make(kind, members=on_rows(kind, lambda X: X[:, 0]), subgroups=(1, 2)).fit(array, PROBLEM.Y)
    by_call = make(kind, subgroups=lambda X: array[X, 1:]).fit(PROBLEM.X, PROBLEM.Y)
    assert same(answers(by_name, frame), answers(by_index, array))
    assert same(answers(by_name, frame), answers(by_call, PROBLEM.X))
    residuals = PROBLEM.Y - (
        by_name.predict_members(frame) if kind is oe.WhiteBoxEnsemble else [by_name.predict(frame)]
    )
    for part in (NUMBER == 0, NUMBER == 1, NUMBER == 2, PROBLEM.X < N // 2, PROBLEM.X >= N // 2):
        assert np.abs(residuals[:, part].sum(axis=1)).max() / N <= by_name.alpha


@BOTH
def test_rows_of_an_unknown_group_are_answered(kind: Any) -> None:
    ensemble = make(kind, members=on_rows(kind, column), subgroups="region").fit(PANDAS, PROBLEM.Y)
    assert ensemble.decide(PANDAS.assign(region="east")).shape == (N, D)


@BOTH
@pytest.mark.parametrize("frame", [PANDAS, POLARS])
def test_a_group_column_that_is_not_there(kind: Any, frame: Any) -> None:
    of = on_rows(kind, column)
    words = "X has no column 'regoin' to take groups from. Did you mean 'region'?"
    refused(make(kind, members=of, subgroups="regoin"), frame, PROBLEM.Y, words)
    words = "X has no column 'colour' to take groups from. Its columns are 'row', 'region', 'number'"
    refused(make(kind, members=of, subgroups=["region", "colour"]), frame, PROBLEM.Y, words)
    ensemble = make(kind, members=of, subgroups="region").fit(frame, PROBLEM.Y)
    with pytest.raises(InputError, match="X has no column 'region' to take groups from"):
        ensemble.decide(frame[["row"]])


@BOTH
@pytest.mark.parametrize("groups", ["region", 7, -3])
def test_a_group_column_that_an_array_does_not_have(kind: Any, groups: Any) -> None:
    array = np.column_stack([PROBLEM.X, NUMBER])
    words = rf"groups must name a column of X, be the number of one, or be callable; got {groups!r}.*\({N}, 2\)"
    refused(make(kind, members=on_rows(kind, lambda X: X[:, 0]), subgroups=groups), array, PROBLEM.Y, words)


@BOTH
@pytest.mark.parametrize(
    ("groups", "found"), [(0.5, "float"), (np.arange(N) % 3, "ndarray"), (["number", len], "list")]
)
def test_groups_that_are_neither_a_column_nor_a_callable(kind: Any, groups: Any, found: str) -> None:
    words = f"subgroups must be a column of X, a list of columns, or a callable of X; got {found}. Put the labels"
    refused(make(kind, members=on_rows(kind, column), subgroups=groups), PANDAS, PROBLEM.Y, words)


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        ([None, "a"] * (N // 2), "rows 0, 2, 4, 6, 8 and 15 more of"),
        ([*["a"] * (N - 1), None], f"row {N - 1} of"),
        (np.where(np.arange(N) == 2, np.nan, 1.0), "row 2 of"),
        (pd.array([1, pd.NA] * (N // 2), dtype="Int64"), "rows 1, 3, 5"),
        (pd.Categorical(["a", None] * (N // 2)), "rows 1, 3, 5"),
        (pd.to_datetime(["2024-01-01", "NaT"] * (N // 2)), "rows 1, 3, 5"),
        (pd.array(["a", None] * (N // 2), dtype="string"), "rows 1, 3, 5"),
    ],
)
def test_missing_group_labels(kind: Any, labels: Any, rows: str) -> None:
    frame = pd.DataFrame({"row": PROBLEM.X, "region": labels})
    words = f"group labels must not be missing; they are in {rows}.*label of their own"
    refused(make(kind, members=on_rows(kind, column), subgroups="region"), frame, PROBLEM.Y, words)


@BOTH
def test_groups_of_another_length(kind: Any) -> None:
    words = rf"groups\(X\) must return one label for each of the {N} rows; got an array of shape \(3,\)"
    refused(make(kind, subgroups=lambda X: X[:3]), PROBLEM.X, PROBLEM.Y, words)
    refused(make(kind, subgroups=lambda X: "all"), PROBLEM.X, PROBLEM.Y, r"got an array of shape \(\)")


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_more_groups_than_sixteen_bits_count() -> None:
    n = 2**15 + 1
    one = make(oe.WhiteBoxEnsemble, members=[("zero", lambda X: np.zeros((len(X), D)))], subgroups=lambda X: X)
    assert one.fit(np.arange(n), np.ones((n, D))).n_rows_ == n
