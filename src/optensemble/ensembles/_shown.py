"""What an ensemble shows of itself: the page, plots, and its output in a notebook."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from optensemble._core.estimator import BaseEstimator

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes


class Shown(BaseEstimator):
    """The part of an ensemble that is made by ``report``, which is loaded only when it is asked for."""

    def report(
        self,
        X: Any,
        Y: Any,
        path: str | PathLike[str] = "report.html",
        *,
        title: str | None = None,
        unit: str | None = None,
        currency: str | None = None,
        time_ordered: bool | None = None,
        groups: Any = None,
        sample_weight: Any = None,
        missing_labels: str = "raise",
    ) -> Path:
        """Write the page on rows of known labels that it was not fitted on: one HTML file that opens offline.

        Parameters
        ----------
        X, Y, time_ordered, groups, sample_weight, missing_labels
            As of :meth:`audit`. A time index of X gives the times of the page.
        path
            The file; it is written whole or not at all, and replaces one that is there.
        title, unit, currency
            The title of the page, the word for a row ("day"), and what payoffs are counted in ("€"); by default those
            of the job file, if it was fitted by one.

        Returns
        -------
        The path of the page. The numbers on it are those of :meth:`audit` on the same rows.
        """
        from optensemble.report.writing import write_report

        options = {"time_ordered": time_ordered, "groups": groups, "sample_weight": sample_weight}
        terms = {"title": title, "unit": unit, "currency": currency}
        policy: Any = self
        return write_report(policy._as_it_stands(), X, Y, path, terms, missing_labels=missing_labels, **options)

    def plot_leaderboard(self, ax: Axes | None = None) -> Axes:
        """Draw the mean payoff of each candidate out of fold, with 95 % intervals; what decides is emphasised.

        Of a white or black box it is the payoff over rounds of debiasing, for each shrinkage that cross-validation
        tried; with ``validation=None`` nothing was compared, and that is an error.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw into; by default those of a new figure of ``matplotlib.pyplot``.

        Returns
        -------
        The axes drawn into.
        """
        from optensemble.report.plots import plot_leaderboard

        policy: Any = self
        now = policy._as_it_stands()
        now._require_fitted()
        return plot_leaderboard(now, ax)

    def _repr_html_inner(self) -> str:
        """Return what a notebook shows: the outcome of the fit, or scikit-learn's diagram before it."""
        policy: Any = self
        if not policy.__sklearn_is_fitted__():
            diagram: str = super()._repr_html_inner()
            return diagram
        from optensemble.report.notebook import ensemble_html

        return ensemble_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        # scikit-learn leaves HTML out where its setting display="text" says so
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle
