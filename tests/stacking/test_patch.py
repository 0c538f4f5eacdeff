"""The patch is a ridge on the paper's cells, found by brute force here; it comes in where it pays and only there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.evaluation.lemmas_out_of_fold import worst_violation
from optensemble.members.outputs import View
from optensemble.multicalibration.loop import Patch, PatchLog
from optensemble.stacking.patch import (
    MOST_CELLS,
    STRENGTHS,
    Patched,
    Table,
    apply,
    learn_patch,
    make_layout,
    one_hot,
    overlaps,
    situate,
)
from optensemble.stats.folds import Fold, folds
from optensemble.stats.sampling import Sampling
from tests.problems import Floats, bucket, level_set_masks, violation

Mask = npt.NDArray[np.bool_]


@dataclass
class World:
    """Two models and a policy, a forecast, and labels."""

    view: View
    forecast: Floats
    labels: Floats
    omega: feasible.FeasibleSet

    @property
    def buckets(self) -> Buckets:
        return Buckets(self.omega.lower, self.omega.upper, 10)

    def rows(self, index: npt.NDArray[np.int64] | slice) -> World:
        numbers = np.arange(len(self.labels))[index]
        view = View(self.view.predictions[:, numbers], self.view.actions[:, numbers], self.view.scale)
        return World(view, self.forecast[index], self.labels[index], self.omega)

    def learn(self, parts: list[Fold], sampling: Sampling | None = None) -> Patched:
        return learn_patch(
            self.view, self.forecast, self.labels, self.omega, self.buckets, sampling or Sampling(), parts
        )


OMEGA = feasible.Polytope(A_ub=[[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], b_ub=[1.35, 0.7])


def make_world(seed: int, n: int, bias: float = 0.0, models: int = 2) -> World:
    """Where the second member's first action is low, the first label is off by ``bias``."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 3))
    predictions = signal + 0.7 * rng.normal(size=(3, n, 3))
    actions = np.stack([OMEGA.argmax(p) for p in predictions])
    labels = signal + 0.7 * rng.normal(size=(n, 3))
    labels[:, 0] += bias * (bucket(actions[1], OMEGA, 10)[:, 0] == 0)
    return World(View(predictions[:models], actions, labels.std(axis=0)), signal.copy(), labels, OMEGA)


def paper_cells(world: World, forecast: Floats) -> list[Mask]:
    """Members' level sets, the forecast's own, and which model assesses itself highest; the last for the unseen."""
    view, n = world.view, len(forecast)
    own = world.omega.argmax(forecast)
    masks = [mask for actions in (*view.actions, own) for mask in level_set_masks(actions, world.omega, 10)]
    if view.models > 1:
        claims = [[float(view.actions[m, i] @ view.predictions[m, i]) for m in range(view.models)] for i in range(n)]
        highest = np.argmax(claims, axis=1)
        masks += [highest == m for m in range(view.models + 1)]
    return masks


def enough(masks: list[Mask]) -> list[int]:
    return [number for number, mask in enumerate(masks) if mask.sum() >= 50]


def textbook_ridge(masks: list[Mask], residual: Floats, strength: float) -> Floats:
    """One pseudo-row of zero residual, ``strength`` times, for every cell."""
    Z = np.stack(masks, axis=1).astype(float)
    rows = np.vstack([Z, np.sqrt(strength) * np.eye(len(masks))])
    target = np.vstack([residual, np.zeros((len(masks), residual.shape[1]))])
    return np.asarray(np.linalg.lstsq(rows, target, rcond=None)[0])


# Cells


@pytest.mark.parametrize("models", [0, 1, 2])
def test_the_cells_are_those_of_the_paper(models: int) -> None:
    world = make_world(0, 300, models=models)
    layout = make_layout(world.view, world.buckets)
    cells = situate(world.view, world.forecast, world.omega, world.buckets).cells(0, layout)
    onto = one_hot(cells, np.arange(layout.count)).toarray()
    expected = np.stack(paper_cells(world, world.forecast), axis=1)
    np.testing.assert_array_equal(onto, expected)
    assert layout.count == 4 * 3 * 10 + (3 if models == 2 else 0)


def test_cells_that_are_not_kept_have_no_column() -> None:
    world = make_world(0, 300)
    cells = situate(world.view, world.forecast, world.omega, world.buckets).cells(
        0, make_layout(world.view, world.buckets)
    )
    kept, masks = np.array([3, 40, 100]), paper_cells(world, world.forecast)
    np.testing.assert_array_equal(one_hot(cells, kept).toarray(), np.stack([masks[c] for c in kept], axis=1))


def test_cells_of_fewer_than_fifty_rows_are_left_out() -> None:
    world = make_world(1, 300)
    state = world.learn(folds(300, random_state=0))
    masks = paper_cells(world, world.forecast)
    assert state.kept.tolist() == enough(masks)
    assert state.occupied == sum(mask.any() for mask in masks) > len(state.kept)
    assert state.thin == state.occupied - len(state.kept)
    assert state.cut == 0


def test_where_no_cell_has_enough_rows_nothing_is_tried() -> None:
    rng = np.random.default_rng(0)
    actions = rng.uniform(size=(2, 120, 2))  # about twelve rows in a cell
    omega = feasible.Box([0.0, 0.0], [1.0, 1.0])
    view = View(np.empty((0, 120, 2)), actions, np.ones(2))
    forecast = np.where(np.arange(120)[:, None] % 3 == [0, 1], 1.0, -1.0)
    few = World(view, forecast, forecast + rng.normal(size=(120, 2)), omega)
    state = few.learn(folds(120, random_state=0))
    kept = enough(paper_cells(few, forecast))
    assert state.kept.tolist() == kept
    smaller = few.rows(slice(0, 49)).learn(folds(49, random_state=0))
    assert smaller.note == "no cell has 50 rows"
    assert not smaller.gates
    assert not smaller.log.rounds


def test_of_too_many_cells_those_with_the_most_rows_are_kept() -> None:
    rng = np.random.default_rng(0)
    n, d, k = 1200, 35, 7
    actions = rng.uniform(size=(k, n, d)) ** rng.uniform(0.8, 1.2, size=(k, 1, d))
    view = View(np.empty((0, n, d)), actions, np.ones(d))
    forecast, noise = rng.normal(size=(2, n, d))
    world = World(view, forecast, forecast + noise, feasible.Box(np.zeros(d), np.ones(d)))
    masks = paper_cells(world, forecast)
    counts = np.array([mask.sum() for mask in masks])
    assert (counts >= 50).sum() > MOST_CELLS
    state = world.learn(folds(n, random_state=0))
    assert len(state.kept) == MOST_CELLS
    assert state.cut == (counts >= 50).sum() - MOST_CELLS
    assert f"{state.cut:,} further cells, those with the fewest rows, were more than the patch can hold" in state.notes
    assert state.thin == ((counts > 0) & (counts < 50)).sum()
    others = np.setdiff1d(np.flatnonzero(counts >= 50), state.kept)
    assert counts[state.kept].min() >= counts[others].max()


# Tables


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("left_out", [None, 0, 4])
def test_corrections_are_a_ridge_on_the_rows_of_the_cells(strength: float, left_out: int | None) -> None:
    world, parts = make_world(2, 400, bias=1.0), folds(400, random_state=0)
    masks = paper_cells(world, world.forecast)
    kept = enough(masks)
    cells = situate(world.view, world.forecast, world.omega, world.buckets).cells(
        0, make_layout(world.view, world.buckets)
    )
    residual = world.labels - world.forecast
    table = Table(cells, np.array(kept), residual, parts)
    rows = np.arange(400) if left_out is None else parts[left_out].train
    expected = textbook_ridge([masks[c][rows] for c in kept], residual[rows], strength)
    np.testing.assert_allclose(table.solve(strength, left_out), expected, atol=1e-9)


def test_overlaps_count_shared_rows_over_any_number_of_chunks() -> None:
    world = make_world(0, 5000)
    cells = situate(world.view, world.forecast, world.omega, world.buckets).cells(
        0, make_layout(world.view, world.buckets)
    )
    onto = one_hot(cells, np.arange(cells.layout.count))
    masks = np.stack(paper_cells(world, world.forecast)).astype(np.int64)
    np.testing.assert_array_equal(overlaps(onto), masks @ masks.T)


@pytest.mark.parametrize("kind", ["independent", "in time order", "clustered"])
def test_the_worst_violation_is_that_of_the_worst_cell(kind: str) -> None:
    world = make_world(2, 600, bias=1.0)
    masks = paper_cells(world, world.forecast)
    kept = enough(masks)
    cells = situate(world.view, world.forecast, world.omega, world.buckets).cells(
        0, make_layout(world.view, world.buckets)
    )
    sampling = Sampling(kind == "in time order", np.arange(600) // 5 if kind == "clustered" else None)
    residual = world.labels - world.forecast
    worst, low, high = worst_violation(one_hot(cells, np.array(kept)), residual, sampling)
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
        for strength in (1000.0, 100.0, 10.0):
            weaker = out_of_fold(world, forecast, parts, strength)
            if np.square(world.labels - weaker).sum() >= np.square(world.labels - corrected).sum():
                break
            best, corrected = strength, weaker
        gain = before - np.square(world.labels - corrected).sum(axis=1)
        if best is None or gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
            break
        found.append((kept, textbook_ridge([masks[c] for c in kept], residual, best)))
        forecast = corrected
    return found, forecast


def out_of_fold(world: World, forecast: Floats, parts: list[Fold], strength: float) -> Floats:
    """Correct each fold by what a ridge learns from the others."""
    masks = paper_cells(world, forecast)
    kept, corrected = enough(masks), forecast.copy()
    for train, test in parts:
        delta = textbook_ridge([masks[c][train] for c in kept], (world.labels - forecast)[train], strength)
        corrected[test] += np.stack([masks[c][test] for c in kept], axis=1) @ delta
    return corrected


@pytest.mark.parametrize(("bias", "expected"), [(0.0, None), (-0.2, 1000.0), (-0.8, 100.0), (-3.0, 10.0)])
def test_strengths_are_tried_from_the_strongest_on_until_the_loss_no_longer_falls(
    bias: float, expected: float | None
) -> None:
    world, parts = make_world(6, 600, bias=bias), folds(600, random_state=0)
    loss: dict[float | None, Floats] = {None: np.square(world.labels - world.forecast).sum(axis=1)}
    for strength in (1000.0, 100.0, 10.0):
        corrected = out_of_fold(world, world.forecast, parts, strength)
        loss[strength] = np.square(world.labels - corrected).sum(axis=1)
    order: list[float | None] = [None, 1000.0, 100.0, 10.0]
    falls = [loss[after].mean() < loss[before].mean() for before, after in pairwise(order)]
    assert order[[*falls, False].index(False)] == expected
    gate = world.learn(parts).gates[0]
    assert gate.gain == pytest.approx((loss[None] - loss[expected]).mean(), abs=1e-9)
    if expected is None:
        assert gate.gain == 0
        assert str(gate) == "the out-of-fold loss did not fall"


@pytest.mark.parametrize(("bias", "rounds"), [(-2.0, 2), (-1.0, 1), (0.0, 0)])
def test_the_learned_patch_equals_the_textbook_version(bias: float, rounds: int) -> None:
    world, parts = make_world(4, 600, bias=bias), folds(600, random_state=0)
    state = world.learn(parts)
    expected, forecast = textbook_patch(world, parts)
    assert len(state.log.rounds) == len(expected)
    assert len(expected) >= min(rounds, 1)
    assert (rounds == 0) == (not expected)
    for (patch,), (kept, delta) in zip(state.log.rounds, expected, strict=True):
        assert patch.cells.tolist() == kept
        np.testing.assert_allclose(patch.delta, delta, atol=1e-8)
    np.testing.assert_allclose(state.predictions, forecast, atol=1e-8)


def test_in_time_order_a_patch_must_exceed_two_standard_errors() -> None:
    world, parts = make_world(4, 600, bias=-1.5), folds(600, time_ordered=True)
    state = world.learn(parts, Sampling(time_ordered=True))
    assert {gate.needed for gate in state.gates} == {2.0}
    assert state.log.rounds


def test_new_rows_are_corrected_round_by_round() -> None:
    world, parts = make_world(4, 800, bias=-3.0), folds(600, random_state=0)
    old, new = world.rows(slice(0, 600)), world.rows(slice(600, 800))
    log = old.learn(parts).log
    assert log.rounds
    forecast = new.forecast.copy()
    for (patch,) in log.rounds:
        masks = paper_cells(new, forecast)
        forecast = forecast + np.stack([masks[c] for c in patch.cells], axis=1) @ patch.delta
    ours = apply(log, new.view, new.forecast, new.omega, new.buckets)
    np.testing.assert_allclose(ours, forecast, atol=1e-9)


def test_a_second_round_sees_the_actions_of_the_first() -> None:
    world = make_world(0, 200)
    layout = make_layout(world.view, world.buckets)
    rng = np.random.default_rng(1)
    everything = np.arange(layout.count)
    deltas = rng.normal(size=(2, layout.count, 3))
    log = PatchLog(layout)
    log.rounds.extend((Patch(0, everything, delta, np.ones_like(everything)),) for delta in deltas)
    forecast = world.forecast
    for delta in deltas:
        forecast = forecast + np.stack(paper_cells(world, forecast), axis=1) @ delta
    ours = apply(log, world.view, world.forecast, world.omega, world.buckets)
    np.testing.assert_allclose(ours, forecast, atol=1e-9)


def test_learning_and_applying_leave_what_they_are_given_as_it_was() -> None:
    world, parts = make_world(4, 600, bias=-3.0), folds(600, random_state=0)
    before = [world.forecast.copy(), world.labels.copy(), world.view.actions.copy(), world.view.predictions.copy()]
    apply(world.learn(parts).log, world.view, world.forecast, world.omega, world.buckets)
    after = [world.forecast, world.labels, world.view.actions, world.view.predictions]
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
    view, Y = ensemble._view(X[4000:]), Y[4000:]
    forecasts = ensemble.decider_.forecaster(view, simplex, ensemble._buckets)
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


def test_cells_below_min_cell_are_noted() -> None:
    X, Y, _ = biased_members(0, 400, bias=0.0)
    omega = feasible.RiskBudget(np.diag([1.0, 2.0, 3.0]), 1.0)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    ensemble = oe.DecisionEnsemble(models, feasible=omega).fit(X, Y)
    (note,) = [note for note in ensemble.notes_ if "fewer than 50 rows and were left out of the patch" in note]
    thin, occupied = (int(word.replace(",", "")) for word in (note.split()[0], note.split()[2]))
    assert 0 < thin < occupied
