"""All mistakes, in the order of the table."""

from __future__ import annotations

from itertools import chain

from tests.mistakes import jobs, names, suspicions, values
from tests.mistakes.mistake import Mistake

GROUPS = (
    *(names.ROWS, names.COLUMNS),
    *(values.TYPES, values.GAPS, values.WEIGHTS),
    *(suspicions.LEAKS, suspicions.MODELLED, suspicions.DECIDED, suspicions.ASKED),
    *(jobs.TABLES, jobs.JOBS),
)
MISTAKES: tuple[Mistake, ...] = tuple(chain.from_iterable(group.mistakes for group in GROUPS))
