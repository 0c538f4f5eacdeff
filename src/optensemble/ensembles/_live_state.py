"""What a LiveEnsemble has learned from labels: weights of policies, the correction of promises, an online stack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.spans import Spans
from optensemble._core.threads import one_blas_thread
from optensemble.ensembles._live_policies import Proposals
from optensemble.ensembles._live_refits import Refit, RefitRows, RunningRefit
from optensemble.ensembles._live_rows import HIGH, LOW, PROMISED, RAW, Change, OpenRows
from optensemble.ensembles._watch import WatchedFit
from optensemble.ensembles.base import Policy
from optensemble.monitoring.monitor import Seen
from optensemble.monitoring.tracking import Tracking
from optensemble.stacking.hedge import Hedge
from optensemble.stacking.online_stack import OnlineStack


class Played(NamedTuple):
    """What is played in a batch of rows, and why.

    ``weights`` are those of the policies in each row, ``chosen`` those that actions are mixed by; ``promises`` has a
    column for each entry of :attr:`OpenRows.promises`.
    """

    actions: Floats
    weights: Floats
    chosen: Floats
    promises: Floats


class Payoffs(NamedTuple):
    """What rows came to once their labels were known, where greater is better.

    ``played`` (n,) is what was earned, ``policies`` (n, policies) what each would have, ``best`` (n,) what could have
    been.
    """

    played: Floats
    policies: Floats
    best: Floats


@dataclass(frozen=True, eq=False)
class LiveState:
    """What was learned from all labels that have arrived; nothing of it changes, further labels make another one.

    ``unit`` is what a weight of 1 is beside the rows fitted on: memories are in rows that weigh as much as these.
    """

    hedge: Hedge
    tracking: Tracking
    stack: OnlineStack
    unit: float = 1.0

    def play(self, proposals: Proposals, fit: Policy, *, mixes: bool) -> Played:
        """Return what is played where policies propose something, with a promise by the latest ``fit`` and the past."""
        weights, latest, tracking = self.hedge.weights, proposals.latest, self.tracking
        chosen = chosen_of(weights, mixes=mixes)
        actions, raw = mix(proposals.actions, chosen), mix(proposals.promised, chosen)
        promised = raw + tracking.correction
        low = promised - tracking.below * (latest.promised - latest.low)
        high = promised + tracking.above * (latest.high - latest.promised)
        if latest.possible is not None:
            possible = fit.record_.labels.payoffs(proposals.outputs.omega, actions, proposals.outputs.sign)
            if possible is not None:
                promised, low, high = possible.clip(promised), possible.clip(low), possible.clip(high)
        promises = np.stack([raw, promised, low, high, latest.promised], axis=1)
        weights, chosen = (np.repeat(each[None], len(actions), axis=0) for each in (weights, chosen))
        return Played(actions, weights, chosen, promises)

    def learn(self, rows: OpenRows, labels: Floats, counts: Floats, sign: float) -> tuple[LiveState, Payoffs]:
        """Return what follows from the labels of further rows, where greater is better, and what the rows came to."""
        found = payoffs_of(rows, labels)
        realised, promises, relative = sign * found.played, rows.promises.T.copy(), self.unit * counts
        learned = replace(
            self,
            hedge=self.hedge.learn(counts[:, None] * (found.policies - found.played[:, None]), rows.weights),
            tracking=self.tracking.learn(
                *(realised, promises[RAW], promises[PROMISED], (promises[LOW], promises[HIGH]), relative)
            ),
            stack=self.stack.learn(rows.features, labels, relative),
        )
        return learned, found


@dataclass(frozen=True, eq=False)
class Knowledge:
    """All that a LiveEnsemble knows as of one moment but for its rows; a call makes another, which takes its place.

    Attributes
    ----------
    state
        What was learned from labels.
    history
        Sums of what rows came to.
    rows
        Those to fit again on.
    fit, fits
        The latest fit, and how many were made since the first.
    watched
        The fit whose promises the monitor watches.
    new
        The number of labels since the last refit was due.
    counted
        The number of rows whose labels have arrived, each as often as it counts.
    refits
        The refits so far.
    running
        The refit that is yet to be taken up.
    decided, open, expired
        The numbers of rows decided, open and expired.
    """

    state: LiveState
    history: Spans
    rows: RefitRows
    fit: Policy
    watched: WatchedFit
    fits: int = 0
    new: int = 0
    counted: float = 0.0
    refits: tuple[Refit, ...] = ()
    running: RunningRefit | None = None
    decided: int = 0
    open: int = 0
    expired: int = 0

    def with_rows_of(self, change: Change, waiting: int) -> Self:
        """Return the same with the counts of a change of rows; ``waiting`` is the number of open rows after it."""
        return replace(self, decided=change.decided, open=waiting, expired=change.expired)

    @property
    def heeded(self) -> int:
        """The number of rows that the monitor had seen when the latest fit was due: earlier alarms are dealt with."""
        return next((refit.watched for refit in reversed(self.refits) if not refit.failed), 0)


class Commit(NamedTuple):
    """What a call has come to, to take place as a whole: a change of rows, all else, and what the monitor has seen."""

    change: Change | None
    now: Knowledge
    seen: Seen | None


def payoffs_of(rows: OpenRows, labels: Floats) -> Payoffs:
    """Return what rows come to with these labels."""
    omega = rows.omega
    policies = np.stack([omega.value(np.ascontiguousarray(each), labels) for each in rows.proposed], axis=1)
    played = omega.value(rows.played, labels)
    best = np.maximum(policies.max(axis=1), played)
    try:
        with one_blas_thread():
            actions, solved = omega.try_argmax(labels)
        best = np.where(solved, np.maximum(best, omega.value(actions, labels)), best)
    except Exception:  # only the history has foresight: an Oracle that fails on labels must not stop learning
        pass
    return Payoffs(played, policies, best)


def chosen_of(weights: Floats, *, mixes: bool) -> Floats:
    """Return the weights that actions are mixed by, of shape (..., policies): all of it for the heaviest if none are.

    >>> chosen_of(np.array([0.2, 0.5, 0.3]), mixes=False)
    array([0., 1., 0.])
    """
    return weights if mixes else np.asarray(np.eye(weights.shape[-1])[weights.argmax(axis=-1)])


def mix(values: Floats, weights: Floats) -> Floats:
    """Return the mixture of values (policies, n, ...); of a single policy, or where all agree, theirs to the bit."""
    alone = np.flatnonzero(weights)
    if len(alone) == 1:
        return np.array(values[alone[0]])
    mixed = np.empty(values.shape[1:])
    _mix(values.reshape(len(values), -1), weights, mixed.reshape(-1))
    return mixed


@njit(cache=True, nogil=True)
def _mix(values: Floats, weights: Floats, mixed: Floats) -> None:
    """Write weighted sums, within the bounds of what is summed: rounding must not leave a set."""
    policies, n = values.shape
    for i in range(n):
        total, low, high = 0.0, np.inf, -np.inf
        for p in range(policies):
            total += weights[p] * values[p, i]
            low, high = min(low, values[p, i]), max(high, values[p, i])
        mixed[i] = min(max(total, low), high)


# History


def history_columns(policies: tuple[str, ...]) -> dict[str, str]:
    """Return the columns of the history, and how rows of a span are joined."""
    summed = ["counted", "earned", "promised", "foresight", *policies]
    return dict.fromkeys(summed, "sum") | {f"weight_{name}": "last" for name in policies} | {"correction": "last"}


def add_to_history(spans: Spans, found: Payoffs, rows: OpenRows, counts: Floats, state: LiveState, sign: float) -> None:
    """Add rows to the history, in the user's sense."""
    payoffs = sign * np.column_stack([found.played, sign * rows.promises[:, PROMISED], found.best, found.policies])
    weights = np.broadcast_to(state.hedge.weights, rows.weights.shape)
    correction = np.full(len(counts), state.tracking.correction)
    spans.add(np.column_stack([counts, counts[:, None] * payoffs, weights, correction]))
