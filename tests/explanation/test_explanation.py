"""Why a row was decided as it was: every number of an explanation is found again by plain loops over one row."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, NotFittedError
from optensemble.explanation.explanation import Explanation
from optensemble.members.outputs import View
from optensemble.multicalibration.events import Buckets, black_box, white_box
from optensemble.multicalibration.loop import Patch, debias, replay
from optensemble.multicalibration.state import Situation
from optensemble.stacking.patch import learn_patch
from optensemble.stats.folds import folds
from optensemble.stats.sampling import Sampling
from tests.persistence.test_files import parts, write
from tests.problems import Floats, Problem, bucket, level_set_masks, lookup, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")

SENSES = pytest.mark.parametrize("sense", ["max", "min"])
SCHEDULES = pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
BUCKETS = 10
N = 1500
ROWS = (0, 7, 411)


Told = tuple[str, int, Floats]
"""The name of a cell, how many rows it had, and what its patch adds."""


def coordinates(table: pd.DataFrame, what: str = "y") -> Floats:
    return table.filter(regex=f"^{what}_").to_numpy(dtype=float)


def step(explanation: Explanation, stage: str) -> Floats:
    (found,) = coordinates(explanation.steps[explanation.steps["stage"] == stage])
    return np.asarray(found)


def sign_of(ensemble: Any) -> float:
    return 1.0 if ensemble.sense == "max" else -1.0


def between(omega: feasible.FeasibleSet, j: int, t: int, count: int = BUCKETS) -> str:
    """Where a bucket is, in words."""
    low, high = (omega.lower[j] + (omega.upper[j] - omega.lower[j]) * edge / count for edge in (t, t + 1))
    return f"in [{low:.4g}, {high:.4g}{']' if t == count - 1 else ')'}"


def added_up(found: list[Told]) -> dict[str, tuple[int, int, Floats]]:
    """By cell the fewest rows, how often it moved, and by how much in all."""
    cells: dict[str, tuple[int, int, Floats]] = {}
    for name, rows, delta in found:
        least, times, total = cells.get(name, (rows, 0, np.zeros_like(delta)))
        cells[name] = (min(least, rows), times + 1, total + delta)
    return cells


def assert_patches(explanation: Explanation, found: list[Told]) -> None:
    expected, table = added_up([entry for entry in found if entry[2].any()]), explanation.patches
    assert set(table["cell"]) == set(expected)
    assert len(table) == len(expected)
    for line, moved in zip(table.to_dict("records"), coordinates(table), strict=True):
        rows, times, total = expected[str(line["cell"])]
        assert (line["rows"], line["times"]) == (rows, times)
        np.testing.assert_allclose(moved, total, rtol=1e-9, atol=1e-12)
    sizes = np.square(coordinates(table)).sum(axis=1)
    assert (np.diff(sizes) <= 0).all()


def assert_added_up(explanation: Explanation) -> None:
    """What the patches add is the last step minus the one before."""
    before, after = coordinates(explanation.steps)[-2:]
    np.testing.assert_allclose(coordinates(explanation.patches).sum(axis=0), after - before, rtol=0, atol=1e-12)


def assert_answers(ensemble: Any, explanation: Explanation, X: Any) -> None:
    """An explanation speaks of what is done."""
    answer, row = ensemble.answer(X), explanation.row
    assert explanation.followed == ensemble.names_[answer.chosen[row]]
    np.testing.assert_array_equal(explanation.action, answer.actions[row])
    assert explanation.promised == pytest.approx(answer.promised[row], rel=1e-12)
    np.testing.assert_array_equal(coordinates(explanation.steps)[-1], answer.predictions[row])


def assert_alternatives(ensemble: Any, explanation: Explanation, omega: feasible.FeasibleSet) -> None:
    """The table agrees with itself: who is first, who is behind, and the margin."""
    table, sign = explanation.alternatives, sign_of(ensemble)
    assert sorted(table["name"]) == sorted(ensemble.names_)
    assert table["name"].iloc[0] == explanation.followed
    actions, alike = coordinates(table, "action"), 1e-9 * (omega.upper - omega.lower)
    same = [bool((abs(action - explanation.action) <= alike).all()) for action in actions]
    assert table["same"].tolist() == same
    assert same[0]
    behind = sign * (explanation.promised - table["value"].to_numpy())
    np.testing.assert_allclose(table["behind"], behind, atol=1e-9)
    assert (table["behind"].iloc[1:].dropna().diff().dropna() >= 0).all()
    others = [b for b, alike in zip(behind, same, strict=True) if not alike and not math.isnan(b)]
    assert explanation.margin == pytest.approx(min(others, default=math.nan), abs=1e-9, nan_ok=True)


# DecisionEnsemble


def biased(n: int, sense: str) -> tuple[Floats, Floats, list[tuple[str, Any]], list[tuple[str, Any]]]:
    """Two models and a policy; where the second would put all on the first coordinate, that is worth less."""
    rng = np.random.default_rng(0)
    signal, sign = rng.normal(size=(n, 3)), 1.0 if sense == "max" else -1.0
    first, second, third = signal + 0.5 * rng.normal(size=(3, n, 3))
    labels = signal + 0.5 * rng.normal(size=(n, 3))
    labels[:, 0] -= 1.5 * (second.argmax(axis=1) == 0)
    X = np.concatenate([sign * first, sign * second, np.eye(3)[third.argmax(axis=1)]], axis=1)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    return X, sign * labels, models, [("planner", oe.Columns([6, 7, 8]))]


@cache
def patched(sense: str = "max") -> tuple[oe.DecisionEnsemble, Floats]:
    X, Y, models, policies = biased(N, sense)
    ensemble = oe.DecisionEnsemble(models, policies, feasible.Simplex(3), sense).fit(X, Y)
    assert "patched" in ensemble.names_
    assert ensemble.winner_ == "ensemble"
    return ensemble, X


@cache
def unpatched(access: str, sense: str = "max") -> tuple[oe.DecisionEnsemble, Any]:
    problem = random_problem(0, n=400, omega="polytope")
    models = {"models": problem.models, "policies": None, "both": problem.models[:2]}[access]
    policies = {"models": None, "policies": problem.policies, "both": problem.policies[2:]}[access]
    ensemble = oe.DecisionEnsemble(models, policies, problem.omega, sense).fit(problem.X, problem.Y)
    assert "patched" not in ensemble.names_
    return ensemble, problem.X


@cache
def winning(winner: str, first: int) -> tuple[oe.DecisionEnsemble, Any]:
    """An ensemble whose league somebody else has won: by chance, so that a world is looked for where it happens."""
    n, omega = 150, feasible.Simplex(3)
    for seed in [first, *range(200)]:
        rng = np.random.default_rng(seed)
        P, (hidden, noise, more) = rng.normal(size=(2, n, 3)), rng.normal(size=(3, n, 3))
        models: list[tuple[str, Any]] = [(f"m{i}", lookup(p)) for i, p in enumerate(P)]
        policies, Y = None, 0.3 * P[0] + noise
        if winner == "planner":
            policies, Y = [("planner", lookup(omega.argmax(hidden + 0.5 * more)))], Y + hidden
        if winner == "ridge":  # models have the first two coordinates the wrong way round; the third drowns their loss
            Y = 0.6 * P[[0, 1], :, [1, 0]].T @ np.eye(2, 3) + noise * [1, 1, 4] - [0, 0, 8]
        ensemble = oe.DecisionEnsemble(models, policies, omega).fit(np.arange(n), Y)
        if ensemble.winner_ == winner:
            return ensemble, np.arange(n)
    pytest.fail(f"{winner} wins nowhere")


@SENSES
@pytest.mark.parametrize("row", ROWS)
def test_a_decision_is_explained_as_it_was_taken(sense: str, row: int) -> None:
    ensemble, X = patched(sense)
    explanation = ensemble.explain(X, row)
    assert explanation.row == row
    assert_answers(ensemble, explanation, X)
    assert_alternatives(ensemble, explanation, feasible.Simplex(3))
    assert_added_up(explanation)
    assert (explanation.alternatives["behind"].dropna() >= 0).all()


@SENSES
@pytest.mark.parametrize("access", ["models", "policies", "both"])
def test_without_a_patch_nothing_is_said_to_be_patched(access: str, sense: str) -> None:
    ensemble, X = unpatched(access, sense)
    for row in ROWS[:2]:
        explanation = ensemble.explain(X, row)
        assert_answers(ensemble, explanation, X)
        assert_alternatives(ensemble, explanation, ensemble._set)
        assert explanation.patches.empty
        assert list(explanation.patches) == ["round", "cell", "rows", "times", "y_0", "y_1", "y_2"]
        assert "patched" not in set(explanation.steps["stage"])


@SENSES
@pytest.mark.parametrize("row", ROWS)
def test_steps_lead_from_the_models_words_to_the_prediction(sense: str, row: int) -> None:
    ensemble, X = patched(sense)
    explanation = ensemble.explain(X, row)
    stages = explanation.steps["stage"].tolist()
    assert stages == ["first", "second", *(name for name in ensemble.names_[3:] if name not in ("ridge", "mean"))]
    np.testing.assert_array_equal(step(explanation, "first"), X[row, :3])
    np.testing.assert_array_equal(step(explanation, "second"), X[row, 3:6])
    np.testing.assert_allclose(step(explanation, "average"), (X[row, :3] + X[row, 3:6]) / 2, rtol=1e-12)


@SENSES
@pytest.mark.parametrize("row", ROWS)
def test_everyone_does_what_is_best_by_its_own_prediction(sense: str, row: int) -> None:
    ensemble, X = patched(sense)
    explanation, sign = ensemble.explain(X, row), sign_of(ensemble)
    table = explanation.alternatives.set_index("name")
    for stage in explanation.steps["stage"].tolist():
        best = np.eye(3)[int((sign * step(explanation, stage)).argmax())]
        np.testing.assert_array_equal(coordinates(table.loc[[stage]], "action")[0], best)
    np.testing.assert_array_equal(coordinates(table.loc[["planner"]], "action")[0], X[row, 6:])


@SENSES
@pytest.mark.parametrize("row", ROWS)
def test_values_are_what_the_calibrated_choice_among_arms_expects(sense: str, row: int) -> None:
    """R_a − R̄ = c_a + Σ b_e (Z_ae − Z̄_e), as found from the tables alone."""
    ensemble, X = patched(sense)
    explanation, sign, choice = ensemble.explain(X, row), sign_of(ensemble), ensemble.decider_.choice
    table = explanation.alternatives.set_index("name")
    arms = [name for name in ensemble.names_ if name not in ("ridge", "mean")]
    evaluators = [name for name in ("stack", "refined", "patched") if name in arms]
    actions = {name: np.array(table.loc[name].filter(like="action_"), dtype=float) for name in arms}
    Z = np.array([[sign * actions[a] @ step(explanation, e) for e in evaluators] for a in arms])
    expected = [c + sum(choice.slopes * (z - Z.mean(axis=0))) for c, z in zip(choice.constants, Z, strict=True)]
    assert arms[int(np.argmax(expected))] == explanation.followed
    for name, value in zip(arms, expected, strict=True):
        assert table.loc[name, "behind"] == pytest.approx(max(expected) - value, abs=1e-9)
        promised = explanation.promised - sign * (max(expected) - value)
        assert table.loc[name, "value"] == pytest.approx(promised, abs=1e-9)
    assert table.loc[["ridge", "mean"], "value"].isna().all()


def retell_decision(ensemble: oe.DecisionEnsemble, X: Floats, explanation: Explanation) -> list[Told]:
    """Patch the forecast of one row by hand: which cells it is in, round by round, and what was learned there."""
    sign, row, d = sign_of(ensemble), explanation.row, 3
    log = ensemble.decider_.forecaster.patch
    assert log is not None
    forecast = sign * coordinates(explanation.steps)[-2]
    claims = {name: (sign * X[row, at : at + d]).max() for name, at in (("first", 0), ("second", 3))}
    models = {name: (sign * X[row, at : at + d]).argmax() for name, at in (("first", 0), ("second", 3))}
    members = {**models, "planner": X[row, 6:].argmax()}
    found = []
    for (patch,) in log.rounds:
        order = [f"action[{j}] of {m} {between(feasible.Simplex(3), j, t)}" for m in members for j, t in grid(d)]
        order += [f"own action[{j}] {between(feasible.Simplex(3), j, t)}" for j, t in grid(d)]
        order += [f"{name} promises most" for name in claims] + ["nobody"]
        whole = {**members, "": forecast.argmax()}
        inside = {
            (f"action[{j}] of {m} " if m else f"own action[{j}] ")
            + f"{between(feasible.Simplex(3), j, 9 * (best == j))}"
            for m, best in whole.items()
            for j in range(d)
        } | {f"{max(claims, key=claims.__getitem__)} promises most"}
        here = [c for c, cell in enumerate(patch.cells) if order[cell] in inside]
        found += [(order[patch.cells[c]], int(patch.rows[c]), sign * patch.delta[c]) for c in here]
        forecast = forecast + patch.delta[here].sum(axis=0)
    np.testing.assert_allclose(sign * forecast, coordinates(explanation.steps)[-1], atol=1e-12)
    return found


def grid(d: int) -> list[tuple[int, int]]:
    return [(j, t) for j in range(d) for t in range(BUCKETS)]


@SENSES
@pytest.mark.parametrize("row", [*ROWS, 1, 2, 3])
def test_patches_are_those_of_the_cells_that_the_row_was_in(sense: str, row: int) -> None:
    ensemble, X = patched(sense)
    explanation = ensemble.explain(X, row)
    found = retell_decision(ensemble, X, explanation)
    assert found
    assert_patches(explanation, found)
    assert explanation.patches["round"].isin([1, 2]).all()


def test_a_bias_shows_as_the_patch_on_the_cell_where_it_is() -> None:
    ensemble, X = patched()
    row = int(np.flatnonzero(X[:, 3:6].argmax(axis=1) == 0)[0])
    largest = ensemble.explain(X, row).patches.iloc[0]
    assert largest["cell"] == "action[0] of second in [0.9, 1]"
    assert largest["y_0"] < 0


def test_where_only_one_member_predicts_nobody_promises_most() -> None:
    X, Y, models, policies = biased(N, "max")
    ensemble = oe.DecisionEnsemble(models[1:], policies, feasible.Simplex(3)).fit(X, Y)
    assert "patched" in ensemble.names_
    explanation = ensemble.explain(X, 3)
    assert_answers(ensemble, explanation, X)
    assert_added_up(explanation)
    best = {"second": int(X[3, 3:6].argmax()), "planner": int(X[3, 6:].argmax())}
    cells = {f"action[{j}] of {name} in [0.9, 1]" for name, j in best.items()}
    assert {cell for cell in explanation.patches["cell"] if cell.endswith("1]") and "of" in cell} == cells
    assert not explanation.patches["cell"].str.contains("promises").any()


def test_a_subgroup_is_named_by_its_column_and_value() -> None:
    X, Y, models, policies = biased(N, "max")
    names = [f"x{j}" for j in range(9)]
    table = pd.DataFrame(X, columns=names).assign(region=np.array(["north", "south"])[np.arange(N) % 2])
    members = [(name, oe.Columns([names[j] for j in columns.names])) for name, columns in [*models, *policies]]
    Y = Y + 0.8 * (table["region"] == "north").to_numpy()[:, None]
    ensemble = oe.DecisionEnsemble(members[:2], members[2:], feasible.Simplex(3), subgroups="region").fit(table, Y)
    for row, region in ((0, "north"), (1, "south")):
        explanation = ensemble.explain(table, row)
        cells = explanation.patches["cell"].tolist()
        assert f"region={region}" in cells
        assert sum(cell.startswith("region") for cell in cells) == 1
        assert_added_up(explanation)


@pytest.mark.parametrize(("winner", "seed"), [("planner", 0), ("m0", 6), ("ridge", 0)])
def test_whoever_wins_the_league_is_followed_for_the_reason_that_the_leaderboard_gives(winner: str, seed: int) -> None:
    ensemble, X = winning(winner, seed)
    why = ensemble.leaderboard_.set_index("candidate").loc[winner, "why"]
    margins = []
    for row in range(40):
        explanation = ensemble.explain(X, row)
        assert_answers(ensemble, explanation, X)
        assert_alternatives(ensemble, explanation, feasible.Simplex(3))
        assert explanation.reason == f"{winner} is followed in every row: it {why}"  # type: ignore[str-bytes-safe]
        believed = ensemble.record_.correct(coordinates(explanation.alternatives, "action") @ ensemble.predict(X)[row])
        np.testing.assert_allclose(explanation.alternatives["value"], believed, atol=1e-9)
        margins.append(explanation.margin)
    if winner == "m0":  # what assesses it is another's forecast, which may like another action better
        assert np.nanmin(margins) < 0
    if winner == "ridge":  # it is assessed by itself
        assert np.nanmin(margins) >= 0


def test_where_a_ridge_wins_its_prediction_is_the_last_step_and_no_patch_had_a_part_in_it() -> None:
    ensemble, X = winning("ridge", 0)
    explanation = ensemble.explain(X, 3)
    assert explanation.steps["stage"].tolist() == ["m0", "m1", "ridge"]
    assert explanation.patches.empty


# White box


def retell_white_box(
    ensemble: oe.WhiteBoxEnsemble, problem: Problem, row: int, group: int | None = None
) -> tuple[int, Floats, list[Told]]:
    """Correct one row of every model by hand; return who wins, its prediction, and the patches that moved it."""
    sign, omega, k = sign_of(ensemble), problem.omega, len(problem.P)
    h = problem.P[:, row].copy()
    d, found = h.shape[1], []
    for patches in ensemble.log_[0].rounds:
        actions = omega.argmax(sign * h)
        claims = [sign * sum(a * p) for a, p in zip(actions, h, strict=True)]
        winner = next(i for i, claim in enumerate(claims) if claim >= max(claims) - 1e-9 * abs(max(claims)))
        levels, moved = bucket(actions, omega, BUCKETS), h.copy()
        for patch in patches:
            here = {(j * BUCKETS + levels[patch.member, j]) * k + winner: j for j in range(d)}
            for cell, rows, delta in zip(patch.cells.tolist(), patch.rows.tolist(), patch.delta, strict=True):
                if cell in here:
                    where = between(omega, here[cell], levels[patch.member, here[cell]])
                    name = f"m{winner} followed, action[{here[cell]}] {where}"
                elif group is not None and cell == d * BUCKETS * k + group:
                    name = f"group={group}"
                else:
                    continue
                moved[patch.member] += delta
                found.append((patch.member, name, rows, delta))
        h = moved
    winner = int(np.argmax(sign * (omega.argmax(sign * h) * h).sum(axis=1)))
    return winner, h[winner], [entry for member, *entry in found if member == winner]  # type: ignore[misc]


@cache
def white(schedule: str, sense: str, omega: str = "polytope", groups: bool = False) -> tuple[Problem, Any]:
    problem = random_problem(1, n=200, omega=omega)
    options: dict[str, Any] = {"groups": lambda X: X % 3} if groups else {}
    ensemble = problem.white_box(schedule=schedule, sense=sense, max_rounds=400, **options)
    assert ensemble.n_rounds_ > 2
    return problem, ensemble


@SENSES
@SCHEDULES
@pytest.mark.parametrize("groups", [False, True])
def test_a_white_box_is_explained_by_the_patches_of_whom_it_follows(schedule: str, sense: str, groups: bool) -> None:
    problem, ensemble = white(schedule, sense, groups=groups)
    for row in (0, 7, 111):
        explanation = ensemble.explain(problem.X, row)
        winner, prediction, found = retell_white_box(ensemble, problem, row, row % 3 if groups else None)
        assert explanation.followed == f"m{winner}"
        assert explanation.steps["stage"].tolist() == [f"m{winner}", "corrected"]
        np.testing.assert_array_equal(coordinates(explanation.steps)[0], problem.P[winner, row])
        np.testing.assert_allclose(coordinates(explanation.steps)[1], prediction, atol=1e-12)
        assert_patches(explanation, found)
        assert_added_up(explanation)
        assert_answers(ensemble, explanation, problem.X)
        assert_alternatives(ensemble, explanation, problem.omega)


def test_rounds_are_counted_as_a_retrace_counts_them() -> None:
    problem, ensemble = white("round-robin", "max")
    explanation = ensemble.explain(problem.X, 7)
    member = ensemble.names_.index(explanation.followed)
    assert len(explanation.patches) > 3
    for after in explanation.patches["round"].tolist():
        looks = ensemble.retrace(problem.X, [after - 1, after])
        before, now = [look.predictions[member, 7].copy() for look in looks]
        assert not np.array_equal(before, now)


@SENSES
def test_a_models_value_is_its_corrected_self_assessment(sense: str) -> None:
    problem, ensemble = white("round-robin", sense)
    sign, members = sign_of(ensemble), ensemble.predict_members(problem.X)
    for row in (0, 7, 111):
        table = ensemble.explain(problem.X, row).alternatives.set_index("name")
        for model, h in enumerate(members[:, row]):
            action = problem.omega.argmax(sign * h[None])[0]
            np.testing.assert_allclose(table.loc[f"m{model}"].filter(like="action_").tolist(), action)
            assert table.loc[f"m{model}", "value"] == pytest.approx(float(action @ h), abs=1e-12)


@SENSES
def test_with_cross_validation_a_value_is_what_the_record_makes_of_it(sense: str) -> None:
    problem = random_problem(1, n=200)
    ensemble = problem.white_box(validation="cv", sense=sense)
    explanation, members = ensemble.explain(problem.X, 5), ensemble.predict_members(problem.X)[:, 5]
    actions = problem.omega.argmax(sign_of(ensemble) * members)
    believed = ensemble.record_.correct((actions * members).sum(axis=1))
    values = explanation.alternatives.set_index("name").loc[ensemble.names_, "value"]
    np.testing.assert_allclose(values, believed, atol=1e-9)
    assert_answers(ensemble, explanation, problem.X)
    assert_alternatives(ensemble, explanation, problem.omega)


@given(seed=st.integers(0, 30), row=st.integers(0, 59), sense=st.sampled_from(["max", "min"]), black=st.booleans())
@settings(max_examples=30)
def test_patches_always_add_up_to_what_was_corrected(seed: int, row: int, sense: str, black: bool) -> None:
    problem = random_problem(seed, omega=["polytope", "simplex", "vertices", "box"][seed % 4])
    make = problem.black_box if black else problem.white_box
    ensemble = make(schedule=["frozen", "joint", "round-robin"][seed % 3], sense=sense, max_rounds=30)
    explanation = ensemble.explain(problem.X, row)
    assert_added_up(explanation)
    assert_answers(ensemble, explanation, problem.X)
    assert_alternatives(ensemble, explanation, problem.omega)
    assert (explanation.alternatives["behind"] >= 0).all()


def test_a_patch_that_adds_nothing_is_not_told() -> None:
    problem = random_problem(1)
    exact = oe.WhiteBoxEnsemble([("exact", lookup(problem.Y))], problem.omega, schedule="round-robin", validation=None)
    exact.set_params(max_rounds=50).fit(problem.X, problem.Y)
    assert any(patches for patches in exact.log_[0].rounds)
    assert exact.explain(problem.X, 5).patches.empty


# Black box


def retell_black_box(
    ensemble: oe.BlackBoxEnsemble, problem: Problem, row: int, start: Floats, groups: list[Callable[[int], str]]
) -> tuple[Floats, list[Told]]:
    """Correct one row by hand, through all logs; ``groups`` names the row's group as each of them knows it."""
    sign, omega, h, found, d = sign_of(ensemble), problem.omega, start.copy(), list[Told](), len(start)
    for log, name_group in zip(ensemble.log_, groups, strict=True):
        sizes, group = log.layout.sizes, name_group(row)
        policies = (len(sizes) - d - 2) // d
        titles = [*(f"action[{{}}] of m{p}" for p in range(policies)), "own action[{}]"]
        for patch in [patch for patches in log.rounds for patch in patches]:
            own = omega.argmax(sign * h[None])[0]
            levels = bucket(np.stack([*problem.actions[:policies, row], own]), omega, BUCKETS)
            inside = {len(titles) * d * BUCKETS + group_number(group, sizes[d + 1]): group}
            for p, title in enumerate(titles):
                for j, level in enumerate(levels[p]):
                    inside[(p * d + j) * BUCKETS + level] = f"{title.format(j)} {between(omega, j, level)}"
            here = [c for c, cell in enumerate(patch.cells.tolist()) if cell in inside]
            found += [(inside[int(patch.cells[c])], int(patch.rows[c]), patch.delta[c]) for c in here]
            h = h + patch.delta[here].sum(axis=0)
    return h, found


def group_number(name: str, size: int) -> int:
    return size - 1 if name.endswith("unseen") else int(name.removeprefix("group="))


@SENSES
@SCHEDULES
def test_a_black_box_is_explained_by_its_own_and_every_policys_level_sets(schedule: str, sense: str) -> None:
    problem = random_problem(2, n=200)
    ensemble = problem.black_box(schedule=schedule, sense=sense, max_rounds=300, groups=lambda X: X % 2)
    assert ensemble.n_rounds_ > 1
    for row in (0, 7, 111):
        explanation = ensemble.explain(problem.X, row)
        start = problem.Y.mean(axis=0)
        h, found = retell_black_box(ensemble, problem, row, start, [lambda row: f"group={row % 2}"])
        assert explanation.steps["stage"].tolist() == ["mean", "corrected"]
        np.testing.assert_allclose(coordinates(explanation.steps), [start, h], atol=1e-12)
        assert_patches(explanation, found)
        assert_added_up(explanation)
        assert_answers(ensemble, explanation, problem.X)
        assert_alternatives(ensemble, explanation, problem.omega)
        values = explanation.alternatives.set_index("name")["value"]
        for policy in range(3):
            assert values[f"m{policy}"] == pytest.approx(float(problem.actions[policy, row] @ h), abs=1e-9)


def test_a_black_box_that_begins_with_a_model_says_so() -> None:
    problem = random_problem(2)
    ensemble = problem.black_box(init=problem.models[0][1], max_rounds=20)
    explanation = ensemble.explain(problem.X, 4)
    assert explanation.steps["stage"].tolist() == ["init", "corrected"]
    np.testing.assert_array_equal(coordinates(explanation.steps)[0], problem.P[0, 4])
    assert_added_up(explanation)


def test_an_extension_is_explained_with_what_it_went_on_from() -> None:
    """The second log has a policy and a group that the first does not know."""
    problem = random_problem(3, n=120)
    rows, groups = np.arange(120), np.arange(120) // 50
    Y = problem.Y + 2.0 * (groups == 2)[:, None]
    ensemble = oe.BlackBoxEnsemble(problem.policies[:2], problem.omega, validation=None, groups=lambda X: groups[X])
    ensemble.fit(rows[:100], Y[:100]).extend(policies=problem.policies[2:], X=rows[100:], Y=Y[100:])
    assert [len(log.rounds) > 0 for log in ensemble.log_] == [True, True]
    known = [lambda row: f"group={row // 50}" if row < 100 else "group unseen", lambda row: f"group={row // 50}"]
    for row in (3, 60, 110):
        explanation = ensemble.explain(problem.X, row)
        _, found = retell_black_box(ensemble, problem, row, Y[:100].mean(axis=0), known)
        # the same words in two logs are two cells
        assert set(explanation.patches["cell"]) == {name for name, _, delta in found if delta.any()}
        assert explanation.patches["times"].sum() == len(found)
        assert_added_up(explanation)
        assert_answers(ensemble, explanation, problem.X)
    assert any("group=2" in cell for cell in ensemble.explain(problem.X, 110).patches["cell"])


def test_conditional_cells_are_named_by_both_of_their_parts() -> None:
    problem = random_problem(2, n=100, omega="simplex")
    ensemble = problem.black_box(conditional=True, max_rounds=3)
    explanation = ensemble.explain(problem.X, 4)
    assert_added_up(explanation)
    best = {f"m{i}": int(actions[4].argmax()) for i, actions in enumerate(problem.actions)}
    pairs = [cell.split(", ") for cell in explanation.patches["cell"].str.replace(r" in \[.*?[\])]", "", regex=True)]
    both = [pair for pair in pairs if len(pair) == 2]
    assert both
    assert f"action[{best['m0']}] of m0" in {part for pair in both for part in pair}


# How many rows stand behind a patch


@SCHEDULES
@pytest.mark.parametrize("black", [False, True])
def test_a_patch_knows_how_many_rows_its_cells_had(schedule: str, black: bool) -> None:
    problem = random_problem(5, n=150)
    buckets = Buckets(problem.omega.lower, problem.omega.upper, BUCKETS)
    room = np.concatenate([problem.actions, np.empty((1, 150, 3))]) if black else None
    start = np.zeros((1, 150, 3)) if black else problem.P

    def fresh() -> Situation:
        return Situation(start.copy(), problem.omega, buckets, actions=None if room is None else room.copy())

    layout = black_box(buckets, 3) if black else white_box(buckets, 3)
    log = debias(fresh(), problem.Y, layout, schedule=schedule, alpha=0.02, max_rounds=120).log
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
    view, buckets = View(predictions, actions, labels.std(axis=0)), Buckets(omega.lower, omega.upper, BUCKETS)
    log = learn_patch(view, signal, labels, omega, buckets, Sampling(), folds(n, random_state=0)).log
    masks = [m for a in (*actions, omega.argmax(signal)) for m in level_set_masks(a, omega, BUCKETS)]
    claims = np.stack([(a * p).sum(axis=1) for a, p in zip(actions, predictions, strict=True)])
    masks += [claims.argmax(axis=0) == model for model in range(2)]
    ((patch,), *_) = log.rounds
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


def saved(kind: str) -> tuple[Any, Any, dict[str, Any]]:
    if kind == "decision":
        return *patched(), {}
    problem = random_problem(1, n=200)
    if kind == "white":
        return white("round-robin", "max")[1], problem.X, {"models": problem.models}
    return problem.black_box(max_rounds=20), problem.X, {"policies": problem.policies}


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


# What is asked, and how it is said


def ensembles() -> list[tuple[Any, Any]]:
    problem, ensemble = white("round-robin", "max")
    return [patched(), (ensemble, problem.X), saved("black")[:2]]


@pytest.mark.parametrize("row", [-1, 10_000, 1.0, True, "3", None, np.nan])
def test_a_row_that_is_not_there_is_refused(row: Any) -> None:
    for ensemble, X in ensembles():
        with pytest.raises(InputError, match=rf"row must be a whole number from 0 to {len(X) - 1}, as X has .* got "):
            ensemble.explain(X, row)


def test_of_no_rows_none_can_be_explained() -> None:
    for ensemble, X in ensembles():
        with pytest.raises(InputError, match="X has no rows, and so none to explain"):
            ensemble.explain(X[:0])


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "a"], "abc", ["a", "b", "c", "d"], 3])
def test_names_of_coordinates_must_be_one_for_each(names: Any) -> None:
    for ensemble, X in ensembles():
        with pytest.raises(InputError, match="coordinates must be 3 distinct names, one for each coordinate"):
            ensemble.explain(X, 0, names)


def test_only_a_fitted_ensemble_explains() -> None:
    problem = random_problem(0)
    for ensemble in (
        oe.DecisionEnsemble(problem.models, feasible=problem.omega),
        oe.WhiteBoxEnsemble(problem.models, problem.omega),
        oe.BlackBoxEnsemble(problem.policies, problem.omega),
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            ensemble.explain(problem.X)


def test_coordinates_can_be_named() -> None:
    for ensemble, X in ensembles():
        numbered, named = ensemble.explain(X, 2), ensemble.explain(X, 2, ["north", "south", "far-east"])
        assert list(named.steps) == ["stage", "y_north", "y_south", "y_far-east"]
        assert list(named.alternatives)[4:] == ["action_north", "action_south", "action_far-east"]
        assert list(named.patches)[4:] == ["y_north", "y_south", "y_far-east"]
        np.testing.assert_array_equal(coordinates(named.patches), coordinates(numbered.patches))
        words = zip(named.patches["cell"], numbered.patches["cell"], strict=True)
        renamed = ((0, "north"), (1, "south"), (2, "far-east"))
        for ours, theirs in words:
            for number, name in renamed:
                theirs = theirs.replace(f"[{number}]", f"[{name}]")
            assert ours == theirs
        assert "far-east" in str(named)


def test_asking_changes_nothing_and_gives_the_same_twice() -> None:
    for ensemble, X in ensembles():
        before, first = ensemble.answer(X), ensemble.explain(X, 9)
        second, after = ensemble.explain(X, 9), ensemble.answer(X)
        np.testing.assert_array_equal(before.predictions, after.predictions)
        for name in ("alternatives", "steps", "patches"):
            pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name), check_exact=True)


def test_a_row_is_explained_alike_alone_and_among_others() -> None:
    for ensemble, X in ensembles():
        whole, alone = ensemble.explain(X, 9), ensemble.explain(X[9:10])
        assert alone.row == 0
        assert alone.reason == whole.reason
        for name in ("alternatives", "steps", "patches"):
            pd.testing.assert_frame_equal(getattr(alone, name), getattr(whole, name), rtol=1e-9, atol=1e-12)


def test_the_reason_names_the_next_best_and_by_how_much() -> None:
    for sense, value, side in (("max", "value", "above"), ("min", "cost", "below")):
        ensemble, X = patched(sense)
        explanation = ensemble.explain(X, 0)
        others = explanation.alternatives.query("not same and behind == behind")
        best = others.iloc[int(others["behind"].to_numpy().argmin())]
        said = f"its calibrated {value} is {best['behind']:.3g} {side} {best['name']}, the next"
        assert explanation.reason == f"{explanation.followed} is followed: {said}"


def test_where_there_is_no_alternative_there_is_no_margin() -> None:
    problem = random_problem(1, n=40)
    alone = oe.WhiteBoxEnsemble(problem.models[:1], problem.omega, validation=None, max_rounds=5)
    explanation = alone.fit(problem.X, problem.Y).explain(problem.X)
    assert math.isnan(explanation.margin)
    assert explanation.reason == "m0 is followed: there is nobody else"
    one = feasible.Vertices([[0.2, 0.3, 0.4]])
    agreed = oe.WhiteBoxEnsemble(problem.models, one, validation=None, max_rounds=5).fit(problem.X, problem.Y)
    explanation = agreed.explain(problem.X)
    assert math.isnan(explanation.margin)
    assert explanation.reason == f"{explanation.followed} is followed: all others it weighs would do the same"


@SENSES
def test_a_tie_is_said_to_be_one(sense: str) -> None:
    omega = feasible.Simplex(2)
    P = np.array([[1.0, 0.0], [0.0, 1.0]]) * (1 if sense == "max" else -1)
    models = [("left", lambda X: np.tile(P[0], (len(X), 1))), ("right", lambda X: np.tile(P[1], (len(X), 1)))]
    ensemble = oe.WhiteBoxEnsemble(models, omega, sense=sense, validation=None, max_rounds=0)
    explanation = ensemble.fit(np.zeros((4, 2)), np.ones((4, 2))).explain(np.zeros((1, 2)))
    word = "value is no lower" if sense == "max" else "cost is no higher"
    assert explanation.reason == f"left is followed: its corrected {word} than that of right, the next"
    assert explanation.margin == 0


def test_text_has_the_sentence_the_action_and_every_table() -> None:
    for ensemble, X in ensembles():
        explanation = ensemble.explain(X, 2)
        text = str(explanation)
        lines = text.splitlines()
        assert lines[0] == f"row 2: {explanation.reason}"
        assert lines[1].startswith(f"promised {explanation.promised:.4g}".replace("-", "−"))
        for name in [*ensemble.names_, *explanation.steps["stage"], *explanation.patches["cell"].head(10)]:
            assert name in text
        assert max(map(len, lines)) <= 120
        assert repr(explanation) == f"Explanation(row=2, {explanation.reason!r})"


def test_html_is_escaped() -> None:
    problem = random_problem(1, n=40)
    models = [("<b>bold</b>", problem.models[0][1]), ("a & b", problem.models[1][1])]
    ensemble = oe.WhiteBoxEnsemble(models, problem.omega, validation=None, max_rounds=20).fit(problem.X, problem.Y)
    html = ensemble.explain(problem.X, 1, ["<i>", "y", "z"])._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "a &amp; b" in html
    assert html.count("<table") == html.count("</table>") == 3


def test_of_many_coordinates_the_text_shows_those_that_matter() -> None:
    rng = np.random.default_rng(0)
    P, d = rng.normal(size=(2, 60, 12)), 12
    models = [(f"m{i}", lookup(p)) for i, p in enumerate(P)]
    omega = feasible.Box(np.zeros(d), np.linspace(1, 3, d))
    ensemble = oe.WhiteBoxEnsemble(models, omega, validation=None, max_rounds=1, sense="max")
    explanation = ensemble.fit(np.arange(60), P[0] + 3.0).explain(np.arange(60), 0)
    text = str(explanation)
    assert explanation.steps.shape[1] == d + 1
    largest = np.argsort(-explanation.action, kind="stable")[:6]
    for j in range(d):
        assert (f"y_{j} " in text.replace("\n", " ")) == (j in largest)
    assert "(of 12 coordinates the 6 largest of the action)" in text
    more = int((explanation.action != 0).sum()) - 10
    assert more > 0
    assert f" and {more} more" in text


def test_where_nothing_is_done_that_is_said() -> None:
    omega = feasible.Box(np.zeros(2), np.ones(2))
    ensemble = oe.WhiteBoxEnsemble([("gloomy", lambda X: -np.ones(X.shape))], omega, validation=None, max_rounds=0)
    text = str(ensemble.fit(np.zeros((4, 2)), -np.ones((4, 2))).explain(np.zeros((1, 2))))
    assert "promised 0 of doing nothing" in text
    assert text.splitlines()[-1] == "No patch moved the prediction"


def test_tables_can_be_written_as_json() -> None:
    ensemble, X = patched()
    explanation = ensemble.explain(X, 1)
    for table in (explanation.alternatives, explanation.steps, explanation.patches):
        assert len(json.loads(table.to_json(orient="records"))) == len(table)


def test_files_hold_the_numbers_of_rows_beside_the_patches(tmp_path: Path) -> None:
    ensemble, _, _ = saved("white")
    ensemble.save(tmp_path / "ensemble.oe")
    with zipfile.ZipFile(tmp_path / "ensemble.oe") as archive, archive.open("arrays.npz") as packed:
        arrays = np.load(io.BytesIO(packed.read()))
        np.testing.assert_array_equal(arrays["log0/rows"], np.concatenate([p.rows for p in all_patches(ensemble)]))
