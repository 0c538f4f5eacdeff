"""Commands on ensembles whose members are estimators in the file: without --trust where that is safe, else with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import optensemble as oe
from optensemble import feasible
from tests.cli.calling import Line
from tests.cli.refusals import LATER, NEW, ROWS
from tests.jobs.worlds import LABELS, write_table

pytest.importorskip("skops")
pytestmark = pytest.mark.slow

FEATURES = ["b_1", "a_0", "b_2", "a_1"]  # another order than that of the table
TYPES = [
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neighbors._regression.KNeighborsRegressor",
]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two ensembles of estimators: one of safe types, and one that asks."""
    folder, X = tmp_path_factory.mktemp("estimators"), ROWS[FEATURES]
    forest = RandomForestRegressor(5, random_state=0).fit(X[:80], ROWS[LABELS][:80])
    near = KNeighborsRegressor().fit(X[:80], ROWS[LABELS][:80])
    columns = oe.Columns(["a_0", "a_1", "b_2"])
    for name, second in (("safe", Ridge().fit(X[:80], ROWS[LABELS][:80])), ("asking", near)):
        models = [("forest", forest), ("second", second), ("columns", columns)]
        ensemble = oe.DecisionEnsemble(models, None, feasible.Simplex(3))
        ensemble.fit(X[80:], ROWS[LABELS][80:]).save(folder / f"{name}.oe")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for name, rows in (("new.csv", NEW), ("later.csv", LATER), ("all.csv", pd.concat([ROWS[80:], LATER]))):
        write_table(rows, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(name: str) -> list[list[str]]:
    return [
        ["decide", name, "new.csv", "-o", "decisions.csv"],
        ["audit", name, "later.csv"],
        ["explain", name, "new.csv", "--row", "3"],
        ["report", name, "later.csv", "-o", "report.html"],
        ["update", name, "later.csv"],
        ["refit", name],
    ]


def test_files_of_safe_types_need_no_flag(place: Path, line: Line) -> None:
    for command in commands("safe.oe"):
        said = line(*command)
        assert said.code in (0, 3, 4, 5), (command, said.err)
    expected = oe.load(place / "safe.oe", models=None).decide(NEW[FEATURES])
    line("decide", "safe.oe", "new.csv", "-o", "decisions.csv")
    decided = pd.read_csv(place / "decisions.csv").filter(like="action_")
    np.testing.assert_allclose(decided, np.asarray(expected), atol=1e-12)


@pytest.mark.parametrize("number", range(6))
def test_other_types_must_be_trusted(number: int, place: Path, line: Line) -> None:
    command = commands("asking.oe")[number]
    said = line(*command)
    assert said.code == 2
    assert "asking.oe holds types that are not trusted: " + ", ".join(TYPES) in said.err
    assert said.err.rstrip().endswith(f"add --trust {','.join(TYPES)}")
    assert line(*command, "--trust", TYPES[0], "--trust", ", ".join(TYPES[1:])).code in (0, 3, 4, 5)


def test_an_update_keeps_the_members(place: Path, line: Line) -> None:
    assert line("update", "asking.oe", "later.csv", "--trust", ",".join(TYPES)).code in (0, 5)
    loaded = oe.load(place / "asking.oe", trusted=TYPES)
    assert loaded.n_updated_ == len(LATER)
    line("refit", "asking.oe", "--trust", ",".join(TYPES), "--json")
    again = oe.load(place / "asking.oe", trusted=TYPES)
    assert again.n_rows_ == len(ROWS) - 80 + len(LATER)


def test_estimators_of_arrays_need_python(place: Path, line: Line) -> None:
    X, Y = ROWS[FEATURES].to_numpy(), ROWS[LABELS].to_numpy()
    ensemble = oe.DecisionEnsemble([("ridge", Ridge().fit(X[:80], Y[:80]))], None, feasible.Simplex(3))
    ensemble.fit(X[80:], Y[80:]).save(place / "array.oe")
    said = line("decide", "array.oe", "new.csv", "-o", "d.csv", "--json")
    assert said.code == 2
    assert "its members were fitted on an array, without names of columns. Use it from Python" in said.err
    assert json.loads(said.out)["exit_code"] == 2
