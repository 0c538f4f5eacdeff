"""Live ensembles of every kind: sets and costs of rows, absent members, groups, weights, costs, frames, the paper's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import AbsentWarning, InputError, RefitWarning
from optensemble.members.validation import pick_rows
from tests.ensembles import test_absent_members as absent
from tests.ensembles import test_by_row as by_row
from tests.ensembles import test_known_cost as known_cost
from tests.ensembles import test_weights as weighted
from tests.ensembles.decision import ACCESS, SENSES, D, N, problem
from tests.ensembles.live import LABELS, Diary, bits, cut, table, told
from tests.problems import Floats, Problem, random_problem

REFIT = 60


def late(n: int, seed: int = 6) -> Any:
    """By how many rows labels are late."""
    return np.random.default_rng(seed).integers(0, 70, size=n)


def play(ensemble: Any, X: Any, Y: Floats, rows: range, **parameters: Any) -> Diary:
    """Rows are decided in batches, labels come late, refits are made, and all is as it must be."""
    live = oe.LiveEnsemble(ensemble, **{"refit": REFIT, **parameters})
    diary = Diary(live, X, Y).play(rows, batch=15, late=late(rows.stop))
    assert len(diary.swaps) >= 2
    diary.check()
    return diary


def fitted_on(diary: Diary, first: int) -> list[int]:
    """The rows of the latest refit: those of the fit, and those whose labels had come, as they were decided."""
    labels = int(diary.live.refits_["labels"].iloc[-1])
    arrived = [row for row, _ in diary.learned[:labels]]
    return [*range(first), *sorted(arrived, key=lambda row: diary.decided[row].number)]


def require_same_fit(found: Any, expected: Any, X: Any) -> None:
    """Fail unless two ensembles are the same to the bit."""
    assert found.n_rows_ == expected.n_rows_
    assert found.names_ == expected.names_
    one, other = found.answer(X), expected.answer(X)
    for name in ("actions", "promised", "low", "high", "chosen"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(found.record_.realised, expected.record_.realised)


def require_fresh(diary: Diary, first: int, ensemble: Any, **fit: Any) -> None:
    """Fail unless the latest refit is the first fit of an ensemble on the rows that it had."""
    rows = np.array(fitted_on(diary, first))
    assert len(rows) > first
    options = {name: each[rows] if isinstance(each, np.ndarray) else each for name, each in fit.items()}
    fresh = ensemble.fit(pick_rows(diary.X, rows), diary.Y[rows], **options)
    require_same_fit(diary.live.refitted_, fresh, pick_rows(diary.X, np.arange(len(diary.Y) - 50, len(diary.Y))))


def everything(diary: Diary) -> tuple[list[int], Floats, Floats]:
    """The rows decided, what was played in them, and what each policy proposed."""
    rows, told = list(diary.decided), list(diary.decided.values())
    return rows, np.array([each.played for each in told]), np.array([each.policies for each in told])


# Sets of rows


PARAMETERS: dict[str, Callable[[], feasible.FeasibleSet]] = {
    "knapsack": by_row.knapsack,
    "box": by_row.box,
    "knapsack by a function": lambda: feasible.Knapsack(by_row.WEIGHTS, lambda X: X["budget"].to_numpy()),
}


@pytest.mark.parametrize("play_as", ["mixture", "heaviest"])
@pytest.mark.parametrize("which", PARAMETERS)
def test_every_action_lies_in_the_set_of_its_row(which: str, play_as: str) -> None:
    X, Y = by_row.table()
    ensemble = by_row.make(PARAMETERS[which]()).fit(X[:500], Y[:500])
    diary = play(ensemble, X, Y, range(500, 700), play=play_as)
    rows, played, proposed = everything(diary)
    own = X.iloc[rows]
    for actions in (played, *proposed.transpose(1, 0, 2)):
        assert (actions >= -1e-12).all()
        if which == "box":
            assert (actions <= own.filter(like="most_").to_numpy() + 1e-9).all()
        else:
            assert (actions @ by_row.WEIGHTS <= own["budget"].to_numpy() * (1 + 1e-9) + 1e-9).all()
    assert np.abs(proposed[:, 0] - proposed[:, 2]).max() > 0.01
    require_fresh(diary, 500, by_row.make(PARAMETERS[which]()))


def test_sets_of_rows_are_those_of_when_they_were_decided() -> None:
    """Also if the table changes before the labels come."""
    X, Y = by_row.table()
    left, right = (Diary(oe.LiveEnsemble(by_row.fitted(), refit=REFIT), X, Y) for _ in range(2))
    for now in cut(range(500, 620), 20):
        own = X.iloc[now].copy()
        assert told(left.decide(now, own)) == told(right.decide(now))
        own.loc[:, "budget"] = 0.0
        for each in (left, right):
            each.observe(now)
    assert bits(left.live) == bits(right.live)
    left.check()


# Known costs


COSTS = {**known_cost.SETS, "linear": feasible.WithCost(feasible.Simplex(known_cost.D), linear=[0.2, 0.0, -0.1, 0.0])}


def cost(which: str, X: pd.DataFrame, actions: Floats) -> Floats:
    if which == "linear":
        return np.asarray(0.2 * actions[:, 0] - 0.1 * actions[:, 2])
    return known_cost.cost(which, X, actions)


@SENSES
@pytest.mark.parametrize("which", COSTS)
def test_all_payoffs_are_net_of_costs(which: str, sense: str) -> None:
    (X, Y), sign = known_cost.table(), 1.0 if sense == "max" else -1.0

    def make() -> oe.DecisionEnsemble:
        return oe.DecisionEnsemble(known_cost.MODELS, feasible=COSTS[which], sense=sense, context=None)

    diary = play(make().fit(X[:500], Y[:500]), X, Y, range(500, 700))
    assert diary.live.mixes_ == (which != "top k")
    rows = [row for row, _ in diary.learned]
    own, labels, told = X.iloc[rows], Y[rows], [diary.decided[row] for row in rows]

    def net(actions: Floats) -> Floats:
        return np.asarray((actions * labels).sum(axis=1) - sign * cost(which, own, actions))

    earned = net(np.array([each.played for each in told]))
    history, certificate = diary.live.history_, diary.live.certificate()
    np.testing.assert_allclose(history["earned"].sum(), earned.sum(), rtol=1e-9)
    for i, name in enumerate(diary.live.policies_):
        payoffs = net(np.array([each.policies[i] for each in told]))
        np.testing.assert_allclose(history[name].sum(), payoffs.sum(), rtol=1e-9)
        np.testing.assert_allclose(certificate["lost"][i], sign * (payoffs - earned).sum(), rtol=1e-6, atol=1e-8)
    promised = np.array([each.promised for each in told])
    np.testing.assert_allclose(certificate["promise_error"], (earned - promised).mean(), rtol=1e-6, atol=1e-9)
    require_fresh(diary, 500, make())


# Absent members


@ACCESS
@pytest.mark.parametrize("member", [0, 2])
def test_members_may_be_absent_in_some_rows(access: str, member: int) -> None:
    X, Y = absent.without(absent.AT_RANDOM, member), absent.world()[1]
    diary = play(absent.make(access).fit(X[:600], Y[:600]), X, Y, range(600, 900))
    _, played, _ = everything(diary)
    np.testing.assert_allclose(absent.SIMPLEX.violation(played), 0.0, atol=1e-9)
    require_fresh(diary, 600, absent.make(access))


@ACCESS
def test_a_member_that_ends_is_done_without(access: str) -> None:
    X, Y = absent.without(slice(700, None), 0), absent.world()[1]
    diary = play(absent.make(access).fit(X[:600], Y[:600]), X, Y, range(600, 900), refit=100)
    require_fresh(diary, 600, absent.make(access))


@ACCESS
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.AbsentWarning")
def test_a_member_that_joins_late_is_learned_of_by_refits(access: str) -> None:
    """The best of three, which was there in a tenth of the rows of the fit."""
    X, Y = absent.without(slice(0, 540), 0), absent.world()[1]
    diary = play(absent.make(access).fit(X[:600], Y[:600]), X, Y, range(600, 1150), refit=100)
    rows, _, proposed = everything(diary)
    later = slice(250, None)
    fitted, refitted = ((proposed[later, i] * Y[rows][later]).sum(axis=1).mean() for i in (0, 1))
    assert refitted > fitted
    require_fresh(diary, 600, absent.make(access))


def test_a_member_that_fails_may_be_taken_for_absent() -> None:
    broken = [False]

    def member(X: Any) -> Floats:
        if broken[0]:
            raise RuntimeError("down")
        return np.asarray(problem().P[0][X])

    models = [("m0", member), *problem().models[1:]]
    ensemble = oe.DecisionEnsemble(models, feasible=problem().omega, on_error="absent")
    ensemble.fit(problem().X[:N], problem().Y[:N])
    diary = Diary(oe.LiveEnsemble(ensemble, refit=100))
    for start in range(N, N + 200, 20):
        broken[0] = start % 100 == 20
        now = list(range(start, start + 20))
        if broken[0]:
            with pytest.warns(AbsentWarning, match="'m0'"):
                diary.decide(now)
            broken[0] = False
        else:
            diary.decide(now)
        diary.observe(now)
    assert len(diary.swaps) == 2
    diary.check()


# Subgroups, groups and weights


SUBGROUPS = pytest.mark.parametrize("subgroups", ["region", lambda X: X["region"]], ids=["a column", "a function"])


@ACCESS
@SUBGROUPS
def test_subgroups_are_those_of_refits_too(access: str, subgroups: Any) -> None:
    frame, Y = weighted.world()
    ensemble = weighted.make(access, subgroups=subgroups).fit(frame[:300], Y[:300])
    diary = play(ensemble, frame, Y, range(300, 550))
    known = diary.live.refitted_.known_subgroups
    assert known is not None
    require_fresh(diary, 300, weighted.make(access, subgroups=subgroups))


GROUPS = pytest.mark.parametrize("groups", ["id", lambda X: X["id"]], ids=["a column", "a function"])


def in_groups() -> tuple[pd.DataFrame, Floats]:
    """Rows of which seven belong together."""
    frame, Y = weighted.world()
    return frame.assign(id=frame["id"] // 7), Y


@ACCESS
@GROUPS
def test_groups_are_found_in_rows_that_come_later(access: str, groups: Any) -> None:
    frame, Y = in_groups()
    diary = play(weighted.make(access).fit(frame[:300], Y[:300], groups=groups), frame, Y, range(300, 550))
    assert diary.live.refitted_.record_.clusters is not None
    require_fresh(diary, 300, weighted.make(access), groups=groups)


def play_in_groups(diary: Diary, groups: Any, rows: range) -> None:
    """Labels come in batches, in another order, with the groups of their rows."""
    for now in cut(rows, 30):
        diary.decide(now)
    for now in cut(np.random.default_rng(0).permutation(rows).tolist(), 20):
        diary.observe(now, groups=groups[now])
    diary.check()


@pytest.mark.parametrize("kind", [int, str, lambda group: ("day", int(group))], ids=["numbers", "text", "tuples"])
def test_groups_are_given_with_labels_where_they_are_not_found(kind: Any) -> None:
    frame, Y = in_groups()
    groups = np.empty(len(Y), dtype=object)
    groups[:] = [kind(group) for group in frame["id"]]
    ensemble = weighted.make().fit(frame[:300], Y[:300], groups=groups[:300])
    diary = Diary(oe.LiveEnsemble(ensemble, refit=90), frame, Y)
    play_in_groups(diary, groups, range(300, 500))
    assert len(diary.swaps) == 2
    require_fresh(diary, 300, weighted.make(), groups=groups)


def test_groups_that_are_lacking_are_asked_for_and_nothing_is_learned() -> None:
    frame, Y = in_groups()
    ids = frame["id"].to_numpy()
    ensemble = weighted.make().fit(frame[:300], Y[:300], groups=ids[:300])
    diary = Diary(oe.LiveEnsemble(ensemble, refit=60), frame, Y)
    diary.decide(range(300, 400))
    before = bits(diary.live)
    with pytest.raises(InputError, match=r"rows fitted on had groups\. Give groups= for these rows too"):
        diary.live.observe(range(300, 400), Y[300:400])
    with pytest.raises(InputError, match="100"):
        diary.live.observe(range(300, 400), Y[300:400], groups=ids[300:399])
    assert bits(diary.live) == before
    diary.observe(range(300, 400), groups=ids[300:400])
    require_fresh(diary, 300, weighted.make(), groups=ids)


@ACCESS
def test_refits_weigh_rows_as_they_were_weighed(access: str) -> None:
    frame, Y = weighted.world()
    weights = frame["weight"].to_numpy()
    ensemble = weighted.make(access).fit(frame[:300], Y[:300], sample_weight="weight")
    diary = Diary(oe.LiveEnsemble(ensemble, refit=90), frame, Y)
    for now in cut(range(300, 500), 30):
        diary.decide(now)
    for now in cut(np.random.default_rng(0).permutation(range(300, 500)).tolist(), 20):
        diary.observe(now, weights[now])
    diary.check()
    assert diary.live.history_["counted"].sum() == weights[300:500].sum()
    require_fresh(diary, 300, weighted.make(access), sample_weight=weights)


@pytest.mark.parametrize("first", [True, False])
def test_rows_without_weights_count_once_beside_those_with_them(first: bool) -> None:
    """Of the fit, or of those that came later."""
    frame, Y = weighted.world()
    weights = frame["weight"].to_numpy().copy()
    weights[slice(300, None) if first else slice(0, 300)] = 1.0
    ensemble = weighted.make().fit(frame[:300], Y[:300], sample_weight=weights[:300] if first else None)
    diary = Diary(oe.LiveEnsemble(ensemble, refit=90), frame, Y)
    for now in cut(range(300, 500), 20):
        diary.decide(now)
        diary.observe(now, None if first else weights[now])
    diary.check()
    require_fresh(diary, 300, weighted.make(), sample_weight=weights)


# Costs


@ACCESS
def test_costs_are_told_in_the_units_of_the_user(access: str) -> None:
    frame, Y = weighted.world()
    ensemble = weighted.make(access, sense="min").fit(frame[:300], Y[:300])
    diary = play(ensemble, frame, Y, range(300, 550))
    rows = [row for row, _ in diary.learned]
    paid = (np.array([diary.decided[row].played for row in rows]) * Y[rows]).sum(axis=1)
    history = diary.live.history_
    np.testing.assert_allclose(history["earned"].sum(), paid.sum(), rtol=1e-9)
    assert (history["foresight"] <= history["earned"] + 1e-9).all()
    certificate = diary.live.certificate()
    saved = paid.sum() - np.array([history[name].sum() for name in diary.live.policies_])
    np.testing.assert_allclose(certificate["lost"], saved, atol=1e-8)
    text = diary.live.finding_
    assert text.startswith(f"On {len(rows)} rows you paid at most ")
    assert " a row more than the best of the three policies; you paid " in text
    assert text.endswith(" less than it" if certificate["lost"].max() < 0 else " more")
    require_fresh(diary, 300, weighted.make(access, sense="min"))


# Time


@pytest.mark.parametrize("index", [False, True])
def test_rows_in_time_order(index: bool) -> None:
    frame, Y = weighted.world()
    if index:
        frame = frame.set_axis(pd.date_range("2024-01-01", periods=len(frame), freq="h"))
    ensemble = weighted.make().fit(frame[:300], Y[:300], time_ordered=True)
    diary = play(ensemble, frame, Y, range(300, 550))
    assert diary.live.refitted_.time_ordered_
    require_fresh(diary, 300, weighted.make(), time_ordered=True)


# Members that are fitted here


def regression(n: int = 600) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, np.sin(X @ rng.normal(size=(5, D))) + 0.3 * rng.normal(size=(n, D))


def own(**parameters: Any) -> oe.DecisionEnsemble:
    models = [("ridge", Ridge()), ("firm", Ridge(alpha=300.0)), ("known", lambda X: X[:, :D])]
    return oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), context=None, **parameters)


@pytest.mark.parametrize("parameters", [{}, {"cv": 3}], ids=str)
@pytest.mark.parametrize("time_ordered", [False, True])
def test_members_that_are_fitted_here_are_fitted_again(parameters: Any, time_ordered: bool) -> None:
    X, Y = regression()
    ensemble = own(**parameters).fit(X[:300], Y[:300], time_ordered=time_ordered)
    diary = play(ensemble, X, Y, range(300, 560), refit=70)
    rows = fitted_on(diary, 300)
    before, after = dict(ensemble.members_), dict(diary.live.refitted_.members_)
    for name, alpha in (("ridge", 1.0), ("firm", 300.0)):
        expected = Ridge(alpha=alpha).fit(X[rows], Y[rows]).predict(X[560:])
        np.testing.assert_allclose(after[name].predict(X[560:]), expected, rtol=1e-9)
        assert np.abs(before[name].predict(X[560:]) - expected).max() > 1e-4
    assert after["known"] is before["known"]
    assert diary.live.refitted_.cross_fitted_ == ["ridge", "firm"]
    require_fresh(diary, 300, own(**parameters), time_ordered=time_ordered)


def test_the_stack_learns_from_the_members_of_the_latest_fit() -> None:
    X, Y = regression()
    diary = Diary(oe.LiveEnsemble(own().fit(X[:200], Y[:200]), refit=100), X, Y).play(range(200, 400), batch=10)
    diary.decide(range(400, 410))
    batch, latest = diary.live._ledger.batches[-1].rows, diary.live.refitted_
    said = np.array(
        [
            member.predict(X[400:410]) if hasattr(member, "predict") else member(X[400:410])
            for _, member in latest.members_
        ]
    )
    np.testing.assert_allclose(batch.features[:, 0], said.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(batch.features[:, 1:].transpose(1, 0, 2), said - said.mean(axis=0), atol=1e-9)


# The paper's ensembles


def paper(kind: str, given: Problem, validation: str | None, **parameters: Any) -> Any:
    parameters |= {} if validation == "cv" else {"validation": None}
    if kind == "white":
        return oe.WhiteBoxEnsemble(given.models, given.omega, alpha=0.1, **parameters)
    return oe.BlackBoxEnsemble(given.policies, given.omega, alpha=0.1, **parameters)


KINDS = pytest.mark.parametrize("kind", ["white", "black"])
VALIDATION = pytest.mark.parametrize("validation", ["cv", None])


@KINDS
@SENSES
@VALIDATION
def test_white_and_black_boxes_are_followed_fitted_again_and_certified(
    kind: str, sense: str, validation: str | None
) -> None:
    given = problem()
    ensemble = paper(kind, given, validation, sense=sense).fit(given.X[:N], given.Y[:N])
    diary = play(ensemble, given.X, given.Y, range(N, N + 300), refit=100)
    rows, played, proposed = everything(diary)
    np.testing.assert_array_equal(proposed[:, 0], ensemble.decide(given.X[rows]))
    assert given.omega.violation(played).max() <= 1e-9
    assert (diary.live.monitor is None) == (validation is None)
    again = np.array(fitted_on(diary, N))
    fresh = paper(kind, given, validation, sense=sense).fit(given.X[again], given.Y[again])
    np.testing.assert_array_equal(diary.live.refitted_.decide(given.X), fresh.decide(given.X))
    np.testing.assert_array_equal(diary.live.refitted_.answer(given.X).promised, fresh.answer(given.X).promised)
    assert ("paid" in diary.live.finding_) == (sense == "min")


@KINDS
def test_a_record_that_is_made_afterwards_is_watched(kind: str) -> None:
    given = problem()
    ensemble = paper(kind, given, None).fit(given.X[:N], given.Y[:N]).cross_fit()
    live = oe.LiveEnsemble(ensemble, refit="never")
    assert live.monitor is not None
    assert live.monitor.sigma == ensemble.record_.deviation
    diary = Diary(live, given.X, given.Y).play(range(N, N + 100))
    diary.check()
    assert live.monitor.rows == 100


@KINDS
def test_without_a_record_intervals_are_open_and_nothing_is_watched(kind: str) -> None:
    given = problem()
    live = oe.LiveEnsemble(paper(kind, given, None).fit(given.X[:N], given.Y[:N]), refit="never")
    answer = live.answer(given.X[N : N + 20])
    assert live.monitor is None
    assert (answer.low == -np.inf).all()
    assert (answer.high == np.inf).all()
    assert np.isfinite(answer.promised).all()


@KINDS
def test_white_and_black_boxes_from_a_file_are_not_fitted_again(kind: str, tmp_path: Path) -> None:
    given = problem()
    ensemble = paper(kind, given, "cv").fit(given.X[:N], given.Y[:N])
    ensemble.save(tmp_path / "e.oe", keep_rows=False)
    members: Any = {"models": dict(given.models)} if kind == "white" else {"policies": dict(given.policies)}
    loaded = oe.load(tmp_path / "e.oe", **members)
    with pytest.raises(InputError, match=r"cannot be fitted again\. Give refit='never'"):
        oe.LiveEnsemble(loaded, refit=60)
    with pytest.warns(RefitWarning, match="not be refitted while it decides"):
        live = oe.LiveEnsemble(loaded)
    diary = Diary(live, given.X, given.Y).play(range(N, N + 100), late=late(2 * N))
    diary.check()
    other = Diary(oe.LiveEnsemble(ensemble, refit="never"), given.X, given.Y)
    assert bits(diary.live) == bits(other.play(range(N, N + 100), late=late(2 * N)).live)


# Small ones


@SENSES
@pytest.mark.parametrize("access", ["models", "policies"])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 3), (3, 1)])
def test_one_label_or_one_member_will_do(d: int, k: int, access: str, sense: str) -> None:
    given = random_problem(2, n=600, d=d, k=k, omega="box")
    members: dict[str, Any] = {access: given.models if access == "models" else given.policies}

    def make() -> oe.DecisionEnsemble:
        return oe.DecisionEnsemble(**members, feasible=given.omega, sense=sense)

    diary = play(make().fit(given.X[:300], given.Y[:300]), given.X, given.Y, range(300, 560))
    answer = diary.live.answer(given.X[560:], ids=[f"new {row}" for row in range(40)])
    assert answer.actions.shape == (40, d)
    require_fresh(diary, 300, make())


@KINDS
def test_one_label_and_one_member_of_the_papers(kind: str) -> None:
    given = random_problem(2, n=500, d=1, k=1, omega="box")
    play(paper(kind, given, None).fit(given.X[:300], given.Y[:300]), given.X, given.Y, range(300, 480))


@pytest.mark.filterwarnings("ignore:every member decides the same")
def test_a_set_of_one_action_leaves_nothing_to_lose() -> None:
    given = problem()
    point = feasible.Vertices(np.array([[1.0, 2.0, 3.0]]))
    ensemble = oe.DecisionEnsemble(given.models, feasible=point).fit(given.X[:N], given.Y[:N])
    diary = play(ensemble, given.X, given.Y, range(N, N + 200))
    assert (diary.live.certificate()[["lost", "bound"]] == 0).all(axis=None)
    np.testing.assert_allclose(diary.live.weights_, 1 / 3)


# Tables


FRAMES: dict[str, Any] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def on_columns(**parameters: Any) -> oe.DecisionEnsemble:
    models = [(f"m{i}", oe.Columns([f"m{i}_{j}" for j in range(D)])) for i in range(D)]
    return oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), **parameters)


def wider() -> pd.DataFrame:
    """The table, with columns that forecasts may look at, and one that nobody needs."""
    frame = table().reset_index(drop=True)
    rng = np.random.default_rng(0)
    return frame.assign(extra=problem().Y[:, 0] + rng.normal(size=len(frame)), name=[f"row {i}" for i in frame.index])


@pytest.mark.parametrize("context", ["auto", None, ["extra"]], ids=str)
@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_kind_are_learned_from(kind: str, context: Any) -> None:
    X, Y = FRAMES[kind](wider()), problem().Y
    named = pd.DataFrame(Y, columns=LABELS)
    ensemble = on_columns(context=context).fit(pick_rows(X, np.arange(N)), named[:N])
    diary = play(ensemble, X, Y, range(N, N + 300), refit=80)
    assert diary.live.refitted_.labels_ == LABELS
    rows = np.array(fitted_on(diary, N))
    fresh = on_columns(context=context).fit(pick_rows(X, rows), named.iloc[rows].reset_index(drop=True))
    later = pick_rows(X, np.arange(2 * N - 50, 2 * N))
    require_same_fit(diary.live.refitted_, fresh, later)
    ids = [f"again {i}" for i in range(50)]
    decided = diary.live.decide(later, ids=ids)
    assert type(decided) is type(ensemble.decide(later))
    assert list(decided.column_names if kind == "pyarrow" else decided.columns) == LABELS
    shuffled = named[2 * N - 50 :][LABELS[::-1]]
    before = diary.live.rows_
    diary.live.observe(ids, pl.from_pandas(shuffled) if kind == "polars" else shuffled)
    assert diary.live.rows_ == before + 50


@pytest.mark.parametrize("kind", FRAMES)
def test_the_kind_of_frame_does_not_matter(kind: str) -> None:
    left, right = (
        play(on_columns().fit(pick_rows(X, np.arange(N)), problem().Y[:N]), X, problem().Y, range(N, N + 200))
        for X in (FRAMES[kind](wider()), wider())
    )
    assert bits(left.live) == bits(right.live)


def test_kinds_of_frames_may_change_between_batches() -> None:
    X, Y = wider(), problem().Y
    ensemble = on_columns(context=None).fit(X[:N], Y[:N])
    mixed, plain = (Diary(oe.LiveEnsemble(ensemble, refit=90), X, Y) for _ in range(2))
    for at, now in enumerate(cut(range(N, N + 200), 20)):
        given = [FRAMES[kind](X.iloc[now]) for kind in ("pandas", "polars", "pyarrow")][at % 3]
        np.testing.assert_array_equal(mixed.decide(now, given).actions, plain.decide(now).actions)
        for each in (mixed, plain):
            each.observe(now)
    assert len(mixed.swaps) == 2
    assert bits(mixed.live) == bits(plain.live)
    mixed.check()


# Rows in files


@GROUPS
def test_rows_that_were_read_from_files_are_read_again(tmp_path: Path, groups: Any) -> None:
    """They are learned from with those that came later, and no window leaves them out."""
    frame, Y = in_groups()
    whole = frame.assign(**{f"y{j}": Y[:, j] for j in range(D)})
    whole[:300].to_parquet(tmp_path / "first.parquet")
    names = [f"y{j}" for j in range(D)]
    ensemble = weighted.make().fit(oe.Rows(tmp_path / "first.parquet", labels=names), groups=groups)
    diary = Diary(oe.LiveEnsemble(ensemble, refit=90, window=150), frame, Y).play(range(300, 500), batch=30)
    assert diary.live.refits_["rows"].tolist() == [390, 450]
    assert diary.live.refits_["outcome"].tolist() == ["390 rows", "450 rows"]
    diary.check()
    rows = [*range(300), *range(330, 480)]
    whole.iloc[rows].to_parquet(tmp_path / "all.parquet")
    fresh = weighted.make().fit(oe.Rows(tmp_path / "all.parquet", labels=names), groups=groups)
    require_same_fit(diary.live.refitted_, fresh, frame[550:])
