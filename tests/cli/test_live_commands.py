"""An ensemble in service, on the command line: from its start to its report, and everything that is refused."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer
from sklearn.neighbors import KNeighborsRegressor

import optensemble as oe
from optensemble.cli import live_commands
from optensemble.cli.live_rendering import _size
from optensemble.jobs import live_decide
from tests.cli.calling import Line, Said
from tests.cli.refusals import FAILED, INTERRUPTED, NEW, WRONG_USE, contents, require_line
from tests.jobs.worlds import LABELS, labels_of, make_rows, write_job, write_table

ALARM, REFIT_DUE = 3, 5
LOG = ("--log", "log.db")
DECIDE = ("live", "decide", "new.csv", *LOG, "-o", "out.csv")
OBSERVE = ("live", "observe", "new.csv", *LOG)
STATUS = ("live", "status", *LOG)
READING: dict[str, tuple[str, ...]] = {
    "status": STATUS,
    "report": ("live", "report", *LOG, "-o", "page.html"),
    "export": ("log", "export", *LOG, "-o", "all.parquet"),
}
WRITING: dict[str, tuple[str, ...]] = {
    "decide": DECIDE,
    "observe": OBSERVE,
    "refit": ("live", "refit", *LOG),
    "prune": ("log", "prune", *LOG, "--keep-days", "90"),
}
LOG_COMMANDS = pytest.mark.parametrize("command", [*READING.values(), *WRITING.values()], ids=[*READING, *WRITING])


@pytest.fixture
def service(line: Line, folder: Path) -> Path:
    """A folder with an ensemble in service, which has decided nothing yet."""
    started(line)
    return folder


def started(line: Line, *options: str) -> None:
    said = line("live", "start", "e.oe", *LOG, "-q", *options)
    assert (said.code, said.out, said.err) == (0, "", "")


def document(said: Said) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said.out)
    return found


# From start to report


def test_the_path_from_start_to_report(line: Line, folder: Path) -> None:
    said = line("live", "start", "e.oe", *LOG)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "Began log.db with DecisionEnsemble fitted on 240 rows.",
        "It follows 'fitted', 'refitted', 'online stack'; a refit is due when labels or an alarm call for it.",
        "ids: day",
        "labels: 'y_0', 'y_1', 'y_2'",
    ]
    said = line(*STATUS)
    assert (said.code, "No labels have arrived yet.\nNo rows have been decided either.\n" in said.out) == (0, True)
    said = line(*DECIDE)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("80 rows decided; weights on average: fitted 33\xa0%")
    assert said.out.endswith("on average.\nWrote out.csv.\n")
    decisions = pd.read_csv("out.csv")
    columns = ["day", "action_0", "action_1", "action_2", "followed", "promised", "low", "high"]
    assert list(decisions) == [*columns, "weight_fitted", "weight_refitted", "weight_online stack"]
    assert decisions["day"].tolist() == NEW["day"].tolist()
    np.testing.assert_allclose(decisions.filter(like="action_").sum(axis=1), 1.0)
    assert line(*STATUS).code == 0
    said = line(*OBSERVE)
    assert said.code == REFIT_DUE
    assert said.out.startswith("80 rows learned from.\n0 rows open. On 80 rows you lost at most ")
    assert said.err == (
        "optensemble: warning: a refit is due: 80 new labels. Run: optensemble live refit --log log.db\n"
    )
    assert line(*STATUS).code == REFIT_DUE
    said = line("live", "refit", *LOG)
    assert (said.code, said.err) == (0, "")
    assert said.out == "Refitted on 320 rows (80 new labels). The new fit decides from now on.\n"
    said = line("live", "refit", *LOG)
    assert (said.code, said.out.startswith("No labels have arrived since the last fit")) == (0, True)
    said = line(*STATUS)
    assert (said.code, said.err) == (0, "")
    for shown in (
        "log         log.db",
        "led by      nobody",
        "decided     80 rows",
        "refits      1, the last on 320 rows",
    ):
        assert shown in said.out
    said = line(*READING["report"], "--title", "Planner", "--unit", "hour", "--currency", "€")
    assert (said.code, said.out.endswith("Wrote page.html.\n")) == (0, True)
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Planner" in page
    assert "hours" in page
    said = line(*READING["export"])
    assert (said.code, said.out) == (0, "80 decisions of log.db.\nWrote all.parquet.\n")
    exported = pq.read_table("all.parquet").to_pandas()
    np.testing.assert_array_equal(exported[[f"label_{label}" for label in LABELS]], labels_of(NEW))


def test_the_same_table_gives_the_same_decisions_in_any_format(line: Line, service: Path) -> None:
    assert line(*DECIDE, "-q").code == 0
    first = Path("out.csv").read_bytes()
    write_table(NEW, service / "new.parquet")
    for table in ("new.csv", "new.parquet"):
        found = document(line("live", "decide", table, *LOG, "-o", "again.csv", "--json"))
        assert (found["rows"], found["before"], found["open"], found["key"]) == (80, 80, 80, "day")
        assert Path("again.csv").read_bytes() == first
    write_table(pd.concat([NEW, make_rows(20, seed=9)]), service / "more.csv")
    said = line("live", "decide", "more.csv", *LOG, "-o", "more.csv.parquet")
    assert said.out.startswith("100 rows decided, 80 of them before;")
    assert line(*OBSERVE, "-q").code == REFIT_DUE
    assert line("live", "refit", *LOG, "-q").code == 0
    assert line(*DECIDE, "-q").code == 0  # what was decided stays, whatever was learned since
    assert Path("out.csv").read_bytes() == first


def test_columns_are_copied_to_the_decisions(line: Line, service: Path) -> None:
    assert line(*DECIDE, "--keep", "region,customer", "-q").code == 0
    decisions = pd.read_csv("out.csv")
    assert list(decisions)[:3] == ["day", "region", "customer"]
    assert decisions["region"].tolist() == NEW["region"].tolist()
    require_line(line(*DECIDE, "--keep", "regions"), WRONG_USE, "--keep: new.csv has no column 'regions'")


def test_tables_are_decided_batch_by_batch(line: Line, service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_decide, "decide_live_table", partial(live_decide.decide_live_table, batch=30))
    assert line(*DECIDE, "-q").code == 0
    assert pd.read_csv("out.csv")["day"].tolist() == NEW["day"].tolist()
    assert document(line(*STATUS, "--json"))["log"]["entries"] == 3
    wrong = make_rows(80, seed=9)
    wrong.loc[70, "plan_0"] = 9.0
    write_table(wrong, service / "new.csv")
    said = line(*DECIDE)
    assert said.code == WRONG_USE
    assert "row 70 (counted from 0, id '9-00070')" in said.err
    assert said.err.endswith(
        "The 60 rows before are decided, and in log.db: the same table will give the same decisions.\n"
    )
    assert document(line(*STATUS, "--json"))["decided"] == 140


def test_labels_come_late_in_part_and_twice(line: Line, service: Path) -> None:
    line(*DECIDE, "-q")
    some = NEW.copy()
    some.loc[some.index[30:], LABELS] = np.nan
    write_table(some, service / "some.csv")
    said = line("live", "observe", "some.csv", *LOG)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(
        "30 rows learned from.\n50 rows without labels, left for later.\n50 rows open. On 30 rows"
    )
    found = document(line("live", "observe", "some.csv", *LOG, "--json"))
    assert {name: found[name] for name in ("rows", "learned", "known", "unlabelled", "open", "refit_due")} == {
        "rows": 80,
        "learned": 0,
        "known": 30,
        "unlabelled": 50,
        "open": 50,
        "refit_due": "",
    }
    said = line("live", "observe", "some.csv", *LOG)
    assert said.out.startswith("0 rows learned from: nothing is new.\n30 rows known with the same labels.\n")
    status = document(line(*STATUS, "--json"))
    assert (status["labelled"], status["open"], status["oldest_age"]) == (30, 50, 49)
    assert "open        50 rows, the oldest for 49 decisions" in line(*STATUS).out


def test_an_alarm_is_an_exit_code(line: Line, folder: Path) -> None:
    started(line, "--refit", "never", "--horizon", "500", "--false-alarms", "0.1")
    rows = make_rows(300, seed=5)
    write_table(rows, folder / "new.csv")
    assert line(*DECIDE, "-q").code == 0
    write_table(rows.assign(**{label: rows[label] - 3.0 for label in LABELS}), folder / "new.csv")
    assert line(*OBSERVE, "-q").code == 0  # it is never refitted
    said = line(*STATUS)
    assert (said.code, said.err) == (ALARM, "")
    assert "Alarm at row" in said.out
    status = document(line(*STATUS, "--json"))
    assert (status["verdict"]["status"], status["alarms"][0]["direction"]) == ("broken", "less")
    assert status["gap"] == pytest.approx(status["earned"] - status["promised"])
    said = line(*STATUS, "-q")
    assert (said.code, said.out, said.err) == (ALARM, "", "")
    require_line(line("live", "refit", *LOG), WRONG_USE, "this LiveEnsemble does not refit")


def test_an_alarm_comes_before_a_refit_that_is_due(line: Line, service: Path) -> None:
    rows = make_rows(300, seed=5)
    write_table(rows, service / "new.csv")
    line(*DECIDE, "-q")
    write_table(rows.assign(**{label: rows[label] - 3.0 for label in LABELS}), service / "new.csv")
    assert line(*OBSERVE, "-q").code == REFIT_DUE
    assert line(*STATUS, "-q").code == ALARM


def test_what_is_said_in_json(line: Line, folder: Path) -> None:
    found = document(line("live", "start", "e.oe", *LOG, "--refit", "40", "--play", "heaviest", "--json"))
    assert (found["log"], found["refit"], found["play"], found["id"]) == ("log.db", "40", "heaviest", "day")
    assert (found["labels"], len(found["columns"])) == (LABELS, 9)
    assert set(document(line(*DECIDE, "--json"))["weights"].values()) == {0.0, 1.0}
    line(*OBSERVE, "-q")
    assert document(line("live", "refit", *LOG, "--json"))["rows"] == 320
    assert document(line("live", "refit", *LOG, "--json")) == {"refitted": False}
    status = document(line(*STATUS, "--json"))
    assert (status["log"]["name"], status["log"]["leader"], status["log"]["decisions"]) == ("log.db", "nobody", 80)
    assert status["log"]["last_at"].endswith("+00:00")
    assert [each["policy"] for each in status["policies"]] == ["fitted", "refitted", "online stack"]
    assert document(line(*READING["report"], "--json"))["report"] == "page.html"
    assert document(line(*READING["export"], "--json")) == {"decisions": "all.parquet", "log": "log.db", "rows": 80}


def test_old_decisions_are_deleted_and_counted(line: Line, service: Path) -> None:
    line(*DECIDE, "-q")
    line(*OBSERVE, "-q")
    said = line(*WRITING["prune"])
    assert (said.code, said.out.startswith("Nothing was deleted: what is older than 90 days")) == (0, True)
    for _ in range(2):  # what the checkpoint before the last one came from
        line("live", "refit", *LOG, "-q")
        rows = make_rows(70, seed=11)
        write_table(rows, service / "new.csv")
        line(*DECIDE, "-q")
        line(*OBSERVE, "-q")
    said = line("log", "prune", *LOG, "--keep-days", "0")
    assert (said.code, said.out) == (0, "80 decisions deleted, in 3 entries: older than 0 days.\n")
    assert document(line("log", "prune", *LOG, "--keep-days", "0", "--json"))["rows"] == 0
    assert "80 rows pruned" in line(*STATUS).out
    assert document(line(*READING["export"], "--json"))["rows"] == 70


def test_columns_are_remembered_in_the_log(line: Line, folder: Path) -> None:
    write_job(folder)  # no id
    assert line("fit", "job.toml", "-o", "e.oe", "-q").code == 0
    said = line("live", "start", "e.oe", "--log", "other.db")
    assert "ids: not known: name their column in each command, --id-column" in said.out
    other = ("live", "decide", "new.csv", "--log", "other.db", "-o", "out.csv")
    require_line(line(*other), WRONG_USE, "new.csv: rows have no ids", "Name their column: --id-column COLUMN")
    assert line(*other, "-q", "--id-column", "day").code == 0
    renamed = NEW.rename(columns={"day": "number", **{label: f"label_{label}" for label in LABELS}})
    write_table(renamed, folder / "new.csv")
    started(line, "--id-column", "number", "--labels", "label_y_*")
    assert line(*DECIDE, "-q").code == 0
    assert next(iter(pd.read_csv("out.csv"))) == "number"
    assert line(*OBSERVE, "-q").code == REFIT_DUE
    write_table(NEW, folder / "named.csv")
    named = ("live", "observe", "named.csv", *LOG, "--id-column", "day", "--labels", "y_*")
    assert document(line(*named, "--json"))["known"] == 80


def test_costs_and_rows_that_expire_are_told(line: Line, folder: Path) -> None:
    write_job(folder, data={"id": "day", "subgroups": "region"}, ensemble={"sense": "min"})
    assert line("fit", "job.toml", "-o", "e.oe", "-q").code == 0
    started(line, "--expire-after", "30", "--refit", "1000")
    write_table(NEW.assign(region=["west", *NEW["region"][1:]]), folder / "new.csv")
    said = line(*DECIDE)
    assert said.err == (
        "optensemble: warning: 1 of 80 rows are of subgroups that no row of the fit was in: for them the promise rests "
        "on other subgroups\n"
    )
    require_line(line(*OBSERVE), WRONG_USE, "new.csv: 50 of these 80 rows have expired: '1-00000'")
    write_table(NEW[50:], folder / "new.csv")
    assert line(*OBSERVE, "-q").code == 0
    said = line(*STATUS)
    for shown in ("labelled    30 rows", "expired     50 rows", "\npaid        ", "paid beyond it per row"):
        assert shown in said.out


def test_an_id_column_with_the_name_of_a_weight_is_refused(line: Line, service: Path) -> None:
    write_table(NEW.rename(columns={"day": "weight_fitted"}), service / "new.csv")
    said = line(*DECIDE, "--id-column", "weight_fitted")
    require_line(said, WRONG_USE, "the id column 'weight_fitted' has the name of a column of the decisions")


@pytest.mark.slow
def test_types_that_are_not_trusted_are_named(line: Line, folder: Path) -> None:
    pytest.importorskip("skops")
    names, rows = [f"a_{star}" for star in "012"], make_rows()
    near = KNeighborsRegressor().fit(rows[names], rows[LABELS])
    ensemble = oe.DecisionEnsemble([("near", near)], feasible=oe.feasible.Simplex(3))
    ensemble.fit(rows[names], rows[LABELS]).save("e.oe")
    said = line("live", "start", "e.oe", *LOG, "--id-column", "day")
    assert (said.code, "e.oe holds types that are not trusted: " in said.err) == (WRONG_USE, True)
    trust = ("--trust", said.err.rpartition("--trust ")[2].strip())
    started(line, "--id-column", "day", *trust)
    said = line(*DECIDE)
    assert (said.code, "the log holds types that are not trusted: " in said.err) == (WRONG_USE, True)
    assert line(*DECIDE, *trust, "-q").code == 0
    assert line(*STATUS, *trust, "-q").code == 0


def test_a_rule_of_refits_that_is_a_function_needs_python(line: Line, folder: Path) -> None:
    oe.LiveEnsemble(oe.load("e.oe"), log="log.db", refit=lambda live: False).close()
    require_line(line(*STATUS), WRONG_USE, "the refit rule is a callable")


# Members that are functions

MODULE = """
def half(X):
    return X[["a_0", "a_1", "a_2"]].to_numpy() / 2

members = {"half": half}
number, nameless, wrong, unknown = 3, {1: half}, {"half": 3}, {"halve": half}
"""


@pytest.fixture
def functions(folder: Path) -> Path:
    """An ensemble of a function, and the module that has it."""
    (folder / "planners.py").write_text(MODULE, encoding="utf-8")
    (folder / "broken.py").write_text("1 / 0", encoding="utf-8")
    (folder / "lacking.py").write_text("import nothing_of_this_name", encoding="utf-8")
    names, rows = [f"a_{star}" for star in "012"], make_rows()
    model = ("half", lambda X: X[names].to_numpy() / 2)
    ensemble = oe.DecisionEnsemble([model], feasible=oe.feasible.Simplex(3))
    ensemble.fit(rows[names], rows[LABELS]).save(folder / "e.oe")
    return folder


def test_members_come_from_a_module_of_the_folder(line: Line, functions: Path) -> None:
    members = ("--members", "planners:members")
    started(line, *members, "--id-column", "day")
    assert line(*DECIDE, *members, "-q").code == 0
    assert line(*OBSERVE, *members, "-q").code == REFIT_DUE
    assert line("live", "refit", *LOG, *members, "-q").code == 0
    for command in READING.values():
        assert line(*command, *members, "-q").code == 0
    assert line(*WRITING["prune"], *members, "-q").code == 0
    require_line(
        line(*STATUS), WRONG_USE, "must be given again", "On the command line members that are Python functions"
    )


def test_a_job_file_may_say_where_members_are(line: Line, functions: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("jobs")
    (elsewhere / "makers.py").write_text(MODULE, encoding="utf-8")
    common = '[data]\nfit = "x.csv"\nlabels = "y_*"\n[models]\na = "a_*"\n[feasible]\nkind = "simplex"\n'
    (elsewhere / "job.toml").write_text(f'{common}[live]\nmembers = "makers:members"\n', encoding="utf-8")
    (elsewhere / "bare.toml").write_text(common, encoding="utf-8")
    (elsewhere / "odd.toml").write_text(f"{common}[live]\nmembers = 7\n", encoding="utf-8")
    started(line, "--members", str(elsewhere / "job.toml"), "--id-column", "day")
    assert line(*STATUS, "--members", str(elsewhere / "job.toml"), "-q").code == 0
    for name, said in {
        "bare": "does not say where members are. Add [live] members",
        "odd": '[live] members must be "module:dict"; got 7.',
        "gone": "there is no file",
    }.items():
        answer = line(*STATUS, "--members", str(elsewhere / f"{name}.toml"))
        assert answer.code != 0
        assert said in answer.err


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ("planners", ("--members must be module:dict, such as models:members; got 'planners'",)),
        ("planners.py:members", ("there is no module 'planners.py'", "'planners' is not a package")),
        ("pl anners:members", ("--members must be module:dict",)),
        ("planer:members", ("there is no module 'planer', neither installed nor in",)),
        ("planners:member", ("planners has no 'member'. Did you mean 'members'?",)),
        ("planners:number", ("must be a dict of members by name", "got int")),
        ("planners:nameless", ("must have names as keys; got 1",)),
        ("planners:wrong", ("'half' must be a function of the rows", "got int")),
        ("planners:unknown", ("there is no member 'halve'; there are 'half'", "must be given again")),
        ("broken:members", ("broken cannot be imported: ZeroDivisionError: division by zero. Correct the module",)),
        ("lacking:members", ("lacking cannot be imported: No module named 'nothing_of_this_name'. Install",)),
    ],
)
def test_wrong_members_are_told(place: str, parts: tuple[str, ...], line: Line, functions: Path) -> None:
    said = line("live", "start", "e.oe", *LOG, "--members", place)
    assert (said.code, said.out, len(said.err.splitlines())) == (WRONG_USE, "", 1)
    assert any(part in said.err for part in parts), said.err
    assert not Path("log.db").exists()


def test_a_member_too_many_is_told(line: Line, functions: Path) -> None:
    started(line, "--members", "planners:members")
    (functions / "more.py").write_text(MODULE + "members['third'] = half", encoding="utf-8")
    require_line(line(*STATUS, "--members", "more:members"), WRONG_USE, "there is no member 'third'; there are 'half'")
    said = line("live", "start", "e.oe", "--log", "other.db", "--members", "more:members")
    require_line(said, WRONG_USE, "there is no member 'third'")


# What is refused


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            ("--refit", "sometimes"),
            ("--refit must be auto, never or a number of labels, such as 200; got 'sometimes'",),
        ),
        (("--refit", "0"), ("--refit must be auto, never or a number",)),
        (("--window", "3"), ("window must be",)),
        (("--false-alarms", "2"), ("false_alarms",)),
        (("--labels", "y_0"), ("--labels names 1 columns; 3 are needed",)),
        (("--id-column", "promised"), ("the id column 'promised' has the name of a column of the decisions",)),
        (("--play", "all"), ("--play", "all")),
    ],
    ids=str,
)
def test_a_start_that_cannot_be_leaves_nothing(
    options: tuple[str, ...], parts: tuple[str, ...], line: Line, folder: Path
) -> None:
    before = contents(folder)
    said = line("live", "start", "e.oe", *LOG, *options)
    assert (said.code, said.out) == (WRONG_USE, "")
    assert all(part in said.err for part in parts), said.err
    assert contents(folder) == before


def test_a_log_is_begun_once(line: Line, service: Path) -> None:
    require_line(line("live", "start", "e.oe", *LOG), WRONG_USE, "log.db has a log in it already", "optensemble live")
    oe.LiveEnsemble(oe.load("e.oe")).save("live.oe")
    said = line("live", "start", "live.oe", "--log", "other.db")
    require_line(said, WRONG_USE, "live.oe holds a LiveEnsemble")


@LOG_COMMANDS
def test_a_log_must_be_there(command: tuple[str, ...], line: Line, folder: Path) -> None:
    before = contents(folder)
    require_line(line(*command), FAILED, "there is no log log.db")
    (folder / "log.db").write_bytes(b"not a database" * 100)
    require_line(line(*command), FAILED, "log.db")
    (folder / "log.db").unlink()
    assert contents(folder) == before


@pytest.mark.parametrize("command", WRITING.values(), ids=WRITING)
def test_one_process_leads_a_log(command: tuple[str, ...], line: Line, service: Path) -> None:
    with oe.LiveEnsemble.resume("log.db"):
        require_line(line(*command), FAILED, "log.db is led by process")
        for reading in READING.values():
            assert line(*reading, "-q").code == 0
        assert "led by      process" in line(*STATUS).out
    assert line(*STATUS).code == 0


def test_passwords_are_never_shown(line: Line, folder: Path) -> None:
    said = line("live", "status", "--log", "postgresql://oe:secret@127.0.0.1:1/nowhere")
    assert said.code in (FAILED, WRONG_USE)
    assert "secret" not in said.err + said.out


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (NEW.drop(columns="day"), ("new.csv has no column 'day', which is to hold the ids of rows",)),
        (NEW.drop(columns="a_1"), ("new.csv has no column 'a_1'",)),
        (NEW[:0], ("new.csv has no rows",)),
        (NEW.assign(day="monday"), ("column 'day' must have a distinct id for every row; 'monday' is there 80 times",)),
        (NEW.assign(day=["", *NEW["day"][1:]]), ("column 'day' has no value in line 2",)),
        (NEW.assign(a_0=["many", *NEW["a_0"][1:]]), ("column 'a_0' has 'many' in line 2, which is not a number",)),
        (NEW.assign(b_0=np.inf), ("column 'b_0' has an infinite value (inf) in line 2",)),
    ],
    ids=["no id", "no member", "no rows", "one id", "lacks an id", "text", "infinite"],
)
def test_tables_that_cannot_be_decided_leave_nothing(
    rows: pd.DataFrame, parts: tuple[str, ...], line: Line, service: Path
) -> None:
    write_table(rows, service / "new.csv")
    require_line(line(*DECIDE), WRONG_USE, *parts)
    assert not Path("out.csv").exists()
    assert document(line(*STATUS, "--json"))["decided"] == 0


def test_other_rows_under_ids_that_are_there_are_refused(line: Line, service: Path) -> None:
    line(*DECIDE, "-q")
    write_table(NEW.assign(a_0=0.5), service / "new.csv")
    before = Path("out.csv").read_bytes()
    require_line(line(*DECIDE), WRONG_USE, "new.csv: 80 of these 80 ids were given to other rows before")
    assert Path("out.csv").read_bytes() == before


def test_labels_that_cannot_be_learned_are_refused(line: Line, service: Path) -> None:
    require_line(line(*OBSERVE), WRONG_USE, "new.csv: 80 of these 80 ids are of no open row: '1-00000'")
    line(*DECIDE, "-q")
    write_table(NEW.drop(columns="y_1"), service / "new.csv")
    require_line(line(*OBSERVE), WRONG_USE, "new.csv has no column 'y_1': labels", "name their columns with --labels")
    require_line(line(*OBSERVE, "--labels", "z_*"), WRONG_USE, "--labels")
    write_table(NEW, service / "new.csv")
    line(*OBSERVE, "-q")
    write_table(NEW.assign(y_1=0.0), service / "new.csv")
    require_line(line(*OBSERVE), WRONG_USE, "80 of these 80 rows already have different labels")


def test_outputs_must_be_possible(line: Line, service: Path) -> None:
    for command in (DECIDE, READING["report"], READING["export"]):
        *others, _ = command
        said = line(*others, "nowhere/out.parquet")
        require_line(said, WRONG_USE, "would be in the folder nowhere, which does not exist")
    require_line(line("live", "report", *LOG, "-o", "log.db"), WRONG_USE, "log.db is an input")
    require_line(line("live", "decide", "new.csv", *LOG, "-o", "new.csv"), WRONG_USE, "new.csv is an input")
    require_line(line("live", "decide", "new.csv", *LOG, "-o", "out.xlsx"), WRONG_USE, "'.xlsx'")
    require_line(line(*READING["report"], "--unit", ""), WRONG_USE, "unit")


def test_an_interrupt_says_what_is_left(line: Line, service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live_decide, "decide_live_table", interrupt)
    said = line(*DECIDE)
    assert (said.code, said.out) == (INTERRUPTED, "")
    assert said.err == (
        "optensemble: Interrupted. Rows that were decided are in the log: the same command gives their decisions "
        "again.\n"
    )
    monkeypatch.undo()
    assert isinstance(live_commands.live_app, typer.Typer)


def test_a_refit_that_fails_leaves_the_fit_before(line: Line, service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line(*DECIDE, "-q")
    line(*OBSERVE, "-q")

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(oe.DecisionEnsemble, "_fitted_again", fail)
    said = line("live", "refit", *LOG)
    assert said.code == FAILED
    assert said.out.startswith("The refit on 320 rows failed: ")
    assert said.out.endswith("The fit before it stays in force.\n")
    assert "the last failed" in line(*STATUS).out


def test_sizes_are_told_in_words() -> None:
    assert [_size(each) for each in (12, 4096, 3 << 30, 3 << 50)] == ["12 bytes", "4.0 kB", "3.0 GB", "3,145,728.0 GB"]


@pytest.mark.slow
def test_the_battery_goes_into_service(line: Line, folder: Path) -> None:
    """The set, and subgroups, come from columns; days are ids."""
    assert line("init", "--example", "battery", "-o", "battery/job.toml", "-q").code == 0
    assert line("fit", "battery/job.toml", "-o", "battery.oe", "-q").code == 0
    log = ("--log", "battery.db")
    assert line("live", "start", "battery.oe", *log, "-q").code == 0
    found = document(line("live", "decide", "battery/new.csv", *log, "-o", "battery.parquet", "--json"))
    assert (found["rows"], found["key"]) == (200, "day")
    assert line("live", "observe", "battery/later.csv", *log, "-q").code == REFIT_DUE
    assert line("live", "refit", *log, "-q").code == 0
    assert line("live", "status", *log, "-q").code == 0
    assert line("live", "report", *log, "-o", "battery.html", "-q").code == 0
