"""The service behind the endpoints: a LiveEnsemble that is opened, asked in its worker's thread, and closed."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from optensemble.exceptions import LogError
from optensemble.jobs.live_table import LiveTable
from optensemble.serving.calls import LiveCalls
from optensemble.serving.metrics import gauge, text_of
from optensemble.serving.refusals import unavailable
from optensemble.serving.requests import RowRequest
from optensemble.serving.settings import Limits
from optensemble.serving.worker import Work, Worker

STARTING, READY, DRAINING = "starting", "ready", "draining"

LOGGER = logging.getLogger("optensemble.serving")

_SCRAPE = 2.0  # seconds that metrics wait for their turn
_DAY = 86_400.0
_LOOK = 1.0  # seconds between looks at what nobody asks for
_FIRST_PRUNING = 60.0  # seconds after the start, when those who waited for it have been answered


class LiveService:
    """A LiveEnsemble, from the moment that its server starts.

    Parameters
    ----------
    opening
        Returns the ensemble; it may take long.
    limits
        What a client may ask for.
    keep_days
        How long decisions with their labels are kept in the log; None for ever.
    on_failure
        Called if it could not be opened.
    """

    def __init__(
        self,
        opening: Callable[[], LiveTable],
        limits: Limits,
        *,
        keep_days: float | None = None,
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        self._opening, self._keep_days, self._on_failure = opening, keep_days, on_failure
        self.worker, self.limits = Worker(limits), limits
        self.state = STARTING
        self.failure: BaseException | None = None
        self._calls: LiveCalls | None = None
        self._known, self.stopped = "", False
        self._tasks = list[asyncio.Task[None]]()

    # From start to end

    def start(self) -> None:
        """Begin to open it."""
        self.worker.start()
        self._tasks.append(asyncio.create_task(self._open()))

    async def _open(self) -> None:
        try:
            self._calls = await self.worker.call(lambda: LiveCalls(self._opening(), self.limits), patient=True)
        except Exception as error:
            self.failure = error
            if self._on_failure is not None:
                self._on_failure()
            return
        gc.collect()
        gc.freeze()  # what is there by now stays: no collection has to look at it again
        if self.state == STARTING:
            self.state = READY
            LOGGER.info("ready")
        self._tasks.append(asyncio.create_task(self._tend()))
        if self._keep_days is not None:
            self._tasks.append(asyncio.create_task(self._prune_daily(self._keep_days)))

    async def _tend(self) -> None:
        """While nothing is asked: let a refit decide once it is made, and end if another process leads by now."""
        live = self.calls.live
        while True:
            await asyncio.sleep(_LOOK)
            running, log = live._now.running, live.log
            if log is not None and log.is_lost:
                self.failure = LogError(f"{log.name} is led by another process by now: this one stops.")
                if self._on_failure is not None:
                    self._on_failure()
                return
            if running is not None and running.has_ended:
                with suppress(Exception):  # the next call says what is wrong
                    await self.worker.call(live.take_up_refit, patient=True)

    async def _prune_daily(self, days: float) -> None:
        await asyncio.sleep(_FIRST_PRUNING)
        while True:
            try:
                pruned = await self.worker.call(self.calls.prune, days, patient=True)
                LOGGER.info("pruned %s rows that were older than %g days", f"{pruned:,}", days)
            except Exception as error:  # the log may be in use: it is tried again tomorrow
                LOGGER.warning("the log was not pruned: %s", error)
            await asyncio.sleep(_DAY)

    def drain(self) -> None:
        """Take in no further requests; those that wait are finished."""
        self.state = DRAINING

    async def stop(self, seconds: float) -> bool:
        """Finish what waits and close the log; return whether that was done within the time."""
        until = time.monotonic() + seconds
        self.drain()
        for task in self._tasks[1:]:
            task.cancel()
        if self._calls is None:  # it waits for the log: nobody was answered, and nothing was begun
            self.stopped = True
            return True
        with suppress(Exception):
            closing = asyncio.ensure_future(self.worker.call(self._calls.close, patient=True))
            await asyncio.wait([closing], timeout=max(until - time.monotonic(), 0.0))
            if closing.done() and (error := closing.exception()) is not None:
                LOGGER.warning("the log was not closed: %s", error)
        self.stopped = await self.worker.stop(until - time.monotonic())
        return self.stopped

    # What is asked of it

    @property
    def calls(self) -> LiveCalls:
        """The ensemble; refused until it is open."""
        if self._calls is None:
            raise unavailable("the server is starting. Try again in a moment.")
        return self._calls

    async def decide(self, request: RowRequest) -> Any:
        """Return the decisions of a request."""
        calls = self.calls
        return await self.worker.do(Work(calls.decide, request, _key("decide", request), len(request.ids)))

    async def observe(self, request: RowRequest) -> Any:
        """Return what was learned from the labels of a request."""
        calls = self.calls
        return await self.worker.do(Work(calls.observe, request, _key("observe", request), len(request.ids)))

    async def metrics(self) -> str:
        """Return the metrics of the server and of the ensemble; the latter as last known while that is busy."""
        if self._calls is not None:
            asked = asyncio.ensure_future(self.worker.call(self._calls.metrics))
            done, _ = await asyncio.wait([asked], timeout=_SCRAPE)
            if done and asked.exception() is None:
                self._known = asked.result()
            elif not done:
                asked.add_done_callback(lambda late: late.cancelled() or late.exception())  # which is then looked at
        waiting = gauge("queued_requests", "Requests that wait for their turn.", self.worker.queued)
        ready = gauge("ready", "Whether the server is neither starting nor stopping.", float(self.state == READY))
        return text_of([ready, waiting]) + self._known

    async def require_writable(self) -> None:
        """Refuse if decisions could not be made: while it starts or stops, and where the log cannot be written."""
        calls = self.calls
        if self.state == DRAINING:
            raise unavailable("the server is stopping. Try again once it has been started again.", after=5)
        if calls.failed is not None:
            with suppress(LogError):
                await self.worker.call(calls.probe)
        if calls.failed is not None:
            raise unavailable("the log cannot be written, or another process leads it.")


def _key(what: str, request: RowRequest) -> Any:
    return None if request.key is None else (what, request.key)
