"""How far a fit has come, told to whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from optensemble.exceptions import InputError

Progress = Callable[[str, float], None]
"""Is told the name of a stage and the share of it that is done, above 0 and at most 1."""

Step = Callable[[], None]
"""Is called when one more step of a stage is done."""


STAGES = ("asking members", "cross-fitting", "patching", "choosing", "verifying")
"""Of a fit of DecisionEnsemble, in order."""


def silent(*told: object) -> None:
    """Tell nobody of a stage, or of a step."""


def as_progress(given: Any) -> Progress:
    """Return who is to be told; nobody of None."""
    if given is None:
        return silent
    if not callable(given):
        raise InputError(
            f"progress must be a callable progress(stage, share), or None; got {type(given).__name__}. "
            "Give a function of a text and a number."
        )
    told: Progress = given
    return told


@dataclass
class Stage:
    """One stage of a fit, in so many steps at most: each is told when it is done, and at the end that all is.

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

    def __call__(self) -> None:
        """Tell that one more step is done; the last waits for the end of the stage."""
        self.done += 1
        if self.done < self.steps:
            self.progress(self.name, self.done / self.steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            self.progress(self.name, 1.0)
