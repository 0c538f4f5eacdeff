"""Verdicts in worlds of which the right one is known: few are wrong."""

from __future__ import annotations

from functools import cache

import pytest
from threadpoolctl import threadpool_limits

from optensemble.evaluation.verdict import Grade
from tests.theorems.graded_worlds import WORLDS, GradedWorld, grades

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

SEEDS = range(8)
MOST_WRONG = 5  # of 56: one in twenty, and two standard deviations of that


@cache
def graded(world: GradedWorld) -> list[Grade]:
    with threadpool_limits(1):
        return grades(world, SEEDS)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.grade}, {world.later} rows")
def test_the_right_grade_is_found_in_most_worlds(world: GradedWorld) -> None:
    assert graded(world).count(world.grade) > len(SEEDS) / 2


def test_about_one_in_twenty_grades_is_wrong_at_most() -> None:
    wrong = [(world.grade, grade) for world in WORLDS for grade in graded(world) if grade is not world.grade]
    assert len(wrong) <= MOST_WRONG, wrong
