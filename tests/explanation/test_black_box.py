"""A decision of a BlackBoxEnsemble explained by level sets, its own and those of every policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

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
)
from tests.problems import Floats, Problem, bucket, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


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
    ensemble = problem.black_box(schedule=schedule, sense=sense, max_rounds=300, subgroups=lambda X: X % 2)
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
    ensemble = oe.BlackBoxEnsemble(problem.policies[:2], problem.omega, validation=None, subgroups=lambda X: groups[X])
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
