"""Jobs of the shape of three real ones that were refused: a gap, a plan that is off by rounding, late labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.calling import Line

HOURS = [f"{hour:02d}" for hour in range(6)]
ROWS = 968


def prices(seed: int = 0, n: int = ROWS) -> pd.DataFrame:
    """Daily prices of six hours, three forecasts of them, and the plan of a planner who knows a little more."""
    rng = np.random.default_rng(seed)
    season = 10 * np.sin(np.arange(n) / 30)[:, None] + 5 * np.sin(np.arange(6))[None]
    price = 40 + season + 6 * rng.normal(size=(n, 6))
    columns: dict[str, object] = {"day": pd.date_range("2023-01-01", periods=n).strftime("%Y-%m-%d")}
    for name, noise in (("lear", 4.0), ("dnn", 5.0), ("naive", 8.0)):
        said = price + noise * rng.normal(size=price.shape)
        columns |= {f"{name}_{hour}": said[:, j] for j, hour in enumerate(HOURS)}
    wanted = price + 7 * rng.normal(size=price.shape)
    plan = np.clip(wanted - wanted.min(axis=1, keepdims=True), 0, None)
    plan /= plan.sum(axis=1, keepdims=True)
    columns |= {f"plan_{hour}": plan[:, j] for j, hour in enumerate(HOURS)}
    return pd.DataFrame(columns | {f"price_{hour}": price[:, j] for j, hour in enumerate(HOURS)})


JOB = """
[data]
fit = "history.csv"
labels = "price_*"
time = "day"

[models]
lear = "lear_*"
dnn = "dnn_*"
naive = "naive_*"
{policies}
[feasible]
kind = "simplex"
{ensemble}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare(folder: Path, rows: pd.DataFrame, policies: str = "", ensemble: str = "") -> None:
    rows.to_csv(folder / "history.csv", index=False)
    (folder / "job.toml").write_text(JOB.format(policies=policies, ensemble=ensemble))


def test_one_gap_among_968_rows(line: Line, folder: Path) -> None:
    whole, rows = prices(), prices()
    rows.loc[417, "dnn_03"] = np.nan
    prepare(folder, rows)
    checked = line("check", "job.toml")
    assert (checked.code, checked.err) == (0, "")
    assert "'dnn' has no answer in 1 of 968 rows" in checked.out
    fitted = line("fit", "job.toml", "--json")
    assert fitted.code == 0
    gappy = json.loads(fitted.out)
    prepare(folder, whole)
    complete = json.loads(line("fit", "job.toml", "-o", "whole.oe", "--json").out)
    earned = [next(each for each in found["leaderboard"] if each["chosen"])["realised"] for found in (gappy, complete)]
    assert earned[0] == pytest.approx(earned[1], rel=0.01)
    later = prices(seed=1, n=60)
    later.loc[[3, 4], ["lear_00", "lear_01"]] = np.nan
    later.to_csv(folder / "later.csv", index=False)
    decided = line("decide", "ensemble.oe", "later.csv", "-o", "decisions.csv", "--json")
    assert decided.code == 0
    assert json.loads(decided.out)["absent"] == {"lear": 2}
    decisions = pd.read_csv(folder / "decisions.csv")
    assert decisions.columns[0] == "day"
    assert decisions["day"].tolist() == later["day"].tolist()
    assert not decisions.filter(like="action_").isna().to_numpy().any()


def test_a_plan_that_is_off_by_a_thousandth(line: Line, folder: Path) -> None:
    rows = prices()
    names = [f"plan_{hour}" for hour in HOURS]
    exact = rows[names].to_numpy()
    rows[names] = rows[names].round(3)  # now and then the plan of a day comes to 0.999 or 1.001
    off = np.abs(rows[names].sum(axis=1) - 1) > 1e-9
    assert off.sum() > 100
    plan = '[policies]\nplan = "plan_*"\n'
    prepare(folder, rows, plan)
    refused = line("fit", "job.toml")
    assert refused.code == 2
    for words in ("policy 'plan' in row", "sums to", "set tolerance in [ensemble]"):
        assert words in refused.err
    prepare(folder, rows, plan, "[ensemble]\ntolerance = 0.003")
    fitted = line("fit", "job.toml", "--json")
    assert (fitted.code, fitted.err) == (0, "")
    found = json.loads(fitted.out)
    assert found["mended"] == int(off.sum())
    rows[names] = exact
    prepare(folder, rows, plan)
    unrounded = json.loads(line("fit", "job.toml", "-o", "exact.oe", "--json").out)
    earned = [
        next(each for each in board["leaderboard"] if each["candidate"] == "plan") for board in (found, unrounded)
    ]
    assert earned[0]["realised"] == pytest.approx(earned[1]["realised"], rel=0.002)


def test_labels_that_are_late(line: Line, folder: Path) -> None:
    rows = prices()
    names = [f"price_{hour}" for hour in HOURS]
    rows.loc[ROWS - 7 :, names] = np.nan  # the last week is not settled
    rows.loc[500, "price_02"] = np.nan
    prepare(folder, rows)
    checked = line("check", "job.toml")
    assert (checked.code, checked.err) == (0, "")
    assert "8 of 968 rows have no labels and are left out" in checked.out
    assert line("fit", "job.toml", "--quiet").code == 0
    settled = rows.dropna().reset_index(drop=True)
    prepare(folder, settled)
    assert line("fit", "job.toml", "-o", "settled.oe", "--quiet").code == 0
    later = prices(seed=2, n=90)
    later.loc[70:, names] = np.nan
    later.to_csv(folder / "later.csv", index=False)
    answers = []
    for ensemble in ("ensemble.oe", "settled.oe"):
        assert line("decide", ensemble, "later.csv", "-o", "decisions.csv", "--quiet").code == 0
        answers.append((folder / "decisions.csv").read_text())
    assert answers[0] == answers[1]
    audited = line("audit", "ensemble.oe", "later.csv", "--json")
    found = json.loads(audited.out)
    assert (found["summary"]["rows"], found["unlabelled"]) == (70, 20)
    (folder / "job.toml").write_text(
        (folder / "job.toml").read_text().replace("[data]", '[data]\nmissing_labels = "raise"')
    )
    rows.to_csv(folder / "history.csv", index=False)
    refused = line("fit", "job.toml")
    assert refused.code == 2
    assert "column 'price_00' has no value in line 963" in refused.err
