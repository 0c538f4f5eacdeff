"""The user's way from a table to a report, compared with Python; help, questions, bars and completion."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import optensemble as oe
from optensemble import cli
from tests.cli.calling import FORCED, PLAIN, Line, Said, finish, start
from tests.jobs.worlds import LABELS, STARS, labels_of, make_rows, python_ensemble, read_table, write_job, write_table

pytestmark = pytest.mark.slow

ROWS, NEW, LATER = make_rows(), make_rows(80, seed=1), make_rows(90, seed=2)
COMMANDS = ["init", "check", "fit", "decide", "audit", "explain", "report", "reproduce"]
INIT = ["init", "history.csv", "--id", "day", "--time", "date", "--subgroups", "region", "--feasible", "simplex"]
GROUPED = {"groups": "customer", "subgroups": "region"}
DECIDE = ["decide", "ensemble.oe", "new.csv", "-o", "decisions.parquet"]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, rows in (("history.csv", ROWS), ("new.csv", NEW.drop(columns=LABELS)), ("later.csv", LATER)):
        write_table(rows, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def line(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Line:
    return Line(monkeypatch, capsys)


def told(said: Said) -> Any:
    """What a command told machines, and no word besides."""
    assert (said.code, said.err) == (0, ""), said
    return json.loads(said.out)


def same(found: list[dict[str, Any]], frame: pd.DataFrame) -> bool:
    """Whether JSON holds the rows of a frame; what is no finite number is null."""
    text = frame.replace([np.inf, -np.inf], np.nan).to_json(orient="records", double_precision=15)
    rows = json.loads(text)
    return [list(row) for row in found] == [list(row) for row in rows] and all(
        value == pytest.approx(row[name], rel=1e-12, abs=1e-14) if isinstance(value, float) else value == row[name]
        for one, row in zip(found, rows, strict=True)
        for name, value in one.items()
    )


# From a table to a report


@pytest.mark.no_cover
def test_commands_from_table_to_report_agree_with_python(line: Line, folder: Path) -> None:
    job = told(line(*INIT, "--json"))
    assert (job["labels"], job["models"], job["policies"]) == ("y_*", {"a": "a_*", "b": "b_*"}, {"plan": "plan_*"})
    assert tomllib.loads((folder / "job.toml").read_text(encoding="utf-8"))["data"]["time"] == "date"

    checked = told(line("check", "job.toml", "--json"))
    assert (checked["rows"], checked["enough"], checked["doubts"]) == (len(ROWS), True, [])
    assert [pair["label"] for pair in checked["columns"]] == LABELS
    assert checked["columns"][2]["columns"] == {"a": "a_2", "b": "b_2", "plan": "plan_2"}
    plan = ROWS[[f"plan_{star}" for star in STARS]].to_numpy()
    earned = {row["member"]: row["realised"] for row in checked["members"]}
    assert earned["plan"] == pytest.approx((plan * labels_of(ROWS)).sum(axis=1).mean())

    python = python_ensemble(subgroups=["region"]).fit(ROWS, ROWS[LABELS], time_ordered=True)
    fitted = told(line("fit", "job.toml", "--json"))
    assert (fitted["ensemble"], fitted["kind"], fitted["rows"]) == ("ensemble.oe", "DecisionEnsemble", len(ROWS))
    assert (fitted["winner"], fitted["finding"], fitted["notes"]) == (python.winner_, python.finding_, python.notes_)
    assert same(fitted["leaderboard"], python.leaderboard_)
    assert same(fitted["guarantees"], python.guarantees_)

    decided = told(line(*DECIDE, "--json"))
    answer, promise = python.answer(NEW), python.promise(NEW)
    found = read_table(folder / "decisions.parquet")
    assert decided["rows"] == len(NEW)
    assert decided["followed"] == found["followed"].value_counts().to_dict()
    for name in ("mean", "low", "high", "rely_on"):
        assert decided["promise"][name] == pytest.approx(getattr(promise, name), rel=1e-9)
    assert found["day"].tolist() == NEW["day"].tolist()
    np.testing.assert_array_equal(found[[f"action_{star}" for star in STARS]], answer.actions)
    np.testing.assert_allclose(found["promised"], answer.promised, rtol=1e-9)

    audit = python.audit(LATER, LATER[LABELS])
    audited = told(line("audit", "ensemble.oe", "later.csv", "--json"))
    assert (audited["verdict"], audited["kept"]) == (audit.verdict, audit.kept)
    assert same([audited["summary"]], audit.summary)
    for name in ("by_choice", "lift", "cells", "swap", "conditional"):
        assert same(audited[name], getattr(audit, name)), name

    explained = told(line("explain", "ensemble.oe", "new.csv", "--row", "17", "--json"))
    explanation = python.explain(NEW, 17)
    assert (explained["row"], explained["reason"]) == (17, explanation.reason)
    assert explained["action"] == explanation.action.tolist()
    assert same(explained["alternatives"], explanation.alternatives)
    by_id = told(line("explain", "ensemble.oe", "new.csv", "--id", NEW["day"][17], "--json"))
    assert by_id == {**explained, "id": NEW["day"][17]}

    reported = told(line("report", "ensemble.oe", "later.csv", "--json", "--title", "A <b>", "--unit", "day"))
    assert (reported["report"], reported["verdict"]) == ("report.html", audit.verdict)
    assert (reported["title"], reported["unit"], reported["currency"]) == ("A <b>", "day", "")
    total = reported["total"]
    assert (total["rows"], total["weight"]) == (len(LATER), len(LATER))
    assert total["promised"] == pytest.approx(audit.totals.promise * len(LATER))
    assert total["realised"] == pytest.approx(audit.totals.realised * len(LATER))
    assert total["share"] == pytest.approx(total["realised"] / total["foresight"])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<h1>A &lt;b&gt;</h1>" in page


@pytest.mark.no_cover
def test_the_commands_print_their_results_in_words(line: Line, folder: Path) -> None:
    said = line(*INIT)
    assert (said.code, said.err) == (0, "")
    assert "optensemble check job.toml" in said.out
    said = line("check", "job.toml")
    assert (said.code, said.err) == (0, "")
    assert "240 rows are enough for a fit" in said.out
    said = line("fit", "job.toml", "-o", "ensemble.oe")
    ensemble = oe.load(folder / "ensemble.oe")
    assert (said.code, said.err) == (0, "")
    assert all(part in said.out for part in (ensemble.finding_, "Wrote ensemble.oe.", *ensemble.notes_))
    for name in ensemble.leaderboard_["candidate"]:
        assert re.search(rf"^{name} ", said.out, flags=re.MULTILINE) or f"{name} was left out" in said.out
    said = line(*DECIDE)
    assert (said.code, said.err) == (0, "")
    assert f"Promised: {ensemble.promise(NEW)}." in said.out
    said = line("audit", "ensemble.oe", "later.csv")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0] == ensemble.audit(LATER, labels_of(LATER)).verdict
    said = line("explain", "ensemble.oe", "new.csv", "--row", "3")
    assert (said.code, said.out, said.err) == (0, f"{ensemble.explain(NEW, 3)}\n", "")
    said = line("report", "ensemble.oe", "later.csv", "-o", "page.html")
    assert (said.code, said.err) == (0, "")
    assert f"Over {len(LATER)} rows: promised " in said.out
    assert "page.html" in said.out


@pytest.mark.no_cover
def test_quiet_prints_nothing(line: Line, folder: Path) -> None:
    for command in (
        INIT,
        ["check", "job.toml"],
        ["fit", "job.toml"],
        DECIDE,
        ["audit", "ensemble.oe", "later.csv"],
        ["explain", "ensemble.oe", "new.csv", "--row", "0"],
        ["report", "ensemble.oe", "later.csv"],
    ):
        assert line(*command, "--quiet") == (0, "", ""), command
    assert {"job.toml", "ensemble.oe", "decisions.parquet", "report.html"} <= {path.name for path in folder.iterdir()}


@pytest.mark.no_cover
def test_the_same_input_gives_the_same_bytes(line: Line, folder: Path) -> None:
    write_job(folder, data={"id": "day"})
    made = []
    for threads in ("1", "2"):
        line("fit", "job.toml", "--jobs", threads, "-q")
        line("decide", "ensemble.oe", "new.csv", "-o", "d.csv", "-q")
        line("report", "ensemble.oe", "later.csv", "-q")
        made.append([(folder / name).read_bytes() for name in ("d.csv", "report.html")])
    assert made[0] == made[1]


def test_rows_unlike_those_fitted_on_are_warned_of(line: Line, folder: Path) -> None:
    write_job(folder)
    line("fit", "job.toml", "-q")
    far = NEW.assign(**{f"{name}_{star}": 50.0 + NEW[f"{name}_{star}"] for name in ("a", "b") for star in STARS})
    write_table(far, folder / "new.csv")
    said = line(*DECIDE, "--quiet")
    assert (said.code, said.out) == (0, "")
    assert re.fullmatch(r"optensemble: warning: these rows are unlike the fitted ones[^\n]*\n", said.err)


def test_groups_that_no_row_fitted_on_was_of_are_warned_of(line: Line, folder: Path) -> None:
    write_job(folder, data={"subgroups": "region"})
    line("fit", "job.toml", "-q")
    assert line(*DECIDE, "--quiet") == (0, "", "")
    write_table(NEW.assign(region=["east"] * 5 + NEW["region"].tolist()[5:]), folder / "new.csv")
    said = line(*DECIDE, "--json")
    assert json.loads(said.out)["unseen"] == 5
    assert re.fullmatch(
        r"optensemble: warning: 5 of 80 rows are of subgroups that no row of the fit was in[^\n]*\n", said.err
    )


def test_the_papers_ensembles_run_from_table_to_report(line: Line, folder: Path) -> None:
    write_job(folder, policies=None, ensemble={"kind": "white_box"})
    fitted = told(line("fit", "job.toml", "--json"))
    assert fitted["kind"] == "WhiteBoxEnsemble"
    assert told(line(*DECIDE, "--json"))["rows"] == len(NEW)
    assert line("audit", "ensemble.oe", "later.csv", "--quiet").code in (0, 3)
    assert told(line("explain", "ensemble.oe", "new.csv", "--row", "0", "--json"))["followed"] in ("a", "b")
    assert line("report", "ensemble.oe", "later.csv", "--quiet").code == 0
    for words in (line("fit", "job.toml"), line(*DECIDE), line("audit", "ensemble.oe", "later.csv")):
        assert words.code in (0, 3)
        assert words.out


def test_a_table_may_be_found_by_a_pattern(line: Line, folder: Path) -> None:
    write_job(folder, data={"id": "day"})
    line("fit", "job.toml", "-q")
    for number in (1, 2):
        write_table(NEW[40 * number - 40 : 40 * number], folder / f"day-{number}.csv")
    assert told(line("decide", "ensemble.oe", "day-*.csv", "-o", "d.csv", "--json"))["rows"] == len(NEW)
    assert read_table(folder / "d.csv")["day"].tolist() == NEW["day"].tolist()


def test_a_new_job_is_beside_its_table_or_elsewhere(line: Line, folder: Path) -> None:
    (folder / "jobs").mkdir()
    assert line(*INIT, "-o", "jobs/job.toml", "-q") == (0, "", "")
    assert told(line("check", "jobs/job.toml", "--json"))["rows"] == len(ROWS)


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_every_command_speaks_to_machines(command: str) -> None:
    result = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    text = CONTROL.sub("", result.stdout)
    assert result.exit_code == 0
    assert f"optensemble {command} " in re.sub(r"Usage: .*", "", text)
    for option in ("--json", "--quiet", "--help"):
        assert option in text


def test_the_examples_of_help_are_commands_that_exist() -> None:
    """Every option that an example takes is one of its command."""
    for command in COMMANDS:
        text = CONTROL.sub("", CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "300"}).stdout)
        examples = re.findall(rf"optensemble {command} [^\n│]*", re.sub(r"Usage: .*", "", text))
        known = set(re.findall(r"(?<!\S)--[a-z-]+", text[text.index("Options") :]))
        for example in examples:
            assert set(re.findall(r"--[a-z-]+", example)) <= known, example


def test_help_tells_commands_and_exit_codes() -> None:
    text = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert all(command in text for command in COMMANDS)
    codes = ("0 success", "1 failure", "2 wrong use", "3 less earned", "4 more", "5 refit due", "130 interrupted")
    assert all(code in text for code in codes)


# A terminal


def at_a_terminal(line: Line, *arguments: str, answers: tuple[str, ...] = ()) -> Said:
    """Run a command in this process at a terminal, on which all answers were typed beforehand."""
    for name in FORCED:
        line.monkeypatch.delenv(name, raising=False)
    line.monkeypatch.setenv("TERM", "xterm-256color")
    ours, theirs = pty.openpty()
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    with open(theirs) as keyboard, open(os.dup(theirs), "w", buffering=1) as screen:
        line.monkeypatch.setattr(sys, "stdin", keyboard)
        line.monkeypatch.setattr(sys, "stderr", screen)
        reader = Reader(ours)
        said = line(*arguments)
        reader.finish()
    os.close(ours)
    return Said(said.code, said.out, reader.seen)


class Reader(threading.Thread):
    """Reads what appears on a terminal, so that the writer never waits for room on it."""

    def __init__(self, terminal: int) -> None:
        super().__init__(daemon=True)
        self.seen, self._terminal, self._done = "", terminal, threading.Event()
        self.start()

    def run(self) -> None:
        while select.select([self._terminal], [], [], 0.05)[0] or not self._done.is_set():
            if select.select([self._terminal], [], [], 0)[0]:
                self.seen += os.read(self._terminal, 1 << 16).decode(errors="replace")

    def finish(self) -> None:
        self._done.set()
        self.join()


def on_a_terminal(folder: Path, *arguments: str, answers: tuple[str, ...] = ()) -> Said:
    """Run a command whose questions and errors go to a terminal; answer its questions as they come."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "optensemble", *arguments],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=folder,
        env={**PLAIN, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    seen, left, deadline = "", list(answers), time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([ours], [], [], 0.1)
        if not ready:
            if process.poll() is not None:
                break
            continue
        try:
            seen += os.read(ours, 1 << 16).decode(errors="replace")
        except OSError:  # the other end is closed
            break
        if left and re.search(r"\]: ?$", seen.rstrip("\r\n")):
            os.write(ours, f"{left.pop(0)}\n".encode())
            seen += "\n"
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert not left, f"not asked for: {left}"
    return Said(process.returncode, out.decode(), seen)


def test_a_progress_bar_is_shown_on_a_terminal_alone(line: Line, folder: Path) -> None:
    write_job(folder)
    seen = at_a_terminal(line, "fit", "job.toml")
    assert seen.code == 0
    assert "━" in seen.err
    assert re.search(r"verifying +━+ 100%", CONTROL.sub("", seen.err))
    assert "━" not in seen.out
    assert "Wrote ensemble.oe." in seen.out
    assert at_a_terminal(line, "fit", "job.toml", "--quiet") == (0, "", "")
    piped = finish(start(folder, *DECIDE))
    assert (piped.code, piped.err) == (0, "")
    assert "\x1b" not in piped.out


def test_questions_are_asked_on_a_terminal(folder: Path) -> None:
    answers = ("y_*", "ours=a_* theirs=b_*", "-", "simplex", "min", "day", "-", "customer", "region")
    said = on_a_terminal(folder, "init", "history.csv", "-o", "asked.toml", answers=answers)
    assert said.code == 0
    assert "Wrote asked.toml" in said.out
    assert "'y_0'" in said.err  # the columns there are
    found = tomllib.loads((folder / "asked.toml").read_text(encoding="utf-8"))
    assert found["data"] == {"fit": "history.csv", "labels": "y_*", "id": "day", **GROUPED}
    assert found["models"] == {"ours": "a_*", "theirs": "b_*"}
    assert found["policies"] == {}
    assert found["feasible"] == {"kind": "simplex"}
    assert found["ensemble"] == {"sense": "min"}


def test_an_answer_that_cannot_be_used_is_told_and_asked_for_again(line: Line, folder: Path) -> None:
    wrong_and_right = {
        "labels": ("yy_*", "y_*"),
        "models": ("a_*", "a=a_* a=b_*", "ours=a_*"),
        "policies": ("-",),
        "feasible": ("simplx", "simplex"),
        "sense": ("most", "max"),
        "id": ("dya", "day"),
        "time": ("-",),
        "groups": ("custmer", "customer"),
        "subgroups": ("regoin", "region"),
    }
    answers = tuple(answer for each in wrong_and_right.values() for answer in each)
    said = at_a_terminal(line, "init", "history.csv", "-o", "asked.toml", answers=answers)
    assert said.code == 0
    for meant in ("'y_*'", "'simplex'", "'day'", "'customer'", "'region'"):
        assert f"Did you mean {meant}?" in said.err
    found = tomllib.loads((folder / "asked.toml").read_text(encoding="utf-8"))
    assert found["data"] == {"fit": "history.csv", "labels": "y_*", "id": "day", **GROUPED}
    assert (found["models"], found["policies"]) == ({"ours": "a_*"}, {})
    assert (found["feasible"], found["ensemble"]) == ({"kind": "simplex"}, {"sense": "max"})


def test_questions_leave_stdout_to_machines(line: Line, folder: Path) -> None:
    said = at_a_terminal(line, "init", "history.csv", "--json", answers=("",) * 9)
    assert said.code == 0
    assert said.out.startswith("{")
    assert json.loads(said.out)["labels"] == "y_*"


def test_what_is_guessed_is_taken_by_return_and_what_flags_say_is_not_asked(folder: Path) -> None:
    answers = ("", "", "", "")  # labels, models, policies, id
    flags = [
        "--feasible",
        "simplex",
        "--sense",
        "max",
        "--time",
        "date",
        "--groups",
        "customer",
        "--subgroups",
        "region",
    ]
    said = on_a_terminal(folder, "init", "history.csv", *flags, answers=answers)
    assert said.code == 0
    found = tomllib.loads((folder / "job.toml").read_text(encoding="utf-8"))
    assert found["data"] == {"fit": "history.csv", "labels": "y_*", "time": "date", **GROUPED}
    assert (found["models"], found["policies"]) == ({"a": "a_*", "b": "b_*"}, {"plan": "plan_*"})


def test_without_a_terminal_guesses_are_used(line: Line, folder: Path) -> None:
    renamed = ROWS.rename(columns={"day": "row_id", "customer": "note"})
    write_table(renamed, folder / "history.csv")
    assert line("init", "history.csv", "--feasible", "simplex", "-q") == (0, "", "")
    found = tomllib.loads((folder / "job.toml").read_text(encoding="utf-8"))
    assert found["data"] == {"fit": "history.csv", "labels": "y_*", "id": "row_id", "time": "date"}
    assert told(line("check", "job.toml", "--json"))["enough"] is True


@pytest.mark.no_cover
def test_a_closed_pipe_ends_the_command_quietly(line: Line, folder: Path) -> None:
    write_job(folder)
    line("fit", "job.toml", "-q")
    process = start(folder, "audit", "ensemble.oe", "later.csv")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert "Exception ignored" not in err


# Completion


def completed(action: str, **environment: str) -> str:
    variables = {"_OPTENSEMBLE_COMPLETE": action, **environment}
    return CliRunner().invoke(cli.app, [], prog_name="optensemble", env=variables).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_be_taught_to_complete(shell: str) -> None:
    assert f"_OPTENSEMBLE_COMPLETE=complete_{shell}" in completed(f"source_{shell}")


def test_commands_and_options_are_completed() -> None:
    assert completed("complete_bash", COMP_WORDS="optensemble de", COMP_CWORD="1").split() == ["decide"]
    options = completed("complete_bash", COMP_WORDS="optensemble decide --i", COMP_CWORD="2").split()
    assert options == ["--id-column"]


def test_the_installed_command_completes_too() -> None:
    """Through :func:`optensemble.cli.main`, as a shell calls it."""
    script = str(Path(sys.executable).parent / "optensemble")
    variables = {"_OPTENSEMBLE_COMPLETE": "complete_bash", "COMP_WORDS": "optensemble exp", "COMP_CWORD": "1"}
    found = subprocess.run(
        [script], env={**PLAIN, **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, found.stdout.split(), found.stderr) == (0, ["explain"], "")
