"""Sentences about learning curves; every number comes from the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optensemble._core.number_format import NO_NUMBER, PERCENT_SIGN
from optensemble.experiments import text
from optensemble.experiments.learning_curve.points import (
    METHODS,
    STACKING,
    TRUE_ERRORS,
    TRUE_SHARE,
    CurvePoint,
    LearningCurve,
    first_size,
)
from optensemble.experiments.learning_curve.sweep import left_out
from optensemble.experiments.outcome import DECISION_ENSEMBLE, PAPER_ENSEMBLES, RIDGE_STACKING
from optensemble.experiments.settings import CurveSettings, Settings
from optensemble.report.phrases import capitalise, join_words

Holds = Callable[[CurvePoint], bool]

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


def size_text(size: int | None) -> str:
    """Return the number of rows from which on something holds."""
    return NO_NUMBER if size is None else f"{size:,}"


def from_which_size(curves: Sequence[LearningCurve], method: tuple[str, str], holds: Holds | None = None) -> str:
    """Return from how many rows on the promises of a method are true, or something else holds, in each experiment."""
    sizes: dict[str, list[str]] = {}
    for curve in curves:
        size = first_size(curve.line(*method), holds or curve.is_true)
        found = "with none of these numbers of rows" if size is None else f"from {size:,} rows on"
        sizes.setdefault(found, []).append(curve.name)
    return text.by_experiment(sizes)


def promise_sentences(curves: Sequence[LearningCurve]) -> list[str]:
    """Return from how many rows on each method's promises are true, and what it realises with the most rows."""
    sentences = []
    for method in fitted_methods(curves):
        ends = [(curve, curve.line(*method)[-1]) for curve in curves]
        most = join_words(sorted({f"{end.rows:,}" for _, end in ends}))
        payoffs = ", ".join(
            f"{text.format_payoff(end.promised)} and {text.format_payoff(end.realised)} in {curve.name}"
            for curve, end in ends
        )
        sentences.append(
            f"{_sentence_start(*method)}: promises are true {from_which_size(curves, method)}. With {most} rows it "
            f"promises and realises {payoffs}."
        )
    return sentences


def bound_sentence(curves: Sequence[LearningCurve]) -> str:
    """Return from how many rows on the paper's guarantees hold on fresh rows, and how wide they are."""
    methods = [method for method in fitted_methods(curves) if method[0] in PAPER_ENSEMBLES]
    if not methods:
        return ""
    parts = [
        f"{method_name(*method)} {from_which_size(curves, method, lambda point: point.within_gap_bound)}, its regret "
        f"{from_which_size(curves, method, lambda point: point.within_regret_bound)}"
        for method in methods
    ]
    ratios = [
        point.gap_bound / curve.foresight for curve in curves for method in methods for point in curve.line(*method)
    ]
    unfinished = [
        f"{method_name(*method)} in {curve.name} with {point.rows:,}"
        for method in methods
        for curve in curves
        for point in curve.line(*method)
        if not point.converged
    ]
    count = sum(len(curve.line(*method)) for curve in curves for method in methods)
    return (
        f"The promise is within the paper's bound on fresh rows: {'; '.join(parts)}. But the bound is wide: "
        f"{text.format_range(ratios, 1)} times all that foresight earns. {len(unfinished)} of {count} fits did not "
        "converge within their rounds."
    )


def ridge_sentence(curves: Sequence[LearningCurve]) -> str:
    """Return which methods realise more than ridge stacking, with the most rows they were fitted on."""
    parts = []
    for method in fitted_methods(curves):
        if method[0] == RIDGE_STACKING:
            continue
        better = [curve.name for curve in curves if _beats_ridge(curve, method)]
        parts.append(f"{method_name(*method)} {text.in_which(better, [curve.name for curve in curves])}")
    return f"More than ridge stacking of as many rows is realised by {'; '.join(parts)}." if parts else ""


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


def _sentence_start(policy: str, stage: str) -> str:
    return capitalise(method_name(policy, stage))


def _beats_ridge(curve: LearningCurve, method: tuple[str, str]) -> bool:
    end = curve.line(*method)[-1]
    ridge = {point.rows: point for point in curve.line(RIDGE_STACKING, STACKING)}
    return end.rows in ridge and end.realised > ridge[end.rows].realised
