"""New job files: guesses from the columns of a table, and a commented file of the answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from optensemble._core.atomic_files import replace
from optensemble.jobs.sets import SET_KINDS
from optensemble.tables.patterns import natural
from optensemble.tables.sorted_times import TIMES

_COSTS = ("cost", "costs", "minutes", "hours", "delay", "loss", "distance", "runtime")
_LABELS = (
    *_COSTS,
    "y",
    "label",
    "labels",
    "actual",
    "actuals",
    "target",
    "truth",
    "true",
    "realised",
    "realized",
    "outcome",
)
_ACTIONS = (
    *("plan", "planner", "planned", "action", "actions", "decision", "decisions", "decided"),
    *("policy", "chosen", "taken"),
)
_IDS = ("id", "key", "uuid", "row_id")


@dataclass(frozen=True)
class ColumnFamily:
    """Columns that differ only in the text in place of a pattern's star."""

    pattern: str
    stars: tuple[str, ...]

    @property
    def name(self) -> str:
        """The pattern's text without the star, as a name."""
        return re.sub(r"\W+", "_", self.pattern.replace("*", "")).strip("_") or "model"


@dataclass(frozen=True)
class Guess:
    """Guessed roles of a table's columns; None where there is no guess."""

    families: tuple[ColumnFamily, ...]
    labels: str | None = None
    models: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    id: str | None = None
    time: str | None = None
    sense: str = "max"


@dataclass(frozen=True)
class JobDraft:
    """Contents of a new job file."""

    fit: str
    labels: str
    models: dict[str, str]
    policies: dict[str, str]
    kind: str
    dimension: int
    sense: str = "max"
    id: str | None = None
    time: str | None = None
    groups: str | None = None
    subgroups: str | None = None


def find_families(columns: Sequence[str]) -> tuple[ColumnFamily, ...]:
    """Find the largest group of families whose columns differ only in the same last words or numbers.

    >>> [family.pattern for family in find_families(["y_0", "y_1", "a_0", "a_1", "day"])]
    ['y_*', 'a_*']
    """
    found: dict[str, list[str]] = {}
    for column in columns:
        parts = re.fullmatch(r"(.*?(?:\W|_)|.*?[^\W\d](?=\d))([^\W_]+)", column)
        if parts and "*" not in column:
            found.setdefault(f"{parts[1]}*", []).append(parts[2])
    families = [ColumnFamily(pattern, tuple(sorted(stars, key=natural))) for pattern, stars in found.items()]
    alike: dict[tuple[str, ...], list[ColumnFamily]] = {}
    for family in families:
        alike.setdefault(family.stars, []).append(family)
    together = max(alike.values(), key=lambda each: (len(each) > 1, len(each) * len(each[0].stars)), default=[])
    return tuple(together)


def guess(columns: Sequence[str], times: Sequence[str] = ()) -> Guess:
    """Guess the roles of columns from their names; ``times`` are columns that rows are sorted by, the best first."""
    families = find_families(columns)
    labels = next((family for family in families if family.name.lower() in _LABELS), None)
    others = [family for family in families if family is not labels]
    policies = {family.name: family.pattern for family in others if _begins_with(family.name, _ACTIONS)}
    return Guess(
        families=families,
        labels=None if labels is None else labels.pattern,
        models={family.name: family.pattern for family in others if family.name not in policies},
        policies=policies,
        id=next((column for column in columns if column.lower() in _IDS), None),
        time=next(iter((*times, *(column for column in columns if column.lower() in TIMES))), None),
        sense="min" if labels is not None and _begins_with(labels.name, _COSTS) else "max",
    )


def _begins_with(name: str, words: Sequence[str]) -> bool:
    return re.split(r"[\W_\d]+", name.lower())[0] in words


def job_text(draft: JobDraft) -> str:
    """Return the text of a job file, with comments on what can be changed."""
    lines = [
        "# Data, members, feasible set and ensemble of a job. `optensemble check` shows how it is interpreted.",
        "",
        "[data]",
        f"fit = {_toml_text(draft.fit)}  # CSV, Parquet or Arrow; a list or a glob of several",
        f"labels = {_toml_text(draft.labels)}  # realised outcomes, a column for each coordinate of the decision",
        _optional_line("id", draft.id, "copied to the decisions"),
        _optional_line("time", draft.time, "rows are sorted by it, and evaluated on later rows"),
        _optional_line("groups", draft.groups, "rows that belong together, such as those of one customer"),
        _optional_line("subgroups", draft.subgroups, "forecasts must be unbiased in each of its values"),
        '# context = "x_*"  # numbers known at the time of a decision, which a forecast may look at too',
        "",
        "[models]  # predictions: a column for each label",
        *(f"{_toml_key(name)} = {_toml_text(pattern)}" for name, pattern in draft.models.items()),
        "",
        "[policies]  # decisions of others: a column for each label",
        *(f"{_toml_key(name)} = {_toml_text(pattern)}" for name, pattern in draft.policies.items()),
        "",
        "[feasible]  # the allowed decisions",
        f"kind = {_toml_text(draft.kind)}  # or {', '.join(name for name in SET_KINDS if name != draft.kind)}",
        *_argument_lines(draft.kind, draft.dimension),
        "",
        "[ensemble]",
        f'sense = {_toml_text(draft.sense)}  # "max" for payoffs, "min" for costs',
        "# seed = 0  # of the assignment of rows to folds",
        "",
        "# [report]  # of `optensemble report`",
        '# title = "..."  # the title of the page',
        '# unit = "day"  # the word for one row',
        '# currency = "€"  # what payoffs or costs are counted in',
        "",
    ]
    return "\n".join(lines)


def relative_to(data: str, out: Path) -> str:
    """Return the path of a table relative to the job file."""
    folder, file = out.absolute().parent, Path(data).absolute()
    return Path(os.path.relpath(file, folder)).as_posix() if file.anchor == folder.anchor else str(file)


def write_job(path: Path, text: str) -> None:
    """Write a job file atomically."""
    replace(path, text.encode())


def _toml_text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # which JSON does not escape


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_text(name)


def _optional_line(name: str, value: str | None, comment: str) -> str:
    return f"{name} = {_toml_text(value)}  # {comment}" if value else f'# {name} = "..."  # {comment}'


def _argument_lines(kind: str, d: int) -> list[str]:
    """Return lines with arguments to fill in; optional ones are comments."""
    row = json.dumps([1] * d if d <= 12 else [1, "..."]).replace('"', "")
    linear = [
        f"# A_ub = [{row}]  # rows of A_ub a <= b_ub, inline or from a CSV file",
        "# b_ub = [1]",
        "# A_eq = ...  # rows of A_eq a = b_eq",
        "# lower = 0  # one number, or one for each coordinate",
        "# upper = 1",
    ]
    side = max(length for length in range(1, int(d**0.5) + 1) if d % length == 0)
    by_kind = {
        "polytope": linear,
        "mixed_integer": [*linear, "# integer = true  # or a list: which coordinates must be whole"],
        "box": linear[-2:],
        "risk_budget": [
            'covariance = "covariance.csv"  # numbers, no header',
            "limit = 1.0  # the largest allowed variance",
        ],
        "knapsack": [f"weights = {json.dumps([1] * d)}", "capacity = 1", "# integer = true  # whole items only"],
        "top_k": ["k = 1", "# at_most = true"],
        "shortest_path": [
            'edges = "edges.csv"  # a line "from,to" for each label, in order',
            'source = "start"',
            'target = "end"',
        ],
        "assignment": [f"rows = {side}", f"columns = {d // side}"],
        "vertices": ['array = "vertices.csv"  # a line for each allowed action'],
        "product": ["# [[feasible.blocks]]  # a section for each block, with its own kind and arguments"],
        "by_key": [
            '# column = "region"  # the column that says which set a row has',
            "# [feasible.sets.north]  # a section for each key in that column, with its own kind and arguments",
        ],
        "with_cost": ["# [feasible.set]  # the set itself, with its own kind and arguments"],
    }
    return by_kind.get(kind, [])
