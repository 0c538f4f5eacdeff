"""One thread for all calls on a LiveEnsemble: requests wait for their turn, and those that can be are done together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from optensemble._core.threads import one_blas_thread
from optensemble.serving.refusals import unavailable
from optensemble.serving.settings import Limits

MOST_TOGETHER = 4096
"""Rows that are done together: more make each wait longer and save nothing."""

_PAUSE = 0.0003  # seconds without a further request: no more of those who were answered come back at once
_LONGEST_LINGER = 0.003  # seconds to wait for them in all

Outcome = Any
"""A result, or the exception in place of one."""


@dataclass(frozen=True, eq=False)
class Work:
    """What is to be done, for one request.

    Attributes
    ----------
    do
        Does the tasks of several requests, and returns an outcome for each, in their order.
    task
        Of this request.
    key
        Consecutive tasks with the same key are done together; None for one that is done by itself.
    rows
        Their number.
    """

    do: Callable[[Sequence[Any]], list[Outcome]]
    task: Any
    key: Hashable = None
    rows: int = 0


@dataclass(eq=False)
class _Turn:
    """A request that waits."""

    work: Work
    done: asyncio.Future[Any]
    late: asyncio.TimerHandle | None = field(default=None)


class Worker:
    """Does work in one thread, in the order in which it arrives."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: deque[_Turn] = deque()
        self._bell = threading.Condition()
        self._wanted = 1  # requests to wake the thread for
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread, from the event loop that it answers to."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="optensemble server", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    async def do(self, work: Work, *, patient: bool = False) -> Any:
        """Return the result of some work, or raise its exception; refuse it where too many wait, or for too long.

        What is ``patient`` waits as long as it takes, and is never refused for others that wait.
        """
        loop = asyncio.get_running_loop()
        turn = _Turn(work, loop.create_future())
        with self._bell:
            if self._closed:
                raise unavailable("the server is stopping. Try again once it has been started again.", after=5)
            if len(self._waiting) >= self._limits.most_queued and not patient:
                raise unavailable(f"{len(self._waiting):,} requests are waiting, which is the most. Try again later.")
            self._waiting.append(turn)
            if len(self._waiting) >= self._wanted:
                self._bell.notify()
        if not patient:
            turn.late = loop.call_later(self._limits.queue_seconds, self._give_up, turn)
        outcome = await turn.done
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def call(self, function: Callable[..., Any], *given: Any, patient: bool = False) -> Any:
        """Return what a function returns, called in its turn."""
        return await self.do(Work(lambda _: [function(*given)], None), patient=patient)

    def _give_up(self, turn: _Turn) -> None:
        """Let a request go that has waited too long; one whose turn has come is finished."""
        with self._bell:
            try:
                self._waiting.remove(turn)
            except ValueError:
                return
        waited = (
            f"the request waited for {self._limits.queue_seconds:g} seconds, and nothing was done. Try again later."
        )
        turn.done.set_result(unavailable(waited))

    async def stop(self, seconds: float) -> bool:
        """Finish what waits, and end the thread; return whether it has ended within the time."""
        with self._bell:
            self._closed = True
            self._bell.notify()
        thread = self._thread
        if thread is None:
            return True
        await asyncio.get_running_loop().run_in_executor(None, thread.join, max(seconds, 0.0))
        return not thread.is_alive()

    # In the thread

    def _run(self) -> None:
        with one_blas_thread():  # as decisions are made: to enter once is quicker than for each
            self._work()

    def _work(self) -> None:
        answered = 0
        while turns := self._next(answered):
            outcomes, answered = _done([turn.work for turn in turns]), len(turns)
            try:
                self._loop.call_soon_threadsafe(self._answer, turns, outcomes)  # type: ignore[union-attr]
            except RuntimeError:  # the event loop has ended, and nobody waits
                return

    def _next(self, answered: int) -> list[_Turn]:
        """Return requests whose turn has come, as soon as there are any; none once all is done.

        A turn takes about as long for many as for one. So those who were ``answered`` in the last one may join those
        who wait already, if they come back at once: otherwise each half would wait for the other for ever.
        """
        waiting = self._waiting
        with self._bell:
            if answered + len(waiting) > 1:
                self._gather(answered + len(waiting))
            while not waiting:
                if self._closed:
                    return []
                self._bell.wait()
            turns = [waiting.popleft()]
            key, rows = turns[0].work.key, turns[0].work.rows
            while key is not None and waiting and waiting[0].work.key == key:
                rows += waiting[0].work.rows
                if rows > MOST_TOGETHER:
                    break
                turns.append(waiting.popleft())
        return turns

    def _gather(self, expected: int) -> None:
        """Wait for a moment, until those who are expected are there, or no more of them come."""
        ends, before = time.monotonic() + _LONGEST_LINGER, -1
        self._wanted = min(expected, self._limits.most_queued)
        while before < len(self._waiting) < self._wanted and not self._closed and time.monotonic() < ends:
            before = len(self._waiting)
            self._bell.wait(_PAUSE)
        self._wanted = 1

    @staticmethod
    def _answer(turns: list[_Turn], outcomes: list[Outcome]) -> None:
        for turn, outcome in zip(turns, outcomes, strict=True):
            if turn.late is not None:
                turn.late.cancel()
            if not turn.done.done():  # whoever waited may have been cancelled
                turn.done.set_result(outcome)


def _done(works: list[Work]) -> list[Outcome]:
    """Return an outcome for each; that of an exception is the exception."""
    try:
        return works[0].do([work.task for work in works])
    except Exception as error:
        return [error] * len(works)
    except BaseException as error:  # such as SystemExit in a member: it would end this thread, and not the process
        failure = RuntimeError(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
        return [failure] * len(works)
