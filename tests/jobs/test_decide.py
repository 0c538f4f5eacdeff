"""Decisions for a table: what the ensemble decides in Python, whatever the format, the files and the batches."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optensemble.exceptions import FileError, InputError
from optensemble.jobs.decide import DecisionSummary, decide_table
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.saved_ensemble import SavedEnsemble, open_ensemble
from optensemble.tables.reading import Tables, find_tables
from tests.jobs.worlds import LABELS, leftovers, make_rows, read_table, write_job, write_table

NEW = make_rows(90, seed=1).drop(columns=[*LABELS, "customer", "date"])
KINDS = ["decision", "white_box", "black_box", "grouped"]


@dataclass(frozen=True)
class World:
    """A folder with an ensemble in a file, and rows to decide for."""

    folder: Path
    new: Path

    def open(self, tables: Tables | None = None, **columns: Any) -> SavedEnsemble:
        return open_ensemble(self.folder / "e.oe", tables or self.tables, **columns)

    @property
    def tables(self) -> Tables:
        return Tables((self.new,))

    def decide(self, out: Path, batch: int = 1 << 16, **columns: Any) -> DecisionSummary:
        return decide_table(self.open(**columns), self.tables, out, batch=batch)


def write_ensemble(folder: Path, rows: pd.DataFrame, **changes: Any) -> None:
    write_table(rows, folder / "history.parquet")
    changes["data"] = {"fit": "history.parquet", "id": "day", **changes.get("data", {})}
    fit_job(prepare(read_job(write_job(folder, **changes)))).save(folder / "e.oe")


@pytest.fixture(scope="module", params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp(request.param)
    worlds: dict[str, dict[str, Any]] = {
        "decision": {"ensemble": {"sense": "min"}, "data": {"time": "date", "groups": "customer"}},
        "white_box": {"policies": None, "ensemble": {"kind": "white_box"}},
        "black_box": {"models": {"b": None}, "ensemble": {"kind": "black_box"}},
        "grouped": {"data": {"subgroups": ["region"]}},
    }
    write_ensemble(folder, make_rows(), **worlds[request.param])
    return World(folder, write_table(NEW, folder / "new.parquet"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("plain")
    write_ensemble(folder, make_rows())
    return World(folder, write_table(NEW, folder / "new.parquet"))


# Decisions written


@pytest.mark.parametrize("name", ["d.parquet", "d.csv", "d.arrow"])
def test_decisions_are_those_of_python(name: str, world: World, tmp_path: Path) -> None:
    decisions = world.decide(tmp_path / name)
    found, ensemble = read_table(tmp_path / name), world.open().ensemble
    answer = ensemble.answer(NEW)
    actions = ["action_0", "action_1", "action_2"]
    assert list(found) == ["day", *actions, "followed", "promised", "low", "high"]
    assert found["day"].tolist() == NEW["day"].tolist()
    np.testing.assert_array_equal(found[actions].to_numpy(dtype=float), answer.actions)
    assert found["followed"].tolist() == [ensemble.names_[choice] for choice in answer.chosen]
    for column in ("promised", "low", "high"):
        np.testing.assert_array_equal(found[column], getattr(answer, column))
    assert decisions.rows == len(NEW)
    assert decisions.followed == found["followed"].value_counts().to_dict()
    assert sum(decisions.followed.values()) == len(NEW)


@pytest.mark.slow
def test_the_promise_is_that_of_all_rows_together(world: World, tmp_path: Path) -> None:
    expected = world.open().ensemble.promise(NEW)
    for batch in (1, 7, 1000):
        promise = world.decide(tmp_path / "d.csv", batch).promise
        for name in ("mean", "low", "high", "rely_on"):
            assert getattr(promise, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
        assert (promise.rows, promise.unlike, promise.note) == (90, expected.unlike, expected.note)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 7, 89, 90])
def test_the_size_of_batches_does_not_matter(batch: int, world: World, tmp_path: Path) -> None:
    world.decide(tmp_path / "whole.parquet")
    world.decide(tmp_path / "parts.parquet", batch)
    whole, parts = (read_table(tmp_path / f"{name}.parquet") for name in ("whole", "parts"))
    for column in whole:
        if column in ("promised", "low", "high"):
            np.testing.assert_allclose(parts[column], whole[column], rtol=1e-9, atol=1e-9)
        else:
            assert parts[column].tolist() == whole[column].tolist(), column


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 89), max_size=3, unique=True), names=st.permutations(["csv", "parquet", "arrow"]))
def test_how_rows_are_spread_over_files_does_not_matter(
    cuts: list[int], names: list[str], plain: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files")
    bounds = [0, *sorted(cuts), len(NEW)]
    paths = [
        write_table(NEW[start:stop], folder / f"{number}.{names[number % 3]}")
        for number, (start, stop) in enumerate(pairwise(bounds))
    ]
    decide_table(plain.open(), find_tables([str(path) for path in paths]), folder / "d.parquet")
    plain.decide(folder / "whole.parquet")
    pd.testing.assert_frame_equal(read_table(folder / "d.parquet"), read_table(folder / "whole.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("values", [[1.0, 2.0, 2.5], ["2025-01-01T00:00", "2025-01-01T06:00"]], ids=["number", "time"])
def test_what_a_group_is_called_does_not_depend_on_the_rows_beside_it(
    values: list[Any], batch: int, tmp_path: Path
) -> None:
    """Two subgroups of opposite bias, told apart by a whole number and a fraction, or by midnight and morning."""
    rng = np.random.default_rng(0)
    rows, kinds = make_rows(900), np.array(values, dtype="datetime64[s]" if isinstance(values[0], str) else float)
    number = rng.integers(len(kinds), size=len(rows))
    shift = np.where(number == len(kinds) - 1, 3.0, -3.0)
    rows = rows.assign(region=kinds[number], y_0=rows["y_0"] + shift)
    write_ensemble(tmp_path, rows, data={"subgroups": "region"})
    world = World(tmp_path, write_table(rows[:120], tmp_path / "new.parquet"))
    world.decide(tmp_path / "whole.csv")
    world.decide(tmp_path / "parts.csv", batch)
    whole, parts = (read_table(tmp_path / f"{name}.csv") for name in ("whole", "parts"))
    taken = whole["action_0"].to_numpy()
    assert taken[shift[:120] > 0].mean() > 0.8 > 0.2 > taken[shift[:120] < 0].mean()  # so subgroups do matter
    assert parts["action_0"].tolist() == whole["action_0"].tolist()


def test_progress_counts_rows(plain: World, tmp_path: Path) -> None:
    told: list[int] = []
    decide_table(plain.open(), plain.tables, tmp_path / "d.csv", told.append, batch=40)
    assert told == [40, 80, 90]


def test_labels_times_and_groups_are_never_needed(world: World, tmp_path: Path) -> None:
    unwanted = {*LABELS, "date", "customer"}
    assert not unwanted & set(NEW)
    world.decide(tmp_path / "d.csv")  # and labels that are there change nothing
    labelled = write_table(make_rows(90, seed=1), tmp_path / "labelled.parquet")
    decide_table(world.open(), Tables((labelled,)), tmp_path / "labelled.csv")
    assert (tmp_path / "d.csv").read_bytes() == (tmp_path / "labelled.csv").read_bytes()


def test_the_id_column_may_be_another_or_none(plain: World, tmp_path: Path) -> None:
    other = write_table(NEW.rename(columns={"day": "key"}), tmp_path / "new.csv")
    tables = Tables((other,))
    decide_table(plain.open(tables, id_column="key"), tables, tmp_path / "d.csv")
    assert read_table(tmp_path / "d.csv")["key"].tolist() == NEW["day"].tolist()
    with pytest.raises(InputError, match=r"new\.csv has no column 'day'"):
        decide_table(plain.open(tables), tables, tmp_path / "d.csv")


def test_limits_that_are_not_known_are_left_empty(tmp_path: Path) -> None:
    """Too few rows in the record for a 95 % interval of one row cannot be fitted by a job, so the record is cut."""
    write_ensemble(tmp_path, make_rows())
    world = World(tmp_path, write_table(NEW, tmp_path / "new.parquet"))
    saved = world.open()
    record = saved.ensemble.record_
    saved.ensemble.record_ = type(record)(record.assessed[:30], record.realised[:30])
    decide_table(saved, world.tables, tmp_path / "d.csv")
    found = read_table(tmp_path / "d.csv")
    assert found["low"].isna().all()
    assert found["high"].isna().all()
    assert found["promised"].notna().all()


# Errors leave nothing behind


def refused(world: World, path: Path, out: Path, error: type[Exception] = InputError, **columns: Any) -> str:
    out.write_text("what was there")
    tables = Tables((path,))
    with pytest.raises(error) as caught:
        decide_table(world.open(tables, **columns), tables, out, batch=40)
    assert out.read_text() == "what was there"
    assert leftovers(out.parent) == []
    return str(caught.value)


@pytest.mark.parametrize("name", ["new.csv", "new.parquet", "new.arrow"])
def test_a_table_without_rows_is_refused(name: str, plain: World, tmp_path: Path) -> None:
    path = write_table(NEW[:0], tmp_path / name)
    assert f"{path} has no rows. Give a table with rows to decide for." in refused(plain, path, tmp_path / "d.csv")


@pytest.mark.parametrize("again", [11, 80], ids=["same batch", "another batch"])
def test_an_id_that_is_there_twice_is_refused(again: int, plain: World, tmp_path: Path) -> None:
    rows = NEW.assign(day=["same" if i in (10, again) else day for i, day in enumerate(NEW["day"])])
    path = write_table(rows, tmp_path / "new.csv")
    assert "'same' is there 2 times" in refused(plain, path, tmp_path / "d.csv")


def test_a_policy_outside_the_set_is_told_with_the_rows(plain: World, tmp_path: Path) -> None:
    path = write_table(NEW.assign(plan_0=np.where(np.arange(90) == 55, 2.0, NEW["plan_0"])), tmp_path / "new.csv")
    message = refused(plain, path, tmp_path / "d.csv")
    assert f"{path}: the decision of policy 'plan' in row 55" in message
    assert "outside the feasible set by 2" in message


@pytest.mark.parametrize("name", ["followed", "promised", "low", "high", "action_1"])
def test_an_id_column_may_not_be_called_as_a_column_of_the_decisions(name: str, plain: World, tmp_path: Path) -> None:
    path = write_table(NEW.rename(columns={"day": name}), tmp_path / "new.csv")
    message = refused(plain, path, tmp_path / "d.csv", id_column=name)
    assert repr(name) in message
    assert "Rename it" in message


@pytest.mark.parametrize("out", ["d.csv", "d.parquet", "d.arrow"])
def test_ids_of_one_file_as_numbers_and_of_another_as_text_are_one_column(
    out: str, plain: World, tmp_path: Path
) -> None:
    numbered = NEW.assign(day=np.arange(90))
    paths = [
        write_table(numbered[:50], tmp_path / "1.parquet"),
        write_table(numbered[50:], tmp_path / "2.csv"),
        write_table(numbered[:0], tmp_path / "3.arrow"),
    ]
    for files in (paths, paths[::-1]):
        decide_table(plain.open(), Tables(tuple(files)), tmp_path / out)
        assert sorted(map(int, read_table(tmp_path / out)["day"])) == list(range(90))


def test_the_same_id_as_a_number_and_as_text_is_there_twice(plain: World, tmp_path: Path) -> None:
    numbered = NEW.assign(day=np.arange(90))
    paths = (write_table(numbered, tmp_path / "1.parquet"), write_table(numbered, tmp_path / "2.csv"))
    with pytest.raises(InputError, match="is there 2 times"):
        decide_table(plain.open(), Tables(paths), tmp_path / "d.parquet")
    assert not (tmp_path / "d.parquet").exists()


def test_a_file_that_vanishes_on_the_way_leaves_nothing(plain: World, tmp_path: Path) -> None:
    paths = [write_table(NEW.assign(day=NEW["day"] + end), tmp_path / f"{end}.csv") for end in "abcdef"]

    def vanish(_: int) -> None:
        paths[-1].unlink(missing_ok=True)  # the next few are read by then

    with pytest.raises(FileError, match=r"there is no file .*f\.csv"):
        decide_table(plain.open(), Tables(tuple(paths)), tmp_path / "out.csv", vanish)
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in paths[:-1]]


def test_what_is_read_is_not_written_over(plain: World, tmp_path: Path) -> None:
    table = Path(shutil.copy(plain.new, tmp_path))
    before = table.read_bytes()
    with pytest.raises(InputError, match="is an input, and would be overwritten"):
        decide_table(plain.open(), Tables((table,)), table)
    with pytest.raises(InputError, match="is an input, and would be overwritten"):
        decide_table(plain.open(), Tables((table,)), plain.folder / "e.oe")
    assert table.read_bytes() == before
