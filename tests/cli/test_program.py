"""The program as a process of its own: quick to start and to end, and the same results as in Python."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import optensemble as oe
from optensemble._core import estimator
from optensemble.cli import program
from optensemble.feasible import Simplex
from tests.jobs.worlds import make_rows, write_job, write_table

HEAVY = ("sklearn", "scipy.stats", "matplotlib", "highspy", "clarabel")


def run(folder: Path, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-m", "optensemble", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    write_job(folder)
    write_table(make_rows(), folder / "history.csv")
    return folder


def test_commands_load_neither_scikit_learn_nor_what_they_do_not_need(home: Path) -> None:
    for command in (
        ("fit", "job.toml", "-o", "e.oe"),
        ("decide", "e.oe", "history.csv", "-o", "d.csv"),
        ("audit", "e.oe", "history.csv"),
    ):
        done = run(home, *command, "-q", options=("-X", "importtime"))
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line}
        assert "optensemble.cli.main" in loaded
        assert not loaded.intersection(HEAVY), command


@pytest.mark.no_cover
def test_a_program_decides_as_an_ensemble_in_python(home: Path) -> None:
    assert run(home, "fit", "job.toml", "-o", "e.oe").returncode == 0
    assert run(home, "decide", "e.oe", "history.csv", "-o", "d.csv").returncode == 0
    ensemble = oe.load(home / "e.oe")
    actions = pd.read_csv(home / "d.csv").filter(like="action_").to_numpy()
    assert (actions == ensemble.decide(pd.read_csv(home / "history.csv")).to_numpy()).all()


def test_exit_codes_and_errors_are_those_of_the_command(home: Path) -> None:
    done = run(home, "fit", "nowhere.toml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("optensemble: there is no file nowhere.toml.")
    assert done.stderr.count("\n") == 1
    assert run(home, "fit").returncode == 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/bin/optensemble", True),
        ("C:/Scripts/optensemble.exe/__main__.py", True),
        ("/lib/optensemble/__main__.py", True),
        ("/home/me/optensemble/analysis.py", False),
        ("/lib/pytest/__main__.py", False),
        ("", False),
        (None, False),
    ],
)
def test_the_program_is_known_by_its_file(path: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", path, raising=False)
    assert program.is_program() is expected


def test_python_code_that_calls_the_command_keeps_estimators_of_scikit_learn(home: Path) -> None:
    code = """
import sys
from optensemble.cli import main
sys.argv = ["optensemble", "check", "job.toml", "-q"]
try:
    main()
except SystemExit as done:
    print(done.code)
from optensemble import DecisionEnsemble
from sklearn.base import BaseEstimator
print(issubclass(DecisionEnsemble, BaseEstimator))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]


def test_a_plain_estimator_has_the_parameters_of_scikit_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = oe.WhiteBoxEnsemble([("a", len)], Simplex(3), alpha=0.5)
    assert estimator._PlainEstimator.get_params(ensemble) == ensemble.get_params(deep=False)
    monkeypatch.setattr(estimator, "_WITHOUT", True)
    assert estimator.BaseEstimator is estimator._PlainEstimator
    estimator.do_without_scikit_learn()  # it is loaded already
    assert estimator.BaseEstimator is not estimator._PlainEstimator
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = estimator.Nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(("code", "broken", "expected"), [(0, False, 0), (3, False, 3), (0, True, 1), (3, True, 3)])
def test_output_that_cannot_be_written_is_a_failure(
    code: int, broken: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    codes: list[Any] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(sys, "stdout", Broken() if broken else io.StringIO())
    program.exit_quickly(code, 1)
    assert codes == [expected]
