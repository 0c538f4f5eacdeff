"""Reports written from Python: an ensemble and rows with known labels in, a page in a file out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from optensemble._core.atomic_files import replace
from optensemble.ensembles.base import Policy
from optensemble.exceptions import InputError
from optensemble.members.frames import index_of, is_default
from optensemble.report.data import ReportTerms, report_data
from optensemble.report.live.data import LivePageData, known_terms
from optensemble.report.live_page import make_live_page
from optensemble.report.page import make_report_page

if TYPE_CHECKING:
    from optensemble.ensembles._live_log import LoggedDecision
    from optensemble.ensembles.live import LiveEnsemble

_SOURCE = "a table in memory"


def write_report(
    ensemble: Policy, X: Any, Y: Any, path: str | PathLike[str], terms: dict[str, str | None], **options: Any
) -> Path:
    """Write the page of an ensemble on rows with known labels, and return its path; ``options`` are of an audit.

    ``terms`` that are None are those of the job file, if the ensemble was fitted by one.
    """
    known = (ensemble.table_ or {}).get("report", {})
    page, named = _output_path(path), ReportTerms(**known).replaced(**terms)  # before any work is done
    audited = ensemble._audited_rows(X, Y, **options)
    batch = audited.batch
    index = index_of(batch.X)
    times = _times(index)
    data = report_data(
        ensemble,
        audited.audit,
        audited.answer,
        batch.X,
        batch.labels,
        when=times,
        source=_SOURCE,
        terms=named,
        weights=batch.weights,
        ids=None if index is None or times is not None or is_default(index) else [str(name) for name in index],
    )
    replace(page, make_report_page(data).encode())
    return page


def write_live_report(
    live: LiveEnsemble,
    path: str | PathLike[str],
    title: str | None = None,
    unit: str | None = None,
    currency: str | None = None,
    decisions: Sequence[LoggedDecision] = (),
) -> Path:
    """Write the page of an ensemble in service as of now, and return its path.

    ``decisions`` are its latest, the newest first. Terms that are None are those of the job file, if the ensemble was
    fitted by one.
    """
    page, terms = _output_path(path), known_terms(live).replaced(title=title, unit=unit, currency=currency)
    data = LivePageData.of(live, decisions, datetime.now(UTC), terms=terms)
    replace(page, make_live_page(data).encode())
    return page


def _times(index: pd.Index | None) -> pd.Series | None:
    """Return the times of rows from their index; None if it has none."""
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    return pd.Series(index.to_numpy()) if isinstance(index, pd.DatetimeIndex) else None


def _output_path(path: Any) -> Path:
    if not isinstance(path, (str, PathLike)):
        raise InputError(f"path must be the name of a file; got {path!r}. Give one such as 'report.html'.")
    page = Path(path)
    if page.is_dir() or not page.parent.is_dir():
        what = "is a folder" if page.is_dir() else f"would be in the folder {page.parent}, which does not exist"
        raise InputError(f"{page} {what}. Give the name of a file in a folder that exists.")
    return page
