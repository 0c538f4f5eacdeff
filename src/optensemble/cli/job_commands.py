"""Commands on a table or a job file: init, check and fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from optensemble.exceptions import InputError

if TYPE_CHECKING:
    from optensemble.cli.prompts import InitOptions

JobFile = Annotated[Path, typer.Argument(help="The job file.", metavar="JOB.toml")]


def init_command(
    data: Annotated[str | None, typer.Argument(help="A table: CSV, Parquet or Arrow.", metavar="TABLE")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The job file to write.")] = Path("job.toml"),
    example: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write the tables and the job file of an example instead: battery, portfolio, routes or staffing.",
        ),
    ] = None,
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

    - `optensemble init --example battery`

    - `optensemble init history.parquet`

    - `optensemble init prices.csv --labels 'price_*' --model vendor='vendor_*' --feasible polytope -o battery.toml`
    """
    from optensemble.cli.prompts import InitOptions, ask_for_draft
    from optensemble.jobs.init import job_text, write_job

    options = InitOptions(labels, model, policy, feasible, sense, id_column, time, groups, subgroups, force)
    output = CommandOutput(as_json, quiet)
    if example is not None:
        _require_alone(data, options)
        _init_example(example, out, force, output)
        return
    if data is None:
        raise InputError("there is no table to begin with. Give a TABLE, or --example battery for one to try.")
    draft = ask_for_draft(data, out, options)
    write_job(out, job_text(draft))
    output.print_json({"job": str(out), **vars(draft)})
    members = {"models": draft.models, "policies": draft.policies}
    listed = [f"{what} {', '.join(each)}" for what, each in members.items() if each]
    output.print_lines(
        f"labels {draft.labels}, {'; '.join(listed)}; {'payoffs' if draft.sense == 'max' else 'costs'}",
        f"Wrote {out}. Fill in [feasible], then: optensemble check {out}",
    )


def _require_alone(data: str | None, options: InitOptions) -> None:
    """Raise ``InputError`` on a table or columns beside an example, which has its own."""
    given = [f"--{name}" for name, value in vars(options).items() if value is not None and name != "force"]
    if data is not None or given:
        raise InputError(f"--example has its own tables and job file. Leave out {given[0] if data is None else data}.")


def _init_example(name: str, out: Path, force: bool, output: CommandOutput) -> None:
    import shlex

    from optensemble.jobs.examples import EXAMPLES, write_example

    written = write_example(name, out, force)
    files = [path.name for path in (*written.tables, written.job)]
    folder = str(out.parent)
    commands = [*([f"cd {shlex.quote(folder)}"] if folder != "." else []), *written.commands]
    output.print_json({"job": str(out), "example": name, "tables": [str(path) for path in written.tables]})
    output.print_lines(
        f"{name}: {EXAMPLES[name]}",
        f"Wrote {', '.join(files[:-1])} and {files[-1]}{'' if folder == '.' else f' in {folder}'}. Go on with",
        *(f"  {command}" for command in commands),
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
    from optensemble._core.progress import DECISION_STAGES, PAPER_STAGES
    from optensemble.cli.rendering import print_fit
    from optensemble.distributed.cluster import open_client
    from optensemble.ensembles.base import DECISION
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
        progress.stages = DECISION_STAGES if task.job.kind == DECISION else PAPER_STAGES
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
