"""The hyperparameters of a fit of the paper's ensembles, checked, and the defaults of those left open."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from optensemble._core.buckets import Buckets
from optensemble._core.validation import bucket_count, require_choice, require_number
from optensemble.ensembles.cross_validation import EVERY_ROUND, SHRINKAGES
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.feasible.registry import require_set
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.schedules import SCHEDULES, Debiasing
from optensemble.stats.sample_size import MIN_CELL, MINIMUM_ROWS


@dataclass(frozen=True)
class Hyperparameters:
    """The parameters of a fit, which every answer depends on; those set later wait for the next fit."""

    feasible: FeasibleSet
    sense: str
    bucket_width: float
    subgroups: Any
    alpha: float
    schedule: str | None
    max_rounds: int | None
    shrinkage: float | None
    min_cell: int | None
    M: float | None
    validation: str | None

    @classmethod
    def of(cls, ensemble: Any) -> Self:
        """Take the parameters of an ensemble as they are now."""
        given = {field.name: getattr(ensemble, field.name) for field in fields(cls)}
        if ensemble.groups is not None:
            if given["subgroups"] is not None:
                raise InputError("groups is the old name of subgroups, and both were given. Leave groups out.")
            given["subgroups"] = ensemble.groups
        return cls(**given)

    @property
    def sign(self) -> float:
        """Return 1 to maximise, -1 to minimise."""
        return 1.0 if self.sense == "max" else -1.0

    @property
    def buckets(self) -> Buckets:
        """Return the bucketing of the set's actions."""
        return Buckets(self.feasible.lower, self.feasible.upper, bucket_count(self.bucket_width))

    @property
    def validated(self) -> bool:
        """Whether out-of-fold payoff decides how much is corrected."""
        return self.validation is not None

    @property
    def schedule_in_use(self) -> str:
        """The schedule, or where none is given the one that goes with the validation."""
        return self.schedule or ("joint" if self.validated else "frozen")

    def debiasing(self, layout: Layout) -> Debiasing:
        """Return the debiasing that these parameters ask for; those left open are as goes with the validation."""
        few = self.max_rounds is None and self.validated and self.schedule_in_use == "joint"
        return Debiasing(
            layout=layout,
            schedule=self.schedule_in_use,
            alpha=float(self.alpha),
            max_rounds=EVERY_ROUND if few else self.max_rounds,
            shrinkage=0.0 if self.shrinkage is None else float(self.shrinkage),
            min_cell=int(self.min_cell or (MIN_CELL if self.validated else 1)),
        )

    def shrinkages(self, how: Debiasing) -> tuple[float, ...]:
        """Return the shrinkages for cross-validation to choose from."""
        return SHRINKAGES if self.shrinkage is None and how.schedule == "joint" else (how.shrinkage,)

    def check(self) -> None:
        """Validate the parameters; raise ``InputError`` on the first invalid one."""
        require_set(self.feasible)
        require_choice(self.sense, "sense", ["max", "min"])
        require_choice(self.schedule, "schedule", [*SCHEDULES, None])
        require_choice(self.validation, "validation", ["cv", None])
        require_number(self.alpha, "alpha", above=0)
        bucket_count(self.bucket_width)
        if self.max_rounds is not None:
            require_number(self.max_rounds, "max_rounds", at_least=0, whole=True)
        if self.min_cell is not None:
            require_number(self.min_cell, "min_cell", at_least=1, whole=True)
        if self.M is not None:
            require_number(self.M, "M", above=0)
        if self.shrinkage is not None:
            require_number(self.shrinkage, "shrinkage", at_least=0)
            if self.shrinkage > 0 and self.schedule_in_use != "joint":
                given = self.schedule_in_use
                raise InputError(f"shrinkage is for schedule='joint'; got schedule={given!r}. Leave it at 0.")

    def require_enough(self, rows: int) -> None:
        """Refuse to judge out of fold what has too few rows for that."""
        if self.validated and rows < MINIMUM_ROWS:
            raise InputError(
                f"validation={self.validation!r} needs at least {MINIMUM_ROWS} rows; got {rows}: below that nothing "
                "can be judged out of fold. Give more rows, or validation=None for the paper's algorithm, which is "
                "honest only on its fitting rows."
            )
