"""Gaps in tables, as commands tell of them: rows without labels, members without a value, weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.cli.calling import Line
from tests.cli.refusals import AUDIT, BOTH, CHECK, FIT, LATER, ROWS, WRONG_USE, refused, with_value
from tests.jobs.worlds import write_job, write_table


@BOTH
def test_rows_without_labels_are_counted(command: tuple[str, ...], line: Line, folder: Path) -> None:
    write_table(with_value("", 7, "y_1"), folder / "history.csv")
    said = line(*command)
    assert (said.code, said.err) == (0, "")
    assert "1 of 240 rows has no labels and is left out\n" in said.out
    found = json.loads(line(*command, "--json").out)
    assert (found["rows"], found["unlabelled"]) == (239, 1)


def test_an_audit_counts_rows_without_labels(line: Line, folder: Path) -> None:
    write_table(with_value("", 7, "y_1", LATER), folder / "later.csv")
    said = line(*AUDIT)
    assert said.code == 0
    assert "1 of 80 rows has no labels and is left out\n" in said.out
    assert json.loads(line(*AUDIT, "--json").out)["unlabelled"] == 1


def test_an_audit_counts_members_without_a_value(line: Line, folder: Path) -> None:
    write_table(with_value("", 7, "a_0", LATER), folder / "later.csv")
    said = line(*AUDIT)
    assert said.code == 0
    assert "'a' has no answer in 1 of 80 rows\n" in said.out
    assert json.loads(line(*AUDIT, "--json").out)["absent"] == {"a": 1}


def test_a_table_without_labels_is_not_audited(line: Line, folder: Path) -> None:
    write_table(LATER.assign(y_0=np.nan), folder / "later.csv")
    refused(line, folder, AUDIT, WRONG_USE, "later.csv has no row with labels", "Wait until they are known")


def test_check_counts_members_without_a_value(line: Line, folder: Path) -> None:
    write_table(with_value("", 7, "a_0"), folder / "history.csv")
    said = line(*CHECK)
    assert (said.code, said.err) == (0, "")
    assert "'a' has no answer in 1 of 240 rows\n" in said.out
    found = json.loads(line(*CHECK, "--json").out)
    assert (found["absent"], found["nobody"], found["mended"]) == ({"a": 1}, 0, 0)
    assert [member["absent"] for member in found["members"]] == [1, 0, 0]


def test_check_tells_what_weights_are_worth(line: Line, folder: Path) -> None:
    write_table(ROWS.assign(days=1 + np.arange(240) % 2), folder / "history.csv")
    write_job(folder, data={"weight": "days"})
    assert "weights by days: the rows count as 216.0 of equal weight\n" in line(*CHECK).out
    assert json.loads(line(*CHECK, "--json").out)["effective_rows"] == 216
    write_job(folder, data={"weight": "dyas"})
    refused(line, folder, FIT, WRONG_USE, "[data] weight of job.toml: history.csv", "Did you mean 'days'?")
