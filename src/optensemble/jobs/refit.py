"""Fitting again: an ensemble with all its rows, those that came since the fit, and further ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optensemble._core.progress import Progress
from optensemble.exceptions import FallbackWarning, InputError
from optensemble.jobs.saved_ensemble import SavedEnsemble, load_ensemble, open_ensemble, read_labelled
from optensemble.jobs.update import TableUpdate, labels_of, require_decision, row_terms, update_table
from optensemble.tables.reading import Tables, find_tables


@dataclass(frozen=True)
class Refit:
    """An ensemble that was fitted again, unless nothing ``new`` had come; and what was done with further tables."""

    ensemble: Any
    new: int
    update: TableUpdate | None = None


def refit_ensemble(
    path: Path,
    further: Sequence[str] = (),
    *,
    labels: str | None = None,
    time: str | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
) -> Refit:
    """Fit again on all rows in a file and those of further tables; on these alone if the file has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", FallbackWarning)  # one for each pass over the same rows
        if not further:
            return _fit_again(load_ensemble(path), path, None, progress, n_jobs)
        tables = find_tables(further)
        saved = open_ensemble(path, tables, labels=labels, time=time)
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
    return Refit(ensemble, new, update)


def _fit_on(saved: SavedEnsemble, tables: Tables, progress: Progress | None, n_jobs: int | None) -> Refit:
    """Fit on the rows of tables alone."""
    ensemble, table = saved.ensemble, saved.ensemble.table_
    rows, _ = read_labelled(saved, tables, "a refit")
    ensemble.fit(
        rows.reset_index(drop=True),
        labels_of(rows, saved),
        time_ordered=ensemble.time_ordered_,
        random_state=ensemble._seed,
        progress=progress,
        n_jobs=n_jobs,
        **row_terms(rows, saved, tables),
    )
    ensemble.table_ = table
    return Refit(ensemble, len(rows))
