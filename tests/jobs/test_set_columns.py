"""Parameters of the [feasible] section that come from columns: how they are named, found in the table, and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FallbackWarning, InputError, OptEnsembleError
from optensemble.jobs.check import summarise_job
from optensemble.jobs.fit import Task, fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.set_columns import ReadColumns, SetTable
from optensemble.jobs.sets import files_of, make_set
from optensemble.jobs.streamed_rows import JobRows
from tests.jobs.worlds import make_rows, write_job, write_table

WHERE = "job.toml: [feasible]"
COLUMNS = ["y_a", "y_b", "y_c", "budget", "volume", "up_c", "up_a", "up_b", "w_10", "w_9", "up_note"]
TABLE = SetTable(COLUMNS, "history.csv", ["y_a", "y_b", "y_c"], ["a", "b", "c"])
BAG: dict[str, Any] = {"kind": "knapsack", "weights": [1, 2, 3], "capacity": {"column": "budget"}}
ITEMS = {"kind": "knapsack", "weights": [[1, 2, 3], [3, 2, 1]], "integer": True}


def made(section: dict[str, Any], dimension: int = 3, table: SetTable = TABLE) -> feasible.FeasibleSet:
    return make_set(section, dimension, Path(), WHERE, table)


def sources(omega: feasible.FeasibleSet) -> dict[str, Any]:
    return {parameter.name: parameter.value for parameter in omega.parameters}


def world(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """Rows with budgets and amounts of their own; the planner has neither."""
    rows, rng = make_rows(n, seed), np.random.default_rng(seed + 100)
    free = pd.DataFrame(rng.uniform(0.2, 1.0, (n, 3)), columns=["free_2", "free_0", "free_1"])
    return rows.assign(budget=rng.uniform(0.5, 3.0, n)).join(free).drop(columns=["plan_0", "plan_1", "plan_2"])


SECTION = {**BAG, "upper": {"columns": "free_*"}}


def task(folder: Path, rows: pd.DataFrame, memory: float | None = None, **feasible_: Any) -> Task:
    write_table(rows, folder / "history.csv")
    path = write_job(folder, data={"id": "day"}, policies=None, feasible={**SECTION, **feasible_})
    return prepare(read_job(path), memory)


# In the section


def test_a_column_is_named_in_place_of_a_number() -> None:
    assert sources(made(BAG)) == {"capacity": oe.Columns("budget")}


def test_numbers_and_columns_may_be_mixed() -> None:
    found = made({**ITEMS, "capacity": [{"column": "budget"}, 0.6]})
    assert sources(found) == {"capacity": [oe.Columns("budget"), 0.6]}


def test_a_pattern_is_matched_with_the_labels_where_there_is_a_number_for_each_coordinate() -> None:
    found = made({**BAG, "upper": {"columns": "up_*"}})
    assert sources(found)["upper"] == oe.Columns(["up_a", "up_b", "up_c"])


def test_any_other_pattern_stands_for_all_its_columns_with_numbers_sorted() -> None:
    assert sources(made({**ITEMS, "capacity": {"columns": "w_*"}})) == {"capacity": oe.Columns(["w_9", "w_10"])}


def test_a_list_of_columns_is_taken_in_its_order() -> None:
    found = made({"kind": "box", "upper": {"columns": ["up_b", "w_9", "budget"]}})
    assert sources(found) == {"upper": oe.Columns(["up_b", "w_9", "budget"])}


def test_a_pattern_in_a_block_is_matched_with_the_labels_of_the_block() -> None:
    block = {"kind": "box", "upper": {"columns": "up_*"}, "dimension": 2}
    found = made({"kind": "product", "blocks": [{"kind": "simplex", "dimension": 1}, block]})
    assert isinstance(found, feasible.Product)
    assert sources(found.blocks[1])["upper"] == oe.Columns(["up_b", "up_c"])


REGIONS: dict[str, Any] = {
    "kind": "by_key",
    "column": "region",
    "sets": {"north": {"kind": "simplex"}, "south": {"kind": "box", "upper": {"columns": "up_*"}}},
}
WITH_REGION = SetTable([*COLUMNS, "region"], "history.csv", TABLE.labels, TABLE.coordinates)


def test_a_set_by_key_is_made_of_the_sections_of_its_sets() -> None:
    found = made(REGIONS, table=WITH_REGION)
    assert isinstance(found, feasible.ByKey)
    assert sources(found) == {"key": oe.Columns("region"), "sets['south'].upper": oe.Columns(["up_a", "up_b", "up_c"])}
    by_argument = {"kind": "by_key", "key": {"column": "region"}, "sets": REGIONS["sets"]}
    assert sources(made(by_argument, table=WITH_REGION)) == sources(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"column": "regoin"}, f"{WHERE} key: history.csv has no column 'regoin'. Did you mean 'region'?"),
        ({"column": "y_a"}, f"{WHERE} key is 'y_a', which is a label"),
        ({"sets": {"north": {"kind": "smplex"}}}, f"{WHERE} sets.north: kind 'smplex' is not known. Did you mean"),
        (
            {"sets": {"north": {"kind": "box", "upper": {"column": "budgte"}}}},
            f"{WHERE} sets.north upper: history.csv has no column 'budgte'. Did you mean 'budget'?",
        ),
        ({"sets": {"north": {}}}, f"{WHERE}"),
        ({"sets": 3}, f"{WHERE}"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_sets_by_key_is_told_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        made({**REGIONS, **change}, table=WITH_REGION)
    assert message in str(caught.value)


def test_a_known_cost_is_that_of_the_set_within(tmp_path: Path) -> None:
    (tmp_path / "Q.csv").write_text("2,0,0\n0,1,0\n0,0,1\n")
    section: dict[str, Any] = {
        "kind": "with_cost",
        "linear": [0.1, 0.0, 0.2],
        "quadratic": {"gamma": {"column": "budget"}, "Q": "Q.csv"},
        "turnover": {"held": {"columns": "up_*"}, "rate": 0.05},
        "set": {"kind": "simplex"},
    }
    assert [path.name for path in files_of(section, tmp_path)] == ["Q.csv"]
    found = make_set(section, 3, tmp_path, WHERE, TABLE)
    assert isinstance(found, feasible.WithCost)
    assert sources(found) == {"gamma": oe.Columns("budget"), "held": oe.Columns(["up_a", "up_b", "up_c"])}
    rows = pd.DataFrame({"budget": [0.5, 2.0], "up_a": [0.2, 1.0], "up_b": [0.8, 0.0], "up_c": [0.0, 0.0]})
    expected = feasible.WithCost(
        feasible.Simplex(3),
        linear=[0.1, 0.0, 0.2],
        quadratic=(oe.Columns("budget"), np.diag([2.0, 1.0, 1.0])),
        turnover=(oe.Columns(["up_a", "up_b", "up_c"]), 0.05),
    )
    C = np.array([[1.0, 0.9, 1.1], [0.3, 0.2, 0.5]])
    np.testing.assert_array_equal(found.for_rows(rows).argmax(C), expected.for_rows(rows).argmax(C))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turnover": {"held": {"column": "hled"}, "rate": 1}}, f"{WHERE} held: history.csv has no column 'hled'"),
        ({"turnover": {"held": {"columns": "uq_*"}, "rate": 1}}, f"{WHERE} turnover.held, in history.csv: no column"),
        ({"turnover": {"held": 0, "rat": 1}}, "the parts of this cost are held and rate; got held, rat"),
        ({"turnover": {"held": {"column": "y_a"}, "rate": 1}}, f"{WHERE} held is 'y_a', which is a label"),
        ({"set": {"kind": "bx"}}, "kind 'bx' is not known. Did you mean 'box'?"),
        ({"set": None}, "with_cost needs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_cost_is_told_with_its_place(change: dict[str, Any], message: str) -> None:
    section = {"kind": "with_cost", "linear": 1, "set": {"kind": "simplex"}, **change}
    with pytest.raises(InputError) as caught:
        made({name: value for name, value in section.items() if value is not None})
    assert message in str(caught.value)


def test_the_pattern_of_a_parameter_takes_its_columns_from_the_labels(tmp_path: Path) -> None:
    rows = world().rename(columns={f"free_{j}": f"y_free_{j}" for j in range(3)})
    found = task(tmp_path, rows, upper={"columns": "y_free_*"})
    assert found.roles.labels == ("y_0", "y_1", "y_2")
    assert sources(found.omega)["upper"] == oe.Columns(["y_free_0", "y_free_1", "y_free_2"])


def test_files_of_nested_sections_are_found() -> None:
    nested = {"kind": "x", "sets": {"north": {"A_ub": "n.csv"}}, "blocks": [{"weights": "w.csv"}], "limit": "l.csv"}
    assert {path.name for path in files_of(nested, Path())} == {"n.csv", "w.csv", "l.csv"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": {"column": "budgte"}}, "capacity: history.csv has no column 'budgte'. Did you mean 'budget'?"),
        ({"upper": {"columns": "upp_*"}}, "upper, in history.csv: no column matches 'upp_*'. Did you mean 'up_*'?"),
        ({"upper": {"columns": "w_*"}}, "upper, in history.csv: 'w_*' finds no column 'w_a'"),
        ({"capacity": {"column": "y_a"}}, "capacity is 'y_a', which is a label: labels are unknown at the time of"),
        ({"capacity": {"column": "up_*"}}, "capacity: column must be the name of one column; got 'up_*'"),
        ({"capacity": {"column": ["budget"]}}, "capacity: column must be the name of one column; got ['budget']"),
        ({"capacity": {"columns": 3}}, "capacity: columns must be a pattern or a list of columns; got 3"),
        ({"capacity": {"columns": []}}, "capacity: columns must be a pattern or a list of columns; got []"),
        ({"upper": {"columns": ["up_*", "budget"]}}, "upper: columns must be one pattern, or a list of names"),
        ({"upper": {"columns": ["up_a", "up_a", "up_b"]}}, "upper: columns: names must be distinct"),
        ({"upper": {"columns": ["up_a", "up_b"]}}, "upper needs 3 numbers in each row"),
        ({"capacity": {"columns": "w_*"}}, "capacity needs 1 number in each row"),
        ({"capacity": {"column": "budget", "scale": 2}}, "capacity must be a number, or a table with one key"),
        ({"capacity": {"colum": "budget"}}, "capacity"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        made({**BAG, **change})
    assert str(caught.value).startswith(WHERE)
    assert message in str(caught.value)


# What is read


def test_columns_of_labels_are_not_numbers_and_patterns_are_expanded() -> None:
    box = feasible.Box(upper=oe.Columns("up_*"), dimension=3)
    assert ReadColumns.of(box, COLUMNS[:8], "t.csv").numbers == ("up_c", "up_a", "up_b")
    with pytest.raises(InputError, match=r"t.csv: no column matches 'up_\*'"):
        ReadColumns.of(box, ["budget"], "t.csv")


def test_a_task_has_explicit_columns_and_reads_no_others(tmp_path: Path) -> None:
    found = task(tmp_path, world())
    assert sources(found.omega) == {
        "capacity": oe.Columns("budget"),
        "upper": oe.Columns(["free_0", "free_1", "free_2"]),
    }
    assert set(found.table.columns) == {
        *(f"{name}_{j}" for name in ("y", "a", "b", "free") for j in range(3)),
        *("budget", "day"),
    }


def test_a_streamed_fit_writes_the_same_bytes(tmp_path: Path) -> None:
    rows = world()
    rows.loc[33, "budget"] = None
    fallback = {"on_failure": "fallback", "fallback": [0, 0, 0]}
    for changes in ({}, fallback):
        given = rows if changes else world()
        for name, memory in (("streamed", 1.0), ("whole", None)):
            found = task(tmp_path, given, memory, **changes)
            assert isinstance(found.rows, JobRows) is (memory is not None)
            assert found.fallbacks.count == len(changes) // 2
            if changes:
                assert found.fallbacks.first.startswith("row 33 (counted from 0, day '0-00033'): capacity must be")
                with pytest.warns(FallbackWarning, match="1 of 300 rows cannot be solved and takes the fallback"):
                    fit_job(found).save(tmp_path / f"{name}.oe", keep_rows=False)
            else:
                fit_job(found).save(tmp_path / f"{name}.oe", keep_rows=False)
        assert (tmp_path / "streamed.oe").read_bytes() == (tmp_path / "whole.oe").read_bytes()


def test_the_file_is_that_of_python(tmp_path: Path) -> None:
    rows = world()
    found = fit_job(task(tmp_path, rows))
    omega = feasible.Knapsack(
        [1, 2, 3], capacity=oe.Columns("budget"), upper=oe.Columns(["free_0", "free_1", "free_2"]), dimension=3
    )
    models = [(name, oe.Columns([f"{name}_{j}" for j in range(3)])) for name in ("a", "b")]
    labels = rows[["y_0", "y_1", "y_2"]].to_numpy()
    expected = oe.DecisionEnsemble(models=models, feasible=omega, context=None).fit(rows, labels, time_ordered=False)
    np.testing.assert_array_equal(found.decide(rows), expected.decide(rows))


@pytest.mark.parametrize("memory", [None, 1.0])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("budget", -1.0, "capacity of a knapsack must not be negative; in {} it is -1 (column 'budget')"),
        ("budget", None, "capacity must be a finite number; in {} it is nan (column 'budget')"),
        ("free_1", np.inf, "upper must be a finite number; in {} it is inf (column 'free_1')"),
        ("free_1", -0.5, "upper must not be below lower; in {} it is -0.5 (column 'free_1')"),
    ],
)
def test_a_bad_row_is_named_with_its_id(
    column: str, value: Any, message: str, memory: float | None, tmp_path: Path
) -> None:
    rows = world()
    rows.loc[[123, 200], column] = value
    with pytest.raises(OptEnsembleError) as caught:
        task(tmp_path, rows, memory)
    named = "row 123 (counted from 0, day '0-00123') and 1 more row soon after"
    assert f"history.csv: {message.format(named)}" in str(caught.value)


def test_the_summary_tells_where_parameters_come_from(tmp_path: Path) -> None:
    rows = world()
    summary = summarise_job(task(tmp_path, rows))
    said = "\n".join(summary.sentences())
    assert f"capacity by row: column 'budget', between {rows['budget'].min():.4g} and " in said
    assert "upper by row: columns 'free_0', 'free_1', 'free_2', between 0.2" in said
    assert "each within its own bounds over all rows" in said
    assert summary.pairs[1]["upper"] == rows["free_1"].max()
    bound = summary.omega
    labels = rows[["y_0", "y_1", "y_2"]].to_numpy()
    predicted = rows[["a_0", "a_1", "a_2"]].to_numpy()
    expected = (bound.argmax(predicted) * labels).sum(axis=1).mean()
    assert summary.members["realised"][0] == pytest.approx(expected)


def test_the_summary_counts_rows_that_take_the_fallback(tmp_path: Path) -> None:
    rows = world()
    rows.loc[[7, 9], "budget"] = -1.0
    found = summarise_job(task(tmp_path, rows, on_failure="fallback", fallback=[0, 0, 0]))
    assert any(
        line.startswith("2 of 300 rows cannot be solved and take the fallback action; the first is row 7 (counted from")
        for line in found.sentences()
    )
