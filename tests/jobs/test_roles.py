"""Which column plays which part: found in a real table, kept with the ensemble."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble import Columns
from optensemble.exceptions import InputError
from optensemble.jobs.job import Job, read_job
from optensemble.jobs.roles import Roles, find_labels, find_members, find_roles
from tests.jobs.worlds import LABELS, MODELS, POLICIES, make_rows, write_job

COLUMNS = list(make_rows(3).columns)
NAMES = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4, unique=True).map(tuple)
ONE = st.none() | st.text(min_size=1, max_size=5)


def job_of(folder: Path, **changes: dict[str, Any] | None) -> Job:
    return read_job(write_job(folder, **changes))


def members_of(job: Job) -> dict[str, dict[str, Columns]]:
    return find_members(job, find_roles(job, COLUMNS, "t.csv"), COLUMNS, "t.csv")


@given(
    roles=st.builds(
        Roles, labels=NAMES, coordinates=NAMES, id=ONE, time=ONE, groups=ONE, subgroups=st.just(()) | NAMES, weight=ONE
    )
)
def test_roles_survive_a_file(roles: Roles) -> None:
    assert Roles.of_plain(json.loads(json.dumps(roles.as_plain()))) == roles


@given(groups=ONE, subgroups=st.just(()) | NAMES)
def test_roles_in_a_file_of_an_earlier_version_keep_their_meaning(
    groups: str | None, subgroups: tuple[str, ...]
) -> None:
    old = {"labels": ["y"], "coordinates": ["y"], "id": None, "time": "t", "clusters": groups, "groups": [*subgroups]}
    assert Roles.of_plain(old) == Roles(("y",), ("y",), None, "t", groups, subgroups)


def test_a_pattern_of_labels_names_the_coordinates_by_its_star(tmp_path: Path) -> None:
    job = job_of(
        tmp_path, data={"id": "day", "time": "date", "subgroups": ["region"], "groups": "customer", "weight": "b_0"}
    )
    found = find_roles(job, COLUMNS[::-1], "t.csv")
    assert found == Roles(tuple(LABELS), ("0", "1", "2"), "day", "date", "customer", ("region",), "b_0")


def test_a_list_of_labels_keeps_its_order(tmp_path: Path) -> None:
    found = find_roles(job_of(tmp_path, data={"labels": ["y_2", "y_0"]}), COLUMNS, "t.csv")
    assert (found.labels, found.coordinates) == (("y_2", "y_0"), ("2", "0"))
    assert find_labels("y_1", COLUMNS, "--labels", "t.csv") == (("y_1",), ("y_1",))


def test_members_follow_the_labels(tmp_path: Path) -> None:
    assert members_of(job_of(tmp_path)) == {"models": MODELS, "policies": POLICIES}
    other = job_of(tmp_path, data={"labels": ["y_2", "y_0"]}, models={"b": ["b_0", "b_2"]})
    assert members_of(other)["models"] == {"a": Columns(["a_2", "a_0"]), "b": Columns(["b_0", "b_2"])}
    assert members_of(other)["policies"] == {"plan": Columns(["plan_2", "plan_0"])}


def test_a_column_that_matches_two_patterns_belongs_to_the_longer_one(tmp_path: Path) -> None:
    columns = ["y_1", "y_0", "y_hat_0", "y_hat_1", "y_hat_plan_0", "y_hat_plan_1"]
    members: dict[str, Any] = {"models": {"a": "y_hat_*", "b": None}, "policies": {"plan": "y_hat_plan_*"}}
    job = job_of(tmp_path, **members)
    roles = find_roles(job, columns, "t.csv")
    assert (roles.labels, roles.coordinates) == (("y_0", "y_1"), ("0", "1"))
    found = find_members(job, roles, columns, "t.csv")
    assert found["models"]["a"] == Columns(["y_hat_0", "y_hat_1"])
    assert found["policies"]["plan"] == Columns(["y_hat_plan_0", "y_hat_plan_1"])


def test_a_single_label_without_a_star_takes_the_only_column_of_a_pattern(tmp_path: Path) -> None:
    columns = ["demand", "forecast_x", "other_x", "other_y"]
    job = job_of(tmp_path, data={"labels": "demand"}, models={"a": "forecast_*", "b": None}, policies=None)
    roles = find_roles(job, columns, "t.csv")
    assert find_members(job, roles, columns, "t.csv")["models"] == {"a": Columns(["forecast_x"])}
    job = job_of(tmp_path, data={"labels": "demand"}, models={"a": "other_*", "b": None}, policies=None)
    with pytest.raises(InputError, match=r"'other_\*' finds no column 'other_demand'"):
        find_members(job, roles, columns, "t.csv")


@pytest.mark.parametrize("part", ["id", "time", "groups", "subgroups", "weight"])
def test_a_single_column_that_is_not_there_is_told_with_its_part(part: str, tmp_path: Path) -> None:
    job = job_of(tmp_path, data={part: "regoin"})
    message = f"[data] {part} of {job.path}: t.csv has no column 'regoin'. Did you mean 'region'?"
    with pytest.raises(InputError, match=re.escape(message)):
        find_roles(job, COLUMNS, "t.csv")


def test_labels_that_are_not_there_are_told(tmp_path: Path) -> None:
    job = job_of(tmp_path, data={"labels": ["y_0", "y1"]})
    with pytest.raises(InputError, match=r"\[data\] labels: t\.csv has no column 'y1'\. Did you mean 'y_1'\?"):
        find_roles(job, COLUMNS, "t.csv")
    with pytest.raises(InputError, match=r"\[data\] labels, in t\.csv: no column matches 'yy_\*'. Did you mean 'y_\*'"):
        find_roles(job_of(tmp_path, data={"labels": "yy_*"}), COLUMNS, "t.csv")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a_0", "a_1"], "[models] a names 2 columns, but there are 3 labels. Give one for each, in their order."),
        (["a_0", "a_1", "a2"], "[models] a: t.csv has no column 'a2'. Did you mean 'a_2'?"),
        ("aa_*", "[models] a, in t.csv: no column matches 'aa_*'. Did you mean 'a_*'?"),
        ("*", "[models] a, in t.csv: '*' finds no column '0'"),
        ("a*_*", "[models] a, in t.csv: the pattern 'a*_*' must have exactly one star"),
    ],
    ids=str,
)
def test_members_that_are_not_there_are_told(given: Any, message: str, tmp_path: Path) -> None:
    job = job_of(tmp_path, models={"a": given})
    with pytest.raises(InputError, match=re.escape(f"{job.path}: {message}")):
        members_of(job)


@pytest.mark.parametrize("given", ["y_*", ["y_0", "y_1", "a_2"]], ids=str)
@pytest.mark.parametrize(("section", "name"), [("models", "a"), ("policies", "plan")])
def test_a_member_does_not_look_at_the_labels(section: str, name: str, given: Any, tmp_path: Path) -> None:
    """What came true is not known when decisions are taken."""
    with pytest.raises(InputError, match=re.escape(f"[{section}] {name}")):
        members_of(job_of(tmp_path, **{section: {name: given}}))
