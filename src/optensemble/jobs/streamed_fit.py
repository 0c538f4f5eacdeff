"""The fit of a table that is streamed: its passes are kept, so that it can go on after an interrupt."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from optensemble import __version__
from optensemble.ensembles._decision_rows import as_engine
from optensemble.exceptions import InputError
from optensemble.jobs.fit import Task
from optensemble.jobs.streamed_rows import JobRows
from optensemble.persistence.checkpoint import CheckpointedEngine


def resumable(task: Task, client: Any, n_jobs: int | None, out: Path, resume: bool) -> CheckpointedEngine | None:
    """Return an engine that keeps its passes beside the output; None for a table that is fitted in memory."""
    if not isinstance(task.rows, JobRows):
        if resume:
            raise InputError("--resume goes on with the fit of a streamed table; this fits in memory. Leave it out.")
        return None
    folder = out.with_name(f"{out.name}.passes")
    engine = CheckpointedEngine(as_engine(client, n_jobs), folder, _name_of(task))
    engine.begin(resume)
    return engine


def _name_of(task: Task) -> str:
    """Return a hash of all that a fit depends on: the job, its files, this program."""
    files = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in task.tables.paths]
    return hashlib.sha256(repr((__version__, task.job, files, len(task.rows))).encode()).hexdigest()
