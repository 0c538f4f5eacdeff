"""Mistakes in files: tables of text, job files, and what commands are asked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tests.mistakes.mistake import Group, Seen
from tests.mistakes.worlds import FAR, LABELS, NEAR, PLAN, World, command, job_folder, job_text

TABLES, JOBS = Group("Tables in files"), Group("Job files and commands")
STDERR = "stderr"
PREFIX = "optensemble: "
FITTED = (("fit", "job.toml"), ("decide", "ensemble.oe", "later.csv", "-o", "decisions.csv"))
CHECKED = (("check", "job.toml"),)


def job(
    w: World,
    history: pd.DataFrame | str | None = None,
    later: pd.DataFrame | None = None,
    commands: tuple[tuple[str, ...], ...] = FITTED,
    **changes: Mapping[str, str | None],
) -> Seen:
    """Run commands until one fails; the decisions, in the order of their ids, and what was said."""
    history, later = w.table() if history is None else history, w.later_table() if later is None else later
    notes, told, error = list[str](), list[tuple[str, str]](), None
    with job_folder(history, job_text(**changes), later=later) as folder:
        for arguments in commands:
            said = command(folder, *arguments)
            lines = [line.removeprefix(PREFIX).replace(f"{folder}/", "") for line in said.err.splitlines()]
            told += [(STDERR, line) for line in lines if line.startswith("warning: ")]
            notes += said.out.splitlines()
            if said.code:
                error = (STDERR, next((line for line in lines if not line.startswith("warning: ")), lines[-1]))
                break
        written, found = folder / "decisions.csv", None
        if error is None and written.exists():
            decisions = pd.read_csv(written)
            decisions = decisions.set_index(decisions.columns[0]).sort_index().sort_index(axis=1)
            found = decisions.select_dtypes("number").to_numpy()
    return Seen(found, notes=tuple(notes), told=tuple(told), error=error)


def beside_clean(w: World, seen: Seen, clean: Seen | None = None) -> Seen:
    return seen._replace(clean=(job(w) if clean is None else clean).numbers)


def gap(w: World, column: str, rows: tuple[int, ...] = (7,)) -> pd.DataFrame:
    table = w.table()
    table.loc[list(rows), column] = np.nan
    return table


def dated(w: World) -> pd.DataFrame:
    return w.table().assign(day=w.days.strftime("%Y-%m-%d"))


def repeated(table: pd.DataFrame) -> pd.DataFrame:
    ids = table["case"].tolist()
    return table.assign(case=[*ids[:7], ids[8], *ids[8:]])


# Tables


@TABLES.put_right("columns of the new table are in another order", before="the same")
def _(w: World) -> Seen:
    later = w.later_table()
    return beside_clean(w, job(w, later=later[later.columns[::-1]]))


@TABLES.put_right("label columns of the fitting table are in another order", before="the same")
def _(w: World) -> Seen:
    table = w.table()
    return beside_clean(w, job(w, table[[*table.columns.difference(LABELS), *LABELS[::-1]]]))


@TABLES.put_right("rows are not sorted by the column of times", before="the same")
def _(w: World) -> Seen:
    table, later = dated(w), w.later_table().assign(day="2027-01-01")
    time = {"time": '"day"'}
    clean = job(w, table, later, data=time)
    return beside_clean(w, job(w, table.sample(frac=1, random_state=0), later, data=time), clean)


@TABLES.put_right("a CSV file has a byte order mark and Windows' ends of lines", before="the same")
def _(w: World) -> Seen:
    text = "\ufeff" + w.table().to_csv(index=False).replace("\n", "\r\n")
    return beside_clean(w, job(w, text))


@TABLES.done("a model has a gap", "'near' has no answer in 1 of 500 rows", before="refused: no value in line 9")
def _(w: World) -> Seen:
    return job(w, gap(w, "near_south"))


@TABLES.done("a label has a gap", "1 of 500 rows ha[sv]e? no labels", before="refused: no value in line 9")
def _(w: World) -> Seen:
    return job(w, gap(w, "price_south"))


@TABLES.refused("an id is missing", "column 'case' has no value in line 9", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    return job(w, gap(w, "case"))


@TABLES.refused("a time is missing", "'day' has no value in line 9", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    table = dated(w)
    table.loc[7, "day"] = None
    return job(w, table, data={"time": '"day"'})


@TABLES.refused("an id is there twice", "must have a distinct id for every row", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    return job(w, repeated(w.table()))


@TABLES.refused(
    "an id is there twice in the new table", "must have a distinct id for every row", before="the same", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, later=repeated(w.later_table()))


@TABLES.refused(
    "numbers have decimal commas",
    "has '5,590' in line 2, which is not a number. Write decimals with a point",
    before="the same",
    kind=STDERR,
)
def _(w: World) -> Seen:
    table = w.table()
    return job(w, table.assign(near_south=table["near_south"].map("{:.3f}".format).str.replace(".", ",")))


@TABLES.refused(
    "the file is separated by semicolons, with decimal commas",
    "which is not a number. Write decimals with a point",
    before="the same",
    kind=STDERR,
)
def _(w: World) -> Seen:
    return job(w, w.table().to_csv(index=False, sep=";", decimal=","))


@TABLES.refused(
    "numbers have separators of thousands", "'5,590.2' in line 2, which is not a number", before="the same", kind=STDERR
)
def _(w: World) -> Seen:
    table = w.table()
    return job(w, table.assign(near_south=(1000 * table["near_south"]).map("{:,.1f}".format)))


@TABLES.refused(
    "one number is the text `missing`", "has 'missing' in line 9, which is not a number", before="the same", kind=STDERR
)
def _(w: World) -> Seen:
    table = w.table().astype({"near_south": object})
    table.loc[7, "near_south"] = "missing"
    return job(w, table)


@TABLES.refused(
    "times are written as 31.12.2025",
    "must hold times; got '01.01.2025'. Write dates as 2026-01-31",
    before="the same",
    kind=STDERR,
)
def _(w: World) -> Seen:
    return job(w, w.table().assign(day=w.days.strftime("%d.%m.%Y")), data={"time": '"day"'})


@TABLES.refused(
    "a column is there twice in the file",
    "has the column 'near_north' 2 times. Rename all but one",
    before="the same",
    kind=STDERR,
)
def _(w: World) -> Seen:
    lines = w.table().to_csv(index=False).splitlines()
    header = lines[0].replace("far_north", "near_north")
    return job(w, "\n".join([header, *lines[1:]]) + "\n", models={"far": None})


@TABLES.refused("a line has lost a field", "Row #9: Expected 18 columns, got 17", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    lines = w.table().to_csv(index=False).splitlines()
    lines[8] = lines[8].rpartition(",")[0]
    return job(w, "\n".join(lines) + "\n")


@TABLES.refused(
    "a column is missing in the new table", "later.csv has no column 'near_south'", before="the same", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, later=w.later_table().drop(columns="near_south"))


@TABLES.told(
    "a missing value is coded as −999",
    "is −999 in 1 of 500 rows",
    before="told of large errors, not of the value",
    kind=STDERR,
)
def _(w: World) -> Seen:
    return job(w, gap(w, "near_south").fillna(-999), commands=CHECKED)


# Jobs


@JOBS.told(
    "`groups` is a list, as in earlier versions",
    "now called subgroups. Write subgroups",
    before="the word of its time",
    kind=STDERR,
)
def _(w: World) -> Seen:
    return job(w, data={"groups": '["region"]'})


@JOBS.told(
    "`clusters`, as in earlier versions", "now called groups. Write groups", before="the word of its time", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, data={"clusters": '"customer"'})


@JOBS.told(
    "`groups` are really subgroups: six regions",
    "name it under subgroups",
    before="the word for subgroups",
    kind=STDERR,
)
def _(w: World) -> Seen:
    return job(w, data={"groups": '"region"'})


@JOBS.told(
    "the time was forgotten, and rows are sorted by a column of dates",
    "names no time",
    before="nothing said",
    kind=STDERR,
)
def _(w: World) -> Seen:
    return job(w, dated(w))


@JOBS.told(
    "a model is in other units", "about 1,000 times as large", before="told: more than 10 times as large", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, w.table().assign(**{name: 1000 * w.table()[name] for name in NEAR}), commands=CHECKED)


@JOBS.refused(
    "the label columns are listed as a model", "which is a label: labels are unknown", before="the same", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, commands=CHECKED, models={"near": '["price_north", "price_south", "price_west"]'})


@JOBS.refused(
    "a plan is rounded: its shares sum to 0.999 or 1.001",
    "set tolerance in",
    before="refused, without the constraint or a remedy",
    kind=STDERR,
)
def _(w: World) -> Seen:
    table = w.table()
    shares = np.exp(table[["seen_north", "seen_south", "seen_west"]].to_numpy())
    table[PLAN] = (shares / shares.sum(axis=1, keepdims=True)).round(3)
    return job(w, table)


@JOBS.refused("a key is misspelt: `lables`", "lables.*labels", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    return job(w, data={"labels": None, "lables": '"price_*"'})


@JOBS.refused("a pattern matches no column", "Did you mean 'near_", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    return job(w, models={"near": '"naer_*"'})


@JOBS.refused(
    "a model has columns for two labels of three", "finds no column 'near_west'", before="the same", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, w.table().drop(columns="near_west"))


@JOBS.refused(
    "a list of columns is in another order than the labels",
    "List them in the labels' order",
    before="nothing said",
    kind=STDERR,
)
def _(w: World) -> Seen:
    return job(w, models={"far": f"{FAR[::-1]}".replace("'", '"')})


@JOBS.refused(
    "a weight is negative", "must hold weights, which are 0 or more; got -1", before="no such option", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, w.table().assign(count=np.where(np.arange(500) == 7, -1, 1)), data={"weight": '"count"'})


@JOBS.refused(
    "a column that `--keep` names has the name of a decision",
    "--keep names 'followed'.*Rename it",
    before="no such option",
    kind=STDERR,
)
def _(w: World) -> Seen:
    keep = (FITTED[0], (*FITTED[1], "--keep", "followed"))
    return job(w, later=w.later_table().assign(followed="me"), commands=keep)


@JOBS.refused("the rows fitted on are audited", "proves nothing", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    return job(w, commands=(FITTED[0], ("audit", "ensemble.oe", "history.csv")))


@JOBS.refused("the rows to audit have no labels", "an audit needs the labels", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    commands = (FITTED[0], ("audit", "ensemble.oe", "later.csv"))
    return job(w, later=w.later_table().drop(columns=LABELS), commands=commands)


@JOBS.refused("the table is not where the job file says", "there is no file", before="the same", kind=STDERR)
def _(w: World) -> Seen:
    return job(w, data={"fit": '"histroy.csv"'})


@JOBS.refused(
    "a polytope was given no bounds", "has no lower bound.*Give a finite lower=", before="the same", kind=STDERR
)
def _(w: World) -> Seen:
    return job(w, feasible={"kind": '"polytope"', "A_ub": "[[1, 1, 1]]", "b_ub": "[1]", "lower": '"-inf"'})
