"""Commands from day to day: update and refit."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from optensemble.cli.console import CommandOutput, Json, Quiet, Trust, trusted_types
from optensemble.cli.use_commands import EnsembleFile, Files, Labels, Time

REFIT_DUE = 5

ForgetRows = Annotated[
    bool,
    typer.Option("--forget-rows", metavar="", help="Leave the rows out of the file; a refit then needs all again."),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="The file for the ensemble; by default the same, in its place.")
]


def update_command(
    ensemble: EnsembleFile,
    tables: Files,
    out: Out = None,
    labels: Labels = None,
    time: Time = None,
    forget_rows: ForgetRows = False,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take in the labels of past decisions: the promise is redone, decisions stay as they are.

    Rows that were given before are recognised, by their ids, else by their times and numbers, and skipped; rows without
    labels are left for later. So the same table may be given again, and after a crash it should be. The exit code is 5
    if a refit is due.

    For example:

    - `optensemble update ensemble.oe labelled.parquet`

    - `optensemble update ensemble.oe 'day-*.csv' --quiet; test $? -ne 5 || optensemble refit ensemble.oe`
    """
    from optensemble._core.atomic_files import locked
    from optensemble.cli.day_rendering import print_update
    from optensemble.jobs.saved_ensemble import open_ensemble
    from optensemble.jobs.update import update_table
    from optensemble.tables.reading import find_tables
    from optensemble.tables.writing import require_output_path

    output, found, target = CommandOutput(as_json, quiet), find_tables(tables), out or ensemble
    require_output_path(target, list(found.paths))
    with output.progress("updating"), locked(ensemble):
        saved = open_ensemble(ensemble, found, labels=labels, time=time, trusted=trusted_types(trust))
        had_rows = bool(saved.ensemble._rows)
        update = update_table(saved, found)
        written = update.done.taken_in or (forget_rows and had_rows) or target != ensemble
        if written:
            saved.ensemble.save(target, keep_rows=not forget_rows)
    print_update(output, update, target if written else None, forgotten=forget_rows and had_rows)
    if update.refit_due:
        how = f"optensemble refit {target}" + ("" if had_rows and not forget_rows else " --with TABLE, of all rows")
        warnings.warn(f"a refit is due: {update.refit_due}. Run: {how}", UserWarning, stacklevel=2)
        raise typer.Exit(REFIT_DUE)


def refit_command(
    ensemble: EnsembleFile,
    further: Annotated[
        list[str] | None, typer.Option("--with", help="Further tables with labels; can be repeated.", metavar="TABLE")
    ] = None,
    out: Out = None,
    labels: Labels = None,
    time: Time = None,
    jobs: Annotated[int, typer.Option(help="Number of threads; -1 for all cores.")] = 1,
    forget_rows: ForgetRows = False,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit an ensemble again, on the rows of its fit and all that `update` has taken in since.

    Where the file has no rows, because they were forgotten or streamed, all rows must be given.

    For example:

    - `optensemble refit ensemble.oe`

    - `optensemble refit ensemble.oe --with '2026-*.parquet' -o new.oe --jobs -1`
    """
    from optensemble._core.atomic_files import locked
    from optensemble.cli.day_rendering import print_refit
    from optensemble.jobs.refit import refit_ensemble
    from optensemble.tables.reading import find_tables
    from optensemble.tables.writing import require_output_path

    output, target = CommandOutput(as_json, quiet), out or ensemble
    require_output_path(target, list(find_tables(further).paths) if further else [])
    with output.progress("fitting again") as progress, locked(ensemble):
        refit = refit_ensemble(
            ensemble,
            further or (),
            labels=labels,
            time=time,
            progress=progress,
            n_jobs=jobs,
            trusted=trusted_types(trust),
        )
        written = refit.fitted or forget_rows or target != ensemble
        if written:
            refit.ensemble.save(target, keep_rows=not forget_rows)
    print_refit(output, refit, target if written else None)
