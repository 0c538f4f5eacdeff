"""Verdicts in worlds of which the right one is known: at most one in twenty is wrong."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_limits

from tests.theorems.graded_worlds import WORLDS, GradedWorld, grades

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

SEEDS, MOST_WRONG = range(8), 2  # a promise is broken by chance once in twenty


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.grade}, {world.later} rows")
def test_the_right_grade_is_found(world: GradedWorld) -> None:
    with threadpool_limits(1):
        found = grades(world, SEEDS)
    wrong = [grade for grade in found if grade is not world.grade]
    assert len(wrong) <= MOST_WRONG, wrong
