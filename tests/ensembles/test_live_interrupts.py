"""An interrupt at any line of a call: the call has taken place as a whole or not at all, and may be repeated."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.ensembles._live_rows import Change, Ledger
from optensemble.exceptions import InputError
from tests.ensembles.decision import N, problem
from tests.ensembles.live import bits, live, told

X, Y = problem().X, problem().Y
TRACED = (
    *("live.py", "monitor.py", "_live_state.py", "_live_rows.py", "_live_refits.py"),
    *("_live_refitting.py", "decision_log.py", "sqlite.py"),
)

Call = Callable[[oe.LiveEnsemble], Any]


WAYS: dict[str, dict[str, Any]] = {
    "never": {"refit": "never"},
    "in the call": {"refit": 20},
    "in a thread": {"refit": 20, "refit_in": "thread"},
}


def begun(**parameters: Any) -> oe.LiveEnsemble:
    """Some rows are open, of some the labels have come; a call of observe then makes a refit due."""
    ensemble = live(expire_after=60, **parameters)
    for start in range(N, N + 80, 10):
        ensemble.answer(X[start : start + 10], ids=range(start, start + 10))
    return ensemble.observe(range(N + 30, N + 45), Y[N + 30 : N + 45])


def observe(ensemble: oe.LiveEnsemble) -> Any:
    return ensemble.observe(range(N + 52, N + 66), Y[N + 52 : N + 66])


def answer(ensemble: oe.LiveEnsemble) -> Any:
    return ensemble.answer(X[N + 80 : N + 90], ids=range(N + 80, N + 90))


def interrupted(ensemble: oe.LiveEnsemble, call: Call, at: int) -> bool:
    """Make a call with an interrupt before the line that is the so many-th; return whether it came."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(TRACED):
            return None
        if event == "line":
            lines += 1
            if lines == at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(ensemble)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def all_lines(make: Callable[[], oe.LiveEnsemble], call: Call, every: int = 1) -> Iterator[oe.LiveEnsemble]:
    """Yield an ensemble for every line of a call, or one in so many, at which it was interrupted."""
    at = 1
    while interrupted(ensemble := make(), call, at):
        yield ensemble
        at += every


def go_on(ensemble: oe.LiveEnsemble) -> list[Any]:
    """What the ensemble says of later rows, and all that it then knows."""
    later = told(ensemble.answer(X[N + 100 : N + 140], ids=range(N + 100, N + 140)))
    ensemble.observe(range(N + 100, N + 140), Y[N + 100 : N + 140])
    return [later, bits(ensemble)]


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupted_observe_is_made_up_for_by_the_same_call(way: str) -> None:
    """Labels given again are passed over: those that the interrupt let through count once."""
    parameters, every = WAYS[way], 1 if way == "never" else 3
    clean = begun(**parameters)
    observe(clean)
    expected, count = go_on(clean), 0
    for ensemble in all_lines(lambda: begun(**parameters), observe, every):
        count += 1
        try:
            observe(ensemble)
        except KeyboardInterrupt:  # it came while the refit was made, and is told where that is taken up
            observe(ensemble)
        made = [each for each in ensemble.refits_["outcome"] if not each.startswith("failed: KeyboardInterrupt")]
        if len(made) == len(ensemble.refits_):
            assert go_on(ensemble) == expected, count
        else:
            assert ensemble.rows_ == clean.rows_ - 40
    assert count > 40


@pytest.mark.slow
@pytest.mark.no_cover
def test_an_interrupted_answer_leaves_no_row_open() -> None:
    clean = begun(refit="never")
    answer(clean)
    expected, count, late = go_on(clean), 0, 0
    for ensemble in all_lines(lambda: begun(refit="never"), answer):
        count += 1
        try:
            answer(ensemble)
        except InputError:  # it came when all was done, while the answer was on its way
            late += 1
        assert go_on(ensemble) == expected, count
    assert count > 40
    assert late <= 6


def test_what_is_read_meanwhile_belongs_together() -> None:
    """Another thread that looks on sees certificates whose numbers are of one moment."""
    ensemble, torn, done = live(refit="never"), list[str](), threading.Event()

    def look() -> None:
        while not done.is_set():
            certificate, opened = ensemble.certificate(), ensemble.open_
            rows = int(certificate["rows"].iloc[0])
            if rows and not np.allclose(certificate["lost_per_row"] * rows, certificate["lost"]):
                torn.append(f"{rows} rows")
            if opened.isna().to_numpy().any():
                torn.append("open rows")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            for start in range(N, 2 * N - 4, 4):
                ensemble.answer(X[start : start + 4], ids=range(start, start + 4))
                if start % 3:
                    ensemble.observe(range(start, start + 4), Y[start : start + 4])
            done.set()
            looking.result()
    finally:
        sys.setswitchinterval(before)
    assert torn == []


def test_warnings_are_told_after_labels_were_observed_in_several_threads() -> None:
    filters = warnings.filters[:]

    def play(ensemble: oe.LiveEnsemble) -> None:
        for start in range(N, 2 * N, 5):
            ensemble.answer(X[start : start + 5], ids=range(start, start + 5))
            ensemble.observe(range(start, start + 5), Y[start : start + 5])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(play, [live(refit="never") for _ in range(4)]))
    assert warnings.filters == filters


def test_a_thread_that_cannot_be_started_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    aside, usual = (begun(refit=20, refit_in="thread") for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        observe(aside)
    observe(usual)
    assert go_on(aside) == go_on(usual)
    for each in (aside, usual):
        each.answer(X[:5], ids=range(5))
    assert len(usual.refits_) == 1
    assert bits(aside) == bits(usual)


def test_a_callable_may_observe_labels_itself() -> None:
    asked = list[int]()

    def refit(ensemble: oe.LiveEnsemble) -> bool:
        asked.append(ensemble.rows_)
        if len(asked) == 1:
            ensemble.observe(range(N + 66, N + 70), Y[N + 66 : N + 70])
        return True

    ensemble = begun(refit=refit)
    assert asked == [15]
    assert ensemble.refits_["labels"].tolist() == [19]


EMPTY = np.empty((0, 3))
READ: dict[str, Callable[[oe.LiveEnsemble], Any]] = {
    "rows_": lambda each: each.rows_,
    "decided_": lambda each: each.decided_,
    "expired_": lambda each: each.expired_,
    "correction_": lambda each: each.correction_,
    "weights_": lambda each: each.weights_.tolist(),
    "certificate": lambda each: str(each.certificate().to_dict("list")),
    "open_": lambda each: str(each.open_.to_dict("list")),
    "history_": lambda each: str(each.history_.to_dict("list")),
    "refits_": lambda each: str(each.refits_.to_dict("list")),
    "refitted_": lambda each: each.refitted_.n_rows_,
    "finding_": lambda each: each.finding_,
    "repr": repr,
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("call", [observe, answer])
def test_what_is_read_after_an_interrupt_is_what_the_next_call_goes_on_from(
    call: Call, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came when the rows had changed, and nothing else."""
    ensemble, read, apply = begun(refit="never"), READ[name], Ledger.apply

    def interrupted_at_the_end(ledger: Ledger, change: Change) -> None:
        apply(ledger, change)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "apply", interrupted_at_the_end)
        with pytest.raises(KeyboardInterrupt):
            call(ensemble)
    found = read(ensemble)
    everything = bits(ensemble)
    ensemble.observe([], EMPTY)
    assert read(ensemble) == found
    assert bits(ensemble) == everything


@pytest.mark.no_cover
@pytest.mark.parametrize("name", READ)
def test_what_is_read_after_a_commit_was_broken_off_is_as_if_it_had_not_been(name: str) -> None:
    clean, read = begun(refit="never"), READ[name]
    observe(clean)
    for at in range(1, 1000):
        ensemble = begun(refit="never")
        if interrupted(ensemble, observe, at) and ensemble._pending is not None:
            break
    assert ensemble._pending is not None
    assert read(ensemble) == read(clean)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("call", [observe, answer])
def test_after_an_interrupt_at_any_line_one_moment_is_told(call: Call) -> None:
    count = 0
    for ensemble in all_lines(lambda: begun(refit="never"), call):
        count += 1
        rows, decided, text = ensemble.rows_, ensemble.decided_, repr(ensemble)
        certificate, opened = ensemble.certificate(), ensemble.open_
        assert certificate["rows"].tolist() == [rows] * 2
        assert certificate["open"].tolist() == [len(opened)] * 2
        assert f"{rows} rows learned from, {len(opened)} open" in text
        assert decided == rows + len(opened) + ensemble.expired_
        assert (opened["age"] == decided - 1 - opened["number"]).all()
        everything = bits(ensemble)
        ensemble.observe([], EMPTY)
        assert bits(ensemble) == everything, count
    assert count > 40
