"""Sentences about learning curves; every number comes from the run."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble._core.number_format import PERCENT_SIGN
from optensemble.experiments import text
from optensemble.experiments.learning_curve.points import (
    METHODS,
    STACKING,
    TRUE_ERRORS,
    TRUE_SHARE,
    LearningCurve,
    first_size,
)
from optensemble.experiments.learning_curve.sweep import left_out
from optensemble.experiments.outcome import DECISION_ENSEMBLE, PAPER_ENSEMBLES, RIDGE_STACKING
from optensemble.experiments.settings import CurveSettings, Settings
from optensemble.report.phrases import capitalise, join_words

TRUE_PROMISE = (
    f"A promise counts as true if it is off by at most {100 * TRUE_SHARE:g}{PERCENT_SIGN} of foresight's payoff, or by "
    f"at most {TRUE_ERRORS:g} standard errors of the fresh rows"
)
ABOUT_CURVE = (
    "The same experiments with ever more debiasing rows, each drawn anew; members and fresh rows stay the same. "
    "Promised is the policy's own forecast of its mean payoff on the fresh rows: for white box, black box and ridge "
    "stacking the raw self-assessment of the actions taken, for DecisionEnsemble its promise with a 95 % interval."
)
ABOUT_BOUNDS = (
    "The bounds are the paper's guarantees, which it gives for the debiasing rows: of |promised − realised| (Lemma 7, "
    "for black box Corollary 1), and of what the best swap of corrected models (Lemma 9), or the best given policy "
    "(Lemma 4), would have realised beyond the ensemble. They are the general form, with the largest label and the "
    "largest prediction found in fitting; where a fit has not converged, the paper guarantees nothing."
)


def method_name(policy: str, stage: str) -> str:
    """Return the name of a policy with its schedule.

    >>> method_name("white box", "joint"), method_name("ridge stacking", "stacking")
    ('white box, joint', 'ridge stacking')
    """
    return policy if stage == STACKING else f"{policy}, {stage}"


def fitted_methods(curves: Sequence[LearningCurve]) -> list[tuple[str, str]]:
    """Return the methods of which there are points in every experiment."""
    return [method for method in METHODS if all(curve.line(*method) for curve in curves)]


def from_which_size(curves: Sequence[LearningCurve], method: tuple[str, str]) -> str:
    """Return from how many rows on the promises of a method are true in each experiment."""
    names: dict[int | None, list[str]] = {}
    for curve in curves:
        names.setdefault(first_size(curve.line(*method), curve.is_true), []).append(curve.name)
    found = {f"from {size:,} rows on": names[size] for size in sorted(size for size in names if size)}
    if None in names:
        found["with no number of rows tried"] = names[None]
    return "; ".join(f"{size} in {join_words(where)}" for size, where in found.items())


def promise_sentences(curves: Sequence[LearningCurve]) -> list[str]:
    """Return from how many rows on each method's promises are true, and what it realises with the most rows."""
    return [
        f"{capitalise(method_name(*method))}: the promise is true {from_which_size(curves, method)}. "
        f"{_at_the_end(curves, method)}."
        for method in fitted_methods(curves)
    ]


def _at_the_end(curves: Sequence[LearningCurve], method: tuple[str, str]) -> str:
    ends = {curve.name: curve.line(*method)[-1] for curve in curves}
    payoffs = [
        f"{text.format_payoff(end.promised)} promised and {text.format_payoff(end.realised)} realised in {name}"
        for name, end in ends.items()
    ]
    return f"With {join_words(sorted({f'{end.rows:,}' for end in ends.values()}))} rows: {', '.join(payoffs)}"


def bound_sentence(curves: Sequence[LearningCurve]) -> str:
    """Return how many fits keep the paper's guarantees on fresh rows, and how wide these are."""
    points = [
        (curve, point)
        for curve in curves
        for method in fitted_methods(curves)
        if method[0] in PAPER_ENSEMBLES
        for point in curve.line(*method)
    ]
    if not points:
        return ""
    gaps, regrets = sum(point.within_gap_bound for _, point in points), sum(p.within_regret_bound for _, p in points)
    ratios = [point.gap_bound / abs(curve.foresight) for curve, point in points]
    converged = sum(bool(point.converged) for _, point in points)
    return (
        f"On fresh rows the promise is within the paper's bound in {gaps} of {len(points)} fits, and the regret in "
        f"{regrets}. But the bound of the promise alone is {text.format_range(ratios, 1)} times all that foresight "
        f"earns. {converged} of the fits converged in the rounds they had; to the others the paper promises nothing."
    )


def ridge_sentence(curves: Sequence[LearningCurve]) -> str:
    """Return where the methods realise more than ridge stacking, with the most rows they were fitted on."""
    parts = []
    for method in fitted_methods(curves):
        if method[0] != RIDGE_STACKING:
            better = [curve.name for curve in curves if _beats_ridge(curve, method)]
            parts.append(f"{method_name(*method)} {text.in_which(better, [curve.name for curve in curves])}")
    return f"With the most rows, more than ridge stacking of them is realised by {'; '.join(parts)}." if parts else ""


def interval_sentence(curves: Sequence[LearningCurve]) -> str:
    """Return how many of DecisionEnsemble's promised intervals were kept."""
    points = [point for curve in curves for point in curve.line(DECISION_ENSEMBLE, STACKING)]
    kept = sum(point.interval_kept for point in points)
    return f"{DECISION_ENSEMBLE} kept {kept} of {len(points)} promised intervals."


def left_out_sentence(curves: Sequence[LearningCurve], how: CurveSettings) -> str:
    """Return what was left out for lack of time, if anything."""
    parts = [
        f"{stage} with {join_words([f'{size:,}' for size in sizes])} rows"
        for stage, sizes in left_out(curves, how.sizes).items()
    ]
    if not parts:
        return f"Nothing was left out for lack of time ({how.minutes:g} minutes)."
    return f"Left out, because it would not have fitted into {how.minutes:g} minutes: {'; '.join(parts)}."


def curve_facts(settings: Settings, how: CurveSettings) -> str:
    """Return how the curves were made."""
    return (
        f"{settings.fresh_rows:,} fresh rows; tolerance {settings.alpha:g}, bucket width {settings.bucket_width:g}; at "
        f"most {how.joint_rounds:,} joint rounds, each of which corrects all models on all cells, and as many rounds "
        "of round-robin as above."
    )


def summary_lines(curves: Sequence[LearningCurve], how: CurveSettings) -> list[str]:
    """Return all findings."""
    found = [*promise_sentences(curves), ridge_sentence(curves), bound_sentence(curves), interval_sentence(curves)]
    return [sentence for sentence in (*found, left_out_sentence(curves, how)) if sentence]


def _beats_ridge(curve: LearningCurve, method: tuple[str, str]) -> bool:
    end = curve.line(*method)[-1]
    ridge = {point.rows: point for point in curve.line(RIDGE_STACKING, STACKING)}
    return end.rows in ridge and end.realised > ridge[end.rows].realised
