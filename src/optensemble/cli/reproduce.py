"""The command reproduce, which runs the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from optensemble.cli.console import CommandInterrupted, CommandOutput, Json, Quiet
from optensemble.exceptions import InputError
from optensemble.experiments.settings import FEWEST_ROWS, CurveSettings, DebiasOn, Settings, Trees
from optensemble.stats.sample_size import MINIMUM_ROWS

_DEFAULT, _CURVE = Settings(), CurveSettings()


def _sizes_text(curve: CurveSettings) -> str:
    return ",".join(map(str, curve.sizes))


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
    learning_curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve",
            metavar="",
            help="Also run the experiments with ever more rows to debias on, up to a million.",
        ),
    ] = False,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Rows to debias on, for the learning curve, separated by commas.", show_default=_sizes_text(_CURVE)
        ),
    ] = None,
    joint_rounds: Annotated[
        int | None,
        typer.Option(help="Joint rounds, for the learning curve.", min=1, show_default=str(_CURVE.joint_rounds)),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Time for everything, for the learning curve: points that would take longer are left out.",
            show_default=f"{_CURVE.minutes:g}",
        ),
    ] = None,
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

    - `optensemble reproduce --learning-curve --experiments A --sizes 400,2000,10000 --out curve`

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
    curve = _curve_settings(learning_curve, sizes=sizes, joint_rounds=joint_rounds, minutes=minutes)
    names = [name.strip().upper() for name in experiments.split(",") if name.strip()]
    check_names(names)
    try:
        with show_progress(Console(stderr=True, quiet=quiet), settings, names, curve) as tell:
            result = reproduce_paper(out, settings, names, learning_curve=curve, resume=resume, tell=tell)
    except KeyboardInterrupt:
        kept = ", ".join(find_finished(out, names)) or "nothing yet"
        left = f"Finished and in {out}: {kept}. The same command with --resume continues."
        raise CommandInterrupted(f"Interrupted. {left}") from None
    output = CommandOutput(as_json, quiet)
    if output.prints_text:
        print_results(Console(), result, settings, curve)
    output.print_json({"page": str(result.page), **result.document})


def _curve_settings(wanted: bool, *, sizes: str | None, **others: Any) -> CurveSettings | None:
    """Return the settings of the learning curve from options that may not be given, or None if it is not wanted."""
    given = {name: value for name, value in {"sizes": sizes, **others}.items() if value is not None}
    if not wanted and given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"only the learning curve takes {options}; give --learning-curve too.")
    if sizes is not None:
        given["sizes"] = _read_sizes(sizes)
    return CurveSettings(**given) if wanted else None


def _read_sizes(text: str) -> tuple[int, ...]:
    """Return numbers of rows, ascending."""
    try:
        return tuple(sorted({int(word.replace("_", "")) for word in text.split(",") if word.strip()}))
    except ValueError:
        raise InputError(f"--sizes must be whole numbers separated by commas, as in 400,2000; got {text!r}.") from None
