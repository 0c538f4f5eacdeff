"""The commands update and refit: counts, exit codes, JSON, and files that are written only if something is new."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble._core.atomic_files import locked, replace
from optensemble.members.known_rows import KnownRows
from tests.cli.calling import Line
from tests.cli.refusals import LATER, ROWS, WRONG_USE, require_line
from tests.jobs.worlds import LABELS, make_rows, write_job, write_table

REFIT_DUE = 5
FIRST, SECOND = LATER[:40], LATER[30:]


@pytest.fixture
def tables(folder: Path) -> Path:
    late = FIRST.copy()
    late.loc[late.index[-3:], LABELS] = np.nan
    write_table(late, folder / "first.csv")
    write_table(SECOND, folder / "second.csv")
    return folder


def test_updates_are_counted_and_repeated_without_harm(line: Line, tables: Path) -> None:
    said = line("update", "e.oe", "first.csv")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("37 rows taken in.\n3 rows without labels, left for later.\nOf the new rows: promised ")
    assert said.out.endswith("Wrote e.oe.\n")
    before = (tables / "e.oe").read_bytes()
    said = line("update", "e.oe", "first.csv")
    assert (said.code, said.out.splitlines()[0]) == (0, "0 rows taken in: nothing is new.")
    assert said.out.endswith("The file is as it was.\n")
    assert (tables / "e.oe").read_bytes() == before
    found = json.loads(line("update", "e.oe", "second.csv", "-o", "other.oe", "--json", "-q").out)
    counts = {name: found[name] for name in ("rows", "taken_in", "skipped", "changed", "unlabelled", "refit_due")}
    assert counts == {"rows": 50, "taken_in": 43, "skipped": 7, "changed": 0, "unlabelled": 0, "refit_due": ""}
    assert found["promise"]["rows"] == 43
    assert (tables / "e.oe").read_bytes() == before
    assert oe.load(tables / "other.oe").n_updated_ == 80


def test_a_table_without_any_labels_changes_nothing(line: Line, tables: Path) -> None:
    before = (tables / "e.oe").read_bytes()
    write_table(LATER.assign(**dict.fromkeys(LABELS, np.nan)), tables / "none.csv")
    said = line("update", "e.oe", "none.csv")
    assert (said.code, said.err) == (0, "")
    assert "80 rows without labels, left for later." in said.out
    assert (tables / "e.oe").read_bytes() == before


def test_labels_that_were_corrected_are_told_of(line: Line, tables: Path) -> None:
    assert line("update", "e.oe", "second.csv", "-q").code == 0
    corrected = SECOND.copy()
    corrected.loc[corrected.index[:2], LABELS] += 1.0
    write_table(corrected, tables / "second.csv")
    said = line("update", "e.oe", "second.csv")
    assert (said.code, "48 rows given before, skipped.\n2 rows given before with other numbers" in said.out) == (
        0,
        True,
    )
    assert "2 of these 50 rows were given before with other labels or forecasts: they are skipped" in said.err


@pytest.mark.slow
def test_a_refit_that_is_due_is_that_of_a_fit_on_all_rows(line: Line, folder: Path) -> None:
    """Also if labels came late: rows are sorted by their times."""
    rows = make_rows(400).assign(date=pd.date_range("2026-01-01", periods=400, freq="h").strftime("%Y-%m-%dT%H:%M"))
    write_job(folder, data={"time": "date"})
    write_table(rows[:240], folder / "history.csv")
    assert line("fit", "job.toml", "-q").code == 0
    write_table(rows[300:], folder / "early.csv")
    write_table(rows[240:], folder / "late.csv")
    said = line("update", "ensemble.oe", "early.csv", "-q")
    assert said.code == REFIT_DUE
    assert said.err.startswith("optensemble: warning: a refit is due: 100 rows have come since the fit on 240")
    assert said.err.endswith("Run: optensemble refit ensemble.oe\n")
    assert line("update", "ensemble.oe", "early.csv", "-q").code == REFIT_DUE  # until it is done
    said = line("refit", "ensemble.oe", "--with", "late.csv", "--json")
    found = json.loads(said.out)
    assert (said.code, found["rows"], found["new"], found["ensemble"]) == (0, 400, 160, "ensemble.oe")
    assert (found["skipped"], found["changed"], found["unlabelled"]) == (100, 0, 0)
    write_table(rows, folder / "history.csv")
    assert line("fit", "job.toml", "-o", "whole.oe", "-q").code == 0
    written = (folder / "ensemble.oe").read_bytes()
    assert written == (folder / "whole.oe").read_bytes()
    said = line("refit", "ensemble.oe", "--with", "late.csv")
    assert "160 rows given before, skipped." in said.out
    assert (said.code, "No rows have come since the fit" in said.out) == (0, True)
    assert (folder / "ensemble.oe").read_bytes() == written
    assert line("update", "ensemble.oe", "late.csv", "-q").code == 0


@pytest.mark.slow
def test_forgotten_rows_must_be_given_again(line: Line, tables: Path) -> None:
    said = line("update", "e.oe", "first.csv", "--forget-rows")
    assert (said.code, "The rows are no longer in the file: a refit needs all of them again." in said.out) == (0, True)
    again = line("update", "e.oe", "first.csv")
    assert "37 rows given before, skipped." in again.out  # the hashes of ids stay
    require_line(line("refit", "e.oe"), WRONG_USE, "the rows of the fit were forgotten", "--with TABLE")
    before, known = (tables / "e.oe").read_bytes(), len(ROWS) + 37
    missing = f"{len(ROWS):,} of the {known:,} rows that it knows are not in"
    require_line(line("refit", "e.oe", "--with", "first.csv"), WRONG_USE, missing, "Give all rows")
    write_table(LATER.assign(**dict.fromkeys(LABELS, np.nan)), tables / "none.csv")
    require_line(line("refit", "e.oe", "--with", "none.csv"), WRONG_USE, "none.csv has no row with labels: a refit")
    assert (tables / "e.oe").read_bytes() == before
    unlabelled = LATER[:5].assign(day=[f"9-{number}" for number in range(5)], **dict.fromkeys(LABELS, np.nan))
    write_table(pd.concat([ROWS, LATER, unlabelled]), tables / "all.csv")
    said = line("refit", "e.oe", "--with", "all.csv")
    assert said.code == 0
    came = f"Fitted again on {known + 43:,} rows, 80 of them new.\nWrote e.oe."
    assert f"5 rows without labels, left for later.\n{came}" in said.out
    assert line("fit", "job.toml", "-o", "whole.oe", "-q").code == 0
    assert oe.load(tables / "e.oe").n_rows_ == len(ROWS) + len(LATER)
    assert oe.load(tables / "e.oe").table_ == oe.load(tables / "whole.oe").table_


@pytest.mark.slow
def test_rows_without_ids_are_missed_by_their_numbers(line: Line, tables: Path) -> None:
    ensemble = oe.load(tables / "e.oe")
    ensemble._known_rows = KnownRows()
    ensemble.save(tables / "e.oe", keep_rows=False)
    write_table(pd.concat([ROWS[7:], LATER]), tables / "some.csv")
    missing = f"7 of the {len(ROWS):,} rows that it knows are not in some.csv"
    require_line(line("refit", "e.oe", "--with", "some.csv"), WRONG_USE, missing)
    ensemble.fingerprints_ = ensemble.fingerprints_[:0]
    ensemble.save(tables / "e.oe", keep_rows=False)
    said = line("refit", "e.oe", "--with", "some.csv")
    assert (said.code, "73 of them new" in said.out) == (0, True)
    assert "does not tell which rows it was fitted on" in said.err
    assert said.err.endswith("Make sure that they are all rows.\n")


def test_ensembles_of_the_paper_are_refused(line: Line, folder: Path) -> None:
    write_job(folder, ensemble={"kind": "white_box", "validation": "none", "max_rounds": 5}, policies=None)
    line("fit", "job.toml", "-o", "white.oe", "-q")
    for command in (("update", "white.oe", "later.csv"), ("refit", "white.oe")):
        require_line(line(*command), WRONG_USE, 'is for ensembles of kind = "decision"; this is WhiteBoxEnsemble')


def test_two_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """A counter that each reads and replaces: none is lost, though the file is another one each time."""
    path = tmp_path / "count"
    path.write_text("0")

    def count() -> None:
        for _ in range(20):
            with locked(path):
                replace(path, str(int(path.read_text()) + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "80"
    with locked(tmp_path / "nowhere"):  # whoever reads it says that it is not there
        pass
