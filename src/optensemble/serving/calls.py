"""Calls on a LiveEnsemble, as requests make them: several that are made as one, and what each of them comes to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from optensemble.ensembles._live_answer import LiveAnswer
from optensemble.ensembles._live_rows import as_ids, hash_ids
from optensemble.exceptions import FeasibleSetError, InputError, LogError
from optensemble.jobs.live_rows import LiveColumns, are_groups_needed
from optensemble.jobs.live_table import LiveTable
from optensemble.jobs.rows import RowReader
from optensemble.serving import findings
from optensemble.serving.answers import Answered, AnswerPart
from optensemble.serving.live_metrics import LiveGauges
from optensemble.serving.plain_rows import PlainRows
from optensemble.serving.refusals import unusable
from optensemble.serving.requests import GROUPS, WEIGHTS, RowRequest, WireTerms, join
from optensemble.serving.settings import Limits
from optensemble.serving.worker import Outcome
from optensemble.tables.in_memory import MemoryTables


class LiveCalls:
    """Makes calls on a LiveEnsemble; all in one thread.

    Attributes
    ----------
    labels
        The names of the labels, and so of the coordinates of an action.
    terms
        What requests may hold.
    failed
        Why the log could not be written; None once it could.
    """

    def __init__(self, table: LiveTable, limits: Limits) -> None:
        self.table, self.live = table, table.live
        self.labels = table.label_columns or table.coordinates
        if not table.label_columns:
            table = replace(table, roles=replace(table.roles, labels=tuple(self.labels)))
        self.terms = WireTerms(limits, table.roles.id)
        self.failed: LogError | None = None
        self.decided_at = self.observed_at = 0.0
        self.gauges = LiveGauges(self.live)
        self._tables = {(False, False): table}

    # Deciding

    def decide(self, requests: Sequence[RowRequest]) -> list[Outcome]:
        """Decide the rows of requests: all in one call, or, if that fails, one by one."""
        try:
            outcomes = self._decide(requests)
        except Exception as error:
            return self._one_by_one(self._decide, requests, error)
        self.failed, self.decided_at = None, time.time()
        return outcomes

    def _decide(self, requests: Sequence[RowRequest]) -> list[Outcome]:
        whole = join(requests)
        answered, start, parts = Answered(self._answer(whole), self.labels), 0, list[Outcome]()
        for request in requests:
            parts.append(AnswerPart(answered, slice(start, start + len(request.ids))))
            start += len(request.ids)
        return parts

    def _answer(self, request: RowRequest) -> LiveAnswer:
        plain = self._plain_rows
        frame = None if plain is None or request.columns is None else plain.frame(request.records)
        if frame is not None:
            try:
                return self.live.answer(frame, ids=request.ids)
            except (InputError, FeasibleSetError):
                pass  # the table says which row it is
        return self.table.decide(request.tables, request.ids)

    @cached_property
    def _plain_rows(self) -> PlainRows | None:
        return PlainRows.of(self.columns, self._reader)

    # Learning

    def observe(self, requests: Sequence[RowRequest]) -> list[Outcome]:
        """Learn from the labels of requests: in as few calls as possible, or, if one fails, one by one."""
        outcomes, waiting = list[Outcome](), list[RowRequest]()
        for request in requests:
            if self._are_open(request.ids):
                waiting.append(request)
                continue
            # what a call knew before cannot be told apart by its requests
            outcomes += self._observe_together(waiting) + self._observe_together([request])
            waiting = []
        outcomes += self._observe_together(waiting)
        return outcomes

    def _observe_together(self, requests: Sequence[RowRequest]) -> list[Outcome]:
        if not requests:
            return []
        try:
            outcomes = self._observe(requests)
        except Exception as error:
            return self._one_by_one(self._observe, requests, error)
        self.failed, self.observed_at = None, time.time()
        return outcomes

    def _observe(self, requests: Sequence[RowRequest]) -> list[Outcome]:
        whole = join(requests)
        table, rows = self._with_terms(whole)
        observed = table.observe(rows.tables, whole.ids)
        now = self._now()
        if len(requests) == 1:
            return [_observed(observed.learned, observed.known, observed.unlabelled, now)]
        names, outcomes = table.label_columns, list[Outcome]()
        for request in requests:
            lacking = sum(any(row.get(name) is None for name in names) for row in request.records)
            outcomes.append(_observed(len(request.ids) - lacking, 0, lacking, now))
        return outcomes

    def _are_open(self, ids: list[str]) -> bool:
        places = self.live._ledger.places
        return all(key in places for key in hash_ids(as_ids(ids, len(ids), "Y")).tolist())

    def _with_terms(self, request: RowRequest) -> tuple[LiveTable, RowRequest]:
        """Return a table that finds weights and groups in columns, and the request with these columns."""
        roles, names = self.table.roles, self.labels
        added: dict[str, Sequence[Any]] = {}
        if request.weights is not None:
            added[roles.weight or WEIGHTS] = request.weights
        if request.groups is not None:
            if not are_groups_needed(self.live):
                raise unusable("the rows of this ensemble have no groups, or groups of their own. Leave groups out.")
            added[roles.groups or GROUPS] = request.groups
        for name in added:
            if name in names:
                raise unusable(f"a label is named {name!r}: give such rows in Python.")
        key = request.weights is not None, request.groups is not None
        if key not in self._tables:
            weight, groups = (WEIGHTS if key[0] else None), (GROUPS if key[1] else None)
            first = self._tables[False, False]
            named = replace(first.roles, weight=roles.weight or weight, groups=roles.groups or groups)
            self._tables[key] = replace(first, roles=named)
        if not added:
            return self._tables[key], request
        columns = [dict(zip(added, values, strict=True)) for values in zip(*added.values(), strict=True)]
        rows = [row | more for row, more in zip(request.records, columns, strict=True)]
        return self._tables[key], replace(request, rows=rows)

    def _now(self) -> dict[str, Any]:
        live = self.live
        running = live._current.running is not None
        return {"open": live._current.open, "refit": {"due": findings.refit_due(live), "running": running}}

    # When a call fails

    def _one_by_one(self, call: Any, requests: Sequence[RowRequest], error: Exception) -> list[Outcome]:
        """Return an outcome for each request; an error is that of the request whose it is."""
        if isinstance(error, LogError):
            self.failed = error
            return [error] * len(requests)
        if len(requests) == 1:
            return [error]
        outcomes = list[Outcome]()
        for request in requests:
            try:
                outcomes += call([request])
            except Exception as own:
                self.failed = own if isinstance(own, LogError) else self.failed
                outcomes.append(own)
        return outcomes

    # Looking

    @property
    def columns(self) -> LiveColumns:
        """The columns that rows need."""
        return self.table.columns

    @cached_property
    def _reader(self) -> RowReader | None:
        """How a row with all columns is read; None where only a table tells what patterns stand for."""
        try:
            row = MemoryTables.of_records([dict.fromkeys(self.columns.needed, 0)])
            return self.columns.decision_reader(row, with_ids=False)
        except InputError:
            return None

    @property
    def numbers(self) -> frozenset[str]:
        """The columns of numbers."""
        return frozenset() if self._reader is None else frozenset(self._reader.selection.numbers)

    @property
    def optional(self) -> frozenset[str]:
        """Those of them that may be missing."""
        return frozenset() if self._reader is None else self._reader.optional

    def status(self) -> dict[str, Any]:
        """Return where the ensemble stands."""
        return findings.status(self.live)

    def certificate(self) -> dict[str, Any]:
        """Return the regret against each policy, and its bound."""
        return findings.certificate(self.live)

    def monitor(self) -> dict[str, Any]:
        """Return what the monitor has seen."""
        return findings.monitor(self.live)

    def metrics(self) -> str:
        """Return the metrics of the ensemble."""
        return self.gauges.text(self.decided_at, self.observed_at)

    # The log

    def probe(self) -> None:
        """Find out whether the log can be written again."""
        log: Any = self.live.log
        if log is not None:
            try:
                log.probe()
            except LogError as error:
                self.failed = error
                raise
        self.failed = None

    def prune(self, days: float) -> int:
        """Delete what is older than so many days; return the number of rows."""
        log: Any = self.live.log
        return 0 if log is None else int(log.prune(days).rows)

    def close(self) -> None:
        """Close the log."""
        self.live.close()


def _observed(learned: int, known: int, unlabelled: int, now: dict[str, Any]) -> dict[str, Any]:
    return {"learned": learned, "known": known, "unlabelled": unlabelled, **now}
