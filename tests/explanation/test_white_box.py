"""A decision of a WhiteBoxEnsemble explained, and its patches told round by round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optensemble as oe
from tests.explanation.retold import (
    BUCKETS,
    SCHEDULES,
    SENSES,
    Told,
    assert_added_up,
    assert_alternatives,
    assert_answers,
    assert_patches,
    between,
    coordinates,
    sign_of,
    white,
)
from tests.problems import Floats, Problem, bucket, lookup, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_a_patch_that_adds_nothing_is_not_told() -> None:
    problem = random_problem(1)
    exact = oe.WhiteBoxEnsemble([("exact", lookup(problem.Y))], problem.omega, schedule="round-robin", validation=None)
    exact.set_params(max_rounds=50).fit(problem.X, problem.Y)
    assert any(patches for patches in exact.log_[0].rounds)
    assert exact.explain(problem.X, 5).patches.empty
