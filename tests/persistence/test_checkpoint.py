"""Checkpoints: tables of passes survive to the bit, and whatever is not one is refused in a line."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble._core.engine import Local
from optensemble.exceptions import FileError, InputError, OptEnsembleError
from optensemble.persistence import checkpoint
from optensemble.persistence.archive import read_archive, write_archive
from optensemble.persistence.checkpoint import CheckpointedEngine
from tests.ensembles.source_worlds import labels, make, same_bits, world


def kept(folder: Path, fit: str = "a fit", resume: bool = False) -> CheckpointedEngine:
    engine = CheckpointedEngine(Local(), folder / "passes", fit)
    engine.begin(resume)
    return engine


class Never:
    """An engine that must not be asked."""

    def run(self, *_: Any) -> Any:
        raise AssertionError("a pass was made again")


@pytest.mark.parametrize("parameters", [{}, {"access": "both", "subgroups": ["region", "group"]}], ids=str)
@pytest.mark.parametrize("options", [{}, {"groups": "group"}, {"time_ordered": True}], ids=str)
def test_tables_of_all_passes_survive_to_the_bit(
    parameters: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    frame = world(3000)
    rows = oe_rows(tmp_path)
    expected = make(**parameters).fit(frame, labels(frame), **options)
    engine = kept(tmp_path)
    same_bits(make(**parameters).fit(rows, engine=engine, **options), expected)
    assert engine.kept == engine.made > 3
    again = kept(tmp_path, resume=True)
    again.engine = Never()
    same_bits(make(**parameters).fit(rows, engine=again, **options), expected)
    assert again.made == engine.made
    again.remove()
    assert not (tmp_path / "passes").exists()


def oe_rows(folder: Path) -> oe.Rows:
    world(3000).to_parquet(folder / "rows.parquet", index=False)
    return oe.Rows(folder / "rows.parquet", labels="y_*")


def test_a_fit_begins_anew_without_resume(tmp_path: Path) -> None:
    kept(tmp_path)
    (tmp_path / "passes" / "pass-0").write_bytes(b"of an earlier fit")
    assert kept(tmp_path).kept == 0


def test_there_must_be_something_to_go_on_from(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no checkpoint .*passes to go on from. Leave --resume out"):
        kept(tmp_path, resume=True)


# What is not a checkpoint


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def random(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(5000))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def rewritten(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[Path], None]:
    def rewrite(path: Path) -> None:
        document, arrays = read_archive(path)
        change(document, arrays)
        write_archive(path, document, arrays)

    return rewrite


def set_table(value: Any) -> Callable[[Path], None]:
    return rewritten(lambda document, _: document.update(table=value))


def without_table(document: dict[str, Any], _: dict[str, Any]) -> None:
    del document["table"]


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": truncated,
    "random bytes": random,
    "empty": emptied,
    "no arrays": rewritten(lambda _, arrays: arrays.clear()),
    "no table": rewritten(without_table),
    "another type": rewritten(lambda document, _: document["table"].update(type="Popen")),
    "no fields": rewritten(lambda document, _: document["table"].update(fields={})),
    "fields of no kind": rewritten(lambda document, _: document["table"].update(fields=3)),
    "a number": set_table(3),
    "a list": set_table([1, 2]),
    "an empty dictionary": set_table({}),
    "entries of no kind": set_table({"entries": 3}),
    "a set of sets of dictionaries": set_table({"set": [[1]]}),
    "an array of no kind": set_table({"array": "table", "kind": "object"}),
    "an array of a name of no kind": set_table({"array": [], "kind": "int64"}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_checkpoints_are_refused_in_a_line(damage: str, tmp_path: Path) -> None:
    rows = oe_rows(tmp_path)
    make().fit(rows, engine=kept(tmp_path))
    DAMAGES[damage](tmp_path / "passes" / "pass-0")
    with pytest.raises(OptEnsembleError, match=r"pass-0 .*Leave --resume out to begin anew") as caught:
        make().fit(rows, engine=kept(tmp_path, resume=True))
    assert isinstance(caught.value, FileError)
    assert "\n" not in str(caught.value)


def test_a_document_that_is_no_dictionary_is_refused(tmp_path: Path) -> None:
    rows = oe_rows(tmp_path)
    make().fit(rows, engine=kept(tmp_path))
    path = tmp_path / "passes" / "pass-0"
    write_archive(path, [1, 2], {})  # type: ignore[arg-type]
    with pytest.raises(FileError, match=r"pass-0 .*Leave --resume out to begin anew"):
        make().fit(rows, engine=kept(tmp_path, resume=True))


def test_a_checkpoint_of_another_fit_or_pass_is_refused(tmp_path: Path) -> None:
    rows = oe_rows(tmp_path)
    make().fit(rows, engine=kept(tmp_path))
    with pytest.raises(InputError, match=r"passes is of another fit: .*Leave --resume out to begin anew"):
        make().fit(rows, engine=kept(tmp_path, "another", resume=True))
    with pytest.raises(InputError, match=r"passes is of another fit"):
        make().fit(rows, groups="group", engine=kept(tmp_path, resume=True))


def test_tables_are_plain_numbers(tmp_path: Path) -> None:
    rows = oe_rows(tmp_path)
    make().fit(rows, engine=kept(tmp_path))
    for path in (tmp_path / "passes").iterdir():
        with zipfile.ZipFile(path) as archive:
            assert json.loads(archive.read("ensemble.json"))["fit"] == "a fit"
    values = (np.array([1, 2], dtype=np.int32), frozenset({"b", "a"}), (1.5, None, True, np.float64(0.1)))
    arrays: dict[str, Any] = {}
    found = checkpoint._unpack(json.loads(json.dumps(checkpoint._pack(values, arrays, "table"))), arrays)
    assert found[0].dtype == np.int32
    np.testing.assert_array_equal(found[0], values[0])
    assert found[1:] == values[1:]
