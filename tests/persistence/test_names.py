"""Names of labels and of columns of X in files: saved, loaded, missing in older files, refused if damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from tests.jobs.worlds import LABELS as JOB_LABELS
from tests.jobs.worlds import make_rows, write_job, write_table
from tests.persistence.archives import parts, write

LABELS, ROWS = ["north", "south"], make_rows()
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(200, 2)), columns=["a", "b"])
Y = pd.DataFrame(X.to_numpy() + RNG.normal(size=(200, 2)), columns=LABELS)
MODELS: dict[str, Any] = {"m": lambda X: np.asarray(X) * [1.0, 0.5]}
BOLD: dict[str, Any] = {"p": lambda X: feasible.Simplex(2).argmax(np.asarray(X))}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "decision": (oe.DecisionEnsemble(MODELS, feasible=feasible.Simplex(2)), {"models": MODELS}),
    "white box": (oe.WhiteBoxEnsemble(MODELS, feasible.Simplex(2)), {"models": MODELS}),
    "black box": (oe.BlackBoxEnsemble(BOLD, feasible.Simplex(2)), {"policies": BOLD}),
}
of_each_kind = pytest.mark.parametrize("kind", KINDS)


def saved(kind: str, path: Path, labels: Any = Y, rows: Any = X) -> tuple[Any, dict[str, Any]]:
    ensemble, given = KINDS[kind]
    ensemble.fit(rows, labels).save(path)
    return ensemble, given


def change(path: Path, **entries: Any) -> None:
    """Write a file again with other entries of its document; one that is None is left out."""
    content = parts(path)
    document = {**json.loads(content["ensemble.json"]), **entries}
    document = {name: entry for name, entry in document.items() if name not in entries or entry is not None}
    write(path, {**content, "ensemble.json": json.dumps(document).encode()})


@of_each_kind
def test_names_come_back(kind: str, tmp_path: Path) -> None:
    ensemble, given = saved(kind, tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe", **given)
    assert loaded.labels_ == LABELS
    assert loaded.feature_names_in_ == ["a", "b"]
    pd.testing.assert_frame_equal(loaded.decide(X[["b", "a"]]), ensemble.decide(X))
    assert str(loaded.explain(X, 1)) == str(ensemble.explain(X, 1))
    assert loaded.score(X, Y[["south", "north"]]) == ensemble.score(X, Y)


@of_each_kind
def test_files_without_names(kind: str, tmp_path: Path) -> None:
    _, given = saved(kind, tmp_path / "e.oe", Y.to_numpy(), X.to_numpy())
    loaded = oe.load(tmp_path / "e.oe", **given)
    assert loaded.labels_ is None
    assert not hasattr(loaded, "feature_names_in_")


@of_each_kind
def test_older_files_have_no_names(kind: str, tmp_path: Path) -> None:
    _, given = saved(kind, tmp_path / "e.oe")
    change(tmp_path / "e.oe", labels=None, features=None)
    assert oe.load(tmp_path / "e.oe", **given).labels_ is None


def test_older_files_of_a_job_have_the_names_of_its_labels(tmp_path: Path) -> None:
    write_table(ROWS, tmp_path / "history.csv")
    fit_job(prepare(read_job(write_job(tmp_path)))).save(tmp_path / "e.oe")
    assert oe.load(tmp_path / "e.oe").labels_ == list(JOB_LABELS)
    change(tmp_path / "e.oe", labels=None)
    loaded = oe.load(tmp_path / "e.oe")
    assert loaded.labels_ == list(JOB_LABELS)
    assert list(loaded.decide(ROWS[:3])) == list(JOB_LABELS)
    assert list(loaded.explain(ROWS, 0).steps) == ["stage", *(f"y_{name}" for name in JOB_LABELS)]


@pytest.mark.parametrize("labels", ["north", ["north"], ["north", "north"], ["north", 1], {"north": "south"}], ids=str)
@of_each_kind
def test_damaged_names_are_refused(kind: str, labels: Any, tmp_path: Path) -> None:
    _, given = saved(kind, tmp_path / "e.oe")
    change(tmp_path / "e.oe", labels=labels)
    with pytest.raises(FileError, match=r"labels"):
        oe.load(tmp_path / "e.oe", **given)


def test_damaged_names_of_columns_are_refused(tmp_path: Path) -> None:
    _, given = saved("decision", tmp_path / "e.oe")
    change(tmp_path / "e.oe", features=["a", "a"])
    with pytest.raises(FileError, match=r"features must hold distinct names"):
        oe.load(tmp_path / "e.oe", **given)
