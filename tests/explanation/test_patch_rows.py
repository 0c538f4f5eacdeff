"""The number of rows behind a patch, learned and saved."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.corrections import replay
from optensemble.multicalibration.events import black_box, white_box
from optensemble.multicalibration.loop import debias
from optensemble.multicalibration.patches import Patch
from optensemble.multicalibration.schedules import Debiasing
from optensemble.multicalibration.state import Situation
from tests.explanation.retold import BUCKETS, SCHEDULES, saved
from tests.persistence.archives import parts, write
from tests.problems import level_set_masks, random_problem
from tests.stacking.passes import FitRows, Learned

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


# Learned


@SCHEDULES
@pytest.mark.parametrize("black", [False, True])
def test_a_patch_knows_how_many_rows_its_cells_had(schedule: str, black: bool) -> None:
    problem = random_problem(5, n=150)
    buckets = Buckets(problem.omega.lower, problem.omega.upper, BUCKETS)
    start = np.zeros((1, 150, 3)) if black else problem.P

    def fresh() -> Situation:
        return Situation(start.copy(), problem.omega, buckets, given=problem.actions if black else None)

    layout = black_box(buckets, 3) if black else white_box(buckets, 3)
    log = debias(fresh(), problem.Y, Debiasing(layout, schedule, alpha=0.02, max_rounds=120)).log
    situation, checked = fresh(), 0
    for number, patches in enumerate(log.rounds):
        for patch in patches:
            if black:
                masks = [m for a in situation.actions for m in level_set_masks(a, problem.omega, BUCKETS)]
            else:
                levels = level_set_masks(situation.actions[patch.member], problem.omega, BUCKETS)
                masks = [level & (situation.winner == winner) for level in levels for winner in range(3)]
            assert patch.rows.tolist() == [int(masks[cell].sum()) for cell in patch.cells]
            checked += len(patch.cells)
        replay(situation, log, number, number + 1)
    assert checked > 20


def test_the_patch_of_a_forecast_knows_how_many_rows_its_cells_had() -> None:
    rng, n, omega = np.random.default_rng(4), 600, feasible.Simplex(3)
    signal = rng.normal(size=(n, 3))
    predictions = signal + 0.7 * rng.normal(size=(2, n, 3))
    actions = np.stack([omega.argmax(p) for p in predictions])
    labels = signal + 0.5 * rng.normal(size=(n, 3)) - 2.0 * actions[1][:, :1] * [1, 0, 0]
    outputs = MemberOutputs(predictions, actions, omega, Buckets(omega.lower, omega.upper, BUCKETS))
    patch, *_ = Learned.of(FitRows.of(outputs, labels), signal).log
    masks = [m for a in (*actions, omega.argmax(signal)) for m in level_set_masks(a, omega, BUCKETS)]
    claims = np.stack([(a * p).sum(axis=1) for a, p in zip(actions, predictions, strict=True)])
    masks += [claims.argmax(axis=0) == model for model in range(2)]
    assert patch.rows.tolist() == [int(masks[cell].sum()) for cell in patch.cells]
    assert patch.rows.min() >= 50


# Files


def without_rows(path: Path) -> None:
    """Make the file one that was saved before patches knew how many rows they had."""
    content = parts(path)
    with np.load(io.BytesIO(content["arrays.npz"])) as archive:
        arrays = {name: archive[name] for name in archive.files if not name.endswith("/rows")}
        assert len(arrays) < len(archive.files)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    write(path, {**content, "arrays.npz": packed.getvalue()})


def all_patches(ensemble: Any) -> list[Patch]:
    logs = ensemble.log_ if hasattr(ensemble, "log_") else [ensemble.decider_.forecaster.patch]
    return [patch for log in logs for patches in log.rounds for patch in patches]


@pytest.mark.parametrize("kind", ["decision", "white", "black"])
def test_a_loaded_ensemble_explains_as_the_saved_one(kind: str, tmp_path: Path) -> None:
    ensemble, X, members = saved(kind)
    ensemble.save(tmp_path / "ensemble.oe")
    again = oe.load(tmp_path / "ensemble.oe", **members)
    for ours, theirs in zip(all_patches(again), all_patches(ensemble), strict=True):
        assert ours.rows.dtype == theirs.rows.dtype
        np.testing.assert_array_equal(ours.rows, theirs.rows)
    assert str(again.explain(X, 5)) == str(ensemble.explain(X, 5))


@pytest.mark.parametrize("kind", ["decision", "white", "black"])
def test_a_file_without_numbers_of_rows_loads_and_says_that_it_does_not_know_them(kind: str, tmp_path: Path) -> None:
    ensemble, X, members = saved(kind)
    ensemble.save(tmp_path / "old.oe")
    without_rows(tmp_path / "old.oe")
    old = oe.load(tmp_path / "old.oe", **members)
    assert all((patch.rows == -1).all() and len(patch.rows) == len(patch.cells) for patch in all_patches(old))
    ours, theirs = old.explain(X, 5), ensemble.explain(X, 5)
    pd.testing.assert_frame_equal(ours.patches.drop(columns="rows"), theirs.patches.drop(columns="rows"))
    assert (ours.patches["rows"] == -1).all()
    np.testing.assert_array_equal(old.predict(X), ensemble.predict(X))


def test_files_hold_the_numbers_of_rows_beside_the_patches(tmp_path: Path) -> None:
    ensemble, _, _ = saved("white")
    ensemble.save(tmp_path / "ensemble.oe")
    with zipfile.ZipFile(tmp_path / "ensemble.oe") as archive, archive.open("arrays.npz") as packed:
        arrays = np.load(io.BytesIO(packed.read()))
        np.testing.assert_array_equal(arrays["log0/rows"], np.concatenate([p.rows for p in all_patches(ensemble)]))
