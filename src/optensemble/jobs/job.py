"""The job file: reading and validation; errors are one line with the place and the remedy."""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from optensemble._core.suggestions import did_you_mean
from optensemble.ensembles.base import BLACK_BOX, DECISION, WHITE_BOX
from optensemble.exceptions import FileError, InputError
from optensemble.report.terms import DEFAULT_TERMS, ReportTerms
from optensemble.tables.patterns import is_pattern

ENSEMBLE_KINDS = (DECISION, WHITE_BOX, BLACK_BOX)

_SECTIONS = ("data", "models", "policies", "feasible", "ensemble", "report", "live")
_DATA = ("fit", "labels", "id", "time", "groups", "subgroups", "weight", "missing_labels", "context")
_OLD = ("clusters",)  # the name of groups in earlier versions
_PAPER_OPTIONS = ("alpha", "bucket_width", "schedule", "max_rounds", "shrinkage", "min_cell", "M", "validation")
_MENDING = ("on_infeasible", "tolerance")
OPTIONS = {
    DECISION: ("kind", "sense", "seed", *_MENDING),
    WHITE_BOX: ("kind", "sense", "seed", *_PAPER_OPTIONS),
    BLACK_BOX: ("kind", "sense", "seed", *_PAPER_OPTIONS, "conditional", *_MENDING),
}
"""Keys of ``[ensemble]``, by kind."""

MISSING_LABELS = ("drop", "raise")
"""What may be done with rows that lack labels; the first unless said otherwise."""

Names = str | tuple[str, ...]
"""A pattern, or a list of columns."""


@dataclass(frozen=True)
class Job:
    """Contents of a job file, not yet compared with data.

    Attributes
    ----------
    path
        The file.
    fit
        Files with the rows to fit on.
    labels, models, policies
        Columns: a pattern, or a list.
    id, time, groups
        Single columns: of ids, of times, of rows that belong together.
    subgroups
        Columns of subgroups, on which forecasts are to be unbiased too.
    weight
        The column of weights: the number of rows that a row counts for.
    missing_labels
        What to do with rows that lack labels: ``"drop"`` or ``"raise"``.
    context
        Columns that a forecast may look at beside what members say: a pattern, or a list.
    feasible, ensemble
        The sections ``[feasible]`` and ``[ensemble]``, unchanged.
    report
        The section ``[report]``: the title, the word for a row, and the currency of reports.
    members
        Of the section ``[live]``: where members are that are Python functions, as ``module:dict``.
    """

    path: Path
    fit: tuple[str, ...]
    labels: Names
    models: dict[str, Names]
    policies: dict[str, Names]
    feasible: dict[str, Any]
    ensemble: dict[str, Any]
    id: str | None = None
    time: str | None = None
    groups: str | None = None
    subgroups: tuple[str, ...] = ()
    weight: str | None = None
    missing_labels: str = MISSING_LABELS[0]
    report: ReportTerms = DEFAULT_TERMS
    context: Names = ()
    members: str | None = None

    @property
    def folder(self) -> Path:
        """The folder that paths in the file are relative to."""
        return self.path.parent

    @property
    def patterns(self) -> list[str]:
        """The patterns that members, and parameters of the feasible set, name their columns by."""
        members = [given for given in (*self.models.values(), *self.policies.values()) if isinstance(given, str)]
        return [*members, *_patterns_of(self.feasible)]

    @property
    def kind(self) -> str:
        """The kind of ensemble."""
        return str(self.ensemble.get("kind", DECISION))

    @property
    def sense(self) -> str:
        """``"max"`` for payoffs, ``"min"`` for costs."""
        return str(self.ensemble.get("sense", "max"))


def read_job(path: Path) -> Job:
    """Read and validate a job file."""
    document = _parse(path)
    _require_known(document, _SECTIONS, f"{path}: section")
    for name in document:
        _require_section(document, name, path)
    for name in ("data", "feasible"):
        if name not in document:
            raise InputError(f"{path} has no section [{name}]. `optensemble init` writes a complete job file.")
    data = document["data"]
    _require_known(data, _DATA, f"{path}: [data]", _OLD)
    for name in ("fit", "labels"):
        if name not in data:
            raise InputError(f"{path}: [data] lacks {name!r}. Add, for example, {_EXAMPLES[name]}.")
    ensemble = _read_ensemble(document.get("ensemble", {}), path)
    data = _in_present_words(data, path)
    return Job(
        path=path,
        fit=_read_texts(data["fit"], "fit", path),
        labels=_read_names(data["labels"], "[data] labels", path),
        models=_read_members(document, "models", path),
        policies=_read_members(document, "policies", path),
        feasible=document["feasible"],
        ensemble=ensemble,
        id=_read_column(data, "id", path),
        time=_read_column(data, "time", path),
        groups=_read_column(data, "groups", path),
        subgroups=_read_texts(data.get("subgroups", ()), "subgroups", path),
        weight=_read_column(data, "weight", path),
        missing_labels=_read_choice(data.get("missing_labels", MISSING_LABELS[0]), "[data] missing_labels", path),
        report=ReportTerms.of_section(document.get("report", {}), f"{path}: [report]"),
        context=_read_names(data["context"], "[data] context", path) if "context" in data else (),
        members=_read_place(document.get("live", {}), path),
    )


_EXAMPLES = {"fit": 'fit = "history.parquet"', "labels": 'labels = "y_*"'}


def _parse(path: Path) -> dict[str, Any]:
    if path.suffix.lower() in (".csv", ".parquet", ".arrow", ".feather", ".tsv"):
        raise InputError(f"{path} is a table. `optensemble init {path}` writes a job file for it: name that.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}. `optensemble init` writes one.") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error.reason}). Give the job file.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}. Text needs quotes, lists brackets.") from error


def _in_present_words(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return ``[data]`` with ``subgroups`` and ``groups``, which were once called ``groups`` and ``clusters``.

    A list of groups, or groups beside clusters, can only be of that time.
    """
    told = {name: value for name, value in data.items() if name not in ("groups", "clusters")}
    groups, clusters, where = data.get("groups"), data.get("clusters"), f"{path}: [data]"
    if groups is None and clusters is None:
        return data
    if "subgroups" in data:
        if groups is not None and clusters is not None:
            raise InputError(f"{where} clusters is the old name of groups, and both are given. Leave clusters out.")
        if isinstance(groups, list):
            raise InputError(
                f"{where} groups must be one column, of rows that belong together; got {_as_written(groups)}. List "
                "columns in whose values forecasts are to be unbiased under subgroups."
            )
    elif isinstance(groups, list) or (groups is not None and clusters is not None):
        told["subgroups"], groups = groups, None
        _warn_of_old(f"{where} groups are now called subgroups. Write {_line('subgroups', data['groups'])}")
    if clusters is not None:
        groups = clusters
        _warn_of_old(f"{where} clusters are now called groups. Write {_line('groups', clusters)}")
    return told if groups is None else {**told, "groups": groups}


def _warn_of_old(message: str) -> None:
    warnings.warn(f"{message} in place of it.", FutureWarning, stacklevel=4)


def _line(name: str, value: Any) -> str:
    """Return a line of a job file."""
    return f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}"


def _require_known(table: Mapping[str, Any], known: tuple[str, ...], where: str, old: tuple[str, ...] = ()) -> None:
    for name in table:
        if name not in (*known, *old):
            hint = did_you_mean(name, known) or f" Known are {', '.join(known)}."
            raise InputError(f"{where} {name!r} is not known.{hint}")


def _require_section(document: dict[str, Any], name: str, path: Path) -> None:
    if not isinstance(document[name], dict):
        raise InputError(f"{path}: {name!r} must be a section; got {document[name]!r}. Write [{name}] on its own line.")


def _read_members(document: dict[str, Any], what: str, path: Path) -> dict[str, Names]:
    members = {name: _read_names(value, f"[{what}] {name}", path) for name, value in document.get(what, {}).items()}
    if what == "policies":
        both = [name for name in members if name in document.get("models", {})]
        if both:
            raise InputError(f"{path}: {both[0]!r} is a model and a policy. Give one of them another name.")
        if not members and not document.get("models"):
            raise InputError(f'{path} names no models or policies. Add, for example, [models] ours = "ours_*".')
    return members


def _patterns_of(section: Any) -> Iterator[str]:
    """Go through the patterns ``{ columns = "free_*" }`` of a section."""
    if isinstance(section, (list, dict)):
        for value in section if isinstance(section, list) else section.values():
            yield from _patterns_of(value)
    if isinstance(section, dict) and isinstance(given := section.get("columns"), str) and is_pattern(given):
        yield given


def _read_ensemble(given: dict[str, Any], path: Path) -> dict[str, Any]:
    kind, sense = given.get("kind", DECISION), given.get("sense", "max")
    if kind not in ENSEMBLE_KINDS:
        hint = did_you_mean(str(kind), ENSEMBLE_KINDS)
        raise InputError(f"{path}: [ensemble] kind must be one of {', '.join(ENSEMBLE_KINDS)}; got {kind!r}.{hint}")
    if sense not in ("max", "min"):
        hint = did_you_mean(str(sense), ("max", "min"))
        raise InputError(f'{path}: [ensemble] sense must be "max" for payoffs or "min" for costs; got {sense!r}.{hint}')
    _require_known(given, OPTIONS[kind], f"{path}: [ensemble] of kind {kind!r}:")
    seed = given.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"{path}: [ensemble] seed must be a whole number, 0 or more; got {seed!r}.")
    _read_choice(given.get("on_infeasible", "project"), "[ensemble] on_infeasible", path, ("project", "raise"))
    tolerance = given.get("tolerance", 0)
    if not isinstance(tolerance, (int, float)) or isinstance(tolerance, bool) or not 0 <= tolerance < inf:
        raise InputError(
            f"{path}: [ensemble] tolerance must be a number, 0 or more, in the units of the feasible set; got "
            f"{tolerance!r}."
        )
    return given


def _read_choice(value: Any, where: str, path: Path, known: tuple[str, ...] = MISSING_LABELS) -> str:
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise InputError(f"{path}: {where} must be {' or '.join(map(repr, known))}; got {value!r}.{hint}")
    return str(value)


def _read_names(value: Any, where: str, path: Path) -> Names:
    if isinstance(value, str) and value:
        return value if is_pattern(value) else (value,)
    if isinstance(value, list) and value and all(isinstance(name, str) and name for name in value):
        twice = [name for name in value if value.count(name) > 1]
        if twice:
            raise InputError(f"{path}: {where} names {twice[0]!r} twice. Name every column once.")
        return tuple(value)
    raise InputError(f'{path}: {where} must be a pattern such as "y_*" or a list of columns; got {_as_written(value)}.')


def _read_texts(value: Any, name: str, path: Path) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    texts = isinstance(given, (list, tuple)) and all(isinstance(each, str) and each for each in given)
    if not texts or (name == "fit" and not given):
        raise InputError(f"{path}: [data] {name} must be text, or a list of texts; got {_as_written(value)}.")
    twice = [each for each in given if given.count(each) > 1]
    if twice:
        raise InputError(f"{path}: [data] {name} names {twice[0]!r} twice. Name it once.")
    return tuple(given)


def _read_place(section: dict[str, Any], path: Path) -> str | None:
    """Return where members are that are Python functions."""
    _require_known(section, ("members",), f"{path}: [live]")
    value = section.get("members")
    if value is not None and (not isinstance(value, str) or not value):
        raise InputError(f'{path}: [live] members must be "module:dict"; got {_as_written(value)}.')
    return value


def _read_column(data: dict[str, Any], name: str, path: Path) -> str | None:
    value = data.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise InputError(f"{path}: [data] {name} must be the name of one column, in quotes; got {_as_written(value)}.")
    return value


def _as_written(value: Any) -> str:
    return repr(value) if isinstance(value, (str, int, float, list)) else str(value)
