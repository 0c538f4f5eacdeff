"""Ensembles in service as users might have them, with the log of their decisions; each is made once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import optensemble as oe
from optensemble import feasible
from optensemble.ensembles._live_log import LoggedDecision
from optensemble.report.live_page import LivePageData
from optensemble.report.terms import ReportTerms
from tests.report.ensembles import LONG, NASTY

Floats = npt.NDArray[np.float64]

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
"""When the first row was decided; one comes every minute."""


@dataclass
class Service:
    """An ensemble in service, and all that was decided, in order, as a log would have it."""

    live: oe.LiveEnsemble
    X: Floats
    Y: Floats
    made: list[LoggedDecision] = field(default_factory=list)
    counts: Floats | None = None

    @property
    def names(self) -> list[Any]:
        """The ids of the rows."""
        return [each.id for each in self.made]

    def decide(self, rows: int, ids: Sequence[Any] | None = None) -> None:
        """Decide further rows."""
        start = len(self.made)
        answer = self.live.answer(self.X[start : start + rows], ids=range(start, start + rows) if ids is None else ids)
        opened = self.live._ledger.batches[-1].rows
        for i in range(rows):
            raw, promised, low, high, _ = map(float, opened.promises[i])
            self.made.append(
                LoggedDecision(
                    id=answer.ids.tolist()[i],
                    number=start + i,
                    at=START + timedelta(minutes=start + i),
                    action=answer.actions[i],
                    promised=promised,
                    raw=raw,
                    low=low,
                    high=high,
                    weights=opened.weights[i],
                    proposed=opened.proposed[:, i],
                    fit=int(opened.fit[i]),
                )
            )

    def learn(self, rows: Sequence[int]) -> None:
        """Learn the labels of rows decided before."""
        at, named = list(rows), self.names
        weights = None if self.counts is None else self.counts[at]
        self.live.observe(ids=[named[i] for i in at], Y=self.Y[at], sample_weight=weights)
        for i in at:
            found = self.made[i]
            realised = float(found.action @ self.Y[i])
            known = {"label": self.Y[i], "realised": realised, "labelled_at": found.at + timedelta(hours=1)}
            self.made[i] = replace(found, **known)

    def run(self, n: int, *, late: int = 0, step: int = 20) -> Service:
        """Decide n rows, whose labels come a number of rows late."""
        start = len(self.made)
        for row in range(start, start + n, step):
            self.decide(step)
            if (known := row - late) >= start:
                self.learn(range(known, known + step))
        return self

    def latest(self, most: int = 20) -> list[LoggedDecision]:
        return self.made[::-1][:most]

    def data(self, *, terms: ReportTerms | None = None, most: int = 20, **options: Any) -> LivePageData:
        """What a page shows now."""
        at = START + timedelta(minutes=len(self.made), seconds=7 + self.live.rows_ % 50)
        return LivePageData.of(self.live, self.latest(most), at, terms=terms, **options)


class Members:
    """Models that see one feature each; they fail on demand."""

    fails = False

    def __call__(self, column: int) -> Callable[[Floats], Floats]:
        def predict(X: Floats) -> Floats:
            if self.fails:
                raise RuntimeError("out of order <b>")
            return np.asarray(X * np.where(np.arange(X.shape[1]) % 2 == column, 1.0, 0.3))

        return predict

    def named(self) -> list[Any]:
        return [("left", self(0)), ("right", self(1))]


def world(n: int, d: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = 1.5 + rng.normal(size=(n, d))
    return X, X + rng.normal(scale=0.5, size=X.shape)


def service(
    n: int = 400,
    *,
    d: int = 3,
    sense: str = "max",
    omega: feasible.FeasibleSet | None = None,
    members: Members | None = None,
    labels: Sequence[str] | None = None,
    **options: Any,
) -> Service:
    """An ensemble fitted on 120 rows, and n rows that come after."""
    X, Y = world(120, d, 0)
    known: Any = Y
    if labels is not None:
        known = pd.DataFrame(Y, columns=list(labels))
    if omega is None:
        omega = feasible.Simplex(d) if d > 1 else feasible.Box(0, 1, dimension=1)
    given: Any = (members or Members()).named()
    ensemble = oe.DecisionEnsemble(models=given, feasible=omega, sense=sense).fit(X, known)
    return Service(oe.LiveEnsemble(ensemble, **options), *world(n, d, 1))


@cache
def fresh() -> Service:
    """Nothing decided yet."""
    return service()


@cache
def waiting() -> Service:
    """Decided, but no label has come."""
    found = service()
    found.decide(3)
    return found


@cache
def few() -> Service:
    """Hardly any labels."""
    found = service()
    found.decide(8)
    found.learn(range(5))
    return found


@cache
def plain() -> Service:
    """A promise that is kept, labels 40 rows late, refits."""
    return service().run(400, late=40)


@cache
def shares() -> Service:
    """The same, with named coordinates and a title."""
    return service(labels=["north", "south", "east"]).run(400, late=40)


@cache
def broken() -> Service:
    """The models turn around half way; nothing is refitted."""
    found = service(600, refit="never")
    found.Y[300:] = 3.0 - found.X[300:]
    return found.run(600, late=20)


@cache
def costs() -> Service:
    """Costs that rise."""
    found = service(500, sense="min", refit="never")
    found.Y[300:] += 0.5
    return found.run(500, late=20)


@cache
def paths() -> Service:
    """A set whose mixtures are not actions: the heaviest policy is played."""
    roads = [("home", "lake"), ("lake", "work"), ("home", "work"), ("home", "hill"), ("hill", "work")]
    labels = [f"{start}→{end}" for start, end in roads]
    omega = feasible.ShortestPath(roads, "home", "work")
    return service(200, d=5, omega=omega, sense="min", labels=labels, refit=60).run(200, late=20)


@cache
def failing() -> Service:
    """The latest refit failed."""
    members = Members()
    found = service(200, members=members, refit=80)
    found.run(80)
    found.run(60)
    found.decide(20)
    members.fails = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oe.exceptions.RefitWarning)
        found.learn(range(140, 160))
    members.fails = False
    return found


@cache
def asked() -> Service:
    """A refit is due and waits to be asked for."""
    return service(200, refit_in="asked").run(200)


@cache
def unwatched() -> Service:
    """A white box without cross-validation: there is no monitor."""
    X, Y = world(120, 3, 0)
    box = oe.WhiteBoxEnsemble(Members().named(), feasible.Simplex(3), validation=None, max_rounds=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oe.exceptions.NotConvergedWarning)
        box.fit(X, Y)
    return Service(oe.LiveEnsemble(box, refit="never"), *world(200, 3, 1)).run(200)


@cache
def wide() -> Service:
    """200 coordinates, none of which is 0."""
    return service(100, d=200, omega=feasible.Box(-0.5, 0.5, dimension=200)).run(100, late=20)


@cache
def single() -> Service:
    """One coordinate."""
    return service(100, d=1).run(100, late=20)


@cache
def weighted() -> Service:
    """Rows that count for several, rows that expire, ids of odd types and dangerous names."""
    found = service(200, labels=[NASTY, LONG, "$x$"], expire_after=40)
    found.counts = np.arange(200.0) % 4 + 0.5
    odd = [NASTY, LONG, ("a", 7, "<i>"), 2.5, np.datetime64("2026-03-02T10:00"), True, "7", "\u0007", -3, "日本語"]
    for start in range(0, 200, 10):
        found.decide(10, [*range(1000 + start, 1010 + start)] if start < 190 else odd)
        if start >= 30:
            found.learn(range(start - 20, start - 11))
    return found


SERVICES: dict[str, Callable[[], Service]] = {
    "fresh": fresh,
    "waiting": waiting,
    "few": few,
    "plain": plain,
    "shares": shares,
    "broken": broken,
    "costs": costs,
    "paths": paths,
    "failing": failing,
    "asked": asked,
    "unwatched": unwatched,
    "wide": wide,
    "single": single,
    "weighted": weighted,
}
