"""Sentences about a run; every number comes from the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from optensemble._core.number_format import PERCENT_SIGN, format_number
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    FRESH,
    IN_SAMPLE,
    PAPER_ENSEMBLES,
    RIDGE_STACKING,
    UNCORRECTED,
    WHITE_BOX_ENSEMBLE,
    Outcome,
    PolicyPayoff,
    debiasing_seconds,
)
from optensemble.experiments.run import RECORDED_ROUNDS
from optensemble.experiments.settings import NAMES, CurveSettings, Settings
from optensemble.report.phrases import capitalise, count_of, join_words

PAYOFF_DECIMALS = 2

ABOUT_PAGE = (
    "Several models each know a part of four payoffs. A paper's two algorithms, white box and black box, make one "
    "policy of them; fresh rows test what it promises."
)
ABOUT_PAPER = (
    "The paper is Model Ensembling for Constrained Optimization, by Globus-Harris, Gupta, Kearns and Roth. It corrects "
    "the models' predictions until they are unbiased on the events that matter for the decision. White box then "
    "follows, row by row, the model with the highest self-assessment. Black box knows only the models' actions: it "
    "decides by one model that is corrected on the level sets of all of them."
)
ABOUT_EXPERIMENTS = (
    "In experiments A and C each model predicts one of the payoffs, in B and D one group of the rows. A and B limit "
    "the risk of the decision, C and D have two linear constraints."
)
ABOUT_COLUMNS = (
    "Gap is promised minus realised, on fresh rows with its 95 % interval; if it is positive, the promise was too "
    "high. The normalised payoff (norm %) is 0 for the best initial policy and 100 for foresight. Click a heading to "
    "sort."
)
ABOUT_BARS = (
    "The bars show the normalised payoff, from 0 % for the best initial policy to 100 % for foresight, averaged over "
    "the experiments. The numbers below are in the units of the payoff."
)
ABOUT_SPEED = (
    "The paper reports its running time for experiment A, on another machine: 83 minutes for white box and 3.8 for "
    "black box. Its code solves every row in every round. The seconds here are those of a whole fit, without "
    "compilation. Row-solves avoided are those that solving every row in every round would have needed on top."
)
PAPER_MINUTES = {WHITE_BOX_ENSEMBLE: 83.0, BLACK_BOX_ENSEMBLE: 3.8}
"""Reported by the paper for experiment A."""


def normalised_summary(outcomes: Sequence[Outcome]) -> str:
    """Return the promised and realised payoffs of both algorithms, normalised, in one sentence."""

    def summary_of(name: str) -> str:
        promised, realised = map(format_whole_percent, mean_ways(outcomes, IN_SAMPLE, name))
        fresh = " and ".join(map(format_whole_percent, mean_ways(outcomes, FRESH, name)))
        return f"{name} promised {promised} and realised {realised} in sample, {fresh} on fresh rows"

    average = ", averaged over the experiments" if len(outcomes) > 1 else ""
    return (
        f"Normalised payoff{average}, from 0{PERCENT_SIGN} for the best initial policy to 100{PERCENT_SIGN} for "
        f"foresight: {summary_of(WHITE_BOX_ENSEMBLE)}; {summary_of(BLACK_BOX_ENSEMBLE)}."
    )


def convergence_summary(outcomes: Sequence[Outcome], settings: Settings) -> str:
    """Return where the algorithms converged: only there do the paper's guarantees hold."""
    parts = {}
    for name in PAPER_ENSEMBLES:
        costs = {outcome.name: outcome.cost(name) for outcome in outcomes}
        left = [cost.worst_violation for cost in costs.values() if not cost.converged]
        violation = f" (worst violation left {format_range(left, 2)}, tolerance {settings.alpha:g})" if left else ""
        parts[name] = f"converged {in_which([each for each in costs if costs[each].converged], costs)}{violation}"
    converged = "; ".join(f"{name} {part}" for name, part in parts.items())
    return (
        f"{capitalise(converged)}. Without convergence the paper's guarantees do not hold at this tolerance, not even "
        "in sample."
    )


def in_sample_sentences(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the payoffs of both algorithms in sample, and the error of their promises."""
    sentences = []
    for name in PAPER_ENSEMBLES:
        ways = [outcome.payoff(IN_SAMPLE, name).way for outcome in outcomes]
        promised = [outcome.promised_way(IN_SAMPLE, name) for outcome in outcomes]
        errors = [abs(promise - way) for promise, way in zip(promised, ways, strict=True)]
        error = f"{format_range(errors, 0)}{PERCENT_SIGN}" if max(errors) >= 0.5 else f"less than 1{PERCENT_SIGN}"
        sentences.append(
            f"{promised_and_realised(outcomes, IN_SAMPLE, name)}. Its normalised payoff is {format_range(ways, 0)}"
            f"{PERCENT_SIGN}, and its promise is off by {error}. It realises more than the best initial policy "
            f"{where_better(outcomes, IN_SAMPLE, name, BEST_INITIAL)}."
        )
    return sentences


def fresh_sentences(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the payoffs of both algorithms on fresh rows, the errors of their promises, and the baselines beaten."""
    sentences = []
    for name in PAPER_ENSEMBLES:
        more = [
            f"more than the best initial policy {where_better(outcomes, FRESH, name, BEST_INITIAL)}",
            f"more than ridge stacking of the same models {where_better(outcomes, FRESH, name, RIDGE_STACKING)}",
        ]
        if name == WHITE_BOX_ENSEMBLE:
            more.append(f"more than without any correction {where_better(outcomes, FRESH, name, UNCORRECTED)}")
        promise = f"{promised_and_realised(outcomes, FRESH, name)}: the promise was {_promise_errors(outcomes, name)}"
        sentences.append(f"{promise}. It realises {'; '.join(more)}.")
    return sentences


def speed_summary(outcomes: Sequence[Outcome]) -> str:
    """Return how long debiasing took, and how many row-solves were done and avoided."""
    costs = [outcome.cost(name) for outcome in outcomes for name in PAPER_ENSEMBLES]
    rounds = sum(cost.rounds or 0 for cost in costs)
    done, avoided = sum(cost.row_solves or 0 for cost in costs), sum(cost.avoided or 0 for cost in costs)
    return (
        f"Debiasing took {debiasing_seconds(outcomes):.2f} s in total: {count_of(len(outcomes), 'experiment')}, both "
        f"algorithms, {rounds:,} rounds. {done:,} row-solves were done and {avoided:,} avoided, because only rows "
        "that a round changed are solved again."
    )


def format_payoff(value: float, sign: str = "") -> str:
    """Format a payoff."""
    return format_number(value, PAYOFF_DECIMALS, sign)


def format_whole_percent(value: float) -> str:
    """Format a percentage without decimals."""
    return f"{format_number(value, 0)}{PERCENT_SIGN}"


def format_range(values: Sequence[float], decimals: int, sign: str = "") -> str:
    """Format the smallest and the largest of some numbers.

    >>> format_range([0.31, 0.1, 0.2], 1), format_range([0.31, 0.29], 1)
    ('0.1 to 0.3', '0.3')
    """
    low, high = (format_number(value, decimals, sign) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def promise_error(outcome: Outcome, name: str) -> str:
    """Return the error of a promise on fresh rows, and whether it is significant."""
    line = outcome.payoff(FRESH, name)
    error = f"{abs(line.gap):.2f} ± {line.gap_error:.2f} too {'high' if line.gap > 0 else 'low'}"
    return error if _is_significant(line) else f"{error}, not significant"


def mean_ways(outcomes: Sequence[Outcome], where: str, name: str) -> tuple[float, float]:
    """Return the normalised payoffs promised and realised, averaged over experiments."""
    promised = sum(outcome.promised_way(where, name) for outcome in outcomes) / len(outcomes)
    realised = sum(outcome.payoff(where, name).way for outcome in outcomes) / len(outcomes)
    return promised, realised


def repeat_command(settings: Settings, names: Sequence[str], how: CurveSettings | None = None) -> str:
    """Return the command that repeats a run; ``how`` are the settings of its learning curves, if there are any."""
    words = ["optensemble", "reproduce"]
    if tuple(names) != NAMES:
        words += ["--experiments", ",".join(names)]
    words += _options(asdict(settings), asdict(Settings()), always="seed")
    if how is not None:
        given = {**asdict(how), "sizes": ",".join(map(str, how.sizes))}
        usual = {**asdict(CurveSettings()), "sizes": ",".join(map(str, CurveSettings().sizes))}
        words += ["--learning-curve", *_options(given, usual)]
    return shlex.join(words)


def _options(given: dict[str, Any], usual: dict[str, Any], always: str = "") -> list[str]:
    """Return the words of a command line for settings that are not as usual."""
    told = {key: value for key, value in given.items() if value != usual[key] or key == always}
    return [word for key, value in told.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def run_facts(outcomes: Sequence[Outcome], settings: Settings) -> list[str]:
    """Return how the run was made, with the choices that the paper leaves open."""
    rows = "of the members' own training rows, as published" if settings.debias_on == "train" else "held out"
    return [
        "Data: 19 normal features with a random mean and covariance, a category of five, four labels linear in all of "
        f"them with noise of variance {settings.noise:g}; seed {settings.seed}.",
        f"Members: gradient boosted trees of depth 6, learning rate 0.1 ({settings.trees}), trained on "
        f"{settings.training_rows:,} rows. By label: a member predicts one label, and the mean of the others. By "
        "group: it predicts the rows of one category, and the mean elsewhere.",
        f"Debiasing: on {settings.rows:,} rows {rows}; tolerance {settings.alpha:g}, bucket width "
        f"{settings.bucket_width:g}. Each round corrects one model on one bucket of one coordinate; rounds take these "
        "in turn. Black box starts from the label mean, and ends after a whole turn without a correction.",
        f"Curves and heatmaps: recorded at {RECORDED_ROUNDS} evenly spaced rounds; after the last round of an "
        "algorithm its line continues level.",
        "Best initial policy: the member's policy with the highest payoff in sample. Average, then optimise: the best "
        "action for the mean of all predictions. Ridge stacking: ridge regression of the labels on all predictions, "
        "fitted in sample. White box, uncorrected: the member with the highest self-assessment before any round. "
        "DecisionEnsemble: default settings, fitted in sample. Foresight knows the labels.",
        *(f"Experiment {outcome.name}: {outcome.note}." for outcome in outcomes),
    ]


def promised_and_realised(outcomes: Sequence[Outcome], where: str, name: str) -> str:
    """Return the beginning of a sentence: the payoffs of a policy in every experiment."""
    first, *others = (outcome.payoff(where, name) for outcome in outcomes)
    text = f"{format_payoff(first.promised)} and realised {format_payoff(first.realised)} in {outcomes[0].name}"
    for outcome, line in zip(outcomes[1:], others, strict=True):
        text += f", {format_payoff(line.promised)} and {format_payoff(line.realised)} in {outcome.name}"
    return f"{capitalise(name)} promised {text}"


def _is_significant(line: PolicyPayoff) -> bool:
    return bool(abs(line.gap) > line.gap_error)


def _promise_errors(outcomes: Sequence[Outcome], name: str) -> str:
    lines = {outcome.name: outcome.payoff(FRESH, name) for outcome in outcomes}
    return by_experiment(
        {
            "too high": [each for each, line in lines.items() if _is_significant(line) and line.gap > 0],
            "too low": [each for each, line in lines.items() if _is_significant(line) and line.gap < 0],
            "correct within noise": [each for each, line in lines.items() if not _is_significant(line)],
        }
    )


def by_experiment(groups: dict[str, list[str]]) -> str:
    """Return which finding holds in which experiments.

    >>> by_experiment({"better": ["A", "C"], "worse": ["B"]})
    'better in A and C and worse in B'
    """
    found = {finding: names for finding, names in groups.items() if names}
    if len(found) == 1:
        ((finding, names),) = found.items()
        return f"{finding}{' in every experiment' if len(names) > 1 else ''}"
    return join_words([f"{finding} in {join_words(names)}" for finding, names in found.items()])


def where_better(outcomes: Sequence[Outcome], where: str, name: str, other: str) -> str:
    """Return in which experiments one policy realises more than another, beyond rounding."""
    realised = {o.name: (o.payoff(where, name).realised, o.payoff(where, other).realised) for o in outcomes}
    better = [each for each, (ours, theirs) in realised.items() if ours > theirs + 1e-9 * abs(theirs)]
    return in_which(better, realised)


def in_which(names: Sequence[str], of: Iterable[str]) -> str:
    """Return in which of all experiments something holds.

    >>> in_which(["A"], ["A", "B"]), in_which([], ["A"])
    ('in A but not in B', 'in no experiment')
    """
    others = [name for name in of if name not in names]
    if not names:
        return "in no experiment"
    if not others:
        return "in every experiment" if len(names) > 1 else f"in {names[0]}"
    return f"in {join_words(names)} but not in {join_words(others)}"
