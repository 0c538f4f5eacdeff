"""Live ensembles on small worlds, a diary of what they did, and what must follow from it, by plain sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible
from optensemble.ensembles._live_terms import unit_of
from optensemble.members.validation import pick_rows
from optensemble.monitoring.tracking import MEMORY
from tests.ensembles.decision import D, Ensemble, N, fitted, problem
from tests.problems import Floats

NEWER = range(N, 2 * N)
"""The rows of a problem that come after the fit."""

LABELS = ["air", "rail", "sea"]
LATE = np.random.default_rng(5).integers(0, 90, size=2 * N)
"""By how many rows labels are late."""


def live(access: str = "models", omega: str = "simplex", sense: str = "max", **parameters: Any) -> oe.LiveEnsemble:
    """A live ensemble on a shared fit, which it does not change."""
    return oe.LiveEnsemble(fitted(access, omega, sense), **parameters)


def table(rows: Any = slice(None)) -> pd.DataFrame:
    """What the members of the problem say, as columns, with an index that says nothing."""
    columns = {f"m{i}_{j}": said[:, j] for i, said in enumerate(problem().P) for j in range(D)}
    frame: pd.DataFrame = pd.DataFrame(columns, index=[f"row {i}" for i in range(2 * N)]).iloc[rows]
    return frame


def named(rows: Any = slice(None)) -> pd.DataFrame:
    """The labels of the problem, with names."""
    return pd.DataFrame(problem().Y[rows], columns=LABELS)


@cache
def fitted_on_columns() -> Ensemble:
    """Fitted on the first rows of the table. Shared: it must not be changed."""
    models = [(f"m{i}", oe.Columns([f"m{i}_{j}" for j in range(D)])) for i in range(D)]
    ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), context=None)
    return ensemble.fit(table(slice(0, N)), named(slice(0, N)).set_axis(table(slice(0, N)).index))


def cut(rows: Iterable[int], size: int) -> Iterator[list[int]]:
    """Rows in batches."""
    whole = list(rows)
    for start in range(0, len(whole), size):
        yield whole[start : start + size]


@dataclass
class Decided:
    """What was decided in a row, and what for."""

    number: int
    policies: Floats
    weights: Floats
    played: Floats
    raw: float
    promised: float
    watched: float
    fit: int
    weighing: float


@dataclass
class Diary:
    """Plays rows of a world, known by their places in it, and writes down what happens."""

    live: oe.LiveEnsemble
    X: Any = field(default_factory=lambda: problem().X)
    Y: Floats = field(default_factory=lambda: problem().Y)
    decided: dict[int, Decided] = field(default_factory=dict)
    learned: list[tuple[int, float]] = field(default_factory=list)
    watched: list[tuple[int, float]] = field(default_factory=list)
    watched_fit: int = 0

    @property
    def sign(self) -> float:
        return -1.0 if self.live.ensemble_.sense == "min" else 1.0

    def decide(self, rows: Sequence[int], X: Any = None) -> oe.LiveAnswer:
        first = self.live.decided_
        answer = self.live.answer(pick_rows(self.X, np.asarray(rows)) if X is None else X, ids=list(rows))
        batch = self.live._ledger.batches[-1].rows
        for at, row in enumerate(rows):
            raw, promised, _, _, watched = batch.promises[at].tolist()
            kept = batch.proposed[:, at].copy(), batch.weights[at].copy(), batch.played[at].copy()
            self.decided[row] = Decided(first + at, *kept, raw, promised, watched, len(self.swaps), self._weighing)
        return answer

    @property
    def _weighing(self) -> float:
        """What a weight of 1 is to the monitor: beside the mean weight of the rows fitted on, if these had any."""
        latest = self.live.refitted_
        return latest.record_.weighing if latest.has_record else 0.0

    @property
    def swaps(self) -> list[str]:
        """The outcome of refits that were made."""
        return [each for each in self.live.refits_["outcome"] if not each.startswith("failed")]

    def observe(self, rows: Sequence[int], counts: Floats | None = None, **options: Any) -> None:
        now = np.ones(len(rows)) if counts is None else counts
        places = sorted(range(len(rows)), key=lambda at: self.decided[rows[at]].number)
        self.learned += [(rows[at], float(now[at])) for at in places]
        for at in places:
            told = self.decided[rows[at]]
            if now[at] and told.fit >= self.watched_fit:
                self.watched_fit = told.fit
                self.watched.append((rows[at], now[at] * told.weighing if told.weighing else 1.0))
        self.live.observe(list(rows), self.Y[np.asarray(rows)], sample_weight=counts, **options)

    def play(self, rows: Iterable[int] = NEWER, batch: int = 20, late: Any = None) -> Diary:
        """Decide rows in batches; labels come at once, or after as many rows as are said."""
        waiting = list[int]()
        for now in cut(rows, batch):
            self.decide(now)
            waiting += now
            here = [row for row in waiting if late is None or row + late[row] <= now[-1]]
            waiting = [row for row in waiting if row not in set(here)]
            if here:
                self.observe(here)
        return self

    def values(self, actions: Floats, rows: Sequence[int]) -> Floats:
        """What actions come to in rows, where greater is better."""
        places = np.asarray(rows)
        omega = self.live.ensemble_.feasible_.for_rows(pick_rows(self.X, places))
        return omega.value(np.ascontiguousarray(actions), np.ascontiguousarray(self.sign * self.Y[places]))

    def check(self) -> None:
        """The certificate, weights, correction, history and monitor follow from what was written down."""
        rows, counts = [row for row, _ in self.learned], np.array([count for _, count in self.learned])
        told = [self.decided[row] for row in rows]
        policies = np.stack([self.values(np.array([each.policies[i] for each in told]), rows) for i in self._all], 1)
        earned = self.values(np.array([each.played for each in told]), rows)
        hedge = self.live._now.state.hedge
        book = Book(len(self._all), hedge.start).learn(
            counts[:, None] * (policies - earned[:, None]), np.array([each.weights for each in told])
        )
        certificate = self.live.certificate()
        size = max(1.0, np.abs(counts[:, None] * policies).sum())
        close = {"rtol": 1e-6, "atol": 1e-9 * size}
        np.testing.assert_allclose(certificate["lost"], book.lost, **close)
        np.testing.assert_allclose(certificate["bound"], book.bound, **close)
        np.testing.assert_allclose(self.live.weights_, book.weights, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(certificate["weight"], self.live.weights_)
        assert (certificate["lost"] <= certificate["bound"] + 1e-9 * size).all()
        errors = self.sign * earned - [each.promised for each in told]
        mean = float((counts * errors).sum() / (counts.sum() or 1.0))
        np.testing.assert_allclose(certificate["promise_error"], mean, **close)
        correction, unit = 0.0, unit_of(self.live.ensemble_)
        for each, realised, count in zip(told, self.sign * earned, counts, strict=True):
            correction += min(unit * count / MEMORY, 1.0) * (realised - each.raw - correction)
        assert self.live.correction_ == np.float64(correction) or abs(self.live.correction_ - correction) < 1e-9 * size
        assert (certificate["rows"] == len(rows)).all()
        assert (certificate["open"] == len(self.decided) - len(rows) - self.live.expired_).all()
        self._check_history(policies, earned, counts, told)
        self._check_monitor()

    @property
    def _all(self) -> range:
        return range(len(self.live.policies_))

    def _check_history(self, policies: Floats, earned: Floats, counts: Floats, told: list[Decided]) -> None:
        history, rows = self.live.history_, [row for row, _ in self.learned]
        assert history["rows"].sum() == len(rows) == self.live.rows_
        best = self.live.ensemble_.feasible_.for_rows(pick_rows(self.X, np.array(rows)))
        labels = np.ascontiguousarray(self.sign * self.Y[np.array(rows)])
        foresight = np.maximum(best.value(best.argmax(labels), labels), np.column_stack([policies, earned]).max(axis=1))
        sums = {"counted": np.ones(len(rows)), "earned": self.sign * earned, "foresight": self.sign * foresight}
        sums["promised"] = np.array([each.promised for each in told])
        sums |= dict(zip(self.live.policies_, self.sign * policies.T, strict=True))
        for name, values in sums.items():
            expected = np.add.reduceat(counts * values, history["first"].to_numpy())
            np.testing.assert_allclose(history[name], expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(values).max()))
        last = history.iloc[-1]
        assert last["correction"] == self.live.correction_
        np.testing.assert_array_equal([last[f"weight_{name}"] for name in self.live.policies_], self.live.weights_)

    def _check_monitor(self) -> None:
        """The monitor has seen what the fit promised of its own actions, and what these came to: one fit at a time."""
        monitor = self.live.monitor
        if monitor is None:
            return
        assert monitor.rows == len(self.watched)
        if not self.watched:
            return
        rows, factors = [row for row, _ in self.watched], np.array([factor for _, factor in self.watched])
        evidence, told = monitor.evidence, [self.decided[row] for row in rows]
        own = self.sign * self.values(np.array([each.policies[-2] for each in told]), rows)
        for name, values in (("promised", np.array([each.watched for each in told])), ("realised", own)):
            expected = np.add.reduceat(factors * values, evidence["first"].to_numpy()) / evidence["rows"]
            np.testing.assert_allclose(evidence[name], expected, rtol=1e-9, atol=1e-9)


@dataclass
class Book:
    """AdaHedge with delays, and its certificate, one row at a time."""

    policies: int
    start: float
    lost: Floats = field(init=False)
    gaps: float = 0.0
    drift: float = 0.0
    played: float = 0.0

    def __post_init__(self) -> None:
        self.lost = np.zeros(self.policies)

    def learn(self, beyond: Floats, then: Floats) -> Book:
        """``beyond``: by how much policies were ahead of what was earned; ``then``: weights when it was decided."""
        for ahead, weights in zip(beyond, then, strict=True):
            now, before = self.weights, self._potential
            self.lost = self.lost + ahead
            scale = self._scale
            self.gaps += max(self._potential_at(scale) - before - now @ ahead, 0.0)
            self.drift += float((now - weights) @ ahead)
            self.played += float(weights @ ahead)
        return self

    @property
    def _scale(self) -> float:
        return self.start + self.gaps

    @property
    def weights(self) -> Floats:
        behind = self.lost - self.lost.max()
        if self._scale == 0:
            return np.asarray((behind == 0) / (behind == 0).sum())
        raised = np.exp(behind * np.log(self.policies) / self._scale)
        return np.asarray(raised / raised.sum())

    @property
    def _potential(self) -> float:
        return self._potential_at(self._scale)

    def _potential_at(self, scale: float) -> float:
        """The soft maximum of what was lost."""
        most = float(self.lost.max())
        if scale == 0:
            return most
        rate = np.log(self.policies) / scale
        return most + float(np.log(np.exp(rate * (self.lost - most)).sum()) / rate)

    @property
    def bound(self) -> float:
        return 2 * self.gaps + self.start + self.drift + self.played


def bits(ensemble: oe.LiveEnsemble) -> list[Any]:
    """All that a live ensemble knows, as far as it can be seen; numbers as text, for NaN equals NaN there."""
    frames = [ensemble.certificate(), ensemble.history_, ensemble.open_, ensemble.refits_]
    if ensemble.monitor is not None:
        frames += [ensemble.monitor.evidence, ensemble.monitor.alarms]
    counts = [ensemble.rows_, ensemble.decided_, ensemble.expired_, ensemble.correction_]
    return [*(repr(frame.to_dict("list")) for frame in frames), counts, ensemble.weights_.tolist(), repr(ensemble)]


def told(answer: oe.LiveAnswer) -> list[Any]:
    """The numbers of an answer."""
    return [each.tolist() for each in (answer.actions, answer.promised, answer.low, answer.high, answer.chosen)]
