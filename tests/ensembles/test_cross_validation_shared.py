"""What cross-validation shares between candidates changes nothing: against one debiasing per fold and candidate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble._core.arrays import Indices
from optensemble._core.exact_sums import exact_mean
from optensemble.ensembles.cross_validation import SHRINKAGES
from optensemble.multicalibration import cell_tables, events
from optensemble.multicalibration.corrections import replay
from optensemble.multicalibration.loop import debias, learn_logs
from optensemble.multicalibration.schedules import Debiasing
from optensemble.multicalibration.state import Situation
from optensemble.stats.folds import folds
from tests.ensembles.cross_validated import BOTH, NOT_CONVERGED, PAPER, PROBLEM, QUICK, N, make, payoff
from tests.problems import Floats, random_problem

pytestmark = NOT_CONVERGED


def begin(kind: type, ensemble: Any, rows: Indices, mean: Floats) -> Situation:
    """The state before any correction, of some rows only."""
    buckets = ensemble.terms_.buckets
    if kind is oe.WhiteBoxEnsemble:
        return Situation(PROBLEM.P[:, rows].copy(), PROBLEM.omega, buckets)
    given = np.stack([policy(PROBLEM.X[rows]) for _, policy in PROBLEM.policies])
    return Situation(np.tile(mean, (1, len(rows), 1)), PROBLEM.omega, buckets, given=given)


def candidates_by_hand(kind: type, ensemble: Any) -> dict[tuple[float, int], tuple[Floats, Floats]]:
    """Debias anew for every shrinkage, number of rounds and fold; return promised and realised of each row."""
    found = {}
    for shrinkage in SHRINKAGES:
        for rounds in range(4):
            promised, realised = np.empty((2, N))
            how = Debiasing(ensemble._algorithm().layout, "joint", 0.01, rounds, shrinkage, QUICK["min_cell"])
            for train, test in folds(N):
                mean = exact_mean(PROBLEM.Y[train])
                run = debias(begin(kind, ensemble, train, mean), PROBLEM.Y[train], how)
                replay(judged := begin(kind, ensemble, test, mean), run.log)
                promised[test] = judged.taken(judged.assessed)
                realised[test] = payoff(judged.taken(judged.actions), PROBLEM.Y[test])
            found[shrinkage, rounds] = promised, realised
    return found


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize("limit", [2048, 3])
def test_every_candidate_is_as_if_it_had_been_debiased_alone(
    kind: Any, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_tables, "TABLE_LIMIT", limit)
    ensemble = make(kind).fit(PROBLEM.X, PROBLEM.Y)
    alone = candidates_by_hand(kind, ensemble)
    for row in ensemble.validation_.itertuples():
        promised, realised = alone[SHRINKAGES[0] if row.rounds == 0 else row.shrinkage, row.rounds]
        assert row.promised == pytest.approx(promised.mean(), rel=1e-12)
        assert row.realised == pytest.approx(realised.mean(), rel=1e-12)
    chosen = ensemble.validation_[ensemble.validation_["chosen"]].squeeze()
    promised, realised = alone[chosen["shrinkage"], chosen["rounds"]]
    np.testing.assert_array_equal(ensemble.record_.assessed, promised)
    np.testing.assert_allclose(ensemble.record_.realised, realised, rtol=1e-12)


@pytest.mark.no_cover
@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
@pytest.mark.parametrize("rounds", [0, 1, 4, None])
def test_logs_learned_together_are_those_of_debiasings_one_by_one(schedule: str, rounds: int | None) -> None:
    problem = random_problem(6, n=150)
    buckets = make(oe.WhiteBoxEnsemble, problem).fit(problem.X, problem.Y).terms_.buckets
    layout = events.white_box(buckets, 3)
    hows = [
        Debiasing(layout, schedule, 0.05, rounds, shrinkage)
        for shrinkage in ((0.0, 3.0, 50.0) if schedule == "joint" else (0.0, 0.0))
    ]
    steps: list[None] = []
    start = Situation(problem.P.copy(), problem.omega, buckets)
    logs = learn_logs(start, problem.Y, hows, lambda: steps.append(None))
    for how, log in zip(hows, logs, strict=True):
        alone = debias(Situation(problem.P.copy(), problem.omega, buckets), problem.Y, how).log
        assert len(log.rounds) == len(alone.rounds)
        for ours, theirs in zip(log.rounds, alone.rounds, strict=True):
            for mine, other in zip(ours, theirs, strict=True):
                assert mine.member == other.member
                for name in ("cells", "delta", "rows"):
                    np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))
    assert len(steps) == (0 if schedule == "round-robin" else sum(len(log.rounds) for log in logs))


def test_a_copy_of_a_situation_changes_by_itself() -> None:
    for kind in (oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble):
        ensemble = make(kind, **PAPER).fit(PROBLEM.X, PROBLEM.Y)
        rows = np.arange(N)
        ours, alone = (begin(kind, ensemble, rows, exact_mean(PROBLEM.Y)) for _ in range(2))
        copied = ours.copy()
        replay(copied, ensemble.log_[0])
        for name in ("predictions", "actions", "level", "assessed", "winner", "choice"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(alone, name))
        replay(ours, ensemble.log_[0])
        for name in ("predictions", "actions", "level", "assessed", "winner", "choice"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(copied, name))
            assert getattr(copied.state, name) is getattr(copied, name)


class Told:
    """Keeps what it is told, and may raise."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.heard: list[tuple[str, float]] = []
        self._fail_at = fail_at

    def __call__(self, stage: str, share: float) -> None:
        self.heard.append((stage, share))
        if len(self.heard) == self._fail_at:
            raise RuntimeError("the progress bar broke")


def assert_goes_from_near_0_to_1(told: Told, stage: str, *, least: int) -> None:
    shares = [share for _, share in told.heard]
    assert {name for name, _ in told.heard} == {stage}
    assert shares == sorted(set(shares))
    assert 0 < shares[0] < 0.5
    assert shares[-1] == 1
    assert len(shares) >= least


@BOTH
@pytest.mark.parametrize("parameters", [{}, {"schedule": "frozen", "max_rounds": None}, {"schedule": "round-robin"}])
def test_a_validated_fit_reports_how_far_it_is(kind: Any, parameters: dict[str, Any]) -> None:
    told = Told()
    ensemble = make(kind, **parameters).fit(PROBLEM.X, PROBLEM.Y, progress=told)
    assert_goes_from_near_0_to_1(told, "cross-validating", least=20)
    again = make(kind, **parameters).fit(PROBLEM.X, PROBLEM.Y)
    np.testing.assert_array_equal(ensemble.record_.realised, again.record_.realised)
    make(kind, **{**PAPER, "max_rounds": 1}).fit(PROBLEM.X, PROBLEM.Y, progress=(silence := Told()))
    assert silence.heard == []


@BOTH
@pytest.mark.parametrize("schedule", ["joint", "frozen", "round-robin"])
def test_cross_fit_reports_how_far_it_is(kind: Any, schedule: str) -> None:
    ensemble, told = make(kind, **PAPER, schedule=schedule).fit(PROBLEM.X, PROBLEM.Y), Told()
    ensemble.cross_fit(progress=told)
    assert_goes_from_near_0_to_1(told, "cross-fitting", least=20)
    told.heard.clear()
    ensemble.cross_fit(progress=told)  # there is a record: nothing is done
    assert told.heard == []


@BOTH
@pytest.mark.parametrize("fail_at", [1, 15, -1])
def test_an_error_in_progress_leaves_the_ensemble_as_it_was(kind: Any, fail_at: int) -> None:
    ensemble, whole = make(kind).fit(PROBLEM.X, PROBLEM.Y), Told()
    make(kind).fit(PROBLEM.X, PROBLEM.Y, progress=whole)
    before, learned = ensemble.answer(PROBLEM.X), dict(ensemble.__dict__)
    told = Told(fail_at if fail_at > 0 else len(whole.heard))
    with pytest.raises(RuntimeError, match="progress bar broke"):
        ensemble.fit(PROBLEM.X, 2 * PROBLEM.Y, progress=told)
    assert ensemble.__dict__ == learned
    np.testing.assert_array_equal(ensemble.answer(PROBLEM.X).actions, before.actions)

    paper, whole = make(kind, **PAPER).fit(PROBLEM.X, PROBLEM.Y), Told()
    make(kind, **PAPER).fit(PROBLEM.X, PROBLEM.Y).cross_fit(progress=whole)
    learned = dict(paper.__dict__)
    with pytest.raises(RuntimeError, match="progress bar broke"):
        paper.cross_fit(progress=Told(fail_at if fail_at > 0 else len(whole.heard)))
    assert paper.__dict__.keys() == learned.keys()
    assert not paper.has_record
    assert np.isfinite(paper.cross_fit().promise(PROBLEM.X).high)


@BOTH
def test_progress_must_be_callable(kind: Any) -> None:
    with pytest.raises(oe.exceptions.InputError, match="progress must be a callable"):
        make(kind).fit(PROBLEM.X, PROBLEM.Y, progress=3)
    ensemble = make(kind, **PAPER).fit(PROBLEM.X, PROBLEM.Y)
    with pytest.raises(oe.exceptions.InputError, match="progress must be a callable"):
        ensemble.cross_fit(progress=3)
