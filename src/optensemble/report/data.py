"""Data of a report: an ensemble, its audit on rows with known labels, and what foresight would have earned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats, Indices
from optensemble.ensembles.base import DECISION, Answer, Policy
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.exceptions import FallbackWarning, SolverError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import align_labels
from optensemble.members.validation import as_labels
from optensemble.report.blocks import Blocks, moment_text, summarise_blocks, time_axis
from optensemble.report.profile import ActionProfile, summarise_actions
from optensemble.report.terms import DEFAULT_TERMS, ReportTerms

__all__ = ["ReportData", "ReportTerms", "report_data"]


@dataclass(frozen=True)
class ReportData:
    """A fitted ensemble with its audit, answers and payoffs on rows with known labels.

    Attributes
    ----------
    ensemble
        The fitted ensemble.
    audit
        Its audit on the rows.
    answer
        Its actions, promises and predictions for the rows.
    realised
        The payoff of each row, in the user's units, of shape (n,).
    coordinates
        The names of the coordinates of an action.
    when
        The time of each row, datetimes or numbers, if rows are in time order.
    source
        The files of the rows, for the foot of the page.
    labels
        The labels, of shape (n, d).
    omega
        The feasible set bound to the rows; by default that of the ensemble, if it is one set for all rows.
    parameters
        The parameters of the set that come from the row, a sentence each.
    terms
        The title, the word for a row, and the currency.
    weights
        The number of rows that each row counts for; None where each is one.
    foresight
        The payoff that each row would have had with its labels known beforehand; None where that cannot be solved.
    ids
        What each row is called, if it has a name: else it is known by its time or number.
    """

    ensemble: Policy
    audit: Audit
    answer: Answer
    realised: Floats
    coordinates: list[str]
    when: pd.Series | None
    source: str
    labels: Floats
    omega: FeasibleSet | None = None
    parameters: tuple[str, ...] = ()
    terms: ReportTerms = DEFAULT_TERMS
    weights: Floats | None = None
    foresight: Floats | None = None
    ids: Sequence[str] | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.realised)

    @property
    def weight(self) -> float:
        """The number of rows that the rows count for."""
        return float(self.rows) if self.weights is None else float(self.weights.sum())

    @property
    def sense(self) -> str:
        """``"max"`` for payoffs, ``"min"`` for costs."""
        return str(self.ensemble.sense)

    @property
    def sign(self) -> float:
        """1 to maximise, -1 to minimise."""
        return 1.0 if self.sense == "max" else -1.0

    @property
    def objective(self) -> str:
        """The name of what is maximised or minimised."""
        return "payoff" if self.sense == "max" else "cost"

    @cached_property
    def blocks(self) -> Blocks:
        """Promised and realised payoffs by block of rows."""
        return summarise_blocks(self)

    @cached_property
    def profile(self) -> ActionProfile:
        """The distribution of actions by coordinate."""
        known = self.ensemble.feasible_
        own = (known.lower, known.upper) if self.omega is None else self.omega.row_bounds()
        return summarise_actions(self.answer.actions, known.lower, known.upper, own)

    def assessments(self, rows: Indices | None = None) -> Assessments:
        """Return a summary of the self-assessments of all or some rows, of which a promise is made."""
        if rows is None:
            return self.answer.assessments(self.weights)
        return self.answer.take(rows).assessments(None if self.weights is None else self.weights[rows])

    def row_name(self, row: int) -> str:
        """Return what a row is called: by its id, its time, or its number from 1."""
        axis = None if self.when is None else time_axis(self.when)
        time = "" if self.when is None else moment_text(self.when.iloc[row] if axis is None else axis[row])
        named = [text for text in (self.ids[row] if self.ids is not None else "", time) if text]
        return ", ".join(dict.fromkeys(named)) or f"{self.terms.unit} {row + 1:,}"

    @property
    def decides_alone(self) -> str:
        """The candidate that decides in every row by the fit, and so is no baseline; empty if there is none."""
        ensemble: Any = self.ensemble
        names = ensemble.names_ if ensemble.kind == DECISION else []
        return str(ensemble.winner_) if names and ensemble.winner_ in names else ""


def report_data(
    ensemble: Policy,
    audit: Audit,
    answer: Answer,
    X: Any,
    Y: Any,
    *,
    when: pd.Series | None = None,
    coordinates: Sequence[str] | None = None,
    source: str = "",
    terms: ReportTerms = DEFAULT_TERMS,
    weights: Floats | None = None,
    ids: Sequence[str] | None = None,
    parameters: tuple[str, ...] = (),
) -> ReportData:
    """Return the data of a report on rows with known labels.

    Parameters
    ----------
    ensemble
        The fitted ensemble.
    audit, answer
        Its audit on these rows, and the answer that it judges, as ``audit_with_answer`` returns them.
    X, Y
        The rows and their labels; rows without labels, which the audit leaves out, are not among them.
    when, weights, ids
        For each row its time, the number of rows that it counts for, and its name, where it has them.
    coordinates
        The names of the coordinates of an action; by default those of the labels, or numbers.
    source
        The files of the rows.
    terms
        The title, the word for a row, and the currency.
    parameters
        The parameters of the feasible set that come from the row, a sentence each.
    """
    labels = as_labels(align_labels(Y, X, ensemble.labels_), len(answer.actions), ensemble.feasible_.dimension, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # the audit has told of these rows
        omega = ensemble.feasible_.for_rows(X)
        realised = ensemble.earned(X, answer.actions, Y)
        foresight = _foresight(omega, labels, 1.0 if ensemble.sense == "max" else -1.0)
    names = coordinates or ensemble.labels_ or [f"coordinate {j}" for j in range(labels.shape[1])]
    return ReportData(
        ensemble=ensemble,
        audit=audit,
        answer=answer,
        realised=realised,
        coordinates=[str(name) for name in names],
        when=when,
        source=source,
        labels=labels,
        omega=omega,
        parameters=parameters,
        terms=terms,
        weights=weights,
        foresight=foresight,
        ids=ids,
    )


def _foresight(omega: FeasibleSet, labels: Floats, sign: float) -> Floats | None:
    """Return the payoff of the best action of each row, its labels known; None if a row has none that was solved."""
    try:
        best = omega.argmax(sign * labels)
    except SolverError:  # predictions were solved, but labels may be a harder problem
        return None
    if omega.took_fallback(best, sign * labels).any():
        return None  # a fallback action is not the best one
    return np.asarray(sign * omega.value(best, sign * labels))
