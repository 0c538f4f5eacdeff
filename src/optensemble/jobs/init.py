"""A job file to begin with: what can be guessed from a table, and a commented file of what was answered."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from optensemble._core.atomic_files import replace
from optensemble.jobs.patterns import natural
from optensemble.jobs.sets import KINDS

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
_TIMES = ("date", "time", "timestamp", "datetime")
_IDS = ("id", "key", "uuid", "row_id")


@dataclass(frozen=True)
class Family:
    """Columns that differ only in what the star of a pattern stands for."""

    pattern: str
    stars: tuple[str, ...]

    @property
    def name(self) -> str:
        """What to call it."""
        return re.sub(r"\W+", "_", self.pattern.replace("*", "")).strip("_") or "model"


@dataclass(frozen=True)
class Guess:
    """What a table looks like: labels, models, policies, and columns of their own; None where there is no guess."""

    families: tuple[Family, ...]
    labels: str | None = None
    models: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    id: str | None = None
    time: str | None = None
    sense: str = "max"


@dataclass(frozen=True)
class Begun:
    """What a new job file is to say."""

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


def find_families(columns: Sequence[str]) -> tuple[Family, ...]:
    """Find columns that differ in their last word or number only, and of those the ones that go together.

    >>> [family.pattern for family in find_families(["y_0", "y_1", "a_0", "a_1", "day"])]
    ['y_*', 'a_*']
    """
    found: dict[str, list[str]] = {}
    for column in columns:
        parts = re.fullmatch(r"(.*?(?:\W|_)|.*?[^\W\d](?=\d))([^\W_]+)", column)
        if parts and "*" not in column:
            found.setdefault(f"{parts[1]}*", []).append(parts[2])
    families = [Family(pattern, tuple(sorted(stars, key=natural))) for pattern, stars in found.items()]
    alike: dict[tuple[str, ...], list[Family]] = {}
    for family in families:
        alike.setdefault(family.stars, []).append(family)
    together = max(alike.values(), key=lambda each: (len(each) > 1, len(each) * len(each[0].stars)), default=[])
    return tuple(together)


def guess(columns: Sequence[str]) -> Guess:
    """Guess which columns play which part, by their names."""
    families = find_families(columns)
    labels = next((family for family in families if family.name.lower() in _LABELS), None)
    others = [family for family in families if family is not labels]
    policies = {family.name: family.pattern for family in others if _begins(family.name, _ACTIONS)}
    return Guess(
        families=families,
        labels=None if labels is None else labels.pattern,
        models={family.name: family.pattern for family in others if family.name not in policies},
        policies=policies,
        id=next((column for column in columns if column.lower() in _IDS), None),
        time=next((column for column in columns if column.lower() in _TIMES), None),
        sense="min" if labels is not None and _begins(labels.name, _COSTS) else "max",
    )


def _begins(name: str, words: Sequence[str]) -> bool:
    return re.split(r"[\W_\d]+", name.lower())[0] in words


def job_text(begun: Begun) -> str:
    """Return a job file with comments that say what may be changed."""
    lines = [
        "# What is decided, by whom, and on what evidence. `optensemble check` says what it understands of it.",
        "",
        "[data]",
        f"fit = {_text(begun.fit)}  # CSV, Parquet or Arrow; a list or a glob of several",
        f"labels = {_text(begun.labels)}  # what came true, a column for each coordinate of the decision",
        _optional("id", begun.id, "kept in the decisions"),
        _optional("time", begun.time, "rows are put in this order, and judged on later rows"),
        _optional("groups", begun.groups, "also be right on average in each of these subgroups"),
        _optional("clusters", None, "rows that belong together, such as those of one customer"),
        "",
        "[models]  # predictions: a column for each label",
        *(f"{_key(name)} = {_text(pattern)}" for name, pattern in begun.models.items()),
        "",
        "[policies]  # decisions that somebody else takes: a column for each label",
        *(f"{_key(name)} = {_text(pattern)}" for name, pattern in begun.policies.items()),
        "",
        "[feasible]  # which decisions are allowed",
        f"kind = {_text(begun.kind)}  # or {', '.join(name for name in KINDS if name != begun.kind)}",
        *_arguments(begun.kind, begun.dimension),
        "",
        "[ensemble]",
        f'sense = {_text(begun.sense)}  # "max" for payoffs, "min" for costs',
        "# seed = 0  # rows are dealt out into folds by it",
        "",
    ]
    return "\n".join(lines)


def relative_to(data: str, out: Path) -> str:
    """Return the name of a table as a job file beside it would write it."""
    folder, file = out.absolute().parent, Path(data).absolute()
    return Path(os.path.relpath(file, folder)).as_posix() if file.anchor == folder.anchor else str(file)


def write_job(path: Path, text: str) -> None:
    """Write a job file, whole."""
    replace(path, text.encode())


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # which JSON does not escape


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _optional(name: str, value: str | None, comment: str) -> str:
    return f"{name} = {_text(value)}  # {comment}" if value else f'# {name} = "..."  # {comment}'


def _arguments(kind: str, d: int) -> list[str]:
    """Return arguments to be filled in; what is left as a comment is not needed."""
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
            "limit = 1.0  # the largest variance allowed",
        ],
        "knapsack": [f"weights = {json.dumps([1] * d)}", "capacity = 1", "# integer = true  # whole items only"],
        "top_k": ["k = 1", "# at_most = true"],
        "shortest_path": [
            'edges = "edges.csv"  # a line "from,to" for each label, in their order',
            'source = "start"',
            'target = "end"',
        ],
        "assignment": [f"rows = {side}", f"columns = {d // side}"],
        "vertices": ['array = "vertices.csv"  # a line for each action that is allowed'],
        "product": ["# [[feasible.blocks]]  # a section for each block, with its own kind and arguments"],
    }
    return by_kind.get(kind, [])
