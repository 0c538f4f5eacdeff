"""Fitting again: an ensemble with all its rows, those that came since the fit, and further ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optensemble._core.progress import Progress
from optensemble.ensembles._decision_update import Update
from optensemble.exceptions import FallbackWarning, InputError
from optensemble.jobs.saved_ensemble import SavedEnsemble, load_ensemble, open_ensemble, read_labelled
from optensemble.jobs.update import TableUpdate, labels_of, require_decision, row_terms, update_table
from optensemble.tables.reading import Tables, find_tables


@dataclass(frozen=True)
class Refit:
    """An ensemble that was ``fitted`` again, with rows that are ``new``; and what was done with further tables.

    With the rows of its last fit alone it is not fitted again.
    """

    ensemble: Any
    new: int
    fitted: bool
    update: TableUpdate | None = None


def refit_ensemble(
    path: Path,
    further: Sequence[str] = (),
    *,
    labels: str | None = None,
    time: str | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
    trusted: Sequence[str] = (),
) -> Refit:
    """Fit again on all rows in a file and those of further tables; on these alone if the file has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", FallbackWarning)  # one for each pass over the same rows
        if not further:
            return _fit_again(load_ensemble(path, trusted), path, None, progress, n_jobs)
        tables = find_tables(further)
        saved = open_ensemble(path, tables, labels=labels, time=time, trusted=trusted)
        require_decision(saved.ensemble, path, "a refit")
        if not saved.ensemble._rows:
            return _fit_on(saved, tables, progress, n_jobs)
        return _fit_again(saved.ensemble, path, update_table(saved, tables), progress, n_jobs)


def _fit_again(
    ensemble: Any, path: Path, update: TableUpdate | None, progress: Progress | None, n_jobs: int | None
) -> Refit:
    """Fit on the rows that the ensemble has."""
    require_decision(ensemble, path, "a refit")
    if not ensemble._rows:
        raise InputError(f"{path}: {ensemble._no_rows}. Give all rows: optensemble refit {path} --with TABLE.")
    new = ensemble.n_updated_
    if new:
        ensemble.extend(progress=progress, n_jobs=n_jobs)
    return Refit(ensemble, new, bool(new), update)


def _fit_on(saved: SavedEnsemble, tables: Tables, progress: Progress | None, n_jobs: int | None) -> Refit:
    """Fit on the rows of tables alone, which must be all rows."""
    ensemble, table = saved.ensemble, saved.ensemble.table_
    rows, unlabelled = read_labelled(saved, tables, "a refit")
    if not len(rows):
        raise InputError(f"{tables} has no row with labels: a refit needs them. Give all rows, with their labels.")
    X, Y = saved.inputs(rows.reset_index(drop=True)), labels_of(rows, saved)
    terms = row_terms(rows, saved, tables)
    new = _require_known(saved, tables, ensemble._count_known(X, Y, **terms), len(rows))
    ensemble.context = list(ensemble._context_columns) or None  # the table has other columns than X, labels among them
    ensemble.fit(
        X,
        Y,
        time_ordered=ensemble.time_ordered_,
        random_state=ensemble._seed,
        progress=progress,
        n_jobs=n_jobs,
        **terms,
    )
    ensemble.table_ = table
    return Refit(ensemble, new, True, TableUpdate(Update(len(rows), new), unlabelled, "", ensemble.sense == "min"))


def _require_known(saved: SavedEnsemble, tables: Tables, found: int | None, given: int) -> int:
    """Refuse tables without all rows that the ensemble knows; return how many rows have come since its fit."""
    ensemble = saved.ensemble
    known = ensemble.n_rows_ + ensemble.n_updated_
    if found is None:
        warnings.warn(
            f"{saved.path} does not tell which rows it was fitted on: this fit is on the {given:,} rows of {tables} "
            f"alone, the last one was on {ensemble.n_rows_:,}. Make sure that they are all rows.",
            UserWarning,
            stacklevel=2,
        )
        return max(given - int(ensemble.n_rows_), 0)
    if found < known:
        raise InputError(
            f"{saved.path}: {ensemble._no_rows}, and {known - found:,} of the {known:,} rows that it knows are not in "
            f"{tables}. Give all rows, old and new, by --with; to go on without some, fit anew with a job file."
        )
    return given - found + int(ensemble.n_updated_)
