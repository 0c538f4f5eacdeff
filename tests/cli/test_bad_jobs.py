"""Bad jobs through the real command line: columns, keys and feasible sets that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import Line
from tests.cli.refusals import AUDIT, BOTH, DECIDE, FAILED, LATER, NEW, REPORT, WRONG_USE, refused, with_value
from tests.jobs.worlds import write_job, write_table


@BOTH
@pytest.mark.parametrize(
    ("changes", "place", "meant"),
    [
        ({"data": {"labels": "yy_*"}}, "[data] labels", "'y_*'"),
        ({"data": {"labels": ["y_0", "y_1", "y2"]}}, "[data] labels", "'y_2'"),
        ({"models": {"a": "aa_*"}}, "[models] a", "'a_*'"),
        ({"models": {"a": ["a_0", "a_1", "a2"]}}, "[models] a", "'a_2'"),
        ({"policies": {"plan": "paln_*"}}, "[policies] plan", "'plan_*'"),
        ({"data": {"id": "dya"}}, "[data] id", "'day'"),
        ({"data": {"time": "dat"}}, "[data] time", "'date'"),
        ({"data": {"subgroups": "regoin"}}, "[data] subgroups", "'region'"),
        ({"data": {"subgroups": ["region", "custmer"]}}, "[data] subgroups", "'customer'"),
        ({"data": {"groups": "custmer"}}, "[data] groups", "'customer'"),
    ],
    ids=str,
)
def test_a_misspelt_column_of_a_job(
    command: tuple[str, ...], changes: dict[str, Any], place: str, meant: str, line: Line, folder: Path
) -> None:
    write_job(folder, **changes)
    refused(line, folder, command, WRONG_USE, "job.toml", "history.csv", place, f"Did you mean {meant}?")


@pytest.mark.parametrize(
    ("command", "column", "name"),
    [(DECIDE, "a_0", "new.csv"), (DECIDE, "day", "new.csv"), (AUDIT, "y_1", "later.csv"), (REPORT, "y_1", "later.csv")],
    ids=str,
)
def test_a_table_without_a_column_that_is_needed(
    command: tuple[str, ...], column: str, name: str, line: Line, folder: Path
) -> None:
    rows = NEW if name == "new.csv" else LATER
    write_table(rows.rename(columns={column: column.replace("_", "") + "x"}), folder / name)
    refused(line, folder, command, WRONG_USE, name, f"no column {column!r}")


@BOTH
@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"modles": {"a": "a_*"}}, ["section 'modles'", "Did you mean 'models'?"]),
        ({"data": {"lables": "y_*"}}, ["[data] 'lables'", "Did you mean 'labels'?"]),
        ({"ensemble": {"sede": 1}}, ["[ensemble]", "'sede'", "Did you mean 'seed'?"]),
        ({"ensemble": {"kind": "decison"}}, ["[ensemble] kind", "Did you mean 'decision'?"]),
        ({"data": {"fit": None}}, ["[data] lacks 'fit'"]),
        ({"feasible": None}, ["no section [feasible]"]),
        ({"models": {"a": 3}}, ["[models] a", "got 3"]),
        ({"ensemble": {"seed": "x"}}, ["seed", "'x'"]),
        ({"models": {"a": "y_*"}}, ["[models] a", "y_0"]),
    ],
    ids=str,
)
def test_unknown_keys_and_invalid_values_of_a_job_are_refused(
    command: tuple[str, ...], changes: dict[str, Any], parts: list[str], line: Line, folder: Path
) -> None:
    write_job(folder, **changes)
    refused(line, folder, command, WRONG_USE, "job.toml", *parts)


@BOTH
def test_a_job_that_is_not_toml_or_not_there(command: tuple[str, ...], line: Line, folder: Path) -> None:
    (folder / "job.toml").write_text("[data]\nfit = history.csv\n")
    refused(line, folder, command, WRONG_USE, "job.toml", "line 2")
    (folder / "job.toml").unlink()
    refused(line, folder, command, FAILED, "job.toml", "optensemble init")


@BOTH
@pytest.mark.parametrize(
    ("section", "code", "part"),
    [
        ({"kind": "simplx"}, WRONG_USE, "Did you mean 'simplex'?"),
        ({"kind": None}, WRONG_USE, "lacks a kind"),
        ({"kind": "oracle"}, WRONG_USE, "Use it from Python"),
        ({"kind": "polytope", "A_ub": [[1, 1, 1]], "b_ub": [-1]}, WRONG_USE, "no action"),
        ({"kind": "box", "upper": [1, 1]}, WRONG_USE, "2 coordinates, but there are 3 labels"),
        ({"kind": "polytope", "A_up": [[1, 1, 1]]}, WRONG_USE, "Did you mean 'A_ub'?"),
        ({"kind": "polytope", "A_ub": "no.csv", "b_ub": [1]}, FAILED, "no.csv"),
        ({"kind": "top_k"}, WRONG_USE, "k"),
    ],
    ids=str,
)
def test_an_invalid_feasible_set_is_refused(
    command: tuple[str, ...], section: dict[str, Any], code: int, part: str, line: Line, folder: Path
) -> None:
    write_job(folder, feasible=section)
    refused(line, folder, command, code, "job.toml", "[feasible]", part)


@BOTH
def test_a_policy_outside_the_set(command: tuple[str, ...], line: Line, folder: Path) -> None:
    write_table(with_value(2.0, 7, "plan_0"), folder / "history.csv")
    refused(line, folder, command, WRONG_USE, "history.csv", "plan")


def test_a_policy_outside_the_set_in_new_rows(line: Line, folder: Path) -> None:
    write_table(with_value(2.0, 7, "plan_0", NEW), folder / "new.csv")
    refused(line, folder, DECIDE, WRONG_USE, "new.csv", "plan", "7")
