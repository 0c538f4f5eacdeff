"""One process leads a log: a lease that is renewed while it lives, and a token that every write has to show."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optensemble.exceptions import LogError
from optensemble.log.database import Database, Transaction

LEASE = 30.0
"""Seconds after which a process that renews nothing leads no more, if nobody can tell whether it lives."""

_BEAT = LEASE / 3
_FRESH = LEASE / 6  # seconds for which a lease need not be renewed
_LOOK = 0.1  # seconds between looks while waiting for another to let go
_LONGEST = 200  # letters of what a log says of its leader


class Lead:
    """The lead of a log, from :meth:`take` until :meth:`release`.

    ``lost`` says whether another process was found to have it.

    The lease decides who may take the lead, and clocks may be wrong about that. The token decides whose writes count:
    every transaction renews the lease of its token, and fails if another process has taken the lead meanwhile.
    """

    def __init__(self, database: Database) -> None:
        self._database, self.token = database, secrets.token_hex(16)
        self.lost = False
        self._stop = threading.Event()

    def take(self, wait: float) -> None:
        """Take the lead, within ``wait`` seconds."""
        until = time.monotonic() + wait
        while (other := self._try()) is not None:
            if time.monotonic() >= until:
                raise LogError(
                    f"{self._database.name} is led by {other}. Only one process decides and learns at a time: close "
                    "that one or ask it instead; status and reports can be read meanwhile."
                )
            time.sleep(_LOOK)
        self.begin()

    def _try(self) -> str | None:
        """Take the lead, or return who has it, in words."""
        with self._database.writing() as transaction:
            # who wrote last has finished once this is read
            found = transaction.read(f"SELECT token, holder, renewed FROM oe_lead{self._database.locking}")
            if not found:
                raise LogError(f"{self._database.name} does not say who leads it. Restore it from a backup.")
            token, holder, renewed = found[0]
            if token and not _is_free(_holder_of(holder), float(renewed)):
                return describe(holder)
            self.enter(transaction)
        return None

    def enter(self, transaction: Transaction) -> None:
        """Enter this process as the leader; nobody else is."""
        transaction.write(
            "UPDATE oe_lead SET token = :token, holder = :holder, renewed = :now",
            token=self.token,
            holder=json.dumps(_myself()),
            now=time.time(),
        )

    def begin(self) -> None:
        """Renew the lease from time to time, from now on."""
        threading.Thread(target=self._beat, name="optensemble lease", daemon=True).start()

    def renew(self, transaction: Transaction, *, always: bool = False) -> None:
        """Renew the lease within a transaction, which fails if another process leads by now; not too often.

        With ``always`` something is written in any case, which tells whether anything can be.
        """
        found = transaction.read(f"SELECT token, holder, renewed FROM oe_lead{self._database.locking}")
        if not found or found[0][0] != self.token:
            other, self.lost = describe(found[0][1]) if found else "nobody", True
            raise LogError(
                f"{self._database.name} is led by {other} now: this process did not answer for {LEASE:.0f} seconds, or "
                "closed it. Resume from the log to go on."
            )
        if always or abs(time.time() - float(found[0][2])) > _FRESH:
            transaction.write("UPDATE oe_lead SET renewed = :now", now=time.time())

    def release(self) -> None:
        """Let others lead, if this process does."""
        self._stop.set()
        with suppress(LogError), self._database.writing() as transaction:
            transaction.write("UPDATE oe_lead SET token = '', holder = '{}' WHERE token = :token", token=self.token)

    def _beat(self) -> None:
        while not self._stop.wait(_BEAT):
            with suppress(LogError), self._database.writing() as transaction:  # the next entry tells what is wrong
                self.renew(transaction)


def describe(holder: str) -> str:
    """Return who leads, in words."""
    known = _holder_of(holder)
    if not known:
        return "nobody"
    since = datetime.fromtimestamp(float(known["since"]), UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    told = f"process {known['pid']} on {known['host']} ({known['program']}) since {since} UTC"
    if has_ended(known):
        told = f"nobody: {told} has ended"
    return "".join(letter if letter.isprintable() else "?" for letter in told)[:_LONGEST]


def _holder_of(holder: str) -> dict[str, Any]:
    """Return what a process said of itself; nothing if that makes no sense."""
    try:
        known = dict(json.loads(holder))
        whole = {name: int(known[name]) for name in ("pid", "started")}
        texts = {name: str(known[name]) for name in ("host", "machine", "program")}
        return {**whole, **texts, "since": max(min(float(known["since"]), 1e11), 0.0)}
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return {}


def _is_free(holder: dict[str, Any], renewed: float) -> bool:
    """Return whether a log may be taken over: its leader has ended, or has not been heard of for long."""
    return has_ended(holder) or abs(time.time() - renewed) > LEASE  # a clock may have been set back


def has_ended(holder: dict[str, Any]) -> bool:
    """Return whether a leader was a process of this machine that is known to have ended."""
    if not holder or holder["machine"] != _machine():
        return False
    started = _started(holder["pid"])
    return started is not None and started != holder["started"]


def _myself() -> dict[str, Any]:
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    pid = os.getpid()
    known = {"host": socket.gethostname(), "machine": _machine(), "pid": pid, "started": _started(pid) or 0}
    return known | {"program": program, "since": time.time()}


def _machine() -> str:
    """Return what tells in which world process numbers have a meaning: the boot of a machine, and the container."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _started(pid: int) -> int | None:
    """Return when a process was started, in ticks since boot; 0 if it has ended, None if that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return _ended_or_hidden(pid)


def _ended_or_hidden(pid: int) -> int | None:
    """Return 0 if a process has ended; None if it may be hidden, as those of other users can be."""
    if os.name != "posix":  # where a signal 0 is a real one
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return 0
    except OSError:
        return None
    return None
