"""Members are asked once, their policies solved once, and what they say is in one sense: greater is better."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.blocks import ArrayBlocks
from optensemble.members.context import Context
from optensemble.members.fit_inputs import LabelledBatch
from optensemble.members.outputs import MemberOutputs
from optensemble.members.query import MemberQuery
from optensemble.members.subgroups import Subgroups
from tests.counting import CountingMember, CountingSet
from tests.problems import Floats

D, N = 3, 30
OMEGA = feasible.Polytope(A_ub=[[1.0] * D], b_ub=[1.3])
SENSES = pytest.mark.parametrize("sign", [1.0, -1.0])


def rows(n: int = N) -> Floats:
    """Three columns that members speak of, and one of two regions."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=(n, D)), rng.integers(2, size=n)])


def model(scale: float) -> CountingMember:
    return CountingMember(lambda X: scale * X[:, :D] + 0.1)


def policy(scale: float) -> CountingMember:
    return CountingMember(lambda X: OMEGA.argmax(scale * X[:, :D]))


def make_query(sign: float = 1.0, models: int = 2, policies: int = 2, grouped: bool = True) -> MemberQuery:
    omega = CountingSet(OMEGA)
    return MemberQuery(
        models=[(f"m{number}", model(number + 1.0)) for number in range(models)],
        policies=[(f"p{number}", policy(-1.0 - number)) for number in range(policies)],
        omega=omega,
        buckets=Buckets(omega.lower, omega.upper, 10),
        sign=sign,
        subgroups=Subgroups.learn(D, [rows()]) if grouped else None,
    )


def counting(query: MemberQuery) -> CountingSet:
    assert isinstance(query.omega, CountingSet)
    return query.omega


def assert_same(ours: MemberOutputs, theirs: MemberOutputs) -> None:
    np.testing.assert_array_equal(ours.predictions, theirs.predictions)
    np.testing.assert_array_equal(ours.actions, theirs.actions)
    np.testing.assert_array_equal(ours.leaders, theirs.leaders)
    assert (ours.subgroups is None) == (theirs.subgroups is None)
    if ours.subgroups is not None:
        np.testing.assert_array_equal(ours.subgroups, theirs.subgroups)
    assert (ours.titles, ours.sign, ours.count, ours.models) == (
        theirs.titles,
        theirs.sign,
        theirs.count,
        theirs.models,
    )


@SENSES
@pytest.mark.parametrize(("models", "policies"), [(2, 2), (3, 0), (0, 2)])
def test_every_member_is_asked_once_and_every_models_policy_solved_once(
    sign: float, models: int, policies: int
) -> None:
    query, X, steps = make_query(sign, models, policies), rows(), list[int]()
    query(X, lambda: steps.append(1))
    assert [member.asked for _, member in query.models] == [{"predict": 1}] * models
    assert [member.asked for _, member in query.policies] == [{"decide": 1}] * policies
    assert counting(query).solved == [N] * models
    assert len(steps) == models + policies
    (bound,) = counting(query).bound
    assert bound is X


@SENSES
def test_outputs_are_in_the_sense_of_maximising(sign: float) -> None:
    query, X = make_query(sign), rows()
    outputs = query(X)
    for number, scale in enumerate((1.0, 2.0)):
        said = scale * X[:, :D] + 0.1
        np.testing.assert_array_equal(sign * outputs.predictions[number], said)
        np.testing.assert_array_equal(outputs.actions[number], OMEGA.argmax(sign * said))  # of costs the least
        np.testing.assert_array_equal(outputs.said[number], outputs.predictions[number])
    for number, scale in enumerate((-1.0, -2.0)):
        np.testing.assert_array_equal(outputs.actions[2 + number], OMEGA.argmax(scale * X[:, :D]))
        np.testing.assert_array_equal(outputs.said[2 + number], outputs.actions[2 + number])
    assessed = np.stack([(outputs.actions[m] * outputs.predictions[m]).sum(axis=1) for m in range(2)])
    np.testing.assert_array_equal(outputs.leaders, assessed.argmax(axis=0))
    assert (outputs.sign, outputs.models, outputs.count) == (sign, 2, N)
    assert outputs.subgroups is not None
    np.testing.assert_array_equal(outputs.subgroups, [X[:, D]])
    assert outputs.titles == (("column 3=0.0", "column 3=1.0", "column 3 unseen"),)


class PerRow(CountingSet):
    """A set that is another one once it is bound to rows."""

    def for_rows(self, X: Any) -> CountingSet:
        self.bound.append(X)
        return CountingSet(feasible.Simplex(D))


def test_the_set_bound_to_the_rows_is_the_one_that_solves_and_is_handed_on() -> None:
    unbound = PerRow(OMEGA)
    buckets = Buckets(unbound.lower, unbound.upper, 10)
    outputs = MemberQuery([("m", model(1.0))], [], unbound, buckets, 1.0)(rows())
    assert unbound.solved == []
    assert isinstance(outputs.omega, CountingSet)
    assert outputs.omega is not unbound
    assert outputs.omega.solved == [N]
    np.testing.assert_array_equal(outputs.actions[0].sum(axis=1), 1.0)  # a simplex's


@given(
    chosen=st.lists(st.integers(0, N - 1), max_size=12) | st.slices(N),
    sign=st.sampled_from([1.0, -1.0]),
    grouped=st.booleans(),
)
def test_taking_rows_is_asking_for_them(chosen: Any, sign: float, grouped: bool) -> None:
    query, X = make_query(sign, grouped=grouped), rows()
    index = np.array(chosen, dtype=np.int64) if isinstance(chosen, list) else chosen
    assert_same(query(X).take(index), query(X[index]))


@given(
    ends=st.lists(st.integers(0, N), max_size=3).map(sorted), sign=st.sampled_from([1.0, -1.0]), grouped=st.booleans()
)
def test_batches_joined_are_all_their_rows(ends: list[int], sign: float, grouped: bool) -> None:
    query, X = make_query(sign, grouped=grouped), rows()
    batches, steps = np.split(X, ends), list[int]()
    joined = query.joined(batches, lambda: steps.append(1))
    for _, member in (*query.models, *query.policies):
        assert member.times == len(batches)
    assert len(steps) == 4 * len(batches)
    assert_same(joined, query(X))
    assert_same(MemberOutputs.joined([query(X)]), query(X))


def test_the_context_of_all_rows_is_in_memory_once() -> None:
    n, p = 40_000, 100
    X = np.random.default_rng(0).normal(size=(n, p))
    X[3, 8], X[5, 9] = np.nan, np.inf
    context = Context.learn(range(p), X[:100])
    query = replace(make_query(models=1, policies=0, grouped=False), context=context, omega=OMEGA)
    batches = [LabelledBatch(X[:30_000], X[:30_000, :D]), LabelledBatch(X[30_000:], X[30_000:, :D])]
    query(X[10:20])  # compiled before
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    blocks = ArrayBlocks.ask(query, batches, None)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    found = blocks.rows.outputs.context
    assert found is not None
    assert context is not None
    np.testing.assert_array_equal(found[100:], X[100:])
    assert (found[3, 8], found[5, 9]) == (context.fill[8], 1e30)
    assert peak < 1.7 * found.nbytes
