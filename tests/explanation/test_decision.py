"""A decision of a DecisionEnsemble explained: every number found again by plain loops over one row."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.explanation.explanation import Explanation
from tests.explanation.retold import (
    BUCKETS,
    SENSES,
    N,
    Told,
    assert_added_up,
    assert_alternatives,
    assert_answers,
    assert_patches,
    between,
    biased,
    coordinates,
    patched,
    sign_of,
)
from tests.problems import Floats, lookup, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
ROWS = (0, 7, 411)


def step(explanation: Explanation, stage: str) -> Floats:
    (found,) = coordinates(explanation.steps[explanation.steps["stage"] == stage])
    return np.asarray(found)


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
    """An ensemble whose leaderboard another candidate has won; by chance, so seeds are tried until it happens."""
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
def test_steps_lead_from_the_models_predictions_to_the_final_prediction(sense: str, row: int) -> None:
    ensemble, X = patched(sense)
    explanation = ensemble.explain(X, row)
    stages = explanation.steps["stage"].tolist()
    assert stages == ["first", "second", *(name for name in ensemble.names_[3:] if name not in ("ridge", "mean"))]
    np.testing.assert_array_equal(step(explanation, "first"), X[row, :3])
    np.testing.assert_array_equal(step(explanation, "second"), X[row, 3:6])
    np.testing.assert_allclose(step(explanation, "average"), (X[row, :3] + X[row, 3:6]) / 2, rtol=1e-12)


@SENSES
@pytest.mark.parametrize("row", ROWS)
def test_every_alternative_takes_the_best_action_by_its_own_prediction(sense: str, row: int) -> None:
    ensemble, X = patched(sense)
    explanation, sign = ensemble.explain(X, row), sign_of(ensemble)
    table = explanation.alternatives.set_index("name")
    for stage in explanation.steps["stage"].tolist():
        best = np.eye(3)[int((sign * step(explanation, stage)).argmax())]
        np.testing.assert_array_equal(coordinates(table.loc[[stage]], "action")[0], best)
    np.testing.assert_array_equal(coordinates(table.loc[["planner"]], "action")[0], X[row, 6:])


@SENSES
@pytest.mark.parametrize("row", ROWS)
def test_values_are_calibrated_expectations_of_the_candidates(sense: str, row: int) -> None:
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


def test_with_one_model_there_is_no_winner_cell() -> None:
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
def test_the_reason_of_a_decision_is_that_of_the_leaderboard(winner: str, seed: int) -> None:
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
