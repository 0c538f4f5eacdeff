"""One process leads a log; another is refused until the first has let go, and never do both write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import optensemble as oe
from optensemble.exceptions import LogError
from optensemble.log import lead as leading
from optensemble.log.database import Database, open_database
from optensemble.log.lead import Lead, describe
from tests.ensembles.decision import N
from tests.ensembles.live import bits
from tests.log.logged import X, Y, begun, play

New = Callable[[], str]
ROOT = Path(__file__).parents[2]


def set_leader(where: str, renewed: float | None = None, **holder: Any) -> None:
    """Let the log say something else of who leads it."""
    database = open_database(where)
    with database.writing() as transaction:
        known = json.loads(transaction.read("SELECT holder FROM oe_lead")[0][0])
        transaction.write("UPDATE oe_lead SET holder = :holder", holder=json.dumps(known | holder))
        if renewed is not None:
            transaction.write("UPDATE oe_lead SET renewed = :at", at=renewed)
    database.close()


def test_a_second_is_refused_while_the_first_lives(new_log: New) -> None:
    where = new_log()
    with begun(where) as live:
        said = f"is led by process {os.getpid()} on .* since .* UTC. Only one process decides and learns at a time"
        with pytest.raises(LogError, match=said):
            oe.LiveEnsemble.resume(where)
        assert f"process {os.getpid()} on " in live.log.leader
        live.answer(X.iloc[:1])
    with oe.LiveEnsemble.resume(where) as live:
        assert live.decided_ == 1
    assert "nobody" in oe.LiveEnsemble.resume(where, read_only=True).log.leader


def test_a_refusal_comes_after_the_wait(new_log: New) -> None:
    where = new_log()
    with begun(where):
        start = time.monotonic()
        with pytest.raises(LogError, match="is led by"):
            oe.LiveEnsemble.resume(where, wait=0.4)
        assert 0.4 <= time.monotonic() - start < 5


def test_the_lead_of_a_process_that_has_ended_is_free_at_once(new_log: New) -> None:
    where = new_log()
    live = play(begun(where), N, N + 30)
    state = bits(live)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    set_leader(where, pid=ended.pid)
    with oe.LiveEnsemble.resume(where) as again:
        assert bits(again) == state


def test_the_lead_of_a_process_elsewhere_is_free_once_its_lease_has_run_out(new_log: New) -> None:
    where = new_log()
    live = begun(where)
    set_leader(where, machine="elsewhere", host="elsewhere")
    with pytest.raises(LogError, match="on elsewhere"):
        oe.LiveEnsemble.resume(where)
    for off in (-leading.LEASE - 1, leading.LEASE + 60):  # a clock that was set back has leases of the future
        set_leader(where, renewed=time.time() + off, machine="elsewhere")
        live = oe.LiveEnsemble.resume(where)
    live.close()


def test_who_has_lost_the_lead_cannot_write(new_log: New) -> None:
    """A process that was stopped for long, and wakes: another leads by now."""
    where = new_log()
    stopped = play(begun(where), N, N + 30)
    set_leader(where, renewed=time.time() - leading.LEASE - 1, machine="elsewhere")
    with oe.LiveEnsemble.resume(where) as other:
        play(other, N + 30, N + 40)
        state = bits(stopped)
        for call in (
            lambda: stopped.answer(X.iloc[:1], ids=["late"]),
            lambda: stopped.observe([N + 25], Y[N + 25 : N + 26]),
            lambda: stopped.log.prune(0.0),
            stopped.refit_now,
        ):
            with pytest.raises(LogError, match=rf"is led by process {os.getpid()} on .* now: .* Resume from the log"):
                call()
        assert bits(stopped) == state
        play(other, N + 40, N + 50)
        assert {each.id for each in other.log.latest(100)} == set(range(N, N + 50))
        stopped.close()
        play(other, N + 50, N + 60)


def test_a_lease_is_renewed_while_nothing_happens(new_log: New, monkeypatch: pytest.MonkeyPatch) -> None:
    where = new_log()
    monkeypatch.setattr(leading, "_BEAT", 0.02)
    monkeypatch.setattr(leading, "_FRESH", 0.0)
    with begun(where):
        set_leader(where, renewed=5.0)
        for _ in range(250):
            database = open_database(where)
            with database.reading() as transaction:
                renewed = transaction.read("SELECT renewed FROM oe_lead")[0][0]
            database.close()
            if renewed > 5.0:
                break
            time.sleep(0.02)
        assert renewed == pytest.approx(time.time(), abs=20)


def test_what_was_collected_leads_no_more(new_log: New) -> None:
    where = new_log()
    begun(where)  # nobody holds it
    with oe.LiveEnsemble.resume(where, wait=5) as live:
        assert live.decided_ == 0


SCRIPT = """
import sys, optensemble as oe
live = oe.LiveEnsemble.resume(sys.argv[1])
print(live.decided_, flush=True)
sys.stdin.read()
"""


def test_the_end_of_a_script_lets_go(new_log: New) -> None:
    where = new_log()
    begun(where).close()
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, where], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "0\n"
        with pytest.raises(LogError, match=f"is led by process {script.pid} on"):
            oe.LiveEnsemble.resume(where)
        with oe.LiveEnsemble.resume(where, read_only=True) as seen:
            assert seen.decided_ == 0
        script.communicate("")
    with oe.LiveEnsemble.resume(where) as live:
        assert "nobody" not in live.log.leader


@pytest.mark.parametrize(
    "holder", ["{}", "", "[]", "[" * 5000, "null", '{"pid": 1}', '{"pid": "x", "started": 1, "host": 1}', "\x00"]
)
def test_a_leader_that_makes_no_sense_is_nobody(holder: str) -> None:
    assert describe(holder) == "nobody"


def test_names_of_leaders_are_printable() -> None:
    known = {"pid": 7, "started": 1, "host": "h\x1b[31m\n" * 90, "machine": "m", "program": "p", "since": 1e300}
    told = describe(json.dumps(known))
    assert told.isprintable()
    assert len(told) <= 200


def test_two_that_want_the_lead_at_once_do_not_both_get_it(new_log: New) -> None:
    where = new_log()
    begun(where).close()
    databases = [open_database(where) for _ in range(2)]
    leads = [Lead(each) for each in databases]
    leads[0].take(0.0)
    with pytest.raises(LogError, match="is led by"):
        leads[1].take(0.0)

    def renew(database: Database, lead: Lead) -> None:
        with database.writing() as transaction:
            lead.renew(transaction)

    renew(databases[0], leads[0])
    with pytest.raises(LogError):
        renew(databases[1], leads[1])
    leads[1].release()  # which it does not have
    renew(databases[0], leads[0])
    leads[0].release()
    leads[1].take(0.0)
    renew(databases[1], leads[1])
    leads[1].release()
    for each in databases:
        each.close()


def test_a_leader_that_is_hidden_is_waited_for(new_log: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of other users can be hidden from this one: they are neither there nor have they ended."""
    where = new_log()
    begun(where).close()
    live = oe.LiveEnsemble.resume(where)
    set_leader(where, pid=2**22 + 7)

    def refuse(*_: Any) -> None:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", refuse)
        with pytest.raises(LogError, match="is led by process 4194311"):
            oe.LiveEnsemble.resume(where)
    assert live.log.leader.startswith("nobody: process 4194311 on ")
    oe.LiveEnsemble.resume(where).close()
    assert not live.log.is_lost
    with pytest.raises(LogError):
        live.log.probe()
    assert live.log.is_lost


def test_a_refit_that_was_made_in_the_background_need_not_wait_for_the_next_row(new_log: New) -> None:
    with begun(new_log(), refit_in="background") as live:
        play(live, N, N + 60, late=0)
        running = live._now.running
        assert running is not None
        running.wait()
        assert not len(live.refits_)
        live.take_up_refit()
        assert len(live.refits_) == 1
        live.take_up_refit()
        assert live.log.counts().entries == 12 + 2
