"""The part of a LiveEnsemble that lets calls take place as a whole, and that refits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Self

from optensemble._core.threads import one_blas_thread
from optensemble.ensembles._live_findings import LiveFindings
from optensemble.ensembles._live_log import Due, Entry, Learned, Log, TakenUp
from optensemble.ensembles._live_refits import Outcome, Refit, RunningRefit, due_after
from optensemble.ensembles._live_rows import Change
from optensemble.ensembles._live_state import Commit, Knowledge
from optensemble.ensembles._live_terms import ASKED, BACKGROUND, CALL, THREAD
from optensemble.ensembles.base import Policy
from optensemble.exceptions import InputError, LogError, RefitWarning
from optensemble.monitoring.monitor import Seen

_ASIDE = 4  # a refit in a thread is taken up when a quarter as many rows were decided as labels had made it due


class LiveRefits(LiveFindings):
    """The part of a :class:`~optensemble.LiveEnsemble` that commits what calls come to, and that refits."""

    refit: str | int | Callable[[Any], bool]
    refit_in: str
    _log: Log | None
    _logged: bool
    _pending: Commit | None
    _unsure: tuple[Commit, int] | None
    _groups_rule: Any
    _no_rows: str
    _asking: bool

    # What takes place as a whole

    def _commit(self, entry: Entry, change: Change | None, now: Knowledge, seen: Seen | None = None) -> None:
        """Keep a call's result in the log, and apply it, as a whole; the next call completes an interrupted one."""
        commit = Commit(change, now, seen)
        if self._log is not None:
            self._unsure = commit, self._log.next  # until it is known whether the log has it
            self._log.append(entry)
        self._pending = commit
        self._unsure = None
        self._settle()
        if self._log is not None:
            self._log.after_commit(self)

    def _settle(self) -> None:
        if self._unsure is not None:
            commit, seq = self._unsure
            if self._pending is None and self._log is not None and self._log.arrived(seq):
                self._pending = commit
            self._unsure = None
        if self._pending is None:
            return
        change, now, seen = self._pending
        if change is not None:
            self._ledger.apply(change)
        if seen is not None and self.monitor is not None:
            self.monitor._seen = seen
        self._now = now
        self._pending = None

    def _require_lead(self) -> None:
        """Refuse what would change anything, if the log was closed or is only read."""
        if self._log is not None:
            self._log.require_lead()

    def _as_beside_a_fit(self) -> AbstractContextManager[None]:
        """Limit linear algebra where fits run beside or are made again from a log: bits must not depend on when."""
        return one_blas_thread() if self._logged or self.refit_in == THREAD else nullcontext()

    # Refits

    @property
    def refit_due_(self) -> str:
        """Why a refit is due that has not been made yet; empty if none is."""
        with self._lock:
            running = self._current.running
            return self._why_due() if running is None else running.refit.why

    def refit_now(self) -> Self:
        """Refit on the labels that have arrived, whether that is due or not; nothing happens if none have.

        A refit that runs in the background is waited for.
        """
        with self._lock:
            self._settle()
            self._require_lead()
            if not self._learns:
                raise InputError(
                    f"this LiveEnsemble does not refit: {self._no_rows or 'it was made with refit=never'}. Fit an "
                    "ensemble on all rows, and make a new one of it."
                )
            if self._now.running is None:
                if not self._now.new:
                    return self
                self._begin_refit(self._why_due() or "asked for", self._now.decided)
            self._take_up_refit(at_once=True)
        return self

    def take_up_refit(self) -> Self:
        """Let a refit that was made in the background decide from now on, as the next call would; else do nothing."""
        with self._lock:
            self._settle()
            self._require_lead()
            self._take_up_refit()
        return self

    @property
    def _learns(self) -> bool:
        """Whether it refits; not if a file came without the rows that this needs."""
        return bool(self.refit != "never") and not self._no_rows

    def _why_due(self) -> str:
        """Return why a refit is due; empty if it is not."""
        new = self._now.new
        if not self._learns or new == 0:
            return ""
        if callable(self.refit):
            return self._ask()
        after = due_after(self.refitted_.n_rows_) if self.refit == "auto" else int(self.refit)
        if new >= after:
            return f"{new:,} new labels"
        if self.refit == "auto" and new >= due_after(0) and self.monitor is not None:
            alarms = [alarm for alarm in self.monitor.standing if alarm.row >= self._now.heeded]
            return f"alarm: {alarms[0].kind}, {alarms[0].direction} than promised" if alarms else ""
        return ""

    def _ask(self) -> str:
        """Return what the callable says; it may observe labels, and is not asked again meanwhile."""
        if self._asking or not callable(self.refit):
            return ""
        self._asking = True
        try:
            return "asked for" if self.refit(self) else ""
        finally:
            self._asking = False

    def _fit_if_due(self) -> None:
        if self.refit_in == ASKED or self._now.running is not None or not (why := self._why_due()):
            return
        now = self._now  # the callable may have learned
        aside = -(-now.new // _ASIDE) if self.refit_in == THREAD else 0
        running = self._begin_refit(why, now.decided + aside)
        if self.refit_in == CALL:
            running.run()
            self._take_up_refit()
        else:
            running.start()

    def _begin_refit(self, why: str, due_at: int) -> RunningRefit:
        """Settle what a refit is made of; it is not run yet."""
        now = self._now
        rows, fit, groups = now.rows.joined(), now.fit, self._groups_rule
        seen = 0 if self.monitor is None else self.monitor.rows

        def work() -> Policy:
            with self._as_beside_a_fit():
                return fit._fitted_again(rows.batches(groups))

        running = RunningRefit(Refit(now.decided, now.history.rows, seen, why, len(rows)), due_at, work)
        self._commit(Due(why, due_at), None, replace(now, rows=rows, new=0, running=running))
        return running

    def _is_time(self, running: RunningRefit) -> bool:
        """Return whether a refit is to be taken up before the next row."""
        if self.refit_in == ASKED:
            return False
        return running.has_ended if self.refit_in == BACKGROUND else self._now.decided >= running.due_at

    def _take_up_refit(self, *, at_once: bool = False) -> None:
        """Let a refit decide from now on, if it is time; one that failed leaves the one before."""
        running = self._now.running
        if running is None or not (at_once or self._is_time(running)):
            return
        outcome = running.wait()
        self._enter_refit(outcome)
        if outcome.fit is not None:
            return
        if not isinstance(outcome.error, Exception) and outcome.error is not None:
            raise outcome.error
        warnings.warn(
            f"the refit on {running.refit.rows:,} rows failed ({outcome.failed}). The previous fit stays in force, and "
            "another attempt is made when the next refit is due.",
            RefitWarning,
            stacklevel=4,
        )

    def _enter_refit(self, outcome: Outcome) -> None:
        """Commit the outcome of the refit that was begun."""
        now = self._now
        running = now.running
        if running is None:
            raise LogError("the log tells of a refit that was never begun. Restore it from a backup.")
        refit = replace(running.refit, taken_up=now.decided, failed=outcome.failed)
        after = replace(now, running=None, refits=(*now.refits, refit))
        if (fit := outcome.fit) is not None:
            number = now.fits + 1
            watched = now.watched.followed_by(number, fit.record_ if fit.has_record else None)
            after = replace(after, fit=fit, fits=number, watched=watched)
        self._commit(TakenUp(outcome.failed), None, after)

    def _finish_refit(self, failed: str) -> None:
        """Let a refit be taken up again as it was; it is made once more unless it failed."""
        if failed or self._now.running is None:
            self._enter_refit(Outcome(failed=failed))
            return
        outcome = self._now.running.wait()
        if outcome.fit is None:
            raise LogError(
                f"a refit that the log tells of cannot be made again ({outcome.failed}). Resume where there is as much "
                "memory, and with the same members."
            ) from outcome.error
        self._enter_refit(outcome)

    def _go_on(self, last: Entry | None) -> None:
        """Complete the call that the process before was in when it ended; ``last`` is the last entry of the log."""
        running = self._now.running
        if running is None:
            if isinstance(last, Learned):
                self._fit_if_due()
        elif self.refit_in in (THREAD, BACKGROUND):
            running.start()
        elif self.refit_in == CALL:
            self._take_up_refit()
