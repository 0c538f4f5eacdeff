"""Commands on a table or a job file: init, check and fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optensemble.cli.console import (
    WRONG_USE,
    CommandInterrupted,
    CommandOutput,
    Json,
    Quiet,
    Scheduler,
    Workers,
    print_error,
)

JobFile = Annotated[Path, typer.Argument(help="The job file.", metavar="JOB.toml")]


def init_command(
    data: Annotated[str, typer.Argument(help="A table: CSV, Parquet or Arrow.", metavar="TABLE")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The job file to write.")] = Path("job.toml"),
    labels: Annotated[
        str | None, typer.Option(help="Columns of the labels (realised outcomes), such as 'y_*'.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model and its columns, NAME=PATTERN; can be repeated.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="A policy and its columns, NAME=PATTERN; can be repeated.")
    ] = None,
    feasible: Annotated[str | None, typer.Option(help="The kind of feasible set: polytope, simplex, ...")] = None,
    sense: Annotated[str | None, typer.Option(help="max for payoffs, min for costs.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column of ids.")] = None,
    time: Annotated[str | None, typer.Option(help="The column of times.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="The column of rows that belong together, such as a customer.")
    ] = None,
    subgroups: Annotated[
        str | None, typer.Option(help="The column of subgroups in which the forecast must be unbiased.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented job file for a table; without options it asks on a terminal, and guesses elsewhere.

    For example:

    - `optensemble init history.parquet`

    - `optensemble init prices.csv --labels 'price_*' --model vendor='vendor_*' --feasible polytope -o battery.toml`
    """
    from optensemble.cli.prompts import InitOptions, ask_for_draft
    from optensemble.jobs.init import job_text, write_job

    options = InitOptions(labels, model, policy, feasible, sense, id_column, time, groups, subgroups, force)
    draft = ask_for_draft(data, out, options)
    write_job(out, job_text(draft))
    output = CommandOutput(as_json, quiet)
    output.print_json({"job": str(out), **vars(draft)})
    members = {"models": draft.models, "policies": draft.policies}
    listed = [f"{what} {', '.join(each)}" for what, each in members.items() if each]
    output.print_lines(
        f"labels {draft.labels}, {'; '.join(listed)}; {'payoffs' if draft.sense == 'max' else 'costs'}",
        f"Wrote {out}. Fill in [feasible], then: optensemble check {out}",
    )


def check_command(job: JobFile, as_json: Json = False, quiet: Quiet = False) -> None:
    """Summarise a job file and its data, and check that there are enough rows.

    For example:

    - `optensemble check job.toml`

    - `optensemble check job.toml --json`
    """
    from optensemble.cli.rendering import print_job_summary
    from optensemble.jobs.check import summarise_job
    from optensemble.jobs.fit import prepare
    from optensemble.jobs.job import read_job

    output = CommandOutput(as_json, quiet)
    with output.progress("reading"):
        summary = summarise_job(prepare(read_job(job)))
    print_job_summary(output, summary)
    if not summary.enough:
        print_error(summary.verdict)
        raise typer.Exit(WRONG_USE)


def fit_command(
    job: JobFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file for the ensemble.")] = Path("ensemble.oe"),
    jobs: Annotated[int, typer.Option(help="Number of threads; -1 for all cores.")] = 1,
    memory: Annotated[
        str | None, typer.Option(help="Memory allowed, such as 2GB; larger tables are streamed. By default half of it.")
    ] = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Go on with an interrupted fit of a streamed table.")
    ] = False,
    forget_rows: Annotated[
        bool, typer.Option("--forget-rows", metavar="", help="Leave the rows out of the file: see update and refit.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit an ensemble and print the leaderboard on held-out rows.

    Tables can be larger than memory: they are then read once for every pass, and an interrupted fit can be resumed.

    For example:

    - `optensemble fit job.toml -o ensemble.oe`

    - `optensemble fit job.toml --memory 2GB --workers 8`
    """
    from optensemble.cli.rendering import print_fit
    from optensemble.distributed.cluster import open_client
    from optensemble.jobs.fit import fit_job, prepare
    from optensemble.jobs.job import read_job
    from optensemble.jobs.memory import memory_limit
    from optensemble.jobs.sets import files_of
    from optensemble.jobs.streamed_fit import resumable
    from optensemble.tables.writing import require_output_path

    output, description = CommandOutput(as_json, quiet), read_job(job)
    require_output_path(out, [job, *files_of(description.feasible, description.folder)])
    with output.progress("fitting") as progress, open_client(scheduler, workers) as client:
        task = prepare(description, memory_limit(memory))
        require_output_path(out, list(task.tables.paths))
        progress.rows = task.row_count
        engine = resumable(task, client, jobs, out, resume)
        try:
            ensemble = fit_job(task, progress, jobs, client if engine is None else engine)
            ensemble.save(out, keep_rows=not forget_rows)
        except KeyboardInterrupt:
            if engine is None:
                raise
            made = f"{engine.kept} finished pass{'es are' if engine.kept != 1 else ' is'} kept in {engine.folder}"
            raise CommandInterrupted(f"Interrupted. {made}: go on with --resume.") from None
        if engine is not None:
            engine.remove()
    print_fit(output, ensemble, task, out)
