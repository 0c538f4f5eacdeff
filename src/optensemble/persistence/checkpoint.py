"""Checkpoints of a fit: the table of every pass that was made, so that an interrupted fit can go on.

What a fit learns follows from the tables of its passes. A checkpoint is a folder with a file for each of them, and the
name of the fit they belong to; tables are plain numbers, and nothing that is read can run code.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from optensemble._core.engine import Blocks, Engine
from optensemble._core.progress import silent
from optensemble.exceptions import FileError, InputError
from optensemble.persistence.archive import Arrays, read_archive, write_archive

T = TypeVar("T")
State = TypeVar("State")

_LARGEST_TABLE = 8 << 30  # bytes
_KINDS = {"int32": np.int32, "int64": np.int64, "uint64": np.uint64, "float64": np.float64}


@dataclass
class CheckpointedEngine:
    """An engine that keeps the table of every pass in a folder, and does not repeat the passes that are in it.

    Attributes
    ----------
    engine
        Runs the passes.
    folder
        Where tables are kept.
    fit
        The name of the fit: tables of another one are refused.
    made
        The number of passes so far.
    """

    engine: Engine
    folder: Path
    fit: str
    made: int = field(default=0, init=False)

    @property
    def kept(self) -> int:
        """The number of passes that are kept."""
        return sum(1 for _ in self.folder.glob("pass-*"))

    def begin(self, resume: bool) -> None:
        """Prepare the folder. Without ``resume``, passes of an earlier fit go."""
        if not resume:
            self.remove()
        elif not self.folder.is_dir():
            raise InputError(f"there is no checkpoint {self.folder} to go on from. Leave --resume out.")
        self.folder.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove the folder: the fit is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(
        self, function: Callable[[Any, State], T], blocks: Blocks, state: State, step: Callable[[int], None] = silent
    ) -> T:
        """Return the table of the next pass: as it was kept, or else made now, and kept."""
        path = self.folder / f"pass-{self.made}"
        self.made += 1
        if path.exists():
            found: T = self._read(path, function.__name__)
            step(blocks.count)
            return found
        table = self.engine.run(function, blocks, state, step)
        arrays: Arrays = {}
        tree = _pack(table, arrays, "table")
        write_archive(path, {"fit": self.fit, "pass": function.__name__, "table": tree}, arrays)
        return table

    def _read(self, path: Path, name: str) -> Any:
        try:
            document, arrays = read_archive(path, _LARGEST_TABLE)
            made, table = (document["fit"], document["pass"]), document["table"]
        except (FileError, KeyError, TypeError) as error:
            raise _damaged(path) from error
        if made != (self.fit, name):
            raise InputError(
                f"the checkpoint {self.folder} is of another fit: the job, its files or this program have changed. "
                "Leave --resume out to begin anew."
            )
        try:
            found = _unpack(table, arrays)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(path) from error
        if not is_dataclass(found):
            raise _damaged(path)
        return found


def _damaged(path: Path) -> FileError:
    return FileError(
        f"{path} is not a whole table of a checkpoint: damaged, or something else. Leave --resume out to begin anew."
    )


def _pack(value: Any, arrays: Arrays, name: str) -> Any:
    """Return a table as plain values, with its arrays by name."""
    if isinstance(value, np.ndarray):
        arrays[name] = value.astype(np.int64) if value.dtype == np.int32 else value
        return {"array": name, "kind": str(value.dtype)}
    if is_dataclass(value):
        parts = {each.name: _pack(getattr(value, each.name), arrays, f"{name}/{each.name}") for each in fields(value)}
        return {"type": _name_of(type(value)), "fields": parts}
    if isinstance(value, (tuple, frozenset)):
        entries = sorted(value, key=repr) if isinstance(value, frozenset) else value
        packed = [_pack(each, arrays, f"{name}/{number}") for number, each in enumerate(entries)]
        return {"set" if isinstance(value, frozenset) else "entries": packed}
    return value.item() if isinstance(value, np.generic) else value


def _unpack(packed: Any, arrays: Arrays) -> Any:
    if not isinstance(packed, dict):
        return packed
    if "array" in packed:
        return arrays[packed["array"]].astype(_KINDS[packed["kind"]])
    if "type" in packed:
        return _tables()[packed["type"]](**{name: _unpack(each, arrays) for name, each in packed["fields"].items()})
    if "set" in packed:
        return frozenset(_unpack(each, arrays) for each in packed["set"])
    return tuple(_unpack(each, arrays) for each in packed["entries"])


def _name_of(table: type) -> str:
    """Return the name of a kind of tables, which may be that of another one in another module."""
    return f"{table.__module__.removeprefix('optensemble.')}.{table.__qualname__}"


@cache
def _tables() -> dict[str, type]:
    """Return the tables that passes make, by name."""
    from optensemble._core.sums import Sums
    from optensemble.ensembles import _decision_fit  # noqa: F401  (its tables are then known)
    from optensemble.members import labelled_rows  # noqa: F401
    from optensemble.members.fingerprints import Marks
    from optensemble.members.sources import Survey
    from optensemble.stacking.patterns import PatternCounts
    from optensemble.stats.row_design import ClusterTable
    from optensemble.stats.row_sample import RowSample

    known = [RowSample, Marks, Survey, ClusterTable, PatternCounts, *Sums.__subclasses__()]
    return {_name_of(each): each for each in known}
