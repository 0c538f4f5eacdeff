"""Progress of a fit: stages, steps, the callback that is told of them, and the share of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from optensemble.exceptions import InputError

Progress = Callable[[str, float], None]
"""Called with the name of a stage and the share of it that is done, above 0 and at most 1."""

Step = Callable[[], None]
"""Is called when one more step of a stage is done."""


DECISION_STAGES = {
    "fitting members": 300,
    "asking members": 10,
    "cross-fitting": 30,
    "patching": 15,
    "choosing": 15,
    "verifying": 30,
}
"""The stages of a fit of DecisionEnsemble, in order, and about how much of its time each takes, in percent."""

PAPER_STAGES = {"fitting members": 100, "asking members": 5, "cross-validating": 80, "cross-fitting": 15}
"""Those of a white or black box: it is cross-validated, or cross-fitted afterwards."""

STAGES = tuple(name for name in DECISION_STAGES if name != "fitting members")
"""Those that every fit has."""


def silent(*_: object) -> None:
    """Report nothing."""


def as_progress(given: Any) -> Progress:
    """Return the callback; one that reports nothing for None."""
    if given is None:
        return silent
    if not callable(given):
        raise InputError(
            f"progress must be a callable progress(stage, share), or None; got {type(given).__name__}. "
            "Give a function of a text and a number."
        )
    callback: Progress = given
    return callback


@dataclass
class Stage:
    """One stage of a fit, of at most ``steps``: each is reported when it is done, and the end as a whole.

    >>> with Stage(print, "patching", 4) as step:
    ...     step()
    ...     step()
    patching 0.25
    patching 0.5
    patching 1.0
    """

    progress: Progress
    name: str
    steps: int
    done: int = 0

    def __call__(self, steps: int = 1) -> None:
        """Report one more step, or several; the last waits for the end of the stage."""
        self.reach(self.done + steps)

    def reach(self, done: int) -> None:
        """Report that ``done`` steps are done, if that is more than before: some may have turned out to be needless."""
        if self.done < done < self.steps:
            self.progress(self.name, done / self.steps)
        self.done = max(self.done, done)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            self.progress(self.name, 1.0)


@dataclass
class Overall:
    """The share of the whole that is done, from the shares of its stages; it never falls.

    ``weights`` has the stages in order, and about how long each takes. A stage that is passed over counts for nothing.

    >>> whole = Overall({"reading": 1, "mending": 2, "deciding": 3})
    >>> whole("reading", 0.5), whole("reading", 1.0), whole("deciding", 0.5), whole("deciding", 1.0)
    (0.08333333333333333, 0.16666666666666666, 0.625, 1.0)
    """

    weights: Mapping[str, float]
    share: float = 0.0
    begun: set[str] = field(default_factory=set)

    def __call__(self, stage: str, share: float) -> float:
        """Return the share of the whole, when so much of a stage is done."""
        if stage in self.weights:
            self.begun.add(stage)
            names = list(self.weights)
            place = names.index(stage)
            before = sum(self.weights[name] for name in names[:place] if name in self.begun)
            total = before + sum(self.weights[name] for name in names[place:])
            self.share = max(self.share, (before + self.weights[stage] * min(share, 1.0)) / total)
        return self.share
