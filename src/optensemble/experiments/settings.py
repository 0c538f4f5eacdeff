"""The four experiments and the settings of a run; imports nothing heavy, because the command line's help shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from optensemble.exceptions import InputError
from optensemble.stats.sample_size import MINIMUM_ROWS

Trees = Literal["histogram", "exact"]
TREES: tuple[str, ...] = get_args(Trees)

DebiasOn = Literal["held-out", "train"]

FEWEST_ROWS = 10
"""With fewer rows foresight may have nothing to add, and there is nothing to compare."""

_FEWEST_TRAINING_ROWS = 100  # so that every group has some


@dataclass(frozen=True)
class ExperimentDesign:
    """Design of an experiment: members by "label" or by "group", a "risk" limit or "linear" limits, and rounds."""

    members: str
    limits: str
    rounds: int

    def __str__(self) -> str:
        return f"members by {self.members}, {self.limits} {'limit' if self.limits == 'risk' else 'limits'}"


DESIGNS = {
    "A": ExperimentDesign("label", "risk", 5000),
    "B": ExperimentDesign("group", "risk", 5000),
    "C": ExperimentDesign("label", "linear", 5000),
    "D": ExperimentDesign("group", "linear", 8000),
}
NAMES = tuple(DESIGNS)


@dataclass(frozen=True)
class Settings:
    """Settings of a reproduction; ``rounds`` of None is the paper's 5,000, and 8,000 for D."""

    rows: int = 400
    rounds: int | None = None
    seed: int = 42
    noise: float = 0.01
    trees: str = "histogram"
    debias_on: str = "held-out"
    fresh_rows: int = 20_000
    training_rows: int = 10_000
    alpha: float = 0.01
    bucket_width: float = 0.1

    def check(self) -> None:
        """Validate all settings before any work is done; raise ``InputError`` on the first invalid one."""
        from optensemble._core.validation import bucket_count, require_choice, require_number

        require_number(self.rows, "rows", at_least=MINIMUM_ROWS, whole=True)  # DecisionEnsemble takes no fewer
        require_number(self.fresh_rows, "fresh rows", at_least=FEWEST_ROWS, whole=True)
        require_number(self.seed, "seed", at_least=0, whole=True)
        require_number(self.noise, "noise", at_least=0)
        require_number(self.training_rows, "training rows", at_least=_FEWEST_TRAINING_ROWS, whole=True)
        require_number(self.alpha, "alpha", above=0)
        bucket_count(self.bucket_width)
        require_choice(self.trees, "trees", list(TREES))
        require_choice(self.debias_on, "debias-on", list(get_args(DebiasOn)))
        if self.rounds is not None:
            require_number(self.rounds, "rounds", at_least=1, whole=True)
        if self.debias_on == "train" and self.rows > self.training_rows:
            raise InputError(
                f"there are {self.training_rows:,} training rows to debias on; got rows={self.rows:,}. Take fewer, or "
                "rows held out."
            )

    def rounds_of(self, name: str) -> int:
        """Return the largest number of rounds of an experiment."""
        return self.rounds or DESIGNS[name].rounds


@dataclass(frozen=True)
class CurveSettings:
    """Settings of a learning curve: numbers of debiasing rows, rounds of the joint schedule, and time for the run.

    Forty joint rounds correct every cell about as often as the paper's 5,000 rounds of round-robin, 31 turns in A and
    C and 25 in B, and 8,000 in D, 40 turns.
    """

    sizes: tuple[int, ...] = (400, 2_000, 10_000, 50_000, 250_000, 1_000_000)
    joint_rounds: int = 40
    minutes: float = 15.0

    def check(self) -> None:
        """Validate all settings before any work is done; raise ``InputError`` on the first invalid one."""
        from optensemble._core.validation import require_number

        for size in self.sizes:
            require_number(size, "sizes", at_least=MINIMUM_ROWS, whole=True)
        if not self.sizes or list(self.sizes) != sorted(set(self.sizes)):
            given = ", ".join(map(str, self.sizes)) or "none"
            raise InputError(f"sizes must be numbers of rows, ascending; got {given}.")
        require_number(self.joint_rounds, "joint rounds", at_least=1, whole=True)
        require_number(self.minutes, "minutes", above=0)
