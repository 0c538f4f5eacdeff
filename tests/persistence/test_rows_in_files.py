"""The rows of a fit in its file: what is kept comes back to the bit, and what cannot be kept is told."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import Ridge

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError, InputError
from optensemble.persistence import row_file
from tests import fuzz_files
from tests.fuzz_files import Content

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")

N, D = 150, 3
OMEGA = feasible.Simplex(D)
NAMES = ["a0", "a1", "a2", "b0", "b1", "b2"]
COLUMNS = [(name, oe.Columns([f"{name}{j}" for j in range(D)])) for name in "ab"]
CALLED = [("a", lambda X: np.asarray(X)[:, :3]), ("b", lambda X: np.asarray(X)[:, 3:6])]
BY_NAME = [
    (name, lambda X, name=name: X[[f"{name}{j}" for j in range(D)]].to_numpy() + X[["k"]].to_numpy() / 9)
    for name in "ab"
]


@cache
def numbers() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + 40, 6)).round(3)
    return X, X[:, :3] + X[:, 3:] + rng.normal(size=(N + 40, D))


def frame() -> pd.DataFrame:
    """A frame with a column of every kind."""
    X, n = pd.DataFrame(numbers()[0], columns=NAMES), np.arange(N + 40)
    X = X.assign(region=np.where(n % 3, "north", "süd\0"), even=n % 2 == 0, k=(n % 5).astype(np.int16))
    X = X.assign(
        day=pd.date_range("2026-01-01", periods=len(n), unit="s"),
        hour=pd.date_range("2026-01-01", periods=len(n), freq="h", tz="UTC"),
    )
    mixed = pd.Series([1, "two", None, 4.5, True] * (len(n) // 5), dtype=object)
    return X.assign(single=X["a0"].astype(np.float32), mixed=mixed)


def in_order_of_columns() -> Any:
    return np.asfortranarray(numbers()[0])


def with_time_index() -> pd.DataFrame:
    return frame().set_index("day")


KINDS: dict[str, tuple[Callable[[], Any], Any, dict[str, Any]]] = {
    "numbers": (lambda: numbers()[0], CALLED, {}),
    "small numbers": (lambda: numbers()[0].astype(np.float32), CALLED, {}),
    "by columns": (in_order_of_columns, CALLED, {}),
    "a frame of numbers": (lambda: frame()[NAMES], CALLED, {}),
    "a frame for functions": (frame, BY_NAME, {"subgroups": lambda X: X["region"]}),
    "an index of times": (with_time_index, BY_NAME, {"subgroups": ["region", "even"]}),
    "needed columns": (frame, COLUMNS, {"subgroups": ["region", "k"]}),
    "polars": (lambda: pl.from_pandas(frame().drop(columns="mixed")), COLUMNS, {"subgroups": "region"}),
}


def learn(X: Any, models: Any, **parameters: Any) -> tuple[oe.DecisionEnsemble, Any, Any]:
    return oe.DecisionEnsemble(models, None, OMEGA, **parameters), X, numbers()[1]


def assert_same(left: Any, right: Any, X: Any) -> None:
    for ours, theirs in ((left.answer(X), right.answer(X)), (left.record_, right.record_)):
        for name in ("assessed", *(("actions", "promised") if hasattr(ours, "actions") else ("realised", "clusters"))):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(left.fingerprints_, right.fingerprints_)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("terms", ["", "groups and weights"])
def test_extended_after_loading_is_as_if_never_saved(kind: str, terms: str, tmp_path: Path) -> None:
    make, models, parameters = KINDS[kind]
    ensemble, X, Y = learn(make(), models, **parameters)
    given: dict[str, Any] = {}
    if terms:
        given = {"groups": np.arange(N + 40) // 5, "sample_weight": 0.5 + np.arange(N + 40) % 2}
    first, later = ({name: each[rows] for name, each in given.items()} for rows in (slice(0, N), slice(N, N + 40)))
    ensemble.fit(X[:N], Y[:N], time_ordered=kind == "an index of times", **first)
    ensemble.update(X[N:], Y[N:], **later)
    ensemble.save(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe", models=None if models is COLUMNS else models, subgroups=_function(parameters))
    loaded.save(tmp_path / "again.oe")
    assert (tmp_path / "again.oe").read_bytes() == (tmp_path / "e.oe").read_bytes()
    for each in (ensemble, loaded):
        each.extend()
    assert loaded.n_rows_ == N + 40
    assert_same(loaded, ensemble, X)


def _function(parameters: dict[str, Any]) -> Any:
    rule = parameters.get("subgroups")
    return rule if callable(rule) else None


def test_only_needed_columns_are_kept(tmp_path: Path) -> None:
    ensemble, X, Y = learn(frame(), COLUMNS, context=None)
    ensemble.fit(X, Y, groups="k").save(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe")
    assert list(loaded._rows[0].X) == [*NAMES, "k"]
    assert loaded._rows[0].groups == "k"
    assert loaded.update(X[:20], Y[:20] + 1.0).n_updated_ == 20  # groups are found as before


UNKEPT: dict[str, tuple[Callable[[], Any], str]] = {
    "a category": (lambda: frame()[[*NAMES, "k"]].assign(c=pd.Categorical(["u"] * (N + 40))), "column 'c' of X holds"),
    "objects": (
        lambda: frame()[[*NAMES, "k"]].assign(c=pd.Series([{1}] * (N + 40), dtype=object)),
        "column 'c' of X holds values of type set",
    ),
    "names": (lambda: frame()[[*NAMES, "k"]].assign(c=1.0).rename(columns={"c": (1, 2)}), "no distinct names of text"),
    "levels": (lambda: frame()[[*NAMES, "k"]].set_index([np.arange(N + 40)] * 2), "an index of several levels"),
}


@pytest.mark.parametrize("kind", UNKEPT)
def test_rows_that_cannot_be_kept_are_told_of(kind: str, tmp_path: Path) -> None:
    make, words = UNKEPT[kind]
    ensemble, X, Y = learn(make(), BY_NAME)
    ensemble.fit(X, Y).save(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe", models=BY_NAME)
    assert_same(loaded, ensemble, X)
    with pytest.raises(InputError, match=f"the rows of the fit are not in the file, for .*{words}.*: extend cannot go"):
        loaded.extend(models=[("more", BY_NAME[0][1])])


def test_too_many_rows_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, X, Y = learn(numbers()[0], CALLED)
    ensemble.fit(X, Y)
    monkeypatch.setattr(row_file, "MOST_BYTES", 1000)
    with pytest.warns(UserWarning, match="the rows of the fit, 0 MB, are not in the file, for they are more than 0"):
        ensemble.save(tmp_path / "e.oe")
    with pytest.raises(InputError, match=r"are more than 0: extend cannot go on from them. Fit again, on all rows"):
        oe.load(tmp_path / "e.oe", models=CALLED).extend()


@cache
def content() -> Content:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuzz_files.make_updated(feasible.Box([-1.0, 0.0, 0.5], [1.0, 2.0, 0.5])).save(Path(folder) / "e.oe")
        return Content.of(Path(folder) / "e.oe")


def of_x(number: int) -> dict[str, Any]:
    found: dict[str, Any] = content().document["rows"]["fit"][0]["x"]["parts"][number]
    return found


KEPT = {"date": 9, "text": 10, "truth": 11, "small": 12}  # their places among the columns that are needed

WRONG: dict[str, tuple[str, Any, str]] = {
    "fewer labels": ("rows0/labels", lambda a: a[:-1], "rows0/weights must be an array"),
    "labels that are none": ("rows0/labels", lambda a: a * np.nan, "rows0/labels must hold numbers"),
    "weights below 0": ("rows0/weights", lambda a: -a, "rows0/weights must be at least 0"),
    "a column too short": ("rows0/x/3", lambda a: a[:-1], "rows0/x/3 must be an array"),
    "a matrix for a column": ("rows0/x/3", lambda a: a[:, None], "rows0/x/3 must be an array"),
    "text for numbers": ("rows0/x/3", lambda a: a.astype(str), "rows0/x/3 must be an array of numbers"),
    "a number too large": ("rows0/x/12", lambda a: a + 1000, "rows0/x/12 must fit into int8"),
    "a date without a name": ("rows0/x/9", lambda a: a + 2**62, "rows0/x/9 must hold dates of the years 1 to 9999"),
    "a value that is not there": ("rows0/x/10", lambda a: a + 2, "rows0/x/10 must hold whole numbers from 0 to 1"),
    "no JSON": ("rows0/x/10/values", lambda a: np.array(["{", "1"]), "rows0/x/10/values must hold JSON"),
    "a table for a value": ("rows0/x/10/values", lambda a: np.array(["{}", '"b"']), "must hold text and numbers"),
    "half a letter": ("rows0/x/10/values", lambda a: np.array(['"\\ud800"', '"b"']), "must hold text and numbers"),
    "a large number": ("rows0/x/10/values", lambda a: np.array(["9" * 30, '"b"']), "must hold text and numbers"),
    "values without end": (
        "rows0/x/10/values",
        lambda a: np.array([*a, *map(str, range(3_000))]),
        "rows0/x/10/values must hold each value once, 1 to ",
    ),
    "a value twice": ("rows0/x/10/values", lambda a: np.array([*a, a[0]]), "values must hold each value once"),
    "no values": ("rows0/x/10/values", lambda a: a[:0], "values must hold each value once"),
    "ids of fewer rows": ("rows0/keys", lambda a: a[:-1], "rows0/keys must be an array"),
    "fewer fingerprints": ("known/prints", lambda a: a[:-1], "known/prints must be an array"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arrays_are_refused(wrong: str, tmp_path: Path) -> None:
    name, change, words = WRONG[wrong]
    altered = Content(content().document, {**content().arrays, name: change(content().arrays[name])})
    altered.write(tmp_path / "e.oe")
    with pytest.raises(FileError, match=words):
        oe.load(tmp_path / "e.oe")


def test_values_take_memory_before_they_are_read(tmp_path: Path) -> None:
    """A small file may hold very many of them."""
    name, many = "rows0/x/10/values", np.full(1_000_000, "1")
    Content(content().document, {**content().arrays, name: many}).write(tmp_path / "e.oe")
    with pytest.raises(FileError, match=r"rows must fit into 100,000,000 bytes .*; got 'values that take 128,"):
        oe.load(tmp_path / "e.oe", limit=100_000_000)


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("small", "dtype", "object", "dtype must be one of"),
        ("small", "kind", "pickle", "kind must be one of"),
        ("date", "unit", "Y", "unit must be one of"),
        ("date", "zone", "Mars", "zone must be one of"),
        ("text", "dtype", "category", "dtype must be one of"),
    ],
)
def test_wrong_words_are_refused(part: str, key: str, value: str, words: str, tmp_path: Path) -> None:
    document = content().document
    column = of_x(KEPT[part])
    old = column[key]
    column[key] = value
    try:
        Content(document, content().arrays).write(tmp_path / "e.oe")
    finally:
        column[key] = old
    with pytest.raises(FileError, match=words):
        oe.load(tmp_path / "e.oe")


# A part of a frame


PARTS: dict[str, Callable[[], pd.DataFrame]] = {
    "of an array": lambda: pd.DataFrame(np.ascontiguousarray(numbers()[0]), columns=NAMES, copy=False),
    "of an array by columns": lambda: pd.DataFrame(np.asfortranarray(numbers()[0]), columns=NAMES, copy=False),
    "of a copy": lambda: pd.DataFrame(numbers()[0], columns=NAMES).copy(),
    "every second row": lambda: pd.DataFrame(np.repeat(numbers()[0], 2, axis=0), columns=NAMES)[::2],
    "reversed": lambda: pd.DataFrame(numbers()[0][::-1].copy(), columns=NAMES)[::-1],
}


@pytest.mark.parametrize("part", PARTS)
def test_estimators_that_were_fitted_on_a_part_of_a_frame_are_extended_to_the_same_bits(
    part: str, tmp_path: Path
) -> None:
    """Sums go by how the numbers lie in memory."""
    X, Y = PARTS[part]().reset_index(drop=True), numbers()[1]
    models = [("ridge", Ridge()), ("firm", Ridge(300.0))]
    ensemble = oe.DecisionEnsemble(models, feasible=OMEGA, context=None).fit(X[:N], Y[:N], random_state=1)
    ensemble.save(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe")
    ours, theirs = (each.extend(X=X[N : N + 30], Y=Y[N : N + 30]).answer(X[N + 30 :]) for each in (loaded, ensemble))
    for name in ("actions", "promised", "low", "high"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("part", ["whole", "rows", "columns", "backwards"])
def test_how_an_array_lies_in_memory_is_known_of_its_parts_too(order: Any, part: str) -> None:
    whole = np.array(np.arange(60.0).reshape(12, 5), order=order)
    parts = {"whole": whole, "rows": whole[2:7], "columns": whole[:, 1:4], "backwards": whole[::-1]}
    assert row_file.lies_by_columns(parts[part]) == (order == "F")
