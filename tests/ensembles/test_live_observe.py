"""Labels that come in any order, in any batches and late: what is learned of them, and what is certain."""

from __future__ import annotations

import warnings
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given as having
from hypothesis import settings
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import DataWarning, InputError, SolverError
from optensemble.monitoring.monitor import Monitor
from optensemble.stacking.online_stack import OnlineStack
from tests.ensembles.decision import ACCESS, SENSES, D, N, problem
from tests.ensembles.live import LATE, NEWER, Book, Diary, bits, live, named, told

X, Y = problem().X, problem().Y
AFTER = slice(2 * N - 50, 2 * N)
AFTER_IDS = [f"later {i}" for i in range(len(X[AFTER]))]


# The certificate


@ACCESS
@SENSES
@pytest.mark.parametrize("play", ["mixture", "heaviest"])
def test_the_certificate_follows_from_actions_labels_and_weights(access: str, sense: str, play: str) -> None:
    diary = Diary(live(access, sense=sense, play=play, refit=90)).play(late=LATE)
    assert len(diary.live.refits_) >= 2
    diary.check()
    assert diary.live._ledger.open > 0
    diary.observe([row for row in NEWER if row not in {each for each, _ in diary.learned}])
    diary.check()
    assert diary.live.open_.empty


@pytest.mark.parametrize("omega", ["box", "risk", "vertices", "polytope"])
def test_the_certificate_of_other_sets(omega: str) -> None:
    given = problem(omega)
    diary = Diary(live(omega=omega, refit=150), given.X, given.Y).play(late=LATE)
    diary.check()


@pytest.mark.filterwarnings("ignore:a label of row:optensemble.exceptions.DataWarning")
@settings(max_examples=25, deadline=None)
@having(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["normal", "heavy", "switching", "against", "constant"]),
    st.sampled_from([1, 3, 25]),
    st.sampled_from([0, 5, 60]),
    st.sampled_from(["mixture", "heaviest"]),
    st.booleans(),
)
def test_no_more_is_lost_than_is_certified(
    seed: int, kind: str, batch: int, delay: int, play: str, weigh: bool
) -> None:
    """Whatever the labels are, those that are made against what was played among them, and whenever they come."""
    rng = np.random.default_rng(seed)
    kinds: dict[str, Any] = {
        "normal": lambda: rng.normal(size=(2 * N, D)),
        "heavy": lambda: rng.standard_t(1.1, size=(2 * N, D)),
        "switching": lambda: (10 * np.sign(np.sin(np.arange(2 * N) / 13)))[:, None] * problem().Y,
        "against": lambda: np.zeros((2 * N, D)),
        "constant": lambda: np.full((2 * N, D), 3.0),
    }
    labels = kinds[kind]()
    diary = Diary(live(refit="never", play=play), X, labels)
    waiting = list[int]()
    for start in range(N, N + 150, batch):
        now = list(range(start, start + batch))
        answer = diary.decide(now)
        if kind == "against":
            labels[now] = -answer.actions
        waiting += now
        here = [row for row in waiting if rng.random() * delay <= 1]
        waiting = [row for row in waiting if row not in set(here)]
        if here:
            rng.shuffle(here)
            diary.observe(here, rng.choice([0.0, 0.5, 1.0, 7.0], len(here)) if weigh else None)
    if diary.learned:
        diary.check()


def test_the_parts_of_the_bound() -> None:
    """Without delay nothing drifts, and of a mixture nothing is lost to playing one policy."""
    attrs = Diary(live(refit="never")).play(range(N, N + 100), batch=1).live.certificate().attrs
    assert attrs["drift"] == 0
    assert abs(attrs["played"]) < 1e-9
    assert attrs["regret"] > 0
    late = Diary(live(refit="never", play="heaviest")).play(late=LATE).live.certificate()
    assert late.attrs["drift"] != 0
    assert late.attrs["played"] != 0
    assert late["bound"][0] == pytest.approx(sum(late.attrs.values()), rel=1e-9)


def test_a_certificate_before_labels_come() -> None:
    ensemble = live()
    ensemble.answer(X[:7])
    certificate = ensemble.certificate()
    assert list(certificate["policy"]) == ["fitted", "refitted", "online stack"]
    np.testing.assert_allclose(certificate["weight"], 1 / 3)
    assert (certificate[["lost", "rows", "counted", "expired", "promise_error"]] == 0).all(axis=None)
    assert certificate[["lost_per_row", "bound_per_row"]].isna().all(axis=None)
    assert (certificate["open"] == 7).all()
    assert ensemble.finding_ == "No labels have arrived yet"
    assert repr(ensemble) == "LiveEnsemble(0 rows learned from, 7 open; No labels have arrived yet)"
    assert ensemble.history_.empty
    assert ensemble.refits_.empty


@SENSES
def test_the_certificate_in_a_sentence(sense: str) -> None:
    diary = Diary(live(sense=sense, refit="never")).play()
    text, certificate = diary.live.finding_, diary.live.certificate()
    assert text.startswith(f"On 400 rows you {'paid' if sense == 'min' else 'lost'} at most ")
    assert f" a row {'more than' if sense == 'min' else 'against'} the best of the two policies; you " in text
    shown = float(text.partition("at most ")[2].partition(" a row")[0])
    assert shown == pytest.approx(certificate["bound_per_row"].max(), rel=0.1)


def test_rows_are_worth_their_weights() -> None:
    """A row of weight 3 counts as three rows that come one after the other, as far as nothing is solved in between."""
    rng = np.random.default_rng(0)
    counts = rng.choice([0.0, 1.0, 2.5, 40.0], size=2 * N)
    diary = Diary(live(refit="never"))
    for start in range(N, 2 * N, 20):
        now = list(range(start, start + 20))
        diary.decide(now)
        diary.observe(now, counts[now])
    diary.check()
    assert diary.live.history_["counted"].sum() == pytest.approx(counts[N:].sum())
    assert diary.live.monitor is not None
    assert diary.live.monitor.rows == np.count_nonzero(counts[N:])


def test_the_book_forgets_nothing_of_delays() -> None:
    """The textbook that certificates are compared with: its bound holds, and not by far."""
    rng = np.random.default_rng(0)
    book, waiting = Book(3, 0.5), list[tuple[Any, Any]]()
    for at in range(500):
        payoffs, weights = rng.normal(size=3) + np.array([0, 0.3 * (at > 250), 0]), book.weights
        waiting.append((payoffs - weights @ payoffs, weights))
        if rng.random() < 0.3:
            book.learn(*map(np.array, zip(*waiting, strict=True)))
            waiting.clear()
    assert book.bound / 4 < book.lost.max() <= book.bound


# Order, batches and delays


@pytest.mark.parametrize("seed", range(5))
def test_the_same_calls_give_the_same_bits(seed: int) -> None:
    """Also where ids are in another order within a call."""
    rng = np.random.default_rng(seed)
    left, right = Diary(live(refit=60)), Diary(live(refit=60))
    waiting, row = list[int](), N
    while row < 2 * N:
        now = list(range(row, min(row + int(rng.integers(1, 61)), 2 * N)))
        assert told(left.decide(now)) == told(right.decide(now))
        waiting, row = waiting + now, now[-1] + 1
        here = [each for each in waiting if rng.integers(3)] if rng.integers(2) else waiting
        waiting = [each for each in waiting if each not in set(here)]
        if here:
            left.observe(here)
            right.observe(rng.permutation(here).tolist())
    assert len(left.swaps) > 3
    assert bits(left.live) == bits(right.live)
    assert told(left.live.answer(X[AFTER], ids=AFTER_IDS)) == told(right.live.answer(X[AFTER], ids=AFTER_IDS))


@pytest.mark.parametrize("size", [1, 20, 100])
def test_batches_of_labels_do_not_matter_to_what_was_lost(size: int) -> None:
    diary, rows = Diary(live(refit="never")), list(NEWER)[:100]
    diary.decide(rows)
    order = np.random.default_rng(1).permutation(rows).tolist()
    for start in range(0, 100, size):
        diary.observe(order[start : start + size])
    diary.check()
    whole = Diary(live(refit="never"))
    whole.decide(rows)
    whole.observe(rows)
    np.testing.assert_allclose(diary.live.certificate()["lost"], whole.live.certificate()["lost"], atol=1e-9)


def test_a_long_history_is_in_spans() -> None:
    again = np.random.default_rng(2).integers(0, 2 * N, size=1300)
    diary = Diary(live(refit="never"), X[again], Y[again])
    diary.play(range(1300), batch=50, late=np.random.default_rng(3).integers(0, 90, size=1300))
    diary.check()
    history = diary.live.history_
    assert len(history) <= 512
    assert set(history["rows"][:-1]) == {4}


# Ids


def test_labels_given_again_are_passed_over() -> None:
    ensemble = live(refit="never")
    ensemble.answer(X[:40], ids=[f"row {i}" for i in range(40)])
    ids = [f"row {i}" for i in range(30)]
    ensemble.observe(ids[:20], Y[:20])
    before = bits(ensemble)
    ensemble.observe(ids[:20][::-1], Y[:20][::-1])
    ensemble.observe(ids[3:4], np.array(Y[3:4]) + 0.0, sample_weight=[5.0])
    assert bits(ensemble) == before
    ensemble.observe(ids, Y[:30])
    assert ensemble.rows_ == 30
    other = live(refit="never")
    other.answer(X[:40], ids=[f"row {i}" for i in range(40)])
    other.observe(ids[:20], Y[:20]).observe(ids[20:], Y[20:30])
    assert bits(ensemble) == bits(other)


def test_zero_is_zero_whatever_its_sign() -> None:
    ensemble = live(refit="never")
    ensemble.answer(X[:2])
    ensemble.observe([0], [[0.0, 1.0, 2.0]]).observe([0], [[-0.0, 1.0, 2.0]])
    assert ensemble.rows_ == 1


def _observed(ensemble: oe.LiveEnsemble) -> oe.LiveEnsemble:
    ensemble.answer(X[N : N + 30])
    return ensemble.observe(range(10), Y[N : N + 10])


def _with(row: int, value: float) -> Any:
    labels = Y[N + 10 : N + 20].copy()
    labels[row, 1] = value
    return labels


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "other labels": (
        {"ids": range(10), "Y": Y[N + 1 : N + 11]},
        "10 of these 10 rows already have different labels: 0, 1, 2 .*cannot be undone. Leave them out",
    ),
    "some other labels": (
        {"ids": range(5, 15), "Y": np.vstack([Y[N + 5 : N + 9], Y[N + 10 : N + 16]])},
        r"1 of these 10 rows already have different labels: 9\. What has been learned",
    ),
    "unknown ids": (
        {"ids": range(25, 35), "Y": Y[:10]},
        r"5 of these 10 ids are of no open row: 30, 31, 32 .*\. Open rows have ids such as 10\. Use",
    ),
    "ids of another kind": ({"ids": list("abc"), "Y": Y[:3]}, "of no open row: 'a', 'b', 'c'"),
    "numbers as text": ({"ids": ["11", "12"], "Y": Y[:2]}, "of no open row: '11', '12'"),
    "the same id twice": (
        {"ids": [11, 12, 11], "Y": Y[:3]},
        "ids must be distinct; 11 is there twice. Give each label once",
    ),
    "too few ids": ({"ids": [11, 12], "Y": Y[:3]}, r"one id for each of the 3 rows of Y; got an array of shape \(2,\)"),
    "a single id": ({"ids": 11, "Y": Y[:1]}, "one id for each of the 1 rows of Y; got 11"),
    "text as ids": ({"ids": "abc", "Y": Y[:3]}, "one id for each of the 3 rows of Y; got 'abc'"),
    "lists as ids": ({"ids": [[11], [12]], "Y": Y[:2]}, "ids must be strings, numbers, timestamps or tuples of these"),
    "a gap": (
        {"ids": range(10, 20), "Y": _with(3, np.nan)},
        "labels Y are missing in row 3 of 10.*missing_labels='drop'",
    ),
    "infinity": ({"ids": range(10, 20), "Y": _with(3, np.inf)}, "labels Y must be finite; got .* row 3 of 10"),
    "infinity beside gaps": (
        {"ids": range(10, 20), "Y": _with(3, -np.inf), "missing_labels": "drop"},
        "labels Y must be finite",
    ),
    "a huge label": ({"ids": range(10, 20), "Y": _with(3, 1e101)}, "must be at most 1e.100 in size.*Rescale"),
    "too few columns": ({"ids": range(10, 20), "Y": Y[:10, :2]}, r"must have shape \(10, 3\).*got shape \(10, 2\)"),
    "text as labels": ({"ids": [11], "Y": [["a", "b", "c"]]}, "the labels Y must .*numbers"),
    "a negative weight": (
        {"ids": [11, 12], "Y": Y[:2], "sample_weight": [1, -1]},
        "sample_weight must be between 0 and .*got -1 in row 1 of 2",
    ),
    "a weight that lacks": ({"ids": [11, 12], "Y": Y[:2], "sample_weight": [1, np.nan]}, "sample_weight must be betw"),
    "a single weight": (
        {"ids": [11, 12], "Y": Y[:2], "sample_weight": 2},
        "one weight for each of the 2 rows of Y; got 2",
    ),
    "a rule for weights": ({"ids": [11], "Y": Y[:1], "sample_weight": len}, "one weight for each .*X is not available"),
    "too few weights": ({"ids": [11, 12], "Y": Y[:2], "sample_weight": [1]}, "one weight for each of the 2 rows"),
    "groups of rows that had none": (
        {"ids": [11, 12], "Y": Y[:2], "groups": [1, 1]},
        "the rows fitted on had no groups. Leave groups out, or fit again with groups",
    ),
    "another choice": (
        {"ids": [11], "Y": Y[:1], "missing_labels": "skip"},
        "missing_labels must be one of 'raise', 'drop'; got 'skip'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_changes_nothing(name: str) -> None:
    call, words = WRONG[name]
    ensemble, good = _observed(live(refit=20)), _observed(live(refit=20))
    before = bits(ensemble)
    with pytest.raises(InputError, match=words):
        ensemble.observe(**call)
    assert bits(ensemble) == before
    for each in (ensemble, good):
        each.observe(range(5, 30), Y[N + 5 : N + 30])
    assert len(good.refits_) == 1
    assert bits(ensemble) == bits(good)
    assert told(ensemble.answer(X[AFTER])) == told(good.answer(X[AFTER]))


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, 2, 1], "ids must be distinct; 1 is there twice. Give each row its own"),
        ([50, 5, 20], "2 of these 3 ids were given to rows decided before: 5, 20. Give each row an id of its own"),
        ([50, 51], r"one id for each of the 3 rows of X; got an array of shape \(2,\)"),
        (np.zeros((3, 1)), r"one id for each of the 3 rows of X; got an array of shape \(3, 1\)"),
        ({50, 51, 52}, "one id for each of the 3 rows of X; got {50, 51, 52}"),
        ([[1], [2], [3]], "ids must be strings, numbers, timestamps or tuples of these"),
        ([2**80, 1, 2], "ids must be strings, numbers, timestamps or tuples of these"),
        (
            [date(2024, 1, 1), date(2024, 1, 2), date(9999, 12, 31)],
            "ids must be strings, numbers, timestamps or tuples",
        ),
        ([("a", date(9999, 12, 31)), ("b", 1), ("c", 1)], "ids must be strings, numbers, timestamps or tuples"),
        (b"abc", "one id for each of the 3 rows of X; got b'abc'"),
        ([1, 2, None], r"ids\[2\] of 3 is missing\. Give every row an id"),
        (["a", np.nan, "b"], r"ids\[1\] of 3 is missing"),
        (np.array(["2024-01-01", "NaT", "2024-01-02"], dtype="datetime64[D]"), r"ids\[1\] of 3 is missing"),
        (["a", "b", "\ud800"], "ids must be strings, numbers, timestamps or tuples of these"),
    ],
)
def test_ids_that_are_refused_with_rows(ids: Any, words: str) -> None:
    ensemble, good = _observed(live(refit=20)), _observed(live(refit=20))
    before = bits(ensemble)
    with pytest.raises(InputError, match=words):
        ensemble.answer(X[:3], ids=ids)
    assert bits(ensemble) == before
    assert told(ensemble.answer(X[AFTER])) == told(good.answer(X[AFTER]))


def test_numbers_of_rows_may_be_ids_given_before() -> None:
    ensemble = live(refit="never")
    ensemble.answer(X[:2], ids=[2, 3])
    with pytest.raises(InputError, match=r"2 of these 3 ids .*: 2, 3\. Rows without ids are numbered: give ids in"):
        ensemble.answer(X[:3])


def test_a_member_that_fails_leaves_no_row_open() -> None:
    ensemble = _observed(live())
    before = bits(ensemble)
    with pytest.raises(IndexError):
        ensemble.answer(np.array([0, 10**6]))
    assert bits(ensemble) == before


def test_no_rows_and_no_labels_are_neither_an_error_nor_a_trace() -> None:
    """As on a day without orders."""
    ensemble = _observed(live())
    before = bits(ensemble)
    assert str(ensemble.answer(X[:0])) == "0 rows, 3 coordinates"
    assert ensemble.decide(X[:0], ids=[]).shape == (0, D)
    ensemble.observe([], Y[:0])
    assert bits(ensemble) == before


IDS: dict[str, tuple[Any, list[Any]]] = {
    "whole numbers": (np.arange(5, 8), [[5, 6, 7], range(5, 8), np.array([5, 6, 7], dtype=np.int32), [5.0, 6.0, 7.0]]),
    "numbers of numpy in a list": (np.arange(5, 8), [list(np.arange(5, 8)), list(np.arange(5.0, 8.0))]),
    "negative numbers": ([-1, -2, 3], [np.array([-1, -2, 3]), [np.int8(-1), np.int16(-2), np.int64(3)]]),
    "numbers": ([0.5, 1.0, 2.25], [np.array([0.5, 1.0, 2.25]), [0.5, 1, 2.25]]),
    "text": (
        ["a", "b", "c"],
        [np.array(["a", "b", "c"]), np.array(["a", "b", "c"], dtype=object), [*np.array(list("abc"))]],
    ),
    "tuples": ([("a", 1), ("b", 2), ("c", 3)], [[("a", np.int64(1)), ("b", 2.0), (np.str_("c"), 3)]]),
    "days": (
        np.array(["2024-01-01", "2024-01-02", "2024-01-03"], dtype="datetime64[D]"),
        [np.array(["2024-01-01", "2024-01-02", "2024-01-03"], dtype="datetime64[ns]")],
    ),
}


@pytest.mark.parametrize("kind", IDS)
def test_equal_ids_are_the_same_row_however_they_are_given(kind: str) -> None:
    ids, others = IDS[kind]
    for other in [ids, *others]:
        ensemble = live(refit="never")
        ensemble.answer(X[:3], ids=ids)
        ensemble.observe(other, Y[:3])
        assert ensemble.rows_ == 3


def test_ids_that_look_alike_are_different_rows() -> None:
    ensemble = live(refit="never")
    ensemble.answer(X[:4], ids=[1, "1", ("1",), (1,)])
    ensemble.observe([("1",), 1], Y[:2])
    assert ensemble.open_["id"].tolist() == ["1", (1,)]


def test_times_are_told_apart_to_the_nanosecond() -> None:
    ensemble = live(refit="never")
    times = np.datetime64("2024-01-01T00:00:00", "ns") + np.arange(3)
    ensemble.answer(X[:3], ids=times)
    ensemble.observe(times[1:2], Y[1:2])
    assert ensemble.rows_ == 1


def test_open_rows_are_shown_as_they_were_named() -> None:
    ensemble = live(refit="never")
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]")
    ensemble.answer(X[:2], ids=days)
    assert [np.datetime64(each) for each in ensemble.open_["id"]] == days.tolist() or (
        ensemble.open_["id"].to_numpy().astype("datetime64[ns]") == days
    ).all()
    assert "2024" in str(ensemble.open_["id"][0])
    with pytest.raises(InputError, match="2025"):
        ensemble.observe(days[:1] + np.timedelta64(366, "D"), Y[:1])


def test_labels_in_other_units_are_told_before_they_are_learned_from() -> None:
    ensemble = _observed(live(refit="never"))
    before, labels = bits(ensemble), Y[N + 10 : N + 20].copy()
    labels[3, 1] = 1e3 * np.abs(Y[:N]).max()
    with pytest.warns(
        DataWarning, match=r"a label of row 13 is .* in absolute value; the largest in the fit was .*Check"
    ):
        ensemble.copy().observe(range(10, 20), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        with pytest.raises(DataWarning):
            ensemble.observe(range(10, 20), labels)
    assert bits(ensemble) == before


# Rows that stay open


def test_rows_that_lack_labels_stay_open() -> None:
    ensemble, other = live(refit=60), live(refit=60)
    for each in (ensemble, other):
        each.answer(X[:100])
    labels = Y[:100].copy()
    labels[::3, 1], labels[30] = np.nan, np.nan
    ensemble.observe(range(100), labels, missing_labels="drop", sample_weight=np.arange(100.0))
    there = np.flatnonzero(~np.isnan(labels).any(axis=1))
    other.observe(there, Y[there], sample_weight=np.arange(100.0)[there])
    assert bits(ensemble) == bits(other)
    assert ensemble.open_["number"].tolist() == np.flatnonzero(np.isnan(labels).any(axis=1)).tolist()
    ensemble.observe(range(100), Y[:100])
    assert ensemble.open_.empty
    assert ensemble.rows_ == 100
    ensemble.observe([], np.empty((0, D))).observe([0], np.full((1, D), np.nan), missing_labels="drop")
    assert ensemble.rows_ == 100


def test_labels_of_a_frame_are_found_by_their_names() -> None:
    from tests.ensembles.live import fitted_on_columns, table

    left, right = (oe.LiveEnsemble(fitted_on_columns(), refit="never") for _ in range(2))
    for each in (left, right):
        each.answer(table(slice(0, 50)))
    left.observe(range(50), Y[:50])
    right.observe(range(50), named(slice(0, 50))[["sea", "air", "rail"]].set_axis(range(50, 0, -1)))
    assert bits(left) == bits(right)
    with pytest.raises(InputError, match="'sea'"):
        right.observe(range(50), named(slice(0, 50)).rename(columns={"sea": "see"}))


def test_open_rows_are_listed() -> None:
    diary = Diary(live(refit="never"))
    answers = [diary.decide(now) for now in ([400, 401, 402], [403, 404, 405])]
    diary.observe([401, 404, 405])
    shown = diary.live.open_
    assert shown["id"].tolist() == [400, 402, 403]
    assert shown["number"].tolist() == [0, 2, 3]
    assert shown["age"].tolist() == [5, 3, 2]
    promised = np.concatenate([each.promised for each in answers])
    np.testing.assert_array_equal(shown["promised"], promised[[0, 2, 3]])
    assert diary.live.decided_ == 6


@settings(max_examples=25, deadline=None)
@having(st.integers(1, 40), st.lists(st.integers(1, 17), min_size=3, max_size=12), st.integers(0, 2**32 - 1))
def test_rows_that_wait_too_long_are_given_up_and_counted(after: int, batches: list[int], seed: int) -> None:
    rng, diary = np.random.default_rng(seed), Diary(live(refit="never", expire_after=after))
    done, gone, row = set[int](), set[int](), N
    for size in batches:
        now = list(range(row, row + min(size, after)))  # the diary looks at rows once they were decided
        row = now[-1] + 1
        diary.decide(now)
        gone |= {each for each in range(N, row) if row - 1 - each >= after and each not in done}
        left = sorted(set(range(N, row)) - done - gone)
        assert diary.live.open_["id"].tolist() == left
        assert diary.live.expired_ == len(gone)
        assert diary.live.decided_ == len(done) + len(left) + len(gone)
        here = [each for each in left if rng.random() < 0.5]
        if here:
            diary.observe(here)
            done |= set(here)
    if done:
        diary.check()
    assert (diary.live.certificate()["expired"] == len(gone)).all()
    if gone:
        late = sorted(gone)[:1]
        before = bits(diary.live)
        with pytest.raises(InputError, match=f"1 of these 1 rows have expired: {late[0]}. .*larger expire_after"):
            diary.live.observe(late, Y[late])
        with pytest.raises(InputError, match=f"given to rows decided before: {late[0]}"):
            diary.live.answer(X[:1], ids=late)
        assert bits(diary.live) == before


def test_a_batch_may_be_longer_than_rows_may_wait() -> None:
    ensemble = live(refit="never", expire_after=4)
    assert len(ensemble.answer(X[:10]).actions) == 10
    assert ensemble.open_["id"].tolist() == [6, 7, 8, 9]
    assert (ensemble.decided_, ensemble.expired_) == (10, 6)


def test_long_ago_rows_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optensemble.ensembles._live_rows.REMEMBERED", 10)
    ensemble = live(refit="never")
    ensemble.answer(X[:30])
    ensemble.observe(range(30), Y[:30])
    ensemble.observe(range(20, 30), Y[20:30])
    with pytest.raises(InputError, match="1 of these 1 ids are of no open row: 19"):
        ensemble.observe([19], Y[19:20])


# Failures part way


class BrokenError(Exception):
    """A fault."""


@pytest.mark.parametrize("where", [OnlineStack.learn, Monitor.observe], ids=lambda each: each.__qualname__)
@pytest.mark.parametrize("error", [BrokenError, KeyboardInterrupt])
def test_a_fault_part_way_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, where: Any, error: type[BaseException]
) -> None:
    def broken(*_: Any) -> None:
        raise error

    owner: Any = {OnlineStack.learn: OnlineStack, Monitor.observe: Monitor}[where]
    ensemble, good = _observed(live(refit=15)), _observed(live(refit=15))
    before = bits(ensemble)
    with monkeypatch.context() as patched:
        patched.setattr(owner, where.__name__, broken)
        with pytest.raises(error):
            ensemble.observe(range(5, 20), Y[N + 5 : N + 20])
    assert bits(ensemble) == before
    for each in (ensemble, good):
        each.observe(range(5, 20), Y[N + 5 : N + 20])
    assert bits(ensemble) == bits(good)
    assert told(ensemble.answer(X[AFTER])) == told(good.answer(X[AFTER]))


def test_foresight_that_cannot_be_solved_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    diary = Diary(live(refit="never"))
    diary.decide(list(range(N, N + 30)))

    def unsolved(*_: Any, **__: Any) -> None:
        raise SolverError("no solution")

    with monkeypatch.context() as patched:
        patched.setattr(type(problem().omega), "argmax", unsolved)
        diary.observe(list(range(N, N + 30)))
    history = diary.live.history_
    policies = history[list(diary.live.policies_)].max(axis=1)
    np.testing.assert_allclose(history["foresight"], np.maximum(policies, history["earned"]))


FAILURES: dict[str, Any] = {
    "a ValueError": lambda C: _raise(ValueError("coefficients are too large")),
    "a RuntimeError": lambda C: _raise(RuntimeError("no solution")),
    "NaN": lambda C: np.full(C.shape, np.nan),
    "an action outside the set": lambda C: np.full(C.shape, 5.0),
    "actions of another shape": lambda C: np.zeros((1, 1)),
}


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("refit", ["never", 30])
@pytest.mark.parametrize("name", FAILURES)
def test_an_oracle_that_fails_for_labels_does_not_stop_learning(name: str, refit: Any) -> None:
    """Only foresight asks it for these; labels are larger than what members say."""
    largest = np.abs(problem().P).max()

    def argmax(C: Any) -> Any:
        return FAILURES[name](C) if np.abs(C).max(initial=0.0) > largest else (C > 0) * 1.0

    fit = oe.DecisionEnsemble(problem().models, feasible=feasible.Oracle(argmax, D, convex=True), context=None)
    labels = np.clip(Y, -0.5 * largest, 0.5 * largest)
    followed = oe.LiveEnsemble(fit.fit(X[:N], labels[:N]), refit=refit)
    labels[N + 3, 0] = 1.5 * largest
    followed.answer(X[N : N + 20])
    followed.observe(range(20), labels[N : N + 20])
    assert followed.rows_ == 20
    history = followed.history_
    best = np.maximum(history[list(followed.policies_)].max(axis=1), history["earned"])
    np.testing.assert_array_equal(history["foresight"][3], best[3])
    assert np.isfinite(history.to_numpy()).all()
    followed.answer(X[N + 20 : N + 30])
    assert followed.observe(range(20, 30), labels[N + 20 : N + 30]).rows_ == 30
