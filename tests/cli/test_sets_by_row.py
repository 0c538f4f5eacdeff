"""A set for each row from the shell: budgets, sets by key, rows without a set, and rows beyond the fitting rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from tests.cli.calling import Line
from tests.cli.refusals import FAILED, WRONG_USE, require_line
from tests.jobs.worlds import make_rows, read_table, write_job, write_table

BAG = {
    "kind": "knapsack",
    "weights": [1, 2, 3],
    "capacity": {"column": "budget"},
    "upper": {"columns": "free_*"},
}
CAREFUL = {**BAG, "on_failure": "fallback", "fallback": [0, 0, 0]}
STATIONS = {
    "kind": "by_key",
    "column": "station",
    "sets": {
        "1": {"kind": "simplex"},
        "2": {"kind": "knapsack", "weights": [1, 2, 3], "capacity": {"column": "budget"}},
    },
}
DECIDE = ("decide", "by_row.oe", "new.csv", "-o", "out.csv")


def rows_of(n: int, seed: int) -> pd.DataFrame:
    """Rows with a budget, amounts, and a station that is numbered."""
    rows, rng = make_rows(n, seed), np.random.default_rng(seed + 100)
    free = pd.DataFrame(rng.uniform(0.2, 1.0, (n, 3)), columns=["free_1", "free_2", "free_0"])
    return rows.assign(budget=rng.uniform(0.5, 3.0, n), station=rng.integers(1, 3, n)).join(free)


NEW = rows_of(80, 1)
FREE = ["free_0", "free_1", "free_2"]


def count_beyond(rows: pd.DataFrame) -> int:
    return int((rows[FREE] > rows_of(240, 0)[FREE].max()).any(axis=1).sum())


def prepared(folder: Path, section: dict[str, Any], end: str = "csv", n: int = 240) -> None:
    for name, count, seed in (("history", n, 0), ("new", 80, 1), ("later", 120, 2)):
        write_table(rows_of(count, seed), folder / f"{name}.{end}")
    write_job(folder, data={"id": "day", "fit": f"history.{end}"}, policies=None, feasible=section)


def fitted(line: Line, folder: Path, section: dict[str, Any], **options: Any) -> None:
    prepared(folder, section, **options)
    said = line("fit", "job.toml", "-o", "by_row.oe")
    assert (said.code, said.err) == (0, "")


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize("section", [BAG, STATIONS], ids=["knapsack", "by key"])
def test_every_command_reads_what_the_set_needs(section: dict[str, Any], end: str, line: Line, folder: Path) -> None:
    fitted(line, folder, section, end=end)
    for command in (
        ("check", "job.toml"),
        ("decide", "by_row.oe", f"new.{end}", "-o", "out.csv"),
        ("explain", "by_row.oe", f"new.{end}", "--id", "1-00017"),
        ("report", "by_row.oe", f"later.{end}", "-o", "out.html"),
    ):
        assert line(*command).code == 0
    assert line("audit", "by_row.oe", f"later.{end}").code in (0, 3)
    actions = read_table(folder / "out.csv")[["action_0", "action_1", "action_2"]].to_numpy()
    np.testing.assert_allclose(actions, oe.load(folder / "by_row.oe").decide(_typed(NEW, section)), rtol=0, atol=1e-12)
    used = actions @ [1, 2, 3]
    limited = NEW["station"] == 2 if section is STATIONS else np.full(len(NEW), True)
    assert (used[limited] <= NEW["budget"][limited] + 1e-9).all()
    if section is STATIONS:
        np.testing.assert_allclose(actions[~limited].sum(axis=1), 1.0)


def _typed(rows: pd.DataFrame, section: dict[str, Any]) -> pd.DataFrame:
    """Return rows as Python has them: the keys of a job file are text."""
    return rows.assign(station=rows["station"].astype(str)) if section is STATIONS else rows


def test_check_shows_columns_and_ranges(line: Line, folder: Path) -> None:
    prepared(folder, STATIONS)
    said = line("check", "job.toml")
    assert "key by row: column 'station', 2 different values" in said.out
    assert "sets['2'].capacity by row: column 'budget', between 0.5" in said.out
    found = json.loads(line("check", "job.toml", "--json").out)
    assert [each["parameter"] for each in found["parameters"]] == ["key", "sets['2'].capacity"]
    assert list(found["parameters"][0].values()) == ["key", ["station"], None, None, 2]
    assert (found["fallback"], found["first_fallback"]) == (0, None)


@pytest.mark.parametrize(
    ("section", "column", "value", "message"),
    [
        (BAG, "budget", -1.0, "capacity of a knapsack must not be negative; in {} it is -1 (column 'budget')"),
        (BAG, "budget", None, "capacity must be a finite number; in {} it is nan (column 'budget')"),
        (BAG, "free_2", np.inf, "upper must be a finite number; in {} it is inf (column 'free_2')"),
        (BAG, "free_2", -0.5, "upper must not be below lower; in {} it is -0.5 (column 'free_2')"),
        (STATIONS, "station", 3, "key must be one of '1', '2'; in {} it is '3' (column 'station')"),
    ],
    ids=["negative", "missing", "infinite", "empty", "unknown key"],
)
def test_a_bad_row_is_named_by_every_command(
    section: dict[str, Any], column: str, value: Any, message: str, line: Line, folder: Path
) -> None:
    fitted(line, folder, section)
    for name, count, seed in (("history", 240, 0), ("new", 80, 1), ("later", 120, 2)):
        rows = rows_of(count, seed)
        rows.loc[[17, 40], column] = value
        write_table(rows, folder / f"{name}.csv")
    for command, id_, table in (
        (DECIDE, "1-00017", "new.csv"),
        (("check", "job.toml"), "0-00017", "history.csv"),
        (("fit", "job.toml", "-o", "other.oe"), "0-00017", "history.csv"),
        (("fit", "job.toml", "-o", "other.oe", "--memory", "1KB"), "0-00017", "history.csv"),
        (("audit", "by_row.oe", "later.csv"), "2-00017", "later.csv"),
        (("report", "by_row.oe", "later.csv", "-o", "out.html"), "2-00017", "later.csv"),
    ):
        named = f"row 17 (counted from 0, day '{id_}') and 1 more row soon after"
        require_line(line(*command), WRONG_USE, f"optensemble: {table}: {message.format(named)}")
    require_line(line("check", "job.toml"), WRONG_USE, "In all 240 rows: ", f"'{column}'")
    require_line(line("explain", "by_row.oe", "new.csv", "--id", "1-00017"), WRONG_USE, "row 17 (counted from 0, day")


def test_a_row_is_named_by_its_number_in_the_table_not_in_its_batch(line: Line, folder: Path) -> None:
    from optensemble.exceptions import InputError
    from optensemble.jobs.decide import decide_table
    from optensemble.jobs.saved_ensemble import open_ensemble
    from optensemble.tables.reading import find_tables

    fitted(line, folder, BAG)
    rows = NEW.copy()
    rows.loc[[57, 58, 61], "budget"] = -2.0
    write_table(rows, folder / "new.csv")
    tables = find_tables([str(folder / "new.csv")])
    with pytest.raises(InputError, match=r"in row 57 \(counted from 0, day '1-00057'\) and 1 more row soon after it"):
        decide_table(open_ensemble(folder / "by_row.oe", tables), tables, folder / "out.csv", batch=20)


def test_a_table_without_a_column_of_the_set_is_refused(line: Line, folder: Path) -> None:
    fitted(line, folder, BAG)
    write_table(NEW.drop(columns="budget"), folder / "new.csv")
    wanted = "new.csv has no column 'budget', which capacity of the feasible set comes from. Add it."
    require_line(line(*DECIDE), WRONG_USE, wanted)
    write_table(NEW.rename(columns={"free_2": "fre_2"}), folder / "new.csv")
    require_line(line(*DECIDE), WRONG_USE, "no column 'free_2', which upper of the feasible", "Did you mean")


def test_rows_that_take_the_fallback_are_counted(line: Line, folder: Path) -> None:
    fitted(line, folder, CAREFUL)
    rows = NEW.copy()
    rows.loc[[3, 4], "budget"] = -1.0
    rows.loc[50, "free_1"] = None
    write_table(rows, folder / "new.csv")
    said = line(*DECIDE)
    assert said.code == 0
    assert said.err == "optensemble: warning: 3 of 80 rows could not be solved and took the fallback action\n"
    actions = read_table(folder / "out.csv").filter(like="action_").to_numpy()
    assert not actions[[3, 4, 50]].any()
    found = line(*DECIDE, "--json")
    assert (found.code, json.loads(found.out)["fallback"], json.loads(found.out)["beyond"]) == (
        0,
        3,
        count_beyond(rows),
    )
    write_table(pd.concat([rows_of(240, 0), rows]), folder / "history.csv")
    wanted = (
        "3 of 320 rows cannot be solved and take the fallback action; the first is row 243 (counted from 0, day '1-"
    )
    assert wanted in line("check", "job.toml").out
    assert json.loads(line("check", "job.toml", "--json").out)["fallback"] == 3
    for memory in ((), ("--memory", "1KB")):
        fit = line("fit", "job.toml", "-o", "other.oe", *memory)
        assert (fit.code, fit.err.count("\n")) == (0, 1)
        assert wanted in fit.err


def test_rows_beyond_the_bounds_of_the_fitting_rows_are_counted(line: Line, folder: Path) -> None:
    fitted(line, folder, BAG)
    rows = NEW.copy()
    rows.loc[:4, "free_1"] = 3.0
    write_table(rows, folder / "new.csv")
    said = line(*DECIDE)
    assert count_beyond(rows) >= 5
    assert f"{count_beyond(rows)} of 80 rows have bounds beyond those of the fitting rows" in said.out
    assert json.loads(line(*DECIDE, "--json").out)["beyond"] == count_beyond(rows)


def test_an_ensemble_of_python_with_patterns_is_read(line: Line, folder: Path) -> None:
    rows = rows_of(240, 0)
    omega = oe.feasible.Box(upper=oe.Columns("free_*"), dimension=3)
    models = [("a", oe.Columns("a_*")), ("b", oe.Columns("b_*"))]
    ensemble = oe.DecisionEnsemble(models=models, feasible=omega).fit(rows, rows[["y_0", "y_1", "y_2"]].to_numpy())
    ensemble.save(folder / "by_row.oe")
    write_table(NEW, folder / "new.csv")
    assert line(*DECIDE).code == 0
    found = read_table(folder / "out.csv").filter(like="action_")
    assert list(found.columns) == ["action_0", "action_1", "action_2"]
    np.testing.assert_allclose(found.to_numpy(), ensemble.decide(NEW), rtol=0, atol=1e-12)


def test_numbered_columns_are_for_python(line: Line, folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(200, 3)), rng.uniform(0.5, 1.0, (200, 1))])
    omega = oe.feasible.Box(upper=oe.Columns(3), dimension=3)
    named = [("a", oe.Columns([0, 1, 2]))]
    Y = X[:, :3] + rng.normal(size=(200, 3))
    oe.DecisionEnsemble(models=named, feasible=omega).fit(X, Y).save(folder / "by_row.oe")
    write_table(NEW, folder / "new.csv")
    said = line(*DECIDE)
    assert said.code in (FAILED, WRONG_USE)
    assert "numbered columns of an array" in said.err


@pytest.mark.parametrize("kind", ["decision", "white_box", "black_box"])
def test_explain_names_the_constraint_that_binds(kind: str, line: Line, folder: Path) -> None:
    prepared(folder, BAG)
    black: dict[str, Any] = {"models": {"b": None}, "policies": {"plan": None, "none": "none_*"}}
    changes = black if kind == "black_box" else {}
    options = {"kind": kind} if kind == "decision" else {"kind": kind, "validation": "none"}
    for name in ("history", "new"):
        rows = read_table(folder / f"{name}.csv")
        write_table(rows.assign(none_0=0.0, none_1=0.0, none_2=0.0), folder / f"{name}.csv")
    write_job(folder, **{"data": {"id": "day"}, "policies": None, "feasible": BAG, "ensemble": options, **changes})
    assert line("fit", "job.toml", "-o", "by_row.oe").code == 0
    assert line(*DECIDE).code == 0
    actions = read_table(folder / "out.csv").filter(like="action_").to_numpy()
    full = int(np.flatnonzero(np.abs(actions @ [1, 2, 3] - NEW["budget"]) < 1e-9)[0])
    wanted = f"capacity = {NEW['budget'][full]:g} (column 'budget')"
    said = line("explain", "by_row.oe", "new.csv", "--row", str(full))
    assert f"what binds: {wanted}" in said.out
    assert wanted in json.loads(line("explain", "by_row.oe", "new.csv", "--row", str(full), "--json").out)["binding"]
    slack = np.abs(actions @ [1, 2, 3] - NEW["budget"]) > 1e-6
    free = int(np.flatnonzero(slack & (np.abs(actions[:, 1] - NEW["free_1"]) < 1e-9))[0])
    said = line("explain", "by_row.oe", "new.csv", "--row", str(free))
    assert f"upper[y_1] = {NEW['free_1'][free]:g} (column 'free_1')" in said.out
    assert "capacity" not in said.out


def test_explain_tells_of_a_row_that_takes_the_fallback(line: Line, folder: Path) -> None:
    fitted(line, folder, CAREFUL)
    rows = NEW.copy()
    rows.loc[3, "budget"] = -1.0
    write_table(rows, folder / "new.csv")
    said = line("explain", "by_row.oe", "new.csv", "--row", "3")
    assert "what binds: the row has no set of its own, and takes the fallback action" in said.out


def test_a_report_mentions_what_the_set_takes_from_the_row(line: Line, folder: Path) -> None:
    fitted(line, folder, CAREFUL)
    rows = read_table(folder / "later.csv")
    rows.loc[3, "budget"] = -1.0
    rows.loc[5, "free_1"] = 9.0
    write_table(rows, folder / "later.csv")
    said = line("report", "by_row.oe", "later.csv", "-o", "out.html")
    assert said.code == 0
    assert said.err == "optensemble: warning: 1 of 120 rows could not be solved and took the fallback action\n"
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert (
        "The feasible set differs from row to row: capacity by row: column &#x27;budget&#x27;, between −1 and" in page
    )
    assert "1 of 120 rows cannot be solved and takes the fallback action" in page
    assert "bounds beyond those of all fitting rows" in page
    assert "Bounds differ from row to row: a row is at a bound if it is at its own" in page


def test_a_report_of_one_set_says_nothing_of_rows(line: Line, folder: Path) -> None:
    assert line("report", "e.oe", "later.csv", "-o", "out.html").code == 0
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "from row to row" not in page
    assert "known cost" not in page


def test_rows_whose_polytope_is_empty_are_named(line: Line, folder: Path) -> None:
    room = {"kind": "polytope", "A_ub": [[1, 1, 1], [1, 0, 0]], "b_ub": [{"column": "budget"}, 0.6]}
    fitted(line, folder, room)
    rows = NEW.copy()
    rows.loc[17, "budget"] = -5.0
    write_table(rows, folder / "new.csv")
    named = "new.csv: row 17 (counted from 0, day '1-00017') could not be solved: no action satisfies all constraints"
    require_line(line(*DECIDE), FAILED, named, "This row has b_ub = -5 (column 'budget'), b_ub = 0.6 (fixed)")
    write_table(pd.concat([rows, rows_of(240, 0)]), folder / "history.csv")
    for command in (("check", "job.toml"), ("fit", "job.toml", "-o", "other.oe")):
        require_line(line(*command), WRONG_USE, named.replace("new.csv", "history.csv"))


def test_nodes_are_labels_not_numbers(line: Line, folder: Path) -> None:
    roads = {
        "kind": "shortest_path",
        "edges": [[1, 2], [2, 3], [1, 3]],
        "source": {"column": "station"},
        "target": 3,
        "closed": {"columns": "shut_*"},
    }
    prepared(folder, roads)
    for name in ("history", "new"):
        rows = read_table(folder / f"{name}.csv")
        shut = (rows["free_0"] < 0.4).astype(int)
        write_table(rows.assign(shut_0=0, shut_1=0, shut_2=shut), folder / f"{name}.csv")
    assert line("fit", "job.toml", "-o", "by_row.oe").code == 0
    assert line(*DECIDE).code == 0
    actions = read_table(folder / "out.csv").filter(like="action_").to_numpy()
    np.testing.assert_array_equal(actions[NEW["station"] == 2], [[0, 1, 0]] * int((NEW["station"] == 2).sum()))
    assert not actions[NEW["free_0"] < 0.4, 2].any()
    rows = read_table(folder / "new.csv")
    rows.loc[9, "station"] = 7
    write_table(rows, folder / "new.csv")
    wanted = "source must be a node, an end of an edge; in row 9 (counted from 0, day '1-00009') it is '7' (column"
    require_line(line(*DECIDE), WRONG_USE, wanted)


def test_payoffs_are_net_of_a_known_cost(line: Line, folder: Path) -> None:
    turnover = {"held": {"columns": "free_*"}, "rate": 0.3}
    fitted(line, folder, {"kind": "with_cost", "turnover": turnover, "set": {"kind": "simplex"}})
    said = line("check", "job.toml")
    assert "the payoff is maximised, net of the known cost of acting" in said.out
    assert line(*DECIDE).code == 0
    found = json.loads(line("explain", "by_row.oe", "new.csv", "--row", "5", "--json").out)
    moved = np.abs(np.array(found["action"]) - NEW.loc[5, FREE].to_numpy(dtype=float)).sum()
    assert found["cost"] == pytest.approx(0.3 * moved)
    assert line("report", "by_row.oe", "later.csv", "-o", "out.html").code == 0
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "every payoff is net of the known cost of acting" in page
    assert "held by row: columns" in page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_workers_write_the_same_bytes_and_name_the_same_rows(line: Line, folder: Path) -> None:
    prepared(folder, STATIONS)
    here, workers = ("fit", "job.toml", "--memory", "1KB", "-o"), ("--workers", "2")
    assert line(*here, "by_row.oe").code == 0
    assert line(*here, "other.oe", *workers).code == 0
    assert (folder / "by_row.oe").read_bytes() == (folder / "other.oe").read_bytes()
    assert line(*DECIDE).code == 0
    expected = (folder / "out.csv").read_bytes()
    assert line(*DECIDE, *workers).code == 0
    assert (folder / "out.csv").read_bytes() == expected
    rows = NEW.copy()
    rows.loc[[17, 40], "station"] = 3
    write_table(rows, folder / "new.csv")
    said = line(*DECIDE)
    assert "row 17 (counted from 0, day '1-00017')" in said.err
    assert line(*DECIDE, *workers).err == said.err
