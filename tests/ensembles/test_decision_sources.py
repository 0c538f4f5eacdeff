"""The same bits from arrays and from files, however these are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import optensemble as oe
from optensemble import feasible
from optensemble._core.engine import BLOCK_ROWS, Local
from optensemble._core.progress import STAGES
from optensemble.exceptions import InputError
from tests.ensembles.engines import Elsewhere
from tests.ensembles.source_worlds import (
    BY_ROW,
    GAPS,
    D,
    Ensemble,
    gappy,
    labels,
    make,
    same_bits,
    same_file,
    world,
    write,
)

CUTS = ([9000, 9001, 40_013], 7001), ([BLOCK_ROWS], 50_000)
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "models": ({}, {}),
    "in time order": ({}, {"time_ordered": True}),
    "in groups": ({}, {"groups": "group"}),
    "in groups of a rule": ({}, {"groups": lambda X: X["group"]}),
    "in groups and time order": ({"access": "both"}, {"groups": "group", "time_ordered": True}),
    "subgroups": ({"subgroups": "region"}, {}),
    "a context": ({"context": "plan_*"}, {}),
    "policies": ({"access": "policies"}, {"random_state": 3}),
    "both, of costs": ({"access": "both", "sense": "min", "subgroups": ["region"]}, {}),
    **{kind: ({"feasible": omega}, {}) for kind, omega in BY_ROW.items()},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Patterns of the files of the world, cut in two ways."""
    folder = tmp_path_factory.mktemp("world")
    return [write(world(), folder / f"cut {number}", *cut) for number, cut in enumerate(CUTS)]


def rows_of(pattern: str) -> oe.Rows:
    return oe.Rows(pattern, labels="y_*")


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_and_files_learn_the_same_bits(kind: str, files: list[str], tmp_path: Path) -> None:
    parameters, options = KINDS[kind]
    expected = make(**parameters).fit(world(), labels(world()), **options)
    # each kind from one of the two cuts, by turns, and the first from both
    for pattern in files if kind == "models" else [files[list(KINDS).index(kind) % 2]]:
        same_file(make(**parameters).fit(rows_of(pattern), **options), expected, tmp_path)
    if kind == "models":
        assert "patched" in expected.names_


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", GAPS)
def test_gaps_and_weights_of_arrays_and_files_teach_the_same_bits(kind: str, tmp_path: Path) -> None:
    (parameters, options), frame = GAPS[kind], gappy(BLOCK_ROWS + 3001)
    options = {"missing_labels": "drop", **options}
    expected = make(**parameters).fit(frame, labels(frame), **options)
    pattern = write(frame, tmp_path / "gaps", [7001, 40_013], 9000)
    same_file(make(**parameters).fit(rows_of(pattern), **options), expected, tmp_path)
    assert any("rows have no labels and were left out" in note for note in expected.notes_)


def test_gaps_of_members_that_are_asked_only_once_teach_the_same_bits(tmp_path: Path) -> None:
    frame, names = gappy(BLOCK_ROWS + 3001), [f"a_{j}" for j in range(D)]
    others = [f"b_{j}" for j in range(D)]
    models = [("a", lambda X: X[names].to_numpy()), ("b", lambda X: X[others].to_numpy())]
    fits = [Ensemble(models, feasible=feasible.Simplex(D), context=None) for _ in range(2)]
    fits[0].fit(frame, labels(frame), missing_labels="drop")
    fits[1].fit(rows_of(write(frame, tmp_path / "gaps", [7001], 9000)), missing_labels="drop")
    same_bits(fits[1], fits[0])
    assert fits[0].answer(frame[:100]).absent == fits[1].answer(frame[:100]).absent != {}


def test_weights_in_files_must_be_numbers_of_rows(tmp_path: Path) -> None:
    frame = gappy(3000).assign(weight=1 / 3000)
    rows = rows_of(write(frame, tmp_path / "weights", [], 1000))
    with pytest.raises(InputError, match=r"the weights of .* rows sum to 0.9.*Scale the weights"):
        make().fit(rows, sample_weight="weight", missing_labels="drop")
    negative = rows_of(
        write(frame.assign(weight=np.where(np.arange(3000) == 1700, -1.0, 1.0)), tmp_path / "n", [], 1000)
    )
    with pytest.raises(InputError, match=r"sample_weight must be between 0 and .*got -1 in row 1\d\d\d of .*part-0"):
        make().fit(negative, sample_weight="weight", missing_labels="drop")


def test_threads_and_an_engine_of_ones_own_learn_the_same_bits(tmp_path: Path) -> None:
    frame = world(2 * BLOCK_ROWS + 77)
    rows = rows_of(write(frame, tmp_path / "t", [100_000], 33_333))
    expected = make(subgroups="region").fit(frame, labels(frame), groups="group")
    same_bits(make(subgroups="region").fit(rows, groups="group", n_jobs=2), expected)
    engine = Elsewhere()
    same_bits(make(subgroups="region").fit(rows, groups="group", engine=engine), expected)
    assert engine.passes[:2] == ["survey_rows", "look_first"]
    same_bits(make(subgroups="region").fit(frame, labels(frame), groups="group", engine=Elsewhere(1)), expected)


def test_rows_that_are_there_several_times_are_found_in_files_too(tmp_path: Path) -> None:
    frame = pd.concat([world(8000)] * 3, ignore_index=True)
    expected = make().fit(frame, labels(frame))
    assert expected.record_.design_effect > 2
    same_file(make().fit(rows_of(write(frame, tmp_path / "t", [5000], 700))), expected, tmp_path)


# Further rows


@pytest.mark.no_cover
@pytest.mark.parametrize("options", [{}, {"groups": "group"}], ids=str)
def test_files_and_frames_can_be_added_to_each_other(options: dict[str, Any], tmp_path: Path) -> None:
    frame, at = world(), 40_000
    old, new = frame[:at], frame[at:].reset_index(drop=True)
    whole = make().fit(frame, labels(frame), **options)
    first, second = (rows_of(write(part, tmp_path / name, [777], 5000)) for name, part in (("a", old), ("b", new)))
    same_bits(make().fit(first, **options).extend(X=second, **options), whole)
    same_bits(make().fit(first, **options).extend(X=new, Y=labels(new), **options), whole)
    same_bits(make().fit(old, labels(old), **options).extend(X=second, **options), whole)


def test_an_update_after_a_fit_on_files_is_that_after_arrays(tmp_path: Path) -> None:
    old, new = world(8000), world(3000, 1)
    rows = rows_of(write(old, tmp_path / "t", [5000], 700))
    expected = make().fit(old, labels(old)).update(new, labels(new))
    found = make().fit(rows).update(new, labels(new))
    same_file(found, expected, tmp_path)
    with pytest.raises(InputError, match="were fitted on or given before"):
        found.update(old[:500], labels(old)[:500])
    same_bits(found.extend(), expected.extend())


def test_groups_must_be_found_alike_in_all_rows(tmp_path: Path) -> None:
    frame = world(1000)
    ensemble = make().fit(rows_of(write(frame, tmp_path / "t", [], 100)), groups="group")
    with pytest.raises(InputError, match=r"must find groups alike. Name one column for all"):
        ensemble.extend(X=frame, Y=labels(frame), groups=np.arange(1000) // 9)


# Members


class Scaled:
    """A member that notes what it is asked."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def predict(self, X: Any) -> Any:
        self.seen.append(X)
        return 0.5 * X[[f"b_{j}" for j in range(D)]].to_numpy()


def test_estimators_are_asked_with_frames(tmp_path: Path) -> None:
    frame, past = world(BLOCK_ROWS + 500), world(2000, 9)
    numbers = [f"{name}_{j}" for name in ("a", "b") for j in range(D)]
    linear, scaled = LinearRegression().fit(past[numbers], labels(past)), Scaled()
    rows = oe.Rows(write(frame, tmp_path / "t", [500], 9000), labels="y_*", columns=numbers)
    members = [("linear", linear), ("scaled", scaled)]
    ensemble = Ensemble(members, feasible=feasible.Simplex(D), context=None).fit(rows)
    assert {type(X) for X in scaled.seen} == {pd.DataFrame}
    assert {tuple(X.columns) for X in scaled.seen} == {tuple(numbers)}
    assert {len(X) for X in scaled.seen} == {BLOCK_ROWS, 500}
    same_bits(ensemble, ensemble.__sklearn_clone__().fit(frame[numbers], labels(frame)))


@pytest.mark.parametrize("engine", [None, Elsewhere()], ids=["here", "elsewhere"])
def test_a_member_that_raises_is_named(files: list[str], engine: Any) -> None:
    ensemble = Ensemble([("b", Scaled()), ("wrong", _wrong)], feasible=feasible.Simplex(D))
    with pytest.raises(KeyError) as caught:
        ensemble.fit(rows_of(files[0]), engine=engine)
    assert caught.value.__notes__[0] == "This came from the member 'wrong' of the ensemble."
    assert "part-0.parquet" in caught.value.__notes__[1]
    assert not hasattr(ensemble, "decider_")


def _wrong(X: pd.DataFrame) -> Any:
    return X["no such column"]


# Progress and engines


def test_progress_of_a_fit_on_files(files: list[str]) -> None:
    told: list[tuple[str, float]] = []
    make(subgroups="region").fit(rows_of(files[0]), progress=lambda stage, share: told.append((stage, share)))
    assert list(dict.fromkeys(stage for stage, _ in told)) == list(STAGES)
    for stage in STAGES:
        shares = [share for each, share in told if each == stage]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert shares.count(1.0) == 1


def test_what_progress_raises_leaves_the_ensemble_as_it_was(files: list[str]) -> None:
    frame = world(500)
    ensemble, before = (make().fit(frame, labels(frame)) for _ in range(2))

    def stop(stage: str, share: float) -> None:
        if stage == "patching":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(rows_of(files[1]), progress=stop)
    same_bits(ensemble, before)


@pytest.mark.parametrize("engine", [3, "tcp://127.0.0.1:8786", object()], ids=["number", "address", "object"])
def test_an_engine_that_is_none_is_refused(engine: Any) -> None:
    frame = world(500)
    with pytest.raises(InputError, match=r"engine must be a dask.distributed.Client, or have run\(.*; got \w+. Leave"):
        make().fit(frame, labels(frame), engine=engine)
    assert make().fit(frame, labels(frame), engine=Local(2)).n_rows_ == 500
