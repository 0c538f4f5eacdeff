"""What a live ensemble decides and promises."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given as having
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble.ensembles._live_state import mix
from optensemble.exceptions import InputError
from tests.counting import CountingMember
from tests.ensembles.decision import ACCESS, SENSES, D, N, fitted, make, payoff, problem
from tests.ensembles.live import LABELS, LATE, NEWER, Diary, bits, cut, fitted_on_columns, live, named, table, told
from tests.problems import Floats, lookup, random_problem

X, Y = problem().X, problem().Y
LATER = slice(2 * N - 100, 2 * N)


def after(some: int = 200, **parameters: Any) -> Diary:
    """After some rows whose labels came at once, so that weights are uneven and promises are corrected."""
    return Diary(live(**parameters), X, Y).play(range(N, N + some))


def proposals(ensemble: oe.LiveEnsemble) -> Floats:
    return ensemble._ledger.batches[-1].rows.proposed


@ACCESS
@SENSES
def test_the_first_two_policies_are_the_fits(access: str, sense: str) -> None:
    ensemble = after(access=access, sense=sense, refit=100).live
    ensemble.answer(X[LATER])
    assert ensemble.policies_ == ("fitted", "refitted", "online stack")
    np.testing.assert_array_equal(proposals(ensemble)[0], fitted(access, sense=sense).decide(X[LATER]))
    np.testing.assert_array_equal(proposals(ensemble)[1], ensemble.refitted_.decide(X[LATER]))
    assert ensemble.refitted_.n_rows_ == N + 200


def test_on_a_convex_set_actions_are_mixed_by_weights() -> None:
    ensemble = after(refit=100).live
    weights = ensemble.weights_
    answer = ensemble.answer(X[LATER])
    np.testing.assert_allclose(answer.actions, np.tensordot(weights, proposals(ensemble), 1), atol=1e-12)
    np.testing.assert_array_equal(answer.chosen, np.tile(weights, (100, 1)))
    assert 0 < weights.min() < weights.max() < 1


SETS: dict[str, feasible.FeasibleSet] = {
    "assignment": feasible.Assignment(2, 2),
    "top k": feasible.TopK(4, 2),
    "vertices": feasible.Vertices(np.random.default_rng(3).uniform(size=(7, 4))),
}


@pytest.mark.parametrize("name", SETS)
def test_on_other_sets_the_heaviest_policy_is_played(name: str) -> None:
    omega, given = SETS[name], random_problem(4, n=600, d=4)
    assert not omega.convex
    ensemble = oe.DecisionEnsemble(given.models, feasible=omega).fit(given.X[:300], given.Y[:300])
    diary = Diary(oe.LiveEnsemble(ensemble, refit=100), given.X, given.Y).play(range(300, 550))
    heaviest = int(diary.live.weights_.argmax())
    answer = diary.decide(range(550, 600))
    np.testing.assert_array_equal(answer.actions, proposals(diary.live)[heaviest])
    np.testing.assert_array_equal(answer.chosen, np.tile(np.eye(3)[heaviest], (50, 1)))
    assert set(answer.followed) == {diary.live.policies_[heaviest]}
    assert omega.violation(answer.actions).max() <= 1e-9
    with pytest.raises(InputError, match=r"needs a convex set, and a mixture .*\. Use play='heaviest'"):
        oe.LiveEnsemble(ensemble, play="mixture")


def test_the_heaviest_policy_is_played_where_that_is_asked_for() -> None:
    ensemble = after(play="heaviest", refit=100).live
    answer = ensemble.answer(X[LATER])
    np.testing.assert_array_equal(answer.actions, proposals(ensemble)[ensemble.weights_.argmax()])
    assert set(np.unique(answer.chosen)) == {0.0, 1.0}


@pytest.mark.parametrize("omega", ["simplex", "box", "risk", "polytope", "vertices"])
def test_what_is_played_is_feasible(omega: str) -> None:
    ensemble = after(omega=omega, refit=100).live
    given = problem(omega)
    answer = ensemble.answer(given.X[LATER])
    assert given.omega.violation(answer.actions).max() <= 1e-7


@ACCESS
@SENSES
@pytest.mark.parametrize("play", ["mixture", "heaviest"])
def test_a_promise_is_that_of_what_is_played_and_the_correction(access: str, sense: str, play: str) -> None:
    """Labels are normal: nothing is known of what is possible, and promises are not clipped."""
    ensemble = after(access=access, sense=sense, play=play, refit=100).live
    correction = ensemble.correction_
    assert correction != 0
    answer = ensemble.answer(X[LATER])
    promises = [each.answer(X[LATER]).promised for each in (ensemble.ensemble_, ensemble.refitted_)]
    # the stack promises what its own forecast comes to
    forecast = ensemble._now.state.stack(ensemble._ledger.batches[-1].rows.features)
    promises.append((1 if sense == "max" else -1) * payoff(proposals(ensemble)[2], forecast))
    mixed = (answer.chosen.T * promises).sum(axis=0)
    np.testing.assert_allclose(answer.promised, mixed + correction, rtol=1e-9, atol=1e-12)
    assert (answer.low <= answer.promised).all()
    assert (answer.promised <= answer.high).all()


def test_before_labels_come_promises_are_those_of_the_policies() -> None:
    """And the stack of a single batch is the mean of the models."""
    ensemble, own = live(), fitted().answer(X[LATER])
    answer = ensemble.answer(X[LATER])
    mean = np.mean([p[LATER] for p in problem().P], axis=0)
    np.testing.assert_array_equal(proposals(ensemble)[2], problem().omega.argmax(mean))
    np.testing.assert_allclose(answer.promised, (2 * own.promised + mean.max(axis=1)) / 3, rtol=1e-9)
    np.testing.assert_allclose(answer.chosen, 1 / 3)


def test_of_policies_alone_the_stack_follows_the_fit_until_it_has_seen_labels() -> None:
    ensemble, own = live("policies"), fitted("policies").answer(X[LATER])
    answer = ensemble.answer(X[LATER])
    np.testing.assert_array_equal(proposals(ensemble)[2], own.actions)
    np.testing.assert_allclose(answer.promised, own.promised, rtol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 40])
def test_batches_do_not_matter_before_labels_come(size: int) -> None:
    """Also after labels came before."""
    whole, parts = after(refit=100), after(refit=100)
    rows = list(NEWER)[200:240]
    one = whole.decide(rows)
    many = [parts.decide(each) for each in cut(rows, size)]
    np.testing.assert_array_equal(one.actions, np.concatenate([each.actions for each in many]))
    for name in ("promised", "low", "high", "chosen"):
        np.testing.assert_allclose(getattr(one, name), np.concatenate([getattr(each, name) for each in many]))
    for diary in (whole, parts):
        diary.observe(rows[::-1])
        diary.check()
    np.testing.assert_array_equal(whole.live.weights_, parts.live.weights_)
    early, late = (diary.decide(list(NEWER)[300:]).actions for diary in (whole, parts))
    np.testing.assert_array_equal(early, late)


def test_the_order_of_rows_does_not_matter_before_labels_come() -> None:
    rows = np.arange(N, N + 50)
    order = np.random.default_rng(0).permutation(50)
    straight, mixed = live().answer(X[rows]), live().answer(X[rows[order]])
    np.testing.assert_array_equal(straight.actions[order], mixed.actions)


def test_ids_are_numbers_of_rows_by_default() -> None:
    ensemble = live()
    ensemble.decide(X[:3])
    answer = ensemble.answer(X[3:8])
    assert answer.ids.tolist() == [3, 4, 5, 6, 7]
    assert ensemble.open_["id"].tolist() == list(range(8))
    ensemble.observe(range(8), Y[:8])
    assert ensemble.answer(X[:1]).ids.tolist() == [8]


def test_members_that_are_the_same_in_both_fits_are_asked_once() -> None:
    members = [CountingMember(lookup(p)) for p in problem().P]
    models = [(f"m{i}", member) for i, member in enumerate(members)]
    ensemble = oe.DecisionEnsemble(models, feasible=problem().omega).fit(X[:N], Y[:N])
    diary = Diary(oe.LiveEnsemble(ensemble, refit=100)).play(range(N, N + 100))
    assert len(diary.swaps) == 1
    before = [member.times for member in members]
    diary.decide(range(N + 100, N + 140))
    assert [member.times for member in members] == [count + 1 for count in before]


# Tables


FRAMES: dict[str, Any] = {
    "numpy": lambda frame: frame.to_numpy(),
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_decide_is_the_actions_in_the_form_that_the_ensemble_gives_them(kind: str) -> None:
    if kind == "numpy":
        models = [(f"m{i}", oe.Columns([D * i + j for j in range(D)])) for i in range(D)]
        ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), context=None)
        ensemble.fit(table(slice(0, N)).to_numpy(), Y[:N])
    else:
        ensemble = fitted_on_columns()
    rows = FRAMES[kind](table(slice(N, N + 30)))
    left, right = oe.LiveEnsemble(ensemble), oe.LiveEnsemble(ensemble)
    for start in (0, 30):
        given = FRAMES[kind](table(slice(N + start, N + start + 30)))
        decided, answer = left.decide(given), right.answer(given)
        assert type(decided) is type(ensemble.decide(rows))
        np.testing.assert_array_equal(np.asarray(decided), answer.actions)
        if kind == "pandas":
            pd.testing.assert_index_equal(decided.index, given.index)
            assert list(decided.columns) == LABELS
        elif kind != "numpy":
            assert (decided.columns if kind == "polars" else decided.column_names) == LABELS
        for each in (left, right):
            each.observe(answer.ids, Y[N + start : N + start + 30])


@pytest.mark.parametrize("kind", ["default", "numpy", "pandas", "polars"])
def test_decide_heeds_set_output(kind: str) -> None:
    ensemble = fitted_on_columns()._as_it_stands().set_output(transform=kind)
    rows = table(slice(N, N + 5))
    assert type(oe.LiveEnsemble(ensemble).decide(rows)) is type(ensemble.decide(rows))


@pytest.mark.parametrize("kind", FRAMES)
def test_an_answer_as_a_table(kind: str) -> None:
    ensemble = oe.LiveEnsemble(fitted_on_columns()) if kind != "numpy" else live()
    rows: Any = X[N : N + 5] if kind == "numpy" else FRAMES[kind](table(slice(N, N + 5)))
    answer = ensemble.answer(rows, ids=["a", "b", "c", "d", "e"])
    frame = answer.to_frame()
    assert type(frame).__module__.partition(".")[0] == ("pandas" if kind == "numpy" else kind)
    names = list(map(str, range(D))) if kind == "numpy" else LABELS
    expected = {"id": list("abcde")} | {f"action_{name}": answer.actions[:, j] for j, name in enumerate(names)}
    expected |= {"followed": answer.followed, "promised": answer.promised, "low": answer.low, "high": answer.high}
    expected |= {f"weight_{name}": answer.chosen[:, i] for i, name in enumerate(ensemble.policies_)}
    columns = frame.column_names if kind == "pyarrow" else list(frame.columns)
    assert columns == list(expected)
    for name, values in expected.items():
        assert list(frame[name].to_pylist() if kind == "pyarrow" else frame[name]) == list(values)
    if kind == "pandas":
        pd.testing.assert_index_equal(frame.index, rows.index)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("ids", [[("a", 1), ("b", 2)], pd.date_range("2024-01-01", periods=2), [7, 8]], ids=type)
def test_ids_of_all_kinds_fit_into_a_table(kind: str, ids: Any) -> None:
    answer = oe.LiveEnsemble(fitted_on_columns()).answer(FRAMES[kind](table(slice(N, N + 2))), ids=ids)
    assert len(answer.to_frame()) == 2


def test_an_answer_in_words() -> None:
    ensemble = live("models", "simplex", play="heaviest", refit="never")
    text = str(ensemble.answer(X[:2000:2])).splitlines()
    assert text[0] == "400 rows, 3 coordinates"
    assert text[1].startswith("promised ")
    assert text[1].endswith(" on average")
    assert text[2] == "follows fitted 100%, online stack 0%"
    assert str(ensemble.answer(X[:1])).startswith("1 row, 3 coordinates\n")
    assert repr(ensemble.answer(X[:1])).startswith("LiveAnswer(1 row, 3 coordinates; promised ")


def test_columns_of_a_frame_may_come_in_another_order() -> None:
    left, right = oe.LiveEnsemble(fitted_on_columns(), refit=60), oe.LiveEnsemble(fitted_on_columns(), refit=60)
    for start in range(N, N + 200, 50):
        rows = table(slice(start, start + 50))
        assert told(left.answer(rows)) == told(right.answer(rows[rows.columns[::-1]].assign(more=1)))
        now = range(start - N, start - N + 50)
        left.observe(now, named(slice(start, start + 50)))
        right.observe(now, named(slice(start, start + 50))[LABELS[::-1]])
    assert len(left.refits_) == 2
    assert bits(left) == bits(right)


# What is the user's


def test_the_ensemble_given_is_not_changed_and_may_be() -> None:
    given = make().fit(X[:N], Y[:N])
    before = dict(vars(given))
    left, right = (Diary(oe.LiveEnsemble(given, refit=60)) for _ in range(2))
    left.play(range(N, N + 200))
    assert vars(given).keys() == before.keys()
    assert all(vars(given)[name] is before[name] for name in before)
    assert given.monitor_.rows == 0
    right.play(range(N, N + 100))
    given.fit(X[200:N], 2 * Y[200:N], random_state=3).set_output(transform="pandas").set_params(sense="min")
    right.play(range(N + 100, N + 200))
    assert bits(left.live) == bits(right.live)
    assert isinstance(right.live.decide(X[:3]), np.ndarray)


def test_buffers_may_be_used_again() -> None:
    """Rows, labels, ids and weights are copied; what an answer holds is the user's."""
    left, right = live(refit=60), live(refit=60)
    rows, labels, ids, counts = X[:40].copy(), Y[:40].copy(), np.arange(40), np.ones(40)
    for start in range(N, N + 240, 40):
        now = np.arange(start, start + 40)
        rows[:], labels[:], ids[:], counts[:] = X[now], Y[now], now, 1 + now % 3
        answer = left.answer(rows, ids=ids)
        assert left.open_["id"].tolist() == now.tolist()
        rows[:], ids[:] = 0, -1
        assert left.open_["id"].tolist() == now.tolist()
        assert answer.ids.tolist() == now.tolist()
        for each in (answer.actions, answer.promised, answer.low, answer.high, answer.chosen, answer.ids):
            each[:] = 99
        assert left.open_["id"].tolist() == now.tolist()
        ids[:] = now
        left.observe(ids, labels, sample_weight=counts)
        labels[:], counts[:] = 0, 99
        right.answer(X[now], ids=now)
        right.observe(now, Y[now], sample_weight=1.0 + now % 3)
    assert len(left.refits_) == 3
    assert bits(left) == bits(right)
    assert told(left.answer(X[LATER])) == told(right.answer(X[LATER]))


def test_a_frame_may_be_changed_after_it_was_decided() -> None:
    left, right = (oe.LiveEnsemble(fitted_on_columns(), refit=60) for _ in range(2))
    for start in range(N, N + 240, 40):
        frame = table(slice(start, start + 40)).copy()
        for each in (left, right):
            each.answer(frame, ids=range(start, start + 40))
            if each is left:
                continue
            frame.iloc[:] = 0.0
        left.observe(range(start, start + 40), Y[start : start + 40])
        right.observe(range(start, start + 40), Y[start : start + 40])
    assert bits(left) == bits(right)


def test_lists_of_rows_may_be_changed_after_they_were_decided() -> None:
    def member(p: Floats) -> Any:
        return lambda rows: p[np.array([row[0] for row in rows], dtype=int)]

    models = [(f"m{i}", member(p)) for i, p in enumerate(problem().P)]
    ensemble = oe.DecisionEnsemble(models, feasible=problem().omega).fit([[i] for i in range(N)], Y[:N])
    left, right = (oe.LiveEnsemble(ensemble, refit=60) for _ in range(2))
    for now in cut(range(N, N + 120), 40):
        rows = [[row] for row in now]
        left.answer(rows, ids=now)
        rows[0][0] = 0
        right.answer([[row] for row in now], ids=now)
        for each in (left, right):
            each.observe(now, Y[np.array(now)])
    assert told(left.answer([[i] for i in range(700, 800)])) == told(right.answer([[i] for i in range(700, 800)]))


# Copies


@pytest.mark.parametrize("how", [oe.LiveEnsemble.copy, copy.copy, copy.deepcopy], ids=["copy", "copy.copy", "deepcopy"])
def test_a_copy_knows_the_same_and_goes_on_by_itself(how: Any) -> None:
    diary, usual = (Diary(live(refit=60)).play(range(N, N + 100), late=LATE) for _ in range(2))
    before = bits(diary.live)
    other = Diary(how(diary.live), decided=dict(diary.decided), learned=list(diary.learned))
    other.play(range(N + 100, N + 200))
    assert bits(diary.live) == before
    assert len(other.live.refits_) > len(diary.live.refits_)
    for each in (diary, usual):
        each.play(range(N + 100, N + 200), batch=10, late=LATE)
    assert bits(diary.live) == bits(usual.live)


def test_it_is_not_pickled() -> None:
    with pytest.raises(InputError, match=r"Use live\.save\(path\)"):
        pickle.dumps(live())


# Mixtures


@having(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sampled_from([1e-300, 1.0, 1e12, 1e100]))
def test_a_mixture_lies_within_the_bounds_of_what_is_mixed(policies: int, rows: int, seed: int, size: float) -> None:
    """Whatever rounding does, and to the bit where all agree."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(policies, 0.3))
    weights[rng.random(policies) < 0.2] = 0.0
    weights = weights / weights.sum() if weights.any() else np.full(policies, 1 / policies)
    values = size * rng.normal(size=(policies, rows, 3))
    agree = rng.random((rows, 3)) < 0.5
    values[:, agree] = values[0, agree]
    before = values.copy()
    mixed = mix(values, weights)
    assert (values.min(axis=0) <= mixed).all()
    assert (mixed <= values.max(axis=0)).all()
    np.testing.assert_array_equal(mixed[agree], values[0, agree])
    np.testing.assert_allclose(mixed, np.einsum("p,pnd->nd", weights, values), rtol=1e-9, atol=1e-9 * size)
    np.testing.assert_array_equal(values, before)


@having(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(-1e100, 1e100))
def test_policies_that_agree_are_mixed_to_the_bit(one: float, other: float, value: float) -> None:
    """Though weights need not sum to 1 when they are rounded."""
    weights = np.array([one, other, max(0.0, 1.0 - one - other)]) + 1e-9
    weights /= weights.sum()
    np.testing.assert_array_equal(mix(np.full((3, 2), value), weights), np.full(2, value))


@having(st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_a_policy_that_is_played_alone_is_played_to_the_bit(which: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(3, 4, 2))
    mixed = mix(values, np.eye(3)[which])
    np.testing.assert_array_equal(mixed, values[which])
    assert not np.shares_memory(mixed, values)


def test_actions_stay_within_the_bounds_of_the_set_where_policies_agree_on_them() -> None:
    ensemble = after(omega="box", refit="never").live
    answer = ensemble.answer(problem("box").X[LATER])
    proposed, weights = proposals(ensemble), ensemble.weights_
    assert 0 < weights.min() < weights.max() < 1
    agree = (proposed == proposed[0]).all(axis=0)
    assert agree.any()
    np.testing.assert_array_equal(answer.actions[agree], proposed[0][agree])
    assert (answer.actions >= ensemble.ensemble_.feasible_.lower).all()
    assert (answer.actions <= ensemble.ensemble_.feasible_.upper).all()
