"""The rows of a fit of DecisionEnsemble: arrays that are asked at once, or sources that are read pass by pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

import numpy as np

from optensemble._core.columns import Columns
from optensemble._core.deferred import nw, pd
from optensemble._core.engine import Engine, Local
from optensemble._core.hashing import Hashes
from optensemble._core.patterns import is_pattern
from optensemble._core.progress import Progress
from optensemble._core.suggestions import listed
from optensemble._core.threads import thread_count
from optensemble.ensembles.base import DECISION
from optensemble.evaluation.data_sample import DataSample
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.blocks import Block
from optensemble.members.fit_inputs import LabelledBatch, is_rule, require_groups
from optensemble.members.frames import column_names, is_default, is_frame, select
from optensemble.members.known_rows import KnownRows
from optensemble.members.query import Members
from optensemble.members.sources import RawBlocks, RowSource, Scratch, Survey, SurveyPass, survey_rows
from optensemble.members.validation import join_rows, pick_rows, row_count
from optensemble.stats.row_design import ClusterTable, KnownClusters, RowDesign


class FitOptions(TypedDict, total=False):
    """Options that a fit and an extension share; see :meth:`~optensemble.DecisionEnsemble.fit`."""

    random_state: int | None
    n_jobs: int | None
    progress: Progress | None
    engine: Any


_FIRST_ROWS = 1 << 13  # for a median, and to see which columns there are


def as_batch(X: Any, Y: Any, groups: Any, weights: Any = None, ids: Any = None) -> LabelledBatch:
    """Return what ``fit`` was given as a batch: arrays or frames with labels, or a source, which has its own."""
    if type(X).__module__.partition(".")[0] in ("dask", "dask_expr"):
        from optensemble.distributed.dask_rows import DaskRows

        X, Y = DaskRows(X, Y), None
    if isinstance(X, RowSource):
        if Y is not None:
            raise InputError(f"{type(X).__name__} has labels of its own; got Y too. Leave Y out.")
        if groups is not None and not is_rule(groups):
            raise InputError("the groups of rows that are read from files must be found in them. Name a column.")
        if weights is not None and not is_rule(weights):
            raise InputError("the weights of rows that are read from files must be found in them. Name a column.")
        if ids is not None:
            raise InputError("the ids of rows that are read from files are not known. Leave ids out.")
    elif Y is None:
        raise InputError("the labels are missing. Give Y, or X as oe.Rows with labels.")
    return LabelledBatch(X, Y, groups, weights, ids=ids, keys=X.keys if isinstance(X, RowSource) else None)


def as_engine(engine: Any, n_jobs: int | None) -> Engine:
    """Return the engine that runs the passes: a Dask client's, the one given, or threads of this process."""
    if engine is None:
        return Local(thread_count(n_jobs))
    if type(engine).__module__.partition(".")[0] == "distributed":
        from optensemble.distributed.dask_engine import DaskEngine

        on_workers: Engine = DaskEngine(engine)
        return on_workers
    if not callable(getattr(engine, "run", None)):
        raise InputError(
            f"engine must be a dask.distributed.Client, or have run(function, blocks, state, step); got "
            f"{type(engine).__name__}. Leave it out to fit in this process."
        )
    found: Engine = engine
    return found


@contextmanager
def member_room(members: Members) -> Iterator[Scratch | None]:
    """Make room on disk for what members say, who are then asked only once; columns of a table need none."""
    if all(isinstance(member, Columns) for _, member in members):
        yield None
        return
    from optensemble.tables.scratch import FolderScratch, scratch_folder

    with scratch_folder() as folder:
        yield FolderScratch(folder, "members")


def first_rows(names: Sequence[str], first: Block, labels: Sequence[str] | None) -> DataSample:
    """Return the first rows of a fit, in their order, as a sample to look for mistakes in."""
    return DataSample.of(names, first.outputs, first.labels, labels or ())


def first_of(X: Any, labels: Any) -> tuple[Any, Any]:
    """Return the first rows of X and their labels, which a source has itself."""
    if not isinstance(X, RowSource):
        first = min(row_count(X), _FIRST_ROWS)
        return pick_rows(X, np.arange(first)), np.asarray(labels)[:first]
    pieces = list(X.read(0, min(X.row_count, _FIRST_ROWS)))
    joined = join_rows([piece.X for piece in pieces])
    if joined is None:
        return pieces[0]
    return joined, np.concatenate([np.asarray(piece.labels) for piece in pieces])


def is_streamed(rows: list[LabelledBatch]) -> bool:
    """Return whether some rows are read from a source."""
    return any(isinstance(batch.X, RowSource) for batch in rows)


def needed_columns(members: Members, rules: Sequence[Any], omega: FeasibleSet) -> list[str] | None:
    """Return the columns of X that are needed; None if only members, or functions that parameters come from, know.

    ``rules`` are those by which groups, subgroups and weights are found, and the columns of the context.
    """
    names = list[str]()
    for parameter in omega.parameters:
        if parameter.columns is None or any(not isinstance(name, str) for name in parameter.columns):
            return None
        names += [str(name) for name in parameter.columns]
    for _, member in members:
        if not isinstance(member, Columns) or not isinstance(member.names[0], str):
            return None
        names += [str(name) for name in member.names]
    for rule in rules:
        columns: Sequence[Any] = rule if isinstance(rule, (list, tuple)) else [rule]
        if not all(name is None or isinstance(name, str) for name in columns):
            return None
        names += [name for name in columns if name is not None]
    return None if any(map(is_pattern, names)) else list(dict.fromkeys(names))


def needed_part(ensemble: Any, X: Any, groups: Any) -> Any:
    """Return X, or its columns that are needed; another kind of frame becomes pandas where no function sees it.

    ``groups`` is the rule by which groups are found. Of a white or black box all columns are needed.
    """
    if ensemble.kind != DECISION or not is_frame(X):
        return X
    columns = needed_columns(ensemble.members_, (groups, ensemble.subgroups, ensemble._context_columns), ensemble._set)
    if columns is None or (isinstance(X, pd.DataFrame) and not X.columns.is_unique):
        return X
    time = ensemble._time_column
    there = column_names(X) or ()
    if lacking := [name for name in columns if name not in there]:
        raise InputError(
            f"X has no column {lacking[0]!r}, which the rows of the fit had; it has {listed(list(there))}. Give rows "
            "with the same columns: a refit learns from them."
        )
    columns += [time] if time is not None and time not in columns and time in there else []
    if isinstance(X, pd.DataFrame):
        part = X.copy(deep=False) if list(there) == columns else X[columns]
        return part if is_default(part.index) else part.reset_index(drop=True)
    return nw.from_native(select(X, columns), eager_only=True).to_pandas()


def common_rule(rows: list[LabelledBatch], what: str) -> Any:
    """Return how groups, or weights, are found in all rows."""
    rules = [getattr(batch, what) for batch in rows]
    found = [rule is None or is_rule(rule) for rule in rules]
    if not all(found) or any(rule is not rules[0] and rule != rules[0] for rule in rules):
        raise InputError(
            f"rows that are read from files, and those added to them, must find {what} alike. Name one column for all."
        )
    return rules[0]


def survey_source(source: RowSource, engine: Engine, asked: SurveyPass, step: Any) -> Survey:
    """Look for clusters, values of subgroups and bounds of actions in all rows; no pass if none is asked for."""
    open_bounds = asked.omega is not None and asked.omega.open_bounds
    if asked.groups is None and asked.subgroups is None and not open_bounds:
        return Survey(None, None)
    found: Survey = engine.run(survey_rows, RawBlocks(source), asked, step)
    return found


def known_clusters(design: RowDesign, table: ClusterTable | None) -> tuple[RowDesign, KnownClusters | None]:
    """Return the design with the user's groups as clusters, and these as they are numbered."""
    if table is None:
        return design, None
    require_groups(len(table.ids))
    return design.clustered(table), KnownClusters.of(table)


def with_keys(rows: list[LabelledBatch], prints: Hashes) -> KnownRows:
    """Return the ids of rows fitted on with their fingerprints, of batches that have ids; of very many rows none."""
    if len(rows) > 1 and is_streamed(rows):  # unlabelled rows are left out as they are read
        return KnownRows()
    known, start = KnownRows(), 0
    for keys, count in ((batch.keys, len(prints) if len(rows) == 1 else len(batch.labels)) for batch in rows):
        found = prints[start : start + count]
        if keys is not None and len(keys) == len(found):
            known += KnownRows(keys, found)
        start += count
    return known
