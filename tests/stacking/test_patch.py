"""The patch is a ridge on the paper's cells, found by brute force here; it comes in where it pays and only there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.lemmas_out_of_fold import CellPass, CellSums
from optensemble.members import blocks
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.corrections import replay
from optensemble.multicalibration.events import Cells
from optensemble.multicalibration.patches import Patch, PatchLog
from optensemble.stacking.cells import RowCells, make_layout
from optensemble.stacking.patch import (
    MOST_CELLS,
    PATCH_PENALTIES,
    PatchedForecast,
    PatchRidges,
    PatchRounds,
    add_patch,
    in_lanes,
    situate,
)
from optensemble.stats.folds import Fold, folds
from optensemble.stats.sampling import Sampling
from tests.problems import Floats, bucket, level_set_masks, violation
from tests.stacking.passes import FitRows, Learned, outputs_of

Mask = npt.NDArray[np.bool_]


@dataclass
class World:
    """Two models and a policy, a forecast, and labels."""

    outputs: MemberOutputs
    forecast: Floats
    labels: Floats

    @property
    def omega(self) -> feasible.FeasibleSet:
        return self.outputs.omega

    @property
    def cells(self) -> Cells:
        return situate(self.outputs, self.forecast).cells(0, make_layout(self.outputs))

    def rows(self, index: slice) -> World:
        return World(self.outputs.take(index), self.forecast[index], self.labels[index])

    def learn(self, sampling: Sampling | None = None) -> Learned:
        """Patch the forecast, as the stack is patched in a fit."""
        return Learned.of(FitRows.of(self.outputs, self.labels, sampling), self.forecast)


def dense(cells: Cells) -> Floats:
    """A column for every cell, in which its rows are 1."""
    columns = cells.columns()
    Z = np.zeros((len(columns), cells.layout.count))
    for event in columns.T:
        Z[np.arange(len(Z)), event] = 1.0
    return Z


OMEGA = feasible.Polytope(A_ub=[[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], b_ub=[1.35, 0.7])


def make_world(seed: int, n: int, bias: float = 0.0, models: int = 2) -> World:
    """Where the second member's first action is low, the first label is off by ``bias``."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 3))
    predictions = signal + 0.7 * rng.normal(size=(3, n, 3))
    actions = np.stack([OMEGA.argmax(p) for p in predictions])
    labels = signal + 0.7 * rng.normal(size=(n, 3))
    labels[:, 0] += bias * (bucket(actions[1], OMEGA, 10)[:, 0] == 0)
    return World(outputs_of(predictions[:models], actions, OMEGA), signal.copy(), labels)


def paper_cells(world: World, forecast: Floats) -> list[Mask]:
    """Members' level sets, the forecast's own, and which model assesses itself highest; the last for the unseen."""
    said, n = world.outputs, len(forecast)
    own = world.omega.argmax(forecast)
    masks = [mask for actions in (*said.actions, own) for mask in level_set_masks(actions, world.omega, 10)]
    if said.models > 1:
        claims = [[float(said.actions[m, i] @ said.predictions[m, i]) for m in range(said.models)] for i in range(n)]
        highest = np.argmax(claims, axis=1)
        masks += [highest == m for m in range(said.models + 1)]
    return masks


def enough(masks: list[Mask]) -> list[int]:
    return [number for number, mask in enumerate(masks) if mask.sum() >= 50]


def textbook_ridge(masks: list[Mask], residual: Floats, penalty: float) -> Floats:
    """One pseudo-row of zero residual, ``penalty`` times, for every cell."""
    Z = np.stack(masks, axis=1).astype(float)
    rows = np.vstack([Z, np.sqrt(penalty) * np.eye(len(masks))])
    target = np.vstack([residual, np.zeros((len(masks), residual.shape[1]))])
    return np.asarray(np.linalg.lstsq(rows, target, rcond=None)[0])


def in_both_places(once: Any) -> Any:
    """Return the counts of two cells, each in one of its two places, as a symmetric table."""
    return once + once.T - np.diag(np.diag(once))


# Cells


@pytest.mark.parametrize("models", [0, 1, 2])
def test_the_cells_are_those_of_the_paper(models: int) -> None:
    world = make_world(0, 300, models=models)
    expected = np.stack(paper_cells(world, world.forecast), axis=1)
    np.testing.assert_array_equal(dense(world.cells), expected)
    cells = RowCells(world.outputs)
    cells.take_up(world.omega.argmax(world.forecast))
    np.testing.assert_array_equal(cells.columns, world.cells.columns())
    assert cells.layout == world.cells.layout
    np.testing.assert_array_equal(cells.fixed_counts() + cells.own_counts(), expected.sum(axis=0))
    own = expected[:, 3 * 3 * 10 : 4 * 3 * 10]
    np.testing.assert_array_equal(cells.own_counts()[3 * 3 * 10 : 4 * 3 * 10], own.sum(axis=0))
    assert cells.own_counts().sum() == own.sum()
    assert world.cells.layout.count == 4 * 3 * 10 + (3 if models == 2 else 0)


def test_cells_that_are_not_kept_have_no_line_in_a_table() -> None:
    world = make_world(0, 300)
    kept, masks = np.array([3, 40, 100]), paper_cells(world, world.forecast)
    tables = world.learn().tables(kept).tables
    residual = world.labels - world.forecast
    for fold, (_, rows) in enumerate(folds(300, random_state=0)):
        Z = np.stack([masks[c][rows] for c in kept], axis=1).astype(float)
        np.testing.assert_array_equal(tables.counts[fold], Z.sum(axis=0))
        np.testing.assert_allclose(tables.high[fold] + tables.low[fold], Z.T @ residual[rows], atol=1e-12)
        np.testing.assert_array_equal(in_both_places(tables.shared[fold]), Z.T @ Z)
        assert tables.squares[fold] == pytest.approx(np.square(residual[rows]).sum(), rel=1e-12)


def test_cells_of_fewer_than_fifty_rows_are_left_out() -> None:
    world = make_world(1, 300)
    found = world.learn().selection
    masks = paper_cells(world, world.forecast)
    assert found.kept.tolist() == enough(masks)
    assert found.occupied == sum(mask.any() for mask in masks) > len(found.kept)
    assert found.below == found.occupied - len(found.kept)
    assert found.cut == 0


def test_where_no_cell_has_enough_rows_nothing_is_tried() -> None:
    rng = np.random.default_rng(0)
    actions = rng.uniform(size=(2, 120, 2))  # about twelve rows in a cell
    omega = feasible.Box([0.0, 0.0], [1.0, 1.0])
    forecast = np.where(np.arange(120)[:, None] % 3 == [0, 1], 1.0, -1.0)
    few = World(outputs_of(np.empty((0, 120, 2)), actions, omega), forecast, forecast + rng.normal(size=(120, 2)))
    kept = enough(paper_cells(few, forecast))
    assert few.learn().selection.kept.tolist() == kept
    smaller = few.rows(slice(0, 49)).learn()
    assert smaller.corrections.note == "no cell has 50 rows"
    assert not smaller.tests
    assert not smaller.log


@pytest.mark.slow
def test_of_too_many_cells_those_with_the_most_rows_are_kept() -> None:
    rng = np.random.default_rng(0)
    n, d, k = 1200, 35, 7
    actions = rng.uniform(size=(k, n, d)) ** rng.uniform(0.8, 1.2, size=(k, 1, d))
    outputs = outputs_of(np.empty((0, n, d)), actions, feasible.Box(np.zeros(d), np.ones(d)))
    forecast, noise = rng.normal(size=(2, n, d))
    world = World(outputs, forecast, forecast + noise)
    masks = paper_cells(world, forecast)
    counts = np.array([mask.sum() for mask in masks])
    assert (counts >= 50).sum() > MOST_CELLS
    state = world.learn().selection
    assert len(state.kept) == MOST_CELLS
    assert state.cut == (counts >= 50).sum() - MOST_CELLS
    assert f"{state.cut:,} further cells, those with the fewest rows, were more than the patch can hold" in state.notes
    assert state.below == ((counts > 0) & (counts < 50)).sum()
    others = np.setdiff1d(np.flatnonzero(counts >= 50), state.kept)
    assert counts[state.kept].min() >= counts[others].max()


# Tables


@pytest.mark.parametrize("penalty", PATCH_PENALTIES)
@pytest.mark.parametrize("left_out", [None, 0, 4])
def test_corrections_are_a_ridge_on_the_rows_of_the_cells(penalty: float, left_out: int | None) -> None:
    world, parts = make_world(2, 400, bias=1.0), folds(400, random_state=0)
    masks = paper_cells(world, world.forecast)
    kept = enough(masks)
    residual = world.labels - world.forecast
    found = world.learn().tables(kept).tables
    rows = np.arange(400) if left_out is None else parts[left_out].train
    expected = textbook_ridge([masks[c][rows] for c in kept], residual[rows], penalty)
    np.testing.assert_allclose(PatchRidges(found, np.arange(len(kept))).solve(penalty, left_out), expected, atol=1e-9)
    some = [kept[place] for place in (0, 2, 3)]
    expected = textbook_ridge([masks[c][rows] for c in some], residual[rows], penalty)
    np.testing.assert_allclose(PatchRidges(found, np.array([0, 2, 3])).solve(penalty, left_out), expected, atol=1e-9)


def test_the_tables_tell_what_corrections_do_for_a_fold() -> None:
    world, parts = make_world(2, 400, bias=1.0), folds(400, random_state=0)
    masks = paper_cells(world, world.forecast)
    kept = enough(masks)
    ridges = PatchRidges(world.learn().tables(kept).tables, np.arange(len(kept)))
    delta = np.random.default_rng(0).normal(size=(len(kept), 3))
    for fold, (_, rows) in enumerate(parts):
        residual = (world.labels - world.forecast)[rows]
        corrected = residual - np.stack([masks[c][rows] for c in kept], axis=1) @ delta
        expected = np.square(residual).sum() - np.square(corrected).sum()
        assert ridges.drop(fold, delta) == pytest.approx(expected, rel=1e-9)


def test_overlaps_count_shared_rows_over_any_number_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(0, 5000)
    masks = np.stack(paper_cells(world, world.forecast)).astype(np.int64)
    everything, learned = np.arange(len(masks)), world.learn()
    for rows in (1 << 13, 999):
        monkeypatch.setattr(blocks, "CHUNK_ROWS", rows)
        found = learned.tables(everything).tables
        np.testing.assert_array_equal(in_both_places(found.shared.sum(axis=0)), masks @ masks.T)


@pytest.mark.parametrize("kind", ["independent", "in time order", "clustered"])
def test_the_worst_violation_is_that_of_the_worst_cell(kind: str) -> None:
    world = make_world(2, 600, bias=1.0)
    masks = paper_cells(world, world.forecast)
    kept = enough(masks)
    sampling = Sampling(kind == "in time order", np.arange(600) // 5 if kind == "clustered" else None)
    residual = world.labels - world.forecast
    rows, summed = FitRows.of(world.outputs, world.labels, sampling), []
    state = CellPass(np.array(kept), world.cells.layout.count, rows.design)
    for start, stop in ((0, 250), (250, 600)):  # sums of parts add up
        here = np.arange(start, stop)
        unit = state.unit_of(here, sampling.units(600).take(here))
        columns = world.cells.columns(here).astype(np.int32)
        summed.append(CellSums.gather([(columns, residual[here], unit)], 3, float(np.abs(residual).max()), state))
    worst, low, high = (summed[0] + summed[1]).worst(np.arange(len(kept)))
    assert worst == pytest.approx(max(violation(masks[c], residual) for c in kept), rel=1e-9)
    assert 0 < low < worst < high


# Learning


def textbook_patch(world: World, parts: list[Fold], rounds: int = 2) -> tuple[list[tuple[list[int], Floats]], Floats]:
    """Patch as long as the out-of-fold loss falls by more than a standard error, at most so often."""
    forecast, found = world.forecast.copy(), []
    for _ in range(rounds):
        masks = paper_cells(world, forecast)
        kept = enough(masks)
        residual = world.labels - forecast
        before = np.square(residual).sum(axis=1)
        best, corrected = None, forecast
        for penalty in (1000.0, 100.0, 10.0):
            weaker = out_of_fold(world, forecast, parts, penalty)
            if np.square(world.labels - weaker).sum() >= np.square(world.labels - corrected).sum():
                break
            best, corrected = penalty, weaker
        gain = before - np.square(world.labels - corrected).sum(axis=1)
        if best is None or gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
            break
        found.append((kept, textbook_ridge([masks[c] for c in kept], residual, best)))
        forecast = corrected
    return found, forecast


def out_of_fold(world: World, forecast: Floats, parts: list[Fold], penalty: float) -> Floats:
    """Correct each fold by what a ridge learns from the others."""
    masks = paper_cells(world, forecast)
    kept, corrected = enough(masks), forecast.copy()
    for train, test in parts:
        delta = textbook_ridge([masks[c][train] for c in kept], (world.labels - forecast)[train], penalty)
        corrected[test] += np.stack([masks[c][test] for c in kept], axis=1) @ delta
    return corrected


@pytest.mark.parametrize(("bias", "expected"), [(0.0, None), (-0.2, 1000.0), (-0.8, 100.0), (-3.0, 10.0)])
def test_penalties_are_tried_from_the_strongest_on_until_the_loss_no_longer_falls(
    bias: float, expected: float | None
) -> None:
    world, parts = make_world(6, 600, bias=bias), folds(600, random_state=0)
    loss: dict[float | None, Floats] = {None: np.square(world.labels - world.forecast).sum(axis=1)}
    for penalty in (1000.0, 100.0, 10.0):
        corrected = out_of_fold(world, world.forecast, parts, penalty)
        loss[penalty] = np.square(world.labels - corrected).sum(axis=1)
    order: list[float | None] = [None, 1000.0, 100.0, 10.0]
    falls = [loss[after].mean() < loss[before].mean() for before, after in pairwise(order)]
    assert order[[*falls, False].index(False)] == expected
    test = world.learn().tests[0]
    assert test.gain == pytest.approx((loss[None] - loss[expected]).mean(), abs=1e-9)
    if expected is None:
        assert test.gain == 0
        assert str(test) == "the out-of-fold loss did not fall"


@pytest.mark.parametrize(("bias", "rounds"), [(-2.0, 2), (-1.0, 1), (0.0, 0)])
def test_the_learned_patch_equals_the_textbook_version(bias: float, rounds: int) -> None:
    world, parts = make_world(5, 600, bias=bias), folds(600, random_state=0)
    state = world.learn()
    expected, forecast = textbook_patch(world, parts)
    assert len(state.log) == len(expected)
    assert len(expected) >= min(rounds, 1)
    assert (rounds == 0) == (not expected)
    for patch, (kept, delta) in zip(state.log, expected, strict=True):
        assert patch.cells.tolist() == kept
        np.testing.assert_allclose(patch.delta, delta, atol=1e-8)
    np.testing.assert_allclose(state.predictions, forecast, atol=1e-8)


def test_in_time_order_a_patch_must_exceed_two_standard_errors() -> None:
    state = make_world(4, 600, bias=-1.5).learn(Sampling(time_ordered=True))
    assert {test.needed for test in state.tests if test.gain} == {2.0}  # a round that lowers no loss is not tested
    assert state.log


def apply_patch(log: PatchLog, outputs: MemberOutputs, forecast: Floats) -> PatchedForecast:
    """Correct a forecast from the actions that it induces."""
    before = outputs.omega.argmax(forecast)
    return PatchRounds.of(log)(outputs, forecast, before, outputs.omega.batch_solver(len(forecast)))


@pytest.mark.parametrize("d", [1, 4, 8, 9, 24, 25, 41, 48])
def test_corrections_are_added_one_after_the_other(d: int) -> None:
    rng = np.random.default_rng(d)
    n, events, cells = 35, 70, 300
    columns = rng.integers(0, cells, size=(n, events)).astype(np.int32)
    delta, forecast = rng.normal(size=(cells, d)), rng.normal(size=(n, d))
    patched = rng.uniform(size=cells) < 0.7
    number = np.where(patched, np.cumsum(patched) - 1, -1).astype(np.int32)
    expected = forecast.copy()
    for event in columns.T:
        expected[patched[event]] += delta[event[patched[event]]]
    add_patch(columns, in_lanes(number, delta[patched]), forecast)
    np.testing.assert_array_equal(forecast, expected)


def test_new_rows_are_corrected_round_by_round() -> None:
    world = make_world(4, 800, bias=-3.0)
    old, new = world.rows(slice(0, 600)), world.rows(slice(600, 800))
    log = old.learn().forecaster.patch
    assert log is not None
    forecast = new.forecast.copy()
    for (patch,) in log.rounds:
        masks = paper_cells(new, forecast)
        forecast = forecast + np.stack([masks[c] for c in patch.cells], axis=1) @ patch.delta
    ours, actions = apply_patch(log, new.outputs, new.forecast)
    np.testing.assert_allclose(ours, forecast, atol=1e-9)
    np.testing.assert_array_equal(actions, new.omega.argmax(ours))


def test_new_rows_are_corrected_as_the_loop_replays_a_log() -> None:
    world = make_world(4, 800, bias=-3.0)
    old, new = world.rows(slice(0, 600)), world.rows(slice(600, 800))
    log = old.learn().forecaster.patch
    assert log is not None
    situation = situate(new.outputs, new.forecast)
    replay(situation, log)
    ours, actions = apply_patch(log, new.outputs, new.forecast)
    np.testing.assert_array_equal(ours, situation.predictions[0])
    np.testing.assert_array_equal(actions, situation.actions[-1])


def test_a_second_round_sees_the_actions_of_the_first() -> None:
    world = make_world(0, 200)
    layout = make_layout(world.outputs)
    rng = np.random.default_rng(1)
    everything = np.arange(layout.count)
    deltas = rng.normal(size=(2, layout.count, 3))
    log = PatchLog(layout, [(Patch(0, everything, delta, np.ones_like(everything)),) for delta in deltas])
    forecast = world.forecast
    for delta in deltas:
        forecast = forecast + np.stack(paper_cells(world, forecast), axis=1) @ delta
    ours, _ = apply_patch(log, world.outputs, world.forecast)
    np.testing.assert_allclose(ours, forecast, atol=1e-9)


def test_learning_and_applying_leave_what_they_are_given_as_it_was() -> None:
    world = make_world(4, 600, bias=-3.0)
    said = world.outputs
    before = [world.forecast.copy(), world.labels.copy(), said.actions.copy(), said.predictions.copy()]
    log = world.learn().forecaster.patch
    assert log is not None
    apply_patch(log, said, world.forecast)
    after = [world.forecast, world.labels, said.actions, said.predictions]
    for left, right in zip(before, after, strict=True):
        np.testing.assert_array_equal(left, right)


# Used where it pays, and only there


def biased_members(seed: int, n: int, bias: float) -> tuple[Floats, Floats, list[tuple[str, oe.Columns]]]:
    """Two models of three prices; where the second would put all on the first, that price is lower by ``bias``."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 3))
    first, second = signal + 0.5 * rng.normal(size=(2, n, 3))
    labels = signal + 0.5 * rng.normal(size=(n, 3))
    labels[:, 0] -= bias * (second.argmax(axis=1) == 0)
    X = np.concatenate([first, second], axis=1)
    return X, labels, [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]


def test_a_bias_on_a_members_level_set_is_patched_and_pays_on_new_rows() -> None:
    X, Y, models = biased_members(0, 8000, bias=1.5)
    simplex = feasible.Simplex(3)
    ensemble = oe.DecisionEnsemble(models, feasible=simplex).fit(X[:4000], Y[:4000])
    assert "patched" in ensemble.names_
    outputs, Y = ensemble._query()(X[4000:]), Y[4000:]
    forecasts = ensemble.decider_.forecaster(outputs).forecasts
    before = forecasts.get("refined", forecasts["stack"])
    cell = X[4000:, 3:].argmax(axis=1) == 0
    worst = [violation(cell, Y - forecast) for forecast in (before, forecasts["patched"])]
    assert worst[1] < 0.3 * worst[0]
    earned = [(simplex.argmax(np.ascontiguousarray(f)) * Y).sum(axis=1) for f in (before, forecasts["patched"])]
    gain = earned[1] - earned[0]
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))
    patched = ensemble.leaderboard_.set_index("candidate").loc["patched"]
    assert patched["kind"] == "forecast"
    own = (ensemble.decide(X[4000:]) * Y).sum(axis=1)
    gain = own - earned[0]
    assert gain.mean() > 2 * gain.std() / np.sqrt(len(gain))


@pytest.mark.parametrize("n", [400, 2000])
def test_where_there_is_no_bias_there_is_no_patch(n: int) -> None:
    opened = []
    for seed in range(4):
        X, Y, models = biased_members(seed, n, bias=0.0)
        ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
        opened.append("patched" in ensemble.names_)
        left_out = ensemble.leaderboard_.query("kind == 'left out'").set_index("candidate")
        if not opened[-1]:
            assert left_out.loc["patched", "why"]
            assert any(note.startswith("patched was left out: ") for note in ensemble.notes_)
    assert sum(opened) <= 1


def test_cells_of_few_rows_are_noted() -> None:
    X, Y, _ = biased_members(0, 400, bias=0.0)
    omega = feasible.RiskBudget(np.diag([1.0, 2.0, 3.0]), 1.0)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    ensemble = oe.DecisionEnsemble(models, feasible=omega).fit(X, Y)
    (note,) = [note for note in ensemble.notes_ if "fewer than 50 rows and were left out of the patch" in note]
    below, occupied = (int(word.replace(",", "")) for word in (note.split()[0], note.split()[2]))
    assert 0 < below < occupied
