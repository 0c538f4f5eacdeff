"""Weights while deciding: their unit does not matter, rows of weight 0 are passed over, errors count by weights."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.ensembles._live_terms import unit_of
from optensemble.exceptions import InputError
from tests.ensembles import test_weights as weighted
from tests.ensembles.decision import ACCESS, SENSES, N, fitted, problem
from tests.ensembles.live import Diary, bits, live, told
from tests.problems import Floats

FIRST, SIZE = 300, 25
ROWS = range(FIRST, 550)


def weights() -> Floats:
    """From a row that counts for nothing to one that counts for many."""
    return np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.0, 6.0], size=600)


def followed(factor: float | None = 1.0, access: str = "models", sense: str = "max", **terms: Any) -> oe.LiveEnsemble:
    """A live ensemble whose fit has weights, each so many times as large; None if all count once."""
    frame, Y = weighted.world()
    counts = None if factor is None else factor * weights()[:FIRST]
    return oe.LiveEnsemble(
        weighted.make(access, sense=sense).fit(frame[:FIRST], Y[:FIRST], sample_weight=counts), **terms
    )


def learn(ensemble: oe.LiveEnsemble, counts: Floats | None, Y: Floats | None = None) -> list[Any]:
    """Decide batches, and observe their labels; return all that was told."""
    frame, labels = weighted.world()
    labels, heard = labels if Y is None else Y, list[Any]()
    for start in range(ROWS.start, ROWS.stop, SIZE):
        now = np.arange(start, start + SIZE)
        heard += told(ensemble.answer(frame.iloc[now], ids=now))
        ensemble.observe(now, labels[now], sample_weight=None if counts is None else counts[now])
        heard.append(ensemble.weights_.tolist())
    return heard


# Their unit


def in_units(factor: float, access: str, sense: str, **terms: Any) -> oe.LiveEnsemble:
    """One on the same fit, as if the weights of its rows had been so many times as large."""
    fit = copy.copy(followed(1.0, access, sense).ensemble_)
    fit.record_ = replace(fit.record_, unit=fit.record_.unit / factor)
    return oe.LiveEnsemble(fit, **{"refit": "never", **terms})


@ACCESS
@SENSES
@pytest.mark.parametrize("play", ["mixture", "heaviest"])
def test_a_unit_of_weights_changes_what_was_lost_and_nothing_else(access: str, sense: str, play: str) -> None:
    """To the bit, for the factor is a power of two: actions, promises, intervals, weights of policies and alarms."""
    one, eight = (in_units(factor, access, sense, play=play) for factor in (1.0, 8.0))
    assert unit_of(one.ensemble_) == 8 * unit_of(eight.ensemble_) != 1.0
    assert learn(one, weights()) == learn(eight, 8 * weights())
    ours, theirs = one.certificate(), eight.certificate()
    for name in ("lost", "bound", "counted"):
        np.testing.assert_array_equal(8 * ours[name], theirs[name])
    for name in ("weight", "lost_per_row", "bound_per_row", "rows", "open", "promise_error"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert {name: 8 * each for name, each in ours.attrs.items()} == theirs.attrs
    assert one.finding_ == eight.finding_
    assert one.correction_ == eight.correction_ != 0
    assert one.monitor is not None
    assert eight.monitor is not None
    assert one.monitor.evidence.equals(eight.monitor.evidence)
    assert one.monitor.sigma == eight.monitor.sigma
    for name in ("counted", "earned", "promised", "foresight", *one.policies_):
        np.testing.assert_array_equal(8 * one.history_[name], eight.history_[name])


def of_one_policy(counts: Floats | None) -> oe.LiveEnsemble:
    """Nothing is shrunk in its fit by how many rows there are: only the unit of weights differs."""
    frame, Y = weighted.world()
    policies = [("b", lambda X: weighted.OMEGA.argmax(weighted.columns("b").predict(X)))]
    ensemble = oe.DecisionEnsemble(policies=policies, feasible=weighted.OMEGA, context=None)
    fit = ensemble.fit(frame[:FIRST], Y[:FIRST], sample_weight=None if counts is None else counts[:FIRST])
    return oe.LiveEnsemble(fit, refit=100)


@pytest.mark.parametrize("alike", [False, True])
def test_however_large_weights_are_memories_are_as_long(alike: bool) -> None:
    """They are in rows that weigh as much as those of the fit; weights that are all alike are no weights."""
    counts = np.ones(600) if alike else weights()
    one, many = of_one_policy(None if alike else counts), of_one_policy(1024 * counts)
    heard, again = learn(one, None if alike else counts), learn(many, 1024 * counts)
    for ours, theirs in zip(heard, again, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert len(one.refits_) == len(many.refits_) == 2
    assert abs(one.correction_) < 0.5
    np.testing.assert_allclose(many.certificate()["counted"], 1024 * counts[ROWS].sum())


# What counts for nothing


def test_rows_that_count_for_nothing_are_not_seen_by_the_monitor() -> None:
    labels, counts = weighted.world()[1].copy(), np.ones(600)
    counts[FIRST : FIRST + 125] = 0.0
    labels[FIRST : FIRST + 125] -= 50.0
    given = followed(refit="never")
    with_them = learn(given, counts, labels)
    assert given.monitor is not None
    assert given.monitor.rows == 125
    assert not given.monitor.standing
    np.testing.assert_array_equal(with_them[-1], learn(followed(refit="never"), counts)[-1])
    np.testing.assert_allclose(given.certificate()["counted"], 125.0)
    assert given.certificate()["rows"].tolist() == [250] * 2


@pytest.mark.parametrize("with_weights", [False, True])
def test_updates_pass_over_rows_that_count_for_nothing(with_weights: bool) -> None:
    """As live ensembles do, whether or not the rows of the fit have weights."""
    frame, Y = weighted.world()
    labels, counts = Y[FIRST:500].copy(), np.ones(200)
    counts[:100] = 0.0
    labels[:100] -= 50.0
    ensemble = weighted.make().fit(frame[:FIRST], Y[:FIRST], sample_weight=weights()[:FIRST] if with_weights else None)
    ensemble.update(frame[FIRST:500], labels, sample_weight=counts)
    assert ensemble.monitor_.rows == 100
    assert not ensemble.monitor_.standing
    assert ensemble.refit_due_ == ""


@pytest.mark.parametrize("with_weights", [False, True])
def test_an_update_and_a_live_ensemble_see_the_same_evidence(with_weights: bool) -> None:
    frame, Y = weighted.world()
    counts = weights()[FIRST:500]
    ensemble = weighted.make().fit(frame[:FIRST], Y[:FIRST], sample_weight=weights()[:FIRST] if with_weights else None)
    given = oe.LiveEnsemble(ensemble, refit="never")
    given.answer(frame[FIRST:500], ids=range(200))
    given.observe(range(200), Y[FIRST:500], sample_weight=counts)
    ensemble.update(frame[FIRST:500], Y[FIRST:500], sample_weight=counts)
    assert given.monitor is not None
    assert given.monitor.rows == ensemble.monitor_.rows == np.count_nonzero(counts)
    for name in ("promised", "realised"):
        np.testing.assert_allclose(given.monitor.evidence[name], ensemble.monitor_.evidence[name])


# Errors by weights


def test_errors_count_by_weights_where_the_fit_had_some() -> None:
    """Beside the mean weight of the rows fitted on, and measured by the deviation of weighted residuals."""
    given = followed(refit="never")
    record = given.ensemble_.record_
    assert record.weighing == pytest.approx(1 / weights()[:FIRST].mean())
    assert record.weights is not None
    assert record.deviation == pytest.approx((record.weights * record.residual).std())
    assert given.monitor is not None
    assert given.monitor.sigma == record.deviation
    frame, Y = weighted.world()
    counts = weights()
    diary = Diary(given, frame, Y)
    for start in range(ROWS.start, ROWS.stop, SIZE):
        now = list(range(start, start + SIZE))
        diary.decide(now)
        diary.observe(now, counts[now])
    diary.check()
    rows = np.array(ROWS)[counts[ROWS] > 0]
    factors = counts[rows] / weights()[:FIRST].mean()
    promised = np.array([diary.decided[row].watched for row in rows])
    np.testing.assert_allclose(given.monitor.evidence["promised"], factors * promised)


def test_rows_without_weights_count_once_for_the_monitor_of_a_fit_with_some() -> None:
    """Beside the mean weight of the rows fitted on, as in the record."""
    one, other = followed(refit="never"), followed(refit="never")
    assert learn(one, None) == learn(other, np.ones(600))
    assert one.monitor is not None
    assert other.monitor is not None
    assert one.monitor.evidence.equals(other.monitor.evidence)
    assert one.monitor.rows == len(ROWS)


def test_weights_of_rows_are_nothing_to_the_monitor_of_a_fit_without_any() -> None:
    one, other = followed(None, refit="never"), followed(None, refit="never")
    learn(one, None)
    learn(other, np.random.default_rng(0).choice([0.5, 1.0, 4.0], size=600))
    assert one.monitor is not None
    assert other.monitor is not None
    assert one.monitor.evidence.equals(other.monitor.evidence)


# The certificate


def test_the_certificate_counts_rows_by_their_weights() -> None:
    given, counts = followed(refit="never"), weights()
    learn(given, counts)
    certificate, total = given.certificate(), counts[ROWS].sum()
    np.testing.assert_allclose(certificate["counted"], total)
    assert certificate["rows"].tolist() == [len(ROWS)] * 2
    np.testing.assert_allclose(certificate["lost_per_row"], certificate["lost"] / total)
    np.testing.assert_allclose(certificate["bound_per_row"], certificate["bound"] / total)
    np.testing.assert_allclose(given.history_["counted"].sum(), total)


def test_without_weights_rows_count_once_each() -> None:
    diary = Diary(live(refit="never")).play(range(N, N + 60))
    certificate = diary.live.certificate()
    assert certificate["counted"].tolist() == certificate["rows"].tolist() == [60, 60]


@pytest.mark.parametrize("nothing", [False, True])
def test_before_any_row_counts_there_is_no_loss_per_row(nothing: bool) -> None:
    given = live(refit="never")
    given.answer(problem().X[N : N + 5])
    if nothing:
        given.observe(range(5), problem().Y[N : N + 5], sample_weight=np.zeros(5))
    certificate = given.certificate()
    assert certificate["counted"].tolist() == [0.0, 0.0]
    assert certificate[["lost_per_row", "bound_per_row"]].isna().all(axis=None)
    assert (certificate["lost"] == 0).all()
    assert repr(given)


# What cannot have weights or groups


def paper(kind: str, **terms: Any) -> oe.LiveEnsemble:
    given = problem()
    if kind == "white":
        white = oe.WhiteBoxEnsemble(given.models, given.omega, validation=None, alpha=0.1)
        return oe.LiveEnsemble(white.fit(given.X[:N], given.Y[:N]), **terms)
    black = oe.BlackBoxEnsemble(given.policies, given.omega, validation=None, alpha=0.1)
    return oe.LiveEnsemble(black.fit(given.X[:N], given.Y[:N]), **terms)


@pytest.mark.parametrize("kind", ["white", "black"])
def test_white_and_black_boxes_that_are_fitted_again_take_neither_weights_nor_groups(kind: str) -> None:
    given, labels = paper(kind, refit=60), problem().Y[N : N + 10]
    given.answer(problem().X[N : N + 10])
    before = bits(given)
    with pytest.raises(
        InputError, match=r"white and black boxes cannot be refitted with weights\. Leave sample_weight out, or give"
    ):
        given.observe(range(10), labels, sample_weight=np.ones(10))
    with pytest.raises(InputError, match=r"white and black boxes cannot be refitted with groups\. Leave groups out"):
        given.observe(range(10), labels, groups=np.arange(10))
    assert bits(given) == before
    assert given.observe(range(10), labels).rows_ == 10


@pytest.mark.parametrize("kind", ["white", "black"])
def test_white_and_black_boxes_that_are_not_fitted_again_take_weights(kind: str) -> None:
    given, counts = paper(kind, refit="never"), np.array([0.0, 1.0, 3.0, 0.5])
    given.answer(problem().X[N : N + 4])
    given.observe(range(4), problem().Y[N : N + 4], sample_weight=counts)
    certificate = given.certificate()
    assert certificate["counted"].tolist() == [4.5, 4.5]
    assert certificate["rows"].tolist() == [4, 4]
    np.testing.assert_allclose(given.history_["counted"].sum(), 4.5)


@pytest.mark.parametrize("groups", [np.arange(9), np.arange(11), [1], "a", 3, np.array(5)], ids=str)
def test_groups_of_the_wrong_length_are_refused(groups: Any) -> None:
    given, frame, Y = fitted(), *weighted.world()
    ensembles = [oe.LiveEnsemble(given), oe.LiveEnsemble(given, refit="never"), paper("white", refit="never")]
    for each in ensembles:
        each.answer(problem().X[N : N + 10])
    ids = frame["id"].to_numpy()[:FIRST]
    grouped = oe.LiveEnsemble(weighted.make().fit(frame[:FIRST], Y[:FIRST], groups=ids))
    grouped.answer(frame[FIRST : FIRST + 10])
    for each, labels in (*((each, problem().Y[N : N + 10]) for each in ensembles), (grouped, Y[FIRST : FIRST + 10])):
        before = bits(each)
        with pytest.raises(InputError, match=r"groups must hold the group of each of the 10 rows of Y; got"):
            each.observe(range(10), labels, groups=groups)
        assert bits(each) == before


def test_groups_are_nothing_to_a_live_ensemble_that_does_not_refit() -> None:
    one, other = live(refit="never"), live(refit="never")
    for each, groups in ((one, None), (other, np.arange(10))):
        each.answer(problem().X[N : N + 10])
        each.observe(range(10), problem().Y[N : N + 10], groups=groups)
    assert bits(one) == bits(other)
