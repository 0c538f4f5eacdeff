"""Updates: the labels of past decisions, from a table into an ensemble."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.number_format import format_by_error
from optensemble.ensembles._decision_update import Update
from optensemble.ensembles.base import DECISION
from optensemble.exceptions import FallbackWarning, InputError, RefitWarning
from optensemble.jobs.rows import RowPlace, row_ids
from optensemble.jobs.saved_ensemble import SavedEnsemble, read_labelled
from optensemble.tables.reading import Tables


@dataclass(frozen=True)
class TableUpdate:
    """What an update with a table did: ``done`` with its rows that have labels, and ``unlabelled`` rows left for later.

    ``cost`` says whether payoffs are costs.
    """

    done: Update
    unlabelled: int
    refit_due: str
    cost: bool = False

    @property
    def outcome(self) -> str:
        """What was promised of the rows taken in, and what they came to; empty if there are none.

        Whether that is as promised, an audit tells.
        """
        promise, realised = self.done.promise, self.done.realised
        if promise is None:
            return ""
        half = (promise.high - promise.low) / 2
        mean, low, high, earned, _ = format_by_error([promise.mean, promise.low, promise.high, realised, half])
        promised, verb = ("promised a cost of", "came to") if self.cost else ("promised", "earned")
        rows = f"{promise.rows:,} row{'s' if promise.rows != 1 else ''}"
        return f"{promised} {mean} (95 %: {low} to {high}) on average over {rows}, {verb} {earned}"


def require_decision(ensemble: Any, path: Any, what: str) -> None:
    """Refuse one of the paper's algorithms, whose fit cannot be gone on with."""
    if ensemble.kind != DECISION:
        raise InputError(
            f'{path}: {what} is for ensembles of kind = "decision"; this is {type(ensemble).__name__}. Fit it again, '
            "with a job file that names all rows."
        )


def update_table(saved: SavedEnsemble, tables: Tables) -> TableUpdate:
    """Take in the rows of a table that have labels and are new; the ensemble is not saved."""
    ensemble, roles = saved.ensemble, saved.roles
    require_decision(ensemble, saved.path, "an update")
    rows, unlabelled = read_labelled(saved, tables, "an update")
    done = Update(0, 0)
    if len(rows):
        with RowPlace(str(tables), roles.id).naming(rows), warnings.catch_warnings():
            warnings.simplefilter("ignore", RefitWarning)  # whoever calls says so
            warnings.simplefilter("once", FallbackWarning)
            X = saved.inputs(rows.reset_index(drop=True))
            ensemble.update(X, labels_of(rows, saved), repeated="skip", **row_terms(rows, saved, tables))
        done = ensemble.last_update_
    return TableUpdate(done, unlabelled, ensemble.refit_due_, cost=ensemble.sense == "min")


def labels_of(rows: pd.DataFrame, saved: SavedEnsemble) -> Any:
    """Return the labels, under the names that the ensemble knows them by."""
    labels = np.ascontiguousarray(rows[list(saved.roles.labels)].to_numpy())
    return pd.DataFrame(labels, columns=list(saved.policy.labels_ or saved.roles.labels))


def row_terms(rows: pd.DataFrame, saved: SavedEnsemble, tables: Tables) -> dict[str, Any]:
    """Return groups, weights and ids of rows, as arguments of an ensemble."""
    roles = saved.roles
    return {"groups": roles.groups, "sample_weight": roles.weight, "ids": row_ids(rows, roles, str(tables))}
