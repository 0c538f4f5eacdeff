"""An interrupt at any line of a call, in the log as well: memory and log agree, and the call may be repeated."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import optensemble as oe
from tests.ensembles.decision import N
from tests.ensembles.live import bits, told
from tests.ensembles.test_live_interrupts import interrupted
from tests.log.logged import X, Y, after_a_crash, begun, play


def observe(live: oe.LiveEnsemble) -> Any:
    return live.observe(range(N + 45, N + 60), Y[N + 45 : N + 60])


def answer(live: oe.LiveEnsemble) -> Any:
    return told(live.answer(X[N + 80 : N + 90], ids=range(N + 80, N + 90)))


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """Of some rows the labels have come; a call of observe then makes a refit due."""
    with begun(tmp_path / "template.db", refit=30) as live:
        play(live, N, N + 80, late=40)
    return tmp_path / "template.db"


def every_line(template: Path, call: Callable[[oe.LiveEnsemble], Any], every: int) -> Iterator[oe.LiveEnsemble]:
    at, path = 1, template.with_name("log.db")
    while True:
        for file in template.parent.glob("log.db*"):
            file.unlink()
        live = oe.LiveEnsemble.resume(after_a_crash(template, path))
        came = interrupted(live, call, at)
        if came:
            yield live
        live.close()
        if not came:
            return
        at += every


def in_log(live: oe.LiveEnsemble) -> tuple[list[Any], list[Any]]:
    """What the ensemble knows, and what one does that is made of its log."""
    with oe.LiveEnsemble.resume(live.log.name, read_only=True) as seen:
        return bits(live), bits(seen)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("call", [answer, observe])
def test_an_interrupted_call_is_in_the_log_and_in_memory_or_in_neither(
    call: Callable[[oe.LiveEnsemble], Any], template: Path, tmp_path: Path
) -> None:
    with oe.LiveEnsemble.resume(after_a_crash(template, tmp_path / "clean.db")) as clean:
        expected = call(clean) if call is answer else None
        if call is observe:
            call(clean)
        after = bits(clean)
    count = late = 0
    for live in every_line(template, call, every=3 if call is answer else 7):
        count += 1
        was = live.decided_
        ours, logged = in_log(live)
        if live._now.running is None:
            assert ours == logged, count
        late += call is answer and was == 90
        try:
            found = call(live)
        except KeyboardInterrupt:  # it came while the refit was made, and is told where that is taken up
            found = call(live)
        if call is answer:
            assert found == expected, count
        if not live.refits_["failed"].any():
            assert bits(live) == after, count
        ours, logged = in_log(live)
        assert ours == logged, count
    assert count > 25
    assert call is observe or late, "some interrupts came after the decision was kept"


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db") as live:
        play(live, N, N + 40)
        connection: sqlite3.Connection = live.log._database._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")
        before, failed = bits(live), ""
        for start in range(N + 40, N + 1000, 10):
            rows = range(start % (2 * N - 10), start % (2 * N - 10) + 10)
            try:
                live.answer(X.iloc[rows], ids=[f"again {start} {row}" for row in rows])
                before = bits(live)
            except oe.exceptions.LogError as error:
                failed = str(error)
                break
        assert "the disk is full. Make room, and call again: nothing was lost." in failed
        assert bits(live) == before
        connection.execute("PRAGMA max_page_count=1000000")
        again = live.answer(X.iloc[rows], ids=[f"again {start} {row}" for row in rows])
        ours, logged = in_log(live)
        assert ours == logged
        assert told(live.answer(X.iloc[rows], ids=[f"again {start} {row}" for row in rows])) == told(again)
