"""One interval of a row wherever it is told, and limits within what is possible, of all three ensembles."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.report.tables.fit import guarantee_sheet
from tests.problems import Floats

N, NEW = 240, 12
COLUMNS, CAPS = ["a0", "a1", "a2", "b0", "b1", "b2"], ["cap0", "cap1", "cap2"]


def world(seed: int = 0, n: int = N + NEW, low: float = 0.0) -> tuple[pd.DataFrame, Floats]:
    """Rows in a frame, some without the second model, and labels from ``low`` on, most of them near it."""
    rng = np.random.default_rng(seed)
    signal = rng.exponential(size=(n, 3))
    said = np.concatenate([signal * rng.uniform(0.5, 1.5, size=signal.shape) for _ in range(2)], axis=1)
    X = pd.DataFrame(said, columns=COLUMNS).assign(weight=rng.uniform(1, 3, size=n))
    X[CAPS] = rng.uniform(0.5, 2.0, size=(n, 3))
    return X, signal * (rng.random((n, 3)) < 0.4) + low


def models() -> list[tuple[str, Any]]:
    return [("a", oe.Columns(COLUMNS[:3])), ("b", oe.Columns(COLUMNS[3:]))]


SETS: dict[str, Any] = {
    "fixed": lambda: feasible.Simplex(3),
    "by row": lambda: feasible.Box(np.full(3, 0.2), oe.Columns(CAPS)),
    "with a cost": lambda: feasible.WithCost(feasible.Box(np.zeros(3), np.ones(3)), linear=[0.3, 0.3, 0.3]),
}


@cache
def fitted(kind: str, omega: str = "fixed", sense: str = "max", way: str = "plain", low: float = 0.0) -> Any:
    """Shared: copy it before changing it."""
    X, Y = world(low=low)
    options: dict[str, Any] = {"sense": sense}
    if kind == "decision":
        if way == "absent":
            X.loc[::4, COLUMNS[3:]] = np.nan
        terms: dict[str, Any] = {"time_ordered": way == "time", "sample_weight": "weight" if way == "weights" else None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return oe.DecisionEnsemble(models(), feasible=SETS[omega](), **options).fit(X[:N], Y[:N], **terms)
    options |= {
        "alpha": 0.1,
        "bucket_width": 0.5,
        "max_rounds": 3,
        "validation": None if way == "cross-fitted" else "cv",
    }
    policies = [(name, lambda X, j=j: np.eye(3)[np.full(len(X), j)]) for j, name in enumerate(("first", "second"))]
    given = models() if kind == "white" else policies
    paper: Any = oe.WhiteBoxEnsemble if kind == "white" else oe.BlackBoxEnsemble
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return paper(given, SETS[omega](), **options).fit(X[:N], Y[:N], time_ordered=way == "time").cross_fit()


WAYS = [
    *(("decision", omega, sense, "plain") for omega in SETS for sense in ("max", "min")),
    *(("decision", "fixed", "max", way) for way in ("time", "weights", "absent")),
    *((kind, "fixed", sense, way) for kind in ("white", "black") for sense, way in (("max", "plain"), ("min", "time"))),
    ("white", "fixed", "max", "cross-fitted"),
]
EVERY = pytest.mark.parametrize(("kind", "omega", "sense", "way"), WAYS)


@EVERY
def test_a_row_has_one_interval(kind: str, omega: str, sense: str, way: str) -> None:
    ensemble, X = fitted(kind, omega, sense, way), world()[0][N:]
    answer = ensemble.answer(X)
    table = answer.to_frame()
    for row in range(0, NEW, 4):
        one = ensemble.promise(X[row : row + 1])
        told = (answer.promised[row], answer.low[row], answer.high[row])
        # a product of matrices may round a row otherwise if it is alone
        assert (one.mean, one.low, one.high) == pytest.approx(told, rel=1e-12, abs=1e-12)
        assert one.rely_on == (one.low if sense == "max" else one.high)
        explained = ensemble.explain(X, row)
        assert (explained.promised, explained.low, explained.high) == told
        assert explained.alternatives["value"][0] == explained.promised
        assert tuple(table.iloc[row][["promised", "low", "high"]]) == told
        again = ensemble.promise_of(answer.take(np.array([row])).assessments())
        assert again.mean == pytest.approx(one.mean, rel=1e-12, abs=1e-12)
    assert ((answer.low <= answer.promised) & (answer.promised <= answer.high)).all()


@EVERY
def test_no_limit_lies_beyond_what_labels_and_actions_can_come_to(kind: str, omega: str, sense: str, way: str) -> None:
    ensemble, (X, _) = fitted(kind, omega, sense, way), world()
    assert ensemble.record_.labels == (0.0, world()[1][:N].max())
    answer, promise = ensemble.answer(X), ensemble.promise(X[N:])
    cost = 0.3 * answer.actions.sum(axis=1) if omega == "with a cost" else np.zeros(len(X))
    floor = -cost if sense == "max" else cost
    for limit in (answer.low, answer.promised, answer.high):
        assert (limit >= floor - 1e-12).all()
    free = ensemble.record_.limits(answer.assessed, answer.incomplete)[0]
    assert (free < floor).any() or kind == "black"  # which is why they are clipped
    np.testing.assert_allclose(answer.low, np.maximum(free, floor), atol=1e-12)
    assert promise.low >= floor[N:].mean() - 1e-12
    assert promise.low <= promise.mean <= promise.high
    assert promise.rely_on in (promise.low, promise.high)


def test_labels_of_either_sign_leave_limits_as_they_are() -> None:
    ensemble, X = fitted("decision", low=-0.5), world()[0][N:]
    answer = ensemble.answer(X)
    low, high = ensemble.record_.limits(answer.assessed)
    np.testing.assert_array_equal(answer.low, low)
    np.testing.assert_array_equal(answer.high, high)
    assert (answer.low < 0).any()
    assert answer.possible is None


def test_the_leaderboard_ends_where_payoffs_do() -> None:
    board = fitted("decision").leaderboard_
    assert board["low"].dropna().min() >= 0


def test_an_update_with_a_negative_label_ends_it(tmp_path: Path) -> None:
    X, Y = world()
    ensemble = oe.DecisionEnsemble(models(), feasible=SETS["fixed"]()).fit(X[:N], Y[:N])
    more = {part: slice(N + start, N + start + 6) for part, start in (("same", 0), ("other", 6))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ensemble.update(X[more["same"]], Y[more["same"]])
        assert ensemble.answer(X).low.min() == 0
        ensemble.save(tmp_path / "some.oe")
        ensemble = oe.load(tmp_path / "some.oe")
        assert ensemble.record_.labels.low == 0
        assert ensemble.answer(X).low.min() == 0
        labels = Y[more["other"]].copy()
        labels[0, 0] = -0.1
        ensemble.update(X[more["other"]], labels)
    assert ensemble.record_.labels.low == -0.1
    assert ensemble.answer(X).low.min() < 0
    ensemble.save(tmp_path / "some.oe")
    assert oe.load(tmp_path / "some.oe").record_.labels == ensemble.record_.labels


@pytest.mark.parametrize("kind", ["white", "black"])
def test_the_range_of_labels_is_saved(kind: str, tmp_path: Path) -> None:
    ensemble = fitted(kind)
    ensemble.save(tmp_path / "some.oe")
    loaded = oe.load(tmp_path / "some.oe", policies=None if kind == "white" else dict(ensemble.members_))
    assert loaded.record_.labels == ensemble.record_.labels
    X = world()[0][N:]
    assert loaded.promise(X) == ensemble.promise(X)


def test_what_is_read_from_files_is_clipped_as_what_is_in_memory(tmp_path: Path) -> None:
    X, Y = world()
    names = ["y0", "y1", "y2"]
    pd.concat([X, pd.DataFrame(Y, columns=names)], axis=1)[:N].to_parquet(tmp_path / "rows.parquet")
    streamed = oe.DecisionEnsemble(models(), feasible=SETS["fixed"]()).fit(oe.Rows(tmp_path / "rows.parquet", names))
    assert streamed.record_.labels == fitted("decision").record_.labels
    assert streamed.promise(X[N:]).low >= 0


# What decides is not compared with itself


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
@pytest.mark.parametrize("alpha", [100.0, 0.01], ids=["nothing corrected", "corrected"])
def test_without_corrections_a_box_is_not_compared_with_what_it_began_with(kind: Any, alpha: float) -> None:
    X, Y = world()
    white = kind is oe.WhiteBoxEnsemble
    given = models()[:1] if white else [("plan", wrong)]
    options: dict[str, Any] = {"alpha": alpha, "bucket_width": 0.5, "max_rounds": 2, "validation": None}
    ensemble = kind(given, SETS["fixed"](), **options).fit(X[:N], Y[:N]).cross_fit()
    inputs, answer = ensemble._audit_inputs(X[N:], Y[N:], None)
    assert (ensemble.n_rounds_ == 0) == (alpha == 100.0)
    every = {"a", "average", "stack", "ridge", "mean"} if white else {"plan", "stack", "ridge", "mean"}
    itself = {"a", "average"} if white else {"mean"}
    assert set(inputs.rivals) == (every - itself if alpha == 100.0 else every)
    if alpha == 100.0:
        begun = X[N:][COLUMNS[:3]].to_numpy() if white else np.tile(Y[:N].mean(axis=0), (NEW, 1))
        np.testing.assert_array_equal(answer.actions, feasible.Simplex(3).argmax(begun))


def test_what_decides_alone_has_no_difference_and_is_no_baseline() -> None:
    """Labels that no member knows anything of, but for their mean: which then decides."""
    rng = np.random.default_rng(5)
    X, later = (pd.DataFrame(rng.normal(size=(N, 6)), columns=COLUMNS) for _ in range(2))
    Y = rng.normal([0.0, 0.0, 1.5], size=(N, 3))
    ensemble = oe.DecisionEnsemble(policies=[("a", wrong)], feasible=SETS["fixed"]()).fit(X, Y)
    board = ensemble.leaderboard_.set_index("candidate")
    winner = board.loc[ensemble.winner_]
    assert winner[["difference", "difference_low", "difference_high", "detectable"]].isna().all()
    others = board[~board["chosen"] & (board["kind"] != "left out")]
    assert others["difference"].notna().all()
    told = ensemble.guarantees_.set_index("lemma").loc["Corollary 1"]
    assert told["quantity"] == f"promised − realised of {ensemble.winner_}"
    assert told["observed"] == pytest.approx(winner["promised"] - winner["realised"], abs=1e-9)
    assert ensemble.winner_ not in ensemble.audit(later, Y + 0.5).lift["rival"].tolist()
    if ensemble.winner_ == "mean":
        assert ensemble.finding_ == "the mean label itself decides, in every row"


def test_a_bound_of_infinity_is_no_bound_in_the_table() -> None:
    frame = fitted("decision").guarantees_
    sheet = guarantee_sheet(frame)
    bound, holds = ([column.heading for column in sheet.columns].index(name) for name in ("bound", "holds"))
    for row, infinite in zip(sheet.rows, np.isinf(frame["bound"]), strict=True):
        assert (row[bound].text == "no bound") == (row[holds].text == "–") == infinite
    assert np.isinf(frame["bound"]).any()


def wrong(X: pd.DataFrame) -> Floats:
    return np.asarray(np.eye(3)[(X["a0"] > 0.7).to_numpy().astype(int)])
