"""validation="cv": how far to correct is chosen by payoff on rows held out."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble.stats.paired_tests import best_of
from optensemble.stats.sampling import Sampling, selection_bias
from tests.ensembles.cross_validated import (
    BOTH,
    KINDS,
    NOT_CONVERGED,
    PAPER,
    PROBLEM,
    QUICK,
    N,
    make,
    members,
    out_of_fold,
    payoff,
)
from tests.problems import Floats, Problem, random_problem

pytestmark = pytest.mark.slow

GRID = (10.0, 100.0, 1000.0)


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@pytest.mark.parametrize(
    ("parameters", "fit"),
    [({}, {"random_state": 5}), ({"sense": "min"}, {}), ({"shrinkage": 3.0}, {"time_ordered": True})],
)
def test_every_candidate_is_judged_as_a_textbook_would(kind: Any, parameters: dict[str, Any], fit: Any) -> None:
    ensemble = make(kind, **parameters).fit(PROBLEM.X, PROBLEM.Y, **fit)
    table, sign = ensemble.validation_, 1 if ensemble.sense == "max" else -1
    textbook = {"schedule": "joint", **parameters, "time_ordered": fit.get("time_ordered", False)}
    textbook["seed"] = fit.get("random_state")
    grid = (parameters["shrinkage"],) if "shrinkage" in parameters else GRID
    _, base = out_of_fold(kind, PROBLEM, **{**textbook, "max_rounds": 0, "shrinkage": 1.0})
    candidates = [(int(rounds), shrinkage) for rounds, shrinkage in table[["rounds", "shrinkage"]].to_numpy()]
    assert candidates[0][0] == 0
    assert candidates[1:] == sorted(candidates[1:], key=lambda candidate: (candidate[0], -candidate[1]))
    for shrinkage in grid:
        tried = [rounds for rounds, other in candidates if other == shrinkage]
        assert tried == list(range(1, len(tried) + 1))
        _, last = out_of_fold(kind, PROBLEM, **{**textbook, "max_rounds": 3, "shrinkage": shrinkage})
        assert last.mean() == pytest.approx(table["realised"][candidates.index((len(tried), shrinkage))], rel=1e-12)
    judged = []
    for (rounds, shrinkage), (_, row) in zip(candidates, table.iterrows(), strict=True):
        how = {"max_rounds": rounds, "shrinkage": shrinkage if rounds else 1.0}
        promised, realised = out_of_fold(kind, PROBLEM, **{**textbook, **how})
        gain = sign * (realised - base)
        blocks = np.array([block.mean() for block in np.split(gain, 10)])
        error = max(gain.std(ddof=1) / np.sqrt(N), blocks.std(ddof=1) / np.sqrt(10) if "time_ordered" in fit else 0)
        expected = [realised.mean(), promised.mean(), gain.mean(), error]
        found = row[["realised", "promised", "gain", "standard_error"]].to_numpy(dtype=float)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        judged.append((gain.mean(), error, promised, realised))
    best = int(np.argmax([gain for gain, *_ in judged]))
    best = best if judged[best][0] > judged[best][1] else 0
    assert table["chosen"].tolist() == [number == best for number in range(len(table))]
    np.testing.assert_array_equal(ensemble.record_.assessed, judged[best][2])
    np.testing.assert_array_equal(ensemble.record_.realised, judged[best][3])


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@pytest.mark.parametrize("sense", ["max", "min"])
def test_the_outcome_is_the_papers_algorithm_stopped_where_it_was_chosen(kind: Any, sense: str) -> None:
    ensemble = make(kind, sense=sense, max_rounds=None).fit(PROBLEM.X, PROBLEM.Y)
    chosen = ensemble.validation_[ensemble.validation_["chosen"]].squeeze()
    assert 1 <= chosen["rounds"] <= 10
    assert (ensemble.schedule_, ensemble.shrinkage_, ensemble.n_rounds_) == (
        *("joint", chosen["shrinkage"]),
        chosen["rounds"],
    )
    parameters = {"schedule": "joint", "shrinkage": chosen["shrinkage"], "max_rounds": int(chosen["rounds"])}
    paper = make(kind, **{**PAPER, **parameters}, sense=sense).fit(PROBLEM.X, PROBLEM.Y)
    ours, theirs = ensemble.answer(PROBLEM.X), paper.answer(PROBLEM.X)
    np.testing.assert_array_equal(ours.actions, theirs.actions)
    np.testing.assert_array_equal(ours.predictions, theirs.predictions)
    np.testing.assert_array_equal(ours.chosen, theirs.chosen)
    last = list(ensemble.retrace(PROBLEM.X, [ensemble.n_rounds_]))[-1]
    np.testing.assert_array_equal(last.taken(last.assessed), theirs.promised)


@BOTH
@pytest.mark.parametrize("sense", ["max", "min"])
def test_self_assessment_is_corrected_by_regressing_the_record(kind: Any, sense: str) -> None:
    ensemble, sign = make(kind, sense=sense).fit(PROBLEM.X, PROBLEM.Y), 1 if sense == "max" else -1
    raw = list(ensemble.retrace(PROBLEM.X, [ensemble.n_rounds_]))[-1]
    assessed = raw.taken(raw.assessed)
    slope, intercept = np.polyfit(ensemble.record_.assessed, ensemble.record_.realised, 1)
    believed = intercept + slope * assessed - sign * ensemble.record_.curse
    np.testing.assert_allclose(ensemble.self_assess(PROBLEM.X), believed, rtol=1e-9, atol=1e-12)
    promise = ensemble.promise(PROBLEM.X)
    assert promise.mean == pytest.approx(believed.mean())
    assert promise.low < promise.mean < promise.high
    assert promise.rely_on == (promise.low if sense == "max" else promise.high)
    assert ensemble.record_.curse >= 0


def test_the_selection_bias_is_that_of_the_candidate_picked() -> None:
    def best(payoffs: Floats) -> int:
        return best_of(payoffs - payoffs[0], Sampling())

    flattered, curses = [], []
    for seed in range(150):
        noise = np.random.default_rng(seed).normal(size=(12, 150))  # all candidates are equally good
        flattered.append(noise[best(noise)].mean())
        curses.append(selection_bias(noise, best, Sampling(), seed))
    assert 0.05 < 0.6 * np.mean(flattered) < np.mean(curses) < 1.1 * np.mean(flattered)
    assert selection_bias(noise[:1], best, Sampling(), 0) == 0


@pytest.mark.no_cover
@pytest.mark.parametrize("n", [800, 2000])
def test_the_selection_bias_falls_with_the_number_of_rows(n: int) -> None:
    def best(payoffs: Floats) -> int:
        return best_of(payoffs - payoffs[0], Sampling())

    flattered, curses = [], []
    for seed in range(80):
        noise = np.random.default_rng(seed).normal(size=(12, n))
        flattered.append(noise[best(noise)].mean())
        curses.append(selection_bias(noise, best, Sampling(), seed))
    assert 0.6 * np.mean(flattered) < np.mean(curses) < 1.15 * np.mean(flattered)
    assert np.mean(flattered) < 2.5 / np.sqrt(n)


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@pytest.mark.parametrize("schedule", ["frozen", "round-robin"])
def test_candidates_among_many_rounds_are_powers_of_two(kind: Any, schedule: str) -> None:
    ensemble = make(kind, schedule=schedule, max_rounds=37, alpha=0.001).fit(PROBLEM.X, PROBLEM.Y)
    looks = ensemble.validation_["rounds"].tolist()
    doubling = [0, *(r for r in (1, 2, 4, 8, 16, 32) if r < looks[-1]), looks[-1]]
    assert looks == (doubling if looks[-1] > 10 else list(range(len(looks))))
    assert looks[-1] == 37 or schedule == "frozen"
    assert ensemble.validation_["shrinkage"][1:].eq(0).all()
    _, realised = out_of_fold(kind, PROBLEM, schedule=schedule, max_rounds=looks[-1], alpha=0.001)
    assert ensemble.validation_["realised"].iloc[-1] == pytest.approx(realised.mean(), rel=1e-12)


@pytest.mark.no_cover
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), sense=st.sampled_from(["max", "min"]))
def test_one_candidate_is_chosen_and_it_beats_none_by_more_than_its_error(seed: int, kind: Any, sense: str) -> None:
    problem = random_problem(seed, n=100, d=2, k=2)
    ensemble = make(kind, problem, sense=sense, max_rounds=2, shrinkage=5.0).fit(problem.X, problem.Y)
    table = ensemble.validation_
    assert table["chosen"].sum() == 1
    assert table["rounds"].is_monotonic_increasing
    chosen, best = table[table["chosen"]].squeeze(), table.loc[table["gain"].idxmax()]
    if chosen["rounds"] == 0:
        assert best["gain"] <= best["standard_error"]
        assert len(ensemble.log_[0].rounds) == 0
    else:
        assert chosen["gain"] == table["gain"].max() > chosen["standard_error"]
    assert len(ensemble.log_[0].rounds) == ensemble.n_rounds_ == chosen["rounds"]


@pytest.mark.no_cover
@BOTH
def test_where_labels_are_mere_noise_nothing_is_corrected_and_little_is_promised(kind: Any) -> None:
    rng = np.random.default_rng(1)
    found = []
    for seed in range(8):
        learned = random_problem(seed, n=300, d=2, k=2)
        shuffled = Problem(learned.X, learned.Y[rng.permutation(300)], learned.P, learned.omega)
        ensemble = make(kind, shuffled, min_cell=None).fit(shuffled.X, shuffled.Y)
        if ensemble.n_rounds_ == 0:
            assert ensemble.stopped_.startswith("no correction earned more out of fold than none")
            assert ensemble.validation_["chosen"][0]
            raw = next(ensemble.retrace(shuffled.X, [0]))
            np.testing.assert_array_equal(ensemble.decide(shuffled.X), raw.taken(raw.actions))
        promise, earned = ensemble.promise(shuffled.X), rng.permutation(learned.Y)
        found.append((ensemble.n_rounds_, promise.low <= payoff(ensemble.decide(shuffled.X), earned).mean()))
    rounds, kept = np.array(found).T
    assert (rounds == 0).sum() >= 3
    assert kept.sum() >= 7


@pytest.mark.no_cover
@BOTH
def test_the_same_bits_every_time_on_one_thread_or_two(kind: Any) -> None:
    problem = random_problem(8, n=200, d=3, k=3)

    def found(threads: int, seed: int | None) -> list[Any]:
        before = numba.get_num_threads()
        numba.set_num_threads(min(threads, before))
        try:
            ensemble = make(kind, problem).fit(problem.X, problem.Y, random_state=seed)
        finally:
            numba.set_num_threads(before)
        table = ensemble.validation_.drop(columns="shrinkage").to_numpy(dtype=float)
        return [table, ensemble.record_.assessed, ensemble.record_.realised, ensemble.predict(problem.X)]

    first = found(1, None)
    for ours, theirs in zip(first, found(2, 0), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(first[0], found(1, 7)[0])


@BOTH
def test_members_are_asked_once(kind: Any) -> None:
    asked = []

    def heard(member: Any) -> Any:
        def answer(X: Any) -> Any:
            asked.append(len(X))
            return member(X)

        return answer

    ensemble = kind([(name, heard(member)) for name, member in members(kind, PROBLEM)], PROBLEM.omega, **QUICK)
    ensemble.fit(PROBLEM.X, PROBLEM.Y)
    assert asked == [N, N]


@BOTH
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_a_fit_stopped_by_cross_validation_does_not_warn(kind: Any) -> None:
    ensemble = make(kind, max_rounds=1, alpha=1e-4).fit(PROBLEM.X, PROBLEM.Y)  # a warning would be an error here
    assert not ensemble.converged_
    assert "out of fold" in ensemble.stopped_
    assert "max_rounds=0 reached" in make(kind, max_rounds=0).fit(PROBLEM.X, PROBLEM.Y).stopped_
    perfect = Problem(PROBLEM.X, PROBLEM.Y, np.stack([PROBLEM.Y] * 2), PROBLEM.omega)
    if kind is oe.WhiteBoxEnsemble:
        assert make(kind, perfect).fit(perfect.X, perfect.Y).stopped_.startswith("every cell ")
