"""DecisionEnsemble on more rows than a block holds, and on more than are all kept."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble._core.engine import BLOCK_ROWS
from optensemble.ensembles import _decision_fit
from optensemble.evaluation import payoff_record, payoff_totals
from optensemble.evaluation.payoff_record import Record
from optensemble.exceptions import InputError
from optensemble.members import fingerprints
from optensemble.multicalibration.patches import PackedRounds
from tests.ensembles.decision import Ensemble
from tests.problems import Floats

ROWS = 70_000
MANY = 5000  # more rows than these are not all kept here


@cache
def world(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Two models of two payoffs, side by side, and the payoffs: the second model knows nothing of the first payoff."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 2)) + np.repeat(0.2 * rng.normal(size=(20, 2)), -(-n // 20), axis=0)[:n]
    said = signal[None] + np.array([0.5, 0.8])[:, None, None] * rng.normal(size=(2, n, 2))
    said[1, :, 0] = rng.normal(size=n)
    labels = signal + 0.7 * rng.normal(size=(n, 2))
    labels[:, 0] -= 0.7 * (said[1, :, 0] > said[1, :, 1])  # so that there is something to be patched
    return np.concatenate(list(said), axis=1), labels


def make(sense: str = "max") -> Ensemble:
    models = [("a", oe.Columns([0, 1])), ("b", oe.Columns([2, 3]))]
    return Ensemble(models, feasible=feasible.Simplex(2), sense=sense)


def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a record be too long for all its rows to be kept when it is longer than :data:`MANY`."""
    for module in (_decision_fit, payoff_record, payoff_totals, fingerprints):
        monkeypatch.setattr(module, "EXACT_ROWS", MANY)
    monkeypatch.setattr(payoff_totals, "SAMPLE_ROWS", 3000)


def contents(thing: Any) -> Any:
    """All that is in it, down to arrays and numbers."""
    if isinstance(thing, pd.DataFrame):
        return {name: thing[name].tolist() for name in thing.columns}
    if isinstance(thing, (list, tuple, PackedRounds)):
        return [contents(value) for value in thing]
    if hasattr(thing, "__dataclass_fields__"):
        return {field.name: contents(getattr(thing, field.name)) for field in fields(thing)}
    if isinstance(thing, dict):
        return {name: contents(value) for name, value in thing.items()}
    return thing.tobytes() if isinstance(thing, np.ndarray) else thing


LEARNED = (
    *("decider_", "names_", "winner_", "leaderboard_", "guarantees_", "finding_", "notes_", "record_", "advantage_"),
    *("fingerprints_", "n_rows_", "time_ordered_"),
)


def same_bits(left: Ensemble, right: Ensemble) -> None:
    for name in LEARNED:
        ours, theirs = contents(getattr(left, name)), contents(getattr(right, name))
        assert repr(ours) == repr(theirs), name


# More than one block


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("options", "n"),
    [
        ({}, BLOCK_ROWS + 77),
        ({}, 2 * BLOCK_ROWS + 77),
        ({"time_ordered": True}, 2 * BLOCK_ROWS + 77),
        ({"groups": True}, 2 * BLOCK_ROWS + 77),
    ],
    ids=str,
)
def test_one_thread_and_several_learn_the_same_bits(options: dict[str, Any], n: int) -> None:
    X, Y = world(n)
    given = {**options, "groups": np.arange(n) // 9} if "groups" in options else options
    one, *others = (make().fit(X, Y, n_jobs=threads, **given) for threads in (1, 2, 3))
    for other in others:
        same_bits(other, one)
    assert {"refined", "patched"} <= set(one.names_)
    assert one.record_.folds is not None
    sizes = np.bincount(one.record_.folds)
    assert sizes.max() - sizes.min() <= 9


def test_rows_of_several_batches_are_those_of_one() -> None:
    n = BLOCK_ROWS + 5000
    X, Y = world(n)
    whole = make().fit(X, Y)
    parts = make().fit(X[:40_000], Y[:40_000]).extend(X=X[40_000:], Y=Y[40_000:])
    same_bits(parts, whole)


def test_progress_counts_every_block() -> None:
    X, Y = world(2 * BLOCK_ROWS + 77)
    told: list[tuple[str, float]] = []
    make().fit(X, Y, n_jobs=2, progress=lambda stage, share: told.append((stage, share)))
    shares = {stage: [share for each, share in told if each == stage] for stage, _ in told}
    assert shares["asking members"] == [step / 6 for step in range(1, 7)]  # two members of three blocks
    assert shares["cross-fitting"] == [1 / 6, 2 / 6, 3 / 6, 1.0]
    assert shares["choosing"] == [1 / 3, 2 / 3, 1.0]


# More rows than are kept

KINDS: dict[str, dict[str, Any]] = {
    "independent": {},
    "in time order": {"time_ordered": True},
    "in groups": {"groups": np.arange(ROWS) // 50},
    "in many groups": {"groups": np.arange(ROWS) // 7},
    "in groups and time order": {"groups": np.arange(ROWS) // 50, "time_ordered": True},
}
IN_EACH_SENSE = [*((kind, "max") for kind in KINDS), ("in groups and time order", "min")]
NUMBERS = ("centre", "level", "slope", "noise", "design_effect", "quantile", "trend", "curse")


@cache
def all_are_kept(kind: str, sense: str) -> Ensemble:
    return make(sense).fit(*world(ROWS), **KINDS[kind])


def close_records(ours: Record, theirs: Record, new: Floats) -> None:
    for name in NUMBERS + (("wander", "blocks") if theirs.time_ordered else ()):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-12, err_msg=name)
    left, right = ours.promise(new), theirs.promise(new)
    assert (left.mean, left.low, left.high) == pytest.approx((right.mean, right.low, right.high), rel=1e-9)
    assert (left.rows, left.unlike, left.note) == (right.rows, right.unlike, right.note)


@pytest.mark.no_cover
@pytest.mark.parametrize(("kind", "sense"), IN_EACH_SENSE)
def test_what_is_promised_by_totals_and_a_sample_is_what_all_rows_promise(
    kind: str, sense: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (X, Y), whole = world(ROWS), all_are_kept(kind, sense)
    few_are_kept(monkeypatch)
    found = make(sense).fit(X, Y, **KINDS[kind])
    assert repr(contents(found.decider_)) == repr(contents(whole.decider_))
    pd.testing.assert_frame_equal(found.leaderboard_, whole.leaderboard_)
    pd.testing.assert_frame_equal(found.guarantees_, whole.guarantees_)
    answers = [each.answer(X[:500]).promised for each in (found, whole)]
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-9, atol=1e-12)
    for ours, theirs in ((found.record_, whole.record_), (found.advantage_, whole.advantage_)):
        assert theirs.totals is None
        assert ours.totals is not None
        assert ours.rows is not None
        assert len(ours) == len(theirs) == ROWS
        assert len(ours.assessed) == 3000
        np.testing.assert_array_equal(ours.assessed, theirs.assessed[ours.rows])
        np.testing.assert_array_equal(ours.realised, theirs.realised[ours.rows])
        close_records(ours, theirs, theirs.assessed[:1000])
        new = np.quantile(theirs.assessed, [0.1, 0.5, 0.9])
        (low, high), (expected_low, expected_high) = ours.limits(new), theirs.limits(new)
        width = expected_high - expected_low
        np.testing.assert_allclose(low, expected_low, atol=0.1 * width.max())
        np.testing.assert_allclose(high, expected_high, atol=0.1 * width.max())
    assert fingerprints.is_sample(found.fingerprints_)
    np.testing.assert_array_equal(found.fingerprints_, whole.fingerprints_[whole.fingerprints_ % 64 == 0])


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_are_taken_in_by_totals_as_by_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = world(ROWS)
    new, labels = world(7000, 5)
    groups: dict[str, Any] = {"groups": 1000 + np.arange(7000) // 7} if "groups" in KINDS[kind] else {}
    whole = make().fit(X, Y, **KINDS[kind]).update(new, labels, **groups)
    few_are_kept(monkeypatch)
    found = make().fit(X, Y, **KINDS[kind]).update(new, labels, **groups)
    close_records(found.record_, whole.record_, whole.record_.assessed[:1000])
    close_records(found.advantage_, whole.advantage_, whole.advantage_.assessed[:1000])
    for rows in (slice(0, 5000), slice(30_000, 40_000)):
        with pytest.raises(InputError, match="rows were fitted on or given before"):
            found.update(X[rows], Y[rows], groups=np.arange(rows.stop - rows.start) if groups else None)
    with pytest.raises(InputError, match="rows were fitted on or given before"):
        found.update(new, labels, **groups)


def test_rows_given_several_times_are_found_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = world(35_000)
    few_are_kept(monkeypatch)
    once = make().fit(X, Y)
    twice = make().fit(np.concatenate([X, X]), np.concatenate([Y, Y]))
    assert once.record_.totals is not None
    assert once.record_.totals.clusters is None
    assert twice.record_.totals is not None
    assert twice.record_.totals.clusters is not None
    assert once.record_.design_effect == 1
    assert twice.record_.design_effect == pytest.approx(2, rel=0.1)


# Files


@pytest.mark.parametrize(("kind", "sense"), IN_EACH_SENSE)
def test_totals_survive_a_file_to_the_bit(
    kind: str, sense: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = world(ROWS)
    all_are_kept(kind, sense).save(tmp_path / "whole.oe", keep_rows=False)
    few_are_kept(monkeypatch)
    found = make(sense).fit(X, Y, **KINDS[kind])
    found.save(tmp_path / "found.oe", keep_rows=False)
    assert (tmp_path / "found.oe").stat().st_size < 0.25 * (tmp_path / "whole.oe").stat().st_size
    again = oe.load(tmp_path / "found.oe")
    same_bits(again, found)
    assert again.promise(X[:100]) == found.promise(X[:100])
    for left, right in zip(again.record_.limits(X[:9, 0]), found.record_.limits(X[:9, 0]), strict=True):
        np.testing.assert_array_equal(left, right)
    new, labels = world(7000, 5)
    groups: dict[str, Any] = {"groups": 1000 + np.arange(7000) // 7} if "groups" in KINDS[kind] else {}
    for each in (found, again):
        each.update(new, labels, **groups)
    same_bits(again, found)
    found.save(tmp_path / "later.oe")
    same_bits(oe.load(tmp_path / "later.oe"), found)
