"""Questions of ``init``, asked on a terminal; elsewhere options and guesses take their place."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer

from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import InputError
from optensemble.jobs.init import Guess, JobDraft, guess, relative_to
from optensemble.jobs.roles import find_labels
from optensemble.jobs.sets import SET_KINDS
from optensemble.tables.patterns import left_to
from optensemble.tables.reading import find_tables, require_columns
from optensemble.tables.sorted_times import find_sorted_times
from optensemble.tables.writing import require_output_path

T = TypeVar("T")

_NONE = "-"


@dataclass(frozen=True)
class InitOptions:
    """Options of ``init``; None is asked or guessed."""

    labels: str | None
    model: list[str] | None
    policy: list[str] | None
    feasible: str | None
    sense: str | None
    id: str | None
    time: str | None
    groups: str | None
    subgroups: str | None
    force: bool


def ask_for_draft(data: str, out: Path, options: InitOptions) -> JobDraft:
    """Return the contents of a new job file, from options, answers and guesses."""
    if out.exists() and not options.force:
        raise InputError(f"{out} exists. Give -o another name, or --force to overwrite it.")
    tables = find_tables([data])
    require_output_path(out, list(tables.paths))
    columns, name = tables.columns, str(tables)
    found = guess(columns, find_sorted_times(tables))
    labels = options.labels or _ask_labels(found, columns, name)
    find_labels(labels, columns, "--labels", name)
    given = options.model is not None or options.policy is not None
    models = _parse_members(options.model, "--model") if given else _ask_members("Models", found.models, labels)
    policies = _parse_members(options.policy, "--policy") if given else _ask_members("Policies", found.policies, labels)
    own = left_to(labels, [*models.values(), *policies.values()], columns)
    for flag, members in (("--model", models), ("--policy", policies)):
        for member, pattern in members.items():
            find_labels(pattern, columns, f"{flag} {member}", name)
    both = [member for member in models if member in policies]
    if both:
        raise InputError(f"{both[0]!r} is a model and a policy. Give one of them another name.")
    if not models and not policies:
        raise InputError(f"no models were recognised in {name}. Give --model NAME=PATTERN; it has {listed(columns)}.")
    for column in (options.id, options.time, options.groups, options.subgroups):
        require_columns([column] if column else [], columns, name)
    return JobDraft(
        fit=relative_to(data, out),
        labels=labels,
        models=models,
        policies=policies,
        kind=_pick_choice(options.feasible, "feasible", "The feasible set?", list(SET_KINDS), "polytope"),
        dimension=len(find_labels(labels, own, "--labels", name)[0]),
        sense=_pick_choice(
            options.sense, "sense", "Maximise payoffs (max) or minimise costs (min)?", ["max", "min"], found.sense
        ),
        id=_pick_column(options.id, found.id, "Column of ids", columns),
        time=_pick_column(options.time, found.time, "Column of times", columns),
        groups=_pick_column(options.groups, None, "Column of groups, rows that belong together", columns),
        subgroups=_pick_column(options.subgroups, None, "Column of subgroups, to be unbiased in each", columns),
    )


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask_labels(found: Guess, columns: Sequence[str], name: str) -> str:
    if _is_interactive():
        typer.echo(f"{name} has the columns {listed(columns, 20)}.", err=True)

        def known(answer: str) -> str:
            find_labels(answer, columns, "labels", name)
            return answer

        return _ask_until_valid("Columns of the labels (realised outcomes)", found.labels, known)
    if found.labels is None:
        there = f"It has {listed(columns)}."
        raise InputError(f"{name}: the label columns cannot be guessed. Give --labels, such as 'y_*'. {there}")
    return found.labels


def _ask_members(what: str, guessed: dict[str, str], labels: str) -> dict[str, str]:
    before = labels.partition("*")[0]
    known = {name: pattern for name, pattern in guessed.items() if not before.startswith(pattern.partition("*")[0])}
    if not _is_interactive():
        return known
    default = " ".join(f"{name}={pattern}" for name, pattern in known.items()) or _NONE
    question = f"{what}, as name=pattern with spaces between ({_NONE} for none)"
    return _ask_until_valid(question, default, lambda answer: _parse_members(_split_members(answer), what))


def _split_members(answer: str) -> list[str]:
    """Split an answer where the next name begins: patterns can contain spaces.

    >>> _split_members("sap=SAP * ours=ours_*")
    ['sap=SAP *', 'ours=ours_*']
    """
    return [] if answer == _NONE else re.split(r"\s+(?=[^\s=]+=)", answer.strip())


def _ask_until_valid(question: str, default: str | None, parse: Callable[[str], T]) -> T:
    """Ask until the answer is valid, on stderr: stdout is for results."""
    shown = question if default is None else f"{question} [{default}]"
    while True:
        typer.echo(f"{shown}: ", err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            raise typer.Abort
        try:
            return parse(line.strip() or default or "")
        except InputError as error:
            typer.echo(str(error), err=True)


def _parse_members(given: list[str] | None, flag: str) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        name, equals, pattern = text.partition("=")
        if not (name and equals and pattern):
            raise InputError(f"{flag} must be NAME=PATTERN, such as ours='ours_*'; got {text!r}.")
        if name in pairs:
            raise InputError(f"{flag} names {name!r} twice. Give one of them another name.")
        pairs[name] = pattern
    return pairs


def _pick_choice(given: str | None, flag: str, question: str, known: list[str], default: str) -> str:
    def parse(answer: str) -> str:
        if answer not in known:
            hint = did_you_mean(answer, known) or f" Known are {', '.join(known)}."
            raise InputError(f"--{flag} {answer!r} is not known.{hint}")
        return answer

    if given is None and _is_interactive():
        return _ask_until_valid(f"{question} {', '.join(known)}", default, parse)
    return parse(default if given is None else given)


def _pick_column(given: str | None, guessed: str | None, question: str, columns: Sequence[str]) -> str | None:
    if given is not None or not _is_interactive():
        return given or guessed

    def parse(answer: str) -> str | None:
        require_columns([] if answer == _NONE else [answer], columns, "the table")
        return None if answer == _NONE else answer

    return _ask_until_valid(f"{question} ({_NONE} for none)", guessed or _NONE, parse)
