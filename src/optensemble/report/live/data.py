"""Data of a live page: all that it shows of a LiveEnsemble, as of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from optensemble.ensembles._live_log import LoggedDecision
from optensemble.ensembles._live_refits import Refit
from optensemble.ensembles._live_rows import PROMISED, ids_listed
from optensemble.ensembles.live import LiveEnsemble
from optensemble.exceptions import InputError
from optensemble.report.live.panels import LiveSeries
from optensemble.report.overview.totals import PeriodTotals
from optensemble.report.phrases import count_of
from optensemble.report.terms import ReportTerms

MOST_OPEN = 10
"""The open rows that are listed, the oldest."""

_MOST_MEMBERS = 12  # at the foot of the page


class OpenRow(NamedTuple):
    """An open row: its id, how many rows were decided before it, and what was promised."""

    id: Any
    number: int
    promised: float


@dataclass(frozen=True, eq=False)
class LivePageData:
    """All that the page of a LiveEnsemble shows; it does not change when that goes on.

    Attributes
    ----------
    at
        The moment that it is of, in UTC.
    terms
        The title, the word for a row, and the currency.
    series
        The history, the refits and the monitor.
    certificate
        The certificate.
    mixes
        Whether actions are mixed, or those of the heaviest policy are played.
    decided, correction
        How many rows were decided, and what is added to promises.
    oldest
        The oldest open rows.
    refit_due, running
        Why a refit is due, and the refit that is under way.
    decisions
        The latest decisions, the newest first.
    coordinates
        The names of the coordinates of an action.
    about
        What decides, a sentence each, for the foot of the page.
    """

    at: datetime
    terms: ReportTerms
    series: LiveSeries
    certificate: pd.DataFrame
    mixes: bool
    decided: int
    correction: float
    oldest: tuple[OpenRow, ...]
    refit_due: str
    running: Refit | None
    decisions: tuple[LoggedDecision, ...]
    coordinates: tuple[str, ...]
    about: tuple[str, ...]

    @classmethod
    def of(
        cls,
        live: LiveEnsemble,
        decisions: Sequence[LoggedDecision],
        at: datetime,
        *,
        terms: ReportTerms | None = None,
        coordinates: Sequence[str] | None = None,
    ) -> Self:
        """Return what is to be shown of an ensemble now, in about a millisecond: nothing is drawn yet.

        Parameters
        ----------
        live
            The ensemble.
        decisions
            Its latest decisions, the newest first.
        at
            The present moment, with a time zone.
        terms
            By default those of the job file, if the ensemble was fitted by one.
        coordinates
            The names of the coordinates of an action; by default those of the labels, or numbers.
        """
        if at.tzinfo is None:
            raise InputError(f"at must have a time zone; got {at}. Use datetime.now(UTC).")
        fit = live.ensemble_
        names = coordinates or fit.labels_ or [f"coordinate {j}" for j in range(fit.feasible_.dimension)]
        with live._lock:  # all of it as of one moment
            running = live._current.running
            asks = callable(live.refit) and running is None  # a function of the user's is not called for a page
            return cls(
                at=at.astimezone(UTC),
                terms=known_terms(live) if terms is None else terms,
                series=LiveSeries.of(live),
                certificate=live.certificate(),
                mixes=live.mixes_,
                decided=live.decided_,
                correction=live.correction_,
                oldest=_oldest(live),
                refit_due="" if asks else live.refit_due_,
                running=None if running is None else running.refit,
                decisions=tuple(decisions),
                coordinates=tuple(map(str, names)),
                about=_about(live),
            )

    @property
    def cost(self) -> bool:
        """Whether payoffs are costs."""
        return self.series.cost

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies."""
        return self.series.policies

    @property
    def rows(self) -> int:
        """The number of rows whose labels have arrived."""
        return self.series.rows

    @property
    def open(self) -> int:
        """The number of open rows."""
        return int(self.certificate["open"].iloc[0])

    @property
    def expired(self) -> int:
        """The number of rows that expired."""
        return int(self.certificate["expired"].iloc[0])

    @property
    def totals(self) -> PeriodTotals:
        """Sums over all rows whose labels have arrived; what was promised of them has no interval."""
        sums = self.series.history[["counted", "promised", "earned", "foresight"]].sum()
        promised, earned, foresight = (float(sums[name]) for name in ("promised", "earned", "foresight"))
        counted = float(sums["counted"])
        return PeriodTotals(self.rows, counted, promised, -np.inf, np.inf, earned, foresight, self.cost)


def known_terms(live: LiveEnsemble) -> ReportTerms:
    """Return the terms of the job file that the ensemble was fitted by, if it was."""
    return ReportTerms(**(live.ensemble_.table_ or {}).get("report", {}))


def _oldest(live: LiveEnsemble) -> tuple[OpenRow, ...]:
    """Return the oldest open rows; the others, of which there may be many, are not looked at."""
    found = list[OpenRow]()
    for batch in live._ledger.batches:
        if len(found) >= MOST_OPEN:
            break
        rows, places = batch.rows, np.flatnonzero(batch.still)[: MOST_OPEN - len(found)]
        columns = ids_listed(rows.ids[places]), rows.numbers[places].tolist(), rows.promises[places, PROMISED].tolist()
        found += map(OpenRow, *columns)
    return tuple(found)


def _about(live: LiveEnsemble) -> tuple[str, ...]:
    """Return what decides, and where it is kept."""
    fit, log = live.ensemble_, live.log
    refit = "a function" if callable(live.refit) else repr(live.refit)
    names = [name for name, _ in fit.members_]
    members = ", ".join(names[:_MOST_MEMBERS])
    if (others := len(names) - _MOST_MEMBERS) > 0:
        members += f" and {others:,} more"
    goal = "minimise the cost" if fit.sense == "min" else "maximise the payoff"
    size = count_of(fit.feasible_.dimension, "coordinate")
    first = f"{type(fit).__name__} fitted on {fit.n_rows_:,} rows to {goal}; members: {members}; {size}."
    kept = f"Log: {log.name}." if log is not None else "There is no log."
    return first, f"LiveEnsemble with refit={refit}, refit_in={live.refit_in!r}. {kept}", f"Made with {_versions()}."


@cache
def _versions() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("optensemble", "numpy", "pandas", "matplotlib"))
