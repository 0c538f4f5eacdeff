"""What goes wrong while a log is written: memory and log stay one, and what could not be read is never kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.ensembles._live_log import Learned
from optensemble.ensembles._live_refits import Arrived
from optensemble.exceptions import InputError, LogError, RefitWarning
from optensemble.log import decision_log
from optensemble.log.database import open_database
from optensemble.log.sql import SqlDatabase
from tests.ensembles.decision import N
from tests.ensembles.live import bits
from tests.log.logged import X, Y, after_a_crash, begun, changed, play


def resumed(where: Any, **given: Any) -> Any:
    with oe.LiveEnsemble.resume(where, read_only=True, **given) as live:
        return bits(live)


def with_limits(tmp_path: Path, **terms: Any) -> oe.LiveEnsemble:
    members = [("m0", oe.Columns([f"m0_{j}" for j in range(3)]))]
    upper = oe.feasible.Box(upper=lambda X: np.repeat(X[["limit"]].to_numpy(), 3, axis=1), dimension=3, **terms)
    fit = oe.DecisionEnsemble(members, feasible=upper, context=None)
    fit.fit(X.iloc[:N].assign(limit=0.5), Y[:N])
    return oe.LiveEnsemble(fit, refit="never", log=tmp_path / "log.db")


def test_rows_that_make_no_set_are_read_again(tmp_path: Path) -> None:
    fallback = {"on_failure": "fallback", "fallback": [0.0, 0.0, 0.0]}
    with with_limits(tmp_path, **fallback) as live:
        rows = X.iloc[N : N + 3].assign(limit=[0.5, np.nan, 0.25])
        with pytest.warns(oe.exceptions.FallbackWarning):
            live.answer(rows, ids=[1, 2, 3])
        state, feasible = bits(live), live.ensemble_.feasible_
    assert resumed(tmp_path / "log.db", feasible=feasible) == state


def test_a_refit_that_fails_at_length_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("x" * 20_000)

    with begun(tmp_path / "log.db") as live:
        monkeypatch.setattr(type(live.ensemble_), "_fitted_again", fail)
        with pytest.warns(RefitWarning, match="failed"):
            play(live, N, N + 80, late=0)
        state = bits(live)
    assert resumed(tmp_path / "log.db") == state


def test_what_could_not_be_read_is_not_kept(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db") as live:
        live.answer(X.iloc[N : N + 2], ids=[1, 2])
        numbers, labels = np.arange(2), np.full((2, 3), np.inf)
        with pytest.raises(InputError, match=r"a log cannot hold this: labels must hold numbers"):
            live.log.append(Learned(Arrived(numbers, None, labels, None, None), np.zeros(2)))
        assert live.log.counts().entries == 1
        live.answer(X.iloc[N + 2 : N + 4], ids=[3, 4])
        assert resumed(tmp_path / "log.db") == bits(live)


def test_a_checkpoint_that_could_not_be_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise LookupError("no room")

    with begun(tmp_path / "log.db") as live:
        monkeypatch.setattr(decision_log, "check_live", refuse)
        with pytest.warns(
            RefitWarning, match=r"holds no checkpoint of the present state \(a file cannot hold its state"
        ):
            play(live, N, N + 100, late=0)
        assert live.log.counts().checkpoints == 1
        monkeypatch.undo()
        state = bits(live)
    assert resumed(tmp_path / "log.db") == state


def test_a_commit_whose_answer_was_lost_is_found(new_log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database has it, and the process was told that it has not."""
    where = new_log()
    with begun(where) as live:
        play(live, N, N + 20, late=0)
        database = live.log._database
        writing = database.writing

        @contextmanager
        def lost() -> Iterator[Any]:
            with writing() as transaction:
                yield transaction
            raise LogError("the connection was lost.")

        monkeypatch.setattr(database, "writing", lost)
        with pytest.raises(LogError, match="lost"):
            live.answer(X.iloc[N + 20 : N + 30], ids=range(N + 20, N + 30))
        assert live.decided_ == 20, "as far as this process can tell"
        monkeypatch.undo()
        found = live.answer(X.iloc[N + 20 : N + 30], ids=range(N + 20, N + 30))
        assert live.decided_ == 30
        assert found.actions.tolist() == [each.action.tolist() for each in live.log.latest(10)][::-1]
        assert resumed(where) == bits(live)


def test_a_commit_that_never_was_is_made_again(new_log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    where = new_log()
    with begun(where) as live:
        play(live, N, N + 20, late=0)
        database = live.log._database

        @contextmanager
        def broken() -> Iterator[Any]:
            raise LogError("there is no connection.")
            yield

        monkeypatch.setattr(database, "writing", broken)
        for first in (N + 20, N + 30):
            with pytest.raises(LogError, match="no connection"):
                live.answer(X.iloc[first : first + 10], ids=range(first, first + 10))
        assert live.rows_ == live.decided_ == 20
        assert "20 rows learned from" in repr(live)
        monkeypatch.undo()
        live.answer(X.iloc[N + 30 : N + 40], ids=range(N + 30, N + 40))
        assert resumed(where) == bits(live)
        assert live.decided_ == 30


def test_entries_that_are_gone_are_noticed_at_once(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db") as live:
        play(live, N, N + 20, late=0)
        changed(tmp_path / "log.db", "DELETE FROM oe_entry WHERE seq = 4")
        with pytest.raises(LogError, match="ends with entry 3, and this process has written up to entry 4"):
            live.answer(X.iloc[:1], ids=["new"])


def test_a_call_in_the_middle_of_a_call_does_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a handler of signals that looks at the ensemble."""
    with begun(tmp_path / "log.db") as live:
        seen, insert = list[int](), decision_log._insert

        def interrupted(*given: Any) -> None:
            signal.raise_signal(signal.SIGALRM)
            insert(*given)

        before = signal.signal(signal.SIGALRM, lambda *_: seen.append(live.rows_))
        monkeypatch.setattr(decision_log, "_insert", interrupted)
        try:
            play(live, N, N + 30, late=0)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert len(seen) == 6
        monkeypatch.undo()
        assert resumed(tmp_path / "log.db") == bits(live)


def test_who_begins_a_log_second_leaves_that_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked while there was none."""
    path = tmp_path / "log.db"
    with begun(path) as first:
        first.answer(X.iloc[:2], ids=[1, 2])
        monkeypatch.setattr("optensemble.log.starting._require_empty", lambda _: None)
        with pytest.raises(LogError, match="already exists"):
            begun(path)
        first.answer(X.iloc[2:4], ids=[3, 4])
        assert path.exists()
    assert oe.LiveEnsemble.resume(path, read_only=True).decided_ == 4


def test_closing_needs_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = play(begun(tmp_path / "log.db"), N, N + 20)

    def gone() -> Any:
        raise LogError("gone.")

    monkeypatch.setattr(live.log._database, "writing", gone)
    with pytest.raises(LogError):
        live.answer(X.iloc[:1], ids=["new"])
    live.close()
    assert live.decided_ == 20
    live.report(tmp_path / "page.html")


def test_a_database_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = changed(tmp_path / "prices.db", "CREATE TABLE prices (day)")
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(LogError, match="has no log in it"):
            oe.LiveEnsemble.resume(path, read_only=read_only)
    assert path.read_bytes() == before


def test_labels_of_rows_that_stay_are_not_pruned(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db", refit=40) as live:
        live.answer(X.iloc[N : N + 10], ids=range(N, N + 10))
        live.observe(range(N, N + 9), Y[N : N + 9])
        play(live, N + 10, N + 150, late=0)
        assert live.log.prune(0.0).rows > 50
        first = [each for each in live.log.latest(1000) if each.id < N + 10]
        assert len(first) == 10
        assert [each.realised is None for each in first] == [True] + [False] * 9


def test_passwords_in_the_query_of_a_url_are_not_shown() -> None:
    shown = SqlDatabase("postgresql://u:one@h/db?password=two&sslpassword=three&application_name=x").name
    assert "one" not in shown
    assert "two" not in shown
    assert "three" not in shown
    assert "application_name=x" in shown


def test_statements_do_not_pile_up(postgres: str) -> None:
    from tests.log.postgres import new_database

    where = new_database(postgres)
    with begun(where) as live:
        for row in range(N, N + 30):
            for _ in range(2):
                live.answer(X.iloc[row : row + 1], ids=[row])
        assert len(live.log._database._statements) < 25
    database = open_database(where)
    with database.reading() as transaction:
        assert transaction.read("SHOW lock_timeout") == [("10s",)]
    database.close()


def test_odd_arguments_are_told(tmp_path: Path) -> None:
    for odd in (5, b"x.db", ["x.db"]):
        with pytest.raises(InputError, match="log must be the path of a file, or a URL"):
            begun(odd)
    with begun(tmp_path / "log.db") as live, pytest.raises(InputError, match="n must be"):
        live.log.latest("x")


def test_a_loaded_ensemble_has_no_log_and_refits_in_a_thread(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db", refit_in="background") as live:
        play(live, N, N + 20)
        live.save(tmp_path / "live.oe")
    assert oe.load(tmp_path / "live.oe").refit_in == "thread"


def test_numbers_that_are_ids_of_others_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optensemble.ensembles._live_rows.REMEMBERED", 5)
    with begun(tmp_path / "log.db", refit="never") as live:
        live.answer(X.iloc[:40], ids=range(40, 80))
        live.observe(range(40, 80), Y[:40])
        with pytest.raises(InputError, match="the numbers of these rows are ids of rows decided before"):
            live.answer(X.iloc[:1])


def test_many_threads_decide_and_look(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db", refit_in="background", refit=60) as live:
        errors = list[BaseException]()

        def work(first: int) -> None:
            try:
                for row in range(first, first + 60):
                    live.answer(X.iloc[row : row + 1], ids=[row])
                    live.observe([row], Y[row : row + 1])
                    live.log.latest(3)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(N + 60 * i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert live.decided_ == live.rows_ == live.log.counts().labels == 300
        state = bits(live)
        copy = after_a_crash(tmp_path / "log.db", tmp_path / "copy.db")
    assert state == resumed(copy)
