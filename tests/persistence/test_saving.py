"""Saving: the whole file or none."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.exceptions import FileError
from tests.persistence.archives import MEMBERS, PROBLEM, QUICK, assert_same, parts, round_trip
from tests.problems import Problem, make_set, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    ensemble = PROBLEM.white_box(**QUICK)
    with pytest.raises(FileError, match=r"cannot write .*white.oe: No such file or directory. Choose a folder"):
        ensemble.save(tmp_path / "nowhere" / "white.oe")
    assert not list(tmp_path.iterdir())


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "white.oe").mkdir()
    with pytest.raises(FileError, match=r"cannot write .*white.oe: it is there, and is not a file. Give another"):
        PROBLEM.white_box(**QUICK).save(tmp_path / "white.oe")
    assert [entry.name for entry in tmp_path.iterdir()] == ["white.oe"]


@pytest.mark.no_cover
@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError("broken"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_file(
    call: str, error: BaseException, white: tuple[oe.WhiteBoxEnsemble, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    ensemble, path = white
    before = path.read_bytes()
    other = PROBLEM.white_box(**{**QUICK, "alpha": 0.2})
    monkeypatch.setattr(os, call, fail)
    if isinstance(error, OSError):
        with pytest.raises(FileError, match=r"cannot write .*: (No space left on device|broken). Nothing was written"):
            other.save(path)
    else:
        with pytest.raises(KeyboardInterrupt):
            other.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert_same(oe.load(path, **MEMBERS), ensemble, PROBLEM.X)


def test_saving_replaces_the_old_file(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    path = white[1]
    other = PROBLEM.white_box(**{**QUICK, "alpha": 0.2})
    with path.open("rb") as reader:  # a reader that is open reads on
        start = reader.read(10)
        other.save(path)
        rest = reader.read()
    assert zipfile.is_zipfile(io.BytesIO(start + rest))
    assert_same(oe.load(path, **MEMBERS), other, PROBLEM.X)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_what_is_written_is_on_the_disk_before_it_is_in_place(
    white: tuple[oe.WhiteBoxEnsemble, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble, path = white
    order: list[str] = []

    def noted(name: str) -> Callable[..., None]:
        call = getattr(os, name)

        def wrapped(*args: Any) -> None:
            order.append(name)
            call(*args)

        return wrapped

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name))
    ensemble.save(path)
    assert order == ["fsync", "replace"]


def test_a_saved_file_has_the_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    PROBLEM.white_box(**QUICK).save(tmp_path / "white.oe")
    rights = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "white.oe")]
    assert rights[0] == rights[1]


def test_paths_may_be_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ensemble = PROBLEM.white_box(**QUICK)
    ensemble.save("white.oe")
    assert_same(oe.load("white.oe", **MEMBERS), ensemble, PROBLEM.X)


def test_saving_the_same_ensemble_twice_gives_the_same_parts(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    ensemble, path = white
    before = parts(path)
    ensemble.save(path)
    after = parts(path)
    assert before["ensemble.json"] == after["ensemble.json"]


def test_larger_sets_come_back_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    problem = random_problem(5, n=30, d=6)
    for omega in (make_set("risk", 6, rng), make_set("polytope", 6, rng)):
        changed = Problem(problem.X, problem.Y, problem.P, omega)
        round_trip(changed.white_box(**QUICK), problem.X, tmp_path, models=dict(problem.models))
