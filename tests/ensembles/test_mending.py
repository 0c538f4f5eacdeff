"""Logs of policies that are rounded: fitted with a tolerance nearly as if they were not, refused without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.feasible import FeasibleSet
from tests.problems import Floats
from tests.sample_sets import battery

N = 600

SETS: dict[str, tuple[FeasibleSet, str]] = {
    "simplex": (feasible.Simplex(3), r"sums to (0\.999|1\.001), must be 1"),
    "knapsack": (feasible.Knapsack([1.7, 1.3, 2.1], 2.0, upper=0.7), r"capacity: 2\.00\d+ > 2\."),
    "battery": (feasible.Polytope(*battery(3, 1.0 / 3.0), lower=0.0), r"A_ub\[\d\]: 0\.16\d+ > 0\.1666"),
}


class World:
    """A planner that follows the state, a second one that does not, and labels."""

    def __init__(self, omega: FeasibleSet) -> None:
        rng, d = np.random.default_rng(0), omega.dimension
        self.omega = omega
        self.state = rng.normal(size=(N, d))
        self.labels = self.state + rng.normal(size=(N, d))
        shares = rng.dirichlet(np.ones(6), size=N)
        ways = [omega.argmax(self.state + rng.normal(size=(N, d))) for _ in range(6)]
        self.plan: Floats = np.einsum("nk,knd->nd", shares, np.array(ways))
        self.habit = omega.argmax(np.tile([1.0, -1.0, 0.5] * (d // 3), (N, 1)))

    def ensemble(self, plan: Floats, **options: Any) -> oe.DecisionEnsemble:
        ensemble = oe.DecisionEnsemble(policies=self.policies, feasible=self.omega, **options)
        return ensemble.fit(self.table(plan), self.labels)

    @property
    def policies(self) -> list[tuple[str, oe.Columns]]:
        return [(who, oe.Columns(f"{who}_*")) for who in ("planner", "habit")]

    def table(self, plan: Floats) -> pd.DataFrame:
        names = [f"{who}_{j}" for who in ("planner", "habit") for j in range(plan.shape[1])]
        return pd.DataFrame(np.hstack([plan, self.habit]), columns=names)


@pytest.mark.parametrize("name", SETS)
def test_a_log_rounded_to_three_decimals_fits_nearly_as_the_log_itself(name: str) -> None:
    world = World(SETS[name][0])
    rounded = world.plan.round(3)
    off = world.omega.violation(rounded) > world.omega.tolerance
    assert off.any()
    exact, mended = world.ensemble(world.plan), world.ensemble(rounded, tolerance=0.005)
    ours, theirs = (each.leaderboard_.set_index("candidate")["realised"] for each in (mended, exact))
    for member in ("planner", "habit"):
        assert ours[member] == pytest.approx(theirs[member], abs=2e-3)
    spread = (theirs.max() - theirs.min()) or 1.0
    assert ours.max() == pytest.approx(theirs.max(), abs=0.15 * spread)
    (note,) = [note for note in mended.notes_ if "was moved" in note]
    assert note.startswith(
        f"policy 'planner' was moved onto the feasible set in {off.sum()} of {N} rows, by at most 0.0"
    )
    assert not any("was moved" in note for note in exact.notes_)
    assert mended.outcome[-1] == note
    assert mended.answer(world.table(rounded)).mended == off.sum()
    assert exact.answer(world.table(world.plan)).mended == 0
    assert world.omega.violation(mended.decide(world.table(rounded))).max() <= world.omega.tolerance


@pytest.mark.parametrize("name", SETS)
def test_without_a_tolerance_the_error_names_rows_and_constraints(name: str) -> None:
    omega, words = SETS[name]
    world = World(omega)
    rounded = world.plan.round(3)
    off = np.flatnonzero(omega.violation(rounded) > 1e-6 * omega.extent)
    with pytest.raises(InfeasibleActionError, match=words) as caught:
        world.ensemble(rounded)
    assert f"policy 'planner' returned actions outside the feasible set in rows {off[0]}, {off[1]}" in str(caught.value)
    assert caught.value.rows is not None
    assert caught.value.rows[1:] == (off[0], len(off))


def test_raise_refuses_what_would_be_mended() -> None:
    world = World(SETS["simplex"][0])
    slightly = world.plan + np.array([5e-7, 0.0, 0.0])
    assert any("was moved" in note for note in world.ensemble(slightly).notes_)
    with pytest.raises(InfeasibleActionError, match="on_infeasible='project' mends them"):
        world.ensemble(slightly, on_infeasible="raise")
    world.ensemble(world.plan, on_infeasible="raise")


@pytest.mark.parametrize("options", [{"on_infeasible": "drop"}, {"tolerance": -0.1}])
def test_parameters_are_checked_in_fit(options: dict[str, Any]) -> None:
    world = World(SETS["simplex"][0])
    with pytest.raises(InputError, match=next(iter(options))):
        world.ensemble(world.plan, **options)
    box = oe.BlackBoxEnsemble(world.policies, world.omega, **options)
    with pytest.raises(InputError, match=next(iter(options))):
        box.fit(world.table(world.plan), world.labels)


def test_parameters_are_cloned_and_wait_for_the_next_fit() -> None:
    world = World(SETS["simplex"][0])
    rounded = world.plan.round(3)
    ensemble = world.ensemble(rounded, tolerance=0.005)
    again = clone(ensemble)
    assert (again.on_infeasible, again.tolerance) == ("project", 0.005)
    assert ensemble.get_params()["tolerance"] == 0.005
    ensemble.set_params(tolerance=None)
    assert ensemble.answer(world.table(rounded)).mended > 0
    with pytest.raises(InfeasibleActionError):
        ensemble.fit(world.table(rounded), world.labels)


def test_an_audit_and_an_update_mend_as_the_fit_did() -> None:
    world = World(SETS["simplex"][0])
    rounded, half = world.table(world.plan.round(3)), N // 2
    ensemble = oe.DecisionEnsemble(policies=world.policies, feasible=world.omega, tolerance=0.005)
    ensemble.fit(rounded[:half], world.labels[:half])
    audit, answer = ensemble.audit_with_answer(rounded[half:], world.labels[half:])
    assert answer.mended == ensemble.answer(rounded[half:]).mended > 0
    assert audit is not None
    assert ensemble.update(rounded[half:], world.labels[half:]).n_updated_ == N - half


@pytest.mark.parametrize("kind", ["decision", "black_box"])
def test_a_file_keeps_what_is_mended(tmp_path: Path, kind: str) -> None:
    world = World(SETS["simplex"][0])
    table = world.table(world.plan.round(3))
    options: dict[str, Any] = {"on_infeasible": "project", "tolerance": 0.005}
    ensemble: Any = oe.DecisionEnsemble(policies=world.policies, feasible=world.omega, **options)
    if kind == "black_box":
        ensemble = oe.BlackBoxEnsemble(world.policies, world.omega, **options)
    ensemble.fit(table, world.labels).save(tmp_path / "mended.oe")
    loaded = oe.load(tmp_path / "mended.oe")
    assert (loaded.on_infeasible, loaded.tolerance) == ("project", 0.005)
    ours, theirs = loaded.answer(table), ensemble.answer(table)
    assert np.array_equal(ours.actions, theirs.actions)
    assert ours.mended == theirs.mended > 0


def test_a_black_box_mends_too() -> None:
    world = World(SETS["knapsack"][0])
    rounded = world.plan.round(3)
    box = oe.BlackBoxEnsemble(world.policies, world.omega, tolerance=0.005).fit(world.table(rounded), world.labels)
    off = world.omega.violation(rounded) > world.omega.tolerance
    assert box.answer(world.table(rounded)).mended == off.sum() > 0
    with pytest.raises(InfeasibleActionError, match="capacity"):
        oe.BlackBoxEnsemble(world.policies, world.omega).fit(world.table(rounded), world.labels)


def test_rows_that_are_read_from_files_are_mended_and_told_of(tmp_path: Path) -> None:
    world = World(SETS["simplex"][0])
    labels = [f"y_{j}" for j in range(3)]
    frame = pd.concat([world.table(world.plan.round(3)), pd.DataFrame(world.labels, columns=labels)], axis=1)
    frame.to_parquet(tmp_path / "log.parquet")
    ensemble = oe.DecisionEnsemble(policies=world.policies, feasible=world.omega, tolerance=0.005)
    ensemble.fit(oe.Rows(tmp_path / "log.parquet", labels=labels))
    (note,) = [note for note in ensemble.notes_ if "was moved" in note]
    assert "in some rows, by at most 0.0" in note
    in_memory = world.ensemble(world.plan.round(3), tolerance=0.005)
    assert np.array_equal(ensemble.decide(frame[:50]), in_memory.decide(frame[:50]))
