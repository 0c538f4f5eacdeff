"""Forecasts where members are absent: conditional means, and regressions on those present."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.absence import join_absent, mean_present, stand_in, stand_in_numbers
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.arm_choice import Choice, ChoiceSums, beyond_mean
from optensemble.stacking.filling import Filling, PairMoments
from optensemble.stacking.patterns import PatternCounts, members_of, pattern_code, pattern_codes, with_at_least
from tests.problems import Floats

K, N, D = 3, 4000, 2


def members(seed: int = 0) -> tuple[Floats, Floats]:
    """Outputs of members that share a signal, and the covariance of each coordinate."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(D, K, K))
    said = np.einsum("jab,njb->anj", mixing, rng.normal(size=(N, D, K))) + rng.normal(size=(K, 1, D))
    return np.ascontiguousarray(said), np.einsum("jac,jbc->jab", mixing, mixing)


def test_an_absent_member_is_filled_in_by_its_conditional_mean() -> None:
    said, covariance = members()
    centre = said.mean(axis=1)
    absent = np.zeros((K, N), dtype=bool)
    absent[1, ::3] = True
    absent[0, ::5] = True
    filled = Filling(centre, covariance)(said, absent)
    np.testing.assert_array_equal(filled[:, ~absent.any(axis=0)], said[:, ~absent.any(axis=0)])
    for row in (3, 5, 15):  # one, the other, both
        away, there = np.flatnonzero(absent[:, row]), np.flatnonzero(~absent[:, row])
        for j in range(D):
            known = covariance[j][np.ix_(there, there)]
            ridge = 1e-3 * np.trace(known) / len(there) * np.eye(len(there))
            beyond = np.linalg.solve(known + ridge, said[there, row, j] - centre[there, j])
            expected = centre[away, j] + covariance[j][np.ix_(away, there)] @ beyond
            np.testing.assert_allclose(filled[away, row, j], expected, rtol=1e-10)


def test_rows_without_anyone_are_filled_in_by_means() -> None:
    said, covariance = members()
    absent = np.ones((K, N), dtype=bool)
    centre = said.mean(axis=1)
    np.testing.assert_allclose(Filling(centre, covariance)(said, absent), np.broadcast_to(centre[:, None], said.shape))


def test_moments_of_pairs_are_those_of_the_rows_in_which_both_are_present() -> None:
    said, _ = members()
    rng = np.random.default_rng(2)
    absent = rng.random((K, N)) < 0.3
    omega = feasible.Box(lower=-50, upper=50, dimension=D)
    outputs = MemberOutputs(said, said.copy(), omega, Buckets(omega.lower, omega.upper, 10), absent=absent)
    weights = rng.integers(1, 4, N).astype(float)
    centre = np.zeros((K, D))
    halves = [PairMoments.of(outputs.take(rows), centre, weights[rows]) for rows in (slice(0, 1000), slice(1000, N))]
    filling = (halves[0] + halves[1]).filling(centre)
    repeated = np.repeat(np.arange(N), weights.astype(int))
    for a in range(K):
        own = repeated[~absent[a, repeated]]
        np.testing.assert_allclose(filling.centre[a], said[a, own].mean(axis=0), rtol=1e-9)
        for b in range(a):
            both = repeated[~absent[a, repeated] & ~absent[b, repeated]]
            for j in range(D):
                expected = np.cov(said[a, both, j], said[b, both, j], ddof=0)[0, 1]
                assert filling.covariance[j, a, b] == pytest.approx(expected, rel=1e-6)


def test_covariances_from_different_rows_are_those_of_some_variables() -> None:
    said, _ = members()
    absent = np.zeros((K, N), dtype=bool)
    for member in range(K):  # each two are together in other rows
        absent[member, member::3] = True
    omega = feasible.Box(lower=-50, upper=50, dimension=D)
    outputs = MemberOutputs(said, said.copy(), omega, Buckets(omega.lower, omega.upper, 10), absent=absent)
    filling = PairMoments.of(outputs, np.zeros((K, D)), None).filling(np.zeros((K, D)))
    assert np.linalg.eigvalsh(filling.covariance).min() > -1e-9


@given(st.lists(st.integers(0, 7), min_size=1, max_size=40), st.integers(0, 39))
@settings(max_examples=50, deadline=None)
def test_patterns_are_counted_and_compared(codes: list[int], cut: int) -> None:
    absent = np.array([[bool(code >> m & 1) for code in codes] for m in range(3)])
    np.testing.assert_array_equal(pattern_codes(absent, len(codes)), codes)
    cut = min(cut, len(codes))
    counted = PatternCounts.of(absent[:, :cut], cut) + PatternCounts.of(absent[:, cut:], len(codes) - cut)
    assert dict(zip(counted.codes.tolist(), counted.rows.tolist(), strict=True)) == {
        code: codes.count(code) for code in set(codes)
    }
    for code in set(codes):
        away, there = members_of(code, 3)
        assert pattern_code(tuple(away.tolist())) == code
        found = [set(there) <= set(members_of(other, 3)[1]) for other in codes]
        assert with_at_least(code, np.array(codes)).tolist() == found


def test_who_stands_in_for_absent_members() -> None:
    omega = feasible.Simplex(D)
    predictions = np.array([[[1.0, 0.0]] * 4, [[0.0, 3.0]] * 4])
    actions = np.concatenate([np.stack([omega.argmax(each) for each in predictions]), [[[0.5, 0.5]] * 4]])
    absent = np.array([[False, True, True, True], [False, False, True, True], [False, False, False, True]])
    predictions[absent[:2]] = 0.0
    stand_in(predictions, actions, absent, omega)
    np.testing.assert_array_equal(actions[0], [[1, 0], [0, 1], [0.5, 0.5], omega.argmax(np.zeros((1, D)))[0]])
    np.testing.assert_array_equal(stand_in_numbers(absent, 2, average=10, mean=11), [10, 10, 2, 11])
    np.testing.assert_array_equal(mean_present(predictions, absent[:2]), [[0.5, 1.5], [0, 3], [0, 0], [0, 0]])
    joined = join_absent([None, absent], [2, 4])
    assert joined is not None
    assert joined.shape == (3, 6)
    assert join_absent([None, None], [2, 4]) is None


def test_the_choice_learns_from_the_rows_in_which_an_arm_is_present() -> None:
    rng = np.random.default_rng(0)
    n, arms = 3000, 3
    assessed = rng.normal(size=(arms, 1, n))
    absent = np.zeros((arms, n), dtype=bool)
    absent[1] = rng.random(n) < 0.4
    realised = assessed[:, 0] + np.array([0.0, 0.5, 0.0])[:, None] + 0.1 * rng.normal(size=(arms, n))
    assessed[1, 0, absent[1]] = realised[1, absent[1]] = 1e6  # what is there instead does not matter
    choice = ChoiceSums.of(assessed, realised, absent=absent).fit(np.ones(1), strength=0.0)
    assert choice.constants[1] - choice.constants[0] == pytest.approx(0.5, abs=0.05)
    assert choice.slopes[0] == pytest.approx(1.0, abs=0.02)
    picked = choice(assessed, absent)
    assert not (picked[absent[1]] == 1).any()
    assert (picked[~absent[1]] == 1).mean() > 0.3


def test_weights_of_a_choice_are_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    assessed, realised = rng.normal(size=(3, 2, 50)), rng.normal(size=(3, 50))
    absent, weights = rng.random((3, 50)) < 0.2, rng.integers(0, 4, 50)
    again = np.repeat(np.arange(50), weights)
    prior = np.array([0.5, 0.5])
    left = ChoiceSums.of(assessed, realised, absent=absent, weights=weights.astype(float)).fit(prior)
    right = ChoiceSums.of(assessed[:, :, again], realised[:, again], absent=absent[:, again]).fit(prior)
    np.testing.assert_allclose(left.constants, right.constants, rtol=1e-9)
    np.testing.assert_allclose(left.slopes, right.slopes, rtol=1e-9)


def test_means_beyond_are_of_those_present() -> None:
    values = np.array([[1.0, 4.0], [3.0, 6.0]])
    absent = np.array([[False, False], [False, True]])
    np.testing.assert_array_equal(beyond_mean(values, absent), [[-1.0, 0.0], [1.0, 0.0]])
    assert isinstance(Choice(np.zeros(2), np.ones(1))(values[:, None], absent), np.ndarray)
