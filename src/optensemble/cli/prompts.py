"""The questions of ``init``: asked on a terminal; elsewhere flags and guesses must do."""

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
from optensemble.jobs.init import Begun, Guess, guess, relative_to
from optensemble.jobs.patterns import left_to
from optensemble.jobs.roles import find_labels
from optensemble.jobs.sets import KINDS
from optensemble.tables.reading import find_tables, require_columns
from optensemble.tables.writing import require_place

T = TypeVar("T")

_NONE = "-"


@dataclass(frozen=True)
class Asked:
    """What was given by flags; None is to be asked or guessed."""

    labels: str | None
    model: list[str] | None
    policy: list[str] | None
    feasible: str | None
    sense: str | None
    id: str | None
    time: str | None
    groups: str | None
    force: bool


def ask(data: str, out: Path, asked: Asked) -> Begun:
    """Find out what a job file is to say."""
    if out.exists() and not asked.force:
        raise InputError(f"{out} exists. Give -o another name, or --force to write over it.")
    tables = find_tables([data])
    require_place(out, list(tables.paths))
    columns, name = tables.columns, str(tables)
    found = guess(columns)
    labels = asked.labels or _ask_labels(found, columns, name)
    find_labels(labels, columns, "--labels", name)
    given = asked.model is not None or asked.policy is not None
    models = _pairs(asked.model, "--model") if given else _ask_members("Models", found.models, labels)
    policies = _pairs(asked.policy, "--policy") if given else _ask_members("Policies", found.policies, labels)
    own = left_to(labels, [*models.values(), *policies.values()], columns)
    for flag, members in (("--model", models), ("--policy", policies)):
        for member, pattern in members.items():
            find_labels(pattern, columns, f"{flag} {member}", name)
    both = [member for member in models if member in policies]
    if both:
        raise InputError(f"{both[0]!r} is a model and a policy. Give one of them another name.")
    if not models and not policies:
        raise InputError(f"no models were recognised in {name}. Say --model NAME=PATTERN; it has {listed(columns)}.")
    for column in (asked.id, asked.time, asked.groups):
        require_columns([column] if column else [], columns, name)
    return Begun(
        fit=relative_to(data, out),
        labels=labels,
        models=models,
        policies=policies,
        kind=_choice(asked.feasible, "feasible", "Which decisions are allowed?", list(KINDS), "polytope"),
        dimension=len(find_labels(labels, own, "--labels", name)[0]),
        sense=_choice(asked.sense, "sense", "Payoffs to be large, or costs to be small?", ["max", "min"], found.sense),
        id=_column(asked.id, found.id, "Column of ids", columns),
        time=_column(asked.time, found.time, "Column of times", columns),
        groups=_column(asked.groups, None, "Column of subgroups", columns),
    )


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask_labels(found: Guess, columns: Sequence[str], name: str) -> str:
    if _asks():
        typer.echo(f"{name} has the columns {listed(columns, 20)}.", err=True)

        def known(answer: str) -> str:
            find_labels(answer, columns, "labels", name)
            return answer

        return _ask("Columns of what came true (labels)", found.labels, known)
    if found.labels is None:
        there = f"It has {listed(columns)}."
        raise InputError(f"{name}: it cannot be guessed which columns are labels. Say --labels 'y_*' or so. {there}")
    return found.labels


def _ask_members(what: str, guessed: dict[str, str], labels: str) -> dict[str, str]:
    before = labels.partition("*")[0]
    known = {name: pattern for name, pattern in guessed.items() if not before.startswith(pattern.partition("*")[0])}
    if not _asks():
        return known
    default = " ".join(f"{name}={pattern}" for name, pattern in known.items()) or _NONE
    question = f"{what}, as name=pattern with spaces between ({_NONE} for none)"
    return _ask(question, default, lambda answer: _pairs(_split(answer), what))


def _split(answer: str) -> list[str]:
    """Cut an answer where the next name begins: patterns may have spaces.

    >>> _split("sap=SAP * ours=ours_*")
    ['sap=SAP *', 'ours=ours_*']
    """
    return [] if answer == _NONE else re.split(r"\s+(?=[^\s=]+=)", answer.strip())


def _ask(question: str, default: str | None, take: Callable[[str], T]) -> T:
    """Ask until the answer can be used; stdout is left to machines."""
    shown = question if default is None else f"{question} [{default}]"
    while True:
        typer.echo(f"{shown}: ", err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            raise typer.Abort
        try:
            return take(line.strip() or default or "")
        except InputError as error:
            typer.echo(str(error), err=True)


def _pairs(given: list[str] | None, flag: str) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        name, equals, pattern = text.partition("=")
        if not (name and equals and pattern):
            raise InputError(f"{flag} must be NAME=PATTERN, such as ours='ours_*'; got {text!r}.")
        if name in pairs:
            raise InputError(f"{flag} names {name!r} twice. Give one of them another name.")
        pairs[name] = pattern
    return pairs


def _choice(given: str | None, flag: str, question: str, known: list[str], default: str) -> str:
    def take(answer: str) -> str:
        if answer not in known:
            hint = did_you_mean(answer, known) or f" Known are {', '.join(known)}."
            raise InputError(f"--{flag} {answer!r} is not known.{hint}")
        return answer

    if given is None and _asks():
        return _ask(f"{question} {', '.join(known)}", default, take)
    return take(default if given is None else given)


def _column(given: str | None, guessed: str | None, question: str, columns: Sequence[str]) -> str | None:
    if given is not None or not _asks():
        return given or guessed

    def take(answer: str) -> str | None:
        require_columns([] if answer == _NONE else [answer], columns, "the table")
        return None if answer == _NONE else answer

    return _ask(f"{question} ({_NONE} for none)", guessed or _NONE, take)
