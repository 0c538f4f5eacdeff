"""Weights: a row counts for as many rows as its weight says, in every sum."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError
from tests.ensembles.decision import ACCESS, Ensemble, forecasts, refused
from tests.problems import Floats

N, D = 300, 3
NAMES = [f"{name}_{j}" for name in "ab" for j in range(D)]
OMEGA = feasible.Knapsack([1.0, 2.0, 1.5], 2.0)


@cache
def world(n: int = 2 * N, seed: int = 1) -> tuple[pd.DataFrame, Floats]:
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, D))
    said = np.hstack([signal + size * rng.normal(size=(n, D)) for size in (0.5, 0.9)])
    frame = pd.DataFrame(said, columns=NAMES).assign(id=np.arange(n), weight=rng.integers(1, 4, n).astype(float))
    frame["region"] = np.where(signal[:, 0] > 0, "east", "west")
    return frame, signal + 0.6 * rng.normal(size=(n, D))


def columns(name: str) -> oe.Columns:
    return oe.Columns([f"{name}_{j}" for j in range(D)])


def make(access: str = "models", **parameters: Any) -> Ensemble:
    a, b = (("a", columns("a")), ("b", columns("b")))
    policy = ("b", lambda X: OMEGA.argmax(columns("b").predict(X)))
    members = {"models": ([a, b], None), "policies": (None, [policy]), "both": ([a], [policy])}[access]
    return Ensemble(*members, feasible=OMEGA, **{"context": None, **parameters})  # leaves count rows, not weights


def repeated() -> tuple[pd.DataFrame, Floats]:
    """The fitting rows as often as their weights say: the copies come after all of them."""
    frame, Y = world()
    frame, Y = frame[:N], Y[:N]
    times = frame["weight"].to_numpy().astype(int)
    copies = np.concatenate([np.arange(N), *(np.flatnonzero(times > more) for more in range(1, times.max()))])
    return frame.iloc[copies].reset_index(drop=True), Y[copies]


@pytest.mark.no_cover
@ACCESS
@pytest.mark.parametrize("sense", ["max", "min"])
def test_whole_weights_are_repeated_rows(access: str, sense: str) -> None:
    frame, Y = world()
    # rows that belong together stay in one fold, however often they are there
    weighted = make(access, sense=sense, subgroups="region").fit(
        frame[:N], Y[:N], groups="id", sample_weight=frame["weight"][:N].to_numpy()
    )
    rows, labels = repeated()
    assert len(rows) < 1000  # as many folds
    again = make(access, sense=sense, subgroups="region").fit(rows, labels, groups="id")
    assert weighted.names_ == again.names_
    assert weighted.winner_ == again.winner_
    boards = [each.leaderboard_.set_index("candidate") for each in (weighted, again)]
    for name in ("realised", "promised", "followed", "difference"):
        left, right = (board[name].reindex(boards[0].index).to_numpy(dtype=float) for board in boards)
        np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-9)
    later = frame[N:]
    found, expected = forecasts(weighted, later), forecasts(again, later)
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.asarray(weighted.decide(later)), np.asarray(again.decide(later)), atol=1e-9)
    np.testing.assert_allclose(weighted.self_assess(later), again.self_assess(later), rtol=1e-5)
    assert weighted.promise(later).mean == pytest.approx(again.promise(later).mean, rel=1e-5)


def test_audits_and_scores_of_whole_weights_are_those_of_repeated_rows() -> None:
    frame, Y = world()
    ensemble = make("both").fit(frame[N:], Y[N:])
    rows, labels = repeated()
    weights = frame["weight"][:N].to_numpy()
    weighted = ensemble.audit(frame[:N], Y[:N], groups="id", sample_weight=weights)
    again = ensemble.audit(rows, labels, groups="id")
    for name in ("promised", "realised", "half_width", "gap", "gap_low", "gap_high"):
        assert getattr(weighted.totals, name) == pytest.approx(getattr(again.totals, name), rel=1e-9)
    for left, right in ((weighted.lift, again.lift), (weighted.swap, again.swap)):
        pd.testing.assert_frame_equal(
            left.drop(columns=["rows"], errors="ignore"), right.drop(columns=["rows"], errors="ignore"), rtol=1e-7
        )
    score = ensemble.score(frame[:N], Y[:N], sample_weight=weights)
    assert score == pytest.approx(ensemble.score(rows, labels), rel=1e-12)


def test_weights_are_given_one_by_one_by_a_column_or_by_a_function() -> None:
    frame, Y = world()
    given = [frame["weight"].to_numpy(), "weight", lambda X: X["weight"]]
    fits = [make().fit(frame, Y, sample_weight=weight) for weight in given]
    for each in fits[1:]:
        np.testing.assert_array_equal(each.record_.realised, fits[0].record_.realised)
        np.testing.assert_array_equal(each.self_assess(frame), fits[0].self_assess(frame))


def test_rows_of_weight_zero_teach_nothing() -> None:
    frame, Y = world()
    weights = frame["weight"].to_numpy().copy()
    weights[::7] = 0.0
    other, labels = frame.copy(), Y.copy()
    labels[::7] = -Y[::7] + 1.0
    fits = [make().fit(frame, each, sample_weight=weights) for each in (Y, labels)]
    for name, values in forecasts(fits[0], other).items():
        np.testing.assert_allclose(values, forecasts(fits[1], other)[name], rtol=1e-9, atol=1e-12)
    assert fits[0].leaderboard_["realised"].to_numpy(dtype=float)[0] == pytest.approx(
        fits[1].leaderboard_["realised"].to_numpy(dtype=float)[0]
    )


def test_intervals_go_by_the_effective_number_of_rows() -> None:
    frame, Y = world(2000)
    rng = np.random.default_rng(0)
    weights = rng.exponential(size=2000)
    plain, uneven = make().fit(frame, Y), make().fit(frame, Y, sample_weight=weights)
    later, _ = world(2000, seed=9)
    effective = weights.sum() ** 2 / np.square(weights).sum()
    assert uneven.record_.effective == pytest.approx(effective)
    left, right = plain.promise(later), uneven.promise(later)
    wider = (right.high - right.low) / (left.high - left.low)
    assert wider == pytest.approx(np.sqrt((1 / effective + 1 / 2000) / (2 / 2000)), rel=0.15)
    # what all weights are multiplied by says how many rows there are, and nothing of how sure their mean is
    twice = make().fit(frame, Y, sample_weight=np.full(2000, 2.0))
    assert (twice.promise(later).high - twice.promise(later).low) == pytest.approx(left.high - left.low, rel=0.05)


def test_updates_with_weights() -> None:
    frame, Y = world()
    weights = frame["weight"].to_numpy()
    ensemble = make().fit(frame[:N], Y[:N], sample_weight=weights[:N])
    ensemble.update(frame[N:], Y[N:], sample_weight=weights[N:])
    record = ensemble.record_
    assert record.weights is not None
    np.testing.assert_allclose(record.weights / record.unit, weights, rtol=1e-12)
    unweighted = make().fit(frame[:N], Y[:N]).update(frame[N:], Y[N:], sample_weight=weights[N:])
    assert unweighted.record_.weights is not None
    np.testing.assert_array_equal(unweighted.record_.weights[:N], np.ones(N))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(5), r"one weight for each of the 600 rows.*shape \(5,\)"),
        (np.full(600, -1.0), "must be between 0 and 1e.09; got -1 in rows 0, 1, 2, 3, 4 and 595 more of 600"),
        (np.full(600, np.nan), "must be between 0 and .*got nan"),
        (np.full(600, 1 / 600), "weights of 600 rows sum to 1; .* Scale the weights, for example to a mean of 1"),
        (
            np.where(np.arange(600) == 7, 1000.0, 0.0),
            "sum to 1e\\+03, of which 0 lie outside one fold .* handful of rows",
        ),
        ("wieght", "X has no column 'wieght' to take weights from. Did you mean 'weight'"),
        ("region", "sample_weight must be numeric"),
    ],
)
def test_what_is_no_weight_is_refused(weights: Any, words: str) -> None:
    frame, Y = world()
    refused(make(), frame, Y, words, sample_weight=weights)


def test_rows_without_labels_are_dropped_with_their_weights_and_groups() -> None:
    frame, Y = world()
    Y = Y.copy()
    Y[::11, 1] = np.nan
    kept = ~np.isnan(Y).any(axis=1)
    options: dict[str, Any] = {"sample_weight": frame["weight"].to_numpy(), "groups": (frame["id"] // 4).to_numpy()}
    dropped = make().fit(frame, Y, missing_labels="drop", **options)
    alone = make().fit(frame[kept], Y[kept], **{name: values[kept] for name, values in options.items()})
    np.testing.assert_array_equal(dropped.self_assess(frame), alone.self_assess(frame))
    assert f"{(~kept).sum()} of {2 * N} rows have no labels and were left out" in dropped.notes_
    with pytest.raises(InputError, match="missing_labels must be one of 'raise', 'drop'"):
        make().fit(frame, Y, missing_labels="ignore")
