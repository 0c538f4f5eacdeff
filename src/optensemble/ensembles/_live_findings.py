"""What a LiveEnsemble knows: weights, open rows, history and refits, the certificate, its plot and its file."""

from __future__ import annotations

import threading
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd
from optensemble.ensembles._live_rows import PROMISED, Ledger, ids_listed
from optensemble.ensembles._live_state import Knowledge
from optensemble.ensembles._live_text import certificate_text
from optensemble.ensembles.base import Policy
from optensemble.exceptions import LogError
from optensemble.monitoring.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

_LATEST = 20  # decisions on a page


class LiveFindings:
    """The part of a :class:`~optensemble.LiveEnsemble` that tells what it knows, and changes nothing."""

    ensemble_: Policy
    monitor: Monitor | None
    policies_: tuple[str, ...]
    mixes_: bool
    _now: Knowledge
    _ledger: Ledger
    _lock: threading.RLock
    _log: Any

    @property
    def _current(self) -> Knowledge:
        """All that is known, with what an interrupt left undone; while a call is under way, as of before it."""
        if self._lock.acquire(blocking=False):
            try:
                with suppress(LogError):  # the next call that changes anything says what is wrong with the log
                    self._settle()
            finally:
                self._lock.release()
        return self._now

    @property
    def refitted_(self) -> Policy:
        """The ensemble as it decides now."""
        return self._current.fit

    @property
    def weights_(self) -> Floats:
        """The weights of the policies now."""
        return self._current.state.hedge.weights

    @property
    def rows_(self) -> int:
        """The number of rows whose labels have arrived."""
        return self._current.history.rows

    @property
    def decided_(self) -> int:
        """The number of rows decided."""
        return self._current.decided

    @property
    def expired_(self) -> int:
        """The number of rows that expired."""
        return self._current.expired

    @property
    def correction_(self) -> float:
        """What is currently added to promises."""
        return self._current.state.tracking.correction

    @property
    def open_(self) -> pd.DataFrame:
        """The open rows."""
        with self._lock:
            self._settle()
            batches, decided = self._ledger.open_rows, self._current.decided
        ids = [each for batch in batches for each in ids_listed(batch.ids)]
        numbers = np.concatenate([batch.numbers for batch in batches]) if batches else np.empty(0, np.int64)
        promised = np.concatenate([batch.promises[:, PROMISED] for batch in batches]) if batches else np.empty(0)
        found = {"id": ids, "number": numbers, "age": decided - 1 - numbers, "promised": promised}
        return pd.DataFrame(found)

    @property
    def history_(self) -> pd.DataFrame:
        """Sums over spans of rows in the order in which labels arrived, and the state at their end."""
        return self._current.history.frame()

    @property
    def refits_(self) -> pd.DataFrame:
        """The refits."""
        columns = ["decided", "labels", "why", "rows", "taken_up", "outcome"]
        rows = [[getattr(refit, name) for name in columns] for refit in self._current.refits]
        return pd.DataFrame(rows, columns=columns).assign(failed=[bool(refit.failed) for refit in self._current.refits])

    @property
    def log(self) -> Any:
        """The log, or None."""
        return self._log

    def certificate(self) -> pd.DataFrame:
        """Return the regret against each policy, and a bound on it that holds for any labels and any delays.

        Returns
        -------
        A frame with a row for each policy: its current ``weight``; the regret against it so far, ``lost`` (what it
        would have earned beyond what was earned; for costs, what it would have saved), and its ``bound``, in all and
        per row; the ``rows`` that both are about, those with labels, and how many they count for by their weights,
        ``counted``; and the rows still ``open``, or ``expired``, of which nothing is known. ``promise_error`` is the
        exact mean of realised less promised payoffs on these rows. ``attrs`` has the parts of the bound: ``regret``,
        ``drift`` (the price of delays) and ``played`` (of playing one policy in place of the mixture, say).
        """
        now = self._current
        hedge, counted = now.state.hedge, now.counted or np.nan
        frame = pd.DataFrame({"policy": self.policies_, "weight": hedge.weights, "lost": hedge.lost})
        frame["bound"] = hedge.bound
        frame["lost_per_row"], frame["bound_per_row"] = frame["lost"] / counted, frame["bound"] / counted
        frame["rows"], frame["counted"] = now.history.rows, now.counted
        frame["open"], frame["expired"] = now.open, now.expired
        frame["promise_error"] = now.state.tracking.mean_error
        regret = hedge.bound - hedge.drift - hedge.played
        frame.attrs.update(regret=regret, drift=hedge.drift, played=hedge.played)
        return frame

    @property
    def finding_(self) -> str:
        """The certificate as a sentence."""
        return certificate_text(self.certificate(), cost=self.ensemble_.sense == "min")

    def plot(self, figure: Figure | None = None) -> Figure:
        """Draw payoffs, weights, promises and the evidence against them over time, with refits marked.

        Parameters
        ----------
        figure
            A figure of matplotlib to draw into; by default a new one of ``matplotlib.pyplot``.

        Returns
        -------
        The figure.
        """
        from optensemble.report.live_plots import plot_live

        drawn: Figure = plot_live(self, figure)
        return drawn

    def save(self, path: str | PathLike[str], *, keep_rows: bool = True, keep_members: bool = True) -> None:
        """Write everything to one file, whole or not at all; :func:`optensemble.load` continues from there bit for bit.

        It waits for a refit in the background. Parameters are those of :meth:`DecisionEnsemble.save`; without rows it
        cannot be refitted after loading.
        """
        from optensemble.persistence.files import save

        with self._lock:
            self._settle()
            save(self, path, keep_rows=keep_rows, keep_members=keep_members)

    def report(
        self,
        path: str | PathLike[str] = "report.html",
        *,
        title: str | None = None,
        unit: str | None = None,
        currency: str | None = None,
    ) -> Path:
        """Write the page on what it has promised, earned and learned: one HTML file that opens offline.

        With a log it has the latest decisions too, and why they were made.

        Parameters
        ----------
        path
            The file; it is written whole or not at all, and replaces one that is there.
        title, unit, currency
            As of :meth:`DecisionEnsemble.report`.

        Returns
        -------
        The path of the page.
        """
        from optensemble.report.writing import write_live_report

        latest = [] if self._log is None or self._log.is_closed else self._log.latest(_LATEST)
        live: Any = self
        written: Path = write_live_report(live, path, title=title, unit=unit, currency=currency, decisions=latest)
        return written

    def __repr__(self) -> str:
        return f"LiveEnsemble({self.rows_:,} rows learned from, {self._current.open:,} open; {self.finding_})"

    def _repr_html_(self) -> str:
        from optensemble.report.notebook import live_html

        return live_html(self)

    def _settle(self) -> None:
        """Finish what an interrupt broke off."""

    @property
    def _models(self) -> bool:
        """Whether some members predict."""
        return len(self.ensemble_.members_) > self.ensemble_.n_policies
