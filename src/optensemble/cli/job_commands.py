"""The commands that begin with a table or a job file: init, check and fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optensemble.cli.console import WRONG_USE, Json, Quiet, Speaker, complain

JobFile = Annotated[Path, typer.Argument(help="The job file.", metavar="JOB.toml")]


def init(
    data: Annotated[str, typer.Argument(help="A table: CSV, Parquet or Arrow.", metavar="TABLE")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The job file to write.")] = Path("job.toml"),
    labels: Annotated[str | None, typer.Option(help="Columns of what came true, such as 'y_*'.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model and its columns, NAME=PATTERN; may be given again.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="A policy and its columns, NAME=PATTERN; may be given again.")
    ] = None,
    feasible: Annotated[str | None, typer.Option(help="The kind of feasible set: polytope, simplex, ...")] = None,
    sense: Annotated[str | None, typer.Option(help="max for payoffs, min for costs.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column of ids.")] = None,
    time: Annotated[str | None, typer.Option(help="The column of times.")] = None,
    groups: Annotated[str | None, typer.Option(help="A column of subgroups to be consistent on.")] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Write over a file that is there.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented job file for a table; what flags do not say is asked on a terminal, or guessed.

    For example:

    - `optensemble init history.parquet`

    - `optensemble init prices.csv --labels 'price_*' --model vendor='vendor_*' --feasible polytope -o battery.toml`
    """
    from optensemble.cli.prompts import Asked, ask
    from optensemble.jobs.init import job_text, write_job

    begun = ask(data, out, Asked(labels, model, policy, feasible, sense, id_column, time, groups, force))
    write_job(out, job_text(begun))
    speaker = Speaker(as_json, quiet)
    speaker.tell({"job": str(out), **vars(begun)})
    members = {"models": begun.models, "policies": begun.policies}
    found = [f"{what} {', '.join(each)}" for what, each in members.items() if each]
    speaker.say(
        f"labels {begun.labels}, {'; '.join(found)}; {'payoffs' if begun.sense == 'max' else 'costs'}",
        f"Wrote {out}. Fill in [feasible], then: optensemble check {out}",
    )


def check(job: JobFile, as_json: Json = False, quiet: Quiet = False) -> None:
    """Say what a job file and its data were understood as, and whether there are enough rows.

    For example:

    - `optensemble check job.toml`

    - `optensemble check job.toml --json`
    """
    from optensemble.cli.rendering import show_understood
    from optensemble.jobs.check import understand
    from optensemble.jobs.fit import prepare
    from optensemble.jobs.job import read_job

    speaker = Speaker(as_json, quiet)
    with speaker.progress("reading"):
        found = understand(prepare(read_job(job)))
    show_understood(speaker, found)
    if not found.enough:
        complain(found.verdict)
        raise typer.Exit(WRONG_USE)


def fit(
    job: JobFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file for the ensemble.")] = Path("ensemble.oe"),
    jobs: Annotated[int, typer.Option(help="How many threads share the work; -1 is all.")] = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit an ensemble and print who earns what on rows it was not fitted on.

    For example:

    - `optensemble fit job.toml -o ensemble.oe`
    """
    from optensemble.cli.rendering import show_fitted
    from optensemble.jobs import fit as fitting
    from optensemble.jobs.job import read_job
    from optensemble.jobs.sets import files_of
    from optensemble.tables.writing import require_place

    speaker, described = Speaker(as_json, quiet), read_job(job)
    require_place(out, [job, *files_of(described.feasible, described.folder)])
    with speaker.progress("fitting") as tell:
        task = fitting.prepare(described)
        require_place(out, list(task.tables.paths))
        ensemble = fitting.fit(task, tell, jobs)
        ensemble.save(out)
    show_fitted(speaker, ensemble, task, out)
