"""LiveEnsemble: a fitted ensemble that keeps learning while it decides, and certifies its regret."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.hashing import Hashes
from optensemble._core.spans import Spans
from optensemble._core.validation import require_choice, require_number
from optensemble.ensembles._frames import kind_of, output_of
from optensemble.ensembles._live_answer import LiveAnswer
from optensemble.ensembles._live_labels import as_given, warn_of_units
from optensemble.ensembles._live_log import (
    Before,
    Learned,
    Log,
    Opened,
    RepeatedError,
    contents_of,
    decided_before,
)
from optensemble.ensembles._live_policies import REFITTED, propose
from optensemble.ensembles._live_refits import Arrived, RefitRows, default_window
from optensemble.ensembles._live_refitting import LiveRefits
from optensemble.ensembles._live_rows import (
    HIGH,
    LOW,
    PROMISED,
    WATCHED,
    Ledger,
    OpenRows,
    as_ids,
    hash_ids,
    join_open,
    kept_part,
)
from optensemble.ensembles._live_state import (
    Commit,
    Knowledge,
    LiveState,
    Payoffs,
    Played,
    add_to_history,
    chosen_of,
    history_columns,
)
from optensemble.ensembles._live_terms import (
    BACKGROUND,
    PLAYS,
    REFIT_IN,
    THREAD,
    as_fitted,
    as_mixing,
    as_refit,
    fewest_kept,
    names_of_policies,
    require_recorded,
    unit_of,
)
from optensemble.ensembles._watch import WatchedFit, monitor_of
from optensemble.ensembles.base import Policy
from optensemble.exceptions import InputError, LogError
from optensemble.members.fingerprints import fingerprints
from optensemble.members.fit_inputs import MISSING_LABELS
from optensemble.members.frames import index_of
from optensemble.members.validation import pick_rows, row_count
from optensemble.monitoring.monitor import Monitor, Seen
from optensemble.monitoring.tracking import Tracking
from optensemble.stacking.hedge import Hedge
from optensemble.stacking.online_stack import OnlineStack

_START = 5.0
"""Rows' worth of differences between policies that weights begin with: a few labels decide nothing yet."""

_ANSWERED = {"promised": PROMISED, "low": LOW, "high": HIGH}

Told = TypeVar("Told")


class _Asked(NamedTuple):
    """Rows that are to be decided, with their ids, and hashes of these; ``numbered`` if the ids are their numbers."""

    X: Any
    named: npt.NDArray[Any]
    hashes: Hashes
    numbered: bool

    def take(self, rows: Any) -> _Asked:
        """Return some of the rows, by their places."""
        return _Asked(pick_rows(self.X, rows), self.named[rows], self.hashes[rows], self.numbered)


class LiveEnsemble(LiveRefits):
    """A fitted ensemble that keeps learning as it decides: it refits, hedges, bounds its regret and monitors itself.

    It follows three policies: the ensemble as it was fitted, its latest refit on the labels that have arrived, and an
    online stack of its members with a short memory. Their weights follow what each has earned (AdaHedge). For any
    sequence of labels, however late, :meth:`certificate` reports the regret against each policy and an upper bound on
    it. Promises follow the errors of past promises, and :attr:`monitor` raises an alarm, at a stated rate of false
    ones, when the promise of a fit no longer holds.

    Where the world does not change, hedging costs a little: 0.2 to 1 % of what there is to gain over a few hundred
    rows. Rows without labels are not covered.

    Parameters
    ----------
    ensemble
        A fitted :class:`DecisionEnsemble`, :class:`WhiteBoxEnsemble` or :class:`BlackBoxEnsemble`. It is not changed.
    refit
        When to refit. ``"auto"``: when new labels amount to a sixth of the rows last fitted on (at least 60), or when
        there is a new alarm and at least 60 have arrived. An integer: every so many labels. A callable that takes this
        object and returns a bool: called after each ``observe`` that brings labels, unless a refit is in progress. Or
        ``"never"``.
    play
        ``"mixture"``: the policies' actions are mixed by their weights, which requires a convex set; ``"heaviest"``:
        the policy with the largest weight is played, and the certificate includes the cost of doing so; ``"auto"``:
        the mixture where the set is convex.
    refit_in
        ``"call"``: ``observe`` returns once a refit that is due has been made. ``"thread"``: it runs in the background
        and takes over after a fixed number of further decisions (a quarter of the labels that triggered it), so that
        the same calls give the same decisions however long it takes; linear algebra then runs on one thread.
        ``"background"``: it runs in the background and takes over as soon as it has been made, which only a ``log`` can
        tell afterwards. ``"asked"``: it waits for :meth:`refit_now`; :attr:`refit_due_` says when one is due.
    window
        The number of rows to refit on at most, the latest; by default 20,000, or four times the rows fitted on if that
        is more.
    expire_after
        Expire an open row once this many further rows have been decided, and count it in ``expired_``; by default
        never.
    horizon, false_alarms
        The monitor's probability of a false alarm within this number of rows.
    log
        Where to keep every decision before it is handed out, and every label: a file, which becomes a SQLite database,
        or the URL of a PostgreSQL database. :meth:`resume` goes on from there, after a crash at any moment as well. By
        default nothing is kept but in memory.

    Attributes
    ----------
    policies_
        The names of the policies, in the order of weights.
    weights_
        Their current weights.
    ensemble_, refitted_
        The ensemble as it was fitted, and its latest refit.
    monitor
        Watches what each fit promised of its own actions, one fit at a time: it starts afresh with the first labels of
        a row that a newer fit has decided. None if the fit has no out-of-fold record (a white or black box with
        ``validation=None``).
    open_
        A frame: the open rows, with ids, numbers, ages (rows decided since) and promises.
    history_
        A frame: at most 512 spans of equally many rows, in the order in which labels arrived, with sums of what was
        ``earned``, ``promised``, earned by each policy and by ``foresight``, and the weights and the correction at
        the end of the call that delivered the labels.
    refits_
        A frame with a row for each refit: what triggered it, how many rows it used, and its outcome.
    rows_, decided_, expired_
        The number of rows whose labels have arrived, of those decided, and of those that expired.
    correction_
        What is currently added to promises.
    finding_
        The certificate in a sentence.
    refit_due_
        Why a refit is due that has not been made yet; empty if none is.
    log
        The log, or None: its ``latest(n)`` decisions, ``export(path)``, ``prune(keep_days)`` and ``counts()``.

    Examples
    --------
    >>> import numpy as np
    >>> import optensemble as oe
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> Y = X + rng.normal(scale=0.5, size=X.shape)
    >>> models = [("left", lambda X: X * [1, 0]), ("right", lambda X: X * [0, 1])]
    >>> ensemble = oe.DecisionEnsemble(models=models, feasible=oe.feasible.Simplex(2)).fit(X[:400], Y[:400])
    >>> live = oe.LiveEnsemble(ensemble)
    >>> for start in range(400, 1000, 100):
    ...     ids = range(start, start + 100)
    ...     answer = live.answer(X[start : start + 100], ids=ids)
    ...     _ = live.observe(ids=ids, Y=Y[start : start + 100])
    >>> live.rows_, len(live.refits_), live.monitor.standing
    (600, 4, ())
    >>> bool((live.certificate()["lost"] <= live.certificate()["bound"]).all())
    True
    """

    def __init__(
        self,
        ensemble: Policy,
        *,
        refit: str | int | Callable[[LiveEnsemble], bool] = "auto",
        play: str = "auto",
        refit_in: str = "call",
        window: int | None = None,
        expire_after: int | None = None,
        horizon: int = 5000,
        false_alarms: float = 0.05,
        log: str | PathLike[str] | None = None,
    ) -> None:
        fit = as_fitted(ensemble)
        self._take_terms(fit, as_refit(refit, fit), play, refit_in, window, expire_after)
        self.monitor: Monitor | None = None
        if fit.has_record:
            self.monitor = monitor_of(fit.record_, fit.sense, horizon=horizon, false_alarms=false_alarms)
        stack = OnlineStack.begin(len(fit.members_) + self._models, fit.feasible_.dimension, models=self._models)
        unit = unit_of(fit)
        hedge = Hedge.over(len(self.policies_), _START * fit._spread / unit)
        state = LiveState(hedge, Tracking(), stack, unit)
        window = default_window(fit.n_rows_) if window is None else window
        rows = RefitRows.of(fit._kept_rows if self.refit != "never" else [], (), window)
        watched = WatchedFit.first(fit.record_ if fit.has_record else None)
        self._now = Knowledge(state, Spans(history_columns(self.policies_)), rows, fit, watched)
        self._ledger = Ledger()
        require_recorded(refit_in, log)
        if log is not None:
            from optensemble.log.starting import start_log

            self._keep(start_log(self, log))

    def _take_terms(
        self, fit: Policy, refit: Any, play: str, refit_in: str, window: int | None, expire_after: int | None
    ) -> None:
        """Validate and keep what was given; whatever is learned comes after."""
        require_choice(play, "play", PLAYS)
        require_choice(refit_in, "refit_in", REFIT_IN)
        for name, value, least in (("window", window, fewest_kept(fit)), ("expire_after", expire_after, 1)):
            if value is not None:
                require_number(value, name, at_least=least, whole=True)
        self.ensemble_ = fit
        self.refit, self.play, self.refit_in = refit, play, refit_in
        self.window, self.expire_after = window, expire_after
        self.mixes_ = as_mixing(play, fit)
        self.policies_ = names_of_policies(refit)
        self._groups_rule, self._no_rows = fit._grouping_rule, ""
        self._lock = threading.RLock()
        self._pending: Commit | None = None
        self._unsure: tuple[Commit, int] | None = None
        self._asking, self._unasked = False, False
        self._log: Log | None = None
        self._logged = False

    @classmethod
    def resume(
        cls,
        log: str | PathLike[str],
        *,
        refit_in: str | None = None,
        read_only: bool = False,
        wait: float = 0.0,
        models: Any = None,
        policies: Any = None,
        feasible: Any = None,
        subgroups: Any = None,
        trusted: Any = None,
        refit: Any = None,
    ) -> Self:
        """Go on from a log, bit for bit as if the process that kept it had not ended, at whatever moment it did.

        One process leads a log, and only that one decides and learns. Another is refused until the first has closed it
        or ended; of a process on another machine that has ended without closing it, that is known after 30 seconds.

        Parameters
        ----------
        log
            The file or the URL.
        refit_in
            Where refits run from now on; by default as before.
        read_only
            Return the state as of now without leading: it cannot decide, observe or refit.
        wait
            Seconds to wait for another process to let go of the log.
        models, policies, feasible, subgroups, trusted, refit
            What a file cannot hold, as for :func:`optensemble.load`.
        """
        from optensemble.log.resuming import resume_log

        given = {"models": models, "policies": policies, "feasible": feasible, "subgroups": subgroups}
        given |= {"trusted": trusted, "refit": refit}
        if refit_in is not None:
            require_choice(refit_in, "refit_in", REFIT_IN)
        require_number(wait, "wait", at_least=0.0)
        live: Self = resume_log(log, given, refit_in=refit_in, read_only=read_only, wait=float(wait))
        return live

    def _keep(self, log: Log) -> None:
        """Keep everything in a log from now on."""
        self._log, self._logged = log, True

    def close(self) -> None:
        """Let other processes lead the log; this object then only tells what it knows. Without a log nothing happens.

        ``with`` closes it as well. A refit in the background is made again by whoever resumes.
        """
        with self._lock:
            with suppress(LogError):
                self._settle()
            self._unsure = None  # whoever resumes finds what has reached the log
            if self._log is not None:
                self._log.close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def _of_terms(cls, fit: Policy, **terms: Any) -> Self:
        """Return an instance without state, to be restored from a file."""
        live = object.__new__(cls)
        live._take_terms(fit, **terms)
        return live

    def copy(self) -> Self:
        """Return an independent copy that shares the members: try doubtful labels on it, they cannot be unlearned.

        A copy has no log.
        """
        return self._snapshot()._without_log()

    def _without_log(self) -> Self:
        """Return this one, for a life without a log: nothing would tell when a refit in the background took over."""
        if self.refit_in == BACKGROUND:
            self.refit_in = THREAD
        return self

    def _snapshot(self) -> Self:
        """Return a copy that shares what never changes."""
        with self._lock:
            self._settle()
            found = object.__new__(type(self))
            found.__dict__.update(self.__dict__)
            found._ledger, found._lock, found._asking = self._ledger.copy(), threading.RLock(), False
            found.monitor = None if self.monitor is None else self.monitor.copy()
            found._log = None
            return found

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, _: Any) -> Self:
        return self.copy()

    def __reduce__(self) -> Any:
        raise InputError(
            "a LiveEnsemble cannot be pickled, for a refit may be running. Use live.save(path) and oe.load(path)."
        )

    # Decisions

    def answer(self, X: Any, ids: Any = None) -> LiveAnswer:
        """Decide every row of X; the rows stay open until their labels arrive.

        Parameters
        ----------
        X
            The rows.
        ids
            An id for each row, by which its labels will be given: strings, numbers, timestamps or tuples of these, each
            used once. By default rows are numbered in the order in which they are decided. With a log, the same row may
            be asked for again by its id: the answer is the decision that was made.
        """
        return self._decide(X, ids, lambda played, named: self._as_answer(played, named, X))

    def _decide(self, X: Any, ids: Any, tell: Callable[[Played, npt.NDArray[Any]], Told]) -> Told:
        """Return what ``tell`` makes of what is played in every row of X, and of their ids; they are open then."""
        with self._lock:
            self._settle()
            self._require_lead()
            n = row_count(X)
            numbers = np.arange(self._ledger.decided, self._ledger.decided + n)
            named = as_ids(numbers if ids is None else ids, n, "X")
            rows = _Asked(X, named, hash_ids(named), numbered=ids is None)
            if self._ledger.knows_none(rows.hashes):  # which was so long ago only the log knows
                try:
                    return self._decide_new(rows, lambda played: tell(played, named))
                except RepeatedError:
                    self._settle()
                    if rows.numbered:
                        raise InputError(
                            "the numbers of these rows are ids of rows decided before. Rows without ids are numbered: "
                            "give ids in every call or in none."
                        ) from None
            before = self._decided_before(rows)
            if before is None:
                return self._decide_new(rows, lambda played: tell(played, named))
            if not len(before.new):
                return tell(before.joined(None, self._chosen), named)
            with before.naming():
                return self._decide_new(
                    rows.take(before.new), lambda played: tell(before.joined(played, self._chosen), named)
                )

    def _decided_before(self, rows: _Asked) -> Before | None:
        """Return which rows the log knows; None without one, where rows have no ids, and where it knows none."""
        if self._log is None or rows.numbered:
            return None
        return decided_before(
            self._log, rows.hashes.tolist(), rows.named, lambda places: self._contents(rows.X, places)
        )

    def _contents(self, X: Any, rows: Any) -> Floats:
        """Return a hash of some rows of X, by what they are decided by."""
        return contents_of(kept_part(self.ensemble_, pick_rows(X, rows), self._groups_rule))

    def _decide_new(self, asked: _Asked, tell: Callable[[Played], Told]) -> Told:
        """Decide rows that were not decided before."""
        X, n = asked.X, len(asked.named)
        numbers = np.arange(self._ledger.decided, self._ledger.decided + n)
        places = dict(zip(asked.hashes.tolist(), numbers.tolist(), strict=True))
        self._ledger.require_new(places, asked.hashes, asked.named, numbered=asked.numbered)
        self._take_up_refit()
        fits = (self.ensemble_, self.refitted_) if REFITTED in self.policies_ else (self.ensemble_,)
        state = self._now.state
        with self._as_beside_a_fit():
            proposals = propose(fits, state.stack, X)
        played = state.play(proposals, self.refitted_, mixes=self.mixes_)
        omega, stays = proposals.outputs.omega, self._learns or proposals.outputs.omega.needs_table
        part = kept_part(self.ensemble_, X, self._groups_rule) if stays or self._log is not None else None
        kept = part if stays else None
        rows = OpenRows(
            numbers=numbers,
            keys=asked.hashes,
            ids=asked.named,
            X=kept,
            omega=omega.bind_again(omega.values, kept) if omega.needs_table else omega,
            proposed=proposals.actions,
            played=played.actions,
            features=proposals.features,
            weights=played.weights,
            promises=played.promises,
            fit=np.full(n, self._now.fits),
        )
        told = tell(played)  # an interrupt after the rows were opened would lose it
        if n:
            self._open(rows, places, None if self._log is None else contents_of(part))
        return told

    def _chosen(self, weights: Floats) -> Floats:
        """Return the weights that actions are mixed by, of shape (n, policies)."""
        return chosen_of(weights, mixes=self.mixes_)

    def _as_answer(self, played: Played, ids: npt.NDArray[Any], X: Any) -> LiveAnswer:
        """Return what the user is given: copies, for open rows must not change with them."""
        labels = self.ensemble_.labels_
        return LiveAnswer(
            actions=played.actions.copy(),
            **{name: played.promises[:, at].copy() for name, at in _ANSWERED.items()},
            chosen=played.chosen.copy(),
            policies=self.policies_,
            ids=ids.copy(),
            labels=None if labels is None else tuple(labels),
            index=index_of(X),
            frame=kind_of(X),
        )

    def _open(self, rows: OpenRows, places: dict[int, int], contents: Floats | None = None) -> None:
        """Add open rows.

        The next call rolls back an interrupted one, for no answer was returned. With a log it is completed if the log
        has it: whoever asks again is given that decision.
        """
        before = 0 if self.expire_after is None else self._ledger.decided + len(rows) - self.expire_after
        ahead, back = self._ledger.opening(rows, places, before)
        was, waiting = self._now, self._now.open + len(rows) - (ahead.expired - back.expired)
        opened = was.with_rows_of(ahead, waiting)
        if contents is not None:
            self._commit(Opened(rows, contents), ahead, opened)
            return
        self._pending = Commit(back, was, None)
        self._ledger.apply(ahead)
        self._now = opened
        self._pending = None

    def decide(self, X: Any, ids: Any = None) -> Any:
        """Return the actions alone, as :meth:`DecisionEnsemble.decide` does; the rows are open as of :meth:`answer`."""
        fit = self.ensemble_
        return self._decide(X, ids, lambda played, _: output_of(played.actions.copy(), X, fit.labels_, fit._output))

    # Labels

    def observe(
        self,
        ids: Any,
        Y: Any,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        missing_labels: str = "raise",
    ) -> Self:
        """Learn from the labels of rows decided before: in any order, in batches of any size, however late.

        Within one call rows are processed in the order in which they were decided. Labels given before are ignored if
        they are identical, and refused otherwise. If anything is refused, nothing is learned.

        Parameters
        ----------
        ids
            The ids of the rows.
        Y
            Their labels, of shape (n, d), in the order of the ids. In a frame, columns are found by the labels' names,
            and rows by its index where that holds the ids.
        sample_weight
            The number of rows that each row counts for.
        groups
            The group of each row, if the rows fitted on had groups, and these were not found in X.
        missing_labels
            What to do with rows whose labels are missing, wholly or in part: ``"raise"`` an error, or ``"drop"`` them,
            so that they stay open.
        """
        require_choice(missing_labels, "missing_labels", MISSING_LABELS)
        with self._lock:
            self._settle()
            self._require_lead()
            given = self._as_given(ids, Y, sample_weight, groups, missing_labels)
            if len(given.numbers):
                self._unasked = True
                self._learn(given)
            if self._unasked:  # also if an interrupt came before the end of the call before
                if self.refit_in != THREAD:
                    self._take_up_refit()
                self._fit_if_due()
                self._unasked = False
        return self

    def _as_given(self, ids: Any, Y: Any, weights: Any, groups: Any, missing_labels: str) -> Arrived:
        """Return labels with the numbers of their rows, in the order in which these were decided; X is not set."""
        terms = self._learns, self._groups_rule
        given = as_given(self.ensemble_, ids, Y, weights, groups, *terms, gaps=missing_labels != "raise")
        found = self._ledger.find(hash_ids(given.ids).tolist(), given.ids, _prints(given.labels))
        new = np.flatnonzero(~found.known)
        order = new[np.argsort(found.numbers[new])]
        given = given.take(order)
        warn_of_units(self._now.fit, given, stacklevel=3)
        return Arrived(found.numbers[order], None, *given[1:])

    def _learn(self, given: Arrived) -> None:
        """Learn from labels that have arrived, as a whole or not at all."""
        now = self._now
        parts = list(self._ledger.take(given.numbers))
        rows, labels, sign = join_open(parts), np.ascontiguousarray(given.labels), self.ensemble_._sign
        counts = np.ones(len(labels)) if given.weights is None else given.weights
        state, found = now.state.learn(rows, sign * labels, counts, sign)
        refit_rows, history = now.rows, now.history.copy()
        for piece in self._arrived(parts, given):
            refit_rows = refit_rows.add(piece)
        prints = dict(zip(rows.keys.tolist(), _prints(labels), strict=True))
        add_to_history(history, found, rows, counts, state, sign)
        change = self._ledger.closing(given.numbers, prints)
        watched, seen = self._watched(rows, found, given.weights)
        learned = replace(
            now,
            state=state,
            history=history,
            rows=refit_rows,
            new=now.new + len(labels),
            counted=now.counted + float(counts.sum()),
            watched=watched,
        )
        entry = Learned(given, sign * found.played)
        self._commit(entry, change, learned.with_rows_of(change, now.open - len(prints)), seen)

    def _watched(self, rows: OpenRows, found: Payoffs, weights: Floats | None) -> tuple[WatchedFit, Seen | None]:
        """Return what the monitor has seen once it knows what each fit promised of its own actions, and what came."""
        watched = self._now.watched
        if self.monitor is None:
            return watched, None
        latest = len(self.policies_) - 2  # it comes before the stack
        realised = self.ensemble_._sign * found.policies[:, latest]
        return watched.look(self.monitor, rows.fit, rows.promises[:, WATCHED], realised, weights)

    def _arrived(self, parts: list[OpenRows], given: Arrived) -> list[Arrived]:
        """Return rows with their labels, to refit on."""
        if not self._learns:
            return []
        found, start = list[Arrived](), 0
        for part in parts:
            stop = start + len(part)
            found.append(given.part(slice(start, stop), part.X))
            start = stop
        return found


def _prints(labels: Floats) -> list[int]:
    """Return a hash of each row's labels, never negative."""
    prints: list[int] = (fingerprints(labels) >> np.uint64(1)).tolist()
    return prints
