"""Members that are columns say the same read at once as one by one: the same numbers, or the same complaint."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optensemble import Columns
from optensemble._core.buckets import Buckets
from optensemble.exceptions import InputError
from optensemble.feasible import Box
from optensemble.members import query as module
from optensemble.members.alignment import OutputNames
from optensemble.members.query import MemberQuery
from optensemble.members.read_together import read_together
from tests.problems import Floats

D, N = 2, 3
OMEGA = Box(lower=[-5.0] * D, upper=[5.0] * D)
NAMES = [f"{member}_{label}" for member in ("a", "b", "p") for label in ("north", "south")]
LABELS = st.sampled_from([None, ["north", "south"], ["south", "north"], ["y_north", "y_south"], ["up", "down"]])
KINDS = ["float64"] * 12 + ["int64", "uint8", "bool", "float32", "Float64", "Int64", "object", "str", "category"]


def columns_of(member: str, pattern: bool) -> Columns:
    return Columns(f"{member}_*" if pattern else [f"{member}_north", f"{member}_south"])


def make_query(
    labels: list[str] | None = None, patterns: tuple[bool, ...] = (False,) * 3, gaps: bool = True, **more: Any
) -> MemberQuery:
    a, b, p = (columns_of(name, pattern) for name, pattern in zip("abp", patterns, strict=True))
    buckets = Buckets(OMEGA.lower, OMEGA.upper, 10)
    terms: dict[str, Any] = {"gaps": gaps, "output_names": OutputNames(labels), **more}
    return MemberQuery([("a", a), ("b", b)], [("p", p)], OMEGA, buckets, -1.0, **terms)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Draw a frame that has the members' columns in some order, most of them plain, and others between them."""
    names = draw(st.permutations([*NAMES, "day", "c_north"]))
    names = names[: draw(st.sampled_from([len(names)] * 5 + [len(names) - 1]))]
    values = st.lists(st.integers(0, 4), min_size=N, max_size=N)
    columns = [pd.Series(draw(values)).astype(draw(st.sampled_from(KINDS))) for _ in names]
    frame = pd.concat(columns, axis=1)
    frame.columns = pd.Index([names[1], *names[1:]] if draw(st.integers(0, 9)) == 0 else names)
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        at, wrong = draw(st.integers(0, len(names) - 1)), draw(st.sampled_from([np.nan, np.inf, 1e200, -0.0]))
        if frame.dtypes.iloc[at] == np.float64:
            frame.iloc[draw(st.integers(0, N - 1)), at] = wrong
    return frame


def told(query: MemberQuery, X: Any) -> tuple[Any, ...]:
    """What comes of a query: outputs as bytes, or an error; and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outputs = query(X)
            found: tuple[Any, ...] = (outputs.predictions.tobytes(), outputs.actions.tobytes())
            found += (None if outputs.absent is None else outputs.absent.tolist(), query.output_names.first)
        except InputError as error:
            found = (type(error), str(error), error.rows, getattr(error, "__notes__", None))
    return *found, [str(each.message) for each in caught]


def told_one_by_one(query: MemberQuery, X: Any) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "read_together", lambda *_, **__: None)
        return told(query, X)


@settings(max_examples=200)
@given(
    frame=frames(),
    labels=LABELS,
    patterns=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    gaps=st.booleans(),
    on_error=st.sampled_from(["raise", "absent"]),
)
def test_frames_say_the_same_read_at_once_as_one_by_one(
    frame: pd.DataFrame, labels: list[str] | None, patterns: tuple[bool, ...], gaps: bool, on_error: str
) -> None:
    one, other = (make_query(labels, patterns, gaps, on_error=on_error) for _ in range(2))
    assert told(one, frame) == told_one_by_one(other, frame)


@given(
    numbers=st.lists(st.integers(0, 7), min_size=3 * D, max_size=3 * D, unique=True),
    kind=st.sampled_from(["float64", "int32", "bool", "float32", "object", "U3", "complex128"]),
    wrong=st.sampled_from([None, np.nan, np.inf, 1e200]),
    gaps=st.booleans(),
)
def test_arrays_say_the_same_read_at_once_as_one_by_one(
    numbers: list[int], kind: str, wrong: float | None, gaps: bool
) -> None:
    X = (np.arange(N * 7) % 5).reshape(N, 7).astype(kind)
    if wrong is not None and kind == "float64":
        X[1, numbers[0] % 7] = wrong
    members = [Columns(numbers[at : at + D]) for at in (0, D, 2 * D)]
    buckets = Buckets(OMEGA.lower, OMEGA.upper, 10)

    def query() -> MemberQuery:
        named = list(zip("abc", members, strict=True))
        return MemberQuery(named, [], OMEGA, buckets, 1.0, gaps=gaps)

    assert told(query(), X) == told_one_by_one(query(), X)


def test_functions_are_asked_among_columns() -> None:
    """Who has the same names in another order is told against the first of all members, whichever way it is read."""
    frame = pd.DataFrame(np.arange(N * 6.0).reshape(N, 6) / 10, columns=NAMES)
    buckets = Buckets(OMEGA.lower, OMEGA.upper, 10)
    for names in (["a_north", "a_south"], ["a_south", "a_north"]):
        models = [("f", lambda X, names=names: X[names]), ("b", Columns("b_*"))]
        one, other = (MemberQuery(models, [], OMEGA, buckets, 1.0, output_names=OutputNames()) for _ in range(2))
        assert told(one, frame) == told_one_by_one(other, frame)


def test_rows_of_one_frame_and_other_frames_of_the_same_columns_are_read_at_once() -> None:
    values = np.random.default_rng(0).normal(size=(N, 8))
    frame = pd.DataFrame(values, columns=[*NAMES, "x", "y"])
    members = [("model 'b'", columns_of("b", False)), ("model 'a'", columns_of("a", True))]
    expected = np.stack([values[:, 2:4], values[:, :2]], axis=1)

    def read(X: Any) -> Floats | None:
        return read_together(members, X, D, OutputNames(["north", "south"]))

    np.testing.assert_array_equal(read(frame), expected)
    np.testing.assert_array_equal(read(frame.iloc[1:2]), expected[1:2])
    np.testing.assert_array_equal(read(frame[frame.columns[::-1]]), expected)
    np.testing.assert_array_equal(read(frame.assign(day="Mon")), expected)
    np.testing.assert_array_equal(read(frame.rename(columns={"x": "y", "y": "x"})), expected)


def test_a_frame_is_left_as_it_was() -> None:
    frame = pd.DataFrame(np.full((N, 6), 0.5), columns=NAMES)
    frame.iloc[1, 0] = frame.iloc[2, 5] = np.nan
    before = frame.copy(deep=True)
    make_query()(frame)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("layout", ["as it is", "read-only", "by columns", "among others", "whole numbers"])
def test_predictions_may_lie_in_x_which_stays_as_it_is(layout: str, models: int, sign: float) -> None:
    X: Any = np.random.default_rng(0).integers(-9, 9, size=(5, D * (models + 1))).astype(np.float64)
    if layout == "by columns":
        X = np.asfortranarray(X)
    if layout == "whole numbers":
        X = X.astype(np.int64)
    first = D if layout == "among others" else 0
    if layout != "among others":
        X = X[:, : D * models].copy(order="K")
    X.flags.writeable = layout != "read-only"
    members = [(f"m{m}", Columns(list(range(first + m * D, first + (m + 1) * D)))) for m in range(models)]
    before = X.copy()
    query = MemberQuery(members, [], OMEGA, Buckets(OMEGA.lower, OMEGA.upper, 10), sign)
    lying, copied = query.ask(X, copies=False), query.ask(X)
    np.testing.assert_array_equal(lying.predictions, copied.predictions)
    for rows in (slice(0, 5), slice(1, 3)):
        own = lying.take(rows).own_predictions
        assert own.flags.c_contiguous
        assert own.flags.writeable
        np.testing.assert_array_equal(own, copied.predictions[:, rows])
    copied.predictions[:] = 0.0
    np.testing.assert_array_equal(X, before)
