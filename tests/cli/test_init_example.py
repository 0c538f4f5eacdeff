"""init --example: files that need no filling in, nothing overwritten unasked, and a way on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from optensemble.exceptions import FileError
from optensemble.jobs.check import summarise_job
from optensemble.jobs.examples import EXAMPLES, write_example
from optensemble.jobs.fit import prepare
from optensemble.jobs.job import read_job
from tests.cli.calling import Line
from tests.cli.refusals import WRONG_USE, contents, require_line

TABLES = {"history.csv", "new.csv", "later.csv"}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def line(empty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Line:
    return Line(monkeypatch, capsys)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_complete(name: str, empty: Path) -> None:
    written = write_example(name, empty / "made" / "job.toml")
    assert {path.name for path in written.tables} >= TABLES
    assert {path.name for path in (empty / "made").iterdir()} == {"job.toml", *(path.name for path in written.tables)}
    task = prepare(read_job(written.job))
    assert summarise_job(task).enough
    labels = list(task.roles.labels)
    history, new, later = (pd.read_csv(empty / "made" / f"{table}.csv") for table in ("history", "new", "later"))
    assert list(history) == list(later)
    pd.testing.assert_frame_equal(later.drop(columns=labels), new)


def test_it_says_how_to_go_on(line: Line, empty: Path) -> None:
    code, out, err = line("init", "--example", "battery", "-o", "a b/battery.toml")
    assert (code, err) == (0, "")
    assert "history.csv, new.csv, later.csv, limits.csv and battery.toml in a b" in out
    commands = re.findall(r"^  (.*)$", out, re.MULTILINE)
    assert commands[:2] == ["cd 'a b'", "optensemble check battery.toml"]
    assert [command.split()[1] for command in commands[1:]] == ["check", "fit", "decide", "report"]
    assert all((empty / "a b" / file).exists() for file in re.findall(r"new\.csv|later\.csv|\S+\.toml", str(commands)))


def test_machines_are_told_the_files(line: Line, empty: Path) -> None:
    code, out, err = line("init", "--example", "portfolio", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "job": "job.toml",
        "example": "portfolio",
        "tables": ["history.csv", "new.csv", "later.csv"],
    }


def test_nothing_is_overwritten_unasked(line: Line, empty: Path) -> None:
    (empty / "new.csv").write_text("mine")
    before = contents(empty)
    require_line(line("init", "--example", "staffing"), WRONG_USE, "new.csv exists", "staffing/job.toml", "--force")
    assert contents(empty) == before
    assert line("init", "--example", "staffing", "--force", "-q") == (0, "", "")
    assert (empty / "new.csv").read_text() != "mine"
    require_line(line("init", "--example", "staffing"), WRONG_USE, "history.csv, new.csv, later.csv, job.toml exist.")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--example", "batery"], ["'batery'", "Did you mean 'battery'?", *EXAMPLES]),
        (["--example", "zebra"], ["'zebra'", *EXAMPLES]),
        (["--example"], ["--example", *EXAMPLES]),
        (["--example", "battery", "--labels", "y_*"], ["--example", "--labels"]),
        (["--example", "battery", "rows.csv"], ["--example", "rows.csv"]),
        (["--example", "battery", "-o", "history.csv"], ["history.csv", "battery/job.toml"]),
        (["--example", "battery", "-o", "."], ["job file", "battery/job.toml"]),
        ([], ["TABLE", "--example battery"]),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_refused(options: list[str], parts: list[str], line: Line, empty: Path) -> None:
    require_line(line("init", *options), WRONG_USE, *parts)
    assert not list(empty.iterdir())


def test_a_folder_that_cannot_be_made(empty: Path) -> None:
    (empty / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot make the folder .* Give -o another one"):
        write_example("routes", empty / "file" / "deep" / "job.toml")
