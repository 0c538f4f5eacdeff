"""The log of a LiveEnsemble, in SQLite and in PostgreSQL: what it keeps, finds, refuses, exports and prunes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.ensembles import _live_rows
from optensemble.exceptions import InputError, LogError, OptEnsembleError
from tests.ensembles.decision import N, fitted
from tests.ensembles.live import LABELS, bits, told
from tests.log.logged import X, Y, begun, play

New = Callable[[], str]


def ids(rows: range) -> list[str]:
    return [f"row {row}" for row in rows]


def test_what_is_asked_again_is_what_was_decided(new_log: New) -> None:
    rows = range(N, N + 10)
    with begun(new_log()) as live:
        first = live.answer(X.iloc[rows], ids=ids(rows))
        play(live, N + 10, N + 100, late=0)
        state = bits(live)
        again = live.answer(X.iloc[rows], ids=ids(rows))
        assert told(again) == told(first)
        assert list(again.ids) == list(first.ids)
        backwards = live.decide(X.iloc[rows][::-1], ids=ids(rows)[::-1])
        assert backwards.to_numpy().tolist() == first.actions[::-1].tolist()
        assert bits(live) == state


def test_old_rows_and_new_ones_may_come_in_one_call(new_log: New) -> None:
    with begun(new_log()) as live, begun(new_log()) as other:
        early = live.answer(X.iloc[N : N + 6], ids=ids(range(N, N + 6)))
        other.answer(X.iloc[N : N + 6], ids=ids(range(N, N + 6)))
        mixed = [N + 7, N + 2, N + 6, N]
        found = live.answer(X.iloc[mixed], ids=[f"row {row}" for row in mixed])
        new = other.answer(X.iloc[[N + 7, N + 6]], ids=["row 407", "row 406"])
        assert found.actions.tolist() == [
            each.tolist() for each in (new.actions[0], early.actions[2], new.actions[1], early.actions[0])
        ]
        assert found.promised[[1, 3]].tolist() == early.promised[[2, 0]].tolist()
        assert list(live.open_["id"]) == list(other.open_["id"])
        assert bits(live) == bits(other)


def test_another_row_under_the_same_id_is_refused(new_log: New) -> None:
    with begun(new_log()) as live:
        live.answer(X.iloc[N : N + 6], ids=ids(range(N, N + 6)))
        state = bits(live)
        with pytest.raises(
            InputError, match=r"2 of these 3 ids were given to other rows before: 'row 401', 'row 402'\. "
        ):
            live.answer(X.iloc[[N, N + 8, N + 9]], ids=["row 400", "row 401", "row 402"])
        with pytest.raises(InputError, match="ids must be distinct"):
            live.answer(X.iloc[[N + 8, N + 9]], ids=["new", "new"])
        assert bits(live) == state


def test_ids_that_memory_has_forgotten_are_found_in_the_log(new_log: New, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live_rows, "REMEMBERED", 20)
    with begun(new_log()) as live:
        first = live.answer(X.iloc[N : N + 10], ids=range(N, N + 10))
        live.observe(range(N, N + 10), Y[N : N + 10])
        play(live, N + 10, N + 80, late=0)
        assert not len(live.open_)
        state = bits(live)
        assert told(live.answer(X.iloc[N : N + 10], ids=range(N, N + 10))) == told(first)
        with pytest.raises(InputError, match="were given to other rows before"):
            live.answer(X.iloc[N + 1 : N + 11], ids=range(N, N + 10))
        assert bits(live) == state


def test_rows_without_ids_are_numbered(new_log: New) -> None:
    where = new_log()
    with begun(where) as live:
        assert list(live.answer(X.iloc[N : N + 3]).ids) == [0, 1, 2]
        assert list(live.answer(X.iloc[N : N + 3]).ids) == [3, 4, 5]
    with oe.LiveEnsemble.resume(where) as again:
        assert list(again.answer(X.iloc[N : N + 2]).ids) == [6, 7]


def test_the_latest_decisions_are_those_that_were_told_with_their_outcomes(new_log: New) -> None:
    before = datetime.now(UTC)
    with begun(new_log(), refit="never") as live:
        answers = {}
        for start in range(N, N + 40, 8):
            answers[start] = live.answer(X.iloc[start : start + 8], ids=ids(range(start, start + 8)))
        known = [N + 30, N + 3, N + 17]
        live.observe([f"row {row}" for row in known], Y[known])
        found = live.log.latest(100)
        assert [each.id for each in found] == ids(range(N, N + 40))[::-1]
        assert [each.id for each in live.log.latest(11)] == ids(range(N + 29, N + 40))[::-1]
        assert live.log.latest(0) == []
        for each in found:
            row = int(each.id.removeprefix("row "))
            answer, at = answers[N + (row - N) // 8 * 8], (row - N) % 8
            assert each.number == row - N
            assert each.action.tolist() == answer.actions[at].tolist()
            assert (each.promised, each.low, each.high) == (answer.promised[at], answer.low[at], answer.high[at])
            assert each.weights.tolist() == answer.chosen[at].tolist()
            np.testing.assert_allclose(each.weights @ each.proposed, each.action)
            assert before <= each.at <= datetime.now(UTC)
            if row in known:
                assert each.label is not None
                assert each.label.tolist() == Y[row].tolist()
                assert each.realised == pytest.approx(float(answer.actions[at] @ Y[row]))
                assert each.labelled_at is not None
                assert each.labelled_at >= each.at
            else:
                assert each.label is each.realised is each.labelled_at is None


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_an_export_has_a_row_for_each_decision(ending: str, new_log: New, tmp_path: Path) -> None:
    path = tmp_path / f"decisions.{ending}"
    with begun(new_log()) as live:
        assert live.log.export(path) == 0
        play(live, N, N + 100, size=5)
        assert live.log.export(path) == 100
        table = pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path)
        assert table["id"].astype(int).tolist() == list(range(N, N + 100))
        assert table["number"].tolist() == list(range(100))
        found = {each.number: each for each in live.log.latest(100)}
        actions = table[[f"action_{name}" for name in LABELS]].to_numpy()
        np.testing.assert_allclose(actions, [found[number].action for number in range(100)], rtol=1e-12, atol=1e-15)
        known = table["realised"].notna()
        assert int(known.sum()) == live.rows_
        labels = table.loc[known, [f"label_{name}" for name in LABELS]].to_numpy()
        np.testing.assert_allclose(labels, Y[N : N + 100][known], rtol=1e-12)
        np.testing.assert_allclose((actions[known] * labels).sum(axis=1), table.loc[known, "realised"], rtol=1e-9)
        assert table.loc[known, "realised"].sum() == pytest.approx(live.history_["earned"].sum())
        weights = table[[f"weight_{name}" for name in live.policies_]]
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)


def test_an_export_never_overwrites_the_log(tmp_path: Path) -> None:
    with (
        begun(tmp_path / "log.parquet") as live,
        pytest.raises(InputError, match="is an input, and would be overwritten"),
    ):
        live.log.export(tmp_path / "log.parquet")


def test_what_is_old_is_pruned_and_counted(new_log: New) -> None:
    where = new_log()
    with begun(where) as live:
        play(live, N, N + 200)
        assert len(live.refits_) >= 2
        opened, state = set(live.open_["id"]), bits(live)
        nothing = live.log.prune(1.0)
        assert (nothing.rows, nothing.entries) == (0, 0)
        pruned = live.log.prune(0.0)
        counts = live.log.counts()
        assert 50 < pruned.rows < 180
        assert (counts.pruned_rows, counts.pruned_entries) == (pruned.rows, pruned.entries)
        assert counts.decisions == 200
        left = {each.id for each in live.log.latest(200)}
        assert len(left) == 200 - pruned.rows
        assert opened <= left
        again = live.log.prune(0.0)
        assert (again.rows, again.entries) == (0, 0)
        with pytest.raises(
            InputError, match=r"10 of these 10 rows were decided before, and their decisions are no longer"
        ):
            live.answer(X.iloc[N : N + 10], ids=range(N, N + 10))
        assert bits(live) == state
    with oe.LiveEnsemble.resume(where) as resumed:
        assert bits(resumed) == state
        play(resumed, N + 200, N + 300)
    with pytest.raises(InputError, match="keep_days"), oe.LiveEnsemble.resume(where) as resumed:
        resumed.log.prune(-1.0)


def test_a_log_that_is_only_read_changes_nothing(new_log: New) -> None:
    where = new_log()
    with begun(where, refit_in="asked") as live:
        play(live, N, N + 100)
        with oe.LiveEnsemble.resume(where, read_only=True) as seen:
            assert bits(seen) == bits(live)
            assert seen.refit_due_ == live.refit_due_ != ""
            assert [each.id for each in seen.log.latest(3)] == [N + 99, N + 98, N + 97]
            for call in (
                lambda: seen.answer(X.iloc[:1]),
                lambda: seen.observe([N + 99], Y[N + 99 : N + 100]),
                seen.refit_now,
                lambda: seen.log.prune(1.0),
            ):
                with pytest.raises(LogError, match=r"was opened to be read only\. Resume from it without read_only"):
                    call()
        play(live, N + 100, N + 120)


def test_a_closed_ensemble_tells_what_it_knows_and_decides_no_more(new_log: New) -> None:
    live = play(begun(new_log()), N, N + 40)
    state = bits(live)
    live.close()
    live.close()
    assert bits(live) == state
    for call in (lambda: live.answer(X.iloc[:1]), lambda: live.observe([N], Y[:1]), lambda: live.log.latest(1)):
        with pytest.raises(LogError, match=r"was closed\. Resume from it: LiveEnsemble\.resume"):
            call()


def test_a_log_is_begun_once(new_log: New) -> None:
    where = new_log()
    begun(where).close()
    with pytest.raises(InputError, match=r"has a log in it already\. Go on with it: LiveEnsemble\.resume"):
        begun(where)
    with oe.LiveEnsemble.resume(where) as live:
        assert live.decided_ == 0


def test_a_copy_has_no_log(new_log: New) -> None:
    with begun(new_log(), refit_in="background") as live:
        play(live, N, N + 40)
        copy = live.copy()
        assert copy.log is None
        play(copy, N + 40, N + 80)
        assert live.decided_ == live.log.counts().decisions == 40
        copy.close()
        assert live.answer(X.iloc[:1]).actions.shape == (1, 3)


def test_every_commit_is_an_entry(new_log: New) -> None:
    with begun(new_log()) as live:
        play(live, N, N + 100, late=0)
        counts, size = live.log.counts(), live.log.counts().bytes
        assert (counts.decisions, counts.labels) == (100, 100)
        assert counts.entries == 10 + 10 + 2 * len(live.refits_)
        assert counts.checkpoints == 2
        assert counts.first_at is not None
        assert counts.last_at is not None
        assert counts.first_at <= counts.last_at
        assert size > 10_000


def test_nothing_at_all_is_no_entry(new_log: New) -> None:
    with begun(new_log()) as live:
        live.answer(X.iloc[:0], ids=[])
        live.observe([], np.empty((0, 3)))
        assert live.log.counts().entries == 0


def test_refits_in_the_background_take_over_at_the_same_row_again(new_log: New, tmp_path: Path) -> None:
    where = new_log()
    with begun(where, refit_in="background") as live:
        for start in range(N, N + 300, 10):
            play(live, start, start + 10, late=0)
            if live._now.running is not None and start % 40 == 0:
                live._now.running.wait()
        state, refits = bits(live), live.refits_
    assert len(refits) >= 2
    with oe.LiveEnsemble.resume(where, read_only=True) as seen:
        assert bits(seen) == state
    with oe.LiveEnsemble.resume(where) as again:
        assert again.refit_in == "background"
        play(again, N + 300, N + 350)


def test_the_background_needs_a_log() -> None:
    with pytest.raises(InputError, match=r"refit_in='background' needs a log, which tells when a refit took over"):
        oe.LiveEnsemble(fitted(), refit_in="background")


def test_a_refit_may_wait_to_be_asked_for(new_log: New) -> None:
    where = new_log()
    with begun(where, refit_in="asked") as live:
        play(live, N, N + 40, late=0)
        assert live.refit_due_ == ""
        play(live, N + 40, N + 100, late=0)
        assert live.refit_due_ == "100 new labels"
        assert not len(live.refits_)
        live.refit_now()
        assert live.refit_due_ == ""
        assert live.refits_[["why", "rows"]].to_numpy().tolist() == [["100 new labels", 500]]
        live.refit_now()
        assert len(live.refits_) == 1
        play(live, N + 100, N + 110, late=0)
        live.refit_now()
        assert live.refits_["why"].tolist() == ["100 new labels", "asked for"]
        state = bits(live)
    with oe.LiveEnsemble.resume(where, refit_in="call") as again:
        assert bits(again) == state
        play(again, N + 110, N + 180, late=0)
        assert len(again.refits_) == 3


def test_what_never_refits_says_so(new_log: New) -> None:
    with begun(new_log(), refit="never") as live, pytest.raises(InputError, match="does not refit"):
        live.refit_now()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_does_not_write_for_its_parent(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db") as live:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                live.answer(X.iloc[:1], ids=["child"])
                said = "it wrote"
            except LogError as error:
                said = str(error)
            except BaseException as error:
                said = repr(error)
            os.write(writes, said.encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert "was opened before this process was forked" in os.read(reads, 1000).decode()
        live.answer(X.iloc[:1], ids=["parent"])
        assert [each.id for each in live.log.latest(9)] == ["parent"]


def test_it_is_not_pickled(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db") as live, pytest.raises(InputError, match="cannot be pickled"):
        pickle.dumps(live)


def test_errors_number_rows_as_they_were_given(tmp_path: Path) -> None:
    """Though some were decided before, and only the others are looked at again."""
    rows = X.iloc[N : N + 4].assign(limit=[0.5, 0.6, np.nan, 0.7])
    members = [("m0", oe.Columns([f"m0_{j}" for j in range(3)]))]
    upper = oe.feasible.Box(upper=lambda X: np.repeat(X[["limit"]].to_numpy(), 3, axis=1), dimension=3)
    fit = oe.DecisionEnsemble(members, feasible=upper, context=None).fit(X.iloc[:N].assign(limit=0.5), Y[:N])
    with oe.LiveEnsemble(fit, refit="never", log=tmp_path / "log.db") as live:
        live.answer(rows.iloc[:2], ids=[0, 1])
        with pytest.raises(OptEnsembleError) as alone:
            live.answer(rows, ids=[5, 6, 7, 8])
        with pytest.raises(OptEnsembleError) as mixed:
            live.answer(rows, ids=[0, 1, 2, 3])
        assert alone.value.rows is not None
        assert mixed.value.rows is not None
        assert alone.value.rows[1:] == mixed.value.rows[1:] == (2, 1)
