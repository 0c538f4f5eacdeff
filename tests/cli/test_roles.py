"""Roles of columns on the command line: times, groups and subgroups, keys and columns that decisions keep."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.calling import Line
from tests.cli.refusals import BOTH, DECIDE, FIT, NEW, ROWS, WRONG_USE, refused
from tests.jobs.worlds import dated, make_rows, write_job, write_table


def test_init_proposes_a_sorted_column_as_time(line: Line, folder: Path) -> None:
    write_table(dated(ROWS).rename(columns={"date": "when"}), folder / "history.csv")
    assert line("init", "history.csv", "--force", "-q") == (0, "", "")
    assert tomllib.loads((folder / "job.toml").read_text(encoding="utf-8"))["data"]["time"] == "when"


def test_init_takes_a_name_where_nothing_is_sorted(line: Line, folder: Path) -> None:
    write_table(dated(ROWS)[::-1], folder / "history.csv")
    assert line("init", "history.csv", "--force", "-q") == (0, "", "")
    assert tomllib.loads((folder / "job.toml").read_text(encoding="utf-8"))["data"]["time"] == "date"


@BOTH
def test_a_forgotten_time_is_a_warning(command: tuple[str, ...], line: Line, folder: Path) -> None:
    write_table(dated(ROWS), folder / "history.csv")
    write_job(folder)
    said = line(*command, "--quiet")
    assert said.code == 0
    assert said.err.count("\n") == 1
    assert said.err.startswith(
        "optensemble: warning: history.csv is sorted by 'date', but [data] of job.toml names no time"
    )


@BOTH
def test_a_few_large_groups_are_a_warning(command: tuple[str, ...], line: Line, folder: Path) -> None:
    write_table(make_rows(400).assign(shop=[i % 8 for i in range(400)]), folder / "history.csv")
    write_job(folder, data={"groups": "shop"})
    said = line(*command, "--quiet")
    assert said.code == 0
    assert said.err.startswith("optensemble: warning: job.toml: [data] groups = 'shop' has 8 values, with 50 rows each")


@BOTH
def test_words_of_earlier_versions_are_a_warning(command: tuple[str, ...], line: Line, folder: Path) -> None:
    write_job(folder, data={"groups": "region", "clusters": "customer"})
    said = line(*command, "--quiet")
    assert (said.code, said.out) == (0, "")
    told = {"groups": ("subgroups", "region"), "clusters": ("groups", "customer")}
    told_of = '[data] {} are now called {}. Write {} = "{}" in place of it.'
    lines = [told_of.format(old, new, new, name) for old, (new, name) in told.items()]
    assert said.err == "".join(f"optensemble: warning: job.toml: {each}\n" for each in lines)


def test_old_and_new_words_make_the_same_ensemble(line: Line, folder: Path) -> None:
    files = []
    for data in ({"groups": ["region"], "clusters": "customer"}, {"subgroups": ["region"], "groups": "customer"}):
        write_job(folder, data=data)
        assert line(*FIT, "--quiet").code == 0
        files.append((folder / "out.oe").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("data", [{}, {"time": "date"}, {"groups": "customer"}], ids=str)
def test_json_has_the_accuracy_of_a_promise(data: dict[str, str], line: Line, folder: Path) -> None:
    write_job(folder, data=data)
    found = json.loads(line("check", "job.toml", "--json").out)["accuracy"]
    expected = {"rows": len(ROWS), "time_ordered": "time" in data, "groups": data.get("groups")}
    assert {name: value for name, value in found.items() if name != "half_width"} == expected
    assert found["half_width"] > 0


def test_few_rows_have_no_accuracy(line: Line, folder: Path) -> None:
    write_table(make_rows(99), folder / "history.csv")
    write_job(folder)
    assert json.loads(line("check", "job.toml", "--json").out)["accuracy"] is None


# Decisions


def test_decisions_keep_columns(line: Line, folder: Path) -> None:
    write_job(folder)
    assert line(*FIT, "--quiet").code == 0
    command = ("decide", "out.oe", "new.csv", "-o", "d.csv", "--keep", "region,customer", "--keep", "day", "--json")
    assert json.loads(line(*command).out)["key"] == "row"
    found = pd.read_csv(folder / "d.csv")
    assert list(found)[:4] == ["row", "region", "customer", "day"]
    for name in ("region", "customer", "day"):
        assert found[name].tolist() == NEW[name].tolist()


def test_columns_that_cannot_be_kept_are_refused(line: Line, folder: Path) -> None:
    write_job(folder)
    assert line("fit", "job.toml", "-o", "e.oe", "--quiet").code == 0
    refused(line, folder, (*DECIDE, "--keep", "regoin"), WRONG_USE, "--keep: new.csv", "Did you mean 'region'?")
    write_table(NEW.rename(columns={"region": "low"}), folder / "new.csv")
    refused(line, folder, (*DECIDE, "--keep", "low"), WRONG_USE, "--keep names 'low'", "Rename it in the table")
