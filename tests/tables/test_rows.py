"""Rows in files: the same rows however they are cut, and errors that say where they are."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError, InputError, OptEnsembleError
from optensemble.members import sources
from optensemble.members.fit_inputs import LabelledBatch
from optensemble.members.sources import BatchRows, JoinedRows, RawBlocks, RowSource
from optensemble.tables import rows as rows_module

MODEL = ("a", oe.Columns(["a_0", "a_1"]))


def table(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = pd.DataFrame(rng.normal(size=(n, 4)), columns=["a_0", "a_1", "y_0", "y_1"])
    return values.assign(group=[f"group {i // 9}" for i in range(n)], number=np.arange(n))


def write(frame: pd.DataFrame, path: Path, group: int = 1 << 20) -> Path:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=group)
    return path


def cut(frame: pd.DataFrame, folder: Path, sizes: list[int], groups: list[int]) -> list[str]:
    """Write a frame as files of these sizes, with row groups of these sizes."""
    ends, paths = np.cumsum([0, *sizes]), list[str]()
    for number, group in enumerate(groups):
        part = frame[ends[number] : ends[number + 1]]
        paths.append(str(write(part, folder / f"part-{number:02d}.parquet", group)))
    return paths


def read(source: RowSource, start: int, stop: int) -> tuple[pd.DataFrame, Any, list[int]]:
    """Read rows: what members see, labels, and the sizes of the pieces."""
    pieces = list(source.read(start, stop))
    X = pd.concat([piece.X for piece in pieces], ignore_index=True)
    return X, np.concatenate([piece.labels for piece in pieces]), [len(piece.X) for piece in pieces]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a block be 8 rows."""
    monkeypatch.setattr(sources, "BLOCK_ROWS", 8)
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", 8)
    return 8


# The same rows however they are cut

FILES = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=4)


@settings(max_examples=60)
@given(files=FILES, bounds=st.tuples(st.integers(0, 80), st.integers(0, 80)))
def test_rows_do_not_depend_on_files_and_row_groups(
    files: list[tuple[int, int]], bounds: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    sizes = [size for size, _ in files]
    frame, folder = table(sum(sizes)), tmp_path_factory.mktemp("cut")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "BLOCK_ROWS", 8)
        patch.setattr(rows_module, "BLOCK_ROWS", 8)
        rows = oe.Rows(cut(frame, folder, sizes, [group for _, group in files]), labels="y_*")
        assert rows.row_count == len(frame)
        start, stop = (min(bound, len(frame)) for bound in sorted(bounds))
        if start < stop:
            X, labels, pieces = read(rows, start, stop)
            expected = frame[start:stop].reset_index(drop=True)
            pd.testing.assert_frame_equal(X, expected[rows.columns])
            np.testing.assert_array_equal(labels, expected[["y_0", "y_1"]])
            edges = [start, *range((start // 8 + 1) * 8, stop, 8), stop]
            assert pieces == np.diff(edges).tolist()  # as much at a time however rows are stored
        blocks = list(RawBlocks(rows).part(0, RawBlocks(rows).count))
        assert [block.start for block in blocks] == list(range(0, len(frame), 8))
        assert all(len(block.pieces) == 1 for block in blocks)
        seen = [block.pieces[0].X for block in blocks]
        assert [len(X) for X in seen] == [min(8, len(frame) - at) for at in range(0, len(frame), 8)]
        if seen:
            pd.testing.assert_frame_equal(pd.concat(seen, ignore_index=True), frame[rows.columns])


def test_a_run_of_blocks_reads_its_rows_alone(tmp_path: Path, small_blocks: int) -> None:
    frame = table(50)
    rows = oe.Rows(cut(frame, tmp_path, [13, 20, 17], [4, 50, 3]), labels="y_*")
    for start, stop in ((0, 1), (1, 3), (2, 7), (6, 7)):
        run = pickle.loads(pickle.dumps(RawBlocks(rows).part(start, stop)))
        seen = pd.concat([block.pieces[0].X for block in run], ignore_index=True)
        expected = frame[start * 8 : stop * 8].reset_index(drop=True)
        pd.testing.assert_frame_equal(seen, expected[rows.columns])


def test_frames_and_files_join_to_one_source(tmp_path: Path, small_blocks: int) -> None:
    frame = table(45)
    rows = oe.Rows(write(frame[:11], tmp_path / "a.parquet"), labels="y_*")
    X, Y = frame[rows.columns], frame[["y_0", "y_1"]].to_numpy()
    joined = JoinedRows((rows, BatchRows(LabelledBatch(X[11:], Y[11:], None))))
    assert joined.row_count == 45
    seen, labels, _ = read(joined, 3, 40)
    pd.testing.assert_frame_equal(seen, X[3:40].reset_index(drop=True))
    np.testing.assert_array_equal(labels, Y[3:40])
    blocks = list(RawBlocks(joined.only(["a_0"])).part(0, 6))
    assert sum(len(piece.labels) for block in blocks for piece in block.pieces) == 45
    assert joined.place(10) == f"row 10 of {tmp_path / 'a.parquet'} (counted from 0)"
    assert joined.place(11) == "row 0 of X (counted from 0)"
    assert joined.place(99) == f"row 54 of {joined} (counted from 0)"
    assert str(joined) == f"{tmp_path / 'a.parquet'} and 1 more"


# Names


def test_labels_are_names_or_patterns_in_the_order_given(tmp_path: Path) -> None:
    path = write(table(5), tmp_path / "t.parquet")
    assert oe.Rows(path, labels="y_*").labels == ["y_0", "y_1"]
    assert oe.Rows(str(path), labels=["y_1", "y_0"]).labels == ["y_1", "y_0"]
    backwards = next(oe.Rows([path], labels=("y_1", "y_0")).read(0, 5))
    np.testing.assert_array_equal(backwards.labels, table(5)[["y_1", "y_0"]])
    assert backwards.X.columns.tolist() == ["a_0", "a_1", "group", "number"]


def test_numbers_in_place_of_a_star_are_sorted_as_in_job_files(tmp_path: Path) -> None:
    frame = pd.DataFrame({name: [1.0, 2.0] for name in ("y_10", "y_2", "a", "y_0")})
    assert oe.Rows(write(frame, tmp_path / "t.parquet"), labels="y_*").labels == ["y_0", "y_2", "y_10"]


def test_a_column_whose_name_is_a_pattern_is_meant_itself(tmp_path: Path) -> None:
    path = write(table(5).rename(columns={"y_0": "y_*"}), tmp_path / "t.parquet")
    assert oe.Rows(path, labels="y_*").labels == ["y_*"]


def test_members_see_the_columns_that_are_named(tmp_path: Path) -> None:
    path = write(table(5), tmp_path / "t.parquet")
    rows = oe.Rows(path, labels="y_*", columns=["number", "a_*"])
    assert rows.columns == ["number", "a_0", "a_1"]
    assert next(rows.read(0, 5)).X.columns.tolist() == ["number", "a_0", "a_1"]
    fewer = rows.only(["a_1"])
    assert isinstance(fewer, oe.Rows)
    assert (fewer.columns, fewer.labels, fewer.row_count) == (["a_1"], ["y_0", "y_1"], 5)
    assert next(fewer.read(1, 3)).X.columns.tolist() == ["a_1"]
    assert rows.columns == ["number", "a_0", "a_1"]
    with pytest.raises(InputError, match=r"has no column 'b_1'. Did you mean 'y_1'"):
        rows.only(["b_1"])


def test_rows_say_what_they_are(tmp_path: Path) -> None:
    paths = cut(table(3000), tmp_path, [1000, 2000], [70, 70])
    rows = oe.Rows(str(tmp_path / "part-*.parquet"), labels="y_*")
    assert [str(path) for path in rows.paths] == paths
    assert str(rows) == f"{paths[0]} and 1 more"
    assert repr(rows) == f"Rows({paths[0]} and 1 more, 3,000 rows, labels=['y_0', 'y_1'])"
    assert str(oe.Rows(paths[1], labels="y_*")) == paths[1]
    assert rows.place(999) == f"row 999 of {paths[0]} (counted from 0)"
    assert rows.place(1000) == f"row 0 of {paths[1]} (counted from 0)"
    assert rows.place(3000) == f"row 3000 of {rows} (counted from 0)"


# Errors, read aloud


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two good files of 300 and 100 rows."""
    cut(table(400), tmp_path, [300, 100], [128, 64])
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOOD = "part-00.parquet"


def fit(paths: Any, labels: Any = "y_*", **options: Any) -> oe.DecisionEnsemble:
    members = options.pop("members", {"models": [MODEL]})
    subgroups = options.pop("subgroups", None)
    ensemble = oe.DecisionEnsemble(**members, feasible=feasible.Simplex(2), subgroups=subgroups)
    return ensemble.fit(oe.Rows(paths, labels=labels), **options)


@pytest.mark.parametrize(
    ("paths", "labels", "message"),
    [
        ("no-*.parquet", "y_*", "no file matches no-*.parquet. Check the path."),
        ("no.parquet", "y_*", "there is no file no.parquet. Check the path; it may have been moved or deleted."),
        ([], "y_*", "no file with rows was named. Name at least one."),
        (None, "y_*", "Rows needs the path of a file, a pattern, or a list of these; got None."),
        ([GOOD, 3], "y_*", f"Rows needs the path of a file, a pattern, or a list of these; got ['{GOOD}', 3]."),
        (
            GOOD,
            "z_*",
            "labels: no column matches 'z_*'. There are 'a_0', 'a_1', 'y_0'",
        ),
        (GOOD, ["y_0", "y1"], "labels: the table has no column 'y1'. Did you mean 'y_1'?"),
        (GOOD, ["y_0", "y_*"], "labels names the column 'y_0' twice. Name it once."),
        (GOOD, [], "labels names no column. Name the columns of the labels; there are 'a_0', 'a_1', 'y_0'"),
    ],
)
def test_rows_that_cannot_be_found(folder: Path, paths: Any, labels: Any, message: str) -> None:
    with pytest.raises(OptEnsembleError, match=re.escape(message)):
        oe.Rows(paths, labels=labels)


def test_other_formats_are_for_the_command_line(folder: Path) -> None:
    table(9).to_csv("t.csv")
    with pytest.raises(InputError, match=r"reads Parquet files.*got t.csv. Convert it, or use the command line"):
        oe.Rows("t.csv", labels="y_*")


def test_a_column_that_is_not_there(folder: Path) -> None:
    with pytest.raises(InputError, match=r"columns: the table has no column 'a_7'. Did you mean 'a_1'"):
        oe.Rows(GOOD, labels="y_*", columns=["a_7"])
    write(table(50).drop(columns="a_1"), folder / "less.parquet")
    with pytest.raises(InputError, match=r"less.parquet has no column 'a_1'"):
        fit([GOOD, "less.parquet"])
    with pytest.raises(InputError, match=r"has no column 'grup'. Did you mean 'group'"):
        fit(GOOD, groups="grup")
    with pytest.raises(InputError, match="has no column 'a_9'"):
        fit(GOOD, members={"models": [("a", oe.Columns(["a_0", "a_9"]))]})


def test_a_column_that_is_there_twice(folder: Path) -> None:
    frame = table(200)
    names = ["a_0", "a_1", "y_0", "y_0"]
    pq.write_table(pa.table([frame[name] for name in names], names=names), "twice.parquet")
    with pytest.raises(InputError, match=r"twice.parquet has the column 'y_0' more than once. Rename all but one"):
        fit("twice.parquet", labels=["y_0"])


@pytest.mark.parametrize("column", ["y_0", "a_0"])
def test_a_column_of_another_type_names_both_files(folder: Path, column: str) -> None:
    write(table(100).assign(**{column: "text"}), folder / "other.parquet")
    words = rf"the column '{column}' holds \w+ in other.parquet, but double in {GOOD}. Write all files"
    with pytest.raises(InputError, match=words):
        fit([GOOD, "other.parquet"])
    write(table(300).round().astype({column: int}), folder / "whole.parquet")
    with pytest.raises(InputError, match=rf"'{column}' holds double in {GOOD}, but int64 in whole.parquet"):
        fit(["whole.parquet", GOOD])


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_numbers_of_another_type_are_those_of_the_first_file(folder: Path, kind: Any) -> None:
    other = table(100, 1).astype({"y_0": kind, "a_1": kind})
    paths: list[str | Path] = [GOOD, write(other, folder / "other.parquet")]
    X, labels, _ = read(oe.Rows(paths, labels="y_*"), 0, 400)
    np.testing.assert_array_equal(labels[300:], other[["y_0", "y_1"]])
    np.testing.assert_array_equal(X["a_1"][300:], other["a_1"])
    assert X.dtypes["a_1"] == np.float64


def test_a_column_of_another_type_that_is_not_read_does_not_matter(folder: Path) -> None:
    write(table(100, 1).assign(group=None), folder / "other.parquet")
    assert fit([GOOD, "other.parquet"]).n_rows_ == 400


def test_labels_and_groups_come_from_the_files(folder: Path) -> None:
    rows, ensemble = oe.Rows(GOOD, labels="y_*"), oe.DecisionEnsemble([MODEL], feasible=feasible.Simplex(2))
    with pytest.raises(InputError, match=r"Rows has labels of its own; got Y too. Leave Y out"):
        ensemble.fit(rows, table(300)[["y_0", "y_1"]])
    with pytest.raises(InputError, match=r"the groups of rows that are read from files must be found in them. Name a"):
        ensemble.fit(rows, groups=np.arange(300) // 9)
    with pytest.raises(InputError, match=r"the labels are missing. Give Y, or X as oe.Rows with labels"):
        ensemble.fit(table(300))
    with pytest.raises(InputError, match=r"must have shape \(300, 2\).*got shape \(300, 1\)"):
        fit(GOOD, labels="y_0")


def test_files_without_rows(folder: Path) -> None:
    write(table(0), folder / "empty.parquet")
    assert oe.Rows("empty.parquet", labels="y_*").row_count == 0
    assert list(oe.Rows("empty.parquet", labels="y_*").read(0, 0)) == []
    with pytest.raises(InputError, match="at least 100 rows to fit on; got 0"):
        fit("empty.parquet")
    between = oe.Rows([GOOD, "empty.parquet", "part-01.parquet"], labels="y_*")
    pd.testing.assert_frame_equal(read(between, 0, 400)[0], table(400)[between.columns])
    assert between.place(300) == "row 0 of part-01.parquet (counted from 0)"


def test_damaged_files_are_named(folder: Path) -> None:
    whole = Path("part-01.parquet").read_bytes()
    Path("cut.parquet").write_bytes(whole[:2000])
    with pytest.raises(FileError, match=r"cut.parquet is not a complete Parquet file.*Write it again"):
        fit([GOOD, "cut.parquet"])
    with pytest.raises(FileError, match=r"cut.parquet is not a complete Parquet file"):
        oe.Rows("cut.parquet", labels="y_*")
    Path("nothing.parquet").write_bytes(b"")
    with pytest.raises(FileError, match=r"nothing.parquet"):
        oe.Rows("nothing.parquet", labels="y_*")
    Path("bad.parquet").write_bytes(whole[:4] + bytes([0xAB]) * 1500 + whole[1504:])
    with pytest.raises(FileError, match=r"bad.parquet"):
        fit([GOOD, "bad.parquet"])


def spoilt(value: Any, column: str, *rows: int) -> None:
    frame = table(400)[300:].reset_index(drop=True)
    if not isinstance(value, float):
        frame[column] = frame[column].astype(object)
    frame.loc[list(rows), column] = value
    write(frame, Path("spoilt.parquet"))


def test_labels_that_are_missing_are_found_in_their_file(folder: Path, small_blocks: int) -> None:
    spoilt(float("nan"), "y_1", 50)
    message = "the labels Y are missing in row 50 of spoilt.parquet (counted from 0). Fill them in, or leave these rows"
    with pytest.raises(InputError, match=re.escape(message)):
        fit([GOOD, "spoilt.parquet"])
    dropped = fit([GOOD, "spoilt.parquet"], missing_labels="drop")
    assert "1 of" in dropped.notes_[-1]
    assert "rows have no labels and were left out" in dropped.notes_[-1]


@pytest.mark.parametrize(("column", "what"), [("y_1", "the labels Y"), ("a_1", "the predictions of model 'a'")])
def test_what_is_not_finite_is_found_in_its_file(folder: Path, column: str, what: str, small_blocks: int) -> None:
    spoilt(float("inf"), column, 50)
    message = f"{what} must be finite; got NaN or infinity in row 50 of spoilt.parquet (counted from 0). Remove these"
    with pytest.raises(InputError, match=re.escape(message)):
        fit([GOOD, "spoilt.parquet"])


def test_several_rows_that_are_not_finite_are_counted(folder: Path) -> None:
    spoilt(float("nan"), "y_0", 50, 51, 70)
    with pytest.raises(InputError, match=r"in row 50 of spoilt.parquet \(counted from 0\) and 2 more rows soon after"):
        fit([GOOD, "spoilt.parquet"])


@pytest.mark.parametrize("options", [{"groups": "group"}, {"subgroups": "group"}], ids=str)
def test_a_missing_group_is_found_in_its_file(folder: Path, options: dict[str, str], small_blocks: int) -> None:
    spoilt(None, "group", 50)
    message = "group labels must not be missing; they are in row 50 of spoilt.parquet (counted from 0). Give"
    with pytest.raises(InputError, match=re.escape(message)):
        fit([GOOD, "spoilt.parquet"], **options)


def test_an_infeasible_decision_is_found_in_its_file(folder: Path, small_blocks: int) -> None:
    plans = pd.DataFrame({"a_0": 1.0, "a_1": 0.0}, index=range(400))
    plans.loc[350, "a_1"] = 0.5
    cut(table(400).assign(a_0=plans["a_0"], a_1=plans["a_1"]), folder, [300, 100], [128, 64])
    with pytest.raises(OptEnsembleError, match=r"policy 'a'.* in row 50 of part-01.parquet \(counted from 0\), by up"):
        fit("part-*.parquet", members={"policies": [MODEL]})


def test_a_member_that_raises_is_named_with_the_rows_it_was_asked_about(folder: Path, small_blocks: int) -> None:
    def fails(X: pd.DataFrame) -> Any:
        if (X["number"] == 310).any():
            raise ZeroDivisionError("no prices")
        return X[["a_0", "a_1"]].to_numpy()

    with pytest.raises(ZeroDivisionError, match="no prices") as caught:
        fit("part-*.parquet", members={"models": [("b", fails)]})
    assert caught.value.__notes__ == [
        "This came from the member 'b' of the ensemble.",
        "This came of 8 rows, the first of which is row 4 of part-01.parquet (counted from 0).",
    ]


def test_files_that_change_during_a_fit(folder: Path) -> None:
    def shortens(X: pd.DataFrame) -> Any:
        write(table(60, 1), folder / "part-01.parquet")
        return X[["a_0", "a_1"]].to_numpy()

    with pytest.raises(InputError, match=r"part-01.parquet was changed during the fit. Fit again, and leave it"):
        fit("part-*.parquet", members={"models": [("a", shortens)]})


def test_only_fit_and_extend_take_rows_of_files(folder: Path) -> None:
    ensemble, rows = fit("part-*.parquet"), oe.Rows(GOOD, labels="y_*")
    for ask in (ensemble.decide, lambda X: ensemble.update(X, None), lambda X: ensemble.audit(X, None)):
        with pytest.raises(InputError, match="X must have rows: an array, a pandas or polars frame; got Rows"):
            ask(rows)
