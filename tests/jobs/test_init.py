"""A job file to begin with: what is guessed of a table, and a file that can be checked as it is."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from optensemble.exceptions import OptEnsembleError
from optensemble.jobs.check import summarise_job
from optensemble.jobs.fit import prepare
from optensemble.jobs.init import JobDraft, find_families, guess, job_text, relative_to, write_job
from optensemble.jobs.job import read_job
from optensemble.jobs.sets import SET_KINDS
from tests.jobs.worlds import LABELS, STARS, make_rows, write_table

COLUMNS = list(make_rows(3).columns)
MORE_IS_NEEDED = {"risk_budget", "shortest_path", "vertices", "product"} | {"by_key", "with_cost"} & set(SET_KINDS)
DRAFT = JobDraft("history.csv", "y_*", {"a": "a_*", "b": "b_*"}, {"plan": "plan_*"}, "simplex", 3)


def draft(**changes: Any) -> JobDraft:
    return JobDraft(**{**vars(DRAFT), **changes})


# Guesses


@given(seed=st.integers(0, 99))
def test_families_are_columns_of_the_same_stars_in_any_order(seed: int) -> None:
    found = find_families(random.Random(seed).sample(COLUMNS, len(COLUMNS)))
    assert {family.pattern for family in found} == {"y_*", "a_*", "b_*", "plan_*"}
    assert all(family.stars == STARS for family in found)


@pytest.mark.parametrize(
    ("columns", "patterns"),
    [
        (["y0", "y1", "a0", "a1", "note"], ["y*", "a*"]),
        (["price_north", "price_south", "ours_north", "ours_south", "is_holiday"], ["price_*", "ours_*"]),
        (["price.1", "price.2", "their model.1", "their model.2"], ["price.*", "their model.*"]),
        (["y_9", "y_10", "a_10", "a_9"], ["y_*", "a_*"]),
        (["day", "note"], []),
        ([], []),
    ],
    ids=str,
)
def test_families_are_found_by_their_last_word_or_number(columns: list[str], patterns: list[str]) -> None:
    assert {family.pattern for family in find_families(columns)} == set(patterns)


def test_parts_are_guessed_by_name() -> None:
    found = guess([*(name for name in COLUMNS if name != "day"), "row_id"])
    assert (found.labels, found.time, found.id) == ("y_*", "date", "row_id")
    assert found.models == {"a": "a_*", "b": "b_*"}
    assert found.policies == {"plan": "plan_*"}


@pytest.mark.parametrize(
    ("times", "guessed"), [((), "Date"), (("day",), "day"), (("week", "day"), "week")], ids=["none", "one", "two"]
)
def test_a_column_that_rows_are_sorted_by_is_the_time(times: tuple[str, ...], guessed: str) -> None:
    assert guess(["day", "week", "Date", "y_0", "a_0"], times).time == guessed


@pytest.mark.parametrize("name", ["y", "actual", "Target", "realised", "outcome"])
def test_labels_are_known_by_their_usual_names(name: str) -> None:
    assert guess([f"{name}_0", f"{name}_1", "x_0", "x_1"]).labels == f"{name}_*"


@pytest.mark.parametrize("name", ["plan", "action_of_ops", "Decision", "planner", "policy_a"])
def test_policies_are_known_by_their_usual_names(name: str) -> None:
    found = guess(["y_0", "y_1", f"{name}_0", f"{name}_1"])
    assert list(found.policies.values()) == [f"{name}_*"]
    assert found.models == {}


def test_where_there_is_no_guess_there_is_none() -> None:
    found = guess(["price_0", "price_1", "x_0", "x_1"])
    assert (found.labels, found.id, found.time) == (None, None, None)
    assert set(found.models.values()) == {"price_*", "x_*"}


# The file


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(
    fit=NAMES,
    labels=NAMES,
    members=st.dictionaries(NAMES, NAMES, min_size=2, max_size=4),
    columns=st.tuples(*[st.none() | NAMES] * 4),
    kind=st.sampled_from(list(SET_KINDS)),
    dimension=st.integers(1, 40),
    sense=st.sampled_from(["max", "min"]),
)
@example("a\x7fb", 'y"*', {"\\": "\n", "ä b": "'"}, ("\t", None, "#", "="), "simplex", 2, "min")
def test_what_was_answered_is_what_the_file_says(
    fit: str,
    labels: str,
    members: dict[str, str],
    columns: tuple[str | None, ...],
    kind: str,
    dimension: int,
    sense: str,
) -> None:
    models = dict(list(members.items())[:1])
    policies = dict(list(members.items())[1:])
    named = dict(zip(("id", "time", "groups", "subgroups"), columns, strict=True))
    text = job_text(JobDraft(fit, labels, models, policies, kind, dimension, sense, **named))
    found = tomllib.loads(text)
    assert found["data"] == {"fit": fit, "labels": labels, **{name: value for name, value in named.items() if value}}
    assert (found["models"], found["policies"]) == (models, policies)
    assert found["feasible"]["kind"] == kind
    assert found["ensemble"] == {"sense": sense}


@pytest.mark.parametrize("kind", SET_KINDS)
def test_the_file_says_what_may_be_changed(kind: str) -> None:
    text = job_text(draft(kind=kind))
    for other in SET_KINDS:
        assert other in text
    for key in ("id", "time", "groups", "subgroups", "seed"):
        assert f"# {key} = " in text


@pytest.mark.parametrize("kind", [kind for kind in SET_KINDS if kind not in MORE_IS_NEEDED])
def test_a_new_file_passes_a_check_as_it_is(kind: str, tmp_path: Path) -> None:
    write_table(make_rows(), tmp_path / "history.csv")
    columns: dict[str, Any] = {"id": "day", "time": "date", "groups": "customer", "subgroups": "region"}
    policies = {"plan": "plan_*"} if kind in ("simplex", "box", "polytope", "knapsack") else {}
    write_job(tmp_path / "job.toml", job_text(draft(kind=kind, policies=policies, **columns)))
    found = summarise_job(prepare(read_job(tmp_path / "job.toml")))
    assert [pair["label"] for pair in found.pairs] == LABELS
    assert found.enough


@pytest.mark.parametrize("kind", sorted(MORE_IS_NEEDED))
def test_a_new_file_whose_set_needs_more_says_so(kind: str, tmp_path: Path) -> None:
    write_table(make_rows(), tmp_path / "history.csv")
    write_job(tmp_path / "job.toml", job_text(draft(kind=kind)))
    with pytest.raises(OptEnsembleError, match=r"job\.toml: \[feasible\]"):
        prepare(read_job(tmp_path / "job.toml"))


@pytest.mark.parametrize("d", [1, 2, 5, 12, 13, 24])
@pytest.mark.parametrize("kind", ["polytope", "knapsack", "assignment"])
def test_arguments_to_fill_in_are_of_the_right_size(kind: str, d: int, tmp_path: Path) -> None:
    found = tomllib.loads(job_text(draft(kind=kind, dimension=d)))["feasible"]
    if kind == "knapsack":
        assert len(found["weights"]) == d
    if kind == "assignment":
        assert found["rows"] * found["columns"] == d


# Place of the file


def test_a_table_is_named_as_seen_from_the_job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert relative_to("history.csv", Path("job.toml")) == "history.csv"
    assert relative_to("data/day-*.csv", Path("jobs/job.toml")) == "../data/day-*.csv"
    assert relative_to(str(tmp_path / "history.csv"), Path("jobs/job.toml")) == "../history.csv"
