"""Requests that cannot be met: one line, an exit code, and nothing left."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.calling import Line
from tests.cli.refusals import (
    AUDIT,
    CHECK,
    DECIDE,
    EARNED_LESS,
    EARNED_MORE,
    FAILED,
    FIT,
    LATER,
    REPORT,
    ROWS,
    WRONG_USE,
    contents,
    refused,
    require_line,
)
from tests.jobs.worlds import STARS, write_table

# Too few rows


def test_too_few_rows_to_fit(line: Line, folder: Path) -> None:
    write_table(ROWS[:99], folder / "history.csv")
    refused(line, folder, FIT, WRONG_USE, "history.csv", "100", "99")


def test_too_few_rows_are_a_finding_of_a_check(line: Line, folder: Path) -> None:
    write_table(ROWS[:99], folder / "history.csv")
    said = line(*CHECK)
    assert said.code == WRONG_USE
    assert "99 rows in history.csv" in said.out  # and all the rest that was understood
    assert re.fullmatch(r"optensemble: [^\n]*history\.csv[^\n]*100[^\n]*\n", said.err)
    found = json.loads(line(*CHECK, "--json").out)  # one document
    assert found["enough"] is False


def test_a_check_that_fails_quietly_still_says_why(line: Line, folder: Path) -> None:
    write_table(ROWS[:99], folder / "history.csv")
    require_line(line(*CHECK, "--quiet"), WRONG_USE, "history.csv", "100")


# Audits


def test_a_promise_that_is_kept_is_exit_code_0(line: Line, folder: Path) -> None:
    said = line(*AUDIT)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].endswith("kept")


@pytest.mark.parametrize("flag", ["--quiet", "--json", None])
@pytest.mark.parametrize(("shift", "code", "way"), [(-3, EARNED_LESS, "less"), (3, EARNED_MORE, "more")])
def test_a_promise_that_is_broken_says_which_way(
    flag: str | None, shift: int, code: int, way: str, line: Line, folder: Path
) -> None:
    write_table(LATER.assign(**{f"y_{star}": LATER[f"y_{star}"] + shift for star in STARS}), folder / "later.csv")
    said = line(*AUDIT, *([flag] if flag else []))
    assert (said.code, said.err) == (code, "")
    if flag == "--json":
        found = json.loads(said.out)
        assert list(found)[:5] == ["verdict", "grade", "gap", "kept", "doubts"]
        assert (found["grade"], found["kept"]) == (f"{way} than promised", False)
        assert found["gap"]["low"] < found["gap"]["estimate"] == found["summary"]["gap"] < found["gap"]["high"]
    elif flag is None:
        assert said.out.splitlines()[0].endswith(f": broken, earned {way} than promised")
    else:
        assert said.out == ""


def test_with_strict_every_doubt_counts(line: Line, folder: Path) -> None:
    write_table(LATER.head(8), folder / "few.csv")
    few = line("audit", "e.oe", "few.csv")
    assert (few.code, few.out.splitlines()[0].endswith(": too few rows to tell")) == (0, True)
    assert line("audit", "e.oe", "few.csv", "--strict").code == EARNED_LESS
    (doubt,) = json.loads(line(*AUDIT, "--json").out)["doubts"]
    assert re.fullmatch(r"1 of \d+ pairs of cell and coordinate is biased beyond chance", doubt)
    assert line(*AUDIT).code == 0
    strict = line(*AUDIT, "--strict")
    assert (strict.code, strict.out.splitlines()[1]) == (EARNED_LESS, f"doubt: {doubt}")
    write_table(LATER.head(60), folder / "sound.csv")
    assert line("audit", "e.oe", "sound.csv", "--strict").code == 0


@pytest.mark.parametrize("flag", ["--quiet", "--json", None])
def test_an_audit_of_rows_fitted_on_is_exit_code_2_with_a_warning(flag: str | None, line: Line, folder: Path) -> None:
    said = line("audit", "e.oe", "history.csv", *([flag] if flag else []))
    assert said.code == WRONG_USE
    warning = (
        r"optensemble: warning: 240 of these 240 rows are rows the ensemble was fitted on: .* Give rows [^\n]*\.\n"
    )
    assert re.fullmatch(warning, said.err)


def test_an_audit_without_labels(line: Line, folder: Path) -> None:
    write_table(LATER.drop(columns=["y_0", "y_1", "y_2"]), folder / "later.csv")
    for command in (AUDIT, REPORT):
        refused(line, folder, command, WRONG_USE, "later.csv", "'y_0'")


def test_an_audit_with_other_labels_than_coordinates(line: Line, folder: Path) -> None:
    refused(line, folder, (*AUDIT, "--labels", "y_0"), WRONG_USE, "later.csv", "--labels", "3")
    refused(line, folder, (*AUDIT, "--labels", "yy_*"), WRONG_USE, "later.csv", "--labels", "Did you mean 'y_*'?")


# Explanations


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--row", "80"], ["new.csv", "no row 80", "it has 80"]),
        (["--id", "zebra"], ["new.csv", "no row of id 'zebra'"]),
        ([], ["--row", "--id"]),
        (["--row", "1", "--id", "1-00001"], ["--row", "--id"]),
        (["--row", "-1"], ["--row"]),
        (["--row", "x"], ["--row"]),
        (["--id", "1-00001", "--id-column", "dya"], ["new.csv", "'dya'", "Did you mean 'day'?"]),
    ],
    ids=str,
)
def test_a_row_to_explain_that_does_not_exist_is_refused(
    options: list[str], parts: list[str], line: Line, folder: Path
) -> None:
    refused(line, folder, ("explain", "e.oe", "new.csv", *options), WRONG_USE, *parts)


# init


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--labels", "yy_*"], ["--labels", "history.csv", "Did you mean 'y_*'?"]),
        (["--model", "a"], ["--model", "NAME=PATTERN", "'a'"]),
        (["--model", "a=aa_*"], ["--model", "history.csv", "Did you mean 'a_*'?"]),
        (["--policy", "plan=paln_*"], ["--policy", "history.csv", "Did you mean 'plan_*'?"]),
        (["--model", "a=a_*", "--model", "a=b_*"], ["--model", "'a'"]),
        (["--model", "x=a_*", "--policy", "x=plan_*"], ["'x'"]),
        (["--feasible", "simplx"], ["--feasible", "Did you mean 'simplex'?"]),
        (["--sense", "maximum"], ["--sense", "'maximum'"]),
        (["--id", "dya"], ["history.csv", "'dya'", "Did you mean 'day'?"]),
        (["--time", "dat"], ["history.csv", "'dat'", "Did you mean 'date'?"]),
        (["--groups", "regoin"], ["history.csv", "'regoin'", "Did you mean 'region'?"]),
        (["--subgroups", "regoin"], ["history.csv", "'regoin'", "Did you mean 'region'?"]),
    ],
    ids=str,
)
def test_init_refuses_columns_and_sets_that_do_not_exist(
    options: list[str], parts: list[str], line: Line, folder: Path
) -> None:
    refused(line, folder, ("init", "history.csv", "-o", "out.toml", "--force", *options), WRONG_USE, *parts)


def test_a_table_in_which_nothing_is_recognised(line: Line, folder: Path) -> None:
    write_table(ROWS[["day", "region", "a_0"]], folder / "history.csv")
    refused(line, folder, ("init", "history.csv", "-o", "out.toml", "--force"), WRONG_USE, "history.csv", "--labels")
    command = ("init", "history.csv", "-o", "out.toml", "--force", "--labels", "a_0")
    refused(line, folder, command, WRONG_USE, "history.csv", "--model")


# Wrong use


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        (("decied", "e.oe"), ["'decied'", "Did you mean 'decide'?"]),
        (("frobnicate",), ["'frobnicate'"]),
        ((*DECIDE, "--qiet"), ["--qiet", "--quiet"]),
        ((*DECIDE, "--zebra"), ["--zebra"]),
        (("decide", "e.oe", "new.csv"), ["--out"]),
        (("decide", "e.oe"), ["TABLE"]),
        (("fit",), ["JOB.toml"]),
        ((*FIT, "--jobs", "x"), ["--jobs"]),
        ((*FIT, "--jobs", "0"), ["jobs"]),
        (("fit", "job.toml", "-o"), ["-o"]),
    ],
    ids=str,
)
def test_wrong_options_and_commands_are_refused_with_exit_code_2(
    command: tuple[str, ...], parts: list[str], line: Line, folder: Path
) -> None:
    before = contents(folder)
    require_line(line(*command), WRONG_USE, *parts)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("decide", "e.oe", "no.csv", "-o", "out.csv"), FAILED),
        (("audit", "no.oe", "later.csv"), FAILED),
        (("explain", "e.oe", "new.csv", "--row", "999"), WRONG_USE),
        (("check", "no.toml"), FAILED),
        (("fit", "job.toml", "-o", "nowhere/out.oe"), WRONG_USE),
        (("report", "e.oe", "later.csv", "-o", "."), WRONG_USE),
        (("init", "no.csv", "-o", "out.toml"), FAILED),
        (("decide", "e.oe", "--zebra"), WRONG_USE),
        (("decied",), WRONG_USE),
    ],
    ids=str,
)
def test_with_json_an_error_is_json(command: tuple[str, ...], code: int, line: Line, folder: Path) -> None:
    said = line(*command, "--json")
    assert said.code == code
    found = json.loads(said.out)
    assert found["exit_code"] == code
    assert said.err == f"optensemble: {found['error']}\n"
