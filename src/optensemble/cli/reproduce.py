"""The command reproduce, which runs the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optensemble.cli.console import CommandInterrupted, CommandOutput, Json, Quiet
from optensemble.experiments.settings import FEWEST_ROWS, DebiasOn, Settings, Trees
from optensemble.stats.sample_size import MINIMUM_ROWS

_DEFAULT = Settings()


def reproduce_command(
    experiments: Annotated[
        str, typer.Option(help="Experiments of the paper, A to D, separated by commas.")
    ] = "A,B,C,D",
    rows: Annotated[int, typer.Option(help="Rows to debias on.", min=MINIMUM_ROWS)] = _DEFAULT.rows,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of debiasing.", min=1, show_default="5000, and 8000 for D")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the data and the members.", min=0)] = _DEFAULT.seed,
    noise: Annotated[float, typer.Option(help="Variance of the labels' noise.", min=0)] = _DEFAULT.noise,
    trees: Annotated[
        Trees, typer.Option(help="Gradient boosting: histogram (quick) or exact (the paper's, a minute more).")
    ] = "histogram",
    debias_on: Annotated[
        DebiasOn, typer.Option(help="Rows to debias on: held out from training, or as published the training rows.")
    ] = "held-out",
    training_rows: Annotated[int, typer.Option(help="Rows to train the members on.")] = _DEFAULT.training_rows,
    alpha: Annotated[float, typer.Option(help="Tolerance of debiasing, in units of the labels.")] = _DEFAULT.alpha,
    bucket_width: Annotated[float, typer.Option(help="Width of the level sets; divides 1.")] = _DEFAULT.bucket_width,
    fresh_rows: Annotated[
        int, typer.Option(help="Fresh rows for the evaluation.", min=FEWEST_ROWS)
    ] = _DEFAULT.fresh_rows,
    out: Annotated[Path, typer.Option(help="Folder for page, figures and numbers.")] = Path("reproduction"),
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            metavar="",
            help="Continue an interrupted run; without it, a run replaces earlier results.",
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments, evaluate the ensembles on fresh rows, and write a page with figures and tables.

    For example:

    - `optensemble reproduce`

    - `optensemble reproduce --experiments A,C --rows 2000 --noise 1000 --out noisy`

    - `optensemble reproduce --trees exact --debias-on train --out as-published`

    - `optensemble reproduce --resume`
    """
    from rich.console import Console

    from optensemble.experiments.console import print_results, show_progress
    from optensemble.experiments.reproduce import check_names, find_finished, reproduce_paper

    settings = Settings(
        rows=rows,
        rounds=rounds,
        seed=seed,
        noise=noise,
        trees=trees,
        debias_on=debias_on,
        fresh_rows=fresh_rows,
        training_rows=training_rows,
        alpha=alpha,
        bucket_width=bucket_width,
    )
    names = [name.strip().upper() for name in experiments.split(",") if name.strip()]
    check_names(names)
    try:
        with show_progress(Console(stderr=True, quiet=quiet), settings, names) as tell:
            result = reproduce_paper(out, settings, names, resume=resume, tell=tell)
    except KeyboardInterrupt:
        kept = ", ".join(find_finished(out, names)) or "nothing yet"
        left = f"Finished and in {out}: {kept}. The same command with --resume continues."
        raise CommandInterrupted(f"Interrupted. {left}") from None
    output = CommandOutput(as_json, quiet)
    if output.prints_text:
        print_results(Console(), result, settings)
    output.print_json({"page": str(result.page), **result.document})
