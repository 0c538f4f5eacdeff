"""What a LiveEnsemble is made with: the fit that it goes on from, when to fit again, and what to play."""

from __future__ import annotations

import warnings
from typing import Any

from optensemble._core.validation import require_choice, require_number
from optensemble.ensembles._live_policies import FITTED, ONLINE, REFITTED
from optensemble.ensembles.base import DECISION, Policy
from optensemble.exceptions import InputError, RefitWarning
from optensemble.members.sources import RowSource
from optensemble.stats.sample_size import MINIMUM_ROWS

CALL, THREAD, BACKGROUND, ASKED = "call", "thread", "background", "asked"
PLAYS, REFIT_IN = ["auto", "mixture", "heaviest"], [CALL, THREAD, BACKGROUND, ASKED]


def fewest_kept(fit: Policy) -> int:
    """Return the smallest window: fewer rows could not be fitted on."""
    return MINIMUM_ROWS if fit.kind == DECISION else 1


def require_recorded(refit_in: str, log: Any) -> None:
    """Refuse refits that take over at a moment that nothing records."""
    if refit_in == BACKGROUND and log is None:
        raise InputError(
            f"refit_in={BACKGROUND!r} needs a log, which tells when a refit took over. Give log='decisions.db', or use "
            f"refit_in={THREAD!r}, which takes over after a fixed number of decisions."
        )


def unit_of(fit: Policy) -> float:
    """Return what a weight of 1 is among the rows fitted on, whose weights are then 1 on average; 1 without weights."""
    return (fit.record_.weighing if fit.has_record else 0.0) or 1.0


def names_of_policies(refit: Any) -> tuple[str, ...]:
    """Return the names of the policies that are followed."""
    return (FITTED, ONLINE) if refit == "never" else (FITTED, REFITTED, ONLINE)


def as_fitted(ensemble: Any) -> Policy:
    """Return a fitted ensemble as it stands: what becomes of the user's own does not matter."""
    if not isinstance(ensemble, Policy):
        raise InputError(
            "LiveEnsemble needs a fitted DecisionEnsemble, WhiteBoxEnsemble or BlackBoxEnsemble; got "
            f"{type(ensemble).__name__}. Fit one on past rows first."
        )
    ensemble._require_fitted()
    return ensemble._as_it_stands()


def as_refit(refit: Any, fit: Policy) -> Any:
    """Return when to refit; never, with a warning, where that was left open and there are no rows to go on from."""
    if isinstance(refit, str):
        require_choice(refit, "refit", ["auto", "never"])
    elif not callable(refit):
        try:
            require_number(refit, "refit", at_least=1, whole=True)
        except InputError as error:
            raise InputError(f"{error} It may also be 'auto', 'never' or a callable.") from None
    if refit == "never" or not (why := _why_not_again(fit)):
        return refit
    if refit != "auto":
        raise InputError(f"{why}: it cannot be fitted again. Give refit='never', or fit it on all rows first.")
    warnings.warn(f"{why}: it will not be refitted while it decides (refit='never').", RefitWarning, stacklevel=3)
    return "never"


def _why_not_again(fit: Policy) -> str:
    """Return why an ensemble cannot be fitted again on its rows and further ones; empty if it can."""
    if not fit._kept_rows:
        return getattr(fit, "_no_rows", "this ensemble does not know the rows that it was fitted on")
    if any(isinstance(batch.X, RowSource) and batch.weights is not None for batch in fit._kept_rows):
        return "the rows of the fit are read from files and have weights, which later ones are not read with"
    return ""


def as_mixing(play: str, fit: Policy) -> bool:
    """Return whether mixtures of actions are played."""
    convex: bool = fit.feasible_.convex
    if play == "mixture" and not convex:
        raise InputError(
            f"play='mixture' needs a convex set, and a mixture of actions of {fit.feasible_!r} need not be one of its "
            "actions. Use play='heaviest', which plays the policy with the largest weight, or 'auto'."
        )
    return convex if play == "auto" else play == "mixture"
