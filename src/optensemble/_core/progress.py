"""Progress of a fit: stages, steps, and the callback that is told of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from optensemble.exceptions import InputError

Progress = Callable[[str, float], None]
"""Called with the name of a stage and the share of it that is done, above 0 and at most 1."""

Step = Callable[[], None]
"""Is called when one more step of a stage is done."""


STAGES = ("asking members", "cross-fitting", "patching", "choosing", "verifying")
"""Of a fit of DecisionEnsemble, in order."""


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
